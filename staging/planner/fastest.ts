// The search over candidates. Planners list candidates; the plan is the candidate that fits the budget and is fastest in simulation. In: a training
// graph, a machine, a budget. Out: the best plan, without physical pages; or the reason why none fits, the smallest sufficient budget, and the
// largest values at the tightest call. Invariant: lower bounds exclude no candidate that could win.
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
import { copying } from './copying'
import { overlapping } from './overlapping'
import { atLeastSeconds, computeSeconds } from '../schedule/bound'
import { type Candidate, type Improver, type Method, resident, type TierLack } from '../schedule/candidate'
import { inCore, inCoreLayout } from '../schedule/incore'
import { DEFAULT_EFFORT, LEAST_EFFORT, WHOLE } from '../search/limits'
import { laying } from './laying'
import { heldAt, heldAtSwappingAll, type HeldValue, type Layout } from '../schedule/layout'
import { scheduleSwaps } from '../schedule/swaptimes'
import { PREDICTING } from './predicting'
import { planners, strategies } from './strategies'
import { leastPages, type PlannedStays, tightestCall, tightestSwappingAll } from '../schedule/stays'
import { tierLack, withoutWearLimit } from './tierlack'
import { graphsInParts } from './weightparts'

export interface CompileOptions {
  readonly strategy: string
  readonly budgetBytes: number
  readonly machine: Machine
  readonly algorithms?: Algorithms
  /** Replaces the registry's planner of this strategy. The laboratory uses it to switch heuristics off. */
  readonly method?: Method
  /** The most calls that the planner has memory for. Default: the number for the usual heap of Node.js. */
  readonly mostCalls?: number
  /** Seconds of `auto`'s search, counted as work. With 0, only the listed candidates are tried. */
  readonly effort?: number | undefined
  /** Called for each step of work. */
  readonly count?: (work: Work) => void
}

/** The steps of a candidate: offered, laid out if its bounds do not exclude it, simulated if it fits. */
export type Work = 'offered' | 'laid out' | 'simulated'

/** Returns the plan of a candidate in a budget, without verification and without physical pages; null if it does not fit. */
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

/** A step is not worth finer tiles if its time is at most this factor above its compute. */
const HARDLY_WAITS = 1.02

/** A step is not worth improvers if its time is at most this factor above its compute. */
const NOTHING_TO_GAIN = 1.001

interface Best {
  readonly candidate: Candidate
  /** The machine with the kernel algorithms of the candidate. */
  readonly machine: Machine
  readonly plan: UnpagedPlan
  readonly seconds: number
}

/** The tightest call of a candidate with the least memory, and the values on the device there, largest first. */
interface Tight {
  readonly op: { readonly layer: string; readonly kind: string } | undefined
  readonly held: readonly HeldValue[]
}

/** The least memory of the candidates that have a layout. */
interface Smallest {
  readonly least: number
  readonly tight: () => Tight
}

const tightOf = (c: Candidate): Tight => {
  const { layout, leaving } = c
  const count = layout.calls.length
  const planned = leaving ? [] : tightestOf(c)
  const { call } = leaving ? tightestSwappingAll(layout.alike, count, leaving) : tightestCall(planned, count)
  const { op, kind } = layout.calls[call]!
  return {
    op: op >= 0 ? { layer: layout.graph.ops[op]!.layer, kind } : undefined,
    held: leaving ? heldAtSwappingAll(layout, call, leaving) : heldAt(layout, planned, call),
  }
}

/** The stays with the least memory. A candidate without early swaps needs no more than `least` in both cases. */
const tightestOf = (c: Candidate): readonly PlannedStays[] => {
  const all = c.fit(0)
  return leastPages(all, c.layout.calls.length) === c.least ? all : c.fit(c.least)
}

/** A search without a plan. The smallest budget takes layouts, so it is computed only if it is needed. */
interface Refusal {
  readonly tag: StageError['tag']
  /** A lower bound on the smallest budget. */
  readonly atLeastPages: number
  readonly error: () => StageError
}

const refusal = (tag: StageError['tag'], atLeastPages: number, make: () => StageError): Refusal => {
  let made: StageError | undefined
  return {
    tag,
    atLeastPages,
    error: () => {
      made ??= make()
      return made
    },
  }
}

const known = (e: StageError): Refusal => refusal(e.tag, 0, () => e)

