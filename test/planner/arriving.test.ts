// Work while the input arrives: its share of the wait, and steps without a gain.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { copiesIn } from '../../staging/graph/copied'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Plan } from '../../staging/plan/plan'
import { arriving } from '../../staging/planner/arriving'
import { planners } from '../../staging/planner/strategies'
import { computeSeconds } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { leastPages } from '../../staging/schedule/stays'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { FULL } from '../full'
import { trainingGraph } from '../golden/golden'

const v100 = machines['v100-pcie-16g']!
const linkOf = (inBytesPerSecond: number): Machine => ({ ...v100, link: { ...v100.link, inBytesPerSecond } })

interface Step {
  readonly plan: Plan
  /** Over the compute of the in-core step. */
  readonly ratio: number
}

/** In a multiple of the memory of in-core, with or without a loop of the first ops. Steps do not overlap. */
const stepOf = (graph: Graph, machine: Machine, isParted: boolean, share = 1): Step => {
  const layout = inCoreLayout(graph, machine)
  const pages = Math.ceil(share * leastPages(layout.planned, layout.calls.length))
  const strategy = share < 1 ? 'auto' : 'in-core'
  const method = { ...planners[strategy]!, improvers: isParted ? [arriving] : [] }
  const plan = compile(graph, { strategy, machine, budgetBytes: bytesOf(pages), method })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.peakPages <= pages)
  const ratio = simulate(plan.right, machine.link).makespanSeconds / computeSeconds(layout)
  return { plan: plan.right, ratio }
}

const alexnet = trainingGraph('alexnet', [256, 3, 224, 224])

test('a step that waits for its input for a twelfth of its time waits a fifth of that with its first ops in parts', () => {
  const whole = stepOf(alexnet, v100, false)
  const parted = stepOf(alexnet, v100, true)
  assert.ok(whole.ratio > 1.08, `${whole.ratio}`)
  assert.ok(parted.ratio - 1 < (whole.ratio - 1) / 5, `${parted.ratio} for ${whole.ratio}`)
  const [first, ...others] = parted.plan.segments
  assert.ok(first!.grid.B > 1 && first!.grid.H === 1 && first!.grid.W === 1, JSON.stringify(first!.grid))
  for (const s of others) assert.equal(s.grid, { B: 1, H: 1, W: 1 })
})

test('norms end the loop: readers of batch sums wait for the whole batch', () => {
  const resnet = trainingGraph('resnet18', [32, 3, 224, 224])
  const whole = stepOf(resnet, v100, false, 2)
  const parted = stepOf(resnet, v100, true, 2)
  assert.ok(parted.ratio - 1 < (2 / 3) * (whole.ratio - 1), `${parted.ratio} for ${whole.ratio}`)
  const kinds = parted.plan.segments[0]!.body.map((step) => resnet.ops[step.op]!.kind)
  assert.is(kinds.filter((k) => k.startsWith('conv2d')).length, 1, kinds.join())
})

test('in less memory than in-core takes, too', () => {
  const graph = trainingGraph(FULL ? 'convnext-tiny' : 'resnet18', [32, 3, 224, 224])
  const parted = stepOf(graph, v100, true, 1 / 2)
  assert.ok(parted.plan.segments[0]!.grid.B > 1)
  const endless = stepOf(graph, linkOf(1e15), true, 1 / 2)
  assert.is(endless.plan.segments[0]!.grid.B, 1)
})

test('one image is not parted', () => {
  const { plan } = stepOf(trainingGraph('alexnet', [1, 3, 224, 224]), v100, true, 2)
  assert.is(plan.segments[0]!.grid.B, 1)
})

test('if the link has no time to load the input twice, a step of auto copies it, and begins with whole values', () => {
  const plan = compile(alexnet, { strategy: 'auto', machine: linkOf(1e9), budgetBytes: bytesOf(2000) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.is(copiesIn(plan.right.graph).size, 1)
  assert.is(plan.right.segments[0]!.grid.B, 1)
})

test('a slower input has more ops beside it', () => {
  const ops = [12e9, 4e9, 1e9].map((rate) => stepOf(alexnet, linkOf(rate), true, 2).plan.segments[0]!.body.length)
  assert.ok(ops[0]! < ops[1]! && ops[1]! <= ops[2]!, ops.join())
})

test.run()
