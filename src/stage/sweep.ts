// Every strategy over a sweep of budgets, for `spillway compare` and the laboratory. In: a training graph, a machine, strategies and budgets. Out: a
// comparison: for each case the figures of `plan`, or that no plan fits.
import { isLeft } from 'fp-ts/Either'
import { mappingOf } from '../../staging/memory/allocators/replay'
import { simulate } from '../../staging/sim/simulate'
import { compile } from '../../staging/compile'
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import type { Algorithms } from '../../staging/plan/plan'
import { mostCallsPlanned } from './heap'
import type { SpillwayError } from '../errors/errors'
import type { LowerBound } from '../../staging/bound/lowerbound'
import type { Least } from './least'
import type { LocalMachine } from '../machine/localmachine'
import { planJson, swapBound, type PlanJson } from '../report/facts'
import { stageGraph } from './stage'

export interface SweepOptions {
  readonly strategies: readonly string[]
  /** How many budgets, evenly from the smallest that any strategy works with to in-core; or these, in bytes. */
  readonly budgets: number | readonly number[]
  readonly algorithms?: Algorithms
  /** Each plan is replayed on these; by default only on pages, the allocator of runs. */
  readonly allocators?: readonly string[]
  /** The lower bound of a step, closer than its compute. */
  readonly least?: Least | undefined
  /** Called before each case is planned. */
  readonly onCase?: (strategy: string, budgetBytes: number) => void
}

/** Bytes of host memory, disk or writes that the best plan of a strategy needs, more than there are. */
type TierLack = Pick<Extract<SpillwayError, { readonly tag: 'TierInfeasible' }>, 'of' | 'needsBytes' | 'hasBytes'>

export type Case = { readonly strategy: string; readonly allocator: string; readonly budgetBytes: number } & (
  | { readonly feasible: false; readonly smallestBytes?: number; readonly tier?: TierLack }
  | ({
      readonly feasible: true
      readonly chosen: string
      readonly imagesPerSecond: number
      readonly inCoreSeconds: number
      /** Paper 5, Prop. 3: a bound for every plan that only swaps. */
      readonly swapBoundSeconds: number
    } & PlanJson)
)
export type InfeasibleCase = Extract<Case, { feasible: false }>
export type FeasibleCase = Extract<Case, { feasible: true }>

export interface Comparison {
  readonly model: string
  readonly machine: string
  readonly inCoreBytes: number
  readonly smallestBytes: number
  readonly cases: readonly Case[]
}

/** The smallest budget of a strategy: its answer for one page. */
export const smallestOf = (graph: Graph, machine: LocalMachine, strategy: string, algorithms?: Algorithms): number => {
  const plan = compile(graph, {
    strategy,
    budgetBytes: PAGE_BYTES,
    machine,
    algorithms,
    mostCalls: mostCallsPlanned(),
  })
  if (!isLeft(plan)) return bytesOf(plan.right.peakPages)
  return plan.left.tag === 'BudgetInfeasible' ? plan.left.smallestBytes : Infinity
}

/** `n` budgets in whole pages, evenly from the smallest to in-core, without repeats. */
export const sweep = (smallest: number, inCore: number, n: number): readonly number[] => {
  const at = (i: number): number => bytesOf(Math.round((smallest + ((inCore - smallest) * i) / Math.max(1, n - 1)) / PAGE_BYTES))
  return [...new Set(n === 1 ? [smallest] : Array.from({ length: n }, (_, i) => at(i)))]
}

/** The memory that the strategy lacks. */
const lackIn = (e: SpillwayError): Pick<InfeasibleCase, 'smallestBytes' | 'tier'> =>
  e.tag === 'BudgetInfeasible'
    ? { smallestBytes: e.smallestBytes }
    : e.tag === 'TierInfeasible'
      ? { tier: { of: e.of, needsBytes: e.needsBytes, hasBytes: e.hasBytes } }
      : {}

/** One plan on each allocator; where none fits, one case. */
const casesOf = (
  graph: Graph,
  machine: LocalMachine,
  strategy: string,
  budgetBytes: number,
  { allocators = ['pages'], ...o }: Omit<Partial<SweepOptions>, 'least'>,
  bound?: LowerBound,
): readonly Case[] => {
  const staged = stageGraph(graph, machine, { strategy, budget: budgetBytes, algorithms: o.algorithms })
  if (isLeft(staged)) {
    return [{ strategy, allocator: 'pages', budgetBytes, feasible: false, ...lackIn(staged.left) }]
  }
  const { plan, timeline, staging } = staged.right
  return allocators.map((allocator): Case => {
    const mapping = mappingOf(plan, allocator)
    const mapped = mapping ? simulate(plan, machine.link, mapping) : timeline
    const facts = planJson(plan, mapped, { ...staging, allocator, bound: bound ?? staging.bound })
    return {
      ...facts,
      strategy,
      allocator,
      budgetBytes,
      feasible: true,
      chosen: plan.strategy,
      imagesPerSecond: facts.input[0]! / facts.makespanSeconds,
      inCoreSeconds: staging.inCore.computeSeconds,
      swapBoundSeconds: swapBound(plan, staging),
    }
  })
}

export const caseOf = (graph: Graph, machine: LocalMachine, strategy: string, budgetBytes: number): Case =>
  casesOf(graph, machine, strategy, budgetBytes, {})[0]!

export const compareGraph = (
  graph: Graph,
  machine: LocalMachine,
  o: SweepOptions,
  each: (c: Case) => void = () => {},
): Comparison => {
  const inCoreBytes = smallestOf(graph, machine, 'in-core', o.algorithms)
  const smallestBytes =
    typeof o.budgets === 'number'
      ? Math.min(...o.strategies.map((s) => smallestOf(graph, machine, s, o.algorithms)))
      : Math.min(...o.budgets)
  const budgets =
    typeof o.budgets === 'number' ? sweep(smallestBytes, Math.max(smallestBytes, inCoreBytes), o.budgets) : o.budgets
  const cases = budgets.flatMap((budget) => {
    const bound = o.least?.(graph, machine, budget)
    return o.strategies.flatMap((strategy) => {
      o.onCase?.(strategy, budget)
      const cases = casesOf(graph, machine, strategy, budget, o, bound)
      cases.forEach(each)
      return cases
    })
  })
  return { model: graph.name, machine: machine.name, inCoreBytes, smallestBytes, cases }
}
