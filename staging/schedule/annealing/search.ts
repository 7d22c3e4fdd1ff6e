// The search of a plan for one budget. In: a training graph, a machine, pages, the seconds of the best other plan. Out: candidates. The caller
// answers each with its simulated seconds, or Infinity if it does not fit or is not faster. Simple plans (seeds.ts) are annealed on the model
// (anneal.ts). The best one is simulated, and its layout corrects the model (calibrate.ts). Then annealing continues, and single moves follow.
// The work is counted in prices and calls, so plans do not depend on the speed of the planning machine.
// Worked example, ResNet-50 in a sixteenth of its memory: the seed takes 2.4 times the compute of the step, the annealed plan 1.5 times.
import { bytesOf } from '../../core/bytes'
import { mapped } from '../../core/mapped'
import { randomFrom } from '../../core/random'
import { type Graph, isPersistent, valueBytes } from '../../graph/graph'
import type { Machine } from '../../graph/machine'
import { type Persistents, SMALL_BYTES } from '../../memory/place'
import type { Candidate } from '../candidate'
import { computeSeconds } from '../bound'
import { inCoreLayout } from '../incore'
import { overfullCalls } from '../stays'
import { anneal, move, polish } from './anneal'
import { calibrate } from './calibrate'
import type { Decisions } from './decisions'
import {
  COOLS,
  DEFAULT_EFFORT,
  type Effort,
  HOT,
  MUCH_TO_GAIN,
  NOTHING_TO_GAIN,
  PREFETCH_ROOMS,
  REPAIRS,
  SMALLER,
  WHOLE,
} from './limits'
import { type Lowered, Lowering } from './lower'
import { Model } from './model'
import { alwaysBytes, problemOf } from './problem'
import { seeds } from './seeds'

interface Found {
  readonly decisions: Decisions
  readonly seconds: number
}

class Search {
  readonly model: Model
  private readonly lowering: Lowering
  private readonly random = randomFrom(1)
  private best: Found | null = null

  constructor(
    graph: Graph,
    machine: Machine,
    private readonly pages: number,
    persistents: Persistents,
    cuts: boolean,
    private readonly effort: Effort,
    /** The calls of all layouts so far. */
    private readonly work: { calls: number },
  ) {
    const room = bytesOf(pages) - alwaysBytes(graph, persistents)
    const p = problemOf(graph, machine, { persistents, wholeBytes: WHOLE * room, cuts })
    this.model = new Model(p, room)
    this.lowering = new Lowering(this.model)
  }

  /** The seconds of the best plan so far. */
  get found(): number {
    return this.best?.seconds ?? Infinity
  }

  private get steps(): number {
    const { loops, decisions } = this.model.p
    return Math.min(this.effort.prices / Math.max(1, loops.length), this.effort.stepsPerDecision * decisions)
  }

  /** Anneals each seed for a share of the effort. Returns the seconds of the best. */
  begin(share: number): number {
    const { model } = this
    let [best, least]: [Decisions | undefined, number] = [undefined, Infinity]
    for (const seed of seeds(model.p, model)) {
      model.load(seed)
      this.anneal(share, HOT)
      const seconds = model.price()
      if (seconds < least) [best, least] = [model.decisions, seconds]
    }
    if (best) model.load(best)
    return least
  }

  private anneal(share: number, heat: number): void {
    const hot = heat * this.model.p.meanSeconds
    this.model.load(anneal(this.model, { steps: Math.floor(share * this.steps), hot, cold: hot / COOLS }, this.random))
  }

  private polish(share: number): void {
    polish(this.model, Math.floor(share * this.steps))
  }

  /** A layout of the current decisions that fits. One that does not fit corrects the model, and the loops without memory get smaller tiles. */
  private fitting(): (Lowered & { readonly candidate: Candidate }) | null {
    const { model, pages } = this
    for (let k = 0; k <= REPAIRS; k++) {
      const lowered = this.lowering.segments()
      if (!lowered) return null
      const candidate = this.lowering.candidate(lowered.segments, model.prefetchRoom)
      const { planned, calls } = candidate.layout
      this.work.calls += calls.length
      if (candidate.least <= pages) return { ...lowered, candidate }
      const full = new Set(mapped(overfullCalls(planned, calls.length, pages), (c) => lowered.loopOf[calls[c]!.segment]!))
      const loops = [...full].filter((i) => i >= 0 && model.p.loops[i]!.tiles)
      if (loops.length === 0) return null
      calibrate(model, candidate.layout, lowered.loopOf)
      for (const i of loops) model.setTileBytes(i, model.tileBytes[i]! * SMALLER)
      model.settle(Math.max(...loops))
      this.polish(REPAIRING)
    }
    return null
  }

