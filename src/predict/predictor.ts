// Predicting: a model's forward plan run over images, a batch at a time. In: a model, its plan (`mode: 'predict'`), weights, data. Out: files or
// arrays, and the measurements. Invariant: the device holds the plan's bytes, and images of another size have a plan of their own in the same budget.
// While a batch runs, the one before it is written. Worked example, five images in batches of two: three steps; the third sees the first image again
// in its second place, and drops it.
import { mkdirSync } from 'node:fs'
import { dirname, extname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model, Shape } from '../../dsl'
import { FORMS, predictionOf } from '../../dsl/prediction'
import { predictionGraph } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { knownIn } from '../../staging/core/known'
import type { Known } from '../../staging/core/options'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, takesBytes, type Value, valueBytes } from '../../staging/graph/graph'
import { type Data, files, folder } from '../data/data'
import { type ImageFile, nameOfFile, pixelsOf, type Size } from '../data/decode'
import { type DataDescription, differencesFrom, takenFor } from '../data/description'
import { checkedWhole, holdsPictures, leftOutAt, picturesAt } from '../data/images'
import { looked, sizeOfImage } from '../data/sizes'
import {
  type DataSource,
  fedOf,
  type ImageSet,
  MOST_PIXELS,
  type OpenedData,
  openOwn,
  openPictures,
  openRunData,
} from '../data/open'
import { arraysAsSource } from '../data/arrays'
import { chosen, orderOf } from '../data/order'
import { sizeOfOwn } from '../data/readers'
import { readingData } from '../data/reads'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { onFile, using } from '../errors/exceptions'
import { checkedPlaces, type Read, reading, type Write, writing } from '../files/places'
import { openData } from '../files/samples'
import { PeakMemory } from '../machine/memory'
import { givenBoth } from '../stage/given'
import { preparePrediction } from '../stage/prepare'
import { lacksOf } from '../stage/room'
import { checkedMode, type PlanFor } from '../stage/mode'
import type { Staged } from '../stage/stage'
import { filesOf } from '../train/beforehand'
import { type DeviceSession, forgetPlanning, type RunMetrics } from '../train/device'
import { checkedLoading, descriptionOf, loadingOf } from '../train/loading'
import { PREFETCH, usualWorkers, withNotes } from '../train/options'
import { answerOf } from '../train/trainer'
import { inBatches, MOST_HELD_BYTES, outputOf, type Took, tookOf } from './batches'
import { PREDICT, type PREDICT_KEYS, type PredictOptions } from './options'
import {
  FORMATS,
  imageBytes,
  isOneFile,
  isOneRow,
  namesOf,
  numbersIn,
  type Outputs,
  type OutputShape,
  outputsTo,
  type Picture,
  type Prediction,
  writeImage,
} from './outputs'
import { MOST_PNG_CLASSES } from '../files/pictures'
import { paddedBy } from './padding'
import { type Ranked, rankedOf } from './ranked'
import { resized } from './resized'
import { withWeights } from './weighted'

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

const shapeOf = ({ shape, dtype }: Value, graph: Graph): OutputShape => {
  const [, c, h, w] = shape as readonly [number, number, number, number]
  const classes = graph.ops[graph.ops.length - 1]?.kind === 'argmax'
  return { type: dtype === 'bf16' || dtype === 'u8' ? 'f32' : dtype, shape: [c, h, w], classes }
}

/** The output of a plan, if it is one of this model's predictions. */
export const formOf = (model: Model, { plan: { graph }, machine }: Staged): Either<SpillwayError, Form> => {
  const print = fingerprint(graph)
  const isOf = (form: Form): boolean =>
    pipe(
      predictionOf(model, form, graph.name),
      E.exists((forward) => fingerprint(predictionGraph(forward, machine)) === print),
    )
  return E.fromNullable(usage(`the plan is for model '${graph.name}', but this model differs: stage it again`))(FORMS.find(isOf))
}

