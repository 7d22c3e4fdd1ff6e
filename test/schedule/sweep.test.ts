// timeout 1800
// The swapping planners over zoo networks, image sizes and budgets: a verified plan from the smallest budget on, and how far
// the best are above the bound. SPILLWAY_FULL takes the whole zoo and paper 5's networks.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { zooNames } from '../../src/zoo'
import { compile } from '../../staging/compile'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { atLeastSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { strategies } from '../../staging/schedule/strategies'
import { leastPages } from '../../staging/schedule/tracks'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const FULL = process.env['SPILLWAY_FULL'] === '1'
const machine = machines['v100-pcie-16g']!
const swapping = strategies.filter((s) => s.startsWith('swap:'))
const at = (graph: Graph, strategy: string, pages: number) =>
  compile(graph, { strategy, machine, budgetBytes: pages * PAGE_BYTES, algorithms: 'fixed' })

const smallest = (graph: Graph, strategy: string): number => {
  const refused = at(graph, strategy, 1)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${strategy}: a page cannot be enough`)
  return refused.left.smallestBytes / PAGE_BYTES
}
const between = (least: number, most: number, n: number): readonly number[] =>
  [...new Set(Array.from({ length: n }, (_, i) => Math.round(least + ((most - least) * i) / (n - 1))))]
const inCorePages = (graph: Graph): number => leastPages(inCoreLayout(graph, machine).tracks, inCoreLayout(graph, machine).calls.length)

test('every swapping planner has a verified plan for every budget from its smallest on', () => {
  const cases = FULL ? zooNames.flatMap((name) => [[name, 224] as const, [name, 320] as const]) : ([['resnet18', 64], ['googlenet', 96]] as const)
  for (const [name, size] of cases) {
    const graph = trainingGraph(name, [4, 3, size, size])
    const most = inCorePages(graph)
    for (const strategy of swapping)
      for (const pages of between(smallest(graph, strategy), most, FULL ? 8 : 3)) {
        const plan = at(graph, strategy, pages)
        if (isLeft(plan)) throw new Error(`${name} at ${size}, ${strategy}, ${pages} of ${most} pages: ${renderError(plan.left)}`)
        assert.ok(plan.right.peakPages <= pages)
      }
  }
})

/** How many times the bound a strategy takes, over budgets that it can work with. */
const ratios = (graph: Graph, names: readonly string[], n: number): readonly (readonly number[])[] => {
  const layout = inCoreLayout(graph, machine)
  const least = Math.max(...names.map((s) => smallest(graph, s)))
  return between(least, inCorePages(graph), n).map((pages) =>
    names.map((s) => {
      const plan = at(graph, s, pages)
      if (isLeft(plan)) throw new Error(renderError(plan.left))
      return simulate(plan.right, machine.link).makespanSeconds / atLeastSeconds(layout, pages, machine.link)
    }),
  )
}
const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[Math.floor(xs.length / 2)]!

test('page by page is near the bound, and hardly ever behind whole activations; so is the dynamic programme', () => {
  const cases = FULL
    ? ['resnet18', 'resnet34', 'resnet50', 'resnet101', 'resnet152', 'densenet121', 'densenet161', 'densenet169', 'densenet201', 'inception3'].flatMap(
        (name) => [[name, 32, 224] as const, [name, 8, 500] as const, [name, 2, 1000] as const],
      )
    : ([['resnet50', 16, 224]] as const)
  const all = cases.flatMap(([name, batch, size]) => {
    const found = ratios(trainingGraph(name, [batch, 3, size, size]), ['swap:fractional', 'swap:greedy', 'swap:dynprog'], FULL ? 8 : 4)
    for (const [fractional, greedy, dynprog] of found)
      assert.ok(fractional! <= 1.005 * Math.min(greedy!, dynprog!), `${name} at ${size}: ${fractional} beside ${greedy} and ${dynprog}`)
    return found
  })
  assert.ok(median(all.map((r) => r[0]!)) <= 1.06, `fractional: ${median(all.map((r) => r[0]!))}`)
  assert.ok(median(all.map((r) => r[2]!)) <= 1.2, `dynprog: ${median(all.map((r) => r[2]!))}`)
})

test.run()