/** The fastest plan so far, over the candidates of all strategies tried. */
class Search {
  best: Best | null = null
  /** The smallest lack of the lower tier, among plans that fit the budget but not the tier. */
  lack: TierLack | null = null
  /** True if no other candidate needs to be tried. */
  isEnough = false
  /** The calls of the finest tiles, if they are more than the planner has memory for. */
  tooMany: TooManyCalls | undefined
  private smallest: Smallest | null = null
  /** Listed candidates whose lower bound exceeds the budget. Used only if nothing fits. */
  private readonly large: Candidate[] = []
  /** The machine whose kernel algorithms the plans use. */
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

  /**
   * Returns a lower bound on the pages of a candidate that cannot win or fit; undefined if it is worth a layout. The cheap bounds are checked first.
   */
  private boundIfExcluded(c: Candidate): number | undefined {
    this.o.count?.('offered')
    const known = c.atLeastPages ?? 0
    if (this.best && ((c.computeSeconds ?? 0) >= this.best.seconds || known > this.pages)) return known
    if (this.best && (c.atLeast?.seconds(this.pages, this.o.machine.link) ?? 0) >= this.best.seconds) return known
    const pages = c.atLeast?.pages ?? 0
    if (pages > this.pages) return Math.max(pages, known)
    this.o.count?.('laid out')
    return undefined
  }

  /** A lower bound on the memory of all offered candidates. */
  get atLeastPages(): number {
    return this.large.reduce((n, c) => Math.min(n, c.atLeast!.pages), this.smallest?.least ?? Infinity)
  }

  /** The least memory of the offered candidates. A large candidate is laid out only if its bound is below the least so far, and is then dropped. */
  get least(): Smallest | null {
    this.large.sort((a, b) => b.atLeast!.pages - a.atLeast!.pages)
    while ((this.large.at(-1)?.atLeast?.pages ?? Infinity) < (this.smallest?.least ?? Infinity)) this.layOutLast()
    return this.smallest
  }

  /** In its own frame, so that nothing holds the layout while the next one is made: that of a million calls takes half a GiB. */
  private layOutLast(): void {
    const next = this.large.pop()!
    if (next.least >= (this.smallest?.least ?? Infinity)) return
    const tight = tightOf(next)
    this.smallest = { least: next.least, tight: () => tight }
  }

  /** The refusal of a search without a plan. */
  get refused(): Refusal {
    return refusal('BudgetInfeasible', this.atLeastPages, () => infeasible(this.least, this.o, this.tooMany))
  }

  private note(c: Candidate): void {
    if (c.least < (this.smallest?.least ?? Infinity)) this.smallest = { least: c.least, tight: () => tightOf(c) }
  }

  /** Returns the seconds of a candidate with a layout; Infinity if it does not fit or cannot be the fastest. */
  private consider(c: Candidate, strategy: string): number {
    const plan = this.beaten(c.layout) ? null : scheduled(c, strategy, this.o)
    if (!plan) return Infinity
    this.o.count?.('simulated')
    const outcome = outcomeOf(plan, this.o.machine.link)
    const seconds = outcome.makespanSeconds
    const lack = tierLack(plan, this.o.machine, outcome)
    if (lack) {
      c.onLack?.(lack)
      if (!this.lack || lack.needs / lack.has < this.lack.needs / this.lack.has) this.lack = lack
      return Infinity
    }
    if (!this.best || seconds < this.best.seconds) this.best = { candidate: c, machine: this.machine, plan, seconds }
    // With a plan, the smallest budget is not needed: the layouts behind it can be freed.
    this.smallest = null
    this.large.length = 0
    return seconds
  }

  /**
   * Tries all candidates of a planner, or all until `isEnough`. Returns the least pages of any of them, by the lower bound of those without a layout.
   * After a candidate that fits and hardly waits, the planner may skip those that compute more.
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
      const excludedPages = this.boundIfExcluded(c)
      if (excludedPages !== undefined) {
        least = Math.min(least, excludedPages)
        if (!this.best) this.large.push(c)
        continue
      }
      least = Math.min(least, c.least)
      this.note(c)
      // A plan with long waits may wait less in less memory. A plan with long compute would compute more in less memory.
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

  /** Tries the listed candidates of a strategy. If one fits, also tries the refiner's candidates for this budget. */
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

