// A plan on a device. In: a plan and how to run it. Out: its parameters and states by name, and steps with what they
// measured. Invariant: the addon's failures come out as DeviceFailed, a cancelled run as Cancelled, nothing is thrown.
import { type Either, left, right } from 'fp-ts/Either'
import { toTape } from '../staging/plan/tape'
import type { DataFiles } from './data'
import type { SpillwayError } from './errors'
import type { StagedPlan } from './session'
import type { StateStore } from './weights'

export interface DeviceOptions {
  readonly spill: string
  readonly threads?: number
  /** Imitates a slower link, bytes a second. */
  readonly throttle?: number
}

export type DataSource = { readonly kind: 'synthetic'; readonly samples: number } | { readonly kind: 'files'; readonly files: DataFiles }

/** Where a run is: after each segment's tile, and at the end of each step. */
export type DeviceProgress =
  | { readonly kind: 'tile'; readonly step: number; readonly segment: number; readonly tile: number }
  | { readonly kind: 'step'; readonly step: number; readonly loss: number; readonly seconds: number }

export interface StepsToRun {
  readonly firstStep: number
  readonly steps: number
  readonly seed: number
  readonly data: DataSource
  readonly onProgress: (p: DeviceProgress) => void
}

/** What the steps of one run took. */
export interface RunMetrics {
  readonly losses: readonly number[]
  readonly seconds: readonly number[]
  readonly recomputeSeconds: number
  readonly stallSeconds: { readonly memory: number; readonly data: number }
  readonly bytesOut: number
  readonly bytesIn: number
  readonly diskBytes: number
  readonly arenaPeakBytes: number
}

export interface DeviceSession extends StateStore {
  /** Parameters and states drawn from the seed and their names: the same whatever the plan. */
  readonly initialise: (seed: number) => void
  readonly run: (s: StepsToRun) => Promise<Either<SpillwayError, RunMetrics>>
  /** Ends the run within a step. */
  readonly cancel: () => void
  readonly dispose: () => void
}
