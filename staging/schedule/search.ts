// The search over candidates: planners list them, the fastest in simulation that fits the budget is the plan.
// In: a training graph, a machine, a budget. Out: the best plan, without physical pages yet, or why there is none: with the
// smallest budget that works and what is in its way. Invariant: no candidate that could win is left out for its bounds.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { bytesOf, pagesFor, pagesIn } from '../core/bytes'
import type { StageError } from '../core/errors'
import { type Graph, trains } from '../graph/graph'
import { type Machine, withScratch } from '../graph/machine'
import { inOrder } from '../memory/pages'
import { homeBytes } from '../memory/place'
import type { Algorithms, UnpagedPlan } from '../plan/plan'
import { simulate } from '../sim/simulate'
import { atLeastSeconds, computeSeconds } from './bound'
import type { Candidate, Improver, Method } from './candidate'
import { inCoreRows } from './incore'
import { heldAt, type Layout } from './layout'
import { scheduleSwaps } from './swaptimes'
import { recomputableOf } from './recomputed'
import { PREDICTING } from './predicting'
import { planners, strategies } from './strategies'
import { tightestCall } from './stays'

export interface CompileOptions {
  readonly strategy: string
  readonly budgetBytes: number
  readonly machine: Machine
  readonly algorithms?: Algorithms
  /** Instead of what the registry has under the strategy's name: the laboratory takes heuristics away. */
  readonly method?: Method
  /** Told of the work as it is done. */
  readonly count?: (work: Work) => void
}

/** What the search does with a candidate: it is offered, laid out where its bounds do not rule it out, simulated where it fits. */
export type Work = 'offered' | 'laid out' | 'simulated'

/** The plan of a candidate in a budget, not verified yet and without physical pages; null when it does not fit. */
export const scheduled = (c: Candidate, strategy: string, o: Omit<CompileOptions, 'strategy'>): UnpagedPlan | null => {
  const pages = pagesIn(o.budgetBytes)
  if (c.least > pages) return null
  const { graph, segments, cells, calls, storages, places } = c.layout
  const swaps = scheduleSwaps(c.fit(pages), c.layout.calls, pages, o.machine.link, {
    bytes: homeBytes(storages),
    of: (s) => storages[s]!.home,
  })
  if (!swaps) return null
  return {
    graph,
    strategy,
    machine: o.machine.name,
    algorithms: o.algorithms ?? 'measured',
    ...(o.machine.precision === 'tf32' ? { precision: 'tf32' as const } : {}),
    budgetBytes: o.budgetBytes,
    segments,
    cells,
    calls,
    storages,
    places,
    residencies: inOrder(swaps.residencies),
    tierBytes: swaps.tierBytes,
  }
}

/** A step this little longer than its compute is not worth finer tiles. */
const HARDLY_WAITS = 1.02

interface Best {
  readonly candidate: Candidate
  readonly plan: UnpagedPlan
  readonly seconds: number
}

/** The fastest plan of the candidates seen so far, of one strategy after the other. */
class Search {
  best: Best | null = null
  smallest: Candidate | null = null
  /** Whose algorithms are planned with. */
  machine: Machine

  constructor(
    private readonly graph: Graph,
    private readonly o: CompileOptions,
  ) {
    this.machine = o.machine
  }

  private get pages(): number {
    return pagesIn(this.o.budgetBytes)
  }

  private beaten(layout: Layout): boolean {
    return this.best !== null && atLeastSeconds(layout, this.pages, this.o.machine.link) >= this.best.seconds
  }

  /** Not worth laying out. */
  private hopeless(c: Candidate): boolean {
    const slow = this.best !== null && (c.computeSeconds ?? 0) >= this.best.seconds
    const large = this.best !== null && (c.atLeastPages ?? 0) > this.pages
    this.o.count?.('offered')
    if (!slow && !large) this.o.count?.('laid out')
    return slow || large
  }

  /** A laid out candidate's seconds; Infinity where it does not fit, or cannot be the fastest. */
  private consider(c: Candidate, strategy: string): number {
    const plan = this.beaten(c.layout) ? null : scheduled(c, strategy, this.o)
    if (!plan) return Infinity
    this.o.count?.('simulated')
    const seconds = simulate(plan, this.o.machine.link).makespanSeconds
    if (!this.best || seconds < this.best.seconds) this.best = { candidate: c, plan, seconds }
    return seconds
  }

  /**
   * All that the planner lists: the least that it may need, by the bounds of those that are not laid out. One that fits and
   * hardly waits lets the planner skip those that compute more.
   */
  private list(candidates: Iterator<Candidate, unknown, boolean>, strategy: string): number {
    let goodEnough = false
    let least = Infinity
    for (let next = candidates.next(goodEnough); !next.done; next = candidates.next(goodEnough)) {
      const c = next.value
      goodEnough = false
      if (this.hopeless(c)) {
        least = Math.min(least, c.atLeastPages ?? 0)
        continue
      }
      least = Math.min(least, c.least)
      if (!this.smallest || c.least < this.smallest.least) this.smallest = c
      // What would wait too long may wait less in less memory; what computes too long would compute more.
      goodEnough =
        this.best !== null && computeSeconds(c.layout) >= this.best.seconds
          ? c.least <= this.pages
          : this.consider(c, strategy) <= HARDLY_WAITS * computeSeconds(c.layout)
    }
    return least
  }

