// Checks the operands of one call: each operand's box holds all elements that the op reads for its iteration box (halo, whole channels), each
// result's box holds all elements that the op writes, and operands have no gaps in memory if the kernel requires it.
// In: a call of a graph op and its access maps. Out: the first operand that breaks a rule.
import type { Box } from '../core/box'
import type { AccessMap } from '../ops/op'
import type { Call, View } from '../plan/plan'
import type { Facts, OpFacts } from './facts'
import { broken, eachFault, type Fault } from './failure'
import { needed } from './reach'
import { boxText, inBox } from './region'

/** The box over which the op iterates: its anchor's. */
export const iterationOf = (f: OpFacts, c: Call): Box | undefined =>
  (f.def.anchor === 'out' ? c.outs[0] : c.ins[f.def.anchor])?.box

const AXES = ['B', 'C', 'H', 'W'] as const

const fits = (access: AccessMap, view: View, iteration: Box, full: Box): string | undefined => {
  const need = needed(access, iteration, full)
  for (let i = 0; i < 4; i++) {
    const axis = AXES[i]!
    const [lo, hi] = view.box[i]!
    const [from, to] = need[i]!
    const { tag } = access[axis]
    const inside = from <= lo && hi <= to
    const enough = lo <= from && to <= hi
    if (tag === 'same' ? inside && enough : tag === 'inside' ? inside : enough) continue
    return `${axis} is [${lo},${hi}); ${tag === 'inside' ? 'allowed: ranges inside' : tag === 'same' ? 'legal is' : 'it must hold'} [${from},${to})`
  }
  return undefined
}

/** Returns true if the view has gaps in memory: in memory order, a dimension inside the outermost one of the view is cut. */
const hasGaps = (view: View): boolean => {
  const order = [0, 2, 3, 1] as const
  const extent = (i: 0 | 1 | 2 | 3): number => view.box[i][1] - view.box[i][0]
  const outermost = order.findIndex((i) => extent(i) > 1)
  return outermost >= 0 && order.slice(outermost + 1).some((i) => extent(i) !== view.held[i][1] - view.held[i][0])
}

export const checkOperands = (facts: Facts, index: number): Fault => {
  const call = facts.plan.calls[index]!
  const f = facts.ops[call.op]
  const iteration = f && iterationOf(f, call)
  if (!f || !iteration) return undefined
  const check = (access: AccessMap | null, view: View, side: 'input' | 'output', k: number): Fault => {
    const full = facts.full[view.value]!
    const at = () => facts.at(index, view.value)
    if (access === null)
      return inBox(view.box, full)
        ? undefined
        : broken('halo', `${side} ${k} of ${call.kind} must be whole, not ${boxText(view.box)}`, at())
    const short = fits(access, view, iteration, full)
    if (short !== undefined) return broken('halo', `${side} ${k} of ${call.kind} for ${boxText(iteration)}: ${short}`, at())
    return f.def.dense && hasGaps(view)
      ? broken('dense', `${side} ${k} of ${call.kind} must be contiguous in memory`, at())
      : undefined
  }
  return (
    eachFault(call.ins, (v, k) => check(f.ins[k]!, v, 'input', k)) ??
    eachFault(call.outs, (v, k) => check(f.outs[k]!, v, 'output', k))
  )
}
