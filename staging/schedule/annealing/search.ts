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
import { anneal, move } from './anneal'
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
  /** The calls of all layouts so far. */
  private calls = 0

  constructor(
    graph: Graph,
    machine: Machine,
    private readonly pages: number,
    persistents: Persistents,
    cuts: boolean,
    private readonly effort: Effort,
  ) {
    const room = bytesOf(pages) - alwaysBytes(graph, persistents)
    const p = problemOf(graph, machine, { persistents, wholeBytes: WHOLE * room, cuts })
    this.model = new Model(p, room)
    this.lowering = new Lowering(p, this.model.bodies)
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

  /** A layout of the current decisions that fits. Tiles of loops that do not fit shrink. */
  private fitting(): (Lowered & { readonly candidate: Candidate }) | null {
    const { model, pages } = this
    for (let k = 0; k <= REPAIRS; k++) {
      const lowered = this.lowering.segments(model.decisions)
      if (!lowered) return null
      const candidate = this.lowering.candidate(lowered.segments, model.prefetchRoom)
      const { planned, calls } = candidate.layout
      this.calls += calls.length
      if (candidate.least <= pages) return { ...lowered, candidate }
      const full = new Set(mapped(overfullCalls(planned, calls.length, pages), (c) => lowered.loopOf[calls[c]!.segment]!))
      const loops = [...full].filter((i) => i >= 0 && model.p.loops[i]!.tiles)
      if (loops.length === 0) return null
      for (const i of loops) model.setTileBytes(i, model.tileBytes[i]! * SMALLER)
      model.settle(Math.max(...loops))
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

  /** Anneals, simulates and corrects the model. Returns false if the plan does not fit. */
  *round(share: number, heat: number): Generator<Candidate, boolean, number> {
    const { model } = this
    this.anneal(share, heat)
    const made = yield* this.look()
    if (!made) return false
    calibrate(model, made.candidate.layout, made.loopOf)
    const decisions = model.decisions
    for (const prefetchRoom of PREFETCH_ROOMS) {
      model.load({ ...decisions, prefetchRoom })
      yield* this.look()
    }
    model.load(this.best && this.best.seconds < Infinity ? this.best.decisions : decisions)
    return true
  }

  /** Simulates single moves that the model prefers. */
  *descend(): Generator<Candidate, void, number> {
    const { model } = this
    if (!this.best || this.best.seconds === Infinity) return
    let now = model.load(this.best.decisions)
    for (let k = 0; k < this.steps / 10 && this.calls < this.effort.calls; k++) {
      const undo = move(model, this.random)
      if (!undo) continue
      if (model.price() >= now) {
        undo()
        continue
      }
      const before: Found = this.best
      yield* this.look()
      if (this.best === before) model.load(before.decisions)
      now = model.price()
    }
  }
}

/** Shares of the effort for the starts and the two rounds. Each round has its temperature. */
const BEGINNING = 0.05
const FIRST_ROUND = [0.5, HOT] as const
const SECOND_ROUND = [0.2, HOT / 4] as const

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
  const starts: { readonly search: Search; readonly seconds: number }[] = []
  for (const persistents of large ? (['resident', 'home'] as const) : (['resident'] as const))
    for (const cuts of [false, true]) {
      if (alwaysBytes(graph, persistents) >= bytesOf(pages)) continue
      const search = new Search(graph, machine, pages, persistents, cuts, effort)
      starts.push({ search, seconds: search.begin(BEGINNING) })
    }
  // The preferred start may not fit if a loop cannot have smaller tiles.
  for (const { search } of starts.sort((a, b) => a.seconds - b.seconds)) {
    if (!(yield* search.round(...FIRST_ROUND))) continue
    yield* search.round(...SECOND_ROUND)
    yield* search.descend()
    return
  }
}
