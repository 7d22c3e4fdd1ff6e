// Evaluating: a model's loss and metrics over data, each sample once. In: a model, its plan (`mode: 'evaluate'`), weights, data. Out: the mean
// loss, metrics, and what it took. Invariant: what the last full batch leaves over has a plan of its own size in the same budget, so that
// no sample counts twice; metrics see what the plan hands out, some rows at a time.
// Worked example, five images in batches of two: two steps, then one of a plan for one image; the loss is (2a + 2b + c) / 5.
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Loss, Model } from '../../dsl'
import { evaluationOf, FORMS } from '../../dsl/prediction'
import { evaluationGraph } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import type { Known } from '../../staging/core/options'
import { fingerprint } from '../../staging/graph/fingerprint'
import { takesBytes, type Value, valueBytes } from '../../staging/graph/graph'
import { lossBy, lossEntry } from '../../staging/ops/loss'
import { asTheyAre, type Data } from '../data/data'
import { differencesFrom, takenFor } from '../data/description'
import { dataAt, fedOf } from '../data/open'
import { type SpillwayError, usage } from '../errors/errors'
import { onFile, using } from '../errors/exceptions'
import { PeakMemory } from '../machine/memory'
import { prepareEvaluation } from '../stage/prepare'
import type { Details } from '../report/run'
import type { Staged } from '../stage/stage'
import { dataOf, filesOf } from '../train/beforehand'
import { forgetPlanning, type RunMetrics } from '../train/device'
import { checkedLoading, descriptionOf, loadingOf } from '../train/loading'
import { PREFETCH } from '../train/options'
import { answerOf } from '../train/trainer'
import { inBatches, outputOf, type Read, type Took, tookOf } from './batches'
import { type Compared, detailedMetrics, type Measured, type Measuring, measuring, shareOf, type Task } from './metrics'
import { EVALUATE, type EvaluateOptions } from './options'
import { type Pass, passOver } from './passes'
import { resized } from './resized'
import { type TargetRows, targetsOf } from './targets'
import { type Weights, withWeights } from './weighted'
import { pictured, type Watch, watching } from './worst'

/** How good a model is on data, and what finding that out took. */
export interface Evaluated extends Measured, Took {
  readonly model: string
  readonly images: number
  /** The mean over all images; over all labels that are not ignored. */
  readonly loss: number
  /** The names of the classes, where the weights, or the data, name them. */
  readonly classes?: readonly string[]
}

/** An evaluation whose weights may also be in memory. */
export type EvaluationOptions = Omit<EvaluateOptions, 'weights'> & { readonly weights: Weights }
/** One whose weights are yet to come. */
export type Unweighted = Omit<EvaluationOptions, 'weights'>

// ---------------------------------------------------------------- what is evaluated

/** What a plan was staged with, if it is one of this model's evaluations. */
interface Subject {
  readonly model: Model
  readonly loss: Loss
  readonly form: Form
}

const subjectOf = (model: Model, { plan: { graph }, machine }: Staged): Either<SpillwayError, Subject> => {
  const loss = lossBy(graph)
  if (!outputOf(graph) || loss === undefined)
    return E.left(usage(`the plan is one of ${outputOf(graph) ? 'prediction' : 'training'}: stage with mode: 'evaluate'`))
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
    : E.left(
        usage(`the plan was staged for model '${graph.name}', and this is another one, or another version of it: stage it again`),
      )
}

/** Whether metrics can be made of what is handed out, before there is a plan. */
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

const taskOf = ({ loss, form, model }: Subject): Either<SpillwayError, Task> => {
  const [, channels, height, width] = model.output
  return pipe(
    lossEntry(loss),
    E.map((entry) => ({ loss, entry, form, channels, pixels: height * width })),
  )
}

const sizeOf = ({ model: { output } }: Subject): { readonly height: number; readonly width: number } => ({
  height: output[2]!,
  width: output[3]!,
})

interface Ready {
  readonly staged: Staged
  readonly subject: Subject
  readonly options: Unweighted
  readonly data: Data
  /** Samples, where that is known before they are gone through. */
  readonly samples: number | undefined
  /** Names of the classes, where the data have any. */
  readonly classes: readonly string[] | undefined
  readonly begun: () => Measuring
  /** The names of what is asked for, `loss` among them. */
  readonly measures: readonly string[]
  /** Looks for the worst samples, where somebody wants to see them. */
  readonly watched: () => Watch | undefined
  /** Plans for what full batches leave over, by its size. */
  readonly smaller: Map<number, Either<SpillwayError, Staged>>
}

