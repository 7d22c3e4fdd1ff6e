// Predicting: a model's forward plan run over images, a batch at a time. In: a model, its plan (`mode: 'predict'`), weights, data. Out: files or
// arrays, and the measurements. Invariant: the device holds the plan's bytes, and images of another size have a plan of their own in the same budget.
// While a batch runs, the one before it is written. Worked example, five images in batches of two: three steps; the third sees the first image again
// in its second place, and drops it.
import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import { bytesOf } from '../../staging/core/bytes'
import type { Known } from '../../staging/core/options'
import { looked } from '../data/sizes'
import type { SpillwayError } from '../errors/errors'
import { onFile, using } from '../errors/exceptions'
import { PeakMemory } from '../machine/memory'
import { givenBoth } from '../stage/given'
import type { PlanFor } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { type DeviceSession, forgetPlanning, type RunMetrics } from '../train/device'
import { withNotes } from '../train/options'
import { answerOf } from '../train/trainer'
import { inBatches, type Took, tookOf } from './batches'
import type { PREDICT_KEYS, PredictOptions } from './options'
import { imageBytes, isOneFile, mostHeld, numbersIn, type Outputs, outputsTo, type Prediction, writeImage } from './outputs'
import { allClasses, type Ranked, rankedOf } from './ranked'
import { writtenTileMaps } from './tilemaps'
import { withWeights } from './weighted'
import { factsOfOutput, type Group, isPerImage, shapeIn, shapeOf } from './group'
import { type Ready, readyOf } from './ready'

/**
 * The result of `predict`: outputs or files, times and memory.
 *
 * @example const line = ({ images, shape }: Predicted) => `${images} images, each ${shape.join('×')}`
 */
export interface Predicted extends Took {
  readonly model: string
  readonly images: number
  /** Sizes of the output of one image. */
  readonly shape: readonly number[]
  /** Names of the files that were written. */
  readonly files: readonly string[]
  readonly outputs: readonly Prediction[]
  /** Names of the classes; absent if the weights have none. */
  readonly classes?: readonly string[]
  /** Name of the class of each image, for outputs with one class, or the most probable one. */
  readonly labels?: readonly string[]
  /** The best classes of each image with their confidence, for probabilities with one result per image. */
  readonly ranked?: readonly Ranked[]
}

/** Reports a number of further written images. */
export type Counted = (images: number) => Promise<Either<SpillwayError, void>>

/** Waits for files that are still written; refusals are values. */
const settling = (outputs: Outputs): Promise<Either<SpillwayError, void>> =>
  looked(async () => {
    await outputs.settled?.()
  })()

/** Writes the output of each batch; the surplus of the last one is dropped. */
const written = (
  { staged, output, data, names, cuts }: Group,
  { out, signal, format }: PredictOptions,
  counted: Counted,
  session: DeviceSession,
  outputs: Outputs,
  see: (image: number, value: Uint8Array) => void,
): TaskEither<SpillwayError, readonly RunMetrics[]> => {
  const shape = shapeOf(output, staged.plan.graph)
  const batch = output.shape[0]!
  const bytes = imageBytes(shape)
  /** Outputs of each image. */
  const outputsOf: number[][] = names.map(() => [])
  cuts.forEach(({ image }, i) => outputsOf[image]!.push(i))
  return inBatches({
    session,
    output,
    data,
    steps: Math.ceil(names.length / batch),
    beside: out && resolve(isOneFile(out) ? out : `${out}/outputs`),
    mostHeld: mostHeld(format),
    signal,
    take: async (step, read) => {
      const done = onFile(
        'output',
        out ?? 'memory',
      )(() => {
        for (let b = 0, i = (step - 1) * batch; b < batch && i < names.length; b++, i++) {
          const seen = (at: number, n: number): Uint8Array => {
            const band = read(b * bytes + at, n)
            see(i, band)
            return band
          }
          for (const at of outputsOf[i]!) writeImage(shape, cuts[at]!, seen, outputs.image(at))
        }
        return E.right(Math.min(names.length, step * batch) - (step - 1) * batch)
      })
      if (E.isLeft(done)) return done
      const settled = await settling(outputs)
      return E.isLeft(settled) ? settled : E.map(() => true)(await counted(done.right))
    },
  })
}

