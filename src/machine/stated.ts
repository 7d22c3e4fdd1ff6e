// What calls of the cpu device are said to take, on any machine. In: a call, and the number of threads. Out: seconds: a cost of the call,
// of its bytes and of its arithmetic, which add up. Invariant: nothing is measured here, so what goes by these costs is the same
// everywhere; where a machine is measured, they are brought to its scale by two calls (timing.ts).
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { STATED, STATED_THREADS, type StatedTimes } from './statedtimes'
import { callBytes, wayText } from './timing'

/** Of operators that nobody has measured. */
const USUAL: { readonly [of in 'dense' | 'other']: StatedTimes } = { dense: [3, 50, 2500], other: [2, 30, 0] }
/** A way that nobody has measured is no reason to leave the first. */
const UNKNOWN_WAY = 1.1

export const statedSeconds =
  (threads: number) =>
  (kind: string, attrs: AnyAttrs, s: CallShapes, way = 0): number => {
    const def = opDef(kind)
    const own = STATED[kind + wayText(way, s)]
    const [call, kilobyte, megaflop] = own ?? STATED[kind + wayText(0, s)] ?? USUAL[def.dense ? 'dense' : 'other']
    const work = kilobyte * 1e-12 * callBytes(kind, s, 'f32') + (megaflop > 0 ? megaflop * 1e-15 * def.flops(attrs, s) : 0)
    return (call * 1e-6 + (work * STATED_THREADS) / threads) * (own || way === 0 ? 1 : UNKNOWN_WAY)
  }
