// Steps on the device, up to the next checkpoint or measurement. In: a run, its steps so far. Out: metrics of these steps, or the error that ended
// them. Invariant: each complete step is logged and reported before the next one starts.
import * as E from 'fp-ts/Either'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import type { RunMetrics, StepDone } from './device'
import { cancelledAt, endsEarly, nonfiniteError } from './endings'
import { epochsAt, meanLoss } from './length'
import { nextMeasured } from './measured'
import { seedOf, type TrainOptions } from './options'
import { giveOrder } from './ranks/orders'
import { reductionsIn, type RunningSession } from './running'
import { rateFactor, ratesOfSteps } from './schedules'

/** Steps until the next checkpoint is due, or the end; ten checkpoints a run when it is not said how often. */
export const chunkFrom = (done: number, steps: number, o: Pick<TrainOptions, 'checkpointDir' | 'checkpointEvery'>): number => {
  if (o.checkpointDir === undefined) return steps - done
  const every = o.checkpointEvery ?? Math.ceil(steps / 10)
  return Math.min(steps, (Math.floor(done / every) + 1) * every) - done
}

/** The most samples of an order in one message to the device. */
const MOST_SAMPLES = 2 ** 22
/** And the most factors of the rate. */
const MOST_STEPS = 2 ** 16

const stepsAtOnce = ({ options: o, length, batch, listener, page }: RunningSession, done: number): number =>
  Math.min(
    chunkFrom(done, length.steps, o),
    nextMeasured(o, length, done) - done,
    Math.ceil(MOST_SAMPLES / batch),
    MOST_STEPS,
    listener.ahead,
    page.ahead(),
  )

export const isDue = ({ options: o, length: { steps } }: RunningSession, done: number): boolean =>
  o.checkpointDir !== undefined && (done === steps || chunkFrom(done - 1, steps, o) === 1)

/** Emits the epoch that ends with a step, with the mean loss of its steps. */
const emitEpoch = ({ length: { epochs }, listener, losses }: RunningSession, step: number): void => {
  const epoch = epochs ? epochsAt(epochs, step) : 0
  if (!epochs || epoch === epochsAt(epochs, step - 1)) return
  listener.emit({ kind: 'epoch', epoch, step, loss: meanLoss(losses, epochs, epoch) })
}

/** The handling of a complete step; the run ends if the step cannot be logged, or its loss is not finite. */
const recordStep = (run: RunningSession, p: StepDone): void => {
  const { options: o, held, log, status, listener, losses, length } = run
  status.seconds = p.seconds
  losses.push(p.loss)
  const logged = log.step({ ...p, factor: rateFactor({ ...o, reductions: reductionsIn(run) }, p.step, length.steps) })
  if (E.isLeft(logged)) {
    status.logError ??= logged.left
    held.session.cancel()
  }
  listener.emit(p)
  emitEpoch(run, p.step)
  run.watch.stepped(losses)
  if (status.nonfiniteStep !== undefined || Number.isFinite(p.loss)) return
  status.nonfiniteStep = p.step
  if (o.onNonfinite === 'continue') o.onNote?.(`the loss of step ${p.step} is ${p.loss}; the run continues, as requested`)
  else held.session.cancel()
}

/** The steps until the next checkpoint; fewer when they are to stop. */
export const runSteps = (run: RunningSession, done: number): TaskEither<SpillwayError, RunMetrics> => {
  const { options: o, held, data, status, losses, length } = run
  const ends = (): boolean => status.nonfiniteStep !== undefined && o.onNonfinite !== 'continue'
  const diverged = (): SpillwayError => nonfiniteError(o, status.nonfiniteStep!, 'its loss is not finite')
  const steps = stepsAtOnce(run, done)
  const reductions = reductionsIn(run)
  return o.signal?.aborted
    ? TE.left(cancelledAt(o, done))
    : pipe(
        TE.fromEither(ratesOfSteps({ ...o, reductions }, done + 1, steps, length.steps)),
        TE.tap(() => giveOrder(run.staged.rank, { what: 'run', firstStep: done + 1, steps, reductions })),
        TE.flatMap(
          (rates) => () =>
            held.session.run({
              firstStep: done + 1,
              steps,
              seed: seedOf(o),
              rates,
              data: data.source,
              last: length.steps,
              isTraced: o.trace !== undefined,
              finishing: () => status.logError === undefined && !ends() && endsEarly(run),
              onProgress: (p) => {
                if (p.kind === 'step') recordStep(run, p)
                o.onProgress?.(p)
              },
            }),
        ),
        TE.mapLeft((e) => status.logError ?? (ends() ? diverged() : e.tag === 'Cancelled' ? cancelledAt(o, losses.length) : e)),
        TE.filterOrElse(
          () => status.logError === undefined && !ends(),
          () => status.logError ?? diverged(),
        ),
      )
}
