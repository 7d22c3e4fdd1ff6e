// Plans whose parameters live in the lower tier. In: the in-core plan of a network. Out: the plan with all that may in the lower tier; or one that also
// loads the first parameters of the next step while a step ends.
import { isLeft } from 'fp-ts/Either'
import { describePlan, type Staged } from '../../src/stage/staged'
import { paged } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { fitted } from '../../staging/planner/fastest'
import { ahead } from '../../staging/planner/overlapping'
import { type Candidate, swappingOnDemand } from '../../staging/schedule/candidate'
import { inCoreSegments } from '../../staging/schedule/incore'
import { layOut } from '../../staging/schedule/layout'
import { homesOf } from '../../staging/search/lower'
import { problemOf } from '../../staging/search/problem'

const planned = ({ plan: { graph }, machine }: Staged, change: (c: Candidate) => Candidate, more: number): Staged => {
  const p = problemOf(graph, machine)
  const persistents = homesOf(p, new Uint8Array(p.units.length).fill(1))
  const c = swappingOnDemand(layOut(graph, inCoreSegments(graph), machine, { packing: 'dense', persistents }), machine)
  const o = { strategy: 'by hand', budgetBytes: bytesOf(c.least + more), machine, algorithms: 'fixed' } as const
  const made = fitted(change(c), o)
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return describePlan(paged(made.right), machine)
}

/** Small weights share pages of the lower tier. The budget is the smallest. */
export const withHomes = (alone: Staged): Staged => planned(alone, (c) => c, 0)

/** The link of the plan is fast, so that weights are written and loaded before the step ends. */
export const withHomesAhead = (alone: Staged): Staged => {
  const link = { ...alone.machine.link, inBytesPerSecond: 1e12, outBytesPerSecond: 1e12, latencySeconds: 0 }
  const fast = { ...alone, machine: { ...alone.machine, link } }
  return planned(fast, (c) => ahead(c, link, { fed: Infinity, home: Infinity }), 100)
}
