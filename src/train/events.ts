// What a run tells while it goes on, as data. In: nothing. Out: the events of `fit`, and who hears of them. Invariant: `start` comes first,
// then steps in order; an epoch follows its last step, and `end` comes last, where nothing ended the run before.
import type { StepDone } from './device'
import type { TrainResult } from './result'

/** A run begins, or goes on. */
export interface Started {
  readonly kind: 'start'
  /** Those of an earlier process. */
  readonly stepsDone: number
  /** Of the whole run. */
  readonly steps: number
  /** Where the number of samples is known: they over the batch, which need not be whole. */
  readonly stepsPerEpoch?: number
}

/** An epoch has ended. */
export interface EpochDone {
  readonly kind: 'epoch'
  /** Counted from 1. */
  readonly epoch: number
  /** Its last step. */
  readonly step: number
  /** The mean over its steps: of one that two epochs share, the epoch that it ends. */
  readonly loss: number
}

/** The model was evaluated after an epoch. */
export interface EvaluationDone {
  readonly kind: 'evaluation'
  readonly epoch: number
  /** The epoch's last step. */
  readonly step: number
  /** By name, `loss` among them. */
  readonly metrics: Readonly<Record<string, number>>
  /** Whether it is the best so far, by the metric that counts. */
  readonly isBest: boolean
  /** The most that the evaluation held of the device. */
  readonly arenaPeakBytes: number
}

/** A checkpoint was written, whole. */
export interface CheckpointDone {
  readonly kind: 'checkpoint'
  readonly step: number
  /** Where the tensors are. */
  readonly file: string
}

/** All steps are done, or nothing has become better for as long as the run was to wait. */
export interface Ended {
  readonly kind: 'end'
  readonly result: TrainResult
}

/** What `fit` gives, told apart by its kind. @example for await (const e of fit(net, plan, { epochs: 3 })) if (e.kind === 'epoch') console.log(e.loss) */
export type FitEvent = Started | StepDone | EpochDone | EvaluationDone | CheckpointDone | Ended

/** Who hears of a run. */
export interface Listener {
  readonly emit: (event: FitEvent) => void
  /** Waits until all is taken that was told. */
  readonly taken: () => Promise<void>
  /** The most steps between two such waits. */
  readonly ahead: number
}

/** Hears of each event as it comes; the run waits for nobody. */
export const hearing = (emit: (event: FitEvent) => void): Listener => ({
  emit,
  taken: () => Promise.resolve(),
  ahead: Number.POSITIVE_INFINITY,
})
