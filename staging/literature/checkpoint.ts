// Checkpoint and recompute in blocks of equal size, `checkpoint:sqrt` (Chen et al.; papers 2 and 3 use it as a baseline). Keeps the values that cross
// between blocks, drops the rest, and runs each block's forward again just before its backward. With n layers, sqrt(n) blocks need about 2 sqrt(n)
// values; the best number for a budget is found by trying them all.
import { right } from 'fp-ts/Either'
import { type Segment, UNTILED } from '../plan/plan'
import { balancedCuts, type ForwardProfile, profileForward, splitAt } from '../tile/cuts'
import { assembledRuns } from '../tile/segments'
import { atLeastResident } from '../schedule/atleast'
import { type Candidate, deferred, type Planner, resident } from '../schedule/candidate'
import { opCosts } from '../schedule/chain'
import { untiled } from '../schedule/incore'
import { layOut } from '../schedule/layout'

const MOST_BLOCKS = 24

export interface CheckpointSqrtOptions {
  /** Try every number of blocks; else the square root of the number of layers. */
  readonly search: boolean
  /** Blocks of equal bytes, where one value crosses; else of as many ops. */
  readonly balanced: boolean
}
export const CHECKPOINT_SQRT: CheckpointSqrtOptions = { search: true, balanced: true }

/** Numbers of blocks, the least first. */
const blocksOf = (profile: ForwardProfile, o: CheckpointSqrtOptions): readonly number[] => {
  const layers = new Set(profile.ops.map((op) => op.layer)).size
  return o.search ? Array.from({ length: MOST_BLOCKS - 1 }, (_, i) => i + 2) : [Math.max(2, Math.round(Math.sqrt(layers)))]
}

const evenCuts = ({ ops }: ForwardProfile, blocks: number): readonly number[] =>
  Array.from({ length: blocks - 1 }, (_, i) => Math.round(((i + 1) * ops.length) / blocks))

/** Positions between blocks, the same ones once. */
const splitsOf = (profile: ForwardProfile, o: CheckpointSqrtOptions): readonly (readonly number[])[] => {
  const cuts = blocksOf(profile, o).map((n) => (o.balanced ? balancedCuts(profile, n) : evenCuts(profile, n)))
  return [...new Map(cuts.map((c) => [c.join(), c])).values()]
}

export const checkpointSqrt =
  (options: Partial<CheckpointSqrtOptions> = {}): Planner =>
  (graph, machine) => {
    const profile = profileForward(graph)
    const costs = opCosts(graph, machine)
    const ids = profile.ops.map((op) => op.id)
    const candidate = (cuts: readonly number[]): Candidate => {
      const blocks = splitAt(ids, cuts)
      const runs = assembledRuns(
        graph,
        blocks.map((ops) => ({ ops, grid: UNTILED })),
      )
      const seconds = runs.reduce((n, r) => n + r.ops.reduce((m, op) => m + costs[op]!.seconds, 0), 0)
      let made: readonly Segment[] | undefined
      const segments = (): readonly Segment[] => {
        made ??= untiled(graph, blocks)
        return made
      }
      const make = (): Candidate => resident(layOut(graph, segments(), machine, { packing: 'rows' }))
      return deferred(seconds, make, { atLeast: () => atLeastResident(graph, segments(), machine) })
    }
    return right(
      splitsOf(profile, { ...CHECKPOINT_SQRT, ...options })
        .map(candidate)
        .values(),
    )
  }
