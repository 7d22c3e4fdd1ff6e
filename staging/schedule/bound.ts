// What no schedule of a layout can beat. In: a layout, a budget and the link. Out: seconds.
// A step takes its compute. What does not fit at the worst moment has left before it and comes back after it (paper 5, Prop. 3):
// excess pages / out before, excess pages / in after. Fed values need not be written out.
// Worked example: 10 pages at the worst call, a budget of 7, 1 s a page each way: 3 s + 3 s.
import { PAGE_BYTES } from '../core/bytes'
import type { Link } from '../graph/machine'
import type { Layout } from './layout'
import { leastPages } from './tracks'

interface Needs {
  readonly compute: number
  readonly pages: number
  readonly fed: number
}

const known = new WeakMap<Layout, Needs>()

const needsOf = (l: Layout): Needs => {
  const before = known.get(l)
  if (before) return before
  const needs: Needs = {
    compute: l.calls.reduce((n, c) => n + c.seconds, 0),
    pages: leastPages(l.tracks, l.calls.length),
    fed: l.tracks.reduce((n, t) => n + (t.kind === 'fed' ? t.to - t.from : 0), 0),
  }
  known.set(l, needs)
  return needs
}

export const computeSeconds = (l: Layout): number => needsOf(l).compute

export const atLeastSeconds = (l: Layout, budgetPages: number, link: Link): number => {
  const { compute, pages, fed } = needsOf(l)
  const excess = Math.max(0, pages - budgetPages) * PAGE_BYTES
  const written = Math.max(0, pages - budgetPages - fed) * PAGE_BYTES
  return Math.max(compute, written / link.outBytesPerSecond + (fed ? written : excess) / link.inBytesPerSecond)
}
