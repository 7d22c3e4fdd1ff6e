// Memory of this process and this machine. In: /proc and the control group's files. Out: what may still be taken, and the
// process's peak. Invariant: the peak is of the proportional set size (a page mapped many times counts once), never of the
// resident set, which counts the aliases of one page each.
import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { attempt } from '../errors/exceptions'

const read = (path: string): string | undefined => attempt(() => readFileSync(path, 'utf8'))
const numberIn = (path: string): number | undefined => {
  const n = Number(read(path)?.trim() || 'none')
  return Number.isFinite(n) ? n : undefined
}

/** The value in bytes of a `Name:   123 kB` line. */
export const kibLine = (text: string | undefined, name: string): number | undefined => {
  const m = text && new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)
  return m ? Number(m[1]) * 1024 : undefined
}

// ---------------------------------------------------------------- what is there to take

const CGROUP = '/sys/fs/cgroup'

/** Free bytes of a control group: its limit less what it holds and cannot drop. Undefined when it has no limit. */
const groupRoom = (limitFile: string, usageFile: string, statFile: string, inactive: string): number | undefined => {
  const limit = numberIn(limitFile)
  const usage = numberIn(usageFile)
  if (limit === undefined || usage === undefined || limit >= 2 ** 60) return undefined
  const droppable = Number(new RegExp(`^${inactive} (\\d+)$`, 'm').exec(read(statFile) ?? '')?.[1] ?? 0)
  return Math.max(0, limit - usage + droppable)
}

const ownGroup = (): string => /^0::(\/.*)$/m.exec(read('/proc/self/cgroup') ?? '')?.[1] ?? '/'

/** Bytes that a device of this process may take: the least of what the machine and each control group above us have left. */
export const availableBytes = (): number => {
  const rooms: (number | undefined)[] = [kibLine(read('/proc/meminfo'), 'MemAvailable') ?? totalmem()]
  for (let group = ownGroup(); ; group = join(group, '..')) {
    const at = (f: string): string => join(CGROUP, group, f)
    rooms.push(groupRoom(at('memory.max'), at('memory.current'), at('memory.stat'), 'inactive_file'))
    if (group === '/') break
  }
  const v1 = (f: string): string => join(CGROUP, 'memory', f)
  rooms.push(groupRoom(v1('memory.limit_in_bytes'), v1('memory.usage_in_bytes'), v1('memory.stat'), 'total_inactive_file'))
  return Math.min(...rooms.filter((r): r is number => r !== undefined))
}

/** What the process itself takes beside the device: Node, libraries, kernels' code. */
const OWN_BYTES = 512 * 1024 ** 2
export const deviceBytes = (): number => Math.max(PAGE_BYTES, bytesOf(pagesIn(availableBytes() - OWN_BYTES)))

// ---------------------------------------------------------------- what we take

/** Collects all garbage now: what planning left would otherwise stay in the process beside the device's memory. */
export const collectGarbage = (): void => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}

const proportionalBytes = (): number | undefined => kibLine(read('/proc/self/smaps_rollup'), 'Pss')

/** The most that tools such as top have shown of this process: they count a page once for each address that it has. */
export const shownPeakBytes = (): number => kibLine(read('/proc/self/status'), 'VmHWM') ?? process.resourceUsage().maxRSS * 1024

/**
 * Samples the proportional set size until stopped. The kernel walks all page tables for one sample, and on the cpu device
 * kernels stand still meanwhile: samples are spaced to take at most one part in five hundred of the time. Pages of the device
 * are never given back during a run, so little can hide between two samples.
 */
export class PeakMemory {
  private peak = 0
  private timer: NodeJS.Timeout | undefined

  start(): this {
    this.sample()
    return this
  }

  private sample(): void {
    const t0 = performance.now()
    this.bytes()
    const cost = performance.now() - t0
    this.timer = setTimeout(() => this.sample(), Math.max(50, 500 * cost))
    this.timer.unref()
  }

  /** The largest sample so far, with one taken now. */
  bytes(): number {
    this.peak = Math.max(this.peak, proportionalBytes() ?? process.memoryUsage().rss)
    return this.peak
  }

  stop(): number {
    clearTimeout(this.timer)
    return this.bytes()
  }
}
