// The independent verifier. In: a finished plan. Out: Verified, or the first rule that it breaks, with the
// place and the reason. It shares no code with the passes that make plans: it derives window arithmetic, lifetimes, page ownership
// and budgets again from graph, calls, places and residencies.
//
// The calls are run symbolically, once. The bytes of a cell are *final* elements of a value, or a
// *partial sum* with the contributions of some elements of each source. Rules, by name:
//
//   graph       SSA, producers before readers, shapes by the op table, updates use their own weight's gradient
//   structure   indices, boxes, lifetimes and points exist and are in order; calls agree with their graph ops
//   place       cells lie inside their storages, aligned
//   times       each op runs; an op that overwrites state does so once, whole or in parts that are all of it
//   operand     a call's views, attributes and scratch fit its op and its cells
//   halo        each operand's box holds the needs of the op for its iteration box, clipped to the image
//   dense       no gaps in memory if the kernel forbids them
//   unwritten   a read value was written before
//   incomplete  gradients, statistics and losses are read whole only after every tile's contribution
//   coverage    tiles write each element of a whole value exactly once
//   twice       no contribution enters a sum twice
//   in-place    a result overwrites an operand only if the op table allows it
//   updated     no weight or statistic is read after its update in the step
//   clobbered   bytes that two cells share are not used by one while the other still needs them
//   resident    every byte that a call touches is on the device
//   arriving    and is not still being swapped in; a step that begins with fed pages finds those that each step loads for the next
//   leaving     and is not written while it is swapped out
//   exchanged   values in exchange during compute are not touched, moved or freed before the wait
//   lost        values freed without a swap out (or changed after it) are not read again
//   tier        a swap in reads a finished swap out of the same pages at that offset, not overwritten since, or a home
//   pages       no physical page and no page of a storage has two owners; runs name their own number of pages
//   budget      the pages held never exceed the budget
//   peak        and their maximum is the stated peak
//   end         the losses are complete and on the device when the step ends
//   output      each page of an output leaves once, complete, and is not touched again
//
// Worked example. Two tiles of a 3x3 convolution's backward over dy with 8 rows, merged by sums:
//
//   fill dx                                     dx: zeroed [0,8), final nothing, parts {}
//   conv2d_bwd_data dy[0,4) -> local [0,5)      local: parts {dy: [0,4)}, final [0,3)
//   merge_sum local -> dx[0,5)                  dx: parts {dy: [0,4)}; reading dx now is 'incomplete'
//   conv2d_bwd_data dy[4,8) -> local [3,8)      local box [4,8) would lack row 3, which dy row 4 touches: 'halo'
//   merge_sum local -> dx[3,8)                  dx: parts {dy: [0,8)} = all of dy, so dx is final
//
// Had the second tile taken dy[3,8), row 3 would have entered 'twice'; left out, the segment would end 'incomplete'.
import { type Either, left, right } from 'fp-ts/Either'
import type { Plan } from '../plan/plan'
import { trackContents } from './contents'
import { trackEffects } from './effects'
import { exchangesBeside } from './exchanges'
import { checkEnd } from './ending'
import { type Facts, factsOf } from './facts'
import { broken, eachFault, type Fault, firstFault, type VerifyFailed } from './failure'
import { checkOperands } from './operands'
import { trackDevice } from './residency'
import { soundGraph } from './soundgraph'
import { soundStructure } from './structure'

declare const verified: unique symbol
/** A plan that this module has checked. No other module creates this type. */
export type Verified = Plan & { readonly [verified]: true }
export type { VerifyFailed }

const soundTimes = ({ plan, ops }: Facts): Fault => {
  const times = new Int32Array(ops.length)
  for (const c of plan.calls) if (c.op >= 0) times[c.op]!++
  return eachFault(ops, ({ op, def }, i) => {
    const text = `${op.kind} of layer '${op.layer}'`
    if (times[i] === 0) return broken('times', `no call runs op ${i}, ${text}`)
    return def.mutates && !def.byRows && times[i]! > 1
      ? broken('times', `op ${i}, ${text}, runs ${times[i]} times; it overwrites state, so it must run once`)
      : undefined
  })
}

/** Runs the calls symbolically. */
const runCalls = (facts: Facts): Fault => {
  const { calls } = facts.plan
  const contents = trackContents(facts)
  const device = trackDevice(facts, contents)
  const effects = trackEffects(facts, contents)
  const soundExchange = exchangesBeside(facts)
  for (let i = 0; i < calls.length; i++) {
    const fault = soundExchange(i) ?? device.advance(i) ?? checkOperands(facts, i) ?? device.touch(i) ?? effects.run(i)
    if (fault) return fault
    device.wrote(i)
    const ended = calls[i + 1]?.segment !== calls[i]!.segment ? contents.endSegment(i) : undefined
    if (ended) return ended
  }
  return device.leave() ?? effects.half() ?? checkEnd(facts, contents, device)
}

export const verify = (plan: Plan): Either<VerifyFailed, Verified> => {
  const unsound = soundGraph(plan.graph)
  if (unsound) return left(unsound)
  const facts = factsOf(plan)
  const fault = firstFault([() => soundStructure(facts), () => soundTimes(facts), () => runCalls(facts)])
  return fault ? left(fault) : right(plan as Verified)
}
