// The data of a run between its steps. In: the start of the run. Out: its state so far, and questions about it.
import type { NativeTimeline } from '../device/native'
import type { SpillwayError } from '../errors/errors'
import type { PeakMemory } from '../machine/memory'
import type { Listener } from './events'
import { nextMeasured } from './measured'
import type { Measurement } from './measurement'
import type { Held } from './opened'
import { type Reduction, reductionsOf } from './plateau'
import type { RunPage } from './runreport'
import type { Start } from './start'
import type { StepLog } from './steplog'
import { NO_STEPS, type Totals } from './totals'
import type { LossWatch } from './watch'
import type { ModelState } from './weights'

/** The state of a run so far. */
export interface RunStatus {
  /** The first step whose loss is not finite. */
  nonfiniteStep?: number
  /** The reason, if the log cannot be written. */
  logError?: SpillwayError
  /** Seconds of the last step. */
  seconds?: number
  /** Its instructions, if `trace` is given. */
  timeline?: NativeTimeline
  /** The step of the newest checkpoint. */
  saved?: number
  /** True after another rank ended a step or an evaluation early. */
  isLeft?: true
}

export interface RunningSession extends Start {
  readonly held: Held
  readonly log: StepLog
  readonly memory: PeakMemory
  readonly status: RunStatus
  readonly listener: Listener
  readonly page: RunPage
  /** The losses of the reported steps so far. */
  readonly losses: number[]
  readonly measured: Measurement[]
  readonly watch: LossWatch
}

/** Reductions of the learning rate by the metrics so far. */
export const reductionsIn = ({ options, measured }: RunningSession): readonly Reduction[] =>
  reductionsOf(options.schedule, measured)

export const averagesOf = ({ averages }: ModelState): readonly string[] => [...averages.values()].map((a) => a.name)

export const totalsOf = ({ from }: Start): Totals => (from ? { ...from.totals, losses: from.losses } : NO_STEPS)

/** Returns true if the model is to be measured after this step, and has not been. */
export const isEvaluationDue = (
  { options: o, length }: Pick<Start, 'options' | 'length'>,
  measured: readonly Measurement[],
  step: number,
): boolean => step > 0 && nextMeasured(o, length, step - 1) === step && measured.at(-1)?.step !== step
