// What a model was trained on, as its weights file says it: classes by name, the size of its input, how numbers became what it sees. In: a run's
// data; later a file's metadata, and other data. Out: metadata; what is taken of them, and what differs, in words. Invariant: what somebody says
// of data counts; only of files of the kind that the model learnt from, of which nothing is said, the weights' word is taken.
// Worked example: trained on folder('cats/', { mean: [0.5] }), evaluated on 'val/': pixels have 0.5 taken off there, too, and a note says so.
import { isRight } from 'fp-ts/Either'
import * as t from 'io-ts'
import { list, tuple, whole, words } from '../../staging/core/codecs'
import { shapeText } from '../../staging/ops/op'
import type { KnownClasses } from './classes'
import type { Data, DataSet, Numbers } from './data'

/** What is known of data before they are read. */
export interface Described extends Numbers {
  /** What they are; nothing of data that are made up. */
  readonly from?: DataSet['kind']
  /** In the order of their labels. */
  readonly classes?: readonly string[]
}
/** The same, and of which model it was. */
export interface DataDescription extends Described {
  readonly model: string
  readonly input: readonly [channels: number, height: number, width: number]
}

export const describedBy = ({ kind: from, layout, mean, std }: DataSet, classes?: readonly string[]): Described => ({
  from,
  ...(classes ? { classes } : {}),
  ...(layout && from !== 'images' ? { layout } : {}),
  ...(mean ? { mean } : {}),
  ...(std ? { std } : {}),
})

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
  }),
])

export const metadataOf = ({
  model,
  input,
  from,
  classes,
  layout,
  mean,
  std,
}: DataDescription): Readonly<Record<string, string>> => ({
  [KEY]: JSON.stringify({ version: 1, model, input, from, classes, layout, mean, std }),
})

/** Of metadata that other programs wrote, or a later version, there is nothing. */
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
export const takenFor = (data: Data, description: DataDescription | undefined, modelScales = false): Taken => {
  const { set } = data
  if (description === undefined || (sameList(set.mean, description.mean) && sameList(set.std, description.std)))
    return { data, notes: [] }
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
