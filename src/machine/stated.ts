// The stated times of the cpu device's calls, on any machine. In: a call, and the number of threads. Out: seconds: a cost of the call, of its bytes
// and of its arithmetic, which add up. Invariant: nothing is measured here, so these costs are the same everywhere; on a measured machine, two calls
// bring them to its scale (timing.ts).
import { DIMS } from '../../staging/core/box'
import { type AnyAttrs, type CallShapes, inputDef, outputDef } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { STATED, STATED_THREADS, type StatedTimes } from './statedtimes'
import { callBytes, wayText } from './timing'

/** For operators without a measurement. */
const USUAL: { readonly [of in 'dense' | 'other']: StatedTimes } = { dense: [3, 50, 2500], other: [2, 30, 0] }
/** A way without costs of its own is no reason to leave the first, unless there is padding that it may skip, as taps do. */
const OTHER_WAY = 1.1

/** The part of a call's windows inside the image. */
const onImage = (kind: string, attrs: AnyAttrs, s: CallShapes): number => {
  const def = opDef(kind)
  const anchor = (def.anchor === 'out' ? s.outs[0] : s.ins[def.anchor]) ?? []
  const shapes = [
    ...s.ins.map((x, i) => [inputDef(def, i), x] as const),
    ...s.outs.map((x, i) => [outputDef(def, i), x] as const),
  ]
  const parts = shapes.map(([o, x]) =>
    ([2, 3] as const).reduce((part, d) => {
      const a = o.access?.(attrs, s)[DIMS[d]]
      return a?.tag === 'window' ? part * Math.min(1, x[d]! / ((anchor[d]! - 1) * a.stride + a.reach)) : part
    }, 1),
  )
  return Math.min(...parts)
}

export const statedSeconds =
  (threads: number) =>
  (kind: string, attrs: AnyAttrs, s: CallShapes, way = 0): number => {
    const def = opDef(kind)
    const own = STATED[kind + wayText(way, s)]
    const [call, kilobyte, megaflop] = own ?? STATED[kind + wayText(0, s)] ?? USUAL[def.dense ? 'dense' : 'other']
    const work = kilobyte * 1e-12 * callBytes(kind, s, 'f32') + (megaflop > 0 ? megaflop * 1e-15 * def.flops(attrs, s) : 0)
    return (call * 1e-6 + (work * STATED_THREADS) / threads) * (own || way === 0 ? 1 : OTHER_WAY * onImage(kind, attrs, s))
  }
