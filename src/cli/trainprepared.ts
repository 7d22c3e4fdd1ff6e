// A training before its first step. In: a model, flags. Out: its plan and its options, checked.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { runsPlace } from '../files/runs'
import { validation } from '../predict/validation'
import { placesOf, roomFor } from '../train/beforehand'
import type { TrainOptions } from '../train/options'
import { isEvaluable } from '../train/sets'
import { readingModel } from './modelreads'
import { flagOf } from './options'
import { type StagedModel, stageNamed } from './stage'
import { deviceOf, fitting, optionsOf, originOf, resumed, runName, saveOf, type TrainCommandOptions } from './trainoptions'
import { oneBatch } from './trial'

const RUNS_ON_PAGES = `train runs with pages only; 'spillway plan' simulates other allocators`

export type PreparedRun = StagedModel & { readonly options: TrainOptions }

/** The data of a trial or of an overfit are one batch. */
const onOneBatch =
  ({ trial, overfit, metrics }: TrainCommandOptions) =>
  (run: PreparedRun): Either<SpillwayError, PreparedRun> => {
    const { staged, options } = run
    const { evaluate, data } = options
    const { graph } = staged.plan
    if (trial && evaluate)
      return pipe(
        oneBatch(graph, evaluate.data),
        E.map((few) => ({
          ...run,
          options: { ...options, evaluate: validation({ data: few, metrics, weights: evaluate.weights }) },
        })),
      )
    return overfit === undefined || data === undefined
      ? E.right(run)
      : pipe(
          oneBatch(graph, data),
          E.map((few) => ({ ...run, options: { ...options, data: few } })),
        )
  }

/** Checks before the first step: the call is right, and there is a plan for this device. */
export const prepared = (model: string, o: TrainCommandOptions): Either<SpillwayError, PreparedRun> =>
  pipe(
    E.Do,
    E.bind('device', () => deviceOf(o)),
    E.filterOrElse(
      () => o.timeLimit === undefined || o.checkpointDir !== undefined,
      () => usage('--time-limit needs --checkpoint-dir, to save the run for --resume'),
    ),
    E.filterOrElse(
      () => o.run === undefined || o.save !== false,
      () => usage('--run names the folder of the run, but --no-save writes no folder: leave one of them out'),
    ),
    E.bind('options', () => optionsOf(o)),
    E.filterOrElse(
      () => o.allocator === undefined || o.allocator === 'pages',
      () => usage(`--allocator ${o.allocator}: ${RUNS_ON_PAGES}`),
    ),
    E.tap(({ options }) => placesOf({ ...o, data: options.data, save: saveOf(o) }, flagOf, readingModel(model))),
    E.tap(() => (o.save === false ? E.right(undefined) : runsPlace())),
    E.bind('found', ({ device, options }) => stageNamed(model, { ...o, machine: device, ...resumed(o) }, fitting(o, options))),
    E.filterOrElse(
      ({ device, found: { staged } }) => staged.machine.name === device,
      ({ device, found: { staged } }) => usage(`the plan is for '${staged.machine.name}', not for --device ${device}`),
    ),
    E.let('own', ({ options, found }) =>
      o.evaluatesSets && !isEvaluable(found.named.model) ? { ...options, evaluate: undefined } : options,
    ),
    E.map(({ own, found }) => ({
      ...found,
      options: o.save === false ? own : { ...own, run: o.run ?? runName(found.named.name) },
      staged: { ...found.staged, origin: originOf(found.named, o) },
    })),
    E.flatMap(onOneBatch(o)),
    E.tap(({ staged, options }) => roomFor(staged, options)),
  )
