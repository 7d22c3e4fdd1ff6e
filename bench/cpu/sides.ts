// The two sides of a comparison as processes that take a step on request, and the totals of their samples. In: a case; PyTorch's mode. Out: medians
// of samples. Invariant: samples during which a neighbour took more than a tenth of a core are dropped, on both sides alike.
import { cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { loadNative } from '../../src/device/native'
import { median, ROOT } from '../sides'
import type { Case } from './cases'
import { Talker } from './process'

export interface Options {
  readonly python: string
  readonly threads: number
  readonly rounds: number
  /** Keep samples of a busy machine, too. */
  readonly keepBusy: boolean
  readonly modes: readonly string[]
  /** A folder for the files of this run. */
  readonly folder: string
  /** Another checkout to compare with. */
  readonly before?: string | undefined
}

const BUSY_CORES = 0.1

/** An allocator that keeps its memory, in huge pages: the advice for PyTorch's users. */
export const TUNED = {
  GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296',
}
interface Mode {
  readonly mode: string
  readonly env: Readonly<Record<string, string>>
  /** Beyond PyTorch's defaults. */
  readonly best: boolean
}
/** PyTorch's ways: a mode of peer.py and an environment. */
export const MODES: Readonly<Record<string, Mode>> = {
  plain: { mode: 'plain', env: {}, best: false },
  'channels-last': { mode: 'channels-last', env: {}, best: false },
  tuned: { mode: 'channels-last', env: TUNED, best: true },
  compiled: { mode: 'compiled', env: TUNED, best: true },
}

// ---------------------------------------------------------------- processes

/** The output of our side when its session is open. */
export interface Opening {
  readonly peakBytes: number
  readonly predictedSeconds: number
  readonly predictedComputeSeconds: number
  readonly predictedStallSeconds: number
  /** The seconds of the step's calls on the null device, whose kernels only check: their cost before they compute. */
  readonly dispatchSeconds: number
  /** The process before its session. */
  readonly baseBytes: number
  readonly parameterBytes: number
  readonly strategy: string
  /** Arithmetic in tiles over untiled. */
  readonly haloRatio: number
}
export interface OurStep {
  readonly seconds: number
  /** The fastest of the request's steps. */
  readonly quickestSeconds: number
  /** True if the profile would learn from one of them. */
  readonly hadQuiet: boolean
  readonly kernelSeconds: number
  readonly recomputeSeconds: number
  readonly stallMemorySeconds: number
  readonly stallDataSeconds: number
  readonly bytesOut: number
  readonly bytesIn: number
  readonly secondsByKind: Readonly<Record<string, number>>
  readonly memoryBytes: number
}
export interface PeerStep {
  readonly seconds: number
  readonly memoryBytes: number
}

/** A script of this folder, in this checkout or in another one, as a process. */
export const script = (name: string, args: readonly string[], root = ROOT, env: Mode['env'] = {}): Talker =>
  new Talker('node', ['-r', join(root, 'scripts/testing/typescript.js'), join(root, 'bench/cpu', name), ...args], env)

export const ours = (c: Case, o: Options, graphFile = '', root = ROOT): Talker =>
  script('worker.ts', [JSON.stringify(c), String(o.threads), graphFile], root)

export const peer = (mode: string, o: Options, graphFile: string, env: Mode['env'] = {}): Talker =>
  new Talker(o.python, [join(__dirname, 'peer.py'), graphFile, mode, String(o.threads)], env)

// ---------------------------------------------------------------- samples

/** Processor time of the request. */
export interface Cpu {
  readonly cpuSeconds: number
}
export interface Samples<S> {
  readonly kept: (S & Cpu)[]
  dropped: number
}
export const noSamples = <S>(): Samples<S> => ({ kept: [], dropped: 0 })

/** `all` keeps disturbed samples, too. */
export const sample = async <S>(who: Talker, into: Samples<S>, o: Options, all?: Samples<S>): Promise<void> => {
  const { answer, othersCores, cpuSeconds } = await who.ask<S>('step')
  all?.kept.push({ ...answer, cpuSeconds })
  if (othersCores > BUSY_CORES && !o.keepBusy) into.dropped++
  else into.kept.push({ ...answer, cpuSeconds })
}

export { median }
export const geomean = (xs: readonly number[]): number => Math.exp(xs.reduce((n, x) => n + Math.log(x), 0) / xs.length)

export const cpuOf = (s: Samples<unknown>): number => median(s.kept.map((x) => x.cpuSeconds))
export const millisecondsByKind = (s: Samples<OurStep>): Readonly<Record<string, number>> => {
  const kinds = Object.keys(s.kept[0]!.secondsByKind)
  const medians = kinds.map((k): [string, number] => [k, median(s.kept.map((x) => x.secondsByKind[k] ?? 0)) * 1000])
  return Object.fromEntries(medians.sort((a, b) => b[1] - a[1]))
}
export const secondsOf = (s: Samples<{ readonly seconds: number }>): number => median(s.kept.map((x) => x.seconds))
export const memoryOf = (s: Samples<{ readonly memoryBytes: number }>): number => Math.max(...s.kept.map((x) => x.memoryBytes))

/** Refuses a median of hardly anything. */
export const enough = (what: string, s: Samples<unknown>, least = 3): void => {
  if (s.kept.length < least) throw new Error(`${what}: only ${s.kept.length} quiet samples, ${s.dropped} dropped`)
}

/** Steps of all sides in turns, after a warm-up; each side needs enough quiet ones. */
export const inTurns = async <Steps extends object>(
  what: string,
  talkers: { readonly [Name in keyof Steps]: Talker },
  warmUp: number,
  o: Options,
): Promise<{ readonly [Name in keyof Steps]: Samples<Steps[Name]> }> => {
  const sides = Object.entries<Talker>(talkers).map(([name, talker]) => ({ name, talker, samples: noSamples<unknown>() }))
  for (const { talker } of sides) for (let i = 0; i < warmUp; i++) await talker.ask('step')
  for (let round = 0; round < o.rounds; round++) for (const { talker, samples } of sides) await sample(talker, samples, o)
  for (const { name, samples } of sides) enough(`${what}, ${name}`, samples)
  return Object.fromEntries(sides.map(({ name, samples }) => [name, samples])) as { [Name in keyof Steps]: Samples<Steps[Name]> }
}

export const machineFacts = (o: Options) => ({
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  threads: o.threads,
  memoryBytes: totalmem(),
  kernel: release(),
  node: process.version,
  oneDnn: loadNative().deviceInfo().oneDnn,
  load: loadavg()[0],
})
