// A bound for every schedule of a layout. In: a layout, a budget and the link. Out: seconds. A step takes at least its compute. Values that do not
// fit at a call are swapped out before it and in after it (paper 5, Prop. 3). Neither time can serve the other, so the calls before it and those from
// it on bound their own part of the step: this is up to 7/6 of the paper's bound, as the forward pass is a third of a step. Fed values need not be
// written out. Worked example, calls of 1 s, the worst in the middle needing 10 pages, a budget of 7, 1 s a page each way: 3 s + 3 s.
import { bytesOf } from '../core/bytes'
import { inSeconds, type Link, outSeconds } from '../graph/machine'
import type { Layout } from './layout'
import { heldSwappingAll } from './stays'

interface Needs {
  /** Pages held at each call without swaps, and the seconds of the calls before each. */
  readonly held: Int32Array
  readonly before: Float64Array
  readonly fed: number
}

const known = new WeakMap<Layout, Needs>()

const needsOf = (l: Layout): Needs => {
  const noted = known.get(l)
  if (noted) return noted
  const before = new Float64Array(l.calls.length + 1)
  l.calls.forEach((c, p) => {
    before[p + 1] = before[p]! + c.seconds
  })
  const fed = l.alike.reduce((n, p) => n + (p.kind === 'fed' ? p.to - p.from : 0), 0)
  const needs: Needs = { held: heldSwappingAll(l.alike, l.calls.length, () => false), before, fed }
  known.set(l, needs)
  return needs
}

export const computeSeconds = (l: Layout): number => needsOf(l).before[l.calls.length]!

/** Pages at the fullest call without swaps. */
export const mostPages = (l: Layout): number =>
  needsOf(l)
    .held.subarray(0, l.calls.length)
    .reduce((a, b) => Math.max(a, b), 0)

/** The seconds for the swaps of the excess pages: out before the call, in from it on. */
const movingSeconds = (excess: number, fed: number, link: Link): readonly [out: number, into: number] => {
  const written = bytesOf(Math.max(0, excess - fed))
  const back = fed ? written : bytesOf(excess)
  return [outSeconds(link, written), inSeconds(link, back)]
}

export const atLeastSeconds = (l: Layout, budgetPages: number, link: Link): number => {
  const { held, before, fed } = needsOf(l)
  const compute = computeSeconds(l)
  let least = compute
  for (let p = 0; p < l.calls.length; p++) {
    if (held[p]! <= budgetPages) continue
    const [out, into] = movingSeconds(held[p]! - budgetPages, fed, link)
    least = Math.max(least, Math.max(before[p]!, out) + Math.max(compute - before[p]!, into))
  }
  return least
}

/** Paper 5's bound, which ignores the order of the calls. */
export const paperBoundSeconds = (l: Layout, budgetPages: number, link: Link): number => {
  const [out, into] = movingSeconds(Math.max(0, mostPages(l) - budgetPages), needsOf(l).fed, link)
  return Math.max(computeSeconds(l), out + into)
}