// ---------------------------------------------------------------- the whole

/** The results of a group. */
export interface Done {
  readonly group: Group
  readonly outputs: Outputs
  readonly runs: readonly RunMetrics[]
  /** For outputs of one class each. */
  readonly labels: readonly string[]
  readonly ranked: readonly Ranked[]
}

/** Groups ran one after the other; the results of each image have the image's place. */
export const predicted = (done: readonly Done[], classes: readonly string[] | undefined, processPeakBytes: number): Predicted => {
  const [{ group }] = done as readonly [Done, ...Done[]]
  const { shape, classes: isClasses } = shapeIn(group, 0)
  const [labels, ranked] = [done.flatMap((d) => d.labels), done.flatMap((d) => d.ranked)]
  const sorted = <A>(found: readonly { readonly a: A; readonly at: number }[]): readonly A[] =>
    [...found].sort((x, y) => x.at - y.at).map(({ a }) => a)
  /** A fact of each image. */
  const inOrder = <A>(of: (d: Done) => readonly A[]): readonly A[] =>
    sorted(done.flatMap((d) => of(d).map((a, i) => ({ a, at: d.group.at[i]! }))))
  /** Files and maps beside them, or arrays: those of an image are in the order of its slides. */
  const ofOutputs = <A>(of: (d: Done) => readonly A[]): readonly A[] =>
    sorted(
      done.flatMap((d) => {
        const { at, cuts } = d.group
        return of(d).map((a, i) => ({ a, at: i < cuts.length ? at[cuts[i]!.image]! : Number.POSITIVE_INFINITY }))
      }),
    )
  const files = (d: Done): readonly string[] => d.outputs.written()
  return {
    model: group.staged.plan.graph.name,
    images: done.reduce((n, d) => n + d.group.names.length, 0),
    shape: isClasses ? shape.slice(1) : shape,
    ...(classes ? { classes } : {}),
    ...(labels.length > 0 ? { labels: inOrder((d) => d.labels) } : {}),
    ...(ranked.length > 0 ? { ranked: inOrder((d) => d.ranked) } : {}),
    files: ofOutputs(files),
    outputs: ofOutputs((d) => d.outputs.kept()),
    ...tookOf(
      group.staged,
      done.flatMap((d) => d.runs),
      processPeakBytes,
    ),
    peakBytes: Math.max(...done.map((d) => bytesOf(d.group.staged.plan.peakPages))),
  }
}

const runGroup =
  (group: Group, o: PredictOptions, counted: Counted, classes: readonly string[] = [], form?: Form) =>
  (session: DeviceSession): TaskEither<SpillwayError, Done> =>
  async () => {
    const { staged, output, cuts, files, pictureOf, tileOf } = group
    const whole = shapeOf(output, staged.plan.graph)
    const isOne = isPerImage(staged.plan.graph)
    const ranked =
      form === 'probabilities' && isOne
        ? (i: number, values: ArrayLike<number>): Ranked => rankedOf(files[i]!, values, classes, tileOf?.(group.at[i]!))
        : undefined
    const opened = onFile(
      'output',
      o.out ?? 'memory',
    )(() => {
      if (o.out !== undefined) mkdirSync(isOneFile(o.out) ? dirname(resolve(o.out)) : o.out, { recursive: true })
      return E.right(
        outputsTo({
          out: o.out,
          shapeOfImage: (i) => shapeIn(group, i),
          images: cuts.length,
          nameOf: (i) => cuts[i]!.name,
          format: o.format,
          classes,
          pictureOf: pictureOf && ((i) => pictureOf(group.at[cuts[i]!.image]!)),
          factsOf: (i) => factsOfOutput(group, i),
          form,
          ranked,
          areTiles: tileOf !== undefined,
        }),
      )
    })
    if (E.isLeft(opened)) return opened
    const outputs = opened.right
    let ended = false
    const isNamed = whole.classes && classes.length > 0 && isOne
    const [labels, best]: [string[], Ranked[]] = [[], []]
    const seen = (image: number, value: Uint8Array): void => {
      if (isNamed) {
        const label = new DataView(value.buffer, value.byteOffset).getInt32(0, true)
        labels[image] = classes[label] ?? String(label)
      }
      if (!ranked) return
      best[image] = ranked(image, numbersIn(whole, value))
      labels[image] = best[image].class
    }
    try {
      const runs = await written(group, o, counted, session, outputs, seen)()
      const answer = E.flatMap((r: readonly RunMetrics[]) =>
        onFile(
          'output',
          o.out ?? 'memory',
        )(() => {
          outputs.end()
          const maps =
            tileOf && o.out !== undefined && isOneFile(o.out)
              ? writtenTileMaps(o.out, best, (i) => tileOf(group.at[i]!), allClasses(whole.shape[0], classes))
              : []
          const written = (): readonly string[] => [...outputs.written(), ...maps]
          return E.right({ group, outputs: { ...outputs, written }, runs: r, labels, ranked: best })
        }),
      )(runs)
      const settled = await settling(outputs)
      if (E.isLeft(settled)) return settled
      ended = E.isRight(answer)
      return answer
    } finally {
      if (!ended) outputs.drop()
    }
  }

