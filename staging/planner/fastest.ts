// The search over candidates: planners list them, the fastest in simulation that fits the budget is the plan. In: a training graph, a machine, a
// budget. Out: the best plan, without physical pages yet, or the reason why there is none, with the smallest budget that works and the values in the
// way. Invariant: bounds leave out no candidate that could win.
import { type Either, isLeft, isRight, type Left, left, mapLeft, right } from 'fp-ts/Either'
import { bytesOf, pagesIn } from '../core/bytes'
import type { StageError, TooManyCalls } from '../core/errors'
import { callsPlannedIn } from '../core/planningmemory'
import { type Graph, trains, valueBytes } from '../graph/graph'
import { hasTier, lastLink, type Machine, withoutTier, withScratch } from '../graph/machine'
import { inOrder, withPagesAhead } from '../plan/pages'
import { homeBytes } from '../memory/place'
import type { Algorithms, UnpagedPlan } from '../plan/plan'
import { outcomeOf } from '../sim/simulate'
import { arriving } from './arriving'
import { overlapping } from './overlapping'
import { atLeastSeconds, computeSeconds } from '../schedule/bound'
import { type Candidate, type Improver, type Method, resident } from '../schedule/candidate'
import { inCore, inCoreLayout } from '../schedule/incore'
import { DEFAULT_EFFORT, LEAST_EFFORT, WHOLE } from '../search/limits'
import { laying } from './laying'
import { heldAt, type Layout } from '../schedule/layout'
import { scheduleSwaps } from '../schedule/swaptimes'
import { PREDICTING } from './predicting'
import { planners, strategies } from './strategies'
import { leastPages, type PlannedStays, tightestCall } from '../schedule/stays'
import { type TierLack, tierLack, unworn } from './tierlack'
import { graphsInParts } from './weightparts'

export interface CompileOptions {
  readonly strategy: string
  readonly budgetBytes: number
  readonly machine: Machine
  readonly algorithms?: Algorithms
  /** Replaces the registry's entry under the strategy's name: the laboratory takes heuristics away. */
  readonly method?: Method
  /** Calls that there is memory to plan; absent: in Node.js' usual heap. */
  readonly mostCalls?: number
  /** Seconds of `auto`'s search, counted as work. 0: the list of the strategy alone. */
  readonly effort?: number | undefined
  /** Told of the work as it is done. */
  readonly count?: (work: Work) => void
}

/** The steps of a candidate: offered, laid out if its bounds do not exclude it, simulated if it fits. */
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
  const residencies = swaps && withPagesAhead(inOrder(swaps.residencies), calls.length)
  if (!residencies) return null
  return {
    graph,
    strategy,
    machine: o.machine.name,
    algorithms: o.algorithms ?? 'measured',
    ...(o.machine.precision === 'tf32' ? { precision: 'tf32' as const } : {}),
    ...(o.machine.network ? { network: o.machine.network } : {}),
    budgetBytes: o.budgetBytes,
    segments,
    cells,
    calls,
    storages,
    places,
    residencies: inOrder(residencies),
    tierBytes: swaps.tierBytes,
    ...(swaps.hostBytes === undefined ? {} : { hostBytes: swaps.hostBytes }),
  }
}

/** A step this little longer than its compute is not worth finer tiles. */
const HARDLY_WAITS = 1.02

/** And one that is only this little longer is as fast as it can be. */
const NOTHING_TO_GAIN = 1.001

interface Best {
  readonly candidate: Candidate
  readonly plan: UnpagedPlan
  readonly seconds: number
}

/** The fastest plan of the candidates seen so far, of one strategy after the other. */
class Search {
  best: Best | null = null
  /** Among plans that fit the budget and no tier, the one that exceeds its tier least. */
  lack: TierLack | null = null
  /** Nothing more need be tried. */
  isEnough = false
  /** Calls of finer tiles, more than the memory of the planner admits. */
  tooMany: TooManyCalls | undefined
  private smallest: Candidate | null = null
  /** Listed ones that surely exceed the budget: used only if nothing fits. */
  private readonly large: Candidate[] = []
  /** Whose algorithms are planned with. */
  machine: Machine

  constructor(
    private readonly graph: Graph,
    private readonly o: CompileOptions,
    /** True if the search ends at its first plan. */
    private readonly isFirst = false,
  ) {
    this.machine = o.machine
  }

