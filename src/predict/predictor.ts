// Predicting: a model's forward plan run over images, a batch at a time. In: a model, its plan (`mode: 'predict'`), weights, data. Out: files or
// arrays, and what it took. Invariant: the device holds what the plan says; the host two batches' outputs, or files for them where
// they are large. While a batch runs, the one before it is written.
// Worked example, five images in batches of two: three steps; the third sees the first image again in its second place, and drops it.
import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import { FORMS, predictionOf } from '../../dsl/prediction'
import { predictionGraph } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import type { Known } from '../../staging/core/options'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, type Value, valueBytes } from '../../staging/graph/graph'
import { type SpillwayError, usage } from '../errors/errors'
import { onFile, using } from '../errors/exceptions'
import { folderPlace } from '../files/places'
import { type DataFiles, openData } from '../files/samples'
import { PeakMemory } from '../machine/memory'
import { lacksOf } from '../stage/room'
import type { Staged } from '../stage/stage'
import { filesOf } from '../train/beforehand'
import { type DeviceSession, forgetPlanning, type RunMetrics } from '../train/device'
import { answerOf } from '../train/trainer'
import { inBatches, MOST_HELD_BYTES, outputOf, type Took, tookOf } from './batches'
import { PREDICT, type PredictOptions } from './options'
import { imageBytes, isOneFile, namesOf, type Outputs, type OutputShape, outputsTo, type Prediction, writeImage } from './outputs'
import { withWeights } from './weighted'

/** What was predicted, and what that took. */
export interface Predicted extends Took {
  readonly model: string
  readonly images: number
  /** Of one image's output. */
  readonly shape: readonly number[]
  /** The files, or else the outputs themselves. */
  readonly files: readonly string[]
  readonly outputs: readonly Prediction[]
}

const shapeOf = ({ shape, dtype }: Value, graph: Graph): OutputShape => {
  const [, c, h, w] = shape as readonly [number, number, number, number]
  const classes = graph.ops[graph.ops.length - 1]?.kind === 'argmax'
  return { type: dtype === 'bf16' ? 'f32' : dtype, shape: [c, h, w], classes }
}

/** The plan, if it is one of this model's predictions, of whatever form. */
const belongs = (model: Model, { plan: { graph }, machine }: Staged): Either<SpillwayError, void> => {
  const print = fingerprint(graph)
  const isOf = (form: Form): boolean =>
    pipe(
      predictionOf(model, form, graph.name),
      E.exists((forward) => fingerprint(predictionGraph(forward, machine)) === print),
    )
  return FORMS.some(isOf)
    ? E.right(undefined)
    : E.left(
        usage(`the plan was staged for model '${graph.name}', and this is another one, or another version of it: stage it again`),
      )
}

interface Ready {
  readonly staged: Staged
  readonly options: PredictOptions
  readonly output: Value
  readonly files: DataFiles
  readonly names: readonly string[]
}

/** The outputs have a place. */
export const outPlace = (out: string | undefined): Either<SpillwayError, void> =>
  out === undefined ? E.right(undefined) : folderPlace('output', isOneFile(out) ? dirname(resolve(out)) : out)

/** The files, and where what waits in files lies beside them, have room. */
const roomFor = (staged: Staged, output: Value, images: number, out: string | undefined): Either<SpillwayError, void> => {
  if (out === undefined) return E.right(undefined)
  const batch = valueBytes(output)
  const bytes = (images * batch) / output.shape[0]! + (batch > MOST_HELD_BYTES ? 2 * batch : 0)
  const lacks = lacksOf(staged, [{ what: 'outputs', path: out, bytes }])
  return lacks.length ? E.left(usage(`the plan cannot run here: ${lacks.join('; ')}`)) : E.right(undefined)
}

const readyOf = (model: Model | undefined, staged: Staged, options: PredictOptions): Either<SpillwayError, Ready> =>
  pipe(
    knownIn(PREDICT)(options),
    E.flatMap(() => readyFor(model, staged, options)),
  )

