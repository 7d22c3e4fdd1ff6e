// The methods that move values, for steps whose values are smaller than a page. In: a layout, a method's candidates for one. Out: a planner's list if
// nothing else of it fits: the same method over pages that several values share. Values on one page move together. Invariant: if values under a page
// are a small part of the resting ones, nothing is listed: it would be the same step, laid out again. Worked example: resnet20-cifar at batch 8 has
// values of 0.5 MiB at most; packed by lifetime they stay, 14 of 22 MiB; on shared pages they leave.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { restingUnderAPage } from '../memory/sharedpages'
import type { StayRule } from '../memory/touches'
import type { Candidate, Planner } from './candidate'
import { type Layout, packedAs } from './layout'

/** The least share of values under a page among those that are not permanent. */
const LEAST_SHARE = 1 / 8

/** Returns true if shared pages are worth a layout. */
const hasMuchToShare = (l: Layout): boolean => {
  const bytes = (cells: readonly { readonly bytes: number }[]): number => cells.reduce((n, c) => n + c.bytes, 0)
  const whole = l.cells.filter((c) => c.scope === 'whole')
  return bytes(restingUnderAPage(l.cells, l.calls)) >= LEAST_SHARE * bytes(whole)
}

/** The step with values smaller than a page on shared pages; null if there are few such values. */
export const sharing = (l: Layout, rule?: StayRule): Layout | null => (hasMuchToShare(l) ? packedAs(l, 'shared', rule) : null)

/** A planner's last candidates: those of a layout on shared pages. */
export const overSharedPages =
  (
    layouts: (graph: Graph, machine: Machine) => Layout | Iterable<Layout>,
    rule: StayRule | undefined,
    candidates: (l: Layout, machine: Machine) => readonly Candidate[],
  ): Planner =>
  (graph, machine) =>
    right(listed(layouts(graph, machine), rule, (l) => candidates(l, machine)))

function* listed(
  layouts: Layout | Iterable<Layout>,
  rule: StayRule | undefined,
  candidates: (l: Layout) => readonly Candidate[],
): Generator<Candidate, void, boolean> {
  for (const l of Symbol.iterator in layouts ? layouts : [layouts]) {
    const shared = sharing(l, rule)
    if (shared) yield* candidates(shared)
  }
}
