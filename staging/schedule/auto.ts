// `auto`: mixtures of keeping, recomputing and swapping, for one budget. In: the training graph. Out: candidates: optimal
// recomputation in more memory than there is (optimal.ts), of which pages then leave as the budget demands.
// The memory given to the programme is the one number to choose: with all of it, everything that does not fit is swapped; with
// only the budget, nothing is. Between, recompute falls and traffic rises: the fastest is where compute and the link are both busy.
// Worked example, a third of in-core over PCIe: half of the excess is cheap norms and rectifiers made again, half moves.
import { right } from 'fp-ts/Either'
import { bytesOf } from '../core/bytes'
import type { Graph } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
import { type Candidate, type Planner, type Refiner, resident, swappingOnDemand } from './candidate'
import { ALL_RULES } from './chaindp'
import type { Layout } from './layout'
import { cutForLink } from './activations'
import { refine } from './annealing/search'
import { smallTiles } from './jointsearch'
import { mostThatFits, type OptimalChain, optimalOf } from './optimal'

/** The distance at which the search for the best memory begins, and the one at which it ends, in parts of the whole range. */
const COARSE = 1 / 6
const FINE = 1 / 60

export interface AutoOptions {
  /** Give the programme more memory than there is, and let pages leave; else what is recomputed must fit. */
  readonly swap: boolean
  /** Make cheap values again inside a stage that keeps its dear ones; else a stage keeps all or nothing. */
  readonly cheapFirst: boolean
  /** Look on the simulator at the memories near the one that the estimate prefers. */
  readonly refine: boolean
  /** Recompute inside tiles, and across norms: one decision for each loop and op (annealing/). */
  readonly joint: boolean
}
export const AUTO: AutoOptions = { swap: true, cheapFirst: true, refine: true, joint: true }

const chainFor = (graph: Graph, machine: Machine, o: AutoOptions): OptimalChain =>
  optimalOf(graph, machine, { ...ALL_RULES, options: o.cheapFirst })

/** Who leaves: parts, the farthest next use first. */
const ruleFor =
  (machine: Machine, o: AutoOptions) =>
  (layout: Layout): Candidate =>
    o.swap ? swappingOnDemand(cutForLink(layout, machine.link)) : resident(layout)

/** The one that needs least; where pages may leave, of those that do not compute again and again. */
function* listed(optimal: OptimalChain, o: AutoOptions): Generator<Candidate, void, boolean> {
  yield optimal.candidate(o.swap ? optimal.leastWorthwhile : optimal.steps[0]!, ruleFor(optimal.machine, o))
}

/** Where it does not fit: the one that needs least of all, and tiles of joint plans. */
function* small(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const optimal = chainFor(graph, machine, AUTO)
  const least = optimal.steps[0]!
  if (least !== optimal.leastWorthwhile) yield optimal.candidate(least, ruleFor(optimal.machine, AUTO))
  yield* smallTiles(graph, machine)
}

export const autoSmall: Planner = (graph, machine) => right(small(graph, machine))

export const auto =
  (options: Partial<AutoOptions> = {}): Planner =>
  (graph, machine) => {
    const o = { ...AUTO, ...options }
    return right(listed(chainFor(graph, machine, o), o))
  }

/** For each memory what the step takes at least: its compute, and the link's time for what does not fit. */
const estimates = (optimal: OptimalChain, budgetPages: number, link: Link): readonly number[] => {
  const { steps } = optimal
  const least = optimal.leastWorthwhile
  const besides = bytesOf(resident(optimal.layout(least)).least) - optimal.bytes(least)
  return steps.map((m) => {
    const excess = Math.max(0, besides + optimal.bytes(m) - bytesOf(budgetPages))
    return Math.max(optimal.seconds(m), excess / link.outBytesPerSecond + excess / link.inBytesPerSecond)
  })
}

/** From the memory that the estimate prefers, both ways in steps that halve when they no longer help: the seconds of the best. */
function* mixtures(optimal: OptimalChain, estimate: readonly number[], o: AutoOptions): Generator<Candidate, number, number> {
  const { steps } = optimal
  const rule = ruleFor(optimal.machine, o)
  const tried = new Map<number, number>()
  let best = estimate.indexOf(Math.min(...estimate))
  tried.set(best, yield optimal.candidate(steps[best]!, rule))
  for (let d = steps.length * COARSE; o.refine && d > Math.max(1, steps.length * FINE); ) {
    const before = best
    for (const at of [Math.round(before - d), Math.round(before + d)]) {
      if (at < 0 || at >= steps.length || tried.has(at)) continue
      tried.set(at, yield optimal.candidate(steps[at]!, rule))
      if (tried.get(at)! < tried.get(best)!) best = at
    }
    if (best === before) d /= 2
  }
  return tried.get(best)!
}

export const refineAuto = (options: Partial<AutoOptions> = {}): Refiner =>
  function* (graph, machine, budgetPages, toBeat) {
    const o = { ...AUTO, ...options }
    const optimal = chainFor(graph, machine, o)
    if (!o.swap) {
      yield* mostThatFits(optimal, budgetPages, toBeat)
      return
    }
    const seconds = yield* mixtures(optimal, estimates(optimal, budgetPages, machine.link), o)
    if (o.joint) yield* refine(graph, machine, budgetPages, Math.min(toBeat, seconds))
  }