  /** Tries the last list of a strategy, the candidates with the least memory. Used only if nothing else fits. */
  finest(strategy: string): void {
    const { method = planners[strategy]!, mostCalls = callsPlannedIn() } = this.o
    const listed = method.finest?.(this.graph, this.machine, mostCalls)
    if (!listed) return
    const known = this.isFirst ? Infinity : (this.smallest?.least ?? Infinity)
    let next = listed.next(false)
    for (; !next.done && !this.best; next = listed.next(false)) {
      const c = next.value
      if ((c.atLeast?.pages ?? 0) >= known) continue
      if (this.boundIfExcluded(c) === undefined) {
        this.note(c)
        this.consider(c, strategy)
      } else this.large.push(c)
    }
    if (next.done && next.value !== undefined) this.tooMany = { calls: next.value, most: mostCalls }
    if (this.best && method.refiner && this.refines)
      this.answer(method.refiner(this.graph, this.machine, this.pages, this.best.seconds, this.o.effort), strategy)
  }

  private answer(refined: Iterator<Candidate, unknown, number>, strategy: string): void {
    for (let seconds: number | undefined = Infinity; seconds !== undefined; )
      seconds = this.answerNext(refined, seconds, strategy)
  }

  /** Returns the seconds of the next candidate; undefined at the end. In its own frame, so that nothing holds the layout while the next is made. */
  private answerNext(refined: Iterator<Candidate, unknown, number>, before: number, strategy: string): number | undefined {
    const { done, value } = refined.next(before)
    if (done) return undefined
    return this.boundIfExcluded(value) === undefined ? this.consider(value, strategy) : Infinity
  }

  /** True if the best plan waits long enough to be worth a search. */
  get waits(): boolean {
    return this.best !== null && this.best.seconds > NOTHING_TO_GAIN * computeSeconds(this.best.candidate.layout)
  }

  /** Improves the best plan of any strategy. Below the least effort of a search, it does nothing: improvers would take most of the time. */
  improve(improver: Improver, strategy: string): void {
    const { effort = DEFAULT_EFFORT } = this.o
    if (!this.best || this.isFirst || effort < LEAST_EFFORT) return
    const { candidate, machine, seconds } = this.best
    this.answer(improver(candidate.layout.graph, machine, this.pages, candidate, seconds, effort), strategy)
  }
}

/** Reduces the waits at the start of the step. */
const startSooner = (search: Search, improvers: readonly Improver[]): void => {
  for (const improver of improvers) if (search.waits) search.improve(improver, 'auto')
}

/**
 * Tries in-core first. If it fits, the search is skipped. Predictions only choose tiles, and run one step at a time: no step loads the next one's input.
 */
const runAll = (search: Search, trains: boolean): Either<StageError, void> => {
  const sooner = trains ? [overlapping, arriving] : [arriving]
  const inCore = search.run('in-core')
  if (isLeft(inCore)) return inCore
  if (search.best) {
    search.isEnough = true
    startSooner(search, sooner)
    return inCore
  }
  search.run(trains ? 'auto' : 'tiled')
  if (!trains) for (const improver of planners['tiled']!.improvers!) search.improve(improver, 'auto')
  startSooner(search, sooner)
  return right(undefined)
}

/** The machine with the fastest algorithms, and with those that need the least scratch memory (paper 4, section 4.2). */
const scratchVariants = (m: Machine): readonly Machine[] => (m.choices ? [m, withScratch(m, 0)] : [m])

/** The share of its bandwidth that a link keeps, so that planners move less. */
const SLOW_SHARE = 1 / 16
const withSlowLink = (m: Machine): Machine => {
  const { outBytesPerSecond: out, inBytesPerSecond: into, beyond } = m.link
  const slow = beyond ?? { outBytesPerSecond: SLOW_SHARE * out, inBytesPerSecond: SLOW_SHARE * into }
  return {
    ...m,
    link: { ...m.link, outBytesPerSecond: slow.outBytesPerSecond, inBytesPerSecond: slow.inBytesPerSecond },
  }
}

const withoutDisk = (m: Machine): Machine => {
  const { beyond: _, ...link } = m.link
  return { ...m, link }
}

/**
 * Returns further machines to plan for if host memory is too small, until a plan keeps the limits. On the first one the link is the disk's, or a slow
 * one, so planners move less. The second one has no disk. The search of `auto` knows the limits of memory. It needs these machines only if it found
 * no plan, because its seeds move much.
 */
const linkVariants = (state: Search, { strategy, method }: CompileOptions): readonly Machine[] => {
  const { machine, best, lack } = state
  const { hostBytes, tierBytes } = best?.plan ?? { tierBytes: 0 }
  const isTooSmall = lack !== null || tierBytes > (hostBytes ?? Infinity)
  const knowsLimits = strategy === 'auto' && !method && best !== null
  if (!isTooSmall || knowsLimits) return []
  return machine.link.beyond && machine.link.bytes !== undefined
    ? [withSlowLink(machine), withoutDisk(machine)]
    : [withSlowLink(machine)]
}

