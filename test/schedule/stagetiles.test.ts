// timeout 300
// Stages in tiles inside a mixture: which stages, what that lowers, and that the plan is the same step.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import { tilesOf } from '../../staging/plan/plan'
import { auto, refineAuto } from '../../staging/schedule/auto'
import { optimalOf, tiledChainsOf } from '../../staging/schedule/optimal'
import { tiledSizes } from '../../staging/schedule/stagetiles'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'

const machine = machines['v100-pcie-16g']!
const vgg = trainingGraph('vgg11-features', [8, 3, 320, 320])

const planned = (graph: Graph, pages: number, o: Parameters<typeof auto>[0]) =>
  compile(graph, {
    strategy: 'auto',
    machine,
    budgetBytes: bytesOf(pages),
    method: { planner: auto(o), refiner: refineAuto(o) },
  })

test('the worked example: 10 values at work, 2 of them kept, in 4 tiles', () => {
  const stage = {
    firstSeconds: 1,
    againSeconds: 1,
    passPeak: 10,
    crossing: [2],
    gradient: 0,
    options: [{ saved: 2, forwardPeak: 10, backwardPeak: 10, backwardSeconds: 2 }],
  }
  const t = tiledSizes(stage, { grid: { B: 4, H: 1, W: 1 }, slower: 1.5 }, 0)
  assert.equal([t.passPeak, t.options[0]!.forwardPeak, t.options[0]!.backwardPeak], [4, 4, 4])
  assert.equal([t.firstSeconds, t.againSeconds, t.options[0]!.backwardSeconds], [1.5, 1.5, 3])
  assert.is(t.options[0]!.saved, 2)
})

test('chains in tiles need less than whole stages do, and tile the first stages, not all', () => {
  const whole = optimalOf(vgg, machine)
  const tiled = tiledChainsOf(vgg, machine)
  assert.ok(tiled.length > 1)
  const least = (c: typeof whole): number => c.resident(c.steps[0]!).least
  assert.ok(Math.min(...tiled.map(least)) < 0.7 * least(whole), `${tiled.map(least)} beside ${least(whole)}`)
  for (const { chain } of tiled) {
    const tiles = chain.stages.map((s) => tilesOf(s.grid))
    assert.ok(tiles.some((n) => n > 1) && tiles.at(-1) === 1, tiles.join())
  }
})

test('a network whose stages all have norms has none', () => {
  assert.equal(tiledChainsOf(trainingGraph('resnet18', [2, 3, 64, 64]), machine), [])
})

test('without swapping, mixtures use the memory that there is: the more of it, the less is made again, as in the optimal programme', () => {
  const resnet = trainingGraph('resnet50', [16, 3, 192, 192])
  const seconds = (plan: ReturnType<typeof planned>): number => {
    if (isLeft(plan)) throw new Error(renderError(plan.left))
    return simulate(plan.right, machine.link).makespanSeconds
  }
  const most = compile(resnet, { strategy: 'in-core', machine, budgetBytes: bytesOf(10_000) })
  const pages = isLeft(most) ? 0 : most.right.peakPages
  const budgets = [0.5, 0.75].map((share) => Math.ceil(share * pages))
  const took = budgets.map((n) => seconds(planned(resnet, n, { swap: false, tile: false })))
  assert.ok(took[1]! < took[0]!, took.join())
  budgets.forEach((n, i) => {
    const optimal = seconds(compile(resnet, { strategy: 'checkpoint:optimal', machine, budgetBytes: bytesOf(n) }))
    assert.ok(took[i]! <= 1.001 * optimal, `${took[i]} beside ${optimal}`)
  })
})

test('under a budget that whole stages do not meet: tiled and whole segments in one plan, which verify accepts', () => {
  const whole = optimalOf(vgg, machine)
  const pages = Math.ceil(0.65 * whole.resident(whole.steps[0]!).least)
  const plan = planned(vgg, pages, {})
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const tiles = plan.right.segments.map((s) => tilesOf(s.grid))
  assert.ok(tiles.some((n) => n > 1) && tiles.some((n) => n === 1), tiles.join())
  assert.ok(plan.right.peakPages <= pages)
  const without = planned(vgg, pages, { tile: false })
  const seconds = (p: typeof without): number => (isLeft(p) ? Infinity : simulate(p.right, machine.link).makespanSeconds)
  assert.ok(seconds(plan) < seconds(without))
})

test.run()