  /** Simulates the current decisions. */
  private *look(): Generator<Candidate, (Lowered & { readonly candidate: Candidate }) | null, number> {
    const made = this.fitting()
    if (!made) return null
    const seconds = yield made.candidate
    if (!this.best || seconds < this.best.seconds) this.best = { decisions: this.model.decisions, seconds }
    return made
  }

  /** Anneals, simulates and corrects the model. The last round simulates more sizes of the room for prefetching. Returns false if the plan does not fit. */
  *round(share: number, heat: number, last: boolean): Generator<Candidate, boolean, number> {
    const { model } = this
    this.anneal(share, heat)
    this.polish(POLISHING)
    const made = yield* this.look()
    if (!made) return false
    calibrate(model, made.candidate.layout, made.loopOf)
    if (!last) return true
    const decisions = model.decisions
    for (const prefetchRoom of PREFETCH_ROOMS) {
      model.load({ ...decisions, prefetchRoom })
      yield* this.look()
    }
    model.load(this.best && this.best.seconds < Infinity ? this.best.decisions : decisions)
    return true
  }

  /** Simulates single moves that the model prefers, until a number of them in a row were not faster. */
  *descend(): Generator<Candidate, void, number> {
    const { model } = this
    if (!this.best || this.best.seconds === Infinity) return
    let now = model.load(this.best.decisions)
    let slower = 0
    for (let k = 0; slower < SLOWER && k < this.steps / 10 && this.work.calls < this.effort.calls; k++) {
      const undo = move(model, this.random)
      if (!undo) continue
      if (model.price() >= now) {
        undo()
        continue
      }
      const before: Found = this.best
      yield* this.look()
      slower = this.best === before ? slower + 1 : 0
      if (this.best === before) model.load(before.decisions)
      now = model.price()
    }
  }
}

/** Shares of the effort: a seed, a start, a round, a repair, and the most for single changes after annealing. */
const SEED = 0.05
const START = 0.2
const ROUND = 0.1
const REPAIRING = 0.1
const POLISHING = 0.5
/** The number of starts that are simulated, with at most this share of the calls, and the number of rounds of the best start. */
const STARTS = 4
const CALLS_OF_STARTS = 1 / 3
const ROUNDS = 3
/** Single moves in a row that are simulated and not faster. */
const SLOWER = 12

/** The effort in proportion to the possible gain over the best other plan. */
const effortFor = (graph: Graph, machine: Machine, toBeat: number, effort: Effort): Effort | null => {
  const gain = toBeat / computeSeconds(inCoreLayout(graph, machine)) - 1
  if (gain < NOTHING_TO_GAIN) return null
  const part = Math.min(1, MUCH_TO_GAIN * gain)
  return { ...effort, prices: part * effort.prices, stepsPerDecision: part * effort.stepsPerDecision }
}

export function* refine(
  graph: Graph,
  machine: Machine,
  pages: number,
  toBeat = Infinity,
  whole: Effort = DEFAULT_EFFORT,
): Generator<Candidate, void, number> {
  const effort = effortFor(graph, machine, toBeat, whole)
  if (!effort) return
  const large = graph.values.some((v) => isPersistent(v) && valueBytes(v) >= SMALL_BYTES)
  const work = { calls: 0 }
  const starts: { readonly search: Search; readonly seconds: number }[] = []
  for (const persistents of large ? (['resident', 'home'] as const) : (['resident'] as const))
    for (const cuts of [false, true]) {
      if (alwaysBytes(graph, persistents) >= bytesOf(pages)) continue
      const search = new Search(graph, machine, pages, persistents, cuts, effort, work)
      starts.push({ search, seconds: search.begin(SEED) })
    }
  // A model is sure only of plans near a layout, so several starts are simulated.
  const tried: Search[] = []
  for (const { search } of starts.sort((a, b) => a.seconds - b.seconds)) {
    if (tried.length === STARTS || (tried.length > 0 && work.calls > CALLS_OF_STARTS * effort.calls)) break
    if (yield* search.round(START, HOT, false)) tried.push(search)
  }
  const best = tried.sort((a, b) => a.found - b.found)[0]
  if (!best) return
  for (let r = 1; r <= ROUNDS && work.calls < effort.calls; r++) yield* best.round(ROUND, HOT / 2 ** r, r === ROUNDS)
  yield* best.descend()
}
