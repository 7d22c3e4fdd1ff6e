// Evaluating: a model's loss and metrics over data, each sample once. In: a model, its plan (`mode: 'evaluate'`), weights, data. Out: the mean loss,
// metrics, and the measurements. Invariant: the rest after the last full batch has a plan of its own size in the same budget, so that no sample
// counts twice; metrics see the plan's output, some rows at a time. Ranks share batches (shares.ts). Worked example, five images in batches of two:
// two steps, then one of a plan for one image; the loss is (2a + 2b + c) / 5.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model, Shape } from '../../dsl'
import type { Known } from '../../staging/core/options'
import { readsBytes } from '../../staging/graph/graph'
import { lossBy } from '../../staging/ops/lossofgraph'
import { encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { asTheyAre } from '../data/data'
import type { KnownClasses } from '../data/classes'
import { classesOf, takenFor } from '../data/description'
import { dataAt } from '../data/open'
import { validationSet } from '../data/sets'
import type { SpillwayError } from '../errors/errors'
import { using } from '../errors/exceptions'
import type { LocalMachine } from '../machine/localmachine'
import { PeakMemory } from '../machine/memory'
import { isLeader, type Rank } from '../ranks/rank'
import { givenBoth } from '../stage/given'
import { untrustedPlan } from '../stage/planfile'
import type { Details } from '../report/runview'
import type { PlanFor } from '../stage/mode'
import { describePlan, type Staged } from '../stage/staged'
import { forgetPlanning } from '../train/device'
import { descriptionOf } from '../train/loading'
import type { SharedEvaluation } from '../train/measured'
import { PREFETCH, withNotes } from '../train/options'
import { answerOf } from '../train/trainer'
import { type Took, tookOf } from './batches'
import type { Measured } from './measured'
import { unmerged } from './metrics'
import type { EVALUATE_KEYS, EvaluateOptions } from './options'
import { passOver } from './passes'
import type { Weights } from './weighted'
import { pictured } from './worst'
import {
  batchOf,
  type Circumstances,
  type EvaluationOptions,
  type Ready,
  readyOf,
  readyWith,
  taskFor,
  type Unweighted,
} from './evaluable'
import { addAll, addAmongRanks, addBySize, type Running, type Sums } from './totals'

/**
 * The result of `evaluate`: loss, metrics, times and memory.
 *
 * @example const line = ({ loss, metrics, images }: Evaluated) => `${images} images: ${loss} ${JSON.stringify(metrics)}`
 */
export interface Evaluated extends Measured, Took {
  readonly model: string
  readonly images: number
  /** Mean loss over all images, or over all labels that are not ignored. */
  readonly loss: number
  /** Names of the classes; absent if neither the weights nor the data have them. */
  readonly classes?: readonly string[]
}

/** With details for a person, on request. */
type Seen = Evaluated & { readonly details?: Details }

const evaluated = (ready: Ready, sums: Sums, memory: PeakMemory): Evaluated => {
  const { metrics, ...rest } = sums.measuring.result()
  return {
    model: ready.staged.plan.graph.name,
    images: sums.images,
    loss: sums.shares === 0 ? 0 : sums.loss / sums.shares,
    metrics: Object.fromEntries(Object.entries(metrics).filter(([name]) => ready.measures.includes(name))),
    ...rest,
    ...(ready.classes ? { classes: ready.classes } : {}),
    ...tookOf(ready.staged, sums.took, memory.bytes()),
    arenaPeakBytes: sums.arenaPeakBytes,
  }
}

/** The data are looked at once more, for the samples that went worst. */
const seen =
  ({ data, staged, classes }: Ready, { watch }: Sums, result: Evaluated): (() => Promise<Seen>) =>
  async () => {
    if (!watch) return result
    const { perClass, confusion, images, budgetBytes, peakBytes, arenaPeakBytes, secondsPerStep, predictedSecondsPerStep } =
      result
    const details: Details = {
      ...(classes ? { classes } : {}),
      ...(perClass ? { perClass } : {}),
      ...(confusion ? { confusion } : {}),
      worst: await pictured(data, staged.plan.graph, watch),
      worstBy: watch.by,
      took: { images, budgetBytes, peakBytes, arenaPeakBytes, secondsPerStep, predictedSecondsPerStep },
    }
    return { ...result, details }
  }

/** An evaluation that may run repeatedly, with other weights each time: it is checked and planned once. */
export interface Evaluation {
  /** The names of its measurements, `loss` among them. */
  readonly measures: readonly string[]
  /** At a rank that does not lead the results of all are unknown. */
  readonly run: (weights: Weights) => TaskEither<SpillwayError, Seen>
  /** The identity of the data, if ranks compare it. */
  readonly content: string
  /** The plan for other ranks; or the reason why the leader evaluates alone. */
  readonly shared?: SharedEvaluation | { readonly alone: string } | undefined
}

const runEvaluation = (ready: Running): TaskEither<SpillwayError, Seen> =>
  using(
    () => {
      forgetPlanning()
      return E.right(new PeakMemory().start())
    },
    (memory) => memory.stop(),
    (memory) => {
      const { options: o, staged } = ready
      const sums: Sums = {
        measuring: ready.begun(),
        watch: ready.watched(),
        images: 0,
        loss: 0,
        shares: 0,
        arenaPeakBytes: 0,
        took: [],
      }
      const held = batchOf(staged) * ((o.prefetch ?? PREFETCH) + 2)
      const { rank, samples } = ready
      const isShared = rank !== undefined && samples !== undefined && aloneBecause(ready) === undefined
      return pipe(
        isShared
          ? addAmongRanks(ready, sums, rank, samples)
          : ready.sizes
            ? addBySize(ready, sums, ready.sizes)
            : addAll(ready, sums, passOver(ready.data, held)(samples)),
        TE.flatMapTask(() => {
          const result = evaluated(ready, sums, memory)
          return isShared && !isLeader(rank) ? async () => result : seen(ready, sums, result)
        }),
      )
    },
  )

/** Why one process alone can evaluate. */
const aloneBecause = ({ samples, data, sizes, options: { metrics } }: Ready): string | undefined => {
  const odd = unmerged(metrics)
  if (sizes) return 'the photos have their own sizes'
  if (odd !== undefined) return `metric '${odd}' has no merge function`
  return samples === undefined || data.set.kind === 'stream' ? 'the samples are a stream' : undefined
}

/** For the others: one plan, and one for the rest after full batches. */
const sharedOf = (ready: Ready, detailed: boolean): Either<SpillwayError, Evaluation['shared']> => {
  const { rank, staged, samples, task, output } = ready
  if (!rank) return E.right(undefined)
  const alone = aloneBecause(ready)
  if (alone !== undefined) return E.right({ alone })
  const left = samples! % batchOf(staged)
  return pipe(
    left === 0 ? E.right([]) : E.map((smaller: Staged) => [smaller])(ready.smallerOf(left)),
    E.map((smaller) => ({
      plans: [staged, ...smaller].map(({ plan }) => encodePlan(plan)),
      form: task.form,
      output,
      detailed,
    })),
  )
}

/** The evaluation that the leader has planned, at another rank: `machine` is that of its training. */
export const followedEvaluation = (
  { plans, form, output, detailed }: SharedEvaluation,
  machine: LocalMachine,
  options: Unweighted & Partial<Pick<EvaluationOptions, 'weights'>>,
  rank: Rank,
  classes?: KnownClasses,
): Either<SpillwayError, Evaluation> => {
  const { weights } = options
  const { data } = validationSet(options.data)
  const description = typeof weights === 'string' ? descriptionOf(weights) : undefined
  const given = asTheyAre(typeof data === 'string' ? dataAt(data) : data)
  return pipe(
    plans,
    E.traverseArray((text) => E.map((plan: Plan) => describePlan(plan, machine))(untrustedPlan(text))),
    E.flatMap(([staged, smaller = staged]) =>
      pipe(
        taskFor(lossBy(staged!.plan.graph)!, form as Form, output as Shape, staged!.plan.graph),
        E.flatMap((task) =>
          readyWith(
            {
              staged: staged!,
              task,
              output: output as Shape,
              options,
              data: takenFor(given, description, { modelScales: readsBytes(staged!.plan.graph) }).data,
              smallerOf: () => E.right(smaller!),
            },
            { detailed, rank, classes: classes ?? (description && classesOf(description)) },
          ),
        ),
      ),
    ),
    E.map((ready) => ({
      measures: ready.measures,
      content: ready.content,
      run: (weights) => runEvaluation({ ...ready, weights }),
    })),
  )
}

/**
 * Checks and plans an evaluation before it begins. `weights` may be in memory, of a run that trains. `detailed`: for people to look at.
 *
 * @example const evaluation = openEvaluation(net, plan, { weights: 'weights.safetensors', data: 'validation/' })
 */
export const openEvaluation = (
  model: Model,
  staged: Staged,
  o: Unweighted & Partial<EvaluationOptions>,
  how: Circumstances = {},
): Either<SpillwayError, Evaluation> =>
  pipe(
    readyOf(model, staged, o, how),
    E.bindTo('ready'),
    E.bind('shared', ({ ready }) => sharedOf(ready, how.detailed ?? false)),
    E.map(({ ready, shared }) => ({
      measures: ready.measures,
      content: ready.content,
      shared,
      run: (weights) => runEvaluation({ ...ready, weights }),
    })),
  )

/** The same as a task. @example evaluateTask(net, plan, { weights: session, data: 'validation/' }) */
export const evaluateTask = (model: Model, staged: Staged, o: EvaluationOptions): TaskEither<SpillwayError, Evaluated> =>
  pipe(
    TE.fromEither(givenBoth(model, staged)),
    TE.flatMapEither(() => openEvaluation(model, staged, o)),
    TE.flatMap(({ run }) => run(o.weights)),
  )

/**
 * Computes the mean loss and metrics of a model on data; each sample counts once. It rejects with a
 * `SpillwayException`, or with the reason of an aborted signal.
 *
 * @param model The model.
 * @param plan A plan with the mode 'evaluate'.
 * @param options Weights, data and metrics.
 * @example
 * const evaluation = stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(256) })
 * const { loss, metrics } = await evaluate(net, evaluation, { weights: 'weights.safetensors', data: 'validation/' })
 */
export const evaluate = async <P extends Staged, const O extends EvaluateOptions>(
  model: Model,
  plan: PlanFor<'evaluate', P>,
  options: Known<O, typeof EVALUATE_KEYS>,
): Promise<Evaluated> => answerOf(options as O)(await evaluateTask(model, plan as P, withNotes(options as O))())