  private get pages(): number {
    return pagesIn(this.o.budgetBytes)
  }

  private beaten(layout: Layout): boolean {
    return this.best !== null && atLeastSeconds(layout, this.pages, this.o.machine.link) >= this.best.seconds
  }

  /** For a candidate that is not worth a layout, a bound on its pages: cheap bounds come first. */
  private hopeless(c: Candidate): number | undefined {
    this.o.count?.('offered')
    const known = c.atLeastPages ?? 0
    if (this.best && ((c.computeSeconds ?? 0) >= this.best.seconds || known > this.pages)) return known
    if (this.best && (c.atLeast?.seconds(this.pages, this.o.machine.link) ?? 0) >= this.best.seconds) return known
    const pages = c.atLeast?.pages ?? 0
    if (pages > this.pages) return Math.max(pages, known)
    this.o.count?.('laid out')
    return undefined
  }

  /** The candidate with the least memory of all that were offered. A list of millions of calls is dropped as soon as its pages are known. */
  get least(): Candidate | null {
    this.large.sort((a, b) => b.atLeast!.pages - a.atLeast!.pages)
    for (
      let next = this.large.at(-1);
      next && next.atLeast!.pages < (this.smallest?.least ?? Infinity);
      next = this.large.at(-1)
    ) {
      this.large.pop()
      this.note(next)
    }
    return this.smallest
  }

  private note(c: Candidate): void {
    if (!this.smallest || c.least < this.smallest.least) this.smallest = c
  }

  /** A laid out candidate's seconds; Infinity where it does not fit, or cannot be the fastest. */
  private consider(c: Candidate, strategy: string): number {
    const plan = this.beaten(c.layout) ? null : scheduled(c, strategy, this.o)
    if (!plan) return Infinity
    this.o.count?.('simulated')
    const outcome = outcomeOf(plan, this.o.machine.link)
    const seconds = outcome.makespanSeconds
    const lack = tierLack(plan, this.o.machine, outcome)
    if (lack) {
      if (!this.lack || lack.needs / lack.has < this.lack.needs / this.lack.has) this.lack = lack
      return Infinity
    }
    if (!this.best || seconds < this.best.seconds) this.best = { candidate: c, plan, seconds }
    return seconds
  }

  /**
   * All that the planner lists, or all until one is enough: the least that it may need, by the bounds of those that are not laid
   * out. One that fits and hardly waits lets the planner skip those that compute more.
   */
  private list(
    candidates: Iterator<Candidate, unknown, boolean>,
    strategy: string,
    isEnough: (c: Candidate) => boolean = () => false,
  ): number {
    let goodEnough = false
    let least = Infinity
    for (let next = candidates.next(goodEnough); !next.done; next = candidates.next(goodEnough)) {
      const c = next.value
      goodEnough = false
      const hopeless = this.hopeless(c)
      if (hopeless !== undefined) {
        least = Math.min(least, hopeless)
        if (!this.best) this.large.push(c)
        continue
      }
      least = Math.min(least, c.least)
      this.note(c)
      // A plan with long waits may wait less in less memory; a plan with long compute would compute more.
      goodEnough =
        this.best !== null && computeSeconds(c.layout) >= this.best.seconds
          ? c.least <= this.pages
          : this.consider(c, strategy) <= HARDLY_WAITS * computeSeconds(c.layout)
      if (isEnough(c) || this.hasFirst) break
    }
    return least
  }

  private get refines(): boolean {
    return !this.isFirst && this.o.effort !== 0
  }

  /** Returns true if the search ends at its first plan and has one. */
  get hasFirst(): boolean {
    return this.isFirst && this.best !== null
  }

  /** The list of the strategy, and its candidates for this budget if a listed one fits. */
  run(strategy: string): Either<StageError, void> {
    const { planner, small, refiner } = this.o.method ?? planners[strategy]!
    const listed = planner(this.graph, this.machine)
    if (isLeft(listed)) return listed
    let least = this.list(listed.right, strategy)
    if (this.hasFirst) return right(undefined)
    const smaller = small && least > this.pages ? small(this.graph, this.machine) : null
    if (smaller && isLeft(smaller)) return smaller
    const fits = (c: Candidate): boolean => c.least <= this.pages
    if (smaller) least = Math.min(least, this.list(smaller.right, strategy, fits))
    if (refiner && least <= this.pages && this.refines)
      this.answer(refiner(this.graph, this.machine, this.pages, this.best?.seconds ?? Infinity, this.o.effort), strategy)
    return right(undefined)
  }

