// What is known of a run before anything is planned for it. In: options, and the graph of its step. Out: nothing, or what is wrong, with 2.
// Invariant: nothing is made, written or locked; the run looks again when it begins.
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constUndefined, pipe } from 'fp-ts/function'
import { type Graph, isPersistent, valueBytes } from '../../staging/graph/graph'
import { withWholeRows } from '../../staging/graph/bands'
import { slicesOf } from '../../staging/graph/ranks'
import type { KnownClasses } from '../data/classes'
import { classesOf, descriptionIn } from '../data/description'
import { type OpenedData, openRunData } from '../data/open'
import { type SpillwayError, usage } from '../errors/errors'
import { unlocked } from '../files/lock'
import { filePlace, folderPlace } from '../files/places'
import { lacksOf, type Writing } from '../stage/room'
import { shareIn } from '../ranks/rank'
import type { Staged } from '../stage/stage'
import { checkpointsIn, holdsCheckpoints, KEPT } from './checkpoint'
import { lengthOf } from './length'
import { fittingWeights, type LoadingOptions } from './loading'
import { PREFETCH, type TrainOptions, usualWorkers } from './options'
import { logFolder } from './steplog'
import { modelState } from './weights'

type Places = Pick<TrainOptions, 'checkpointDir' | 'resume' | 'save' | 'saveBest' | 'keep' | 'log' | 'tensorboard'> & {
  readonly report?: string
}

/** A folder that holds a run is for those that go on with it. */
export const freeFor = (directory: string, resume: boolean | undefined): Either<SpillwayError, void> =>
  !resume && holdsCheckpoints(directory)
    ? E.left(usage(`checkpoint directory ${directory} already has a run: resume it, or choose another directory`))
    : E.right(undefined)

const reportPlace = ({ report, log }: Places): Either<SpillwayError, void> =>
  // The log's folder is made first.
  report !== undefined && log !== undefined && dirname(resolve(report)) === resolve(log)
    ? E.right(undefined)
    : filePlace('report', report)

/** Whatever the run writes can be written where it is to be. */
export const placesOf = (o: Places): Either<SpillwayError, void> =>
  pipe(
    folderPlace('checkpoint directory', o.checkpointDir),
    E.flatMap(() => (o.checkpointDir === undefined ? E.right(undefined) : unlocked(o.checkpointDir))),
    E.flatMap(() => (o.checkpointDir === undefined ? E.right(undefined) : freeFor(o.checkpointDir, o.resume))),
    E.flatMap(() => filePlace('weights file', o.save)),
    E.flatMap(() => filePlace('weights file', o.saveBest)),
    E.flatMap(() => (logFolder(o) === undefined ? filePlace('log', o.log) : folderPlace('log directory', o.log))),
    E.flatMap(() => folderPlace('TensorBoard directory', o.tensorboard)),
    E.flatMap(() => reportPlace(o)),
  )

const beforehand = (e: SpillwayError): SpillwayError => (e.tag === 'FileRefused' ? { ...e, beforehand: true } : e)

type DataOptions = Pick<TrainOptions, 'data' | 'samples' | 'seed' | 'shuffle' | 'prefetch' | 'workers' | 'strictData'> & {
  /** Class names that the labels must follow. */
  readonly classes?: KnownClasses
}

/** The data of a run; `isKept`: what they are must be known, too. */
export const dataOf = (graph: Graph, o: DataOptions, isKept: boolean, rank = 0): Either<SpillwayError, OpenedData> =>
  openRunData(
    o.data,
    {
      samples: o.samples,
      seed: o.seed ?? 0,
      shuffle: o.shuffle ?? false,
      prefetch: o.prefetch ?? PREFETCH,
      workers: o.workers ?? usualWorkers(),
      isKept,
      classes: o.classes,
      strict: o.strictData ?? false,
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
const writingsOf = ({ plan: { graph } }: Staged, { checkpointDir, save, saveBest, keep }: Places): readonly Writing[] => {
  const state = bytesOf(graph.values.filter(isPersistent), graph)
  const { weights, averages } = modelState(graph)
  const bytes = (averages.size === 0 ? 1 : 2) * bytesOf(weights, graph)
  const kept = (keep?.last ?? KEPT) + (keep?.best === undefined ? 0 : 1)
  return [
    ...(checkpointDir === undefined
      ? []
      : [{ what: 'checkpoints', path: checkpointDir, bytes: (kept + 1 - Math.min(kept, checkpointsIn(checkpointDir))) * state }]),
    ...[save, saveBest].flatMap((path) => (path === undefined ? [] : [{ what: 'weights', path, bytes }])),
  ]
}

/** What the plan and the run's files take is there. */
export const roomFor = (staged: Staged, o: Places): Either<SpillwayError, void> => {
  const lacks = lacksOf(staged, writingsOf(staged, o))
  return lacks.length ? E.left(usage(`this machine cannot run the plan: ${lacks.join('; ')}`)) : E.right(undefined)
}
