// The search of a plan for one budget. In: a training graph, a machine, pages, the seconds of the best other plan. Out: candidates. The caller
// answers each with its simulated seconds, or Infinity if it does not fit or is not faster. Simple plans (seeds.ts) are annealed on the model
// (anneal.ts, moves.ts). The best ones are simulated, and their layouts correct the model (calibrate.ts). Then annealing continues, and single
// moves follow. The work is counted in loops, ops and calls, so plans do not depend on the speed of the planning machine.
import { bytesOf } from '../core/bytes'
import { mapped } from '../core/mapped'
import { randomFrom } from '../core/random'
import type { Graph } from '../graph/graph'
import { hasTier, type Machine } from '../graph/machine'
import type { Candidate, TierLack } from '../schedule/candidate'
import { computeSeconds } from '../schedule/bound'
import { inCoreRows } from '../schedule/incore'
import { anneal } from './anneal'
import { calibrate } from './calibrate'
import { type Decisions, keepAll } from './decisions'
import {
  COOLS,
  DEFAULT_EFFORT,
  type Effort,
  effortOf,
  HOT,
  MUCH_TO_GAIN,
  NOTHING_TO_GAIN,
  PREFETCH_RESERVE,
  REPAIRS,
  SEARCHES,
  WORK_PER_DECISION,
} from './limits'
import { type Lowered, Lowering } from './lower'
import { Model } from './model'
import { Chooser, move, type Random, singleChanges } from './moves'
import { type Problem, problemOf } from './problem'
import { seeds } from './seeds'

interface Priced {
  readonly decisions: Decisions
  readonly seconds: number
}

/** A simulated plan, with the calls of its layout. */
interface Found extends Priced {
  readonly calls: number
}

type LaidOut = Lowered & { readonly candidate: Candidate }

class Search {
  private readonly model: Model
  private readonly lowering: Lowering
  private readonly random: Random
  /** The calls of all layouts so far. */
  private calls = 0
  /** True if a plan kept all limits. Before, more repairs follow each other. */
  private hasPlan = false

  constructor(
    private readonly p: Problem,
    private readonly pages: number,
    private readonly effort: Effort,
    seed: number,
  ) {
    this.random = randomFrom(seed)
    this.model = new Model(p, bytesOf(pages))
    this.lowering = new Lowering(this.model)
  }

  private anneal(share: number, heat: number): void {
    const hot = heat * this.p.meanSeconds
    const { work, without } = this.effort
    this.model.load(anneal(this.model, { work: share * work, hot, cold: hot / COOLS, without }, this.random))
  }

  private get repairs(): number {
    if (!this.hasPlan) return 2 * REPAIRS
    return this.calls < this.effort.calls ? REPAIRS : 0
  }

  private layOut(): LaidOut | null {
    const lowered = this.lowering.segments()
    if (!lowered) return null
    const candidate = this.lowering.candidate(lowered)
    this.calls += candidate.layout.calls.length
    return { ...lowered, candidate }
  }

  /** A layout of the current decisions that fits. Others correct the model, and annealing goes on. */
  private fitting(): LaidOut | null {
    for (let k = 0; k <= this.repairs; k++) {
      const made = this.fittingOrRepaired()
      if (made !== undefined) return made
    }
    return null
  }

  /** Returns undefined after a repair. In its own frame, so that nothing holds the layout while the next one is made. */
  private fittingOrRepaired(): LaidOut | null | undefined {
    const { model, pages } = this
    const made = this.layOut()
    if (!made || made.candidate.least <= pages) return made
    const { candidate, loopOf } = made
    calibrate(model, candidate.layout, loopOf)
    if (!hasTier(this.p.machine)) model.reserveBytes += bytesOf(candidate.least - pages)
    this.anneal(REPAIRING, HOT / 8)
    return undefined
  }

  /** Simulates the current decisions, and corrects the model. A plan that needs too much of the lower tier is annealed for less of it. */
  private *look(): Generator<Candidate, Found | null, number> {
    const { model } = this
    for (let k = 0; ; k++) {
      const made = this.fitting()
      if (!made) return null
      let lack: TierLack | undefined
      const plan = yield* this.simulated({ ...made, candidate: { ...made.candidate, onLack: (l) => (lack = l) } })
      calibrate(model, made.candidate.layout, made.loopOf)
      this.hasPlan ||= !lack
      if (!lack || k >= this.repairs) return plan
      model.reserveTier(lack)
      this.anneal(REPAIRING, HOT / 8)
    }
  }

  /** The current decisions with the seconds of their layout. */
  private *simulated(made = this.layOut()): Generator<Candidate, Found | null, number> {
    if (!made || made.candidate.least > this.pages) return null
    const seconds = yield made.candidate
    return { decisions: this.model.decisions, seconds, calls: made.candidate.layout.calls.length }
  }

  /** Anneals the current decisions and simulates the result. */
  private *round(share: number, heat: number): Generator<Candidate, Found | null, number> {
    this.anneal(share, heat)
    return yield* this.look()
  }

  /** The first plan faster than a limit after this number of changes of the current one. */
  private *after(changes: number, limit: number): Generator<Candidate, Found | null, number> {
    for (const change of singleChanges(this.model)) {
      const undo = change()
      if (!undo) continue
      const plan = yield* changes > 1 ? this.after(changes - 1, limit) : this.simulated()
      if (plan && plan.seconds < limit) return plan
      undo()
    }
    return null
  }