const readyFor = (model: Model | undefined, staged: Staged, options: PredictOptions): Either<SpillwayError, Ready> => {
  const { plan, machine } = staged
  const output = outputOf(plan.graph)
  if (!output) return E.left(usage("the plan is one of training: stage with mode: 'predict'"))
  if (plan.graph.values.some((v) => v.role === 'target'))
    return E.left(usage("the plan is one of evaluation: stage with mode: 'predict'"))
  if (machine.simulated) return E.left(usage(`a plan for machine '${machine.name}' cannot run here`))
  return pipe(
    model ? belongs(model, staged) : E.right(undefined),
    E.flatMap(() => outPlace(options.out)),
    E.flatMap(() => filesOf(options)(plan.graph)),
    E.flatMap(() => openData(options.data, plan.graph)),
    E.map((files) => ({ staged, options, output, files, names: namesOf([...files.values()][0]!) })),
    E.tap(({ names }) => roomFor(staged, output, names.length, options.out)),
  )
}

// ---------------------------------------------------------------- batches

/** Writes what each batch hands out; what a batch has beyond the images is dropped. */
const written = (ready: Ready, session: DeviceSession, outputs: Outputs): TaskEither<SpillwayError, readonly RunMetrics[]> => {
  const { staged, options, output, files, names } = ready
  const shape = shapeOf(output, staged.plan.graph)
  const batch = output.shape[0]!
  const images = names.length
  const bytes = imageBytes(shape)
  return inBatches({
    session,
    output,
    data: { kind: 'files', files, numbers: {} },
    steps: Math.ceil(images / batch),
    beside: options.out && resolve(isOneFile(options.out) ? options.out : `${options.out}/outputs`),
    take: (step, read) =>
      onFile(
        'output',
        options.out ?? 'memory',
      )(() => {
        for (let b = 0, i = (step - 1) * batch; b < batch && i < images; b++, i++)
          writeImage(shape, (at, n) => read(b * bytes + at, n), outputs.image(i))
        const done = Math.min(images, step * batch)
        if (done === images) outputs.end()
        options.onProgress?.(done, images)
        return E.right(true)
      }),
  })
}

// ---------------------------------------------------------------- the whole

const predicted = (
  { staged, output }: Ready,
  runs: readonly RunMetrics[],
  outputs: Outputs,
  images: number,
  processPeakBytes: number,
): Predicted => {
  const { shape, classes } = shapeOf(output, staged.plan.graph)
  return {
    model: staged.plan.graph.name,
    images,
    shape: classes ? shape.slice(1) : shape,
    files: outputs.written(),
    outputs: outputs.kept(),
    ...tookOf(staged, runs, processPeakBytes),
  }
}

const performed =
  (ready: Ready, memory: PeakMemory) =>
  (session: DeviceSession): TaskEither<SpillwayError, Predicted> =>
  async () => {
    const { options: o, staged, output, names } = ready
    const opened = onFile(
      'output',
      o.out ?? 'memory',
    )(() => {
      if (o.out !== undefined) mkdirSync(isOneFile(o.out) ? dirname(resolve(o.out)) : o.out, { recursive: true })
      return E.right(outputsTo(o.out, shapeOf(output, staged.plan.graph), names.length, (i) => names[i]!))
    })
    if (E.isLeft(opened)) return opened
    const outputs = opened.right
    let ended = false
    try {
      const runs = await written(ready, session, outputs)()
      ended = E.isRight(runs)
      return E.map((r: readonly RunMetrics[]) => predicted(ready, r, outputs, names.length, memory.bytes()))(runs)
    } finally {
      if (!ended) outputs.drop()
    }
  }

/** The same as a task: `model` is checked against the plan when it is given. */
export const predictTask = (model: Model | undefined, staged: Staged, o: PredictOptions): TaskEither<SpillwayError, Predicted> =>
  pipe(
    TE.fromIOEither(() => readyOf(model, staged, o)),
    TE.flatMap((ready) =>
      using(
        () => {
          forgetPlanning()
          return E.right(new PeakMemory().start())
        },
        (memory) => memory.stop(),
        (memory) => withWeights(staged, o.weights, o, performed(ready, memory)),
      ),
    ),
  )

/**
 * Runs a plan of predictions over images; rejects with a SpillwayException, or with the reason of the signal that ended it.
 *
 * @example
 * const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(256) })
 * const { files } = await predict(net, plan, { weights: 'weights.safetensors', data: 'images/', out: 'masks/' })
 */
export const predict = async <const O extends PredictOptions>(
  model: Model,
  plan: Staged,
  options: Known<O, typeof PREDICT>,
): Promise<Predicted> => answerOf(options as O)(await predictTask(model, plan, options as O)())
