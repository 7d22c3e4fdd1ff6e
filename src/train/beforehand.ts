// Checks of a run before it is planned. In: options, and the graph of its step. Out: nothing, or an error, with 2. Invariant: nothing is made,
// written or locked; the run checks again when it begins.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constUndefined, pipe } from 'fp-ts/function'
import { type Graph, isPersistent, valueBytes } from '../../staging/graph/graph'
import { withWholeRows } from '../../staging/graph/bands'
import { slicesOf } from '../../staging/graph/ranks'
import type { KnownClasses } from '../data/classes'
import { classesOf, descriptionIn } from '../data/description'
import type { OpenedData } from '../data/source'
import { openRunData } from '../data/open'
import { readingData } from '../data/reads'
import { type SpillwayError, usage } from '../errors/errors'
import { unlocked } from '../files/lock'
import { checkedPlaces, type Read, reading, writing } from '../files/places'
import { weightsOfRun } from '../files/runs'
import { lacksOf, type Writing } from '../stage/room'
import { shareIn } from '../ranks/rank'
import type { Staged } from '../stage/staged'
import { checkpointsIn, holdsCheckpoints, KEPT } from './checkpoint'
import { lengthOf } from './length'
import { fittingWeights, type LoadingOptions } from './loading'
import { PREFETCH, type TrainOptions, usualWorkers } from './options'
import { logFolder } from './steplog'
import { averageFile, modelState } from './weights'

type Folders = Pick<TrainOptions, 'checkpointDir' | 'save' | 'saveBest' | 'keep' | 'run'>
type Places = Folders &
  Pick<TrainOptions, 'resume' | 'log' | 'tensorboard' | 'report' | 'trace' | 'weights' | 'data'> & {
    readonly plan?: string | undefined
    readonly average?: number | undefined
    readonly evaluate?: string | TrainOptions['evaluate']
  }

/** A folder that holds a run is for those that go on with it. */
export const freeFor = (directory: string, resume: boolean | undefined): Either<SpillwayError, void> =>
  !resume && holdsCheckpoints(directory)
    ? E.left(usage(`checkpoint directory ${directory} already has a run: resume it, or choose another directory`))
    : E.right(undefined)

/**
 * All places that a run reads and writes. `named`: an option as its user writes it; `model`: the files of the model, for a command.
 */
export const placesOf = (
  o: Places,
  named: (option: string) => string = String,
  model: readonly Read[] = [],
): Either<SpillwayError, void> => {
  const { checkpointDir } = o
  const averages = o.average === undefined ? [] : [o.save, o.saveBest].map((path) => path && averageFile(path))
  return pipe(
    checkedPlaces(
      [
        ...model,
        ...reading(named('plan'), o.plan),
        ...reading(named('weights'), o.weights),
        ...readingData(named('data'), o.data),
        ...readingData(named('evaluate'), o.evaluate),
      ],
      [
        ...writing(named('checkpointDir'), 'checkpoints', checkpointDir),
        ...writing(named('save'), 'weights', o.save),
        ...writing(named('saveBest'), 'weights', o.saveBest),
        ...averages.flatMap((path) => writing(named('average'), 'weights', path)),
        ...writing(named('log'), logFolder(o) === undefined ? 'log' : 'logs', o.log),
        ...writing(named('tensorboard'), 'events', o.tensorboard),
        ...writing(named('report'), 'report', o.report),
        ...writing(named('trace'), 'trace', o.trace),
      ],
    ),
    E.flatMap(() => (checkpointDir === undefined ? E.right(undefined) : unlocked(checkpointDir))),
    E.flatMap(() => (checkpointDir === undefined ? E.right(undefined) : freeFor(checkpointDir, o.resume))),
  )
}

/** Marks a refused file as known before planning, which ends with exit code 2. */
export const beforehand = (e: SpillwayError): SpillwayError => (e.tag === 'FileRefused' ? { ...e, beforehand: true } : e)

type DataOptions = Pick<
  TrainOptions,
  'data' | 'samples' | 'seed' | 'shuffle' | 'balanceClasses' | 'prefetch' | 'workers' | 'strictData'
