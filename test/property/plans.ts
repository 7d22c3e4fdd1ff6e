// Plans of random networks under forced tile grids and tight budgets, which planners would seldom choose for images this
// small. In: a training graph, cuts, grids, how much less than enough the budget is. Out: a finished plan, unverified.
import { type Either, isLeft } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { paged } from '../../staging/compile'
import { bytesOf, pagesFor } from '../../staging/core/bytes'
import { training } from '../../staging/grad/grad'
import { withPoolPlaces } from '../../staging/grad/rewrite/poolplaces'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { type Grid, type Plan, UNTILED } from '../../staging/plan/plan'
import { swappingOnDemand } from '../../staging/schedule/candidate'
import { layOut } from '../../staging/schedule/layout'
import { scheduled } from '../../staging/planner/fastest'
import { maximalRuns } from '../../staging/tile/ft'
import { assemble, type Group } from '../../staging/tile/segments'
import { minimising, must } from '../graph/sketch'
import { networkOf, type Recipe, recipes } from './networks'

/** Which grid each run of tileable ops gets, and after how many ops it is cut. */
export interface Tiling {
  readonly grids: readonly Grid[]
  readonly cutAfter: readonly number[]
  /** 0: everything fits; 1: as little memory as the plan can do with. */
  readonly squeeze: number
}

export interface Case {
  readonly recipe: Recipe
  readonly tiling: Tiling
}

const side = (hi: number): fc.Arbitrary<number> => fc.integer({ min: 1, max: hi })
export const tilings: fc.Arbitrary<Tiling> = fc.record({
  grids: fc.array(fc.record({ B: side(3), H: side(5), W: side(7) }), { minLength: 1, maxLength: 4 }),
  cutAfter: fc.array(side(8), { minLength: 1, maxLength: 4 }),
  squeeze: fc.constantFrom(0, 0.5, 1),
})
export const cases: fc.Arbitrary<Case> = fc.record({ recipe: recipes, tiling: tilings })

/** No finer than the smallest image in the group. */
const clipped = (graph: Graph, ops: readonly number[], dims: ReadonlySet<string>, grid: Grid): Grid => {
  const shapes = ops
    .flatMap((id) => [...graph.ops[id]!.ins, ...graph.ops[id]!.outs])
    .map((v) => graph.values[v]!)
    .filter((v) => v.shape.length === 4 && (v.role === 'activation' || v.role === 'input'))
    .map((v) => v.shape)
  const least = (i: number): number => Math.min(...shapes.map((s) => s[i]!))
  const along = (dim: 'B' | 'H' | 'W', i: number): number => (dims.has(dim) ? Math.max(1, Math.min(grid[dim], least(i))) : 1)
  return { B: along('B', 0), H: along('H', 2), W: along('W', 3) }
}

export const groupsOf = (graph: Graph, t: Tiling): readonly Group[] => {
  const groups: Group[] = []
  for (const run of maximalRuns(graph)) {
    let ops = run.ops.map((o) => o.id)
    while (ops.length > 0) {
      const k = groups.length
      const part = ops.slice(0, t.cutAfter[k % t.cutAfter.length]!)
      ops = ops.slice(part.length)
      const grid = t.grids[k % t.grids.length]!
      groups.push({ ops: part, grid: run.dims.size === 0 ? UNTILED : clipped(graph, part, run.dims, grid) })
    }
  }
  return groups
}

export const trainingOf = (r: Recipe, dtype: 'f32' | 'f64' = 'f32'): Graph => {
  const { graph, output, loss } = networkOf(r)
  const optimizer = { kind: 'sgd', lr: 0.1, momentum: 0.9, weightDecay: 0, nesterov: false } as const
  const step = must(minimising(graph, output, loss, optimizer))
  return r.fused ? withPoolPlaces(must(training(rewritten(step), { dtype }))) : must(training(step, { dtype }))
}

/** Undefined when the grids do not suit the network: the tiler says so itself. */
export const planOf = (graph: Graph, groups: readonly Group[], squeeze: number, machine: Machine): Plan | undefined =>
  planOfSegments(graph, assemble(graph, groups), squeeze, machine)

export const planOfSegments = (
  graph: Graph,
  segments: Either<unknown, Plan['segments']>,
  squeeze: number,
  machine: Machine,
): Plan | undefined => {
  if (isLeft(segments)) return undefined
  const layout = layOut(graph, segments.right, machine)
  const candidate = swappingOnDemand(layout, machine)
  const most = layout.storages.reduce((n, s) => n + pagesFor(s.bytes), 0)
  const pages = Math.round(most + (candidate.least - most) * squeeze)
  const plan = scheduled(candidate, 'tiled', { machine, algorithms: 'fixed', budgetBytes: bytesOf(pages) })
  return plan ? paged(plan) : undefined
}
