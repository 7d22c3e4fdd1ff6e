// The calls of in-core steps beside the least time that the processor allows. In: cases; the peaks that peaks.cpp measures. Out: for each kind of
// call its time, its rate and the ratio to that bound, and the calls that lose most. A call's bound is its arithmetic at the peak rate, or the time
// of its bytes, if that is longer. Bytes are read from memory or the last cache. 3x3 convolutions at stride 1 count a quarter of their products,
// the number of Winograd's F(4x4,3x3). Invariant: all peaks are measured; each time is the least of several quiet steps.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { dtypeBytes, isPersistent } from '../../staging/graph/graph'
import { inputDef, outputDef } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { callShapes } from '../../staging/plan/callcosts'
import type { Call, Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { loadNative } from '../../src/device/native'
import { type Case, sized, stagedCase } from './cases'
import { compared, type Group } from './plot'
import type { Options } from './sides'

/** Rates a second, on all threads of the run. */
export interface Peaks {
  readonly flops: number
  /** 0: no instruction for products of bf16. */
  readonly bf16Flops: number
  readonly readBytes: number
  readonly cachedBytes: number
  readonly writtenBytes: number
  readonly cacheBytes: number
}

interface Work {
  readonly seconds: number
  readonly boundSeconds: number
  readonly flops: number
  readonly bytes: number
}
interface Named extends Work {
  readonly name: string
  readonly calls: number
}
export interface Roofline {
  readonly name: string
  readonly peaks: Peaks
  readonly secondsPerStep: number
  readonly boundSeconds: number
  /** Measured over bound. */
  readonly ratio: number
  readonly kinds: readonly Named[]
  /** Those that lose most to their bounds, equal calls together. */
  readonly worst: readonly Named[]
}

const inBoth = (c: Case): readonly Case[] => [c, { ...c, name: `${c.name} in bf16`, precision: 'bf16' }]

export const ROOFLINES: readonly Case[] = [
  sized('resnet50', 8, 224),
  sized('densenet121', 4, 224),
  sized('mobilenetv2', 8, 224),
  sized('convnext-tiny', 2, 224),
  sized('vgg16-features', 1, 512),
  sized('hrnet-w18', 1, 224),
  sized('resnext50-32x4d', 2, 128),
].flatMap(inBoth)

const REQUESTS = 4
const STEPS = 3
const MOST_REQUESTS = 40
const WORST = 8
/** The share of the last cache that a step's values keep. The rest holds code, stacks and neighbours. */
const KEPT = 7 / 8

export const measurePeaks = ({ folder, threads }: Options): Peaks => {
  const program = join(folder, 'peaks')
  const flags = ['-std=c++20', '-O3', '-march=native', '-fopenmp']
  execFileSync(process.env['CXX'] ?? 'c++', [...flags, join(__dirname, 'peaks.cpp'), '-o', program])
  return JSON.parse(execFileSync(program, [String(threads)], { encoding: 'utf8' })) as Peaks
}

/** The bytes of values that were used last. */
class LastCache {
  private readonly held = new Map<number, number>()
  private bytes = 0
  constructor(private readonly capacity: number) {}
  has(value: number): boolean {
    return this.held.has(value)
  }
  use(value: number, bytes: number): void {
    this.bytes += bytes - (this.held.get(value) ?? 0)
    this.held.delete(value)
    this.held.set(value, bytes)
    for (const [oldest, size] of this.held) {
      if (this.bytes <= this.capacity) break
      this.held.delete(oldest)
      this.bytes -= size
    }
  }
}

const DIRECTIONS: readonly (readonly [suffix: string, name: string])[] = [
  ['_bwd_weights', 'W'],
  ['_bwd_data', 'D'],
]

/** Convolutions by window, stride and direction, other calls by operator. */
const nameOf = (plan: Plan, c: Call): string => {
  if (!c.kind.startsWith('conv2d') && !c.kind.startsWith('linear')) return c.kind
  const direction = DIRECTIONS.find(([suffix]) => c.kind.endsWith(suffix))?.[1] ?? 'F'
  if (c.kind.startsWith('linear')) return `linear ${direction}`
  const { ins, outs } = callShapes(plan.graph, c.ins, c.outs)
  const w = direction === 'W' ? outs[0]! : ins[1]!
  const { groups = 1, strideH = 1 } = c.attrs as { groups?: number; strideH?: number }
  const kind = groups === 1 ? '' : w[1] === 1 ? 'depthwise ' : 'grouped '
  return `${kind}${w[2]}x${w[3]}${strideH > 1 ? ` s${strideH}` : ''} ${direction}`
}

const productsOf = (plan: Plan, c: Call): number => {
  const s = callShapes(plan.graph, c.ins, c.outs)
  const flops = opDef(c.kind).dense ? opDef(c.kind).flops(c.attrs, s) : 0
  return / ?3x3 .$/.test(nameOf(plan, c)) && nameOf(plan, c).startsWith('3x3 ') ? flops / 4 : flops
}

const workOf = (plan: Plan, seconds: Float64Array, peaks: Peaks): readonly Named[] => {
  const cache = new LastCache(KEPT * peaks.cacheBytes)
  return plan.calls.map((c, i) => {
    const s = callShapes(plan.graph, c.ins, c.outs)
    const def = opDef(c.kind)
    const sizes = (operands: readonly { readonly value: number }[], shapes: readonly (readonly number[])[]) =>
      operands.map(({ value }, k) => ({
        value,
        bytes: shapes[k]!.reduce((n, d) => n * d, 1) * dtypeBytes[plan.graph.values[value]!.dtype],
      }))
    const [ins, outs] = [sizes(c.ins, s.ins), sizes(c.outs, s.outs)]
    let missed = 0
    let hit = 0
    for (const { value, bytes } of ins) {
      if (cache.has(value)) hit += bytes
      else missed += bytes
      cache.use(value, bytes)
    }
    for (const { value, bytes } of outs) cache.use(value, bytes)
    const written = outs.reduce((n, o) => n + o.bytes, 0)
    const rate = s.half && peaks.bf16Flops > 0 ? peaks.bf16Flops : peaks.flops
    const memory = missed / peaks.readBytes + hit / peaks.cachedBytes + written / peaks.writtenBytes
    const shapes = [
      ...s.ins.map((x, k) => [inputDef(def, k).name, x] as const),
      ...s.outs.map((x, k) => [outputDef(def, k).name, x] as const),
    ]
    return {
      name: `${nameOf(plan, c)} ${shapes.map(([name, x]) => `${name} ${x.join('×')}`).join(', ')}`,
      calls: 1,
      seconds: seconds[i]!,
      boundSeconds: Math.max(productsOf(plan, c) / rate, memory),
      flops: def.dense ? def.flops(c.attrs, s) : 0,
      bytes: missed + hit + written,
    }
  })
}

const together = (all: readonly Named[]): readonly Named[] => {
  const sums = new Map<string, Named>()
  for (const w of all) {
    const { name } = w
    const before = sums.get(name) ?? { name, calls: 0, seconds: 0, boundSeconds: 0, flops: 0, bytes: 0 }
    sums.set(name, {
      name,
      calls: before.calls + w.calls,
      seconds: before.seconds + w.seconds,
      boundSeconds: before.boundSeconds + w.boundSeconds,
      flops: before.flops + w.flops,
      bytes: before.bytes + w.bytes,
    })
  }
  return [...sums.values()]
}

/** The least seconds of each call, and of a step. */
const quickest = async (plan: Plan, threads: number): Promise<{ readonly calls: Float64Array; readonly step: number }> => {
  const native = loadNative()
  const batch = plan.graph.values.find((v) => v.role === 'input')!.shape[0]!
  const classes = plan.graph.values.find((v) => v.role === 'target')?.dtype === 'i32' ? 10 : 1
  const session = new native.Session(toTape(plan), { device: 'cpu', threads })
  for (const v of plan.graph.values.filter(isPersistent)) session.init(v.name, 1)
  const calls = new Float64Array(plan.calls.length).fill(Number.POSITIVE_INFINITY)
  let step = Number.POSITIVE_INFINITY
  const source = { kind: 'synthetic', samples: batch, classes } as const
  // A step beside a busy neighbour is not quiet, and does not count.
  for (let requests = 0, quiet = 0; quiet < REQUESTS; requests++) {
    if (requests === MOST_REQUESTS) throw new Error(`only ${quiet} of ${requests} requests had a quiet step: the machine is busy`)
    const run = await session.run({ steps: STEPS, firstStep: 1 + requests * STEPS, seed: 1, source })
    if (!run.quietCallSeconds) continue
    quiet++
    run.quietCallSeconds.forEach((seconds, i) => {
      calls[i] = Math.min(calls[i]!, seconds)
    })
    step = Math.min(step, ...run.steps.map((s) => s.seconds))
  }
  session.dispose()
  return { calls, step }
}

export const measureRoofline = async (c: Case, o: Options): Promise<Roofline> => {
  const peaks = measurePeaks(o)
  const { plan } = stagedCase(c, o.threads).staged
  const { calls, step } = await quickest(plan, o.threads)
  const work = workOf(plan, calls, peaks)
  const kinds = together(work.map((w, i) => ({ ...w, name: nameOf(plan, plan.calls[i]!) })))
  const boundSeconds = work.reduce((n, w) => n + w.boundSeconds, 0)
  const lost = (w: Work): number => w.seconds - w.boundSeconds
  return {
    name: c.name,
    peaks,
    secondsPerStep: step,
    boundSeconds,
    ratio: step / boundSeconds,
    kinds: [...kinds].sort((a, b) => b.seconds - a.seconds),
    worst: [...together(work)].sort((a, b) => lost(b) - lost(a)).slice(0, WORST),
  }
}

const rates = (w: Named): string =>
  w.flops > 0 ? `${(w.flops / w.seconds / 1e9).toFixed(0)} GFLOP/s` : `${(w.bytes / w.seconds / 1e9).toFixed(1)} GB/s`
const line = (w: Named): string =>
  `  ${`${w.calls} ${w.name}`.padEnd(40)} ${(1000 * w.seconds).toFixed(2).padStart(9)} ms ${rates(w).padStart(13)}  bound ${(1000 * w.boundSeconds).toFixed(2).padStart(8)} ms, ratio ${(w.seconds / w.boundSeconds).toFixed(2)}`

export const showRoofline = (r: Roofline): string =>
  [
    `${r.name}: step ${(1000 * r.secondsPerStep).toFixed(1)} ms, bound ${(1000 * r.boundSeconds).toFixed(1)} ms, ratio ${r.ratio.toFixed(2)}`,
    ...r.kinds.map(line),
    '  the calls that lose most:',
    ...r.worst.map(line),
  ].join('\n')

export const plottedRoofline = (r: Roofline): readonly Group[] =>
  compared(r.name, { step: r.secondsPerStep, bound: r.boundSeconds }, (s) => `${(1000 * s).toFixed(1)} ms`)