/** Images of one size, and the plan for them. */
export interface Group {
  readonly staged: Staged
  readonly output: Value
  readonly data: DataSource
  /** The source of these images alone, by their places in the group. */
  readonly part: (places: readonly number[]) => Either<SpillwayError, DataSource>
  readonly names: readonly string[]
  /** The place of each among all images. */
  readonly at: readonly number[]
  /** Height and width of the output of each image: padding is cut off. */
  readonly crops: readonly Size[]
  /** File of each image, or its name. */
  readonly files: readonly string[]
  /** The picture at a place among all images, for overlays. */
  readonly pictureOf?: (at: number) => Promise<Picture>
}

/** Facts that a kept predictor looks up once, for all of its calls. */
export interface Kept {
  readonly form: Form
  readonly description: DataDescription | undefined
  readonly pad: (image: Size) => Size
  /** Plans by the size of their input. */
  readonly plans: Map<string, Staged>
  /** Pictures in memory, in place of the files of the data. */
  readonly pictures?: readonly NamedPicture[] | undefined
}

/** A picture and the name of its outputs. */
export interface NamedPicture {
  readonly file: ImageFile
  readonly name: string
}

export interface Ready {
  readonly options: PredictOptions
  readonly groups: readonly Group[]
  readonly description: DataDescription | undefined
  readonly form: Form | undefined
}

const KINDS: Readonly<Record<string, Write['kind']>> = {
  '.npy': 'array',
  '.safetensors': 'tensors',
  '.csv': 'predictionTable',
  '.json': 'predictions',
  '.jsonl': 'predictions',
}

/** The kind of an output, by its name and the format of the files. */
const kindOf = (out: string, format: PredictOptions['format']): Write['kind'] =>
  isOneFile(out) ? KINDS[extname(out)]! : format === 'png' || format === 'overlay' ? 'pictures' : 'arrays'

/** All places that a prediction reads and writes. `named`: an option as its user writes it; `model`: the files of the model, for a command. */
export const placesOf = (
  {
    weights,
    data,
    out,
    format,
    report,
  }: Pick<PredictOptions, 'weights' | 'data' | 'out' | 'format'> & { readonly report?: string | undefined },
  named: (option: string) => string = String,
  model: readonly Read[] = [],
): Either<SpillwayError, void> =>
  checkedPlaces(
    [...model, ...reading(named('weights'), weights), ...readingData(named('data'), data)],
    [
      ...(out === undefined ? [] : writing(named('out'), kindOf(out, format), out)),
      ...writing(named('report'), 'report', report),
    ],
  )

/** Checks that the files fit, with the temporary ones beside them. */
const roomFor = ({ staged, output, names }: Group, out: string | undefined): Either<SpillwayError, void> => {
  if (out === undefined) return E.right(undefined)
  const batch = valueBytes(output)
  const bytes = (names.length * batch) / output.shape[0]! + (batch > MOST_HELD_BYTES ? 2 * batch : 0)
  const lacks = lacksOf(staged, [{ what: 'outputs', path: out, bytes }])
  return lacks.length ? E.left(usage(`this machine cannot run the plan: ${lacks.join('; ')}`)) : E.right(undefined)
}

/** A table has one row per image. */
const rowsFit = (graph: Graph, out: string | undefined): Either<SpillwayError, void> => {
  if (out === undefined || extname(out) !== '.csv') return E.right(undefined)
  const shape = shapeOf(outputOf(graph)!, graph)
  return isOneRow(shape)
    ? E.right(undefined)
    : E.left(
        usage(
          `${out} has one row per image, but each output is [${shape.shape.join(',')}]: use a .npy, .safetensors or .json file, or a folder`,
        ),
      )
}

