// The reports of a run, as data. In: nothing. Out: the events of `fit`, and their listeners. Invariant: `start` comes first, then steps in order; an
// epoch follows its last step, and `end` comes last, unless the run ended before.
import type { StepDone } from './device'
import type { TrainResult } from './result'

/** The first event: a run starts or resumes. */
export interface Started {
  readonly kind: 'start'
  /** Steps of earlier processes. */
  readonly stepsDone: number
  /** Steps of the whole run. */
  readonly steps: number
  /** Number of samples over the batch size; absent if the number of samples is unknown. */
  readonly stepsPerEpoch?: number
  /** Folder of the run; absent if the run has none. */
  readonly runFolder?: string
}

/** An epoch has ended. */
export interface EpochDone {
  readonly kind: 'epoch'
  /** Number of the epoch, counted from 1. */
  readonly epoch: number
  /** Last step of the epoch. */
  readonly step: number
  /** Mean loss of the steps of the epoch. */
  readonly loss: number
}

/** An evaluation after an epoch, or at the end of a shorter run. */
export interface EvaluationDone {
  readonly kind: 'evaluation'
  /** Number of complete epochs. */
  readonly epoch: number
  /** The step before the evaluation. */
  readonly step: number
  /** Metrics by name, `loss` included. */
  readonly metrics: Readonly<Record<string, number>>
  /** True if this is the best evaluation so far. */
  readonly isBest: boolean
  /** Peak of device memory during the evaluation, in bytes. */
  readonly arenaPeakBytes: number
}

/** A checkpoint was written completely. */
export interface CheckpointDone {
  readonly kind: 'checkpoint'
  readonly step: number
  /** File of the tensors. */
  readonly file: string
}

/** The last event: the run is complete, or it stopped early because nothing improved. */
export interface Ended {
  readonly kind: 'end'
  readonly result: TrainResult
}

/**
 * An event of a run. Its `kind` says which one it is.
 *
 * @example for await (const e of fit(net, plan, { epochs: 3 })) if (e.kind === 'epoch') console.log(e.loss)
 */
export type FitEvent = Started | StepDone | EpochDone | EvaluationDone | CheckpointDone | Ended

/** A listener of a run. */
export interface Listener {
  readonly emit: (event: FitEvent) => void
  /** Waits until all is taken that was told. */
  readonly taken: () => Promise<void>
  /** The most steps between two such waits. */
  readonly ahead: number
}

/** Hears of each event as it comes; the run waits for nobody. */
export const listen = (emit: (event: FitEvent) => void): Listener => ({
  emit,
  taken: () => Promise.resolve(),
  ahead: Number.POSITIVE_INFINITY,
})
