// Memory of this process and this machine. In: /proc and the control group's files. Out: the available bytes, and the process's peak. Invariant: the
// peak is of the proportional set size (a page mapped many times counts once), never of the resident set, which counts the aliases of one page each.
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { memoryUsage } from 'node:process'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { attempt } from '../errors/exceptions'
import { startedBy } from '../ranks/engine'
import { groupRooms, type Reader } from './groups'

const read = (path: string): string | undefined => attempt(() => readFileSync(path, 'utf8'))
/** The value in bytes of a `Name:   123 kB` line. */
export const kibLine = (text: string | undefined, name: string): number | undefined => {
  const m = text && new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)
  return m ? Number(m[1]) * 1024 : undefined
}

// ---------------------------------------------------------------- what is there to take

/** Bytes available to a device of this process: the least free memory of the machine and of each control group above. */
export const availableBytes = (from: Reader = read): number =>
  Math.min(kibLine(from('/proc/meminfo'), 'MemAvailable') ?? totalmem(), ...groupRooms(from))

/** The process's own memory beside the device: Node, libraries, kernels' code. */
const OWN_BYTES = 512 * 1024 ** 2
/** The part of it that a training process uses: an estimate; it is 84 to 166 MiB in `npm run bench -- memory`. */
export const CODE_BYTES = 160 * 1024 ** 2
/** Several processes that train together have equal shares of their machine's memory. */
export const deviceBytes = (
  { ranks = 1 }: { readonly ranks?: number | undefined } = {},
  env = process.env,
  from: Reader = read,
): number => {
  const here = ranks > 1 ? (startedBy(env)?.here ?? 1) : 1
  return Math.max(PAGE_BYTES, bytesOf(pagesIn(availableBytes(from) / here - OWN_BYTES)))
}

// ---------------------------------------------------------------- what we take

/** Growth of the heap that is worth a full collection, which takes 20 to 50 ms for a small heap. */
const WORTH_COLLECTING = 32 * 1024 ** 2
let heapAfterCollection = 0
/** A process of many short runs need not be small, or measured closely: the tests leave collections to V8 and take few samples. */
const COLLECTS = process.env['SPILLWAY_COLLECT'] !== '0'

/**
 * Collects all garbage now, if the heap has grown by half since the last time: garbage of planning would otherwise stay in the process beside
 * the device's memory. A collection takes time in proportion to the heap that remains.
 */
export const collectGarbage = (): void => {
  if (!COLLECTS || memoryUsage().heapUsed - heapAfterCollection < Math.max(WORTH_COLLECTING, heapAfterCollection / 2)) return
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  heapAfterCollection = memoryUsage().heapUsed
}

/** Change of the resident set that is worth a new sample of the proportional one: the kernel walks all page tables for it. */
const WORTH_SAMPLING = (COLLECTS ? 4 : 64) * 1024 ** 2
let sample = { resident: 0, proportional: 0 }

/** The proportional set size; a resident set of nearly the size of the last sample has that sample's. */
const proportionalBytes = (): number => {
  const resident = memoryUsage.rss()
  if (Math.abs(resident - sample.resident) < WORTH_SAMPLING) return sample.proportional
  sample = { resident, proportional: kibLine(read('/proc/self/smaps_rollup'), 'Pss') ?? resident }
  return sample.proportional
}

/** The most that tools such as top have shown of this process: they count a page once for each address that it has. */
export const shownPeakBytes = (): number => kibLine(read('/proc/self/status'), 'VmHWM') ?? process.resourceUsage().maxRSS * 1024

const FIRST_SAMPLE_MS = 50

/**
 * Samples the proportional set size until stopped. The kernel walks all page tables for one sample, and on the cpu device
 * kernels stand still meanwhile: samples are spaced to take at most one part in five hundred of the time. Pages of the device
 * are never given back during a run, so little can hide between two samples.
 */
export class PeakMemory {
  private peak = 0
  private timer: NodeJS.Timeout | undefined

  start(): this {
    this.sampleIn(FIRST_SAMPLE_MS)
    return this
  }

  private sampleIn(ms: number): void {
    this.timer = setTimeout(() => {
      const t0 = performance.now()
      this.bytes()
      this.sampleIn(Math.max(FIRST_SAMPLE_MS, 500 * (performance.now() - t0)))
    }, ms)
    this.timer.unref()
  }

  /** The largest sample so far, with one taken now. */
  bytes(): number {
    this.peak = Math.max(this.peak, proportionalBytes())
    return this.peak
  }

  /** Takes no sample: `bytes` has taken the last one. */
  stop(): void {
    clearTimeout(this.timer)
  }
}