/** Returns the plan of one candidate, or the reason why it does not fit. */
export const fitted = (c: Candidate, o: CompileOptions): Either<StageError, UnpagedPlan> => {
  const plan = scheduled(c, o.strategy, o)
  if (!plan) return left(infeasible({ least: c.least, tight: () => tightOf(c) }, o))
  const lack = tierLack(plan, withoutWearLimit(o.machine), outcomeOf(plan, o.machine.link))
  return lack ? left(tooLittle(lack, o)) : right(plan)
}

/** Removes the lower tier for `auto` if host memory is the device's own memory, unless a part of it was offered. */
export const asStrategyMoves = (o: CompileOptions): CompileOptions =>
  o.strategy === 'auto' && !o.method && o.machine.link.sameMemory ? { ...o, machine: withoutTier(o.machine) } : o

/** Returns the fastest plan of a strategy that fits the budget. */
export const search = (graph: Graph, requested: CompileOptions): Either<StageError, UnpagedPlan> => {
  const legal: readonly string[] = trains(graph) ? strategies : PREDICTING
  if (!legal.includes(requested.strategy)) return left({ tag: 'UnknownStrategy', got: requested.strategy, legal })
  const o = asStrategyMoves(requested)
  return mapLeft((r: Refusal) => withinTier(graph, o, r.error()))(withWeightParts(graph, o))
}

/** The graphs with weights in parts that `auto` may plan. */
const partsFor = (graph: Graph, { strategy, method }: CompileOptions): readonly Graph[] =>
  strategy === 'auto' && !method ? graphsInParts(graph) : []

/** Returns a plan with whole weights, or one with weights in parts if that is faster or alone fits. */
const withWeightParts = (graph: Graph, o: CompileOptions): Either<Refusal, UnpagedPlan> => {
  const whole = searchedSparingDisk(graph, o)
  return isRight(whole) ? fasterInParts(graph, o, whole.right) : elseInParts(whole, graph, o, searchedSparingDisk)
}

/**
 * Returns the answer of a search for whole weights; if it is a refusal of the budget, that for the largest parts that fit. The loop ends if smaller
 * parts need as much memory.
 */
const elseInParts = <A>(
  whole: Either<Refusal, A>,
  graph: Graph,
  o: CompileOptions,
  find: (graph: Graph, o: CompileOptions) => Either<Refusal, A>,
): Either<Refusal, A> => {
  let answer = whole
  for (const parts of isBudgetRefusal(whole) ? partsFor(graph, o) : []) {
    if (!isBudgetRefusal(answer)) return answer
    const next = find(parts, o)
    if (isBudgetRefusal(next) && needsNoLess(next.left, answer.left)) return answer
    answer = next
  }
  return answer
}

/**
 * Returns the faster of two plans: with whole weights, and with weights in parts. The second is tried if the search allows no loop with the largest
 * weight.
 */
const fasterInParts = (graph: Graph, o: CompileOptions, whole: UnpagedPlan): Either<never, UnpagedPlan> => {
  const seconds = (plan: UnpagedPlan): number => outcomeOf(plan, o.machine.link).makespanSeconds
  const weights = graph.values.flatMap((v) => (v.role === 'param' ? [valueBytes(v)] : []))
  const isWorthTrying =
    (o.effort ?? DEFAULT_EFFORT) >= LEAST_EFFORT &&
    Math.max(0, ...weights) > WHOLE * o.budgetBytes &&
    seconds(whole) > HARDLY_WAITS * computeSeconds(inCoreLayout(graph, o.machine))
  const [parts] = isWorthTrying ? partsFor(graph, o) : []
  const other = parts && searchedSparingDisk(parts, o)
  return right(other && isRight(other) && seconds(other.right) < seconds(whole) ? other.right : whole)
}

const isBudgetRefusal = (answer: Either<Refusal, unknown>): answer is Left<Refusal> =>
  isLeft(answer) && answer.left.tag === 'BudgetInfeasible'

const smallestBytes = (r: Refusal): number => {
  const e = r.error()
  return e.tag === 'BudgetInfeasible' ? e.smallestBytes : Infinity
}

/** Returns true if the smallest budget of one refusal is at least that of another one. The other's bound often answers without its layouts. */
const needsNoLess = (one: Refusal, other: Refusal): boolean =>
  smallestBytes(one) >= bytesOf(other.atLeastPages) && smallestBytes(one) >= smallestBytes(other)

