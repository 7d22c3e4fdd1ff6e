// Every planner on one network at one size. In: a training graph, a machine, a number of budgets. Out: for each planner its smallest budget and the
// step over its in-core compute at every budget, null if none fits. Invariant: each plan was accepted by `verify` (it runs at the end of every
// compile) and keeps to its budget; a planner that refuses names a smallest budget that is larger, is the same at every budget, and works. Broken
// invariants are in `faults`.
import { isLeft, isRight } from 'fp-ts/Either'
import { smallestOf, sweep } from '../../src/stage/sweep'
import type { LocalMachine } from '../../src/machine/localmachine'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { strategies } from '../../staging/planner/strategies'
import { simulate } from '../../staging/sim/simulate'

export interface SweptStrategy {
  readonly smallestMiB: number
  /** At each budget. */
  readonly ratios: readonly (number | null)[]
}

export interface SweptNetwork {
  readonly network: string
  readonly input: readonly number[]
  readonly inCoreMiB: number
  /** How many budgets were asked for: small networks have fewer that differ. */
  readonly asked?: number
  readonly budgetsMiB: readonly number[]
  readonly strategies: Readonly<Record<string, SweptStrategy>>
  readonly faults: readonly string[]
}

const MIB = 1024 ** 2
const rounded = (x: number): number => Number(x.toPrecision(6))

class Sweep {
  readonly faults: string[] = []
  private readonly compute: number
  private readonly plans = new Map<string, ReturnType<typeof compile>>()

  constructor(
    private readonly graph: Graph,
    private readonly machine: LocalMachine,
  ) {
    this.compute = computeSeconds(inCoreLayout(graph, machine))
  }

  /** The smallest budget of the sweep is somebody's smallest: its plan is made once. */
  private planned(strategy: string, budgetBytes: number) {
    const key = `${strategy} ${budgetBytes}`
    const plan = this.plans.get(key) ?? compile(this.graph, { strategy, budgetBytes, machine: this.machine, algorithms: 'fixed' })
    if (this.plans.size) this.plans.clear()
    this.plans.set(key, plan)
    return plan
  }

  private ratio(strategy: string, smallest: number, budget: number): number | null {
    const plan = this.planned(strategy, budget)
    const at = `${strategy} in ${budget / MIB} MiB`
    if (isRight(plan)) {
      if (bytesOf(plan.right.peakPages) > budget || budget < smallest) this.faults.push(`${at}: fits, smallest ${smallest}`)
      return rounded(simulate(plan.right, this.machine.link).makespanSeconds / this.compute)
    }
    const named = plan.left.tag === 'BudgetInfeasible' && plan.left.smallestBytes === smallest && smallest > budget
    if (!named) this.faults.push(`${at}: ${renderError(plan.left)}`)
    return null
  }

  run(strategy: string, smallest: number, budgets: readonly number[]): SweptStrategy {
    if (!Number.isFinite(smallest)) this.faults.push(`${strategy}: names no smallest budget`)
    else if (isLeft(this.planned(strategy, smallest))) this.faults.push(`${strategy}: ${smallest / MIB} MiB do not work`)
    return { smallestMiB: smallest / MIB, ratios: budgets.map((b) => this.ratio(strategy, smallest, b)) }
  }
}

export const sweptNetwork = (graph: Graph, machine: LocalMachine, input: readonly number[], count: number): SweptNetwork => {
  const smallest = new Map(strategies.map((s) => [s, smallestOf(graph, machine, s, 'fixed')] as const))
  const inCore = smallest.get('in-core')!
  const budgets = sweep(Math.min(...smallest.values()), inCore, count)
  const run = new Sweep(graph, machine)
  const swept = strategies.map((s) => [s, run.run(s, smallest.get(s)!, budgets)] as const)
  return {
    network: graph.name,
    input,
    inCoreMiB: inCore / MIB,
    asked: count,
    budgetsMiB: budgets.map((b) => b / MIB),
    strategies: Object.fromEntries(swept),
    faults: run.faults,
  }
}

/** One of the strategies planned anew in the budgets of a sweep, beside the others as they were. */
export const sweptAgain = (graph: Graph, machine: LocalMachine, before: SweptNetwork, strategy: string): SweptNetwork => {
  const run = new Sweep(graph, machine)
  const smallest = smallestOf(graph, machine, strategy, 'fixed')
  const budgets = before.budgetsMiB.map((b) => b * MIB)
  const faults = before.faults.filter((f) => !f.startsWith(`${strategy} `) && !f.startsWith(`${strategy}:`))
  const again = run.run(strategy, smallest, budgets)
  return { ...before, strategies: { ...before.strategies, [strategy]: again }, faults: [...faults, ...run.faults] }
}
