// The worst samples of a model: kept during an evaluation, and read again after it. In: compared values, part by part; then the data once more, those
// samples alone. Out: samples with their losses, words and small pictures. Invariant: a sample takes some hundred numbers, for any size; data that
// cannot be read twice give no images.
import * as E from 'fp-ts/Either'
import type { Graph } from '../../staging/graph/graph'
import { lossName, partsOf } from '../../staging/ops/losses'
import { type Data, pick } from '../data/data'
import type { Feed, NativeFeed } from '../data/feed'
import { type DataSource, sampleText } from '../data/source'
import { fedOf } from '../data/fed'
import { openRunData } from '../data/open'
import type { FedValue } from '../data/places'
import { MOST_PNG_CLASSES, pngOfClasses, pngOfPixels } from '../files/pictures'
import type { Picture, PoorSample } from '../report/runview'
import { insideOf, withOutside } from './inside'
import type { Compared } from './ownmetric'
import { classesOf, ignoredBy, type Task } from './metricnames'
import { withLabels } from './classmetrics'
import { targetsOf } from './targets'

/** The number of shown samples. */
const MOST = 8
/** Pixels along the longer side of a picture. */
const SIDE = 96

// ---------------------------------------------------------------- how bad a sample is

interface Badness {
  /** For people. */
  readonly name: string
  /** The sum over a part, and how much of it counts. */
  readonly of: (part: Compared) => { readonly sum: number; readonly count: number }
}

const binary = (x: number, t: number): number => Math.max(x, 0) - x * t + Math.log1p(Math.exp(-Math.abs(x)))
const crossEntropyAt = (values: ArrayLike<number>, at: number, channels: number, label: number): number => {
  if (channels === 1) return binary(values[at]!, label)
  let most = -Infinity
  for (let c = 0; c < channels; c++) most = Math.max(most, values[at + c]!)
  let sum = 0
  for (let c = 0; c < channels; c++) sum += Math.exp(values[at + c]! - most)
  return most + Math.log(sum) - values[at + label]!
}

const ELEMENTS: Readonly<Record<string, readonly [name: string, of: (x: number, t: number) => number]>> = {
  l1: ['mean absolute error', (x, t) => Math.abs(x - t)],
  logits: ['binary cross-entropy', binary],
  other: ['mean squared error', (x, t) => (x - t) ** 2],
}

/** By the loss if it is one of classes, by squares or absolute differences; else by the nearest of these. */
const badnessOf = (task: Task): Badness => {
  const { loss, entry, form } = task
  const ignored = ignoredBy(loss)
  if (form === 'classes')
    return {
      name: 'share of wrong pixels',
      of: ({ output, target }) => {
        let [sum, count] = [0, 0]
        for (let i = 0; i < target.length; i++) {
          const label = entry.labels ? target[i]! : target[i]! > 0.5 ? 1 : 0
          if (entry.labels && label === ignored) continue
          count++
          if (output[i] !== label) sum++
        }
        return { sum, count }
      },
    }
  if (entry.labels)
    return {
      name: 'cross-entropy',
      of: ({ output, target, channels }) => {
        let [sum, count] = [0, 0]
        for (let i = 0; i < target.length; i++) {
          if (target[i] === ignored) continue
          count++
          sum += crossEntropyAt(output, i * channels, channels, target[i]!)
        }
        return { sum, count }
      },
    }
  const [name, of] = ELEMENTS[entry.logits ? 'logits' : lossName(partsOf(loss)[0]![1])] ?? ELEMENTS['other']!
  return {
    name,
    of: ({ output, target }) => {
      let sum = 0
      for (let i = 0; i < output.length; i++) sum += of(output[i]!, target[i]!)
      return { sum, count: output.length }
    },
  }
}

// ---------------------------------------------------------------- small pictures

/** The rows or columns of a side that a small one has. */
const chosenOf = (length: number, of: number): readonly number[] =>
  Array.from({ length }, (_, i) => Math.min(of - 1, Math.floor(((i + 0.5) * of) / length)))

/** Some pixels of an image, `channels` numbers each. */
interface Small {
  readonly rows: readonly number[]
  readonly columns: readonly number[]
  readonly channels: number
  readonly numbers: Float64Array
}

const smallOf = (height: number, width: number, channels: number): Small => {
  const share = Math.min(1, SIDE / Math.max(height, width))
  const side = (n: number): readonly number[] => chosenOf(Math.max(1, Math.round(n * share)), n)
  const [rows, columns] = [side(height), side(width)]
  return { rows, columns, channels, numbers: new Float64Array(rows.length * columns.length * channels) }
}

/** Takes its part of some rows, the channels of a pixel side by side. */
const taken = (small: Small, row: number, rows: number, width: number, given: ArrayLike<number>): void => {
  const { channels, columns, numbers } = small
  const each = given.length / (rows * width)
  small.rows.forEach((y, i) => {
    if (y < row || y >= row + rows) return
    columns.forEach((x, k) => {
      const [from, to] = [((y - row) * width + x) * each, (i * columns.length + k) * channels]
      for (let c = 0; c < channels; c++) numbers[to + c] = given[from + c]!
    })
  })
}