/** Pictures are of classes, in a folder. */
const formatFits = (
  { plan: { graph } }: Staged,
  { out, format = 'npy' }: PredictOptions,
  pictures: ImageSet | undefined,
): Either<SpillwayError, void> => {
  if (!FORMATS.includes(format)) return E.left(unknownName('format', format, FORMATS))
  if (format === 'npy') return rowsFit(graph, out)
  const output = outputOf(graph)!
  const made = graph.ops.find((o) => o.outs.includes(output.id))!
  const classes = graph.values[made.ins[0]!]!.shape[1]!
  const needs = `format '${format}' needs`
  if (made.kind !== 'argmax') return E.left(usage(`${needs} classes: stage with as: 'classes'`))
  if (isPerImage(graph))
    return E.left(usage(`${needs} a class per pixel, but the model gives one per image: use a .csv file as out`))
  if (classes > MOST_PNG_CLASSES)
    return E.left(usage(`${needs} at most ${MOST_PNG_CLASSES} classes, but the model has ${classes}`))
  if (format === 'overlay' && (!pictures || pictures.fit !== undefined || pictures.depth === 16))
    return E.left(usage(`${needs} image files of 8 bits at their own size: give a folder of images, without fit`))
  return out === undefined || isOneFile(out) ? E.left(usage(`${needs} a folder as out`)) : E.right(undefined)
}

// ---------------------------------------------------------------- what is predicted

const dataOf = (data: string | Data): Data =>
  typeof data === 'string' ? (holdsPictures(data) ? folder(data) : files(data)) : data

/** Returns true if the graph gives one result for a whole image, such as the class. */
const isPerImage = (graph: Graph): boolean => {
  const { height, width } = sizeOfValue(outputOf(graph)!)
  return height * width === 1
}

/** The image files of the data. Those with one result each are resized as in training; others keep their size by default. */
const picturesIn = ({ set }: Data, graph: Graph): ImageSet | undefined =>
  set.kind !== 'images' ? undefined : set.fit === undefined && isPerImage(graph) ? { ...set, fit: 'cover' } : set

const groupOf = (
  staged: Staged,
  data: DataSource,
  part: Group['part'],
  names: readonly string[],
  at: readonly number[],
  crops?: readonly Size[],
): Group => {
  const output = outputOf(staged.plan.graph)!
  return { staged, output, data, part, names, files: names, at, crops: crops ?? names.map(() => sizeOfValue(output)) }
}

/** The output of an image of a group. */
const shapeIn = ({ output, staged, crops }: Group, i: number): OutputShape => {
  const whole = shapeOf(output, staged.plan.graph)
  const { height, width } = crops[i] ?? sizeOfValue(output)
  return { ...whole, shape: [whole.shape[0], height, width] }
}

const IN_TURN = { seed: 0, shuffle: false, prefetch: PREFETCH, workers: 0, isKept: false } as const

type FilesSet = Extract<Data['set'], { readonly kind: 'files' }>

/** Arrays of the model's size, or resized to it. */
const ofArrays = (
  staged: Staged,
  set: FilesSet,
  { weights, ...o }: PredictOptions,
  data: Data,
): Either<SpillwayError, readonly Group[]> => {
  const { graph } = staged.plan
  const resizedTo = (part: readonly number[] | undefined): Either<SpillwayError, DataSource> =>
    E.map((o: OpenedData) => o.source)(
      openRunData({ set: { ...set, augment: {} }, parts: part ? [{ kind: 'list', samples: part }] : data.parts }, IN_TURN, graph),
    )
  return pipe(
    filesOf({ data, weights, ...loadingOf(o) })(graph),
    E.flatMap(() => openData(set.path, graph, set.layout, set.fit === undefined ? 'as they are' : 'of any size')),
    E.bindTo('found'),
    E.bind('source', ({ found }) =>
      set.fit === undefined
        ? E.right<SpillwayError, DataSource>({ kind: 'files', files: found, numbers: set })
        : resizedTo(undefined),
    ),
    E.map(({ found, source }) => {
      const names = namesOf([...found.values()][0]!)
      const part: Group['part'] = (places) =>
        set.fit === undefined
          ? E.right({ kind: 'files', files: found, numbers: set, order: orderOf(Uint32Array.from(places), undefined) })
          : resizedTo(places)
      return [groupOf(staged, source, part, names, [...names.keys()])]
    }),
  )
}