  /** The last list of a strategy, if nothing else fits: candidates with the least memory. */
  finest(strategy: string): void {
    const { method = planners[strategy]!, mostCalls = callsPlannedIn() } = this.o
    const listed = method.finest?.(this.graph, this.machine, mostCalls)
    if (!listed) return
    const known = this.isFirst ? Infinity : (this.least?.least ?? Infinity)
    let next = listed.next(false)
    for (; !next.done && !this.best; next = listed.next(false)) {
      const c = next.value
      if ((c.atLeast?.pages ?? 0) >= known) continue
      if (this.hopeless(c) === undefined) {
        this.note(c)
        this.consider(c, strategy)
      } else this.large.push(c)
    }
    if (next.done && next.value !== undefined) this.tooMany = { calls: next.value, most: mostCalls }
    if (this.best && method.refiner && this.refines)
      this.answer(method.refiner(this.graph, this.machine, this.pages, this.best.seconds, this.o.effort), strategy)
  }

  private answer(refined: Iterator<Candidate, unknown, number>, strategy: string): void {
    for (let next = refined.next(Infinity); !next.done; )
      next = refined.next(this.hopeless(next.value) === undefined ? this.consider(next.value, strategy) : Infinity)
  }

  /** Returns true if the best waits for a part of its time that is worth a search. */
  get waits(): boolean {
    return this.best !== null && this.best.seconds > NOTHING_TO_GAIN * computeSeconds(this.best.candidate.layout)
  }

  /** From the best plan, whosever it is. Below the least effort of a search, improvements would take most of the time. */
  improve(improver: Improver, strategy: string): void {
    if (!this.best || this.isFirst || (this.o.effort ?? DEFAULT_EFFORT) < LEAST_EFFORT) return
    const { candidate, seconds } = this.best
    this.answer(improver(this.graph, this.machine, this.pages, candidate, seconds), strategy)
  }
}

/** Waits less for the input of the step. Predictions run one step at a time. */
const startSooner = (search: Search, trains: boolean): void => {
  for (const improver of trains ? [overlapping, arriving] : [arriving]) if (search.waits) search.improve(improver, 'auto')
}

/** In-core if it fits, else the search. Predictions choose only tiles. */
const runAll = (search: Search, trains: boolean): Either<StageError, void> => {
  const inCore = search.run('in-core')
  if (isLeft(inCore)) return inCore
  if (search.best) {
    search.isEnough = true
    startSooner(search, trains)
    return inCore
  }
  search.run(trains ? 'auto' : 'tiled')
  if (!trains) for (const improver of planners['tiled']!.improvers!) search.improve(improver, 'auto')
  startSooner(search, trains)
  return right(undefined)
}

/** The fastest algorithms; and, where their scratch may be in the way, those that need the least (paper 4, section 4.2). */
const scratchVariants = (m: Machine): readonly Machine[] => (m.choices ? [m, withScratch(m, 0)] : [m])

/** A link that is dear: planners move less. */
const DEAR = 1 / 16
const withDearLink = (m: Machine): Machine => {
  const { outBytesPerSecond: out, inBytesPerSecond: into, beyond } = m.link
  const dear = beyond ?? { outBytesPerSecond: DEAR * out, inBytesPerSecond: DEAR * into }
  return {
    ...m,
    link: { ...m.link, outBytesPerSecond: dear.outBytesPerSecond, inBytesPerSecond: dear.inBytesPerSecond },
  }
}

/**
 * If host memory is too small, planners see the link of the disk, or a dear one, and move less. The search of `auto` knows the limits. It needs the dear link
 * only if it found no plan, because it starts from plans that move much.
 */
const linkVariants = (found: Search, { strategy, method }: CompileOptions): readonly Machine[] => {
  const { hostBytes, tierBytes } = found.best?.plan ?? { tierBytes: 0 }
  const isTooSmall = found.lack !== null || tierBytes > (hostBytes ?? Infinity)
  const knowsLimits = strategy === 'auto' && !method && found.best !== null
  return isTooSmall && !knowsLimits ? [withDearLink(found.machine)] : []
}

