// The recipe of a weights file: network, classes, input size, normalisation, fit, colours, loss, product version. In: a run's data; later a
// file's metadata, and other data. Out: metadata; values taken from them, and differences in words. Invariant: values that the user gives
// count; the recipe fills in those that nobody gave, for data of the kind that the model was trained on.
// Worked example: trained on folder('cats/', { mean: [0.5] }), evaluated on 'val/': pixels have 0.5 taken off there, too, and a note says so.
import { isRight } from 'fp-ts/Either'
import * as t from 'io-ts'
import { list, names, tuple, whole, words } from '../../staging/core/codecs'
import { shapeText } from '../../staging/ops/op'
import type { KnownClasses } from './classes'
import { type Fit, FITS } from './augment'
import type { Data, DataSet, Numbers } from './data'

/** The facts of data before they are read. */
export interface Described extends Numbers {
  /** Their kind; nothing for synthetic data. */
  readonly from?: DataSet['kind']
  /** In the order of their labels. */
  readonly classes?: readonly string[]
  /** Handling of images of another size than the input. */
  readonly fit?: Fit
  /** Bits per number of an image. */
  readonly depth?: 8 | 16
}

/** Names that a model has on the command line. */
export interface Origin {
  /** Options of the network of the zoo; absent for other models. */
  readonly zoo?: { readonly classes?: number | undefined }
  /** Flags of the loss, by their names. */
  readonly loss?: Readonly<Record<string, unknown>>
}

/** The recipe: the data, the model and the product. */
export interface DataDescription extends Described, Origin {
  readonly model: string
  readonly input: readonly [channels: number, height: number, width: number]
  /** Order of the channels of images. */
  readonly colours?: keyof typeof COLOURS
  /** Version of the product that wrote the file. */
  readonly product?: string
}
const COLOURS = { RGB: 3, grey: 1 } as const

export const describedBy = (set: DataSet, classes?: readonly string[]): Described => {
  const { kind: from, layout, mean, std } = set
  const areImages = set.kind === 'images'
  const fit = areImages ? (set.fit ?? 'cover') : 'fit' in set ? set.fit : undefined
  return {
    from,
    ...(classes ? { classes } : {}),
    ...(layout && !areImages ? { layout } : {}),
    ...(mean ? { mean } : {}),
    ...(std ? { std } : {}),
    ...(fit && fit !== 'own' ? { fit } : {}),
    ...(areImages && set.depth ? { depth: set.depth } : {}),
  }
}

// ---------------------------------------------------------------- in a file

const KEY = 'spillway'
const codec = t.intersection([
  t.strict({ version: t.literal(1), model: words, input: tuple(whole, whole, whole) }),
  t.partial({
    from: t.keyof({ images: null, files: null, own: null, stream: null }),
    classes: list(words),
    layout: t.keyof({ NCHW: null, NHWC: null }),
    mean: list(t.number),
    std: list(t.number),
    fit: names(FITS),
    depth: t.union([t.literal(8), t.literal(16)]),
    colours: t.keyof({ RGB: null, grey: null }),
    zoo: t.partial({ classes: whole }),
    loss: t.record(t.string, t.unknown),
    product: words,
  }),
])

/** Colours of images of this number of channels. */
export const coloursOf = (channels: number): DataDescription['colours'] =>
  (Object.keys(COLOURS) as (keyof typeof COLOURS)[]).find((name) => COLOURS[name] === channels)

export const metadataOf = (recipe: DataDescription): Readonly<Record<string, string>> => {
  const { model, input, from, classes, layout, mean, std, fit, depth, colours, zoo, loss, product } = recipe
  return {
    [KEY]: JSON.stringify({
      version: 1,
      ...{ product, model, zoo, loss, input, from, classes, layout, mean, std, fit, depth, colours },
    }),
  }
}

/** Metadata of other programs, or of a later version, give nothing. */
export const descriptionIn = (metadata: Readonly<Record<string, string>>): DataDescription | undefined => {
  const text = metadata[KEY]
  if (text === undefined) return undefined
  try {
    const decoded = codec.decode(JSON.parse(text))
    return isRight(decoded) ? decoded.right : undefined
  } catch {
    return undefined
  }
}

// ---------------------------------------------------------------- beside other data

const numbersText = ({ mean, std }: Numbers): string =>
  [...(mean ? [`mean [${mean.join(', ')}]`] : []), ...(std ? [`std [${std.join(', ')}]`] : [])].join(' and ') ||
  'neither mean nor std'
const sameList = (a: readonly unknown[] | undefined, b: readonly unknown[] | undefined): boolean =>
  a === undefined || b === undefined ? a === b : a.length === b.length && a.every((x, i) => x === b[i])

