// Where a run stopped being finite, in words. In: the first number that is not, as the device met it: a call, an operand, a place.
// Out: the layer and value that it came out of, or the sample of a file or the weights that it stood in before.
// Invariant: a call is blamed only where all that it read was finite.
import { isFed } from '../../staging/graph/graph'
import type { Plan } from '../../staging/plan/plan'
import type { NativeNotFinite } from '../device/native'
import type { NotFinitePlace } from '../errors/errors'
import { type DataSource, sampleWords } from '../data/open'

export const notFinitePlace = (plan: Plan, data: DataSource, n: NativeNotFinite): NotFinitePlace => {
  const { kind, op, ins, outs } = plan.calls[n.call]!
  const { values, ops } = plan.graph
  const v = values[[...ins, ...outs][n.operand]!.value]!
  const at = n.at.slice(0, v.shape.length)
  const found = { step: n.step, number: String(n.value) }
  if (n.made) {
    const layer = ops[op]?.layer
    return { ...found, at, in: `'${v.name}'`, by: layer === undefined ? kind : `${kind} of layer '${layer}'` }
  }
  return isFed(v)
    ? { ...found, at: at.slice(1), in: sampleWords(data, v.name, v.shape[0]!, n.step, at[0]!) }
    : { ...found, at, in: `'${v.name}'` }
}