/** Arrays of another size than the plan's: a source of one's own, whose images have their own sizes. */
const arraysAsOwn = (
  set: FilesSet,
  graph: Graph,
): Either<SpillwayError, { readonly set: OwnSet; readonly names: readonly string[] }> =>
  pipe(
    openData(set.path, graph, set.layout, 'of any size'),
    E.map((found) => {
      const { path: _, kind: __, fit: ___, ...how } = set
      const keys = fedOf(graph).map((v) => [v.name, v.key] as const)
      return {
        set: { ...how, kind: 'own', ...arraysAsSource(found, keys) },
        names: namesOf([...found.values()][0]!),
      }
    }),
  )

const ofFiles = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  options: PredictOptions,
  data: Data,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const { set, parts } = data
  if (set.kind === 'stream') return TE.left(usage('predict: a stream of samples is not supported: pass { length, read }'))
  if (set.kind !== 'files' || parts.length > 0)
    return TE.left(usage('predict takes a path, folder(), files(), or a source or a part of a source'))
  const { graph } = staged.plan
  const isOfItsSize = set.fit !== undefined || E.isRight(openData(set.path, graph, set.layout, 'as they are'))
  const own = isOfItsSize ? undefined : arraysAsOwn(set, graph)
  return own === undefined || E.isLeft(own)
    ? TE.fromIOEither(() => ofArrays(staged, set, options, data))
    : ofOwn(model, staged, form, { ...own.right, parts }, options, plans, kept)
}

/** Height and width of the first image that a path has, where a model is to take the size that its images have. */
export const pictureSize = (path: string): TaskEither<SpillwayError, readonly [height: number, width: number]> =>
  pipe(
    TE.fromIOEither(() => picturesAt(path)),
    TE.flatMap(([first]) => sizeOfImage({})(first!.file)),
    TE.map(({ height, width }) => [height, width] as const),
  )

/** Followers choose among the leader's plans: the smallest that holds the image. */
const paddedAmong =
  (plans: readonly Staged[]) =>
  (image: Size): Size =>
    plans
      .map(sizeOfPlan)
      .filter(({ height, width }) => height >= image.height && width >= image.width)
      .sort((a, b) => a.height * a.width - b.height * b.width)[0] ?? image

/** The part of an output that belongs to an image. */
const cropFor = (image: Size, padded: Size, output: Size): Size =>
  image.height === padded.height && image.width === padded.width
    ? output
    : {
        height: Math.ceil((image.height * output.height) / padded.height),
        width: Math.ceil((image.width * output.width) / padded.width),
      }

/** Plans of recent sizes that a predictor keeps. */
const MOST_PLANS = 16

/** The newest entries stay. */
const remember = (plans: Map<string, Staged>, key: string, staged: Staged): void => {
  plans.delete(key)
  plans.set(key, staged)
  const [oldest] = plans.keys()
  if (plans.size > MOST_PLANS && oldest !== undefined) plans.delete(oldest)
}

/** A group for each padded size, with the plan for it; `open` opens those of the images whose places are given. */
const groupsBySize = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  sizes: readonly Size[],
  nameOf: (i: number) => string,
  open: (at: readonly number[], graph: Graph) => Either<SpillwayError, DataSource>,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): Either<SpillwayError, readonly Group[]> => {
  const { graph } = staged.plan
  const [batch, c, h, w] = graph.values.find((v) => v.role === 'input')!.shape as Shape
  const made = ({ height, width }: Size): Staged | undefined =>
    plans?.find((one) => sizeOfPlan(one).height === height && sizeOfPlan(one).width === width)
  const newPlanFor = (height: number, width: number): Either<SpillwayError, Staged> =>
    height === h && width === w
      ? E.right(staged)
      : plans
        ? E.fromNullable(usage(`this rank has an image of ${height} x ${width}, but rank 0 has none of this size`))(
            made({ height, width }),
          )
        : model === undefined || form === undefined
          ? E.left(usage(`an image has ${height} x ${width} pixels, but the plan is for ${h} x ${w}`))
          : resized(model, staged, [batch, c, height, width], (m) =>
              preparePrediction(m, staged.machine, { as: form, name: graph.name }),
            )
  const planFor = (height: number, width: number): Either<SpillwayError, Staged> => {
    const key = `${height} ${width}`
    const known = kept?.plans.get(key)
    const found = known ? E.right(known) : newPlanFor(height, width)
    if (kept && E.isRight(found)) remember(kept.plans, key, found.right)
    return found
  }
  const pad = kept?.pad ?? (model ? paddedBy(model) : paddedAmong([staged, ...(plans ?? [])]))
  const padded = sizes.map(pad)
  const bySize = new Map<string, number[]>()
  padded.forEach(({ height, width }, i) => bySize.set(`${height} ${width}`, [...(bySize.get(`${height} ${width}`) ?? []), i]))
  return pipe(
    [...bySize.values()],
    E.traverseArray((at) =>
      pipe(
        planFor(padded[at[0]!]!.height, padded[at[0]!]!.width),
        E.bindTo('own'),
        E.bind('data', ({ own }) => open(at, own.plan.graph)),
        E.map(({ own, data }) => {
          const part: Group['part'] = (places) =>
            open(
              places.map((place) => at[place]!),
              own.plan.graph,
            )
          const output = sizeOfValue(outputOf(own.plan.graph)!)
          const crops = at.map((i) => cropFor(sizes[i]!, padded[i]!, output))
          return groupOf(own, data, part, at.map(nameOf), at, crops)
        }),
      ),
    ),
  )
}