/** The plan of one candidate, or why it does not fit. */
export const fitted = (c: Candidate, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const plan = scheduled(c, o.strategy, o)
  if (!plan) return left(infeasible(c, o))
  const lack = tierLack(plan, unworn(o.machine), outcomeOf(plan, o.machine.link))
  return lack ? left(tooLittle(lack, o)) : right(plan)
}

/** Host memory that is the device's own memory is no lower tier for `auto`, unless a part of it was offered. */
export const asStrategyMoves = (o: CompileOptions): CompileOptions =>
  o.strategy === 'auto' && !o.method && o.machine.link.sameMemory ? { ...o, machine: withoutTier(o.machine) } : o

/** The fastest plan of a strategy that fits. */
export const search = (graph: Graph, requested: CompileOptions): Either<StageError, UnpagedPlan> => {
  const legal: readonly string[] = trains(graph) ? strategies : PREDICTING
  if (!legal.includes(requested.strategy)) return left({ tag: 'UnknownStrategy', got: requested.strategy, legal })
  const o = asStrategyMoves(requested)
  return mapLeft((e: StageError) => withinTier(graph, o, e))(withWeightParts(graph, o))
}

/** The steps with weights in parts that `auto` plans if nothing fits with whole weights. */
const partsFor = (graph: Graph, { strategy, method }: CompileOptions): readonly Graph[] =>
  strategy === 'auto' && !method ? graphsInParts(graph) : []

/**
 * With whole weights, or with weights in parts if that is faster. If the budget is too small for whole weights, in the largest parts that fit. Ends
 * where smaller parts need no less.
 */
const withWeightParts = (graph: Graph, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  let answer = searchedGently(graph, o)
  if (isRight(answer)) return fasterInParts(graph, o, answer.right)
  for (const parts of partsFor(graph, o)) {
    if (!isBudgetRefusal(answer)) return answer
    const next = searchedGently(parts, o)
    if (isBudgetRefusal(next) && next.left.smallestBytes >= answer.left.smallestBytes) return answer
    answer = next
  }
  return answer
}

/** The faster of a plan with whole weights and one with weights in parts. The second is tried if no loop of the search may hold the largest weight. */
const fasterInParts = (graph: Graph, o: CompileOptions, whole: UnpagedPlan): Either<StageError, UnpagedPlan> => {
  const seconds = (plan: UnpagedPlan): number => outcomeOf(plan, o.machine.link).makespanSeconds
  const weights = graph.values.flatMap((v) => (v.role === 'param' ? [valueBytes(v)] : []))
  const isWorthTrying =
    (o.effort ?? DEFAULT_EFFORT) >= LEAST_EFFORT &&
    Math.max(0, ...weights) > WHOLE * o.budgetBytes &&
    seconds(whole) > HARDLY_WAITS * computeSeconds(inCoreLayout(graph, o.machine))
  const [parts] = isWorthTrying ? partsFor(graph, o) : []
  const other = parts && searchedGently(parts, o)
  return right(other && isRight(other) && seconds(other.right) < seconds(whole) ? other.right : whole)
}

type BudgetRefusal = Left<Extract<StageError, { readonly tag: 'BudgetInfeasible' }>>
const isBudgetRefusal = (answer: Either<StageError, unknown>): answer is BudgetRefusal =>
  isLeft(answer) && answer.left.tag === 'BudgetInfeasible'

const searchedGently = (graph: Graph, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const gentle = searched(graph, o)
  // A disk is worn out rather than that nothing can be trained.
  return isLeft(gentle) && gentle.left.tag === 'TierInfeasible' && lastLink(o.machine.link).writesPerSecond !== undefined
    ? searched(graph, { ...o, machine: unworn(o.machine) })
    : gentle
}

/** Raises the smallest budget of a refusal if a limited lower tier is too small for the plan in it. In-core plans need no tier. */
const withinTier = (graph: Graph, o: CompileOptions, e: StageError): StageError => {
  const { bytes, beyond } = o.machine.link
  const isLimited = hasTier(o.machine) && (beyond ?? { bytes }).bytes !== undefined
  if (e.tag !== 'BudgetInfeasible' || !Number.isFinite(e.smallestBytes) || !isLimited) return e
  const fits = (pages: number): boolean => hasPlan(graph, { ...o, budgetBytes: bytesOf(pages) })
  let low = pagesIn(e.smallestBytes)
  if (fits(low)) return e
  let high = resident(inCoreLayout(graph, o.machine)).least
  if (high <= low || !fits(high)) return e
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2)
    if (fits(middle)) high = middle
    else low = middle
  }
  return { ...e, smallestBytes: bytesOf(high) }
}

