// Options beside an optimizer: one run for any plan, budgets kept to the byte, plan files that carry them, runs that continue from their checkpoint;
// and for frozen parameters, a plan without their gradients, their state, and the ops for them alone.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, conv2d, crossEntropy, modelAt, mse, relu, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { openTensors, readTensor } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { validation } from '../../src/predict/validation'
import { loadPlan, savePlan } from '../../src/stage/planfile'
import { describePlan } from '../../src/stage/staged'
import { stage, tryStage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import { train } from '../../src/train/trainer'
import { zooEntry } from '../../src/zoo'
import { UPDATES } from '../../staging/ops/updates'
import { verify } from '../../staging/verify/verify'
import { uniform } from '../fixtures/formula'
import { fewOrAll } from '../full'
import { trunk } from './models'
import { done } from './networks'
import { DEVICE, halfway, sameBits, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-updates-'))
test.after(() => rmSync(root, { recursive: true }))

const CASES: Readonly<Record<string, StageOptions>> = {
  'a frozen stem': { freeze: ['stem.*', 'a1*'] },
  'a frozen middle': { optimizer: adam({ lr: 1e-3 }), freeze: 'a3*' },
  groups: {
    groups: [
      { match: '*.bias', weightDecay: 0 },
      { match: 'b*', lr: 1e-4, weightDecay: 0.1 },
    ],
  },
  'gradients within limits': { clipValue: 1e-4 },
  'gradients of a length': { clipNorm: 1e-3, optimizer: adam({ lr: 1e-3 }) },
  'gradients within limits and of a length, some frozen, in groups': {
    clipValue: 1e-3,
    clipNorm: 1e-3,
    freeze: 'a3*',
    groups: [{ match: 'b*', lr: 1e-2 }],
  },
  'an update of two steps': { accumulate: 2, optimizer: adam({ lr: 1e-3 }) },
  'an average of the weights': { average: 0.75 },
  'an update of three steps, clipped, averaged, in groups, some frozen': {
    accumulate: 3,
    average: 0.5,
    clipValue: 1e-3,
    clipNorm: 1e-3,
    freeze: 'a3*',
    groups: [{ match: 'b*', lr: 1e-2 }],
  },
  'groups of which one is frozen': { groups: [{ match: 'c*', lr: 1e-2 }, { match: 'head.*' }, { match: '*', frozen: true }] },
}

const FEW = ['an update of three steps, clipped, averaged, in groups, some frozen']
for (const name of fewOrAll(FEW, Object.keys(CASES))) {
  const o = CASES[name]!

  test(`${name}: one run, whatever the plan`, async () => {
    const plain = Object.fromEntries(Object.entries(o).filter(([k]) => !UPDATES.keys.some((key) => key === k)))
    const without = await trained(trunk, staged(trunk, { strategy: 'in-core', ...plain }))
    const { weightsSha256 } = await sameBits(o)
    // An average follows the weights, and changes nothing of them.
    assert.is(weightsSha256 === without.weightsSha256, Object.keys(o).join() === 'average')
  })

  test(`${name}: a run resumes from its checkpoint, and from a plan file`, async () => {
    const checkpointDir = join(root, name)
    const inCore = staged(trunk, { strategy: 'in-core', ...o })
    const swapping = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy', o), ...o })
    assert.ok(isRight(verify(swapping.plan)))
    const alone = await trained(trunk, inCore, { steps: 5 })
    await trained(trunk, swapping, { steps: 3, checkpointDir })
    const file = join(root, `${name}.json`)
    savePlan(file, swapping.plan)
    const read = describePlan(loadPlan(file), swapping.machine)
    assert.equal(read.plan.graph.trainedBy, swapping.plan.graph.trainedBy)
    const rest = await trained(trunk, read, { steps: 5, checkpointDir, resume: true })
    assert.equal([rest.resumedFrom, rest.losses, rest.weightsSha256], [3, alone.losses, alone.weightsSha256])
  })
}

test('a run is not that of other updates', async () => {
  const checkpointDir = join(root, 'others')
  await trained(trunk, staged(trunk, { freeze: 'stem.*' }), { steps: 1, checkpointDir })
  const other = await trained(trunk, staged(trunk, { freeze: 'a1.*' }), { steps: 2, checkpointDir, resume: true }).catch(
    (e: Error) => e,
  )
  assert.match((other as Error).message, 'another')
})

// ---------------------------------------------------------------- an average, and several steps for an update

const tensorsOf = (file: string): ReadonlyMap<string, Uint8Array> => {
  const opened = done(openTensors('weights', file))
  return new Map([...opened.tensors].map(([name, t]) => [name, done(readTensor(opened, t))]))
}

test('an average of the weights is saved beside them, by the same names', async () => {
  const save = join(root, 'w.safetensors')
  await trained(trunk, staged(trunk, { average: 0.5, freeze: 'a3*' }), { save })
  const [weights, average] = [tensorsOf(save), tensorsOf(join(root, 'w.average.safetensors'))]
  assert.equal([...average.keys()].sort(), [...weights.keys()].sort())
  const differs = (name: string): boolean => Buffer.compare(average.get(name)!, weights.get(name)!) !== 0
  assert.ok(differs('head.weight') && differs('head.bias'))
  for (const name of weights.keys())
    if (/running_|tracked$/.test(name) || name.startsWith('a3')) assert.not.ok(differs(name), name)
})

test('an evaluation can use averaged weights; the best step then follows from them', async () => {
  const N = 3
  const data = source({
    length: N,
    read: (i) => ({ input: uniform(`x${i}`, [3, 64, 64], 1), target: uniform(`t${i}`, [4, 64, 64], 1) }),
  })
  const net = done(modelAt([1, 3, 64, 64], seq(conv2d('a', 4, 3), relu(), conv2d('b', 4, 1))))
  const own = { machine: DEVICE, algorithms: 'fixed', loss: mse } as const
  const plan = stage(net, { ...own, average: 0.9, optimizer: sgd({ lr: 0.5 }) })
  const save = join(root, 'judged.safetensors')
  const run = (weights: 'latest' | 'average') =>
    train(net, plan, { epochs: 3, data, save, evaluate: validation({ data, weights, metrics: ['mae'] }) })
  const lossOf = async (file: string) =>
    (await evaluate(net, stage(net, { ...own, mode: 'evaluate' }), { weights: file, data })).loss
  const [latest, average] = [await run('latest'), await run('average')]
  assert.is(average.weightsSha256, latest.weightsSha256)
  assert.is(latest.measured.at(-1)!.metrics['loss'], await lossOf(save))
  assert.is(average.measured.at(-1)!.metrics['loss'], await lossOf(join(root, 'judged.average.safetensors')))
  assert.is.not(average.measured.at(-1)!.metrics['loss'], latest.measured.at(-1)!.metrics['loss'])
  const without = stage(net, own)
  const refusals: readonly (readonly [() => unknown, RegExp])[] = [
    [
      () => train(net, without, { epochs: 1, data, evaluate: validation({ data, weights: 'average' }) }),
      /needs averaged weights/,
    ],
    [() => validation({ data, weights: 'averge' as 'average' }), /weights 'averge' is not known; allowed: latest, average/],
  ]
  for (const [refused, words] of refusals)
    await Promise.resolve()
      .then(refused)
      .then(
        () => assert.unreachable(),
        (e: Error) => assert.match(e.message, words),
      )
})

test('steps too few for an update cause a note, and leave weights and average unchanged', async () => {
  const notes: string[] = []
  const [save, first] = [join(root, 'few.safetensors'), join(root, 'first.safetensors')]
  const plan = staged(trunk, { accumulate: 4, average: 0.5, optimizer: sgd({ lr: 1e-3 }) })
  await trained(trunk, plan, { steps: 3, save, onNote: (n) => notes.push(n) })
  assert.match(notes.join(), 'an update needs 4 steps, so the last 3 of 3 steps changed no weights: the weights are from step 0')
  await trained(trunk, staged(trunk, { optimizer: sgd({ lr: 0 }) }), { steps: 1, save: first })
  for (const [name, bytes] of tensorsOf(first))
    if (/weight$|bias$/.test(name))
      for (const file of [save, join(root, 'few.average.safetensors')]) assert.equal(tensorsOf(file).get(name), bytes, name)
})

test('four steps of a batch are one of four batches, where no norm sees them', async () => {
  const net = (batch: number) => modelAt([batch, 3, 16, 16], seq(conv2d('stem', 8, 3), relu(), conv2d('head', 4, 3)))
  const own = { machine: 'ref', algorithms: 'fixed', optimizer: sgd({ lr: 0.1, momentum: 0.9 }) } as const
  const small = done(net(1))
  const large = done(net(4))
  const [a, b] = [join(root, 'a.safetensors'), join(root, 'b.safetensors')]
  await train(small, stage(small, { ...own, accumulate: 4 }), { steps: 8, samples: 8, save: a })
  await train(large, stage(large, own), { steps: 2, samples: 8, save: b })
  const numbers = (bytes: Uint8Array): Float64Array => new Float64Array(bytes.slice().buffer)
  const [one, other] = [tensorsOf(a), tensorsOf(b)]
  for (const [name, bytes] of one) {
    const beside = numbers(other.get(name)!)
    numbers(bytes).forEach((x, i) => assert.ok(Math.abs(x - beside[i]!) <= 1e-12, `${name} ${x} ${beside[i]}`))
  }
})

// ---------------------------------------------------------------- frozen

test('the backward pass ends before layers without trained parameters', () => {
  const { graph } = staged(trunk, { freeze: ['stem.*', 'a*', 'b*', 'c*'], optimizer: sgd({ lr: 1e-3, momentum: 0.9 }) }).plan
  assert.equal(
    graph.ops.filter((op) => op.phase === 'backward').map((op) => `${op.kind} ${op.layer}`),
    ['mse_bwd loss', 'conv2d_bwd_weights head'],
  )
  assert.equal(
    graph.values.flatMap((v) => (v.role === 'state' && !v.name.includes('.running_') ? [v.name] : [])),
    ['head.weight.momentum', 'head.bias.momentum'],
  )
  assert.is(graph.ops.filter((op) => op.kind === 'sgd').length, 2)
  assert.is(graph.ops.filter((op) => op.kind === 'bn_running').length, 7, 'statistics of norms move as before')
})

test('layers before a frozen layer are trained through it', () => {
  const { graph } = staged(trunk, { freeze: 'head.*' }).plan
  const kinds = graph.ops.filter((op) => op.layer === 'head').map((op) => op.kind)
  assert.equal(kinds, ['conv2d', 'conv2d_bwd_data'])
})

/** On a simulated machine: nothing here depends on this one. */
test('ResNet-50 of which the classifier alone is trained takes a forward pass, and keeps next to nothing', () => {
  const build = zooEntry('resnet50')!.build([8, 3, 224, 224])
  assert.ok(isRight(build))
  const planned = (o: StageOptions) => {
    const plan = tryStage(build.right, {
      loss: crossEntropy,
      optimizer: sgd({ lr: 0.1, momentum: 0.9 }),
      machine: 'v100-pcie-16g',
      strategy: 'in-core',
      ...o,
    })
    if (isLeft(plan)) throw new Error(errorText(plan.left))
    return plan.right
  }
  const [whole, head] = [planned({}), planned({ groups: [{ match: 'fc.*' }, { match: '*', frozen: true }] })]
  assert.ok(
    head.timeline.makespanSeconds <= 0.45 * whole.timeline.makespanSeconds,
    `${head.timeline.makespanSeconds / whole.timeline.makespanSeconds}`,
  )
  const { graph } = head.plan
  const bytes = (of: (v: (typeof graph.values)[number]) => boolean): number =>
    graph.values.filter(of).reduce((n, v) => n + 4 * v.shape.reduce((m, d) => m * d, 1), 0)
  const states = graph.values.filter((v) => v.role === 'state' && !v.name.includes('.running_')).map((v) => v.name)
  assert.equal(states, ['fc.weight.momentum', 'fc.bias.momentum'])
  // By hand: weights 25 557 032, statistics 53 120, momenta 2 049 000; and three maps of 256 channels where the first block ends: its own,
  // and its shortcut before its norm and behind it.
  const kept = bytes((v) => v.role === 'param' || v.role === 'state')
  assert.is(kept, 4 * (25_557_032 + 53_120 + 2_049_000))
  const byHand = kept + 3 * 4 * 8 * 256 * 56 * 56
  assert.ok(head.staging.inCore.peakBytes <= 1.01 * byHand, `${head.staging.inCore.peakBytes} of ${byHand}`)
  assert.ok(head.staging.inCore.peakBytes < 0.3 * whole.staging.inCore.peakBytes)
})

test.run()
