// Predicting: a model's forward plan run over images, a batch at a time. In: a model, its plan (`mode: 'predict'`), weights, data. Out: files or
// arrays, and what it took. Invariant: the device holds what the plan says; the host two batches' outputs, or files for them where
// they are large. While a batch runs, the one before it is written.
// Worked example, five images in batches of two: three steps; the third sees the first image again in its second place, and drops it.
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import { FORMS, predictionOf } from '../../dsl/prediction'
import { predictionGraph } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { knownIn } from '../../staging/core/known'
import type { Known } from '../../staging/core/options'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, type Value, valueBytes } from '../../staging/graph/graph'
import type { NativeSink } from '../device/native'
import { type SpillwayError, usage } from '../errors/errors'
import { onFile, orThrow, using } from '../errors/exceptions'
import { folderPlace } from '../files/places'
import { type DataFiles, openData } from '../files/samples'
import { readRange, temporaryName, withFile } from '../files/whole'
import { PeakMemory } from '../machine/memory'
import { tierOf } from '../machine/tier'
import { lacksOf } from '../stage/room'
import type { Staged } from '../stage/stage'
import { filesOf } from '../train/beforehand'
import { type DeviceSession, forgetPlanning, openDevice, type RunMetrics } from '../train/device'
import { answerOf } from '../train/trainer'
import { loadWeights, modelState } from '../train/weights'
import { PREDICT, type PredictOptions } from './options'
import { imageBytes, isOneFile, namesOf, type Outputs, type OutputShape, outputsTo, type Prediction, writeImage } from './outputs'

/** What was predicted, and what that took. */
export interface Predicted {
  readonly model: string
  readonly images: number
  /** Of one image's output. */
  readonly shape: readonly number[]
  /** The files, or else the outputs themselves. */
  readonly files: readonly string[]
  readonly outputs: readonly Prediction[]
  readonly budgetBytes: number
  readonly peakBytes: number
  readonly arenaPeakBytes: number
  readonly processPeakBytes: number
  readonly bytesOut: number
  readonly bytesIn: number
  readonly diskBytes: number
  /** Of a batch: the median, and as the plan has it. */
  readonly secondsPerStep: number
  readonly predictedSecondsPerStep: number
}

/** The output of a plan that predicts. */
export const outputOf = ({ values }: Graph): Value | undefined => values.find((v) => v.role === 'output')

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

/** Outputs of a batch larger than this wait in a file, not in memory. */
const MOST_HELD_BYTES = 512 * 2 ** 20

/** Where a batch's outputs are until they are written. */
interface Place {
  readonly sink: NativeSink
  readonly read: (offset: number, bytes: number) => Uint8Array
  readonly remove: () => void
}

const placeFor = ({ output, options: { out } }: Ready): Place => {
  const bytes = valueBytes(output)
  if (out === undefined || bytes <= MOST_HELD_BYTES) {
    const held = new Uint8Array(bytes)
    return { sink: { [output.name]: held }, read: (at, n) => held.subarray(at, at + n), remove: () => {} }
  }
  const path = temporaryName(resolve(isOneFile(out) ? out : `${out}/outputs`))
  const read = (at: number, n: number): Uint8Array =>
    orThrow(withFile('output', path, (fd) => E.fromNullable('it ends before its last row')(readRange(fd, at, n))))
  return { sink: { [output.name]: { path } }, read, remove: () => rmSync(path, { force: true }) }
}

class Batches {
  private readonly places: readonly Place[]
  private readonly shape: OutputShape
  private readonly batch: number
  readonly steps: number
  readonly images: number

  constructor(
    private readonly ready: Ready,
    private readonly session: DeviceSession,
    private readonly outputs: Outputs,
  ) {
    this.places = [placeFor(ready), placeFor(ready)]
    this.shape = shapeOf(ready.output, ready.staged.plan.graph)
    this.batch = ready.output.shape[0]!
    this.images = ready.names.length
    this.steps = Math.ceil(this.images / this.batch)
  }

  private started(step: number): Promise<Either<SpillwayError, RunMetrics>> {
    return this.session.run({
      firstStep: step,
      steps: 1,
      seed: 0,
      last: this.steps,
      data: { kind: 'files', files: this.ready.files, numbers: {} },
      sink: this.places[step % 2]!.sink,
      onProgress: () => {},
    })
  }

  private write(step: number): Either<SpillwayError, void> {
    const { options } = this.ready
    const { read } = this.places[step % 2]!
    const bytes = imageBytes(this.shape)
    return onFile(
      'output',
      options.out ?? 'memory',
    )(() => {
      for (let b = 0, i = (step - 1) * this.batch; b < this.batch && i < this.images; b++, i++)
        writeImage(this.shape, (at, n) => read(b * bytes + at, n), this.outputs.image(i))
      options.onProgress?.(Math.min(this.images, step * this.batch), this.images)
      return E.right(undefined)
    })
  }

