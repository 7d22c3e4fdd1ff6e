// `swap:tflms` (paper 2; Le et al. 2019): distances between ops are differences of their levels in the training graph. A value
// leaves between two uses that lie `threshold` levels or more apart; it comes back when the level `ahead` of its use is over;
// uses within `groupby` levels of each other share one swap in. Tuned by simulation as TFLMS tunes: the highest threshold that
// fits, then the longest look-ahead, then grouping; lower thresholds are tried too, since they may leave room to look ahead.
// Worked example, a chain of 5 convolutions and threshold 6: the outputs of the first two leave, 8 and 6 levels before their next use.
import { right } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Point } from '../plan/plan'
import type { Candidate, Planner, Refiner } from '../schedule/candidate'
import type { Layout } from '../schedule/layout'
import { always, eachUseLayout, swapping, turningPoint } from '../schedule/activations'
import { overSharedPages } from '../schedule/sharing'
import { canSwap, type Timing } from '../schedule/stays'

export interface TflmsSetting {
  /** swapout_threshold, swapin_ahead, swapin_groupby: all in levels. */
  readonly threshold: number
  readonly ahead: number
  readonly groupby: number
}

/** The longest path from the step's inputs, for each op. */
export const levels = (graph: Graph): readonly number[] => {
  const made = new Map<number, number>()
  return graph.ops.map((o) => {
    const level = 1 + Math.max(0, ...o.ins.map((v) => made.get(v) ?? 0))
    for (const v of o.outs) made.set(v, level)
    return level
  })
}

/**
 * For each call the level of its op in the edited graph: a recomputed op has the level of its run, after its trigger, not that of its first run.
 * Worked example, backward levels 9 10 11 with a norm of level 3 recomputed before the last: 9 10 10 11.
 */
export const callLevels = (l: Layout): readonly number[] => {
  const level = levels(l.graph)
  const turn = turningPoint(l)
  let reached = 0
  return l.calls.map((c, p) => {
    const own = level[c.op]!
    const at = p >= turn && l.graph.ops[c.op]!.phase === 'forward' ? Math.max(own, reached) : own
    if (p >= turn) reached = Math.max(reached, at)
    return at
  })
}

interface Gap {
  readonly index: number
  readonly gap: number
  readonly distance: number
  readonly start: Point
  readonly use: Point
}

/** All gaps that may leave, with the levels between their two uses. */
const gapsOf = (l: Layout, level: readonly number[]): readonly Gap[] => {
  const at = (p: Point): number => level[p]!
  return l.planned.flatMap((t, index) =>
    canSwap(t)
      ? t.stays.slice(1).map((s, gap): Gap => {
          const { last } = t.stays[gap]!
          return { index, gap, distance: Math.max(0, at(s.first) - at(last)), start: last + 1, use: s.first }
        })
      : [],
  )
}

/** Calls with a known least level. */
const STRIDE = 64

const leastLevels = (level: readonly number[]): readonly number[] =>
  Array.from({ length: Math.ceil(level.length / STRIDE) }, (_, i) => Math.min(...level.slice(i * STRIDE, (i + 1) * STRIDE)))

export class Tflms {
  private readonly level: readonly number[]
  private readonly leastLevel: readonly number[]
  private readonly gaps: readonly Gap[]
  readonly deepest: number

  constructor(private readonly l: Layout) {
    this.level = callLevels(l)
    this.leastLevel = leastLevels(this.level)
    this.gaps = gapsOf(l, this.level)
    this.deepest = Math.max(1, ...this.level)
  }

  private isSwapped(g: Gap, o: TflmsSetting, cameBack: boolean): boolean {
    return g.use > g.start && g.distance >= o.threshold && !(cameBack && g.distance <= o.groupby)
  }

  /** The point after the last op before the use that is this number of levels ahead of it. */
  private trigger(g: Gap, ahead: number): Point {
    const level = this.level[g.use]! - ahead
    for (let p = g.use; p > g.start; ) {
      if (p % STRIDE === 0 && this.leastLevel[p / STRIDE - 1]! > level) p -= STRIDE
      else if (this.level[p - 1]! <= level) return p
      else p--
    }
    return g.start
  }

  /** Returns true if grouping keeps anything that would leave without it. */
  groups(o: TflmsSetting): boolean {
    const back = new Set<number>()
    return this.gaps.some((g) => {
      const alone = this.isSwapped(g, o, false)
      const grouped = alone && !this.isSwapped(g, o, back.has(g.index))
      if (alone) back.add(g.index)
      return grouped
    })
  }

  candidate(o: TflmsSetting): Candidate {
    const out: { index: number; gap: number; timing: Timing }[] = []
    const back = new Set<number>()
    for (const g of this.gaps)
      if (this.isSwapped(g, o, back.has(g.index))) {
        back.add(g.index)
        out.push({ index: g.index, gap: g.gap, timing: { swapInAt: this.trigger(g, o.ahead) } })
      }
    return always(this.l, swapping(this.l, out))
  }
}

/** The largest setting in [least, most] that fits, given that smaller ones need no more. */
const largest = (least: number, most: number, fits: (x: number) => boolean): number => {
  let [lo, hi] = [least, most]
  while (lo < hi) {
    const mid = Math.ceil((lo + hi) / 2)
    if (fits(mid)) lo = mid
    else hi = mid - 1
  }
  return lo
}

/** The least memory: every value is swapped out between any two uses, and in when it is needed. */
export const EVERYTHING: TflmsSetting = { threshold: 0, ahead: 0, groupby: 0 }

export const tflms: Planner = (graph, machine) => right([new Tflms(eachUseLayout(graph, machine)).candidate(EVERYTHING)].values())

export const tflmsSmall: Planner = overSharedPages(eachUseLayout, 'run', (l) => [new Tflms(l).candidate(EVERYTHING)])

export interface TflmsOptions {
  readonly tuneAhead: boolean
  readonly tuneGroupby: boolean
  /** Thresholds to try, as shares of the highest that fits. */
  readonly thresholds: readonly number[]
}
export const TFLMS: TflmsOptions = { tuneAhead: true, tuneGroupby: true, thresholds: [1, 0.75, 0.5, 0.25] }

/** Settings to try for a number of pages. */
export function* tuned(t: Tflms, pages: number, o: TflmsOptions): Generator<Candidate, void, unknown> {
  const fits = (s: TflmsSetting): boolean => t.candidate(s).least <= pages
  const highest = largest(0, t.deepest, (threshold) => fits({ ...EVERYTHING, threshold }))
  for (const share of o.thresholds)
    for (const groupby of o.tuneGroupby ? [0, t.deepest] : [0]) {
      const setting = { threshold: Math.round(share * highest), ahead: 0, groupby }
      if (!fits(setting) || (groupby && !t.groups(setting))) continue
      const ahead = o.tuneAhead ? largest(0, t.deepest, (x) => fits({ ...setting, ahead: x })) : 0
      yield t.candidate({ ...setting, ahead })
      if (ahead > 2) yield t.candidate({ ...setting, ahead: Math.round(ahead / 2) })
    }
}

export const refineTflms =
  (options: Partial<TflmsOptions> = {}): Refiner =>
  (graph, machine, pages) =>
    tuned(new Tflms(eachUseLayout(graph, machine)), pages, { ...TFLMS, ...options })
