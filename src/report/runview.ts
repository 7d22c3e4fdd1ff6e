// Data of the page of a run: its steps, measurements, plan and samples.
import type { Plan } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import type { Staging } from './facts'

/** A small picture, as a PNG file. */
export interface Picture {
  /** For those who do not see it. */
  readonly what: string
  readonly png: Buffer
  readonly width: number
  readonly height: number
}

/** A sample that the model does badly. */
export interface PoorSample {
  readonly name: string
  readonly loss: number
  /** In words, where a sample has one label or number. */
  readonly label?: string
  readonly answer?: string
  readonly pictures: readonly Picture[]
}

/** The results of an evaluation beside its metrics. */
export interface Details {
  /** Names of the classes, where the data have any. */
  readonly classes?: readonly string[]
  readonly perClass?: Readonly<Record<string, readonly number[]>>
  /** How often a label, by row, became a class, by column. */
  readonly confusion?: readonly (readonly number[])[]
  /** The worst first, and the name of its measure. */
  readonly worst: readonly PoorSample[]
  readonly worstBy: string
  readonly took: {
    readonly images: number
    readonly budgetBytes: number
    readonly peakBytes: number
    readonly arenaPeakBytes: number
    readonly secondsPerStep: number
    readonly predictedSecondsPerStep: number
  }
}

/** How good the model was after an epoch. */
export interface MeasuredEpoch {
  readonly epoch: number
  readonly step: number
  readonly metrics: Readonly<Record<string, number>>
}

/** Sums over the steps that are told. */
interface StepSums {
  readonly steps: number
  readonly stallMemorySeconds: number
  readonly stallDataSeconds: number
  /** The part of the latter that waits for the source of the data. */
  readonly feedSeconds: number
  readonly arenaPeakBytes: number
  readonly processPeakBytes: number
  readonly diskBytes: number
}

/** A run as it stands. */
export interface RunView {
  readonly plan: Plan
  readonly timeline: Timeline
  readonly staging: Staging
  /** As ISO 8601 has them. */
  readonly began: string
  readonly written: string
  /** How it ended, in a sentence, and whether as it should; undefined while it goes on. */
  readonly end?: { readonly words: string; readonly well: boolean; readonly weightsSha256?: string }
  /** Steps of the whole run. */
  readonly steps: number
  readonly stepsPerEpoch?: number
  /** Steps that an earlier process did: of those there are losses alone. */
  readonly resumedFrom: number
  /** The loss of each step, from the first; NaN if it is unknown. */
  readonly losses: readonly number[]
  readonly rates: readonly number[]
  readonly seconds: readonly number[]
  readonly epochs: readonly { readonly epoch: number; readonly step: number; readonly loss: number }[]
  readonly measured: readonly MeasuredEpoch[]
  /** True if it comes from evaluations; else it is the mean loss of epochs. */
  readonly evaluated: boolean
  readonly best: MeasuredEpoch | undefined
  readonly sums: StepSums | undefined
  /** The seconds of the plan's calls, in a quiet step. */
  readonly callSeconds: ArrayLike<number> | undefined
  readonly details: Details | undefined
  /** The options, the machine and the data, by name. */
  readonly recipe?: Readonly<Record<string, string>>
}
