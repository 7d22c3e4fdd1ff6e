// The effect of one call on the contents of cells: the operands that must be final, and its results. In: the contents before the call. Out: the
// contents after it, or the reason why a read is illegal. Invariant: all operands are checked before any result is written.
import { mapped } from '../core/mapped'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { type Box, hullBox } from '../core/box'
import { putsPart } from '../graph/ranks'
import type { AccessMap } from '../ops/op'
import type { Call, View } from '../plan/plan'
import type { Contents, Contribution } from './contents'
import type { Facts, OpFacts } from './facts'
import { broken, eachFault, type Fault, type VerifyFailed } from './failure'
import { iterationOf } from './operands'
import { effectOfPlumbing } from './plumbing'
import { final, isElementwise, needed } from './reach'
import { contains, inBox, lacking, meet, NOTHING, plus, type Region, regionText, sameRegion, touches, within } from './region'
import { merged, settled, take, type Taken, waysOf } from './sums'

export interface Effects {
  readonly run: (call: number) => Fault
  /** Returns a fault if calls have updated only a part of a value. */
  readonly half: () => Fault
}

const exactly = (box: Box): Contribution => ({ exact: [box], ways: [], support: box })

// ---------------------------------------------------------------- results of ops

/** Returns a result of an op that consumes a part of its anchor. */
const consumed = (facts: Facts, access: AccessMap | null, out: View, anchor: View, got: Taken): Contribution => {
  const full = facts.full[out.value]!
  const whole = facts.full[anchor.value]!
  const exact = access === null ? [] : mapped(got.exact, (e) => final(access, e, whole, full)).reduce<Region>(plus, [])
  const support = access === null ? out.box : meet(out.box, needed(access, anchor.box, full))
  const elementwise = access !== null && isElementwise(access) && got.own !== null && contains(exact, out.box)
  return settled(facts, { exact, support, ways: elementwise ? got.ways : waysOf(got) }, [out.box])
}

/** Returns the result of a sum of partial gradients, each in its own box. */
const gathered = (facts: Facts, out: View, got: readonly Taken[]): Either<string, Contribution> => {
  if (got.every((t) => t.own && t.ways.length === 0 && inBox(t.support, out.box))) return right(exactly(out.box))
  const ways = merged(facts, got)
  if (isLeft(ways)) return ways
  const exact = got.reduce<Region>((region, t) => t.exact.flatMap((e) => within(region, e)), [facts.full[out.value]!])
  const support = mapped(got, (t) => t.support).reduce(hullBox)
  return right(settled(facts, { exact, ways: ways.right, support }, [out.box]))
}

const resultsOf = (
  facts: Facts,
  contents: Contents,
  f: OpFacts,
  c: Call,
  index: number,
): Either<VerifyFailed, readonly Contribution[]> => {
  const { anchor } = f.def
  if (f.gathers) {
    const got: Taken[] = []
    for (const view of c.ins) {
      const t = take(facts, contents, view, f.op.id, index)
      if (isLeft(t)) return t
      got.push(t.right)
    }
    const sum = gathered(facts, c.outs[0]!, got)
    return isLeft(sum) ? left(broken('twice', sum.left, facts.at(index, c.outs[0]!.value))) : right([sum.right])
  }
  if (anchor === 'out' || iterationOf(f, c) === undefined) return right(mapped(c.outs, (o) => exactly(o.box)))
  const view = c.ins[anchor]!
  const own = [{ source: view.value, by: f.op.id, taken: [view.box] }]
  const asFinal: Taken = { own, ...exactly(view.box) }
  const got = f.linear ? take(facts, contents, view, f.op.id, index) : right(asFinal)
  return isLeft(got) ? got : right(mapped(c.outs, (o, k) => consumed(facts, f.outs[k]!, o, view, got.right)))
}

// ---------------------------------------------------------------- operands

