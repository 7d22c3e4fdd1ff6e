// Checks before a prediction. In: a model, its plan and the options. Out: the groups that run, or the refusal of the first option that
// does not fit. Invariant: nothing is written before all checks have passed.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import { FORMS, predictionOf } from '../../dsl/prediction'
import { predictionGraph } from '../../staging/compile'
import { knownIn } from '../../staging/core/known'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Graph, readsBytes, valueBytes } from '../../staging/graph/graph'
import { type DataDescription, differencesFrom, takenFor } from '../data/description'
import type { ImageSet } from '../data/data'
import { readingData } from '../data/reads'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { checkedPlaces, type Read, reading, type Write, writing } from '../files/places'
import { lacksOf } from '../stage/room'
import { checkedMode } from '../stage/mode'
import type { Staged } from '../stage/staged'
import { checkedLoading, descriptionOf } from '../train/loading'
import { outputOf } from './batches'
import { PREDICT, type PredictOptions } from './options'
import { FORMATS, hasPyramid, isOneFile, isOneRow, mostHeld } from './outputs'
import { MOST_PNG_CLASSES } from '../files/pictures'
import { type Group, isPerImage, type Kept, shapeOf } from './group'
import { dataOf, ofFiles, ofOwn, ofPictures, picturesIn } from './subjects'

export interface Ready {
  readonly options: PredictOptions
  readonly groups: readonly Group[]
  readonly description: DataDescription | undefined
  readonly form: Form | undefined
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

const KINDS: Readonly<Record<string, Write['kind']>> = {
  '.npy': 'array',
  '.safetensors': 'tensors',
  '.csv': 'predictionTable',
  '.json': 'predictions',
  '.jsonl': 'predictions',
}

/** The kind of an output, by its name and the format of the files. */
const kindOf = (out: string, format: PredictOptions['format']): Write['kind'] =>
  isOneFile(out)
    ? KINDS[extname(out)]!
    : hasPyramid(format)
      ? 'slides'
      : format === 'png' || format === 'overlay'
        ? 'pictures'
        : 'arrays'

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
const roomFor = ({ staged, output, names }: Group, { out, format }: PredictOptions): Either<SpillwayError, void> => {
  if (out === undefined) return E.right(undefined)
  const batch = valueBytes(output)
  const bytes = (names.length * batch) / output.shape[0]! + (batch > mostHeld(format) ? 2 * batch : 0)
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

/** An image with a pyramid has a result per pixel; classes are bytes. */
const pyramidFits = (
  graph: Graph,
  needs: string,
  classes: number,
  inFolder: () => Either<SpillwayError, void>,
): Either<SpillwayError, void> =>
  isPerImage(graph)
    ? E.left(usage(`${needs} a result per pixel, but the model gives one per image: use a .csv file as out`))
    : classes > MOST_PNG_CLASSES
      ? E.left(usage(`${needs} at most ${MOST_PNG_CLASSES} classes, but the model has ${classes}`))
      : inFolder()

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
  const inFolder = (): Either<SpillwayError, void> =>
    out === undefined || isOneFile(out) ? E.left(usage(`${needs} a folder as out`)) : E.right(undefined)
  if (hasPyramid(format)) return pyramidFits(graph, needs, made.kind === 'argmax' ? classes : 1, inFolder)
  if (made.kind !== 'argmax') return E.left(usage(`${needs} classes: stage with as: 'classes'`))
  if (isPerImage(graph))
    return E.left(usage(`${needs} a class per pixel, but the model gives one per image: use a .csv file as out`))
  if (classes > MOST_PNG_CLASSES)
    return E.left(usage(`${needs} at most ${MOST_PNG_CLASSES} classes, but the model has ${classes}`))
  if (format === 'overlay' && (!pictures || pictures.fit !== undefined || pictures.depth === 16))
    return E.left(usage(`${needs} image files of 8 bits at their own size: give a folder of images, without fit`))
  return inFolder()
}

// ---------------------------------------------------------------- all checks

const oneShape = ({ options: { out }, groups }: Ready): Either<SpillwayError, void> => {
  const sizes = new Set(groups.flatMap(({ cuts }) => cuts.map(({ height, width }) => `${height} x ${width}`))).size
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
          const { data, notes } = takenFor(dataOf(options.data), description, { modelScales: readsBytes(plan.graph), resizes })
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
    TE.tap(({ groups }) => TE.fromEither(E.traverseArray((g: Group) => roomFor(g, options))(groups))),
  )
}

// ---------------------------------------------------------------- batches
