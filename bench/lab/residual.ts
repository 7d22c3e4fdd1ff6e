// Residual networks as paper 4 trains them: basic blocks of two 3×3 convolutions on small images, of any depth and width, with norms or without. In:
// blocks per stage, channels of the first stage. Out: training graphs. Worked example: 5 blocks per stage give the 32 layers of ResNet-32.
import * as E from 'fp-ts/Either'
import { isLeft } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import {
  batchNorm,
  block,
  blocks,
  conv2d,
  crossEntropy,
  globalAvgPool,
  identity,
  linear,
  modelAt,
  relu,
  repeat,
  residual,
  seq,
} from '../../dsl'
import type { LocalMachine } from '../../src/machine/localmachine'
import { prepare } from '../../src/stage/prepare'
import type { Graph } from '../../staging/graph/graph'

const conv = <N extends string>(name: N, out: number, kernel: 1 | 3, stride: number) =>
  conv2d(name, out, kernel, { stride, init: 'fan-in-normal' })

const withNorms = (channels: number) => {
  const body = (stride: number) =>
    seq(conv('conv1', channels, 3, stride), batchNorm('bn1'), relu(), conv('conv2', channels, 3, 1), batchNorm('bn2'))
  const same = seq(residual(body(1), identity), relu())
  const first = seq(residual(body(2), block('shortcut', conv('0', channels, 1, 2), batchNorm('1'))), relu())
  return { same, first }
}

const withoutNorms = (channels: number) => {
  const body = (stride: number) => seq(conv('conv1', channels, 3, stride), relu(), conv('conv2', channels, 3, 1))
  const same = seq(residual(body(1), identity), relu())
  const first = seq(residual(body(2), block('shortcut', conv('0', channels, 1, 2))), relu())
  return { same, first }
}

const bodyOf = (perStage: number, channels: number, norms: boolean) => {
  const of = norms ? withNorms : withoutNorms
  const [a, b, c] = [of(channels), of(2 * channels), of(4 * channels)]
  const stem = norms ? seq(conv('conv1', channels, 3, 1), batchNorm('bn1'), relu()) : seq(conv('conv1', channels, 3, 1), relu())
  return seq(
    stem,
    blocks('layer1', repeat(perStage, a.same)),
    blocks('layer2', b.first, repeat(perStage - 1, b.same)),
    blocks('layer3', c.first, repeat(perStage - 1, c.same)),
    globalAvgPool('avgpool'),
    linear('linear', 10),
  )
}

export interface ResidualOptions {
  readonly perStage: number
  readonly channels: number
  readonly norms: boolean
  readonly batch: number
  readonly size: number
}

export const residualGraph = (o: ResidualOptions, on: LocalMachine): Graph | null => {
  const prepared = pipe(
    modelAt([o.batch, 3, o.size, o.size], bodyOf(o.perStage, o.channels, o.norms)),
    E.chainW((model) => prepare(model, on, { name: `resnet${6 * o.perStage + 2}`, loss: crossEntropy })),
  )
  return isLeft(prepared) ? null : prepared.right.graph
}
