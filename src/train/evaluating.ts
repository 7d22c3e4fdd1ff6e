// Evaluations between steps. In: a run after a step. Out: the measurement, recorded; the best weights, saved.
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { cancelledAt, endsEarly } from './endings'
import { leaderWeights, isShared, evaluatedWeights, differingWeights } from './ranks/evaluations'
import { epochsAt, lossAt } from './length'
import { type Found, metricOf } from './measured'
import { type Measurement, standing } from './measurement'
import { lendDevice } from './opened'
import { withWhole } from './ranks/parts'
import { giveOrder, gatherParts } from './ranks/orders'
import { describing } from './result'
import { averagesOf, isEvaluationDue, type RunningSession } from './running'
import { saveState } from './saves'
import type { Totals } from './totals'
import { type Origin, saveWeights, type StateReader } from './weights'

/** The metrics of the model after an epoch; undefined if the run is to stop before they are complete. */
const evaluateRun = (run: RunningSession, epoch: number, step: number): TaskEither<SpillwayError, Measurement | undefined> => {
  const { evaluation, options: o, length, losses, held, listener, page, state, staged } = run
  const { epochs } = length
  if (!evaluation) return TE.right({ epoch, step, metrics: { loss: lossAt(losses, epochs!, step) } })
  return pipe(
    gatherParts(staged, held.session, o.evaluate?.weights === 'average' ? averagesOf(state) : []),
    TE.flatMap((whole) => {
      const { rank } = staged
      const own = (parked: StateReader): StateReader => evaluatedWeights(o, state, withWhole(whole, parked), step)
      // The device holds the state again after an early end, too.
      const complete = (found: TaskEither<SpillwayError, Found>): TaskEither<SpillwayError, Found | undefined> =>
        TE.orElse((e: SpillwayError) =>
          e.tag === 'Cancelled' && endsEarly(run) ? TE.right<SpillwayError, Found | undefined>(undefined) : TE.left(e),
        )(found)
      if (!rank || !isShared(evaluation))
        return lendDevice<Found | undefined>(held, run)((parked) => complete(evaluation.run(own(parked))))
      const names = differingWeights(o, staged.plan.graph, state)
      return pipe(
        giveOrder(rank, { what: 'evaluate', step, names }),
        TE.flatMap(() =>
          lendDevice<Found | undefined>(
            held,
            run,
          )((parked) => complete(TE.flatMap(evaluation.run)(leaderWeights(rank, names, own(parked))))),
        ),
      )
    }),
    TE.mapLeft((e) => (e.tag === 'Cancelled' ? cancelledAt(o, step) : e)),
    TE.map((found) => {
      if (!found) return undefined
      const { loss, metrics, arenaPeakBytes, details } = found
      const measurement = { epoch, step, metrics: { loss, ...metrics } }
      page.looked(details)
      const isBest = standing([...run.measured, measurement], metricOf(o)).best === measurement
      listener.emit({ kind: 'evaluation', ...measurement, isBest, arenaPeakBytes })
      return measurement
    }),
    TE.tap((measurement) => (measurement ? TE.fromEither(run.log.evaluation(measurement)) : TE.right(undefined))),
  )
}

/** Measures the model where that is due; the best weights are kept. */
export const evaluateIfDue = (run: RunningSession, origin: Origin, totals: Totals): TaskEither<SpillwayError, void> => {
  const { options: o, length, state, held, measured } = run
  const step = totals.losses.length
  if (!isEvaluationDue(run, measured, step)) return TE.right(undefined)
  return pipe(
    evaluateRun(run, epochsAt(length.epochs!, step), step),
    TE.flatMap((measurement) => {
      if (!measurement) return TE.right(undefined)
      measured.push(measurement)
      if (standing(measured, metricOf(o)).best !== measurement) return TE.right(undefined)
      const { saveBest } = o
      return pipe(
        saveBest === undefined
          ? TE.right(undefined)
          : pipe(
              gatherParts(run.staged, held.session, averagesOf(state)),
              TE.flatMapEither((whole) =>
                saveWeights(
                  saveBest,
                  state,
                  withWhole(whole, held.session),
                  origin,
                  step,
                  describing(run.staged, run.data.described),
                ),
              ),
              TE.map(() => undefined),
            ),
        TE.flatMap(() => (o.keep?.best === undefined ? TE.right(undefined) : saveState(run, origin, totals))),
      )
    }),
  )
}
