// The plan with no tiles, no recompute, no swap: one group, everything stays. The measure of all others.
import { isLeft, right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import { UNTILED } from '../plan/plan'
import { assemble, forwardOps } from '../tile/segments'
import { type Planner, resident } from './candidate'
import { type Layout, layOut, packedAs } from './layout'
import { onceFor } from './remember'

export const inCoreSegments = (graph: Graph) => assemble(graph, [{ ops: forwardOps(graph).map((o) => o.id), grid: UNTILED }])

/** Untiled segments are always legal. */
export const inCoreLayout = onceFor((graph, machine): Layout => {
  const segments = inCoreSegments(graph)
  if (isLeft(segments)) throw new Error(`in-core cannot be refused: ${segments.left.why}`)
  return layOut(graph, segments.right, machine)
})

/** With values that live alike side by side: for planners that count pages, not values. */
export const inCoreRows = onceFor((graph, machine): Layout => packedAs(inCoreLayout(graph, machine), 'rows'))

export const inCore: Planner = (graph, machine) => right([resident(inCoreRows(graph, machine))].values())
