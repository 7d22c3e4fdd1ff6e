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
  type Masked,
  masked,
  type Repeat,
  repeat,
  type Residual,
  residual,
  type Scaled,
  scaled,
  type Attended,
  type Contracted,
  type Reads,
  type Seq,
  seq,
  skip,
  type Value,
  type Values,
  value,
  values,
} from './compose'
export { type Classifier, type ClassesOptions, classifier, isClassifier } from './classes'
export { asStep, type Planned, type Resized, type StepOf, type Trainable } from './trainable'
export type { Summary } from './analyse'
export type { LayerFacts } from './layerfacts'
export * from './layers'
export type { WeightInit } from './layers/init'
export type { Mode } from './layers/rule'
export type { SidePadding, Sides } from './layers/sides'
export type { Padding } from './layers/window'
export { asTrainable } from './load'
export { type InputOverride, type LayerNames, layerOf, type Model, model, modelAt, type SummaryOf } from './model'
export { type Dim, type Extent, type Identity, identity, type Layer, type Net, type Shape } from './net'
export { type Family, type Network, network, type StepNetwork, stepNetwork } from './network'
export {
  add,
  type Applied,
  apply,
  type Combined,
  detach,
  type DetachedTensor,
  type Fed,
  fed,
  fedOf,
  joined,
  type LossTerm,
  loss,
  type Made,
  type Minimize,
  type Minimized,
  minimize,
  multiply,
  type StepObjective,
  step,
  type Tensor,
  type TrainingStep,
} from './step'
export { elaborate, type Elaborated } from './elaborate'
export type { Form, PlanMode } from './prediction'
export type { ParameterGroup, TrainedBy, Updates } from '../staging/ops/updates'
export * from './training'
export { lossOf, type LossPart, type LossSum, type LossValue, type OwnLoss, sumOf } from './losses'
export { type LeastBytes, type NumbersKept, stepBytes, type StepBytes } from './plan/bytes'
export type { CheckedOptions } from './plan/checked'
export { type CheckedHead, type Device, device, type DeviceFault, type PlanHead, type PlannedSegment } from './plan/head'
export type { StepFrom } from './plan/described'
export type { NamesIn } from './plan/order'
export type { PatternIn } from './plan/patterns'
export type { Stale } from './plan/stalestep'
export type { PlanByHand, TileRange } from './plan/prescription'
export { type FtSegment, type LayerRange, rangeOf, type RangeOf, segmentsOf, type SegmentsOf } from './plan/ranges'
