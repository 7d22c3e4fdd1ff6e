// The start of a run. In: a model, its staged plan, options. Out: data, identity and the newest whole checkpoint of this very run, or an error.
// Invariant: all of it is known before a device is opened.
import { resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constUndefined, pipe } from 'fp-ts/function'
import type { Trainable } from '../../dsl'
import { DEVICES } from '../../staging/devices'
import { meanOverSteps } from '../../staging/ops/optimizer'
import { loadNative, tryLoadNative } from '../device/native'
import { FITS } from '../data/augment'
import { classesOf } from '../data/description'
import type { OpenedData } from '../data/source'
import { type SpillwayError, usage } from '../errors/errors'
import { type Lock, lockFolder } from '../files/lock'
import { runsPlace } from '../files/runs'
import { thisProcessor } from '../machine/processor'
import { isLeader } from '../ranks/rank'
import { belonging, identityOf, onRanksOf, optionsIn, ranksIn } from '../stage/identity'
import { checkedMode } from '../stage/mode'
import { otherThanRecorded } from '../stage/recorded'
import type { Staged } from '../stage/staged'
import {
  type Checkpoint,
  type Circumstances,
  elsewhere,
  findCheckpoint,
  prepareDirectory,
  type RunIdentity,
  sameRun,
} from './checkpoint'
import { adviceFor } from './advice'
import { batchOf, classesIn, dataOf, freeFor, placesOf, roomFor } from './beforehand'
import { type Length, lengthOf } from './length'
import { firstOf } from './signals'
import { startText } from './loading'
import { checkedMeasures, intervalNote, type OpenedEvaluation } from './measured'
import { checkedOptions, seedOf, type TrainOptions } from './options'
import type { Recorded } from './runrecord'
import { scheduleText } from './schedules'
import { reportFile } from './steplog'
import { modelState, type ModelState } from './weights'

const runsHere = ({ machine }: Staged): Either<SpillwayError, void> =>
  machine.simulated
    ? E.left(usage(`a plan for the simulated machine '${machine.name}' cannot run: stage for a device of this machine`, DEVICES))
    : E.right(undefined)

/** A training step has images of one size. */
const ofOneSize = ({ data }: TrainOptions): Either<SpillwayError, void> =>
  typeof data === 'object' && data.set.kind === 'images' && data.set.fit === 'own'
    ? E.left(usage("fit 'own' is for evaluations and predictions: a training step has images of one size", FITS))
    : E.right(undefined)

/** The basis of a run's bits beside its identity. */
const circumstancesOf = ({ machine: { device } }: Staged, o: TrainOptions): Either<SpillwayError, Circumstances> =>
  pipe(
    tryLoadNative(),
    E.map((native) => {
      const { threads, oneDnn = 'none' } = native.deviceInfo()
      return { processor: thisProcessor(), threads: o.threads ?? threads, libraries: `oneDNN ${oneDnn}` }
    }),
    E.map((here) => {
      if (!device.isCard) return here
      const { device: processor, driver, libraries } = loadNative().deviceFacts(device.name)
      return { ...here, processor, libraries: `driver ${driver}, ${libraries}` }
    }),
  )

/** Any number, if the plan keeps averages of weights. */
const keepsAverage = ({ plan }: Staged): number | undefined => (modelState(plan.graph).averages.size > 0 ? 1 : undefined)

/** A run that is ready for its checkpoint folder. */
export interface Ready {
  readonly staged: Staged
  readonly options: TrainOptions
  readonly data: OpenedData
  readonly length: Length
  /** Samples of a step. */
  readonly batch: number
  readonly evaluation: OpenedEvaluation | undefined
  readonly state: ModelState
  readonly circumstances: Circumstances
}

/** Notes about options that a run of this length does not fulfil. */
const notes = (staged: Staged, length: Length, o: TrainOptions): void => {
  const { warmup = 0 } = o
  leftOver(staged, length.steps, o)
  const interval = intervalNote(o, length)
  if (interval !== undefined) o.onNote?.(interval)
  if (warmup >= length.steps)
    o.onNote?.(`the warm-up has ${warmup} steps, but the run has ${length.steps}: the learning rate only rises`)
}

/** Says so where the last steps of a run are too few for an update. */
const leftOver = ({ plan: { graph } }: Staged, steps: number, { onNote }: TrainOptions): void => {
  const every = Math.max(...graph.ops.map((op) => (op.kind === meanOverSteps.kind ? op.attrs['every']! : 1)))
  const over = steps % every
  if (over > 0)
    onNote?.(
      `an update needs ${every} steps, so the last ${over} of ${steps} steps changed no weights: the weights are from step ${steps - over}; ` +
        'a checkpoint saves their gradients for a longer run',
    )
}