const sizeOfValue = ({ shape }: Value): Size => {
  const [, , height, width] = shape as Shape
  return { height, width }
}

/** Height and width of the input of a plan. */
export const sizeOfPlan = ({ plan: { graph } }: Staged): Size => sizeOfValue(graph.values.find((v) => v.role === 'input')!)

/** Image files: all resized to the model's size where it is said how, else a group for each size. */
const ofPictures = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  set: ImageSet,
  { workers, weights, ...o }: PredictOptions,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const going = { workers: workers ?? usualWorkers(), prefetch: PREFETCH }
  const found = (): Either<SpillwayError, readonly NamedPicture[]> =>
    pipe(
      kept ? E.right(undefined) : filesOf({ weights, ...loadingOf(o) })(staged.plan.graph),
      E.flatMap(() => leftOutAt(set.path)),
      E.flatMap((leftOut) => checkedWhole(set.path, leftOut, o.strictData ?? false)),
      E.flatMap((notes) => {
        for (const text of notes) o.onNote?.(text)
        return picturesAt(set.path)
      }),
    )
  return pipe(
    kept?.pictures ? TE.right(kept.pictures) : TE.fromIOEither(found),
    TE.bindTo('pictures'),
    TE.bind('sizes', ({ pictures }) =>
      set.fit === undefined || set.fit === 'own'
        ? TE.traverseSeqArray((p: NamedPicture) => sizeOfImage(set)(p.file))(pictures)
        : TE.right(pictures.map(() => sizeOfPlan(staged))),
    ),
    TE.bind('groups', ({ pictures, sizes }) =>
      TE.fromEither(
        groupsBySize(
          model,
          staged,
          form,
          sizes,
          (i) => pictures[i]!.name,
          (at, graph) =>
            openPictures(
              { ...set, fit: set.fit ?? 'own', augment: {} },
              at.map((i) => pictures[i]!.file),
              going,
              graph,
            ),
          plans,
          kept,
        ),
      ),
    ),
    TE.map(({ groups, pictures, sizes }) =>
      groups.map((g) => ({
        ...g,
        files: g.at.map((i) => nameOfFile(pictures[i]!.file)),
        pictureOf: async (at: number): Promise<Picture> => {
          const [size, limits] = [sizes[at]!, { depth: 8, mostPixels: set.mostPixels ?? MOST_PIXELS } as const]
          const pixels = await pixelsOf(pictures[at]!.file, { left: 0, top: 0, ...size }, size, 3, limits)
          return { ...size, pixels: pixels as Uint8Array }
        },
      })),
    ),
  )
}

type OwnSet = Extract<Data['set'], { readonly kind: 'own' }>