  /** Simulates all single changes, also those that the model does not prefer, then all pairs, as long as the calls suffice for all. */
  *polish(start: Found): Generator<Candidate, void, number> {
    const { model, effort } = this
    for (let best: Found | null = start; best; ) {
      model.load(best.decisions)
      const count = singleChanges(model).length
      let faster: Found | null = null
      for (
        let changes = 1;
        !faster && changes <= MOST_CHANGES && this.calls + best.calls * count ** changes <= effort.calls;
        changes++
      )
        faster = yield* this.after(changes, best.seconds)
      best = faster
    }
  }

  /** Simulates single moves that the model prefers, until a number of them in a row were not faster. Returns the best plan. */
  private *descend(start: Found): Generator<Candidate, Found, number> {
    const { model } = this
    let best = start
    let now = model.load(best.decisions)
    const chooser = new Chooser(model, this.effort.without)
    const end = model.work + DESCENDING * this.effort.work
    for (let slower = 0; slower < SLOWER && model.work < end && this.calls < this.effort.calls; ) {
      const undo = move(model, chooser, this.random)
      if (!undo) {
        model.work++
        continue
      }
      if (model.price(now) === Infinity) {
        undo()
        continue
      }
      const plan = yield* this.look()
      const isFaster = plan !== null && plan.seconds < best.seconds
      if (isFaster) best = plan
      else model.load(best.decisions)
      slower = isFaster ? 0 : slower + 1
      now = model.price()
      chooser.note()
    }
    return best
  }

  /** The rounds for which the calls do not suffice if layouts are as large as that of the current decisions. Their work goes to the start. */
  private get roundsLost(): number {
    const rounds = Math.floor(this.effort.calls / this.model.calls) - 1
    return Math.max(0, Math.min(ROUNDS, ROUNDS - rounds))
  }

  /** Anneals all seeds for a short time, and the best ones for longer. The model can be wrong far from a layout, so two are simulated. */
  private *begin(): Generator<Candidate, Found | null, number> {
    const { model } = this
    const starts = mapped(seeds(this.p, model), (seed): Priced => {
      model.load(seed)
      this.anneal(SEED, HOT)
      return { decisions: model.decisions, seconds: model.price() }
    })
    let best: Found | null = null
    for (const { decisions } of [...starts].sort((a, b) => a.seconds - b.seconds).slice(0, STARTS)) {
      if (best && this.calls > CALLS_OF_STARTS * this.effort.calls) break
      model.load(decisions)
      const plan = yield* this.round(START + ROUND * this.roundsLost, HOT)
      if (plan && (!best || plan.seconds < best.seconds)) best = plan
    }
    return best
  }

  *run(): Generator<Candidate, Found | null, number> {
    let best = yield* this.begin()
    if (best && this.isEnough(best)) return best
    for (let r = 0; best && r < ROUNDS && this.calls < this.effort.calls; r++) {
      this.model.load(best.decisions)
      const plan = yield* this.round(ROUND, HOT / 2 ** r)
      if (plan && plan.seconds < best.seconds) best = plan
    }
    return best && best.seconds < Infinity ? yield* this.descend(best) : null
  }

  isEnough({ seconds }: Found): boolean {
    return seconds <= (1 + NOTHING_TO_GAIN) * this.p.graphSeconds
  }
}

/** Shares of the work: a seed, a start, a round, a repair, and the most for single moves. */
const SEED = 0.02
const START = 0.05
const ROUND = 0.16
const REPAIRING = 0.05
const DESCENDING = 0.1
/** The number of starts that are simulated, with at most this share of the calls, and the number of rounds of the best start. */
const STARTS = 2
const CALLS_OF_STARTS = 1 / 3
const ROUNDS = 4
/** Single moves in a row that are simulated and not faster. */
const SLOWER = 12
/** The most changes at once of the last step of the search. */
const MOST_CHANGES = 2

/** The possible gain over another plan, as a share of the compute. */
const possibleGain = (graph: Graph, machine: Machine, toBeat: number): number =>
  toBeat / computeSeconds(inCoreRows(graph, machine)) - 1

/** Searches with an effort in proportion to the possible gain. */
export function* refine(
  graph: Graph,
  machine: Machine,
  pages: number,
  toBeat = Infinity,
  whole = effortOf(DEFAULT_EFFORT),
  gain = possibleGain(graph, machine, toBeat),
): Generator<Candidate, void, number> {
  if (gain < NOTHING_TO_GAIN) return
  const effort = { ...whole, work: Math.min(1, MUCH_TO_GAIN * gain) * whole.work }
  const p = problemOf(graph, machine)
  const work = Math.min(effort.work, WORK_PER_DECISION * p.decisions * p.atoms)
  const searches = Math.min(SEARCHES, Math.floor(effort.work / work))
  const searchOf = (seed: number): Search => new Search(p, pages, { ...effort, work, calls: effort.calls / searches }, seed)
  let hasFaster = false
  for (let k = 1; k <= searches; k++) {
    const search = searchOf(k)
    const plan = yield* search.run()
    if (!plan || plan.seconds >= toBeat) continue
    if (search.isEnough(plan)) return
    hasFaster = true
    yield* search.polish(plan)
  }
  if (hasFaster) return
  const kept = keepAll(p, p.endsFor(false, Infinity), 0, Infinity, PREFETCH_RESERVE)
  yield* searchOf(0).polish({ decisions: kept, seconds: toBeat, calls: graph.ops.length })
}
