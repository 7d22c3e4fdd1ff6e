// The common part of layers with weights, and initial values. In: a layer's choice, the shape of its weight. Out: its parameters, with the
// distributions that the graph records. 'fan-in-uniform' is PyTorch's default of convolutions and linear layers; 'fan-out-normal' is He's for ReLU
// networks, which torchvision's ResNet and VGG use, 'fan-in-normal' its twin in the other direction; a number is the standard deviation of a normal
// distribution.
import * as t from 'io-ts'
import { elementsOf } from '../../staging/core/box'
import type { Init } from '../../staging/graph/graph'
import type { AddLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import type { ParamSpec } from './rule'

/**
 * Distribution of the initial weights. A number is the standard deviation of a normal distribution.
 * 'fan-in-uniform' is PyTorch's default; 'fan-out-normal' is He's initialisation for ReLU networks.
 *
 * @example
 * const init: WeightInit = 'fan-out-normal'
 * conv2d('conv1', 64, 3, { init })
 */
export type WeightInit = 'fan-in-uniform' | 'fan-in-normal' | 'fan-out-normal' | number
export const initCodec: t.Type<WeightInit> = t.union([
  t.literal('fan-in-uniform'),
  t.literal('fan-in-normal'),
  t.literal('fan-out-normal'),
  t.number,
])

/** A layer with weights: a number of outputs, a bias for each of them or none. */
export interface Weighted<Out extends number = number, Bias extends boolean = boolean> {
  readonly out: Out
  readonly bias: Bias
  /** How the weights begin. @example conv2d('conv1', 64, 3, { init: 'fan-out-normal' }) */
  readonly init: WeightInit
  /** Prefix of the parameters' names, if it is not the layer's name. @example conv2d('conv1', 64, 3, { param: 'stem' }) */
  readonly param?: string
}
/**
 * Options of every layer that has weights: `linear`, `pixelLinear`, `conv2d` and `convTranspose2d`.
 *
 * @example const options: WeightOptions = { bias: false, init: 'fan-out-normal' }
 */
export interface WeightOptions<Bias extends boolean = boolean> {
  /**
   * Distribution of the initial weights. Default 'fan-in-uniform', as in PyTorch.
   *
   * @example conv2d('conv1', 64, 3, { init: 'fan-out-normal' })
   */
  readonly init?: WeightInit | undefined
  /**
   * Prefix of the parameter names, before a dot. A prefix that ends with '_' has no dot behind it. Default: the name of
   * the layer.
   *
   * @example linear('attn.in_proj', 192, { param: 'attn.in_proj_' })
   */
  readonly param?: string | undefined
  /**
   * If true, the layer adds a trained bias to each output channel. Default true.
   *
   * @example conv2d('conv1', 64, 3, { bias: false })
   */
  readonly bias?: Bias | undefined
}
export const weighted = <O extends number, B extends boolean>(out: O, { bias, init, param }: WeightOptions<B>) => ({
  out,
  bias: bias ?? (true as B),
  init: init ?? ('fan-in-uniform' as const),
  ...(param === undefined ? {} : { param }),
})
export const weightFields = { out: t.number, bias: t.boolean, init: initCodec }

/** How many numbers weights are together with a bias for each output channel, where there is one. */
export type WithBias<Weights, Out extends number, Bias> = Bias extends true ? AddLimbs<Weights, Low<Out>> : Weights

const weightInit = (init: WeightInit, fanIn: number, fanOut: number): Init => {
  if (typeof init === 'number') return { dist: 'normal', a: init }
  if (init === 'fan-in-uniform') return { dist: 'uniform', a: 1 / Math.sqrt(fanIn) }
  return { dist: 'normal', a: Math.sqrt(2 / (init === 'fan-in-normal' ? fanIn : fanOut)) }
}

/** PyTorch's bias is uniform by default; torchvision starts it at zero where it chooses the weights' distribution. */
const biasInit = (init: WeightInit, fanIn: number): Init =>
  init === 'fan-in-uniform' ? { dist: 'uniform', a: 1 / Math.sqrt(fanIn) } : { dist: 'constant', a: 0 }

/** The weight and the bias. Fans are counted as PyTorch counts them: of any weight as if it were a convolution's. */
export const weightAndBias = (l: Weighted, shape: readonly number[]): readonly ParamSpec[] => {
  const [rows, columns, area] = [shape[0]!, shape[1]!, elementsOf(shape.slice(2))]
  return [
    { name: 'weight', shape, init: weightInit(l.init, columns * area, rows * area) },
    ...(l.bias ? [{ name: 'bias', shape: [l.out], init: biasInit(l.init, columns * area) }] : []),
  ]
}