/** `model` is checked against the plan when it is given. */
export const readyOf = (
  model: Trainable | undefined,
  staged: Staged,
  o: TrainOptions,
  classes = classesIn(staged.plan.graph, o),
): Either<SpillwayError, Ready> =>
  pipe(
    checkedOptions(o),
    E.tap(() => checkedMode(staged, 'train')),
    E.tap(() => ofOneSize(o)),
    E.tap(() => (model ? belonging(model, staged.plan, staged.machine) : E.right(undefined))),
    E.tap(() => runsHere(staged)),
    E.tap((checked) => placesOf({ ...checked, average: keepsAverage(staged) })),
    E.tap(({ run }) => (run === undefined ? E.right(undefined) : runsPlace())),
    E.tap((checked) => roomFor(staged, checked)),
    E.bindTo('options'),
    // Ranks compare their data, too.
    E.bind('data', () =>
      dataOf(
        staged.plan.graph,
        { ...o, classes, trains: true },
        o.checkpointDir !== undefined || staged.rank !== undefined,
        staged.rank?.rank,
      ),
    ),
    E.let('batch', () => batchOf(staged.plan.graph)),
    E.bind('length', ({ data, batch }) => lengthOf(o, data.samples, batch)),
    E.bind('evaluation', ({ data }) =>
      o.evaluate
        ? o.evaluate.open(
            model ?? staged.model,
            staged,
            { ...o, signal: firstOf(o.signal, o.stop), classes: classesOf(data.described) },
            (o.run ?? reportFile(o)) !== undefined,
          )
        : E.right(undefined),
    ),
    E.tap(({ length, evaluation }) => checkedMeasures(o, length.epochs, evaluation?.measures ?? ['loss'])),
    E.tap(({ length }) => E.right(notes(staged, length, o))),
    E.tap((run) => {
      const { notes, orderNote, samples = 0 } = run.data
      const order = orderNote !== undefined && samples > run.batch ? [orderNote] : []
      if (staged.rank && !isLeader(staged.rank)) return E.right(undefined)
      for (const text of [...notes, ...order, ...adviceFor({ graph: staged.plan.graph, ...run })]) o.onNote?.(text)
      return E.right(undefined)
    }),
    E.bind('circumstances', () => circumstancesOf(staged, o)),
    E.map((known) => ({ ...known, staged, state: modelState(staged.plan.graph) })),
  )

/** A run that may begin: its checkpoint folder, if it has one, is its own. */
export interface Start extends Ready {
  readonly identity: RunIdentity
  readonly from: Checkpoint | undefined
  /** The folder of the run, if it has one. */
  readonly folder?: string
  /** The record of a run with a folder. */
  readonly recorded?: Recorded
}

const NO_LOCK: Lock = { release: () => {} }
export const lockOf = ({ checkpointDir }: TrainOptions): Either<SpillwayError, Lock> =>
  checkpointDir === undefined
    ? E.right(NO_LOCK)
    : pipe(
        prepareDirectory(checkpointDir),
        E.flatMap(() => lockFolder(checkpointDir)),
      )

/** The start of the run: the newest whole checkpoint of this very run, or the beginning. */
export const startOf = (ready: Ready): Either<SpillwayError, Start> => {
  const { staged, options: o, data } = ready
  const weights = o.weights === undefined ? undefined : startText(resolve(o.weights), o)
  const requested = identityOf(staged, seedOf(o), data.content, weights)
  return pipe(
    o.checkpointDir === undefined ? E.right(undefined) : found(o.checkpointDir, ready, requested),
    // Weights that a run started from matter no more once it has a checkpoint.
    E.map((from) => ({ ...ready, from, identity: { ...requested, weights: from?.identity.weights ?? requested.weights } })),
  )
}

const ranksText = (n: number): string => (n === 1 ? 'one process' : `${n} ranks`)

const found = (directory: string, ready: Ready, asked: RunIdentity): Either<SpillwayError, Checkpoint | undefined> => {
  const { staged, options: o, data, circumstances, length } = ready
  if (!o.resume) return pipe(freeFor(directory, o.resume), E.map(constUndefined))
  const mismatch = (reason: string): SpillwayError => ({ tag: 'CheckpointMismatch', directory, reason })
  const { checkpoint, refused } = findCheckpoint(directory)
  refused.forEach((r) => o.onNote?.(`${directory}: ${r}`))
  if (!checkpoint) {
    if (refused.length) return E.left(mismatch(`it has no complete checkpoint: ${refused.join('; ')}`))
    o.onNote?.(`${directory} has no checkpoint to resume: the run starts from step 1`)
    return E.right(undefined)
  }
  if (refused.length) o.onNote?.(`${directory}: continuing from step ${checkpoint.step}`)
  if (checkpoint.step > length.steps)
    return E.left(usage(`the run in ${directory} has ${checkpoint.step} steps already: ask for at least ${checkpoint.step}`))
  const differs = [
    checkpoint.circumstances && elsewhere(checkpoint.circumstances, circumstances),
    otherThanRecorded(directory, staged.family ?? [staged.plan]),
  ]
  for (const why of differs) if (why) o.onNote?.(`bits may differ from the earlier part of the run: ${why}`)
  const [before, now] = [checkpoint.settings['schedule'] ?? 'constant', scheduleText(o, length.steps)]
  if (before !== now) o.onNote?.(`the learning rate schedule was ${String(before)} and is now ${now}`)
  const sameBut = onRanksOf(checkpoint.identity, asked)
  const wanted = {
    ...(o.resumeRanks ? sameBut : asked),
    weights: o.weights === undefined ? checkpoint.identity.weights : asked.weights,
    data: checkpoint.circumstances ? data.content : data.place,
  }
  const [ranks, here] = [ranksIn(checkpoint.identity), ranksIn(asked)]
  const differ = ranks !== here
  if (differ && o.resumeRanks)
    o.onNote?.(`the run had ${ranksText(ranks)} and continues with ${ranksText(here)}: sums over the batch use another order`)
  return pipe(
    sameRun(checkpoint.identity, wanted, { before: checkpoint.settings['options'], now: optionsIn(staged.plan.graph) }),
    E.bimap(
      (why) => {
        const ranksHint = differ && !o.resumeRanks ? '; --resume-ranks (resumeRanks) allows another number of ranks' : ''
        const unshuffled =
          wanted.data !== checkpoint.identity.data && wanted.data.replace(', shuffled', '') === checkpoint.identity.data
        return mismatch(`${why}${ranksHint}${unshuffled ? '; --no-shuffle (shuffle: false) continues the run in its order' : ''}`)
      },
      () => checkpoint,
    ),
  )
}