/** Runs work in a session with the weights of the options. */
export type InSession = <A>(
  staged: Staged,
  use: (session: DeviceSession) => TaskEither<SpillwayError, A>,
) => TaskEither<SpillwayError, A>

export const all = (
  { options: o, groups, description, form }: Ready,
  counted: Counted,
  within: InSession = (staged, use) => withWeights(staged, o.weights, o, use),
): TaskEither<SpillwayError, readonly Done[]> =>
  pipe(
    groups,
    TE.traverseSeqArray((g) => within(g.staged, runGroup(g, o, counted, description?.classes, form))),
  )

const imagesIn = ({ groups }: Ready): number => groups.reduce((n, g) => n + g.names.length, 0)

/** Counts the finished images. */
export const counting = (ready: Ready) => {
  let done = 0
  const of = ready.groups.some(({ tileOf }) => tileOf) ? 'tile' : 'image'
  return {
    add: (images: number): void => {
      done += images
      ready.options.onProgress?.(done, imagesIn(ready))
    },
    /** An error of the prediction; a cancelled one names the count. */
    named: (e: SpillwayError): SpillwayError => (e.tag === 'Cancelled' ? { ...e, predicted: { count: done, of } } : e),
  }
}

/** The results of all, and the peak of the process meanwhile. */
export const watched = <A>(
  work: TaskEither<SpillwayError, A>,
): TaskEither<SpillwayError, { readonly done: A; readonly bytes: number }> =>
  using(
    () => {
      forgetPlanning()
      return E.right(new PeakMemory().start())
    },
    (memory) => memory.stop(),
    (memory) => TE.map((done: A) => ({ done, bytes: memory.bytes() }))(work),
  )

/** The same as a task: `model` is checked against the plan when it is given. */
export const predictTask = (model: Model | undefined, staged: Staged, o: PredictOptions): TaskEither<SpillwayError, Predicted> =>
  pipe(
    TE.fromEither(givenBoth(model, staged)),
    TE.flatMap(() => readyOf(model, staged, o)),
    TE.flatMap((ready) => {
      const count = counting(ready)
      const counted: Counted = (images) => Promise.resolve(E.right(count.add(images)))
      return pipe(
        watched(all(ready, counted)),
        TE.bimap(count.named, ({ done, bytes }) => predicted(done, ready.description?.classes, bytes)),
      )
    }),
  )

/**
 * Runs a model over images and returns or writes the outputs. It rejects with a `SpillwayException`, or with
 * the reason of an aborted signal.
 *
 * @param model The model.
 * @param plan A plan with the mode 'predict'.
 * @param options Weights, data and output.
 * @example
 * const prediction = stage(net, { mode: 'predict', as: 'classes', budget: mib(256) })
 * const { files } = await predict(net, prediction, { weights: 'weights.safetensors', data: 'images/', out: 'masks/' })
 */
export const predict = async <P extends Staged, const O extends PredictOptions>(
  model: Model,
  plan: PlanFor<'predict', P>,
  options: Known<O, typeof PREDICT_KEYS>,
): Promise<Predicted> => answerOf(options as O)(await predictTask(model, plan as P, withNotes(options as O))())
