// How weights start. In: a layer's choice and its fan-in and fan-out. Out: the distribution that the graph records.
// 'fan-in-uniform' is PyTorch's default of convolutions and linear layers; 'fan-out-normal' is He's for ReLU networks,
// which torchvision's ResNet and VGG use, 'fan-in-normal' its twin in the other direction; a number is the standard deviation of a normal distribution.
import * as t from 'io-ts'
import type { Init } from '../../staging/graph/graph'
import type { AddLow, Low } from '../numbers/naturals'

export type WeightInit = 'fan-in-uniform' | 'fan-in-normal' | 'fan-out-normal' | number
export const initCodec: t.Type<WeightInit> = t.union([
  t.literal('fan-in-uniform'),
  t.literal('fan-in-normal'),
  t.literal('fan-out-normal'),
  t.number,
])

export const weightInit = (init: WeightInit, fanIn: number, fanOut: number): Init => {
  if (typeof init === 'number') return { dist: 'normal', a: init }
  if (init === 'fan-in-uniform') return { dist: 'uniform', a: 1 / Math.sqrt(fanIn) }
  return { dist: 'normal', a: Math.sqrt(2 / (init === 'fan-in-normal' ? fanIn : fanOut)) }
}

/** How many numbers weights are together with a bias for each output channel, where there is one. */
export type WithBias<Weights extends string, Out extends number, Bias> = Bias extends true ? AddLow<Weights, Low<Out>> : Weights

/** PyTorch's bias is uniform by default; torchvision starts it at zero where it chooses the weights' distribution. */
export const biasInit = (init: WeightInit, fanIn: number): Init =>
  init === 'fan-in-uniform' ? { dist: 'uniform', a: 1 / Math.sqrt(fanIn) } : { dist: 'constant', a: 0 }