  /** Each batch runs while the one before it is written. */
  readonly run: TaskEither<SpillwayError, readonly RunMetrics[]> = async () => {
    const taken: RunMetrics[] = []
    let running = this.started(1)
    for (let step = 1; step <= this.steps; step++) {
      const done = await running
      if (E.isLeft(done)) return done
      taken.push(done.right)
      if (step < this.steps) running = this.started(step + 1)
      const written = this.write(step)
      if (E.isLeft(written)) {
        this.session.cancel()
        if (step < this.steps) await running
        return written
      }
    }
    this.outputs.end()
    return E.right(taken)
  }

  close(): void {
    this.places.forEach((p) => p.remove())
  }
}

// ---------------------------------------------------------------- the whole

const median = (xs: readonly number[]): number => [...xs].sort((a, b) => a - b)[xs.length >> 1] ?? 0

const predicted = (
  { staged, output }: Ready,
  runs: readonly RunMetrics[],
  outputs: Outputs,
  images: number,
  processPeakBytes: number,
): Predicted => {
  const { plan, timeline } = staged
  const sum = (of: (m: RunMetrics) => number): number => runs.reduce((n, m) => n + of(m), 0)
  const most = (of: (m: RunMetrics) => number): number => runs.reduce((n, m) => Math.max(n, of(m)), 0)
  const { shape, classes } = shapeOf(output, plan.graph)
  return {
    model: plan.graph.name,
    images,
    shape: classes ? shape.slice(1) : shape,
    files: outputs.written(),
    outputs: outputs.kept(),
    budgetBytes: plan.budgetBytes,
    peakBytes: bytesOf(plan.peakPages),
    arenaPeakBytes: most((m) => m.arenaPeakBytes),
    processPeakBytes,
    bytesOut: sum((m) => m.bytesOut),
    bytesIn: sum((m) => m.bytesIn),
    diskBytes: most((m) => m.diskBytes),
    secondsPerStep: median(runs.flatMap((m) => m.seconds)),
    predictedSecondsPerStep: timeline.makespanSeconds,
  }
}

/** A session that the signal ends, filled with the weights. */
const openedFor = ({ staged, options: o }: Ready): Either<SpillwayError, DeviceSession> =>
  pipe(
    openDevice(staged, { ...o, tier: tierOf(o.spill) }),
    E.tap((session) =>
      pipe(
        loadWeights(o.weights, modelState(staged.plan.graph), session),
        E.mapLeft((e) => {
          session.dispose()
          return e
        }),
        E.tap(({ extra }) => {
          if (extra.length)
            o.onNote?.(`${o.weights}: ${extra.length} tensors are not in the model: ${extra.slice(0, 5).join(', ')}`)
          o.signal?.addEventListener('abort', session.cancel)
          return E.right(undefined)
        }),
      ),
    ),
  )

const performed =
  (ready: Ready, memory: PeakMemory) =>
  (session: DeviceSession): TaskEither<SpillwayError, Predicted> =>
  async () => {
    const { options: o, staged, output, names } = ready
    if (o.signal?.aborted) return E.left({ tag: 'Cancelled', stepsDone: 0 })
    const opened = onFile(
      'output',
      o.out ?? 'memory',
    )(() => {
      if (o.out !== undefined) mkdirSync(isOneFile(o.out) ? dirname(resolve(o.out)) : o.out, { recursive: true })
      return E.right(outputsTo(o.out, shapeOf(output, staged.plan.graph), names.length, (i) => names[i]!))
    })
    if (E.isLeft(opened)) return opened
    const outputs = opened.right
    const batches = new Batches(ready, session, outputs)
    let ended = false
    try {
      const runs = await batches.run()
      ended = E.isRight(runs)
      return E.map((r: readonly RunMetrics[]) => predicted(ready, r, outputs, batches.images, memory.stop()))(runs)
    } finally {
      if (!ended) outputs.drop()
      batches.close()
    }
  }

/** The same as a task: `model` is checked against the plan when it is given. */
export const predictTask = (model: Model | undefined, staged: Staged, o: PredictOptions): TaskEither<SpillwayError, Predicted> =>
  pipe(
    TE.fromIOEither(() => readyOf(model, staged, o)),
    TE.flatMap((ready) => {
      forgetPlanning()
      const memory = new PeakMemory().start()
      return using(
        () => openedFor(ready),
        (session) => {
          o.signal?.removeEventListener('abort', session.cancel)
          session.dispose()
        },
        performed(ready, memory),
      )
    }),
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