/** Returns true for operands that may be partial sums: `take` checks them. */
const isTaken = (f: OpFacts, k: number): boolean => f.gathers || (f.linear && f.def.anchor === k)

/** Returns a fault if a result overwrites an operand that the op table does not allow it to overwrite. */
const inPlaceFault = (facts: Facts, contents: Contents, c: Call, index: number): Fault => {
  const f = facts.ops[c.op]
  const may = (out: number, k: number): boolean => {
    const [o, i] = [c.outs[out]!, c.ins[k]!]
    return (
      out === 0 &&
      f?.def.inPlace?.includes(k) === true &&
      sameRegion([o.box], [i.box]) &&
      sameRegion([o.held], [i.held]) &&
      facts.elementBytes[o.value] === facts.elementBytes[i.value]
    )
  }
  for (let k = 0; k < c.outs.length; k++) {
    const o = c.outs[k]!
    for (let n = 0; n < c.ins.length; n++)
      if (c.ins[n]!.cell === o.cell && !may(k, n))
        return broken('in-place', `output ${k} of ${c.kind} overwrites input ${n}`, facts.at(index, o.value))
    for (let n = 0; n < c.outs.length; n++)
      if (n !== k && c.outs[n]!.cell === o.cell)
        return broken('in-place', `two outputs of ${c.kind} share one cell`, facts.at(index, o.value))
  }
  const meets = (cell: number): boolean => {
    for (const v of c.ins) if (contents.sharesBytes(cell, v.cell)) return true
    for (const v of c.outs) if (contents.sharesBytes(cell, v.cell)) return true
    return c.workspace ? contents.sharesBytes(cell, c.workspace.cell) : false
  }
  const clobbered = (cell: number): Fault =>
    meets(cell)
      ? broken(
          'clobbered',
          `cell '${facts.plan.cells[cell]!.label}' shares bytes with another operand of the call`,
          facts.at(index),
        )
      : undefined
  return eachFault(c.outs, (v) => clobbered(v.cell)) ?? (c.workspace ? clobbered(c.workspace.cell) : undefined)
}

export const trackEffects = (facts: Facts, contents: Contents): Effects => {
  const updated = new Map<number, { readonly by: number; readonly region: Region }>()
  const stale = (c: Call, index: number): Fault =>
    eachFault(c.ins, (v, k) => {
      const { by, region } = updated.get(v.value) ?? { by: -1, region: NOTHING }
      return touches(region, v.box) && !putsPart(c, k)
        ? broken('updated', `it was updated by call ${by} of this step`, facts.at(index, v.value))
        : undefined
    })
  const update = ({ value, box }: View, by: number): void =>
    void updated.set(value, { by, region: plus(updated.get(value)?.region ?? NOTHING, box) })

  const runOp = (c: Call, index: number): Fault => {
    const f = facts.ops[c.op]!
    const unread = eachFault(c.ins, (v, k) => (isTaken(f, k) ? undefined : contents.needExact(v, index)))
    if (unread) return unread
    const results = resultsOf(facts, contents, f, c, index)
    if (isLeft(results)) return results.left
    for (const k of f.def.mutates ?? []) if (c.ins[k]) update(c.ins[k], index)
    return eachFault(c.outs, (o, k) => contents.write(o, results.right[k]!, index))
  }

  const run = (index: number): Fault => {
    const c = facts.plan.calls[index]!
    const fault = stale(c, index) ?? inPlaceFault(facts, contents, c, index)
    if (fault) return fault
    if (c.workspace) contents.claim(c.workspace.cell)
    return c.op >= 0 ? runOp(c, index) : effectOfPlumbing(facts, contents, index)
  }
  const half = (): Fault =>
    eachFault([...updated], ([value, { by, region }]) => {
      const lacks = lacking(region, facts.full[value]!)
      return lacks.length === 0
        ? undefined
        : broken('times', `the step does not update ${regionText(lacks)}`, facts.at(by, value))
    })
  return { run, half }
}