/** Samples of a source of one's own: each at its size, in bands, or all at the model's if a fit is given. */
const ofOwn = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  { set, parts, names }: { readonly set: OwnSet; readonly parts: Data['parts']; readonly names?: readonly string[] },
  { weights, ...o }: PredictOptions,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const digits = String(set.length - 1).length
  const sizeAt = (i: number): Promise<Size> =>
    set.size === undefined || set.fit !== undefined ? Promise.resolve(sizeOfPlan(staged)) : sizeOfOwn(set, i)
  return pipe(
    TE.fromIOEither(() =>
      pipe(
        kept ? E.right(undefined) : filesOf({ weights, ...loadingOf(o) })(staged.plan.graph),
        E.flatMap(() => E.mapLeft((reason: string) => usage(reason))(chosen(set.length, parts))),
      ),
    ),
    TE.filterOrElse(
      (images) => images.length > 0,
      () => usage(`no sample of ${set.length} is left: this part of the data is empty`),
    ),
    TE.bindTo('images'),
    TE.bind('sizes', ({ images }) => TE.traverseSeqArray((i: number) => looked(() => sizeAt(i)))([...images])),
    TE.flatMapEither(({ images, sizes }) =>
      groupsBySize(
        model,
        staged,
        form,
        sizes,
        (i) => names?.[i] ?? set.outputName?.(images[i]!) ?? `sample-${String(images[i]).padStart(digits, '0')}`,
        (at, graph) =>
          openOwn(
            set,
            at.map((i) => images[i]!),
            { prefetch: PREFETCH },
            graph,
            (place) => sizes[at[place]!]!,
          ),
        plans,
        kept,
      ),
    ),
  )
}

const oneShape = ({ options: { out }, groups }: Ready): Either<SpillwayError, void> => {
  const sizes = new Set(groups.flatMap(({ crops }) => crops.map(({ height, width }) => `${height} x ${width}`))).size
  return Math.max(groups.length, sizes) > 1 && out !== undefined && isOneFile(out)
    ? E.left(usage(`${out} can hold outputs of one size only, but the images have ${sizes} sizes: use a folder`))
    : E.right(undefined)
}

/** `plans`: plans for the images' other sizes, if they are known. */
export const readyOf = (
  model: Model | undefined,
  staged: Staged,
  options: PredictOptions,
  plans?: readonly Staged[],
  kept?: Kept,
): TaskEither<SpillwayError, Ready> => {
  const { plan, machine } = staged
  const fits = (): Either<SpillwayError, Form | undefined> => {
    const mode = checkedMode(staged, 'predict')
    if (E.isLeft(mode)) return mode
    if (machine.simulated) return E.left(usage(`a plan for the simulated machine '${machine.name}' cannot run`))
    return kept ? E.right(kept.form) : model ? formOf(model, staged) : E.right(undefined)
  }
  return pipe(
    TE.fromIOEither(() =>
      pipe(
        knownIn(PREDICT)(options),
        E.flatMap(checkedLoading),
        E.flatMap(fits),
        E.bindTo('form'),
        E.tap(() => placesOf(options)),
        E.bind('description', () => E.right(kept ? kept.description : descriptionOf(options.weights))),
        E.bind('data', ({ description }) => {
          const resizes = isPerImage(plan.graph)
          const { data, notes } = takenFor(dataOf(options.data), description, { modelScales: takesBytes(plan.graph), resizes })
          for (const text of notes) options.onNote?.(text)
          return E.right(data)
        }),
        E.map(({ form, description, data }) => ({ form, description, data, set: picturesIn(data, plan.graph) })),
        E.tap(({ set }) => formatFits(staged, options, set)),
      ),
    ),
    TE.flatMap(({ form, set, data, description }) =>
      pipe(
        set
          ? ofPictures(model, staged, form, set, options, plans, kept)
          : data.set.kind === 'own'
            ? ofOwn(model, staged, form, { set: data.set, parts: data.parts }, options, plans, kept)
            : ofFiles(model, staged, form, options, data, plans, kept),
        TE.map((groups): Ready => {
          const { name } = plan.graph
          for (const text of description ? differencesFrom(description, { model: name }) : []) options.onNote?.(text)
          return { options, groups, description, form }
        }),
      ),
    ),
    TE.tap((ready) => TE.fromEither(oneShape(ready))),
    TE.tap(({ groups }) => TE.fromEither(E.traverseArray((g: Group) => roomFor(g, options.out))(groups))),
  )
}

