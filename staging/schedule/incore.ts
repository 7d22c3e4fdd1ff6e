// The plan with no tiles, no recompute, no swap: one group, everything stays. The measure of all others.
import { pipe } from 'fp-ts/function'
import { map, mapLeft } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import { UNTILED } from '../plan/plan'
import { assemble, forwardOps } from '../tile/segments'
import { tileFailed } from './tilefailed'
import { type Planner, resident } from './candidate'
import { layOut } from './layout'

export const inCoreSegments = (graph: Graph) =>
  assemble(graph, [{ ops: forwardOps(graph).map((o) => o.id), grid: UNTILED }])

export const inCore: Planner = (graph, machine) =>
  pipe(inCoreSegments(graph), mapLeft(tileFailed('in-core')), map((segments) => [resident(layOut(graph, segments, machine))].values()))
