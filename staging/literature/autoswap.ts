// `swap:autoswap` (Zhang et al. 2019): activations leave in order of a weighted sum of four scores, as many as the budget
// demands; Bayesian optimisation finds the weights on the simulator. In: the in-core step, a budget. Out: a candidate for
// each weighting that is tried.
// Scores: how long it is away (doa); that times its size (aoa); how far the load is above the budget while it is away (wdoa);
// the same with the load updated after each choice (swdoa). Each is scaled to [0, 1].
import { right } from 'fp-ts/Either'
import { mostPromising } from '../core/bayes'
import type { Planner, Refiner } from '../schedule/candidate'
import { inCoreLayout } from '../schedule/incore'
import type { Layout } from '../schedule/layout'
import { type Activation, activationsOf, eager } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'
import { occupancy } from '../schedule/stays'

export interface AutoswapOptions {
  /** Weightings to try: the pure ones and the even one, then this number of others. */
  readonly searches: number
  /** Weightings that each search chooses from. */
  readonly options: number
}
export const AUTOSWAP: AutoswapOptions = { searches: 20, options: 200 }

type Score = (a: Activation) => number

const scaled = (all: readonly Activation[], score: Score): Score => {
  const values = new Map(all.map((a) => [a, score(a)]))
  const most = Math.max(...values.values())
  return (a) => (most > 0 ? values.get(a)! / most : 0)
}

/** The load above the budget over time, as integrals while activations are away. */
class Excess {
  /** For the calls above it: the part of each, and the sum of all later ones. */
  private readonly parts: Float64Array
  private readonly sums: Float64Array
  /** For each call, how many of these are before it. */
  private readonly above: Int32Array

  constructor(
    private readonly l: Layout,
    private readonly budgetPages: number,
  ) {
    const points = l.calls.length
    this.above = new Int32Array(points + 1)
    this.parts = new Float64Array(points)
    this.sums = new Float64Array(points + 1)
  }

  under(load: Int32Array): this {
    const { calls } = this.l
    let n = 0
    for (let p = 0; p < calls.length; p++) {
      const pages = load[p]! - this.budgetPages
      if (pages > 0) {
        this.parts[n] = pages * calls[p]!.seconds
        this.sums[n + 1] = this.sums[n]! + this.parts[n]!
        n++
      }
      this.above[p + 1] = n
    }
    return this
  }

  of({ read, needed }: Activation): number {
    const to = this.above[needed]!
    let sum = 0
    for (let k = this.above[read]!; k < to; k++) sum += this.parts[k]!
    return sum
  }

  private about({ read, needed }: Activation): number {
    return this.sums[this.above[needed]!]! - this.sums[this.above[read]!]!
  }

  /** The first with the greatest; none where none is above. Only those are summed up by themselves that are it up to rounding. */
  greatest(all: Iterable<Activation>): Activation | null {
    let least = 0
    for (const a of all) least = Math.max(least, this.about(a))
    least -= 4 * Number.EPSILON * this.parts.length * this.sums[this.above.at(-1)!]!
    const known = new Map<number, number>()
    let best: Activation | null = null
    let most = 0
    for (const a of all) {
      if (this.about(a) < least) continue
      const key = this.above[a.read]! * this.sums.length + this.above[a.needed]!
      const sum = known.get(key) ?? this.of(a)
      known.set(key, sum)
      if (sum > most) [best, most] = [a, sum]
    }
    return best
  }
}

/** Chooses the one with the greatest excess, after the earlier ones have left; the score is its place in this order. */
const submodular = (l: Layout, all: readonly Activation[], budgetPages: number): Score => {
  const load = occupancy(l.planned, l.calls.length)
  const left = new Set(all)
  const rank = new Map<Activation, number>()
  const excess = new Excess(l, budgetPages)
  const next = (): Activation | null => excess.under(load).greatest(left)
  for (let a = next(); a; a = next()) {
    rank.set(a, all.length - rank.size)
    left.delete(a)
    for (let p = a.read; p < a.needed; p++) load[p]! -= a.pages
  }
  return (a) => rank.get(a) ?? 0
}

const scoresOf = (l: Layout, all: readonly Activation[], budgetPages: number): readonly Score[] => {
  const before = [0]
  for (const c of l.calls) before.push(before[before.length - 1]! + c.seconds)
  const away: Score = (a) => before[a.needed]! - before[a.read]!
  const load = occupancy(l.planned, l.calls.length)
  const excess = new Excess(l, budgetPages).under(load)
  return [away, (a: Activation) => away(a) * a.pages, (a: Activation) => excess.of(a), submodular(l, all, budgetPages)].map((s) =>
    scaled(all, s),
  )
}

/** Weights that add up to 1, spread evenly without randomness: differences of sorted multiples of irrational numbers. */
const weightings = (count: number, from: number): readonly (readonly number[])[] =>
  Array.from({ length: count }, (_, i) => {
    const cuts = [Math.SQRT2, Math.sqrt(3), Math.sqrt(5)].map((r) => ((from + i + 1) * r) % 1).sort((a, b) => a - b)
    return [...cuts, 1].map((c, k) => c - (cuts[k - 1] ?? 0))
  })

const START: readonly (readonly number[])[] = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
  [0, 0, 0, 1],
  [0.25, 0.25, 0.25, 0.25],
]

/** In order of production: feasibility does not depend on the scores. */
export const autoswap: Planner = (graph, machine) => right([eager(inCoreLayout(graph, machine))].values())

export const autoswapSmall: Planner = overSharedPages(inCoreLayout, undefined, (l) => [eager(l)])

export const refineAutoswap = (options: Partial<AutoswapOptions> = {}): Refiner =>
  function* (graph, machine, pages) {
    const o = { ...AUTOSWAP, ...options }
    const l = inCoreLayout(graph, machine)
    const all = activationsOf(l)
    const scores = scoresOf(l, all, pages)
    const candidate = (weights: readonly number[]) => {
      const total = new Map(all.map((a) => [a, scores.reduce((n, s, k) => n + weights[k]! * s(a), 0)]))
      return eager(
        l,
        [...all].sort((a, b) => total.get(b)! - total.get(a)! || a.made - b.made),
      )
    }
    const tried: (readonly number[])[] = []
    const values: number[] = []
    for (let i = 0; i < START.length + o.searches; i++) {
      const next =
        START[i] ?? (values.length > 0 ? mostPromising(tried, values, weightings(o.options, i * o.options)) : START[0]!)
      const seconds: number = yield candidate(next)
      if (!Number.isFinite(seconds)) continue
      tried.push(next)
      values.push(seconds)
    }
  }