// ---------------------------------------------------------------- batches

/** Reports a number of further written images. */
export type Counted = (images: number) => Promise<Either<SpillwayError, void>>

/** Waits for files that are still written; refusals are values. */
const settling = (outputs: Outputs): Promise<Either<SpillwayError, void>> =>
  looked(async () => {
    await outputs.settled?.()
  })()

/** Writes the output of each batch; the surplus of the last one is dropped. */
const written = (
  { staged, output, data, names, crops }: Group,
  { out, signal }: PredictOptions,
  counted: Counted,
  session: DeviceSession,
  outputs: Outputs,
  see: (image: number, value: Uint8Array) => void,
): TaskEither<SpillwayError, readonly RunMetrics[]> => {
  const shape = shapeOf(output, staged.plan.graph)
  const batch = output.shape[0]!
  const bytes = imageBytes(shape)
  return inBatches({
    session,
    output,
    data,
    steps: Math.ceil(names.length / batch),
    beside: out && resolve(isOneFile(out) ? out : `${out}/outputs`),
    signal,
    take: async (step, read) => {
      const done = onFile(
        'output',
        out ?? 'memory',
      )(() => {
        for (let b = 0, i = (step - 1) * batch; b < batch && i < names.length; b++, i++)
          writeImage(
            shape,
            crops[i]!,
            (at, n) => {
              const band = read(b * bytes + at, n)
              see(i, band)
              return band
            },
            outputs.image(i),
          )
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
  const inOrder = <A>(of: (d: Done) => readonly A[]): readonly A[] =>
    done
      .flatMap((d) => of(d).map((a, i) => ({ a, at: d.group.at[i]! })))
      .sort((x, y) => x.at - y.at)
      .map(({ a }) => a)
  const files = (d: Done): readonly string[] => d.outputs.written()
  return {
    model: group.staged.plan.graph.name,
    images: done.reduce((n, d) => n + d.group.names.length, 0),
    shape: isClasses ? shape.slice(1) : shape,
    ...(classes ? { classes } : {}),
    ...(labels.length > 0 ? { labels: inOrder((d) => d.labels) } : {}),
    ...(ranked.length > 0 ? { ranked: inOrder((d) => d.ranked) } : {}),
    files: inOrder(files),
    outputs: inOrder((d) => d.outputs.kept()),
    ...tookOf(
      group.staged,
      done.flatMap((d) => d.runs),
      processPeakBytes,
    ),
    peakBytes: Math.max(...done.map((d) => bytesOf(d.group.staged.plan.peakPages))),
  }
}

const performed =
  (group: Group, o: PredictOptions, counted: Counted, classes: readonly string[] = [], form?: Form) =>
  (session: DeviceSession): TaskEither<SpillwayError, Done> =>
  async () => {
    const { staged, output, names, files, pictureOf } = group
    const whole = shapeOf(output, staged.plan.graph)
    const isOne = isPerImage(staged.plan.graph)
    const ranked =
      form === 'probabilities' && isOne
        ? (i: number, values: ArrayLike<number>): Ranked => rankedOf(files[i]!, values, classes)
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
          images: names.length,
          nameOf: (i) => names[i]!,
          format: o.format,
          classes,
          pictureOf: pictureOf && ((i) => pictureOf(group.at[i]!)),
          ranked,
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
          return E.right({ group, outputs, runs: r, labels, ranked: best })
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
    TE.traverseSeqArray((g) => within(g.staged, performed(g, o, counted, description?.classes, form))),
  )

const imagesIn = ({ groups }: Ready): number => groups.reduce((n, g) => n + g.names.length, 0)
export const counting = (ready: Ready): ((images: number) => void) => {
  let done = 0
  return (images) => {
    done += images
    ready.options.onProgress?.(done, imagesIn(ready))
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
      const counted: Counted = (images) => Promise.resolve(E.right(count(images)))
      return pipe(
        watched(all(ready, counted)),
        TE.map(({ done, bytes }) => predicted(done, ready.description?.classes, bytes)),
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