const batchOf = ({ plan: { graph } }: Staged): number => graph.values.find((v) => v.role === 'input')!.shape[0]!

const smallerOf = ({ smaller, subject: { model, loss, form }, staged }: Ready, batch: number): Either<SpillwayError, Staged> => {
  const [, c, h, w] = model.input
  const known =
    smaller.get(batch) ??
    resized(model, staged, [batch, c, h, w], (m) =>
      prepareEvaluation(m, staged.machine, { loss, as: form, name: staged.plan.graph.name }),
    )
  smaller.set(batch, known)
  return known
}

const readyOf = (
  model: Model,
  staged: Staged,
  options: Unweighted & Partial<EvaluationOptions>,
  detailed: boolean,
): Either<SpillwayError, Ready> => {
  const { graph } = staged.plan
  const { weights, data, workers } = options
  return pipe(
    knownIn(EVALUATE)(options),
    E.flatMap(checkedLoading),
    E.flatMap(() => subjectOf(model, staged)),
    E.bindTo('subject'),
    E.tap(() =>
      staged.machine.simulated
        ? E.left(usage(`a plan for machine '${staged.machine.name}' cannot run here`))
        : E.right(undefined),
    ),
    E.bind('task', ({ subject }) => taskOf(subject)),
    E.bind('asked', ({ task }) => measuring(task, options.metrics)),
    E.bind('begun', ({ task, asked }) => (detailed ? measuring(task, detailedMetrics(task, options.metrics)) : E.right(asked))),
    E.let('description', () => (typeof weights === 'string' ? descriptionOf(weights) : undefined)),
    E.bind('data', ({ description }) => {
      if (data === undefined) return E.left(usage('evaluate needs data'))
      const taken = takenFor(asTheyAre(typeof data === 'string' ? dataAt(data) : data), description, takesBytes(graph))
      for (const text of taken.notes) options.onNote?.(text)
      return E.right(taken.data)
    }),
    E.tap(({ data }) =>
      filesOf({ data, workers, ...(typeof weights === 'string' ? { weights, ...loadingOf(options) } : {}) })(graph),
    ),
    E.bind('opened', ({ data }) => dataOf(graph, { data, workers }, false)),
    E.map(({ subject, task, asked, begun, data, opened, description }) => {
      const input = model.input.slice(1)
      const classes = description?.classes ?? opened.described.classes
      const now = { ...opened.described, model: graph.name, input }
      for (const text of description ? differencesFrom(description, now) : []) options.onNote?.(text)
      return {
        staged,
        subject,
        options,
        data,
        samples: opened.samples,
        begun,
        measures: ['loss', ...Object.keys(asked().result().metrics)],
        watched: () => (detailed ? watching(task, sizeOf(subject), classes) : undefined),
        classes,
        smaller: new Map(),
      }
    }),
  )
}

// ---------------------------------------------------------------- one plan's batches

const BAND_BYTES = 16 * 2 ** 20
const NUMBERS = { f32: Float32Array, f64: Float64Array, bf16: Float32Array, i32: Int32Array, u8: Uint8Array } as const

/** All of an image's rows, some at a time, with what they should have been. */
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
  took: readonly RunMetrics[]
}

/** Adds what a batch came to. */
const added = (
  { subject: { loss } }: Ready,
  sums: Sums,
  output: Value,
  target: (b: number) => TargetRows,
  read: Read,
): number => {
  const batch = output.shape[0]!
  const bytes = valueBytes(output) / batch
  const share = shareOf(loss, batch)
  for (let b = 0; b < batch; b++)
    eachPart(
      output,
      (at, n) => read(b * bytes + at, n),
      target(b),
      sums.images + b,
      (part) => {
        share.add(part)
        sums.measuring.add(part)
        sums.watch?.add(part)
      },
    )
  sums.images += batch
  return share.value()
}

interface Stretch {
  readonly staged: Staged
  readonly data: Data
  readonly steps: number
  /** Whether a step saw so many samples as its batch has: it counts, and there may be more. */
  readonly isFull: (step: number) => boolean
}

/** Where outputs wait that memory does not hold. */
const besideOf = ({ spill }: Unweighted): string => join(spill === undefined || spill === 'ram' ? tmpdir() : spill, 'outputs')

