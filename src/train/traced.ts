// The reason why a run is no longer finite. In: its start, the step that shows it. Out: the error, with the source of the first number that is not
// finite: the steps since the last kept state run once more, the last two of them call by call. Invariant: nothing is written; the error is reported
// in any case.
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { pipe } from 'fp-ts/function'
import type { NotFinitePlace, SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import { showSeconds } from '../report/format'
import { ratesIn } from '../stage/identity'
import { findCheckpoint } from './checkpoint'
import type { DeviceSession, StepsToSearch } from './device'
import { firstMet } from './finite'
import { closeHeld, fillState, openHeld } from './opened'
import { seedOf } from './options'
import { cuttingStore } from './ranks/parts'
import type { Reduction } from './plateau'
import { giveOrder, shareState, collective } from './ranks/orders'
import { ratesOfSteps } from './schedules'
import type { Ready, Start } from './start'
import { lowerRate } from './watch'

export type Diverged = Extract<SpillwayError, { readonly tag: 'Diverged' }>

/** Longer than this nobody waits for an explanation. */
const REPLAY_SECONDS = 600

const soughtText = ({ step, what }: Diverged, steps: number): string =>
  `step ${step}: ${what}; searching for the cause: running ${steps === 1 ? 'this step' : `the last ${steps} steps`} again`
const notSought = (steps: number, seconds: number): string =>
  `no search for the cause: the last saved state is ${steps} steps back, ${showSeconds(seconds)}; ` +
  'a smaller --checkpoint-every saves more states'

/** Steps that are run once more, from the state that a session has. */
export interface Sought extends Pick<StepsToSearch, 'firstStep' | 'steps' | 'searchFrom'> {
  readonly reductions: readonly Reduction[]
}

/** The first place of all ranks, at each of them. */
export const searchNonfinite = (
  { options: o, length, data, staged: { rank } }: Ready,
  session: DeviceSession,
  { reductions, ...wanted }: Sought,
): TaskEither<SpillwayError, NotFinitePlace | undefined> =>
  pipe(
    TE.fromEither(ratesOfSteps({ ...o, reductions }, wanted.firstStep, wanted.steps, length.steps)),
    TE.flatMap((rates) => () => session.search({ ...wanted, seed: seedOf(o), rates, data: data.source })),
    TE.flatMap((met) => (rank ? collective(() => firstMet(rank, met)) : TE.right(met))),
    TE.map((met) => met?.place),
  )

/** `announced`: the other ranks have been told to take part. */
const replaySteps = (
  start: Start,
  sought: Sought,
  announced: () => void,
): TaskEither<SpillwayError, NotFinitePlace | undefined> => {
  const { staged, state, options } = start
  const kept = new Map<string, Uint8Array>()
  return using(
    () => openHeld(staged, options),
    closeHeld(options),
    ({ session }) =>
      pipe(
        TE.fromEither(fillState({ ...start, session: cuttingStore(session, staged.plan.graph, kept) })),
        TE.tapIO(() => announced),
        TE.tap(() => giveOrder(staged.rank, { what: 'search', ...sought })),
        TE.tap(() => shareState(staged, state, session, kept)),
        TE.flatMap(() => searchNonfinite(start, session, sought)),
      ),
  )
}

/** The error with its place and a cure. */
export const withCause = (
  start: Start,
  e: Diverged,
  stepSeconds: number,
  reductions: readonly Reduction[],
): TaskEither<SpillwayError, never> =>
  TE.mapLeft((met: SpillwayError) => (met.tag === 'Diverged' ? cured(met, start) : met))(
    locateNonfinite(start, e, stepSeconds, reductions),
  )

/** A number that is fed, or computed before the first update, is no fault of the learning rate. */
const cured = (e: Diverged, { staged }: Start): Diverged => {
  const rate = Math.max(0, ...ratesIn(staged.plan.graph))
  const isComputed = e.first === undefined || e.first.by !== undefined
  return e.step > 1 && isComputed && rate > 0 ? { ...e, cure: lowerRate(rate) } : e
}

/** The error with that place, where it is found: from the newest checkpoint on, or from the run's start. */
const locateNonfinite = (
  start: Start,
  e: Diverged,
  stepSeconds: number,
  reductions: readonly Reduction[],
): TaskEither<SpillwayError, never> => {
  const { onNote, ...options } = start.options
  const { checkpointDir, signal, stop } = options
  const from = checkpointDir === undefined ? undefined : findCheckpoint(checkpointDir).checkpoint
  const done = from?.step ?? 0
  const steps = e.step - done
  if (signal?.aborted || stop?.aborted) return TE.left(e)
  if (steps * stepSeconds > REPLAY_SECONDS) {
    onNote?.(notSought(steps, steps * stepSeconds))
    return TE.left(e)
  }
  onNote?.(soughtText(e, steps))
  let isShared = false
  return pipe(
    // Weights that a step spoilt show in the loss of the next one.
    replaySteps(
      { ...start, options, from },
      { firstStep: done + 1, steps, searchFrom: Math.max(done + 1, e.step - 1), reductions },
      () => {
        isShared = start.staged.rank !== undefined
      },
    ),
    TE.matchE(
      // Ranks that take part hear of no other end.
      (failure) => TE.left(isShared ? failure : e),
      (first) => TE.left(first ? { ...e, first } : e),
    ),
  )
}
