// serial
// Five training steps of every network against PyTorch: same weights and data by one formula, losses and first gradients
// from the committed fixture (test/fixtures/make_networks.py). The gradients are read out of the checkpoint after step 1,
// where each momentum is its gradient; the steps after it are resumed from there.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sgd } from '../../dsl'
import { zooEntry } from '../../models'
import { openTensors, readTensor, writeTensors } from '../../src/safetensors'
import { stage, type StagedPlan, tryStage } from '../../src/session'
import { train } from '../../src/trainer'
import type { Graph } from '../../staging/graph/graph'
import { labels, startOf, uniform } from '../fixtures/formula'

interface Fixture {
  readonly input: readonly [number, number, number, number]
  readonly lr: number
  readonly momentum: number
  readonly losses: readonly number[]
  readonly output: readonly number[]
  readonly gradientNorms: Readonly<Record<string, number>>
}

const fixtures = JSON.parse(readFileSync(join(__dirname, '../fixtures/networks.json'), 'utf8')) as Readonly<Record<string, Fixture>>
const bytesOf = (a: Float32Array | Int32Array): Uint8Array => new Uint8Array(a.buffer)

// ---------------------------------------------------------------- the same start

/** A norm has a running mean beside its scale. */
const isScale = (graph: Graph, name: string): boolean =>
  graph.values.some((v) => v.name === name.replace(/weight$/, 'running_mean'))

const writeStart = (folder: string, f: Fixture, graph: Graph): { readonly weights: string; readonly data: string } => {
  const params = graph.values.filter((v) => v.role === 'param')
  const statistics = graph.values.filter((v) => /\.running_(mean|var)$/.test(v.name) && v.role === 'state')
  const weights = join(folder, 'weights.safetensors')
  writeTensors(weights, [
    ...params.map((v) => ({ name: v.name, type: 'F32' as const, shape: v.shape, read: () => bytesOf(startOf(v.name, v.shape, isScale(graph, v.name))) })),
    ...statistics.map((v) => ({
      name: v.name, type: 'F32' as const, shape: v.shape, read: () => bytesOf(new Float32Array(v.shape[0]!).fill(v.name.endsWith('var') ? 1 : 0)),
    })),
  ])
  const target = graph.values.find((v) => v.role === 'target')!
  const classes = target.dtype === 'i32'
  const data = join(folder, 'data.safetensors')
  writeTensors(data, [
    { name: 'input', type: 'F32', shape: f.input, read: () => bytesOf(uniform('input', f.input, 1)) },
    {
      name: 'target', type: classes ? 'I32' : 'F32', shape: target.shape,
      read: () => bytesOf(classes ? labels('target', f.output[0]!, f.output[1]!) : uniform('target', target.shape, 1)),
    },
  ])
  return { weights, data }
}

// ---------------------------------------------------------------- the comparison

const closeLosses = (got: readonly number[], f: Fixture, what: string): void => {
  assert.is(got.length, f.losses.length)
  got.forEach((loss, i) => {
    const apart = Math.abs(loss - f.losses[i]!) / Math.abs(f.losses[i]!)
    assert.ok(apart <= 1e-4, `${what}, step ${i + 1}: loss ${loss}, PyTorch ${f.losses[i]}, ${apart.toExponential(1)} apart`)
  })
}

const norm = (bytes: Uint8Array): number =>
  Math.sqrt(new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4).reduce((n, x) => n + x * x, 0))

/** A gradient that is nothing but rounding (a bias in front of a norm) is measured against the largest one. */
const closeGradients = (file: string, f: Fixture): void => {
  const tensors = openTensors(file)
  if (isLeft(tensors)) throw new Error(tensors.left)
  const most = Math.max(...Object.values(f.gradientNorms))
  for (const [name, expected] of Object.entries(f.gradientNorms)) {
    const stored = tensors.right.tensors.get(`${name}.momentum`)
    const bytes = stored && readTensor(tensors.right, stored)
    assert.ok(bytes && !isLeft(bytes), `no momentum of ${name}`)
    const got = norm((bytes as { right: Uint8Array }).right.slice())
    assert.ok(Math.abs(got - expected) <= 1e-3 * expected + 1e-6 * most, `gradient of ${name}: norm ${got}, PyTorch ${expected}`)
  }
}

const staged = (name: string, strategy: string, budget?: number): StagedPlan => {
  const f = fixtures[name]!
  const entry = zooEntry(name)!
  const model = entry.build(f.input)
  if (isLeft(model)) throw new Error(JSON.stringify(model.left))
  return stage(model.right, {
    name, strategy, algorithms: 'fixed', loss: entry.loss, optimizer: sgd({ lr: f.lr, momentum: f.momentum }), ...(budget ? { budget } : {}),
  })
}

const inFolder = async (run: (folder: string) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'pytorch-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const compare = (plan: StagedPlan, name: string, withGradients: boolean): Promise<void> => inFolder(async (folder) => {
  const f = fixtures[name]!
  const start = writeStart(folder, f, plan.plan.graph)
  const model = zooEntry(name)!.build(f.input)
  if (isLeft(model)) throw new Error(JSON.stringify(model.left))
  const checkpoints = withGradients ? { checkpointDir: join(folder, 'checkpoints') } : {}
  if (withGradients) {
    await train(model.right, plan, { ...start, ...checkpoints, steps: 1 })
    closeGradients(join(folder, 'checkpoints', 'step-000000001.safetensors'), f)
  }
  const { losses } = await train(model.right, plan, { ...start, ...checkpoints, steps: f.losses.length, resume: withGradients })
  closeLosses(losses, f, `${name} ${plan.plan.strategy}`)
})

for (const name of Object.keys(fixtures))
  // VGG-16's classifier makes a checkpoint of a gigabyte: there the losses speak for the gradients.
  test(`${name}: losses and gradients are PyTorch's`, () => compare(staged(name, 'in-core'), name, name !== 'vgg16'))

/** Halfway between what the strategy needs at least and what it takes to keep everything. */
const halfway = (name: string, strategy: string): number => {
  const f = fixtures[name]!
  const entry = zooEntry(name)!
  const model = entry.build(f.input)
  if (isLeft(model)) throw new Error(JSON.stringify(model.left))
  const options = { name, strategy, algorithms: 'fixed', loss: entry.loss, optimizer: sgd({ lr: f.lr, momentum: f.momentum }) } as const
  const refused = tryStage(model.right, { ...options, budget: 2 * 1024 * 1024 })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${name} fits one page`)
  return (refused.left.smallestBytes + staged(name, 'in-core').staging.inCore.peakBytes) / 2
}

for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'tiled'])
  for (const name of ['darknet19-features', 'resnet18'])
    test(`${name}, ${strategy}: losses and gradients are PyTorch's in half the memory`, () =>
      compare(staged(name, strategy, Math.floor(halfway(name, strategy))), name, true))

test.run()