/** Data, with the mean and the deviation that the weights name where nobody says another; and words for a person. */
export interface Taken {
  readonly data: Data
  readonly notes: readonly string[]
}
/**
 * Data with the values of the recipe where nobody gave others. `resizes`: images get the fit of the recipe; `modelScales`: the model
 * normalises bytes itself.
 */
export const takenFor = (
  data: Data,
  description: DataDescription | undefined,
  { modelScales = false, resizes = true }: { readonly modelScales?: boolean; readonly resizes?: boolean } = {},
): Taken => {
  if (description === undefined) return { data, notes: [] }
  const deep = withDepth(data, description)
  const fitted = resizes ? withFit(deep, description) : { data: deep, notes: [] }
  const scaled = withNumbers(fitted.data, description, modelScales)
  return { data: scaled.data, notes: [...fitted.notes, ...scaled.notes] }
}

const withDepth = (data: Data, { from, depth }: DataDescription): Data =>
  data.set.kind === 'images' && from === 'images' && depth !== undefined && data.set.depth === undefined
    ? { ...data, set: { ...data.set, depth } }
    : data

const DEFAULT_FIT: Fit = 'cover'

const withFit = (data: Data, { from, fit }: DataDescription): Taken => {
  const { set } = data
  if (fit === undefined || set.kind !== from || (set.kind !== 'images' && set.kind !== 'files')) return { data, notes: [] }
  if (set.fit !== undefined)
    return {
      data,
      notes:
        set.fit === fit || set.fit === 'own' ? [] : [`the model was trained with fit ${fit}, but these data have fit ${set.fit}`],
    }
  return {
    data: { ...data, set: { ...set, fit } },
    notes: fit === DEFAULT_FIT ? [] : [`images are resized with fit ${fit}, as in training`],
  }
}

const withNumbers = (data: Data, description: DataDescription, modelScales: boolean): Taken => {
  const { set } = data
  if (sameList(set.mean, description.mean) && sameList(set.std, description.std)) return { data, notes: [] }
  const trained = numbersText(description)
  const isOpen = set.mean === undefined && set.std === undefined && !modelScales
  if (isOpen && set.kind === description.from && (set.kind === 'images' || set.kind === 'files')) {
    const { mean, std } = description
    return {
      data: { ...data, set: { ...set, ...(mean ? { mean } : {}), ...(std ? { std } : {}) } },
      notes: [`the data use ${trained}, as in training`],
    }
  }
  return { data, notes: [`the model was trained on data with ${trained}, but these have ${numbersText(set)}`] }
}

const reversed = (a: readonly number[] | undefined, b: readonly number[]): boolean =>
  a !== undefined && !sameList(a, b) && sameList([...a].reverse(), b)
/** The mean and the deviation of ImageNet's pictures, in the order red, green, blue, as shares of 255. */
export const IMAGENET = { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] } as const

/** `--mean 0.5 --std 0.25 (mean: [0.5], std: [0.25])` */
const numbersCure = ({ mean, std }: Numbers): string => {
  const given = Object.entries({ mean, std }).flatMap(([name, list]) => (list ? [[name, list] as const] : []))
  return `${given.map(([name, list]) => `--${name} ${list.join(',')}`).join(' ')} (${given.map(([name, list]) => `${name}: [${list.join(', ')}]`).join(', ')})`
}

/** A note for training from weights: the normalisation of their training data, if it differs. */
export const normalisationNote = (
  { mean, std }: Numbers,
  weights: string,
  { mean: itsMean, std: itsStd }: Numbers,
): string | undefined =>
  sameList(mean, itsMean) && sameList(std, itsStd)
    ? undefined
    : `${weights} was trained on data with ${numbersText({ mean: itsMean, std: itsStd })}, but these have ${numbersText({ mean, std })}${reversed(mean, itsMean ?? []) ? ', in the reverse order of the channels' : ''}: ${(itsMean ?? itsStd) === undefined ? 'leave them out' : `use ${numbersCure({ mean: itsMean, std: itsStd })}`}`

/** Class names that other data must follow: none are known of synthetic data, and an empty list means numbers without names. */
export const classesOf = ({ from, classes }: Described): KnownClasses => (from === undefined ? undefined : (classes ?? []))

/** Notes about another input size or another model. */
export const differencesFrom = (
  { input, model }: DataDescription,
  now: { readonly model: string; readonly input?: readonly number[] },
): readonly string[] => [
  ...(now.input && !sameList(input, now.input)
    ? [`the model was trained on images of ${shapeText(input)}, but gets ${shapeText(now.input)}`]
    : []),
  // A script that gives no name has none.
  ...(model !== now.model && model !== 'model' && now.model !== 'model'
    ? [`the weights belong to model '${model}', not to '${now.model}'`]
    : []),
]