/** The pages of the step that keeps everything. */
export const inCorePages = (graph: Graph, machine: Machine): number =>
  Math.min(
    ...scratchVariants(machine).flatMap((m) => {
      const listed = inCore(graph, m)
      return isLeft(listed) ? [] : Array.from({ [Symbol.iterator]: () => listed.right }, (c) => c.least)
    }),
  )

/** Returns true if a plan of the strategy fits: the same answer as `search`, without the search for a fast one. */
export const hasPlan = (graph: Graph, asked: CompileOptions): boolean => {
  const o = asStrategyMoves({ ...asked, machine: unworn(asked.machine) })
  return hasOwnPlan(graph, o) || (partsFor(graph, o).length > 0 && isRight(withWeightParts(graph, { ...o, effort: 0 })))
}

const hasOwnPlan = (graph: Graph, o: CompileOptions): boolean => {
  const found = new Search(graph, o, true)
  const isTrained = trains(graph)
  const isAuto = o.strategy === 'auto' && !o.method
  for (const machine of scratchVariants(o.machine)) {
    found.machine = machine
    if (isAuto) found.run('in-core')
    if (!found.hasFirst) found.run(isAuto && !isTrained ? 'tiled' : o.strategy)
    if (found.hasFirst) return true
  }
  if (!found.lack) found.finest(isTrained || !isAuto ? o.strategy : 'tiled')
  return found.hasFirst || (found.lack !== null && isRight(searchedGently(graph, o)))
}

const searched = (graph: Graph, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const found = new Search(graph, o)
  const runs = (): Either<StageError, void> => {
    const ran = o.strategy === 'auto' && !o.method ? runAll(found, trains(graph)) : found.run(o.strategy)
    if (!isLeft(ran)) for (const improver of o.method?.improvers ?? []) found.improve(improver, o.strategy)
    return ran
  }
  for (const machine of scratchVariants(o.machine)) {
    found.machine = machine
    const ran = runs()
    if (isLeft(ran)) return ran
    for (found.machine of linkVariants(found, o)) runs()
    if (found.isEnough) break
  }
  // More calls take less memory, and do not move less.
  if (!found.best && !found.lack) found.finest(trains(graph) || o.strategy !== 'auto' ? o.strategy : 'tiled')
  // The last of all: it changes the graph, which nothing else would know.
  if (o.strategy === 'auto' && !o.method) found.improve(laying, 'auto')
  if (found.best) return right(found.best.plan)
  return left(found.lack ? tooLittle(found.lack, o) : infeasible(found.least, o, found.tooMany))
}

const tooLittle = ({ of, needs, has }: TierLack, o: CompileOptions): StageError => ({
  tag: 'TierInfeasible',
  strategy: o.strategy,
  budgetBytes: o.budgetBytes,
  of,
  needsBytes: needs,
  hasBytes: has,
})

/** With all swaps; a candidate without early moves needs no more than its least either way. */
const tightestOf = (c: Candidate): readonly PlannedStays[] => {
  const all = c.fit(0)
  return leastPages(all, c.layout.calls.length) === c.least ? all : c.fit(c.least)
}

const infeasible = (smallest: Candidate | null, o: CompileOptions, tooMany?: TooManyCalls): StageError => {
  const refused = {
    tag: 'BudgetInfeasible',
    strategy: o.strategy,
    budgetBytes: o.budgetBytes,
    ...(tooMany ? { tooMany } : {}),
    ...(hasTier(o.machine) ? {} : { withoutTier: true as const }),
  } as const
  if (!smallest) return { ...refused, smallestBytes: Infinity, inTheWay: [] }
  const planned = tightestOf(smallest)
  const { call } = tightestCall(planned, smallest.layout.calls.length)
  const { op, kind } = smallest.layout.calls[call]!
  return {
    ...refused,
    smallestBytes: bytesOf(smallest.least),
    ...(op >= 0 ? { call: { layer: smallest.layout.graph.ops[op]!.layer, kind } } : {}),
    inTheWay: heldAt(smallest.layout, planned, call)
      .slice(0, 5)
      .map((h) => ({ label: h.label, bytes: bytesOf(h.pages) })),
  }
}
