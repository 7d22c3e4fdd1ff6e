// The plan with no tiles, no recompute, no swap: one group, everything stays. The measure of all others.
import { right } from 'fp-ts/Either'
import { certain } from '../core/certain'
import type { Graph, OpId } from '../graph/graph'
import { type Segment, UNTILED } from '../plan/plan'
import { assemble, forwardOps } from '../tile/segments'
import { type Planner, resident } from './candidate'
import { type Layout, layOut, packedAs } from './layout'
import { onceFor } from './remember'

/** Segments of groups of whole values. */
export const untiled = (graph: Graph, groups: readonly (readonly OpId[])[]): readonly Segment[] =>
  certain('whole values are always legal')(
    assemble(
      graph,
      groups.map((ops) => ({ ops, grid: UNTILED })),
    ),
  )

export const inCoreSegments = (graph: Graph): readonly Segment[] => untiled(graph, [forwardOps(graph).map((o) => o.id)])

export const inCoreLayout = onceFor((graph, machine): Layout => layOut(graph, inCoreSegments(graph), machine))

/** With values that live alike side by side: for planners that count pages, not values. */
export const inCoreRows = onceFor((graph, machine): Layout => packedAs(inCoreLayout(graph, machine), 'rows'))

export const inCore: Planner = (graph, machine) => right([resident(inCoreRows(graph, machine))].values())
