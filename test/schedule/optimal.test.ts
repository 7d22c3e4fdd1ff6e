// timeout 600
// Chains of real networks: what the programme decides becomes plans that the verifier accepts, that take what was modelled and
// need less the less they are given; stages lie where one value crosses; repeated blocks are solved once.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile, compileSegments } from '../../staging/compile'
import { bytesOf, gib } from '../../staging/core/bytes'
import { devices } from '../../staging/devices'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds } from '../../staging/schedule/bound'
import { resident } from '../../staging/schedule/candidate'
import { type Chain, chainOf } from '../../staging/schedule/chain'
import { type Action, type ChainRules, solveChain } from '../../staging/schedule/chaindp'
import { layOut } from '../../staging/schedule/layout'
import { OptimalChain, optimalOf, spread } from '../../staging/schedule/optimal'
import { runsOf } from '../../staging/schedule/rerun'
import { segmentsOf } from '../../staging/tile/segments'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { batchNorm, conv2d, globalAvgPool, linear, model, relu, seq, skip } from '../../dsl'
import { training } from '../../staging/grad/grad'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import { elaborated } from '../dsl/forward'
import { FULL, fewOrAll } from '../full'
import { trainingGraph } from '../golden/golden'
import { must } from '../graph/sketch'
import { recipes } from '../property/networks'
import { trainingOf } from '../property/plans'
import { everySchedule } from './schedules'

const machine = machines['v100-pcie-16g']!
const RUNS = FULL ? 200 : 20

const accepted = (graph: Graph, slots: number): void => {
  const { segments } = optimalOf(graph, machine).layout(slots)
  const plan = compileSegments(graph, segments, { strategy: 'by hand', budgetBytes: gib(64), machine })
  if (isLeft(plan)) assert.unreachable(JSON.stringify(plan.left))
}

test('random networks: the verifier accepts each decision, and less memory never computes less', () => {
  fc.assert(
    fc.property(recipes, (recipe) => {
      const graph = trainingOf(recipe)
      const optimal = optimalOf(graph, machine)
      const steps = spread(optimal.steps, 4)
      for (const slots of steps) accepted(graph, slots)
      const seconds = steps.map((m) => optimal.seconds(m))
      assert.equal(
        seconds,
        [...seconds].sort((a, b) => b - a),
      )
    }),
    { numRuns: RUNS },
  )
})

test('the plan takes the seconds of the dynamic programme, or slightly less', () => {
  for (const graph of [trainingGraph('resnet18', [8, 3, 64, 64]), trainingGraph('vgg16-features', [1, 3, 128, 128])]) {
    const optimal = optimalOf(graph, machine)
    for (const slots of spread(optimal.steps, 6)) {
      const real = computeSeconds(optimal.layout(slots))
      const said = optimal.seconds(slots)
      assert.ok(real <= said * 1.0001 && real >= said * 0.97, `${graph.name} in ${slots} slots: ${real} s for ${said} s`)
    }
  }
})

// ---------------------------------------------------------------- a dense block

/** Layers that join their result with their input; on devices with norms of joined values it is never joined. */
const denseBlock = (isRewritten: boolean): Graph => {
  const layer = <N extends number>(n: N) =>
    skip(
      batchNorm(`norm${n}.1`),
      relu(),
      conv2d(`conv${n}.1`, 32, 1),
      batchNorm(`norm${n}.2`),
      relu(),
      conv2d(`conv${n}.2`, 32, 3),
    )
  const layers = seq(
    conv2d('conv0', 32, 3),
    layer(1),
    layer(2),
    layer(3),
    batchNorm('norm4'),
    relu(),
    globalAvgPool('pool'),
    linear('fc', 10),
  )
  const net = must(elaborated(model([8, 3, 64, 64], layers), 'dense block'))
  return must(training(isRewritten ? rewritten(net) : net))
}

const laidOut = ({ graph, stages, keeping }: Chain, actions: readonly Action[]) => {
  const segments = segmentsOf(graph, runsOf(graph, stages, keeping, actions))
  if (isLeft(segments)) throw new Error(segments.left.why)
  const layout = layOut(graph, segments.right, machine, { packing: 'rows' })
  return { pages: resident(layout).least, seconds: computeSeconds(layout) }
}

for (const isRewritten of fewOrAll([true], [false, true]))
  test(`a dense block${isRewritten ? ' whose values lie side by side' : ''}: no schedule needs less, and none that fits is much faster`, () => {
    // Stages keep all or nothing: else there are too many schedules to lay out.
    const rules: ChainRules = { nested: true, options: false }
    const chain = chainOf(denseBlock(isRewritten), machine)
    const all = everySchedule(chain.sizes, 0, chain.sizes.length - 1, rules).map((actions) => laidOut(chain, actions))
    const optimal = new OptimalChain(chain, machine, rules)
    const mine = optimal.steps.map((m) => ({ pages: optimal.resident(m).least, seconds: computeSeconds(optimal.layout(m)) }))
    const fastest = (of: typeof all, pages: number): number =>
      Math.min(Infinity, ...of.filter((x) => x.pages <= pages).map((x) => x.seconds))
    for (const pages of new Set(all.map((x) => x.pages)))
      assert.ok(
        fastest(mine, pages) <= 1.05 * fastest(all, pages),
        `in ${pages} pages ${fastest(mine, pages)} s for ${fastest(all, pages)} s`,
      )
  })

test('stages of resnet18 are its blocks', () => {
  const chain = chainOf(trainingGraph('resnet18', [8, 3, 64, 64]), machine)
  const firsts = chain.stages.map((s) => chain.graph.ops[s.forward[0]!]!.layer)
  for (let stage = 1; stage <= 4; stage++)
    for (const block of [0, 1]) assert.is(firsts.filter((l) => l === `layer${stage}.${block}.conv1`).length, 1)
})

test('repeated blocks are solved once: resnet152 takes fewer than seven tables in ten', () => {
  // Also where updates are gathered, though more gradients wait from block to block.
  for (const device of [devices.cpu, devices.cuda]) {
    const { sizes } = chainOf(trainingGraph('resnet152', [1, 3, 64, 64], { ...machine, device }), machine)
    const tables = (sizes.length * (sizes.length + 1)) / 2
    const { tables: made } = solveChain(sizes, 0)
    assert.ok(made < 0.7 * tables, `${device.name}: ${made} of ${tables}`)
  }
})

test('at each budget, the refined plan fits and is at least as fast as the listed candidates', () => {
  const graph = trainingGraph('resnet18', [16, 3, 128, 128])
  const optimal = optimalOf(graph, machine)
  for (const slots of spread(optimal.steps, 5)) {
    const candidate = resident(optimal.layout(slots))
    const plan = compile(graph, { strategy: 'checkpoint:optimal', budgetBytes: bytesOf(candidate.least), machine })
    assert.ok(isRight(plan) && plan.right.peakPages <= candidate.least)
    if (isRight(plan)) assert.ok(simulate(plan.right, machine.link).computeSeconds <= computeSeconds(candidate.layout) * 1.0001)
  }
})

test.run()