const searchedSparingDisk = (graph: Graph, o: CompileOptions): Either<Refusal, UnpagedPlan> => {
  const sparing = searched(graph, o)
  // If no plan respects the write limit of the disk, plan without the limit: a worn disk is better than a failure.
  return isLeft(sparing) && sparing.left.tag === 'TierInfeasible' && lastLink(o.machine.link).writesPerSecond !== undefined
    ? searched(graph, { ...o, machine: withoutWearLimit(o.machine) })
    : sparing
}

/** Raises the smallest budget of a refusal if the plan in it exceeds a limited lower tier. In-core plans need no tier. */
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

/** Returns the pages of the step that keeps everything. */
export const inCorePages = (graph: Graph, machine: Machine): number =>
  Math.min(
    ...scratchVariants(machine).flatMap((m) => {
      const listed = inCore(graph, m)
      return isLeft(listed) ? [] : Array.from({ [Symbol.iterator]: () => listed.right }, (c) => c.least)
    }),
  )

/** Returns true if a plan of the strategy fits. The answer is the same as `search`'s, without the search for a fast plan. */
export const hasPlan = (graph: Graph, requested: CompileOptions): boolean => {
  const o = asStrategyMoves({ ...requested, effort: 0, machine: withoutWearLimit(requested.machine) })
  return isRight(elseInParts(first(graph, o), graph, o, first))
}

/** Returns the first plan that fits, or the refusal of `searched`. */
const first = (graph: Graph, o: CompileOptions): Either<Refusal, unknown> => {
  const state = new Search(graph, o, true)
  const isAuto = o.strategy === 'auto' && !o.method
  const strategy = isAuto && !trains(graph) ? 'tiled' : o.strategy
  for (const machine of scratchVariants(o.machine)) {
    state.machine = machine
    if (isAuto) state.run('in-core')
    if (!state.hasFirst) state.run(strategy)
    if (state.hasFirst) return right(undefined)
  }
  if (state.lack) return searchedSparingDisk(graph, o)
  state.finest(strategy)
  return state.hasFirst ? right(undefined) : left(state.refused)
}

const searched = (graph: Graph, o: CompileOptions): Either<Refusal, UnpagedPlan> => {
  const state = new Search(graph, o)
  const runs = (): Either<StageError, void> => {
    const ran = o.strategy === 'auto' && !o.method ? runAll(state, trains(graph)) : state.run(o.strategy)
    if (!isLeft(ran)) for (const improver of o.method?.improvers ?? []) state.improve(improver, o.strategy)
    return ran
  }
  for (const machine of scratchVariants(o.machine)) {
    state.machine = machine
    const ran = runs()
    if (isLeft(ran)) return left(known(ran.left))
    for (const [k, variant] of linkVariants(state, o).entries()) {
      if (k > 0 && state.best) break
      state.machine = variant
      runs()
    }
    if (state.isEnough) break
  }
  // Finer tiles have more calls and need less memory, but move as many bytes.
  if (!state.best && !state.lack) state.finest(trains(graph) || o.strategy !== 'auto' ? o.strategy : 'tiled')
  // These are last because they change the graph, which the other steps do not expect.
  if (o.strategy === 'auto' && !o.method) {
    for (const improver of [copying, laying]) state.improve(improver, 'auto')
    if (trains(graph)) startSooner(state, [overlapping])
  }
  if (state.best) return right(state.best.plan)
  if (state.lack) return left(known(tooLittle(state.lack, o)))
  return left(state.refused)
}

const tooLittle = ({ of, needs, has }: TierLack, o: CompileOptions): StageError => ({
  tag: 'TierInfeasible',
  strategy: o.strategy,
  budgetBytes: o.budgetBytes,
  of,
  needsBytes: needs,
  hasBytes: has,
})

const infeasible = (smallest: Smallest | null, o: CompileOptions, tooMany?: TooManyCalls): StageError => {
  const refused = {
    tag: 'BudgetInfeasible',
    strategy: o.strategy,
    budgetBytes: o.budgetBytes,
    ...(tooMany ? { tooMany } : {}),
    ...(hasTier(o.machine) ? {} : { withoutTier: true as const }),
  } as const
  if (!smallest) return { ...refused, smallestBytes: Infinity, inTheWay: [] }
  const { op, held } = smallest.tight()
  return {
    ...refused,
    smallestBytes: bytesOf(smallest.least),
    ...(op ? { call: op } : {}),
    inTheWay: held.slice(0, 5).map((h) => ({ label: h.label, bytes: bytesOf(h.pages) })),
  }
}
