// A machine: op times, workspaces, link bandwidths and capacities. Measured profiles are made by src/, named ones
// stand in sim/machines. Planners and the simulator ask a machine; they never know which it is.
import type { AnyAttrs, CallShapes } from '../ops/op'
import type { DType } from './graph'

export interface Link {
  readonly outBytesPerSecond: number
  readonly inBytesPerSecond: number
  readonly latencySeconds: number
  /** Whether both directions run at full speed at once. */
  readonly fullDuplex: boolean
}

export interface Machine {
  readonly name: string
  /** The device that runs plans made for it; 'none' for machines that only exist in simulation. */
  readonly device: 'cpu' | 'ref' | 'null' | 'cuda' | 'none'
  /** The float type of values: the reference device computes and stores doubles. */
  readonly dtype: Exclude<DType, 'i32'>
  readonly memoryBytes: number
  readonly link: Link
  readonly seconds: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
  readonly workspace: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
}
