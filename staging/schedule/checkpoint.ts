// Checkpoint and recompute in blocks of equal size, `checkpoint:sqrt` (Chen et al.; papers 2 and 3 use it as a baseline).
// Keeps what crosses between blocks, drops the rest, and runs each block's forward again just before its backward.
// With n layers, sqrt(n) blocks need about 2 sqrt(n) values; the best number for a budget is found by trying them all.
import { isLeft, right } from 'fp-ts/Either'
import { UNTILED } from '../plan/plan'
import { balancedCuts, profileForward, splitAt } from '../tile/cuts'
import { assemble } from '../tile/segments'
import { type Candidate, deferred, type Planner, resident } from './candidate'
import { opCosts } from './chain'
import { layOut } from './layout'

const MOST_BLOCKS = 24

export const checkpointSqrt: Planner = (graph, machine) => {
  const profile = profileForward(graph)
  const costs = opCosts(graph, machine)
  const splits = new Map<string, readonly number[]>()
  for (let blocks = 2; blocks <= MOST_BLOCKS; blocks++) {
    const cuts = balancedCuts(profile, blocks)
    splits.set(cuts.join(), cuts)
  }
  return right(
    [...splits.values()]
      .flatMap((cuts): readonly Candidate[] => {
        const groups = splitAt(
          profile.ops.map((o) => o.id),
          cuts,
        ).map((ops) => ({ ops, grid: UNTILED }))
        const segments = assemble(graph, groups)
        if (isLeft(segments)) return []
        const seconds = segments.right.reduce((n, s) => n + s.body.reduce((m, step) => m + costs[step.op]!.seconds, 0), 0)
        return [deferred(seconds, () => resident(layOut(graph, segments.right, machine)))]
      })
      .values(),
  )
}
