// The source of a run's first number that is not finite, in words. In: that number, as the device met it: a call, an operand, a place. Out: the layer
// and value of its origin, or the sample of a file or the weights that contained it. Invariant: a call is blamed only if all of its inputs were
// finite; of several ranks, the first one in the order of the plan.
import { isFed } from '../../staging/graph/graph'
import { slicesOf } from '../../staging/graph/ranks'
import type { Plan } from '../../staging/plan/plan'
import type { NativeNotFinite } from '../device/native'
import type { NotFinitePlace } from '../errors/errors'
import { type DataSource, sampleText } from '../data/source'
import { gather, type Rank } from '../ranks/rank'

/** Images and rows are those of the whole, for any part of a rank. */
export const notFinitePlace = (plan: Plan, data: DataSource, n: NativeNotFinite, rank?: Rank): NotFinitePlace => {
  const { kind, op, ins, outs } = plan.calls[n.call]!
  const { values, ops } = plan.graph
  const v = values[[...ins, ...outs][n.operand]!.value]!
  const at = n.at.slice(0, v.shape.length)
  const found = { step: n.step, number: String(n.value), ...(rank ? { rank: rank.rank } : {}) }
  if (n.made) {
    const layer = ops[op]?.layer
    return { ...found, at, in: `'${v.name}'`, by: layer === undefined ? kind : `${kind} of layer '${layer}'` }
  }
  return isFed(v)
    ? { ...found, at: at.slice(1), in: sampleText(data, v.name, v.shape[0]! * slicesOf(plan.graph), n.step, at[0]!) }
    : { ...found, at, in: `'${v.name}'` }
}

/** A place, and the call of the plan that met it. */
export interface Met {
  readonly call: number
  readonly place: NotFinitePlace
}

/** The first find of all ranks: such numbers travel, and reach the others later. All ranks call it. */
export const firstMet = async (rank: Rank, own: Met | undefined): Promise<Met | undefined> =>
  (await gather(rank, own ?? null))
    .flatMap((met) => met ?? [])
    .sort((a, b) => a.place.step - b.place.step || a.call - b.call || a.place.rank! - b.place.rank!)[0]
