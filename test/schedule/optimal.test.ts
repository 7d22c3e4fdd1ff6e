// Chains of real networks: what the programme decides becomes plans that the verifier accepts, that take what was modelled and
// need less the less they are given; stages lie where one value crosses; repeated blocks are solved once.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile, compileSegments } from '../../staging/compile'
import { gib, PAGE_BYTES } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import { computeSeconds } from '../../staging/schedule/bound'
import { resident } from '../../staging/schedule/candidate'
import { chainOf } from '../../staging/schedule/chain'
import { solveChain } from '../../staging/schedule/chaindp'
import { optimalOf, spread } from '../../staging/schedule/optimal'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'
import { recipes } from '../property/networks'
import { trainingOf } from '../property/plans'

const machine = machines['v100-pcie-16g']!
const RUNS = process.env['SPILLWAY_FULL'] === '1' ? 200 : 40

const accepted = (graph: Graph, slots: number): void => {
  const { segments } = optimalOf(graph, machine).layout(slots)
  const plan = compileSegments(graph, segments, { strategy: 'by hand', budgetBytes: gib(64), machine })
  if (isLeft(plan)) assert.unreachable(JSON.stringify(plan.left))
}

test('random networks: the verifier accepts what is decided in any memory, and less memory never computes less', () => {
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

test('the plan takes the seconds that the programme says, or a little less', () => {
  for (const graph of [trainingGraph('resnet18', [8, 3, 64, 64]), trainingGraph('vgg16-features', [1, 3, 128, 128])]) {
    const optimal = optimalOf(graph, machine)
    for (const slots of spread(optimal.steps, 6)) {
      const real = computeSeconds(optimal.layout(slots))
      const said = optimal.seconds(slots)
      assert.ok(real <= said * 1.0001 && real >= said * 0.97, `${graph.name} in ${slots} slots: ${real} s for ${said} s`)
    }
  }
})

test('stages of resnet18 are its blocks', () => {
  const chain = chainOf(trainingGraph('resnet18', [8, 3, 64, 64]), machine)
  const firsts = chain.stages.map((s) => chain.graph.ops[s.forward[0]!]!.layer)
  for (let stage = 1; stage <= 4; stage++)
    for (const block of [0, 1]) assert.is(firsts.filter((l) => l === `layer${stage}.${block}.conv1`).length, 1)
})

test('repeated blocks are solved once: resnet152 takes fewer than seven tables in ten', () => {
  const { sizes } = chainOf(trainingGraph('resnet152', [1, 3, 64, 64]), machine)
  const tables = (sizes.length * (sizes.length + 1)) / 2
  assert.ok(solveChain(sizes, 0).tables < 0.7 * tables, `${solveChain(sizes, 0).tables} of ${tables}`)
})

test('at every budget the refined plan is at least as fast as what is listed, and fits', () => {
  const graph = trainingGraph('resnet18', [16, 3, 128, 128])
  const optimal = optimalOf(graph, machine)
  for (const slots of spread(optimal.steps, 5)) {
    const candidate = resident(optimal.layout(slots))
    const plan = compile(graph, { strategy: 'checkpoint:optimal', budgetBytes: candidate.least * PAGE_BYTES, machine })
    assert.ok(isRight(plan) && plan.right.peakPages <= candidate.least)
    if (isRight(plan)) assert.ok(simulate(plan.right, machine.link).computeSeconds <= computeSeconds(candidate.layout) * 1.0001)
  }
})

test.run()
