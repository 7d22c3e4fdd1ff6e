// Plans by hand are carried out as given: grids on the ranges, whole values at the cuts; each accepted text makes a plan that the verifier accepts.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  apply,
  batchNorm,
  conv2d,
  detach,
  fed,
  globalAvgPool,
  linear,
  loss,
  maxPool,
  minimize,
  model,
  type Model,
  modelAt,
  mse,
  relu,
  seq,
  sgd,
  step,
  type TrainingStep,
} from '../../dsl'
import { renderError } from '../../staging/core/errors'
import { tilesOf } from '../../staging/plan/plan'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { errorText } from '../../src/errors/errors'
import { generate, randomFrom } from '../dsl/generate'
import { runProgram } from '../types/checker'
import { prelude } from '../types/illegal'

const MACHINE = 'v100-pcie-16g'
// biome-ignore format: one resolution a line
const net = model([2, 3, 32, 32], seq(
  conv2d('c1', 8, 3), relu(), conv2d('c2', 8, 3), batchNorm('n2'), relu(), maxPool('p2', 2),
  conv2d('c3', 16, 3), relu(), globalAvgPool('gap'), linear('fc', 10),
))

const staged = (m: Model, o: StageOptions) => {
  const s = tryStage(m, { machine: MACHINE, ...o })
  if (isLeft(s)) throw new Error(errorText(s.left))
  return s.right.plan
}
const layersOf = (plan: ReturnType<typeof staged>, segment: number): readonly string[] => [
  ...new Set(plan.segments[segment]!.body.map((s) => `${plan.graph.ops[s.op]!.layer}:${plan.graph.ops[s.op]!.kind}`)),
]

test('ranges of tiles become segments with their grid, cut inside a batch norm', () => {
  const plan = staged(net, {
    tiles: [
      { from: 'c1', to: 'n2', H: 4, W: 2 },
      { from: 'n2', to: 'gap', H: 8 },
    ],
  })
  assert.is(plan.strategy, 'by-hand')
  const forward = plan.segments.filter((s) => s.phase === 'forward')
  assert.equal(
    forward.map((s) => [s.grid.B, s.grid.H, s.grid.W]),
    [
      [1, 4, 2],
      [1, 8, 1],
      [1, 1, 1],
    ],
  )
  assert.equal(layersOf(plan, 0), ['c1:conv2d_relu', 'c2:conv2d', 'n2:bn_stats'])
  assert.equal(layersOf(plan, 1), ['n2:bn_relu_apply', 'p2:max_pool', 'c3:conv2d_relu', 'gap:global_avg_pool'])
})

test('a checkpoint is kept, and the values before it are recomputed', () => {
  const plan = staged(net, { checkpoints: ['c2', 'p2'] })
  const forward = plan.segments.filter((s) => s.phase === 'forward').map((s) => s.body.map((b) => plan.graph.ops[b.op]!.layer))
  assert.equal(forward, [
    ['c1', 'c2'],
    ['n2', 'n2', 'p2'],
    ['c3', 'gap', 'fc', 'loss'],
  ])
  assert.ok(plan.segments.some((s) => s.phase === 'recompute'))
})

test('a range to the end holds the loss and runs forward and backward in one visit to each tile', () => {
  const m = model([2, 3, 16, 16], seq(conv2d('a', 4, 3), relu(), conv2d('b', 4, 3)))
  const plan = staged(m, { tiles: [{ from: 'a', to: 'b', H: 2, B: 2 }] })
  assert.is(plan.segments[0]!.phase, 'step')
  assert.is(tilesOf(plan.segments[0]!.grid), 4)
})

test('a step takes plans by hand, by the names of its layers, those of a net that is applied again included', () => {
  const shared = seq(conv2d('s', 4, 3), relu())
  const head = conv2d('h', 2, 3)
  const optimizer = sgd({ lr: 0.1 })
  const twice = apply(shared, apply(shared, fed('image', [2, 4, 16, 16])))
  const own: TrainingStep = step(
    minimize('a', { over: shared, optimizer, losses: { flat: loss(mse, twice, 0) } }),
    minimize('b', {
      over: head,
      optimizer,
      losses: { like: loss(mse, apply(head, detach(twice)), fed('mask', [2, 2, 16, 16])) },
    }),
  )
  const plan = (o: StageOptions): string => {
    const s = tryStage(own, { machine: MACHINE, ...o })
    if (isLeft(s)) return errorText(s.left)
    const { graph, segments } = s.right.plan
    const layers = (body: (typeof segments)[number]['body']) => [...new Set(body.map((b) => graph.ops[b.op]!.layer))].join(' ')
    return segments.flatMap((g) => (g.phase === 'forward' ? [`${layers(g.body)} x${g.grid.H}`] : [])).join(', ')
  }
  assert.match(plan({ tiles: [{ from: 's', to: 's#2', H: 4 }] }), /^s s#2 x4, a\.flat h b\.like x1$/)
  assert.match(plan({ checkpoints: ['s'] }), /^s x1, s#2 a\.flat h b\.like x1$/)
  assert.is(plan({ checkpoints: ['s#3'] }), "there is no layer 's#3'; allowed: 's', 's#2', 'h'")
  assert.match(plan({ tiles: [{ from: 's#2', to: 's', H: 2 }] }), "layer 's' is before layer 's#2'")
  assert.match(plan({ strategy: 'auto', checkpoints: ['s'] }), 'a strategy cannot be used with tiles or checkpoints')
  assert.match(plan({ resumes: 'run', checkpoints: ['s'] }), /^resumes and a plan by hand .*: use one of them$/)
  // @ts-expect-error a step has its own losses and optimizers
  const given = tryStage(own, { machine: MACHINE, loss: mse })
  assert.match(isLeft(given) ? errorText(given.left) : '', /^loss cannot be set for a step: it has its own losses/)
})

test('whatever the words let pass is a plan', () => {
  const r = randomFrom(7)
  const pick = <T>(xs: readonly T[]): T => xs[Math.floor(r() * xs.length)]!
  const seen = { planned: 0, refused: 0, other: 0 }
  for (let i = 0; i < (process.env['SPILLWAY_FULL'] ? 3000 : 300); i++) {
    const g = generate(i)
    const m = modelAt(
      [g.input[0], g.input[1], Math.min(g.input[2], 13), Math.min(g.input[3], 12)],
      runProgram(`${prelude}export const net = ${g.net}`)['net'],
    )
    if (isLeft(m)) continue
    const names = m.right.layers.flatMap((l) => (l.named ? [l.name] : []))
    if (names.length < 2) continue
    const [from, to] = [pick(names), pick(names)]
    const s = tryStage(m.right, {
      machine: MACHINE,
      tiles: [{ from, to, H: pick([1, 2, 3]), W: pick([1, 2]), B: pick([1, 1, 2]) }],
      checkpoints: [pick(names)],
    })
    if (isRight(s)) seen.planned++
    else if (s.left.tag === 'PlanByHandInvalid') seen.refused++
    else {
      // Errors that no layer alone can find: a network without parameters, tiles of padding only.
      assert.ok(
        s.left.tag !== 'VerifyFailed' && s.left.tag !== 'BudgetInfeasible',
        `${g.net}: ${JSON.stringify({ from, to })} ${renderError(s.left as never)}`,
      )
      seen.other++
    }
  }
  console.log(`${seen.planned} plans, ${seen.refused} refused in words, ${seen.other} otherwise`)
  assert.ok(seen.planned > 5 && seen.refused > 5)
})

test.run()