> & {
  /** Class names that the labels must follow. */
  readonly classes?: KnownClasses
  /** Data of training are shuffled by default. */
  readonly trains?: boolean
}

/** The data of a run; `isKept`: their identity must be known, too. */
export const dataOf = (graph: Graph, o: DataOptions, isKept: boolean, rank = 0): Either<SpillwayError, OpenedData> =>
  openRunData(
    o.data,
    {
      samples: o.samples,
      seed: o.seed ?? 0,
      shuffle: o.shuffle ?? false,
      shufflesIfPossible: o.trains === true && o.shuffle === undefined,
      prefetch: o.prefetch ?? PREFETCH,
      workers: o.workers ?? usualWorkers(),
      isKept,
      classes: o.classes,
      strict: o.strictData ?? false,
      balance: o.balanceClasses ?? false,
      share: shareIn(graph, rank),
    },
    // A rank that has a band of an image's rows takes them of the whole.
    withWholeRows(graph),
  )

/** Samples of a step, those of all ranks. */
export const batchOf = (graph: Graph): number => slicesOf(graph) * graph.values.find((v) => v.role === 'input')!.shape[0]!

/** Class names of a weights file that fills the whole model; weights that are left out may be the head. */
export const classesIn = (graph: Graph, { weights, ...o }: LoadingOptions & Pick<TrainOptions, 'weights'>): KnownClasses =>
  weights === undefined
    ? undefined
    : pipe(
        fittingWeights(weights, modelState(graph), o),
        E.match(constUndefined, ({ file, table }) => {
          const description = table.left.length === 0 ? descriptionIn(file.metadata) : undefined
          return description && classesOf(description)
        }),
      )

/** Data and weights are of the model's shapes, and a run over the data has an end. Returns the class names of the data. */
export const filesOf =
  ({ weights, ...o }: DataOptions & LoadingOptions & Pick<TrainOptions, 'weights' | 'epochs'>) =>
  (graph: Graph): Either<SpillwayError, KnownClasses> =>
    pipe(
      o.data === undefined
        ? E.right(undefined)
        : pipe(
            dataOf(graph, { ...o, classes: o.classes ?? classesIn(graph, { ...o, weights }) }, false),
            E.flatMap(({ samples, described }) =>
              pipe(
                o.epochs === undefined ? E.right(undefined) : E.asUnit(lengthOf(o, samples, batchOf(graph))),
                E.map(() => classesOf(described)),
              ),
            ),
          ),
      E.tap(() => (weights === undefined ? E.right(undefined) : E.asUnit(fittingWeights(weights, modelState(graph), o)))),
      E.mapLeft(beforehand),
    )

const bytesOf = (values: readonly { readonly shape: readonly number[] }[], graph: Graph): number => {
  const wanted = new Set(values)
  return graph.values.reduce((n, v) => n + (wanted.has(v) ? valueBytes(v) : 0), 0)
}

/** Files beside the spill file: a checkpoint is written before the oldest goes. */
const writingsOf = ({ plan: { graph } }: Staged, { checkpointDir, save, saveBest, keep, run }: Folders): readonly Writing[] => {
  const state = bytesOf(graph.values.filter(isPersistent), graph)
  const { weights, averages } = modelState(graph)
  const bytes = (averages.size === 0 ? 1 : 2) * bytesOf(weights, graph)
  const kept = (keep?.last ?? KEPT) + (keep?.best === undefined ? 0 : 1)
  return [
    ...(checkpointDir === undefined
      ? []
      : [{ what: 'checkpoints', path: checkpointDir, bytes: (kept + 1 - Math.min(kept, checkpointsIn(checkpointDir))) * state }]),
    ...[save ?? (run === undefined ? undefined : weightsOfRun(run)), saveBest].flatMap((path) =>
      path === undefined ? [] : [{ what: 'weights', path, bytes }],
    ),
  ]
}

/** Checks that the plan and the run's files fit. */
export const roomFor = (staged: Staged, o: Folders): Either<SpillwayError, void> => {
  const lacks = lacksOf(staged, writingsOf(staged, o))
  return lacks.length ? E.left(usage(`this machine cannot run the plan: ${lacks.join('; ')}`)) : E.right(undefined)
}
