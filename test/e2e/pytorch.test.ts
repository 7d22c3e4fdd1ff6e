// serial
// Every network against PyTorch, from the same weights and data (one formula; test/fixtures/make_networks.py).
// On `ref`, in double precision, the first step's loss and gradients; the gradients are read out of the checkpoint after
// step 1, where each momentum is its gradient. On `cpu`, in single precision, the losses of five steps: gradients are no
// measure there, for a ReLU's input within rounding of zero moves some by a thousandth.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sgd } from '../../dsl'
import { zooEntry } from '../../models'
import { openTensors, readTensor, writeTensors } from '../../src/safetensors'
import { machineNamed } from '../../src/machine'
import type { TrainResult } from '../../src/result'
import { stageGraph, type StagedPlan, trainingGraph } from '../../src/session'
import { type TrainOptions, trainTask } from '../../src/trainer'
import { PAGE_BYTES } from '../../staging/core/bytes'
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

/** A norm's scale stands beside its running mean. */
const isScale = (graph: Graph, name: string): boolean =>
  name.endsWith('.weight') && graph.values.some((v) => v.name === name.replace(/weight$/, 'running_mean'))

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

// ---------------------------------------------------------------- staging and running

const done = <A>(result: Either<unknown, A>): A => {
  if (isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}

/** Dropout off: its random bits are our own, not PyTorch's. */
const withoutDropout = (graph: Graph): Graph =>
  ({ ...graph, ops: graph.ops.map((o) => (o.kind.startsWith('dropout') ? { ...o, attrs: { ...o.attrs, p: 0 } } : o)) })

const stagedFor = (name: string, device: 'cpu' | 'ref', strategy: string, budget?: number): ReturnType<typeof stageGraph> => {
  const f = fixtures[name]!
  const entry = zooEntry(name)!
  const machine = done(machineNamed(device, { fixed: true }))
  const graph = done(trainingGraph(done(entry.build(f.input)), name, entry.loss, sgd({ lr: f.lr, momentum: f.momentum }), machine))
  return stageGraph(withoutDropout(graph), machine, { strategy, algorithms: 'fixed', ...(budget ? { budget } : {}) })
}

const inFolder = async (run: (folder: string) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'pytorch-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const trained = async (folder: string, plan: StagedPlan, name: string, o: TrainOptions): Promise<TrainResult> =>
  done(await trainTask(undefined, plan, { ...writeStart(folder, fixtures[name]!, plan.plan.graph), ...o })())

// ---------------------------------------------------------------- in double precision

const norm = (bytes: Uint8Array): number =>
  Math.sqrt(new Float64Array(bytes.slice().buffer).reduce((n, x) => n + x * x, 0))

/** A gradient that is nothing but rounding (a bias in front of a norm) is measured against the largest one. */
const closeGradients = (file: string, f: Fixture): void => {
  const tensors = done(openTensors(file))
  const most = Math.max(...Object.values(f.gradientNorms))
  for (const [name, expected] of Object.entries(f.gradientNorms)) {
    const got = norm(done(readTensor(tensors, tensors.tensors.get(`${name}.momentum`)!)))
    assert.ok(Math.abs(got - expected) <= 1e-7 * expected + 1e-10 * most, `gradient of ${name}: norm ${got}, PyTorch ${expected}`)
  }
}

const firstStep = (name: string): Promise<void> => inFolder(async (folder) => {
  const f = fixtures[name]!
  const checkpointDir = join(folder, 'checkpoints')
  const { losses } = await trained(folder, done(stagedFor(name, 'ref', 'in-core')), name, { steps: 1, checkpointDir })
  assert.ok(Math.abs(losses[0]! - f.losses[0]!) <= 1e-9 * f.losses[0]!, `loss ${losses[0]}, PyTorch ${f.losses[0]}`)
  closeGradients(join(checkpointDir, 'step-000000001.safetensors'), f)
})

for (const name of Object.keys(fixtures).filter((n) => n !== 'vgg16'))
  test(`${name}: the first loss and all gradients are PyTorch's in double precision`, () => firstStep(name))

// ---------------------------------------------------------------- in single precision

const fiveSteps = (plan: StagedPlan, name: string): Promise<void> => inFolder(async (folder) => {
  const expected = fixtures[name]!.losses
  const { losses } = await trained(folder, plan, name, { steps: expected.length })
  assert.is(losses.length, expected.length)
  losses.forEach((loss, i) => {
    const apart = Math.abs(loss - expected[i]!) / Math.abs(expected[i]!)
    assert.ok(apart <= 1e-4, `step ${i + 1}: loss ${loss}, PyTorch ${expected[i]}, ${apart.toExponential(1)} apart`)
  })
})

for (const name of Object.keys(fixtures))
  test(`${name}: the losses of five steps are PyTorch's`, () => fiveSteps(done(stagedFor(name, 'cpu', 'in-core')), name))

/** Halfway between what the strategy needs at least and what it takes to keep everything. */
const halfway = (name: string, strategy: string): number => {
  const refused = stagedFor(name, 'cpu', strategy, PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${name} fits one page`)
  return Math.floor((refused.left.smallestBytes + done(stagedFor(name, 'cpu', 'in-core')).staging.inCore.peakBytes) / 2)
}

for (const strategy of ['checkpoint:sqrt', 'swap:greedy', 'tiled'])
  for (const name of ['darknet19-features', 'resnet18'])
    test(`${name}, ${strategy} in half the memory: the losses of five steps are PyTorch's`, () =>
      fiveSteps(done(stagedFor(name, 'cpu', strategy, halfway(name, strategy))), name))

test.run()
