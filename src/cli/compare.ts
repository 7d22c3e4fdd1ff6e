// `spillway compare MODEL`: every strategy over a sweep of budgets, from the smallest that any can work with to in-core.
// Out: a table, or JSON: for each case what `plan` says of it, or that no plan fits.
import { isLeft, left, right } from 'fp-ts/Either'
import { compile } from '../../staging/compile'
import { PAGE_BYTES } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import { strategies } from '../../staging/schedule/strategies'
import { unknownName } from '../errors'
import { type LocalMachine, machineNamed } from '../machine'
import { planJson, type PlanJson } from '../report/facts'
import { showRatio, showSeconds, showSize } from '../report/format'
import { stageGraph, trainingGraph } from '../session'
import { modelNamed } from './model'
import { optimizerOf, overrideOf } from './options'
import type { Done, Output } from './output'
import type { StagingOptions } from './stage'

export interface CompareOptions extends StagingOptions {
  readonly strategies?: readonly string[]
  readonly budgets?: number
}

type Case = { readonly strategy: string; readonly allocator: string; readonly budgetBytes: number } &
  ({ readonly feasible: false; readonly smallestBytes?: number } | ({ readonly feasible: true; readonly chosen: string } & PlanJson))

/** The smallest budget of a strategy: what it answers when it is given one page. */
const smallestOf = (graph: Graph, machine: LocalMachine, strategy: string, o: CompareOptions): number => {
  const plan = compile(graph, { strategy, budgetBytes: PAGE_BYTES, machine, algorithms: o.algorithms })
  if (!isLeft(plan)) return plan.right.peakPages * PAGE_BYTES
  return plan.left.tag === 'BudgetInfeasible' ? plan.left.smallestBytes : Infinity
}

/** `n` budgets in whole pages, evenly from the smallest to in-core, without repeats. */
export const sweep = (smallest: number, inCore: number, n: number): readonly number[] => {
  const at = (i: number): number => Math.round((smallest + ((inCore - smallest) * i) / Math.max(1, n - 1)) / PAGE_BYTES) * PAGE_BYTES
  return [...new Set(n === 1 ? [smallest] : Array.from({ length: n }, (_, i) => at(i)))]
}

const caseOf = (graph: Graph, machine: LocalMachine, o: CompareOptions, strategy: string, budgetBytes: number): Case => {
  const staged = stageGraph(graph, machine, { strategy, budget: budgetBytes, algorithms: o.algorithms, spill: o.spill })
  const head = { strategy, allocator: 'pages', budgetBytes }
  if (isLeft(staged))
    return { ...head, feasible: false, ...(staged.left.tag === 'BudgetInfeasible' ? { smallestBytes: staged.left.smallestBytes } : {}) }
  const { plan, timeline, staging } = staged.right
  return { ...planJson(plan, timeline, staging), ...head, feasible: true, chosen: plan.strategy }
}

const rowText = (c: Case): string => {
  const head = `${showSize(c.budgetBytes).padStart(11)}  ${c.strategy.padEnd(18)}`
  if (!c.feasible) return `${head}  does not fit${c.smallestBytes !== undefined && Number.isFinite(c.smallestBytes) ? `: needs ${showSize(c.smallestBytes)}` : ''}`
  return `${head}${showSize(c.peakBytes).padStart(11)}${showSeconds(c.makespanSeconds).padStart(12)}${showRatio(c.makespanSeconds / c.lowerBoundSeconds).padStart(9)}` +
    `${showSize(c.bytesOut).padStart(12)}${showSeconds(c.recomputeSeconds).padStart(12)}${showSeconds(c.planningSeconds).padStart(12)}`
}
const HEAD = `${'budget'.padStart(11)}  ${'strategy'.padEnd(18)}${'peak'.padStart(11)}${'step'.padStart(12)}${'bound'.padStart(9)}${'out'.padStart(12)}${'recompute'.padStart(12)}${'planning'.padStart(12)}`

export const compareModel = (modelText: string, o: CompareOptions, out: Output): Done => {
  const wanted = o.strategies ?? strategies
  const unknown = wanted.find((s) => !strategies.includes(s))
  if (unknown !== undefined) return left(unknownName('strategy', unknown, strategies))
  const named = modelNamed(modelText, overrideOf(o))
  if (isLeft(named)) return named
  const machine = machineNamed(o.machine ?? 'cpu', { spill: o.spill, fixed: o.algorithms === 'fixed' })
  if (isLeft(machine)) return machine
  const graph = trainingGraph(named.right.model, named.right.name, o.loss ?? named.right.loss, optimizerOf(o), machine.right)
  if (isLeft(graph)) return graph
  const smallestBytes = Math.min(...wanted.map((s) => smallestOf(graph.right, machine.right, s, o)))
  const inCoreBytes = smallestOf(graph.right, machine.right, 'in-core', o)
  const cases: Case[] = []
  out.say(HEAD)
  for (const budget of sweep(smallestBytes, Math.max(smallestBytes, inCoreBytes), o.budgets ?? 8))
    for (const strategy of wanted) {
      cases.push(caseOf(graph.right, machine.right, o, strategy, budget))
      out.say(rowText(cases[cases.length - 1]!))
    }
  out.answer({ model: named.right.name, machine: machine.right.name, inCoreBytes, smallestBytes, cases }, '')
  return right(undefined)
}
