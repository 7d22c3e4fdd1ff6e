// Files that a run writes between its steps: checkpoints, and weights at an early end. In: a run, its totals so far. Out: the written files.
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import { join } from 'node:path'
import type { KeptWeights, SpillwayError } from '../errors/errors'
import { LAST_FILE } from '../files/runs'
import { optionsIn } from '../stage/identity'
import { KEPT, saveCheckpoint } from './checkpoint'
import { nonfiniteError } from './endings'
import { standing } from './measurement'
import { withWhole } from './ranks/parts'
import { gatherParts } from './ranks/orders'
import { writtenWeights } from './result'
import { averagesOf, type RunningSession } from './running'
import { scheduleText } from './schedules'
import type { Totals } from './totals'
import type { Origin } from './weights'

export const saveState = (run: RunningSession, origin: Origin, totals: Totals): TaskEither<SpillwayError, void> => {
  const { options: o, identity, circumstances, state, held, staged, listener, length, status, measured } = run
  const { strategy, budgetBytes } = staged.plan
  const { losses } = totals
  const { checkpointDir } = o
  const step = losses.length
  if (checkpointDir === undefined || step === (status.saved ?? 0)) return TE.right(undefined)
  const settings = { strategy, budgetBytes, schedule: scheduleText(o, length.steps), options: optionsIn(staged.plan.graph) }
  return pipe(
    gatherParts(staged, held.session),
    TE.flatMapEither((whole) =>
      saveCheckpoint(
        checkpointDir,
        { step, identity, circumstances, settings, losses, measured, origin, totals },
        state,
        withWhole(whole, held.session),
        { last: o.keep?.last ?? KEPT, best: o.keep?.best === undefined ? undefined : standing(measured, o.keep.best).best?.step },
      ),
    ),
    TE.map((file) => {
      status.saved = step
      return listener.emit({ kind: 'checkpoint', step, file: join(checkpointDir, file) })
    }),
    TE.orElse((e) => {
      if (e.tag !== 'Diverged') return TE.left(e)
      if (o.onNonfinite !== 'continue') return TE.left(nonfiniteError(o, e.step, e.what))
      o.onNote?.(`no checkpoint of step ${e.step}: ${e.what}`)
      return TE.right(undefined)
    }),
  )
}

/** The file for the weights of a run that ends early. An earlier file of `save` stays if the run has a folder. */
const endWeightsFile = ({ folder, options }: RunningSession): string | undefined =>
  folder === undefined ? options.save : join(folder, LAST_FILE)

/** Writes the weights of a run that ends early. */
export const saveEndWeights = (run: RunningSession, origin: Origin, totals: Totals): TaskEither<SpillwayError, KeptWeights> => {
  const { staged, state, held, options } = run
  const place = endWeightsFile(run)
  if (place === undefined || totals.losses.length === 0) return TE.right({})
  return pipe(
    gatherParts(staged, held.session, averagesOf(state)),
    TE.flatMapEither((whole) =>
      writtenWeights(place, {
        ...{ staged, state, origin, totals },
        store: withWhole(whole, held.session),
        unsaved: (text) => options.onNote?.(text),
        described: run.data.described,
      }),
    ),
    TE.map((weights) => (weights === undefined ? {} : { weights })),
  )
}