  /** What the strategy lists, and what it makes for this budget where something listed fits. */
  run(strategy: string): Either<StageError, void> {
    const { planner, small, refiner } = this.o.method ?? planners[strategy]!
    const listed = planner(this.graph, this.machine)
    if (isLeft(listed)) return listed
    let least = this.list(listed.right, strategy)
    const smaller = small && least > this.pages ? small(this.graph, this.machine) : null
    if (smaller && isLeft(smaller)) return smaller
    if (smaller) least = Math.min(least, this.list(smaller.right, strategy))
    if (refiner && least <= this.pages)
      this.answer(refiner(this.graph, this.machine, this.pages, this.best?.seconds ?? Infinity), strategy)
    return right(undefined)
  }

  private answer(refined: Iterator<Candidate, unknown, number>, strategy: string): void {
    for (let next = refined.next(Infinity); !next.done; )
      next = refined.next(this.hopeless(next.value) ? Infinity : this.consider(next.value, strategy))
  }

  /** From the best plan, whosever it is. */
  improve(improver: Improver, strategy: string): void {
    if (this.best) this.answer(improver(this.graph, this.machine, this.best.candidate, this.best.seconds), strategy)
  }

  /**
   * `swap:*` move what in-core keeps, `hybrid:*` at least what is left of it when all that they may make again is gone: where
   * moving that much takes longer than the best, none of them need be tried.
   */
  isBeatenByTraffic(strategy: string): boolean {
    const { swaps } = planners[strategy]!
    if (!this.best || !swaps) return false
    const { graph, o } = this
    const droppable = swaps === 'rest' ? recomputableOf(graph, o.machine).droppable : []
    const freed = droppable.reduce((n, i) => n + pagesFor(i.bytes) + i.values.length, 0)
    return atLeastSeconds(inCoreRows(graph, o.machine), this.pages + freed, o.machine.link) >= this.best.seconds
  }
}

/** In-core where it fits; else mixtures, and every other strategy that may be faster still. What only predicts has tiles alone to choose. */
const runAll = (search: Search, mixes: boolean): Either<StageError, void> => {
  const inCore = search.run('in-core')
  if (isLeft(inCore) || search.best?.plan.strategy === 'in-core') return inCore
  if (mixes) search.run('auto')
  for (const name of mixes ? Object.keys(planners) : ['tiled'])
    if (name !== 'in-core' && name !== 'auto' && !search.isBeatenByTraffic(name)) search.run(name)
  search.improve(planners['auto']!.improver!, 'auto')
  return right(undefined)
}

/** The fastest algorithms; and, where their scratch may be in the way, those that need the least (paper 4, section 4.2). */
const scratchVariants = (m: Machine): readonly Machine[] => (m.choices ? [m, withScratch(m, 0)] : [m])

/** The plan of one candidate, or why it does not fit. */
export const fitted = (c: Candidate, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const plan = scheduled(c, o.strategy, o)
  return plan ? right(plan) : left(infeasible(c, o))
}

/** The fastest plan of a strategy that fits. */
export const search = (graph: Graph, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const legal: readonly string[] = trains(graph) ? strategies : PREDICTING
  if (!legal.includes(o.strategy)) return left({ tag: 'UnknownStrategy', got: o.strategy, legal })
  const found = new Search(graph, o)
  for (found.machine of scratchVariants(o.machine)) {
    const ran = o.strategy === 'auto' && !o.method ? runAll(found, trains(graph)) : found.run(o.strategy)
    if (isLeft(ran)) return ran
    if (o.method?.improver) found.improve(o.method.improver, o.strategy)
    if (found.best?.plan.strategy === 'in-core') break
  }
  return found.best ? right(found.best.plan) : left(infeasible(found.smallest, o))
}

const infeasible = (smallest: Candidate | null, o: CompileOptions): StageError => {
  if (!smallest)
    return { tag: 'BudgetInfeasible', strategy: o.strategy, budgetBytes: o.budgetBytes, smallestBytes: Infinity, inTheWay: [] }
  const planned = smallest.fit(smallest.least)
  const { call } = tightestCall(planned, smallest.layout.calls.length)
  return {
    tag: 'BudgetInfeasible',
    strategy: o.strategy,
    budgetBytes: o.budgetBytes,
    smallestBytes: bytesOf(smallest.least),
    inTheWay: heldAt(smallest.layout, planned, call)
      .slice(0, 5)
      .map((h) => ({ label: h.label, bytes: bytesOf(h.pages) })),
  }
}
