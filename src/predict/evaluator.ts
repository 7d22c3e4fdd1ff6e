// Evaluating: a model's loss and metrics over data, each sample once. In: a model, its plan (`mode: 'evaluate'`), weights, data. Out: the mean loss,
// metrics, and the measurements. Invariant: the rest after the last full batch has a plan of its own size in the same budget, so that no sample
// counts twice; metrics see the plan's output, some rows at a time. Ranks share batches (shares.ts). Worked example, five images in batches of two:
// two steps, then one of a plan for one image; the loss is (2a + 2b + c) / 5.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Loss, Model, Shape } from '../../dsl'
import { evaluationOf, FORMS } from '../../dsl/prediction'
import { evaluationGraph } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import type { Known } from '../../staging/core/options'
import { fingerprint } from '../../staging/graph/fingerprint'
import { takesBytes, type Value, valueBytes } from '../../staging/graph/graph'
import { lossBy, lossEntry } from '../../staging/ops/loss'
import { encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { asTheyAre, type Data, pick } from '../data/data'
import type { KnownClasses } from '../data/classes'
import { classesOf, differencesFrom, takenFor } from '../data/description'
import type { Size } from '../data/decode'
import { dataAt, fedOf, type OpenedData } from '../data/open'
import { validationSet } from '../data/sets'
import { sizesOfImages } from '../data/sizes'
import { type SpillwayError, usage } from '../errors/errors'
import { onFile, using } from '../errors/exceptions'
import type { LocalMachine } from '../machine/localmachine'
import { PeakMemory } from '../machine/memory'
import { leads, type Rank } from '../ranks/rank'
import { givenBoth } from '../stage/given'
import { untrustedPlan } from '../stage/planfile'
import { prepareEvaluation } from '../stage/prepare'
import type { Details } from '../report/run'
import { checkedMode, type PlanFor } from '../stage/mode'
import { describePlan, type Staged } from '../stage/stage'
import { dataOf, filesOf } from '../train/beforehand'
import { forgetPlanning, type RunMetrics } from '../train/device'
import { checkedLoading, descriptionOf, loadingOf } from '../train/loading'
import type { SharedEvaluation } from '../train/measured'
import { PREFETCH, withNotes } from '../train/options'
import { answerOf } from '../train/trainer'
import { inBatches, outputOf, type Read, type Took, tookOf } from './batches'
import { type Compared, detailedMetrics, type Measured, type Measuring, measuring, shareOf, type Task, unmerged } from './metrics'
import { EVALUATE, type EVALUATE_KEYS, type EvaluateOptions } from './options'
import { ignoringLoss, type SizeGroup, sizeGroups } from './ownsize'
import { type Pass, passOver } from './passes'
import { resized } from './resized'
import { meetingOf, ownBatches, type Unit } from './shares'
import { type TargetRows, targetsOf } from './targets'
import { type Weights, withWeights } from './weighted'
import { type Kept, pictured, type Watch, watching } from './worst'

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

/** An evaluation whose weights may also be in memory. */
export type EvaluationOptions = Omit<EvaluateOptions, 'weights'> & { readonly weights: Weights }
/** One whose weights are yet to come. */
export type Unweighted = Omit<EvaluationOptions, 'weights'>

// ---------------------------------------------------------------- what is evaluated

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

const taskOf = ({ loss, form, model: { output } }: Subject): Either<SpillwayError, Task> => taskFor(loss, form, output)

const taskFor = (loss: Loss, form: Form, [, channels, height, width]: Shape): Either<SpillwayError, Task> =>
  pipe(
    lossEntry(loss),
    E.map((entry) => ({ loss, entry, form, channels, pixels: height * width })),
  )

const sizeOf = ([, , height, width]: Shape): Size => ({ height, width })

interface Ready {
  readonly staged: Staged
  readonly task: Task
  /** The whole output of a batch. */
  readonly output: Shape
  readonly options: Unweighted
  readonly data: Data
  /** Samples, where that is known before they are gone through. */
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
  /** Who shares it. */
  readonly rank?: Rank | undefined
}

const batchOf = ({ plan: { graph } }: Staged): number => graph.values.find((v) => v.role === 'input')!.shape[0]!

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
interface OwnSizes {
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

const readyOf = (
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
    E.bind('task', ({ subject }) => taskOf(subject)),
    E.let('description', () => (typeof weights === 'string' ? descriptionOf(weights) : undefined)),
    E.bind('data', ({ description }) => {
      if (data === undefined) return E.left(usage('evaluate needs data'))
      const { data: set, note } = validationSet(data)
      const taken = takenFor(asTheyAre(typeof set === 'string' ? dataAt(set) : set), description, {
        modelScales: takesBytes(graph),
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

/** How an evaluation is gone about: by whom, and whether a person looks at it. */
interface Circumstances {
  readonly detailed?: boolean
  readonly rank?: Rank | undefined
  /** Class names that the labels must follow; without, those of the weights file. */
  readonly classes?: KnownClasses
}

/** Checks that the requested metrics can be made of the output, and that the data fit. */
const readyWith = (
  given: Pick<Ready, 'staged' | 'task' | 'output' | 'options' | 'data' | 'smallerOf' | 'sizes'>,
  { detailed = false, rank, classes: known }: Circumstances,
  namesOf: (opened: OpenedData) => readonly string[] | undefined = () => undefined,
): Either<SpillwayError, Ready> => {
  const { staged, task, output, options, data } = given
  return pipe(
    measuring(task, options.metrics),
    E.bindTo('asked'),
    E.bind('begun', ({ asked }) => (detailed ? measuring(task, detailedMetrics(task, options.metrics)) : E.right(asked))),
    E.bind('opened', () =>
      dataOf(
        staged.plan.graph,
        { data, workers: options.workers, strictData: options.strictData, classes: known },
        rank !== undefined,
      ),
    ),
    E.map(({ asked, begun, opened }) => {
      const classes = namesOf(opened) ?? opened.described.classes
      return {
        ...given,
        known,
        samples: opened.samples,
        content: opened.content,
        begun,
        measures: ['loss', ...Object.keys(asked().result().metrics)],
        watched: () => (detailed && !given.sizes ? watching(task, sizeOf(output), classes) : undefined),
        classes,
        rank,
      }
    }),
  )
}

// ---------------------------------------------------------------- one plan's batches

const BAND_BYTES = 16 * 2 ** 20
const NUMBERS = { f32: Float32Array, f64: Float64Array, bf16: Float32Array, i32: Int32Array, u8: Uint8Array } as const

/** All of an image's rows, some at a time, with their targets. */
const eachPart = (
  { shape, dtype }: Value,
  read: Read,
  target: TargetRows,
  image: number,
  see: (part: Compared) => void,
): void => {
  const [, channels, height, width] = shape as readonly [number, number, number, number]
  const Elements = NUMBERS[dtype]
  const rowBytes = channels * width * Elements.BYTES_PER_ELEMENT
  const most = Math.max(1, Math.floor(BAND_BYTES / rowBytes))
  for (let row = 0; row < height; row += most) {
    const rows = Math.min(most, height - row)
    const bytes = read(row * rowBytes, rows * rowBytes)
    const output = new Elements(bytes.buffer as ArrayBuffer, bytes.byteOffset, rows * width * channels)
    see({ image, rows, width, channels, output, target: target(row, rows) })
  }
}

interface Running extends Ready {
  readonly weights: Weights
}
interface Sums {
  readonly measuring: Measuring
  readonly watch: Watch | undefined
  images: number
  loss: number
  shares: number
  arenaPeakBytes: number
  took: readonly RunMetrics[]
}

/** The results of a batch, whose first image is `first`. */
const unitOf = (
  { task: { loss } }: Ready,
  { measuring, watch }: Sums,
  output: Value,
  first: number,
  target: (b: number) => TargetRows,
  read: Read,
  took: RunMetrics,
): Unit => {
  const batch = output.shape[0]!
  const bytes = valueBytes(output) / batch
  const share = shareOf(loss, batch)
  const folds: (readonly unknown[])[] = []
  for (let b = 0; b < batch; b++) {
    eachPart(
      output,
      (at, n) => read(b * bytes + at, n),
      target(b),
      first + b,
      (part) => {
        share.add(part)
        measuring.add(part)
        watch?.add(part)
      },
    )
    folds.push(measuring.image())
  }
  return { images: batch, loss: took.losses[0]!, share: share.value(), folds, arenaPeakBytes: took.arenaPeakBytes }
}

/** Adds the results of batches, in their order. */
const settling =
  ({ options, samples }: Ready, sums: Sums) =>
  ({ images, loss, share, folds, arenaPeakBytes }: Unit): void => {
    folds.forEach(sums.measuring.fold)
    sums.images += images
    sums.loss += loss * share
    sums.shares += share
    sums.arenaPeakBytes = Math.max(sums.arenaPeakBytes, arenaPeakBytes)
    options.onProgress?.(sums.images, samples)
  }

interface Stretch {
  readonly staged: Staged
  readonly data: Data
  readonly steps: number
  /** Returns true for a step with a full batch: it counts, and there may be more. */
  readonly isFull: (step: number) => boolean
  /** The first image of a step, in the data. */
  readonly first: (step: number) => number
  /** Receives the results of a step. */
  readonly take: (unit: Unit) => Either<SpillwayError, void> | Promise<Either<SpillwayError, void>>
}

/** The folder for outputs that exceed memory. */
const besideOf = ({ spill }: Unweighted): string => join(spill === undefined || spill === 'ram' ? tmpdir() : spill, 'outputs')

const over = (
  ready: Running,
  sums: Sums,
  { staged, data, steps, isFull, first, take: taken }: Stretch,
): TaskEither<SpillwayError, void> => {
  const { options: o, weights, known: classes } = ready
  const { graph } = staged.plan
  const output = outputOf(graph)!
  return pipe(
    TE.fromEither(dataOf(graph, { data, workers: o.workers, prefetch: o.prefetch, classes }, false)),
    TE.flatMap(({ source }) => {
      const targets = targetsOf(source, fedOf(graph).find((v) => !v.isInput)!)
      const take = async (step: number, read: Read, took: RunMetrics): Promise<Either<SpillwayError, boolean>> => {
        if (!isFull(step)) return E.right(false)
        const unit = onFile(
          'data',
          'targets',
        )(() => E.right(unitOf(ready, sums, output, first(step), (b) => targets.of(step, b), read, took)))
        if (E.isLeft(unit)) return unit
        sums.took = [...sums.took, took]
        targets.drop(step)
        return E.map(() => true)(await taken(unit.right))
      }
      return withWeights(staged, weights, o, (session) =>
        TE.asUnit(inBatches({ session, output, data: targets.data, steps, beside: besideOf(o), signal: o.signal, take })),
      )
    }),
  )
}

// ---------------------------------------------------------------- the whole

/** Full batches, and the rest after them. */
const passed = (ready: Running, sums: Sums, pass: Pass): TaskEither<SpillwayError, void> => {
  const { staged, samples } = ready
  const batch = batchOf(staged)
  const steps = samples === undefined ? Infinity : Math.floor(samples / batch)
  const isFull = (step: number): boolean => step * batch <= (pass.samples() ?? Infinity)
  const left = (): number => (pass.samples() ?? sums.images) - sums.images
  const settle = settling(ready, sums)
  const take = (unit: Unit): Either<SpillwayError, void> => E.right(settle(unit))
  const first = (): number => sums.images
  return pipe(
    // Planned before anything runs, where it is known how many are left.
    TE.fromEither(
      samples === undefined || samples % batch === 0 ? E.right(undefined) : E.asUnit(ready.smallerOf(samples % batch)),
    ),
    TE.flatMap(() =>
      steps > 0 ? over(ready, sums, { staged, data: pass.data, steps, isFull, first, take }) : TE.right(undefined),
    ),
    TE.flatMap(() =>
      left() === 0
        ? TE.right(undefined)
        : pipe(
            TE.fromEither(ready.smallerOf(left())),
            TE.flatMap((smaller) =>
              over(ready, sums, { staged: smaller, data: pass.rest(left()), steps: 1, isFull: () => true, first, take }),
            ),
          ),
    ),
  )
}

/** The batches of each size; a group smaller than a batch has a plan of its own batch. */
const passedBySize = (ready: Running, sums: Sums, { groups, planOf }: OwnSizes): TaskEither<SpillwayError, void> => {
  const { data, staged } = ready
  const settle = settling(ready, sums)
  const stretch = (places: readonly number[], batch: number, size: Size): TaskEither<SpillwayError, void> =>
    places.length === 0
      ? TE.right(undefined)
      : pipe(
          TE.fromEither(planOf(batch, size)),
          TE.flatMap((planned) =>
            over(ready, sums, {
              staged: planned,
              data: pick(data, places),
              steps: places.length / batch,
              isFull: () => true,
              first: (step) => places[(step - 1) * batch]!,
              take: (unit) => E.right(settle(unit)),
            }),
          ),
        )
  const group = ({ places, size }: SizeGroup): TaskEither<SpillwayError, void> => {
    const batch = Math.min(batchOf(staged), places.length)
    const full = places.length - (places.length % batch)
    return pipe(
      stretch(places.slice(0, full), batch, size),
      TE.flatMap(() => stretch(places.slice(full), places.length - full, size)),
    )
  }
  return pipe(groups, TE.flatMap(TE.traverseSeqArray(group)), TE.asUnit)
}

/** The samples of some batches. */
const samplesOf = (batches: readonly number[], batch: number): readonly number[] =>
  batches.flatMap((k) => Array.from({ length: batch }, (_, b) => k * batch + b))

/** A rank's batches; rank 0 knows the results of all. */
const passedAmong = (ready: Running, sums: Sums, rank: Rank, samples: number): TaskEither<SpillwayError, void> => {
  const { staged, data } = ready
  const batch = batchOf(staged)
  const { full, left, rounds } = ownBatches(samples, batch, rank)
  const meeting = meetingOf(rank, settling(ready, sums))
  const take = (unit: Unit): Promise<Either<SpillwayError, void>> => {
    rank.pace.seconds = Math.max(rank.pace.seconds, sums.took.at(-1)!.seconds[0] ?? 0)
    return meeting.round(unit)
  }
  const isFull = (): boolean => true
  const rest = Array.from({ length: left }, (_, i) => samples - left + i)
  return pipe(
    full.length > 0
      ? over(ready, sums, {
          staged,
          data: pick(data, samplesOf(full, batch)),
          steps: full.length,
          isFull,
          first: (step) => full[step - 1]! * batch,
          take,
        })
      : TE.right(undefined),
    TE.flatMap(() =>
      left === 0
        ? full.length < rounds
          ? (): Promise<Either<SpillwayError, void>> => meeting.round()
          : TE.right(undefined)
        : pipe(
            TE.fromEither(ready.smallerOf(left)),
            TE.flatMap((smaller) =>
              over(ready, sums, { staged: smaller, data: pick(data, rest), steps: 1, isFull, first: () => rest[0]!, take }),
            ),
          ),
    ),
    TE.orElse((e) => (e.tag === 'Cancelled' ? TE.flatMap(() => TE.left(e))(meeting.leave) : TE.left(e))),
    TE.flatMap(() => () => meeting.counted({ counts: sums.measuring.counts(), worst: sums.watch?.worst() ?? [] })),
    TE.tapIO((others) => () => {
      for (const { counts, worst } of others) {
        sums.measuring.join(counts)
        sums.watch?.join(worst as readonly Kept[])
      }
    }),
    TE.asUnit,
  )
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

const performed = (ready: Running): TaskEither<SpillwayError, Seen> =>
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
          ? passedAmong(ready, sums, rank, samples)
          : ready.sizes
            ? passedBySize(ready, sums, ready.sizes)
            : passed(ready, sums, passOver(ready.data, held)(samples)),
        TE.flatMapTask(() => {
          const result = evaluated(ready, sums, memory)
          return isShared && !leads(rank) ? async () => result : seen(ready, sums, result)
        }),
      )
    },
  )

// ---------------------------------------------------------------- among ranks

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
        taskFor(lossBy(staged!.plan.graph)!, form as Form, output as Shape),
        E.flatMap((task) =>
          readyWith(
            {
              staged: staged!,
              task,
              output: output as Shape,
              options,
              data: takenFor(given, description, { modelScales: takesBytes(staged!.plan.graph) }).data,
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
      run: (weights) => performed({ ...ready, weights }),
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
      run: (weights) => performed({ ...ready, weights }),
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