/** The first three channels are colours, or the first is a grey; from the least number to the largest. */
const pictureOf = (what: string, { rows, columns, channels, numbers }: Small, isBytes = false): Picture => {
  const shown = channels >= 3 ? 3 : 1
  const [width, height] = [columns.length, rows.length]
  let [least, most] = isBytes ? [0, 255] : [Infinity, -Infinity]
  if (!isBytes)
    for (const x of numbers) {
      if (!Number.isFinite(x)) continue
      least = Math.min(least, x)
      most = Math.max(most, x)
    }
  const byte = (x: number): number => (Number.isFinite(x) && most > least ? Math.round(((x - least) / (most - least)) * 255) : 0)
  const pixels = Uint8Array.from({ length: width * height * shown }, (_, i) =>
    byte(numbers[Math.floor(i / shown) * channels + (i % shown)]!),
  )
  return { what, png: pngOfPixels(width, height, pixels), width, height }
}

const classPicture = (what: string, { rows, columns, numbers }: Small): Picture => {
  const [width, height] = [columns.length, rows.length]
  return {
    what,
    png: pngOfClasses(
      width,
      height,
      Uint8Array.from(numbers, (c) => c & (MOST_PNG_CLASSES - 1)),
    ),
    width,
    height,
  }
}

// ---------------------------------------------------------------- while an evaluation goes on

/** A sample that is among the worst so far. */
export interface Kept {
  /** In the data, counted from 0. */
  readonly image: number
  readonly loss: number
  readonly label?: string
  readonly answer?: string
  readonly pictures: readonly Picture[]
}

export interface Watch {
  readonly by: string
  readonly add: (part: Compared) => void
  /** The worst first, when all is seen. */
  readonly worst: () => readonly Kept[]
  /** Takes those of others. */
  readonly join: (others: readonly Kept[]) => void
}

/** If equal, the first. */
const worstOf = (kept: readonly Kept[]): readonly Kept[] =>
  [...kept].sort((a, b) => (a.loss === b.loss ? a.image - b.image : b.loss - a.loss)).slice(0, MOST)

interface Looking {
  readonly image: number
  row: number
  sum: number
  count: number
  last?: Compared
  readonly label: Small
  readonly answer: Small
}

/** The first of the largest. */
const largest = (values: ArrayLike<number>, at: number, channels: number): number => {
  let best = 0
  for (let c = 1; c < channels; c++) if (values[at + c]! > values[at + best]!) best = c
  return best
}

const shortNumber = (x: number): string => `${Number(x.toPrecision(4))}`

/** The words for a sample of one label or number, and for the model's answer. */
const wordsFor = (
  task: Task,
  name: (c: number) => string,
  { output, target, channels }: Compared,
): Pick<Kept, 'label' | 'answer'> => {
  if (task.entry.labels) {
    const is = task.form === 'classes' ? output[0]! : largest(output, 0, channels)
    const share = task.form === 'classes' ? '' : `, ${Math.round(100 * Math.exp(-crossEntropyAt(output, 0, channels, is)))} %`
    return { label: name(target[0]!), answer: `${name(is)}${share}` }
  }
  const list = (xs: ArrayLike<number>): string =>
    Array.from({ length: Math.min(4, xs.length) }, (_, i) => shortNumber(xs[i]!)).join(' ')
  return { label: list(target), answer: list(output) }
}

/** `size`: of an output; `classes`: their names. */
export const watching = (
  given: Task,
  { height, width }: { readonly height: number; readonly width: number },
  classes: readonly string[] | undefined,
): Watch => {
  // For shares of classes the largest is the label.
  const task: Task = given.entry.shares ? { ...given, entry: { ...given.entry, labels: true } } : given
  const { name: by, of } = badnessOf(task)
  const name = (c: number): string => classes?.[c] ?? `class ${c}`
  const isOne = height * width === 1
  const labelled = classesOf(task) !== undefined
  const channels = labelled ? 1 : task.channels
  let kept: readonly Kept[] = []
  let now: Looking | undefined
  const finished = ({ image, sum, count, last, label, answer }: Looking): void => {
    // An infinite loss is the worst.
    const loss = count === 0 ? 0 : Number.isFinite(sum) ? sum / count : Infinity
    if (kept.length === MOST && loss <= kept.at(-1)!.loss) return
    const picture = labelled ? classPicture : pictureOf
    const sample: Kept = {
      image,
      loss,
      ...(isOne ? wordsFor(task, name, last!) : {}),
      pictures: isOne ? [] : [picture('label', label), picture('prediction', answer)],
    }
    kept = worstOf([...kept, sample])
  }
  /** The classes of values. */
  const answered = ({ output, target, channels: each }: Compared): ArrayLike<number> => {
    if (!labelled || output instanceof Int32Array) return output
    return each === 1
      ? Float64Array.from(output, (x) => (x > 0 ? 1 : 0))
      : Float64Array.from({ length: target.length }, (_, i) => largest(output, i * each, each))
  }
  return {
    by,
    add: (seen) => {
      const labelledPart = withLabels(given, seen)
      const counted = task.isMasked ? insideOf(labelledPart) : labelledPart
      const part = task.isMasked ? withOutside(labelledPart, 0) : labelledPart
      if (now?.image !== part.image) {
        if (now) finished(now)
        const small = (): Small => smallOf(height, width, channels)
        now = { image: part.image, row: 0, sum: 0, count: 0, label: small(), answer: small() }
      }
      const { sum, count } = of(counted)
      now.sum += sum
      now.count += count
      if (isOne) now.last = { ...part, output: Float64Array.from(part.output), target: Float64Array.from(part.target) }
      else {
        taken(now.label, now.row, part.rows, part.width, part.target)
        taken(now.answer, now.row, part.rows, part.width, answered(part))
      }
      now.row += part.rows
    },
    worst: () => {
      if (now) finished(now)
      now = undefined
      return kept
    },
    join: (others) => {
      kept = worstOf([...kept, ...others])
    },
  }
}

