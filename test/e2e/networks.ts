// Networks of the zoo on a device, from the start of the PyTorch fixtures: same weights and data by one formula (test/fixtures/formula.ts). In: a
// network's name, a device, a strategy. Out: a staged plan, and the result of its training.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Either, isLeft, right } from 'fp-ts/Either'
import { sgd } from '../../dsl'
import { zooEntry } from '../../src/zoo'
import { writeTensors } from '../../src/files/safetensors'
import { machineNamed } from '../../src/machine/machine'
import type { TrainResult } from '../../src/train/result'
import { prepare } from '../../src/stage/prepare'
import { stageGraph } from '../../src/stage/stage'
import type { Staged } from '../../src/stage/staged'
import type { TrainOptions } from '../../src/train/options'
import { trainTask } from '../../src/train/trainer'
import type { Graph } from '../../staging/graph/graph'
import { labels, startOf, uniform } from '../fixtures/formula'

export interface Fixture {
  readonly input: readonly [number, number, number, number]
  readonly lr: number
  readonly momentum: number
  readonly losses: readonly number[]
  readonly output: readonly number[]
  readonly gradientNorms: Readonly<Record<string, number>>
}

export const fixtures = JSON.parse(readFileSync(join(__dirname, '../fixtures/networks.json'), 'utf8')) as Readonly<
  Record<string, Fixture>
>
const bytesOf = (a: Float32Array | Int32Array): Uint8Array => new Uint8Array(a.buffer)

// ---------------------------------------------------------------- the same start

/** A norm's scale stands beside its running mean. */
const isScale = (graph: Graph, name: string): boolean =>
  name.endsWith('.weight') && graph.values.some((v) => v.name === name.replace(/weight$/, 'running_mean'))

const elements = (shape: readonly number[]): number => shape.reduce((n, d) => n * d, 1)

export const writeWeights = (folder: string, graph: Graph): string => {
  const params = graph.values.filter((v) => v.role === 'param')
  const statistics = graph.values.filter((v) => /\.running_(mean|var)$/.test(v.name) && v.role === 'state')
  const weights = join(folder, 'weights.safetensors')
  writeTensors(weights, [
    ...params.map((v) => ({
      name: v.name,
      type: 'F32' as const,
      shape: v.shape,
      read: () => right(bytesOf(startOf(v.name, v.shape, isScale(graph, v.name)))),
    })),
    ...statistics.map((v) => ({
      name: v.name,
      type: 'F32' as const,
      shape: v.shape,
      read: () => right(bytesOf(new Float32Array(v.shape[0]!).fill(v.name.endsWith('var') ? 1 : 0))),
    })),
  ])
  return weights
}

export const writeStart = (
  folder: string,
  f: Pick<Fixture, 'input' | 'output'>,
  graph: Graph,
): { readonly weights: string; readonly data: string } => {
  const target = graph.values.find((v) => v.role === 'target')!
  const classes = target.dtype === 'i32'
  const data = join(folder, 'data.safetensors')
  writeTensors(data, [
    { name: 'input', type: 'F32', shape: f.input, read: () => right(bytesOf(uniform('input', f.input, 1))) },
    {
      name: 'target',
      type: classes ? 'I32' : 'F32',
      shape: target.shape,
      read: () =>
        right(bytesOf(classes ? labels('target', elements(target.shape), f.output[1]!) : uniform('target', target.shape, 1))),
    },
  ])
  return { weights: writeWeights(folder, graph), data }
}

// ---------------------------------------------------------------- staging and running

export const done = <A>(result: Either<unknown, A>): A => {
  if (isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}

/** Dropout off: its random bits are our own, not PyTorch's. */
export const withoutDropout = (graph: Graph): Graph => ({
  ...graph,
  ops: graph.ops.map((o) => (o.kind.startsWith('dropout') ? { ...o, attrs: { ...o.attrs, p: 0 } } : o)),
})

export const stagedFor = (
  name: string,
  device: 'cpu' | 'ref',
  strategy: string,
  budget?: number,
): ReturnType<typeof stageGraph> => {
  const f = fixtures[name]!
  const entry = zooEntry(name)!
  const machine = done(machineNamed(device, { algorithms: 'fixed' }))
  const own = { name, loss: entry.loss, optimizer: sgd({ lr: f.lr, momentum: f.momentum }) }
  const { graph } = done(prepare(done(entry.build(f.input)), machine, own))
  return stageGraph(withoutDropout(graph), machine, { strategy, algorithms: 'fixed', ...(budget ? { budget } : {}) })
}

export const inFolder = async (run: (folder: string) => Promise<void>): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'pytorch-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export const trained = async (folder: string, plan: Staged, name: string, o: TrainOptions): Promise<TrainResult> =>
  done(await trainTask(undefined, plan, { ...writeStart(folder, fixtures[name]!, plan.plan.graph), ...o })())
