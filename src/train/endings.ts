// Errors that end a run early. In: the run, its steps so far. Out: an error that names the state on disk and the way on.
import type { KeptWeights, SpillwayError } from '../errors/errors'
import { holdsCheckpoints } from './checkpoint'
import type { TrainOptions } from './options'
import type { RunningSession } from './running'
import { isEnding } from './signals'

const resumeHint = (directory: string): string =>
  holdsCheckpoints(directory)
    ? `run the same command with --resume to continue from the last checkpoint in ${directory}`
    : `no checkpoint was saved in ${directory} yet (see --checkpoint-every): the same command starts again from step 1`

/** The saved state of a run that cannot write: a full disk, a failing one. */
export const withSavedState =
  ({ checkpointDir }: TrainOptions) =>
  (e: SpillwayError): SpillwayError =>
    e.tag === 'FileRefused' && e.kind === 'output'
      ? {
          ...e,
          kept:
            checkpointDir === undefined
              ? 'the trained weights are lost; --checkpoint-dir (checkpointDir) saves them during a run'
              : resumeHint(checkpointDir),
        }
      : e

export const cancelledAt = (
  { checkpointDir }: TrainOptions,
  stepsDone: number,
  { weights }: KeptWeights = {},
): Extract<SpillwayError, { readonly tag: 'Cancelled' }> => ({
  tag: 'Cancelled',
  stepsDone,
  ...(checkpointDir !== undefined
    ? { resume: resumeHint(checkpointDir) }
    : weights === undefined
      ? { resume: 'nothing is saved: --checkpoint-dir (checkpointDir) saves a run, for --resume' }
      : {}),
})

export const nonfiniteError = ({ checkpointDir }: TrainOptions, step: number, what: string): SpillwayError => ({
  tag: 'Diverged',
  step,
  what,
  ...(checkpointDir !== undefined && holdsCheckpoints(checkpointDir)
    ? { resume: `the last checkpoint in ${checkpointDir} is from an earlier step and finite` }
    : {}),
})

/** Returns true if the run is to end after whole steps, and to save them. */
export const isToStop = ({ options: o, status }: RunningSession): boolean =>
  o.signal?.aborted !== true && (o.stop?.aborted === true || status.isLeft === true)

/** Decides about steps or an evaluation that ended early. Without a signal here, another rank had one. */
export const endsEarly = (run: RunningSession): boolean => {
  if (run.staged.rank && run.options.stop?.aborted !== true) run.status.isLeft = true
  return isToStop(run)
}

/** The end of a run that stops: signals that end a process cancel it, other reasons are a pause. */
export const stopError = ({ options: o }: RunningSession, stepsDone: number, kept: KeptWeights): SpillwayError => {
  const { stop, checkpointDir: directory } = o
  const why: unknown = stop?.reason
  // Without a signal here, another rank had one.
  if (stop?.aborted !== true || isEnding(why))
    return { ...cancelledAt(o, stepsDone, kept), ...(isEnding(why) ? { signal: why } : {}), ...kept }
  const text = why instanceof Error ? why.message : String(why)
  return { tag: 'Stopped', stepsDone, why: text, ...(directory === undefined ? {} : { directory }), ...kept }
}
