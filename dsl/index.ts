// The typed DSL: everything that a model file imports.
export {
  type AtInputSize,
  atInputSize,
  type Block,
  type Blocks,
  block,
  blocks,
  type Concat,
  concat,
  type Counted,
  counted,
  type Repeat,
  repeat,
  type Residual,
  residual,
  type Seq,
  seq,
  skip,
} from './compose'
export { elaborate, type Elaborated } from './elaborate'
export type { LayerFacts } from './facts'
export { type BatchNorm, batchNorm } from './layers/batchnorm'
export { type Conv2d, conv2d } from './layers/conv2d'
export { type ConvTranspose2d, convTranspose2d } from './layers/convtranspose2d'
export { type Dropout, dropout } from './layers/dropout'
export { type Flatten, flatten } from './layers/flatten'
export { type AdaptiveAvgPool, adaptiveAvgPool, type GlobalAvgPool, globalAvgPool } from './layers/globalpool'
export { type GroupNorm, groupNorm, type InstanceNorm, instanceNorm } from './layers/groupnorm'
export type { WeightInit } from './layers/init'
export { type Linear, linear } from './layers/linear'
export { type AvgPool, avgPool, type MaxPool, maxPool } from './layers/pool'
export { type LeakyRelu, leakyRelu, type Relu, relu } from './layers/relu'
export { type LocalResponseNorm, localResponseNorm } from './layers/lrn'
export { type ReflectionPad2d, reflectionPad2d } from './layers/reflectionpad'
export type { SidePadding, Sides } from './layers/sides'
export { type Sigmoid, sigmoid } from './layers/sigmoid'
export { type Softmax, softmax } from './layers/softmax'
export { type Tanh, tanh } from './layers/tanh'
export { type Upsample, upsample } from './layers/upsample'
export type { Padding } from './layers/window'
export { asModel, asTrainable, type Trainable } from './load'
export { type InputOverride, type LayerNames, layerOf, type Model, model, modelAt, type Summary, type SummaryOf } from './model'
export { type Dim, type Extent, type Identity, identity, type Layer, type Net, type Shape } from './net'
export { type Family, type Network, network, type StepNetwork, stepNetwork } from './network'
export {
  apply,
  detach,
  type Fed,
  fed,
  fedOf,
  joined,
  type LossTerm,
  loss,
  minimize,
  type StepObjective,
  step,
  type Tensor,
  type TrainingStep,
} from './step'
export { elaborateStep, type ElaboratedStep } from './stepgraph'
export { adam, adamw, bceWithLogits, crossEntropy, l1, type Loss, mse, type Optimizer, sgd, type SgdWith } from './training'
export { type LeastBytes, type NumbersKept, stepBytes, type StepBytes } from './plan/bytes'
export type { CheckedOptions } from './plan/checked'
export { type CheckedHead, type Device, device, type DeviceFault, type PlanHead, type PlannedSegment } from './plan/head'
export type { Stale } from './plan/stale'
export type { PlanByHand, TileRange } from './plan/prescription'
export { type FtSegment, type LayerRange, rangeOf, type RangeOf, segmentsOf, type SegmentsOf } from './plan/ranges'
