// The networks that the CPU device is measured on. In: nothing. Out: cases by name, each a zoo model at one size.
import * as E from 'fp-ts/Either'
import { isRight } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate } from '../../dsl'
import { zooNames } from '../../src/zoo'
import { modelNamed } from '../../src/cli/model'
import { type StagedModel, stageNamed } from '../../src/cli/stage'
import { stepWith } from '../../src/stage/prepare'
import { trainingGraph } from '../../staging/compile'
import { devices } from '../../staging/devices'
import type { Graph } from '../../staging/graph/graph'
import type { StrategyName } from '../../staging/core/names'

export interface Case {
  readonly name: string
  readonly model: string
  readonly image: number
  readonly batch: number
  /** Default: in-core. */
  readonly strategy?: StrategyName
  readonly budgetBytes?: number
  /** The folder of the spill file; default: none, and no lower tier. */
  readonly spill?: string
  /** Default: fp32. */
  readonly precision?: 'bf16'
  /** Default: first. */
  readonly measure?: 'first' | 'while'
  /** Default: measured. */
  readonly algorithms?: 'fixed'
  /** In one request; the last is measured. */
  readonly stepsAtOnce?: number
  /** True if the machine's profile learns from its steps (default). */
  readonly teaches?: boolean
}
export const STEPS_AT_ONCE = 2

export const sized = (model: string, batch: number, image: number): Case => ({
  name: `${model} b${batch}@${image}`,
  model,
  image,
  batch,
})

/** Those whose model the zoo has. */
export const CASES: readonly Case[] = [
  sized('resnet50', 8, 224),
  sized('vgg16-features', 1, 512),
  sized('darknet19-features', 1, 512),
  sized('deeplabv3plus-resnet50', 2, 256),
  sized('densenet121', 8, 224),
].filter((c) => zooNames.includes(c.model))

/** Networks since 2017: depthwise and grouped convolutions, gates, layer norms, many branches. */
export const MODERN: readonly Case[] = [
  sized('mobilenetv2', 16, 224),
  sized('efficientnet-b0', 16, 224),
  sized('convnext-tiny', 8, 224),
  sized('regnet-y-1-6gf', 16, 224),
  sized('resnext50-32x4d', 4, 224),
  sized('hrnet-w18', 2, 224),
  sized('unetplusplus-resnet34', 1, 256),
  sized('seresnet50', 8, 224),
]

/** The plan of a case; in-core: everything kept, nothing tiled. */
export const stagedCase = (c: Case, threads: number): StagedModel => {
  const { image, batch, strategy = 'in-core', budgetBytes: budget, spill, precision, algorithms } = c
  const measure = c.measure ?? 'first'
  const staged = stageNamed(c.model, {
    measure,
    image: [image, image],
    batch,
    strategy,
    budget,
    spill,
    threads,
    precision,
    algorithms,
  })
  if (isRight(staged)) return staged.right
  throw new Error(`${c.name}: ${JSON.stringify(staged.left)}`)
}

/** The training graph as the network was written, for the peer: nothing of it fused. */
export const plainGraph = (c: Case): Graph => {
  const named = modelNamed(c.model, { height: c.image, width: c.image, batch: c.batch })
  const graph = pipe(
    named,
    E.chain(({ model, loss }) => stepWith(model, { loss })),
    E.chainW((step) => elaborate(step, c.model)),
    E.chainW((step) => trainingGraph(step, { device: { ...devices.cpu, fused: false }, precision: 'fp32' })),
  )
  if (isRight(graph)) return graph.right
  throw new Error(`${c.name}: ${JSON.stringify(graph.left)}`)
}