// ---------------------------------------------------------------- the samples once more

type Fed = Extract<DataSource, { readonly kind: 'fed' }>

/** The graph's inputs one sample at a time, for any batch. */
const oneByOne = (graph: Graph): Graph => ({
  ...graph,
  values: graph.values.map((v) => (v.role === 'input' || v.role === 'target' ? { ...v, shape: [1, ...v.shape.slice(1)] } : v)),
})

/** The contents of a place of a feed. */
const fromPlace = ({ arrays, slots }: NativeFeed, { name, shape: [c, h, w] }: FedValue, step: number): Picture => {
  const { data, dtype, layout = 'NCHW' } = arrays[name]!
  const sample = data.subarray((step % slots) * c * h * w, ((step % slots) + 1) * c * h * w)
  const small = smallOf(h, w, c)
  const { rows, columns, numbers } = small
  rows.forEach((y, i) =>
    columns.forEach((x, k) => {
      for (let z = 0; z < c; z++)
        numbers[(i * columns.length + k) * c + z] = sample[layout === 'NHWC' ? (y * w + x) * c + z : (z * h + y) * w + x]!
    }),
  )
  return pictureOf('image', small, dtype === 'u8')
}

const fromFeed = async (feed: Feed<NativeFeed>, input: FedValue, count: number): Promise<readonly Picture[]> => {
  const pictures: Picture[] = []
  try {
    const places = await feed.places(1, count)
    await new Promise<void>((done, failed) =>
      feed.begin({
        put: (filled) => {
          while (pictures.length < Math.min(filled, count)) {
            const step = pictures.length + 1
            pictures.push(fromPlace(places, input, step))
            feed.ended(step)
          }
          if (pictures.length === count) done()
        },
        fail: failed,
      }),
    )
    return pictures
  } finally {
    feed.close()
  }
}

const fromFiles = (source: Exclude<DataSource, Fed>, input: FedValue, count: number): readonly Picture[] => {
  const targets = targetsOf(source, input)
  const [c, h, w] = input.shape
  return Array.from({ length: count }, (_, i) => {
    const rowsOf = targets.of(i + 1, 0)
    const small = smallOf(h, w, c)
    for (const y of small.rows) taken(small, y, 1, w, rowsOf(y, 1))
    return pictureOf('image', small)
  })
}

interface Looked {
  readonly pictures: readonly (Picture | undefined)[]
  readonly names: readonly string[]
}

/** The pictures of some samples, counted from 0, and their names. */
const lookedAt = async (data: Data, samples: readonly number[], graph: Graph): Promise<Looked> => {
  const single = oneByOne(graph)
  const [input] = fedOf(single)
  const going = { seed: 0, shuffle: false, prefetch: 1, workers: 0, isKept: false }
  const opened = openRunData(pick(data, samples), going, single)
  if (E.isLeft(opened)) throw new Error('it cannot be reopened')
  const { source } = opened.right
  const pictures =
    source.kind === 'fed'
      ? await fromFeed((source.openWhole ?? source.open)() as Feed<NativeFeed>, input!, samples.length)
      : fromFiles(source, input!, samples.length)
  const prefix = `'${input!.name}' of `
  const names = samples.map((_, i) => sampleText(source, input!.name, 1, i + 1, 0).replace(prefix, ''))
  return { pictures, names }
}

/** A picture each, where the data can be read twice. */
export const pictured = async (data: Data, graph: Graph, watch: Watch): Promise<readonly PoorSample[]> => {
  const kept = watch.worst()
  if (kept.length === 0) return []
  const looked = await lookedAt(
    data,
    kept.map((k) => k.image),
    graph,
  ).catch((): Looked => ({ pictures: [], names: kept.map((k) => `sample ${k.image} (counted from 0)`) }))
  return kept.map(({ image: _, pictures, ...rest }, i) => ({
    ...rest,
    name: looked.names[i]!,
    pictures: [...(looked.pictures[i] ? [looked.pictures[i]] : []), ...pictures],
  }))
}
