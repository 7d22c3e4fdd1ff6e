// The plan without tiles, recomputation and swaps: one group, and all values stay. Other plans are compared with it.
import { mapped } from '../core/mapped'
import { right } from 'fp-ts/Either'
import { certain } from '../core/certain'
import type { Graph, OpId } from '../graph/graph'
import { type Segment, UNTILED } from '../plan/plan'
import { assemble, forwardOps, runsOf, segmentsOf } from '../tile/segments'
import { type Candidate, type Planner, resident } from './candidate'
import { withEarlyExchanges } from './early'
import { type Layout, layOut, packedAs, type Unplaced, unroll } from './layout'
import { onceFor } from './remember'

/** Segments of groups of whole values. */
export const untiled = (graph: Graph, groups: readonly (readonly OpId[])[]): readonly Segment[] =>
  certain('whole values are always legal')(
    assemble(
      graph,
      mapped(groups, (ops) => ({ ops, grid: UNTILED })),
    ),
  )

export const inCoreSegments = (graph: Graph): readonly Segment[] => untiled(graph, [mapped(forwardOps(graph), (o) => o.id)])

/** The calls without places: most planners need only one of the two layouts. */
export const inCoreCalls = onceFor((graph, machine): Unplaced => unroll(graph, inCoreSegments(graph), machine))

export const inCoreLayout = onceFor((graph, machine): Layout => packedAs(inCoreCalls(graph, machine)))

/** With values of similar lifetimes side by side: for planners that count pages, not values. */
export const inCoreRows = onceFor((graph, machine): Layout => packedAs(inCoreCalls(graph, machine), 'rows'))

/** The same calls in the order that begins exchanges between ranks early; undefined if there are none. */
const earlyLayout = onceFor((graph, machine): Layout | undefined => {
  const plain = inCoreCalls(graph, machine)
  const seconds = new Map(mapped(plain.calls, (c) => [c.op, c.beside?.seconds ?? c.seconds]))
  const runs = withEarlyExchanges(graph, runsOf(graph, plain.segments), (op) => seconds.get(op.id) ?? 0)
  const segments = runs && certain('an order of whole values is legal')(segmentsOf(graph, runs))
  return segments && packedAs(layOut(graph, segments, machine), 'rows')
})

/** The largest additional memory of early exchanges, relative to the usual order. */
const HARDLY_MORE = 1 / 64

/** Early exchanges are held for longer. If that needs more additional memory than this, or more than the budget, the usual order stays. */
export const inCore: Planner = (graph, machine) => {
  const like = (of: readonly Segment[], g = graph): Candidate => resident(layOut(g, of, machine, { packing: 'rows' }))
  const inTurn = { ...resident(inCoreRows(graph, machine)), like }
  const early = earlyLayout(graph, machine)
  const offered = early && { ...resident(early), like }
  return right([...(offered && offered.least <= (1 + HARDLY_MORE) * inTurn.least ? [offered] : []), inTurn].values())
}
