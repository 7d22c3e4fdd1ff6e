// The convolutions of a plan, each different call once. In: a case. Out: their calls, how often they stand in a step, and whether in tiles;
// timing of one in this process. Invariant: calls are timed on operands that the caches do not hold, as the profile times them.
import { type AnyAttrs, type CallShapes, inputDef, type OperandDef } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { callShapes } from '../../staging/plan/callcosts'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import { nativeCall, type NativeCall } from '../../src/machine/operands'
import { type Sample, sampleOf, timeKey, wayText } from '../../src/machine/timing'
import { loadNative } from '../../src/device/native'

export interface TimedCall {
  readonly native: NativeCall
  readonly way: number
}
export interface Convolution extends TimedCall {
  readonly name: string
  /** In the plan's step. */
  readonly calls: number
  /** For one call in the plan. */
  readonly seconds: number
  readonly pixels: number
  /** The same weights with a few pixels, or many times as many where there are few already. */
  readonly other: TimedCall & { readonly pixels: number }
}

const HARDLY_ANYTHING = { bytes: 0, flops: 0, patienceSeconds: 0 }
/** The least ratio of pixels of two calls whose times tell the share of the weights. */
const APART = 4

const pixelsOf = (kind: string, s: CallShapes): number => {
  const { anchor } = opDef(kind)
  const [b = 1, , h = 1, w = 1] = (anchor === 'out' ? s.outs[0] : s.ins[anchor]) ?? []
  return b * h * w
}

const enlarged = (kind: string, s: CallShapes): CallShapes => {
  const def = opDef(kind)
  const one = (o: OperandDef, [b = 1, ...rest]: readonly number[]): readonly number[] => [
    o.role === 'data' ? APART * b : b,
    ...rest,
  ]
  return {
    ...(s.half ? { half: s.half } : {}),
    ins: s.ins.map((x, i) => one(inputDef(def, i), x)),
    outs: s.outs.map((x, i) => one(def.outs[Math.min(i, def.outs.length - 1)]!, x)),
  }
}
/** Another call with the same weights. */
const otherPixels = (kind: string, attrs: AnyAttrs, s: CallShapes): Sample => {
  const few = sampleOf(kind, attrs, s, 'f32', HARDLY_ANYTHING)
  return APART * pixelsOf(kind, few.s) <= pixelsOf(kind, s) ? few : { attrs, s: enlarged(kind, s) }
}

export const convolutionsOf = (plan: Plan, inTiles: boolean): readonly Convolution[] => {
  const found = new Map<string, Convolution>()
  for (const c of plan.calls) {
    if (!c.kind.startsWith('conv2d') || (inTiles && tilesOf(plan.segments[c.segment]!.grid) === 1)) continue
    const shapes = callShapes(plan.graph, c.ins, c.outs)
    const { way = 0, attrs, kind, seconds } = c
    const name = timeKey(kind, attrs, shapes) + wayText(way, shapes)
    const before = found.get(name)
    if (before) {
      found.set(name, { ...before, calls: before.calls + 1 })
      continue
    }
    const others = otherPixels(kind, attrs, shapes)
    found.set(name, {
      name,
      calls: 1,
      seconds,
      native: nativeCall(kind, attrs, shapes, 'f32'),
      way,
      pixels: pixelsOf(kind, shapes),
      other: { native: nativeCall(kind, others.attrs, others.s, 'f32'), way, pixels: pixelsOf(kind, others.s) },
    })
  }
  return [...found.values()]
}

/** Those that take most of the time of all, dearest first: the rest would take long to time. */
export const dearest = (all: readonly Convolution[], share: number): readonly Convolution[] => {
  const of = (c: Convolution): number => c.calls * c.seconds
  const total = all.reduce((n, c) => n + of(c), 0)
  let sum = 0
  return [...all]
    .sort((a, b) => of(b) - of(a))
    .filter((c) => {
      const wanted = sum < share * total
      sum += of(c)
      return wanted
    })
}

/** The median of a few runs. */
export const secondsOfCall = ({ native: call, way }: TimedCall, threads: number): number =>
  loadNative().measure({ device: 'cpu', ...call, way, threads }).seconds
