// The passes, in order: candidates (tile, schedule) → moves → pages → plan → verify. In: a training graph, a machine, a
// budget. Out: the fastest plan that fits, or why there is none.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { PAGE_BYTES } from './core/bytes'
import type { StageError } from './core/errors'
import type { Graph } from './graph/graph'
import type { Machine } from './graph/machine'
import { assignPages } from './memory/pages'
import type { Algorithms, Plan, Segment } from './plan/plan'
import { type Candidate, spilling } from './schedule/candidate'
import { heldAt, layOut } from './schedule/layout'
import { scheduleMoves, tightestCall } from './schedule/moves'
import { planners, refiners, strategies } from './schedule/strategies'
import { simulate } from './sim/simulate'
import { verify } from './verify/verify'

export interface CompileOptions {
  readonly strategy: string
  readonly budgetBytes: number
  readonly machine: Machine
  readonly algorithms?: Algorithms
}

const finish = (c: Candidate, strategy: string, o: CompileOptions): Plan | null => {
  const pages = Math.floor(o.budgetBytes / PAGE_BYTES)
  if (c.least > pages) return null
  const moves = scheduleMoves(c.fit(pages), c.layout.calls, pages, o.machine.link)
  if (!moves) return null
  const { residencies, peakPages } = assignPages(moves.drafts, c.layout.calls.length)
  const { graph, segments, cells, calls, storages, places } = c.layout
  return {
    graph,
    strategy,
    machine: o.machine.name,
    algorithms: o.algorithms ?? 'measured',
    budgetBytes: o.budgetBytes,
    segments,
    cells,
    calls,
    storages,
    places,
    residencies,
    peakPages,
    tierBytes: moves.tierBytes,
  }
}

/** A step this little longer than its compute is not worth finer tiles. */
const HARDLY_WAITS = 1.02

interface Best {
  readonly plan: Plan
  readonly seconds: number
}

/** The fastest plan of the candidates seen so far. */
class Search {
  best: Best | null = null
  smallest: Candidate | null = null

  constructor(
    private readonly strategy: string,
    private readonly o: CompileOptions,
  ) {}

  private get pages(): number {
    return Math.floor(this.o.budgetBytes / PAGE_BYTES)
  }

  /** The candidate's seconds; Infinity where it does not fit, or cannot be the fastest. */
  consider(c: Candidate): number {
    const plan = this.best && computeOf(c) >= this.best.seconds ? null : finish(c, this.strategy, this.o)
    if (!plan) return Infinity
    const seconds = simulate(plan, this.o.machine.link).makespanSeconds
    if (!this.best || seconds < this.best.seconds) this.best = { plan, seconds }
    return seconds
  }

  /** All that the planner lists. A candidate that fits and hardly waits lets it skip those that compute more. */
  list(candidates: Iterator<Candidate, unknown, boolean>): void {
    let goodEnough = false
    for (let next = candidates.next(goodEnough); !next.done; next = candidates.next(goodEnough)) {
      const c = next.value
      if (!this.smallest || c.least < this.smallest.least) this.smallest = c
      const beaten = this.best !== null && computeOf(c) >= this.best.seconds
      goodEnough = beaten ? c.least <= this.pages : this.consider(c) <= HARDLY_WAITS * computeOf(c)
    }
  }

  /** What is made for this budget; only where something listed fits, so that what is feasible does not depend on it. */
  refine(candidates: Iterator<Candidate, unknown, number>): void {
    if (!this.smallest || this.smallest.least > this.pages) return
    for (let next = candidates.next(Infinity); !next.done; ) next = candidates.next(this.consider(next.value))
  }
}

/** A step takes at least its compute: most candidates need no closer look. */
const computeOf = (c: Candidate): number => c.layout.calls.reduce((n, x) => n + x.seconds, 0)

/** The candidates of one strategy: the fastest that fits, and the one that needs least. */
const search = (graph: Graph, strategy: string, o: CompileOptions): Either<StageError, Search> => {
  const listed = planners[strategy]!(graph, o.machine)
  if (isLeft(listed)) return listed
  const found = new Search(strategy, o)
  found.list(listed.right)
  const refiner = refiners[strategy]
  if (refiner) found.refine(refiner(graph, o.machine, Math.floor(o.budgetBytes / PAGE_BYTES)))
  return right(found)
}

export const compile = (graph: Graph, o: CompileOptions): Either<StageError, Plan> => {
  if (!strategies.includes(o.strategy)) return left({ tag: 'UnknownStrategy', got: o.strategy, legal: strategies })
  const names = o.strategy === 'auto' ? Object.keys(planners) : [o.strategy]
  let best: Best | null = null
  let smallest: Candidate | null = null
  for (const name of names) {
    const found = search(graph, name, o)
    if (isLeft(found)) {
      if (names.length === 1) return found
      continue
    }
    const { best: b, smallest: s } = found.right
    if (s && (!smallest || s.least < smallest.least)) smallest = s
    if (b && (!best || b.seconds < best.seconds)) best = b
    if (o.strategy === 'auto' && name === 'in-core' && b) break
  }
  if (!best) return left(infeasible(smallest, o))
  const verified = verify(best.plan)
  return isLeft(verified) ? verified : right(best.plan)
}

/** The plan of given segments, as much of it leaving the device as the budget demands: for tests and for plans by hand. */
export const compileSegments = (graph: Graph, segments: readonly Segment[], o: CompileOptions): Either<StageError, Plan> => {
  const candidate = spilling(layOut(graph, segments, o.machine))
  const plan = finish(candidate, o.strategy, o)
  if (!plan) return left(infeasible(candidate, o))
  const verified = verify(plan)
  return isLeft(verified) ? verified : right(plan)
}

const infeasible = (smallest: Candidate | null, o: CompileOptions): StageError => {
  if (!smallest)
    return { tag: 'BudgetInfeasible', strategy: o.strategy, budgetBytes: o.budgetBytes, smallestBytes: Infinity, inTheWay: [] }
  const tracks = smallest.fit(smallest.least)
  const { call } = tightestCall(tracks, smallest.layout.calls.length)
  return {
    tag: 'BudgetInfeasible',
    strategy: o.strategy,
    budgetBytes: o.budgetBytes,
    smallestBytes: smallest.least * PAGE_BYTES,
    inTheWay: heldAt(smallest.layout, tracks, call)
      .slice(0, 5)
      .map((h) => ({ label: h.label, bytes: h.pages * PAGE_BYTES })),
  }
}
