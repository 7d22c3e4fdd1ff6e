// Checks before an evaluation. In: a model, its plan and the options. Out: the metrics, the data and the plans of an evaluation that can
// run, or the refusal of the first option that does not fit. Invariant: each plan of another batch or size is made once.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Loss, Model, Shape } from '../../dsl'
import { evaluationOf, FORMS } from '../../dsl/prediction'
import { evaluationGraph } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, readsBytes } from '../../staging/graph/graph'
import { lossBy } from '../../staging/ops/lossofgraph'
import { lossEntry } from '../../staging/ops/losscalls'
import { asTheyAre, type Data } from '../data/data'
import type { KnownClasses } from '../data/classes'
import { classesOf, differencesFrom, takenFor } from '../data/description'
import type { Size } from '../data/decode'
import { dataAt } from '../data/open'
import type { OpenedData } from '../data/source'
import { validationSet } from '../data/sets'
import { sizesOfImages } from '../data/sizes'
import { type SpillwayError, usage } from '../errors/errors'
import type { Rank } from '../ranks/rank'
import { prepareEvaluation } from '../stage/prepare'
import { checkedMode } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { dataOf, filesOf } from '../train/beforehand'
import { checkedLoading, descriptionOf, loadingOf } from '../train/loading'
import { isMarked } from './inside'
import { detailedMetrics, type Task } from './metricnames'
import type { Measuring } from './measured'
import { measuring } from './metrics'
import { EVALUATE, type EvaluateOptions } from './options'
import { ignoringLoss, type SizeGroup, sizeGroups } from './ownsize'
import { resized } from './resized'
import type { Weights } from './weighted'
import { type Watch, watching } from './worst'

/** An evaluation whose weights may also be in memory. */
export type EvaluationOptions = Omit<EvaluateOptions, 'weights'> & { readonly weights: Weights }

/** One whose weights are yet to come. */
export type Unweighted = Omit<EvaluationOptions, 'weights'>

/** The facts of a plan, if it is one of this model's evaluations. */
interface Subject {
  readonly model: Model
  readonly loss: Loss
  readonly form: Form
}

const subjectOf = (model: Model, { plan: { graph }, machine }: Staged): Either<SpillwayError, Subject> => {
  const mode = checkedMode({ plan: { graph } }, 'evaluate')
  if (E.isLeft(mode)) return mode
  const loss = lossBy(graph)!
  const print = fingerprint(graph)
  const form = FORMS.find((f) =>
    pipe(
      evaluationOf(model, loss, f, graph.name),
      E.chain((step) => evaluationGraph(step, machine)),
      E.exists((g) => fingerprint(g) === print),
    ),
  )
  return form
    ? E.right({ model, loss, form })
    : E.left(usage(`the plan is for model '${graph.name}', but this model differs: stage it again`))
}

/** Checks that metrics can be made of the output, before there is a plan. */
export const checkedMetrics = (
  model: Model,
  loss: Loss,
  form: Form,
  metrics: EvaluateOptions['metrics'],
): Either<SpillwayError, unknown> =>
  pipe(
    taskOf({ model, loss, form }),
    E.flatMap((task) => measuring(task, metrics)),
  )

/** Without a graph, before there is a plan. */
const taskOf = ({ loss, form, model: { output } }: Subject, graph?: Graph): Either<SpillwayError, Task> =>
  taskFor(loss, form, output, graph)

export const taskFor = (loss: Loss, form: Form, [, channels, height, width]: Shape, graph?: Graph): Either<SpillwayError, Task> =>
  pipe(
    lossEntry(loss),
    E.map((entry) => ({ loss, entry, form, channels, pixels: height * width, isMasked: graph !== undefined && isMarked(graph) })),
  )

const sizeOf = ([, , height, width]: Shape): Size => ({ height, width })

export interface Ready {
  readonly staged: Staged
  readonly task: Task
  /** The whole output of a batch. */
  readonly output: Shape
  readonly options: Unweighted
  readonly data: Data
  /** Samples, where that is known before they are read. */
  readonly samples: number | undefined
  /** Names of the classes, where the data have any. */
  readonly classes: readonly string[] | undefined
  /** Class names that the labels follow. */
  readonly known: KnownClasses
  readonly begun: () => Measuring
  /** The names of the requested metrics, `loss` among them. */
  readonly measures: readonly string[]
  /** Looks for the worst samples, where somebody wants to see them. */
  readonly watched: () => Watch | undefined
  /** Plans for the rest after full batches, by its size. */
  readonly smallerOf: (batch: number) => Either<SpillwayError, Staged>
  /** Present if photos keep their own size. */
  readonly sizes?: OwnSizes | undefined
  /** The identity of the data, if ranks compare it. */
  readonly content: string
  /** The rank of this process, if ranks share the evaluation. */
  readonly rank?: Rank | undefined
}

export const batchOf = ({ plan: { graph } }: Staged): number => graph.values.find((v) => v.role === 'input')!.shape[0]!

/** Plans of a batch and a size; each is made once. */
type PlanOf = (batch: number, size: Size) => Either<SpillwayError, Staged>

