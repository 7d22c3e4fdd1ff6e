// Bounds of a candidate before its layout never exceed its real needs, and exclude most candidates that cannot fit.
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fewOrAll, gateTest } from '../full'
import { residualChain } from '../../bench/acceptance/times'
import { compile, type Work } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { callsPlannedIn } from '../../staging/core/planningmemory'
import type { Graph } from '../../staging/graph/graph'
import type { Candidate, Planner } from '../../staging/schedule/candidate'
import { auto, autoSmall } from '../../staging/search/auto'
import { checkpointSqrt } from '../../staging/literature/checkpoint'
import { jointFinest, jointSmall } from '../../staging/schedule/jointsearch'
import { checkpointOptimal, optimalOf } from '../../staging/schedule/optimal'
import { inCoreLayout } from '../../staging/schedule/incore'
import { scheduled } from '../../staging/planner/fastest'
import { leastPages } from '../../staging/schedule/stays'
import { sft } from '../../staging/literature/sft'
import { tiled } from '../../staging/schedule/tiled'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!

const listOf = (planner: Planner, graph: Graph, most: number): readonly Candidate[] => {
  const list = planner(graph, machine)
  if (isLeft(list)) throw new Error('nothing is listed')
  const out: Candidate[] = []
  for (let next = list.right.next(false); !next.done && out.length < most; next = list.right.next(false)) out.push(next.value)
  return out
}

const finest: Planner = (graph, on) => right(jointFinest(graph, on, callsPlannedIn()))

const NETWORKS = [
  ['resnet18', [4, 3, 64, 64]],
  ['googlenet', [2, 3, 64, 64]],
] as const

test('bounds are below the pages and seconds of laid-out plans', () => {
  for (const [name, input] of NETWORKS) {
    const graph = trainingGraph(name, input)
    for (const planner of [tiled(), jointSmall, finest, checkpointSqrt()])
      for (const c of listOf(planner, graph, 3)) {
        const { pages, seconds } = c.atLeast!
        assert.ok(pages <= c.least, `${name}: at least ${pages} pages, but ${c.least} are enough`)
        const budget = Math.ceil(1.1 * c.least)
        const plan = scheduled(c, 'auto', { machine, budgetBytes: bytesOf(budget) })!
        const bound = Math.max(c.computeSeconds!, seconds(budget, machine.link))
        const takes = simulate(plan, machine.link).makespanSeconds
        assert.ok(bound <= takes, `${name}: at least ${bound} s, but it takes ${takes}`)
      }
  }
})

gateTest('values that live inside a loop are there in tiles alone, however large they are', () => {
  const graph = trainingGraph('vgg11-features', [1, 3, 1024, 1024])
  let saved = 0
  for (const planner of fewOrAll([sft({ expands: false })], [sft(), sft({ expands: false })]))
    for (const c of listOf(planner, graph, 40)) {
      const { pages } = c.atLeast!
      assert.ok(pages <= c.least, `at least ${pages} pages, but ${c.least} are enough`)
      saved = Math.max(
        saved,
        1 - c.least / leastPages(inCoreLayout(graph, machine).planned, inCoreLayout(graph, machine).calls.length),
      )
    }
  assert.ok(saved > 0.5, `${saved}`)
})

gateTest('plans without transfers are estimated to a few percent; values of one page are all counted', () => {
  const graph = trainingGraph('densenet121', [8, 3, 112, 112])
  for (const planner of [checkpointSqrt(), checkpointOptimal(), sft()])
    for (const c of listOf(planner, graph, 4)) {
      const { pages } = c.atLeast!
      assert.ok(pages <= c.least && pages >= 0.85 * c.least, `at least ${pages} pages, and ${c.least} are enough`)
    }
  for (const planner of [tiled(), jointSmall])
    for (const c of listOf(planner, graph, 4)) {
      const { pages } = c.atLeast!
      assert.ok(pages <= c.least && pages >= 0.7 * c.least, `at least ${pages} pages, and ${c.least} are enough`)
    }
})

gateTest('a deep chain is planned without candidates that recompute everything repeatedly', () => {
  const graph = residualChain(150)
  const optimal = optimalOf(graph, machine)
  const [least, worthwhile] = [optimal.seconds(optimal.steps[0]!), optimal.seconds(optimal.leastWorthwhile)]
  const fastest = optimal.seconds(optimal.steps.at(-1)!)
  assert.ok(least > 10 * fastest && worthwhile < 3 * fastest, `${least} and ${worthwhile} of ${fastest} s`)
  const list = listOf(auto, graph, 20).flatMap((c) => c.computeSeconds ?? [])
  assert.ok(Math.max(...list) < least, 'that is not listed')
  const small = listOf(autoSmall, graph, 20).flatMap((c) => c.computeSeconds ?? [])
  assert.ok(Math.max(...small) >= optimal.leastSeconds(optimal.steps[0]!), 'but where nothing fits')
})

test('the smallest budget that a refusal names is the same from every budget, and works', () => {
  const graph = trainingGraph('resnet18', [4, 3, 64, 64])
  const smallestFrom = (pages: number): number => {
    const plan = compile(graph, { strategy: 'tiled', machine, budgetBytes: bytesOf(pages) })
    assert.ok(isLeft(plan) && plan.left.tag === 'BudgetInfeasible')
    return plan.left.smallestBytes
  }
  const smallest = smallestFrom(1)
  const laidOut = { offered: 0, 'laid out': 0, simulated: 0 }
  const count = (w: Work): void => void laidOut[w]++
  assert.is(smallestFrom(smallest / bytesOf(1) - 1), smallest)
  assert.ok(!isLeft(compile(graph, { strategy: 'tiled', machine, budgetBytes: smallest, count })))
  assert.ok(laidOut['laid out'] < laidOut.offered, 'some are ruled out before they are laid out')
})

test.run()