const over = (ready: Running, sums: Sums, { staged, data, steps, isFull }: Stretch): TaskEither<SpillwayError, void> => {
  const { options: o, samples, weights } = ready
  const { graph } = staged.plan
  const output = outputOf(graph)!
  return pipe(
    TE.fromEither(dataOf(graph, { data, workers: o.workers, prefetch: o.prefetch }, false)),
    TE.flatMap(({ source }) => {
      const targets = targetsOf(source, fedOf(graph).find((v) => !v.isInput)!)
      const take = (step: number, read: Read, took: RunMetrics): Either<SpillwayError, boolean> =>
        onFile(
          'data',
          'targets',
        )(() => {
          if (!isFull(step)) return E.right(false)
          const share = added(ready, sums, output, (b) => targets.of(step, b), read)
          sums.loss += took.losses[0]! * share
          sums.shares += share
          sums.took = [...sums.took, took]
          targets.drop(step)
          o.onProgress?.(sums.images, samples)
          return E.right(true)
        })
      return withWeights(staged, weights, o, (session) =>
        TE.asUnit(inBatches({ session, output, data: targets.data, steps, beside: besideOf(o), take })),
      )
    }),
  )
}

// ---------------------------------------------------------------- the whole

/** Full batches, and what they leave over. */
const passed = (ready: Running, sums: Sums, pass: Pass): TaskEither<SpillwayError, void> => {
  const { staged, samples } = ready
  const batch = batchOf(staged)
  const steps = samples === undefined ? Infinity : Math.floor(samples / batch)
  const isFull = (step: number): boolean => step * batch <= (pass.samples() ?? Infinity)
  const left = (): number => (pass.samples() ?? sums.images) - sums.images
  return pipe(
    // Planned before anything runs, where it is known how many are left.
    TE.fromEither(
      samples === undefined || samples % batch === 0 ? E.right(undefined) : E.asUnit(smallerOf(ready, samples % batch)),
    ),
    TE.flatMap(() => (steps > 0 ? over(ready, sums, { staged, data: pass.data, steps, isFull }) : TE.right(undefined))),
    TE.flatMap(() =>
      left() === 0
        ? TE.right(undefined)
        : pipe(
            TE.fromEither(smallerOf(ready, left())),
            TE.flatMap((smaller) =>
              over(ready, sums, { staged: smaller, data: pass.rest(left()), steps: 1, isFull: () => true }),
            ),
          ),
    ),
  )
}

/** With what a person wants to see of it, where somebody asked for that. */
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

/** An evaluation that may be run again and again, with other weights each time: what it needs is looked at, and planned, once. */
export interface Evaluation {
  /** The names of what it measures, `loss` among them. */
  readonly measures: readonly string[]
  readonly run: (weights: Weights) => TaskEither<SpillwayError, Seen>
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
      const sums: Sums = { measuring: ready.begun(), watch: ready.watched(), images: 0, loss: 0, shares: 0, took: [] }
      const held = batchOf(staged) * ((o.prefetch ?? PREFETCH) + 2)
      return pipe(
        passed(ready, sums, passOver(ready.data, held)(ready.samples)),
        TE.flatMapTask(() => seen(ready, sums, evaluated(ready, sums, memory))),
      )
    },
  )

/**
 * What an evaluation needs, looked at before it begins; `weights` may be in memory, of a run that trains. `detailed`: for people to look at.
 *
 * @example const evaluation = openEvaluation(net, plan, { weights: 'weights.safetensors', data: 'validation/' })
 */
export const openEvaluation = (
  model: Model,
  staged: Staged,
  o: Unweighted & Partial<EvaluationOptions>,
  detailed = false,
): Either<SpillwayError, Evaluation> =>
  pipe(
    readyOf(model, staged, o, detailed),
    E.map((ready) => ({
      measures: ready.measures,
      run: (weights) => performed({ ...ready, weights }),
    })),
  )

/** The same as a task. @example evaluateTask(net, plan, { weights: session, data: 'validation/' }) */
export const evaluateTask = (model: Model, staged: Staged, o: EvaluationOptions): TaskEither<SpillwayError, Evaluated> =>
  pipe(
    TE.fromIOEither(() => openEvaluation(model, staged, o)),
    TE.flatMap(({ run }) => run(o.weights)),
  )

/**
 * Measures a model on data: the mean loss and metrics, each sample once; rejects with a SpillwayException, or with the reason of the signal
 * that ended it.
 *
 * @example
 * const plan = stage(net, { mode: 'evaluate', loss: crossEntropy, budget: mib(256) })
 * const { loss, metrics } = await evaluate(net, plan, { weights: 'weights.safetensors', data: 'validation/' })
 */
export const evaluate = async <const O extends EvaluateOptions>(
  model: Model,
  plan: Staged,
  options: Known<O, typeof EVALUATE>,
): Promise<Evaluated> => answerOf(options as O)(await evaluateTask(model, plan, options as O)())