const plansOf = ({ model, loss, form }: Subject, staged: Staged): PlanOf => {
  const made = new Map<string, Either<SpillwayError, Staged>>()
  return (batch, { height, width }) => {
    const key = `${batch} ${height} ${width}`
    const known =
      made.get(key) ??
      resized(model, staged, [batch, model.input[1], height, width], (m) =>
        prepareEvaluation(m, staged.machine, { loss, as: form, name: staged.plan.graph.name }),
      )
    made.set(key, known)
    return known
  }
}

/** Photos at their own size: their groups, and the plans of these. */
export interface OwnSizes {
  readonly groups: TaskEither<SpillwayError, readonly SizeGroup[]>
  readonly planOf: PlanOf
}

const ownSizes = ({ model, loss }: Subject, planOf: PlanOf, { set, parts }: Data, classes: KnownClasses): OwnSizes | undefined =>
  set.kind !== 'images' || set.fit !== 'own'
    ? undefined
    : {
        groups: pipe(
          sizesOfImages(set, parts, classes),
          TE.flatMapEither((sizes) => sizeGroups(model, loss, sizes)),
        ),
        planOf,
      }

const keepsSizes = (data: string | Data | undefined): boolean =>
  typeof data === 'object' && data.set.kind === 'images' && data.set.fit === 'own'

/** The process that evaluates, and the kind of its result. */
export interface Circumstances {
  readonly detailed?: boolean
  readonly rank?: Rank | undefined
  /** Class names that the labels must follow; without, those of the weights file. */
  readonly classes?: KnownClasses
}

export const readyOf = (
  model: Model,
  staged: Staged,
  options: Unweighted & Partial<EvaluationOptions>,
  { detailed = false, rank, classes }: Circumstances,
): Either<SpillwayError, Ready> => {
  const { graph } = staged.plan
  const { weights, data } = options
  return pipe(
    knownIn(EVALUATE)(options),
    E.flatMap(checkedLoading),
    E.flatMap(() => subjectOf(model, staged)),
    E.map((subject) => (keepsSizes(data) ? { ...subject, loss: ignoringLoss(subject.loss) } : subject)),
    E.bindTo('subject'),
    E.tap(() =>
      staged.machine.simulated
        ? E.left(usage(`a plan for the simulated machine '${staged.machine.name}' cannot run`))
        : E.right(undefined),
    ),
    E.bind('task', ({ subject }) => taskOf(subject, graph)),
    E.let('description', () => (typeof weights === 'string' ? descriptionOf(weights) : undefined)),
    E.bind('data', ({ description }) => {
      if (data === undefined) return E.left(usage('evaluate needs data'))
      const { data: set, note } = validationSet(data)
      const taken = takenFor(asTheyAre(typeof set === 'string' ? dataAt(set) : set), description, {
        modelScales: readsBytes(graph),
      })
      for (const text of [...(note === undefined ? [] : [note]), ...taken.notes]) options.onNote?.(text)
      return E.right(taken.data)
    }),
    E.tap(({ data }) =>
      filesOf({
        data,
        workers: options.workers,
        strictData: options.strictData,
        classes,
        ...(typeof weights === 'string' ? { weights, ...loadingOf(options) } : {}),
      })(graph),
    ),
    E.let('planOf', ({ subject }) => plansOf(subject, staged)),
    E.let('known', ({ description }) => classes ?? (description && classesOf(description))),
    E.bind('ready', ({ task, data, subject, description, planOf, known }) =>
      readyWith(
        {
          staged,
          task,
          output: model.output,
          options,
          data,
          smallerOf: (batch) => planOf(batch, sizeOf(model.input)),
          sizes: ownSizes(subject, planOf, data, known),
        },
        { detailed, rank, classes: known },
        ({ notes }) => {
          const now = { model: graph.name, input: model.input.slice(1) }
          for (const text of [...(description ? differencesFrom(description, now) : []), ...notes]) options.onNote?.(text)
          return description?.classes
        },
      ),
    ),
    E.map(({ ready }) => ready),
  )
}

/** Checks that the requested metrics can be made of the output, and that the data fit. */
export const readyWith = (
  given: Pick<Ready, 'staged' | 'task' | 'output' | 'options' | 'data' | 'smallerOf' | 'sizes'>,
  { detailed = false, rank, classes: known }: Circumstances,
  namesOf: (opened: OpenedData) => readonly string[] | undefined = () => undefined,
): Either<SpillwayError, Ready> => {
  const { staged, task, output, options, data } = given
  return pipe(
    measuring(task, options.metrics),
    E.bindTo('requested'),
    E.bind('begun', ({ requested }) => (detailed ? measuring(task, detailedMetrics(task, options.metrics)) : E.right(requested))),
    E.bind('opened', () =>
      dataOf(
        staged.plan.graph,
        { data, workers: options.workers, strictData: options.strictData, classes: known },
        rank !== undefined,
      ),
    ),
    E.map(({ requested, begun, opened }) => {
      const classes = namesOf(opened) ?? opened.described.classes
      return {
        ...given,
        known,
        samples: opened.samples,
        content: opened.content,
        begun,
        measures: ['loss', ...Object.keys(requested().result().metrics)],
        watched: () => (detailed && !given.sizes ? watching(task, sizeOf(output), classes) : undefined),
        classes,
        rank,
      }
    }),
  )
}
