// Golden dumps of plans: each strategy on a zoo network at the smallest budget that works and halfway to in-core.
// In: a network's name and input shape. Out: the text of all its plans, compared with a committed file.
// UPDATE_GOLDEN=1 rewrites the file: a change of a planner shows as its diff.
import { isLeft } from 'fp-ts/Either'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { zooEntry } from '../../src/zoo'
import { compile, trainingGraph as passed } from '../../staging/compile'
import { bytesOf, mib, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Plan } from '../../staging/plan/plan'
import { planText } from '../../staging/plan/text'
import { machines } from '../../staging/sim/machines'
import { elaborated, mustModel } from '../dsl/forward'
import { must } from '../graph/sketch'

const machine = machines['v100-pcie-16g']!

/** As `on` trains it. */
export const trainingGraph = (
  name: string,
  input: readonly [number, number, number, number],
  on: Pick<Machine, 'device' | 'precision'> = machine,
): Graph => {
  const optimizer = { kind: 'sgd', lr: 0.1, momentum: 0.9, weightDecay: 0, nesterov: false } as const
  const step = must(elaborated(mustModel(name, input), name, zooEntry(name)!.loss, optimizer))
  return must(passed(step, on))
}

const planAt = (graph: Graph, strategy: string, pages: number): Plan => {
  const plan = compile(graph, { strategy, machine, budgetBytes: bytesOf(pages), algorithms: 'fixed' })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  return plan.right
}

/** The smallest budget in the error for a hopeless one. */
const smallestPages = (graph: Graph, strategy: string): number => {
  const refused = compile(graph, { strategy, machine, budgetBytes: mib(2) })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${strategy}: one page cannot be enough`)
  return pagesIn(refused.left.smallestBytes)
}

const dump = (graph: Graph, strategies: readonly string[]): string => {
  const inCore = smallestPages(graph, 'in-core')
  const texts = [planText(planAt(graph, 'in-core', inCore))]
  for (const strategy of strategies) {
    const smallest = smallestPages(graph, strategy)
    for (const pages of [smallest, Math.max(smallest, Math.ceil((smallest + inCore) / 2))])
      texts.push(planText(planAt(graph, strategy, pages)))
  }
  return texts.join('\n')
}

const STRATEGIES = ['checkpoint:sqrt', 'checkpoint:optimal', 'swap:greedy', 'tiled']

export const compareWithGolden = (
  name: string,
  input: readonly [number, number, number, number],
  strategies: readonly string[] = STRATEGIES,
  golden = name,
): void => {
  const file = join(__dirname, `${golden}.txt`)
  const text = dump(trainingGraph(name, input), strategies)
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, text)
  assert.ok(existsSync(file), `${golden}.txt is missing: UPDATE_GOLDEN=1 writes it`)
  assert.fixture(text, readFileSync(file, 'utf8'))
}
