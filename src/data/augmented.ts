// What is done by chance to samples of a user's own source. In: what is wished for, the fed values, a sample. Out: the sample, cut, turned,
// coloured and mixed, its channels last. Invariant: a function of the sample, seed, epoch and index alone, as of image files; a target of the
// input's height and width is cut and turned as the input is, and one number or list for the whole of it stays as it is.
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import { type Augment, cropFor, cutOut, jittered, randomFor, roomLike, turned, turnFor } from './augment'
import type { Numbers, Sample, SampleValue } from './data'
import type { Pixels, Rectangle, Size } from './decode'
import { type Mixable, mixed, mixFor, sharesOf } from './mix'
import type { Place } from './order'
import { dataRefused, elementsOf, type FedValue, valueProblem } from './places'
import { resampled } from './resample'

/** What of a source is done by chance. */
export interface Chance {
  readonly augment: Augment
  readonly seed: number
  readonly layout: NonNullable<Numbers['layout']>
  /** Of each channel of the input, what is cut out: as shares of 255 where it is bytes. */
  readonly fill: readonly number[]
  /** The samples of the run, where they are mixed: with these. */
  readonly others?: Uint32Array
}

type Values = readonly [input: FedValue, ...targets: FedValue[]]

const sizeOf = ({ shape: [, height, width] }: FedValue): Size => ({ height, width })
const isWhole = ({ shape: [, h, w] }: FedValue): boolean => h * w === 1
const sizeWords = ({ shape: [, h, w] }: FedValue): string => `${h} x ${w}`

/** What mixing asks of the target, whatever the samples are read from. */
export const mixingProblem = (augment: Augment, target: FedValue | undefined, isOfPixels: boolean): string | undefined =>
  target?.labels && !target.shares && (augment.mixup || (augment.cutmix && !isOfPixels))
    ? `augment.${augment.mixup ? 'mixup' : 'cutmix'} makes shares of classes: the loss is one of shares, softCrossEntropy() (--loss soft-cross-entropy)`
    : undefined

/** The input and its targets, where all that is wished for can be done to them. */
export const chanceFits = (augment: Augment, values: readonly FedValue[], isInTurn: boolean): Either<SpillwayError, Values> => {
  const [input, ...targets] = values
  const refused = (reason: string): Either<SpillwayError, never> => E.left(usage(reason))
  const mixes = augment.mixup || augment.cutmix
  const other = targets.find((t) => !isWhole(t) && (t.shape[1] !== input!.shape[1] || t.shape[2] !== input!.shape[2]))
  if (!input?.isInput || targets.some((t) => t.isInput)) return refused('augment is of a model of one input')
  if (other && (augment.flip || augment.turns || augment.crop || augment.cutmix))
    return refused(
      `augment: '${other.key}' is ${sizeWords(other)} and '${input.key}' ${sizeWords(input)}: it is cut and turned with its input where both are as large`,
    )
  if (augment.jitter && input.shape[0] !== 1 && input.shape[0] !== 3)
    return refused(`augment.jitter is of 1 or 3 channels, and '${input.key}' has ${input.shape[0]}`)
  if (mixes && isInTurn)
    return refused('augment: samples that come one after the other have no other one to be mixed with: give { length, read }')
  if (mixes && targets.length > 1) return refused(`augment: samples of one target are mixed, and the model has ${targets.length}`)
  const problem = mixingProblem(
    augment,
    targets[0],
    targets.some((t) => !isWhole(t)),
  )
  return problem === undefined ? E.right([input, ...targets]) : refused(problem)
}

// ---------------------------------------------------------------- one sample

type Numbered = Uint8Array | Int32Array | Float32Array

const asNumbers = (given: SampleValue, isOfLabels: boolean): Numbered => {
  if (given instanceof Uint8Array || given instanceof Int32Array) return given
  if (given instanceof Uint8ClampedArray) return new Uint8Array(given.buffer, given.byteOffset, given.length)
  const list = typeof given === 'number' ? [given] : given
  return isOfLabels ? Int32Array.from(list) : Float32Array.from(list)
}

/** As pixels lie in images. */
const channelsLast = <N extends Numbered>(numbers: N, { shape: [c, h, w] }: FedValue, layout: Chance['layout']): N => {
  if (layout === 'NHWC' || c === 1 || h * w === 1) return numbers
  const out = roomLike(numbers)
  for (let k = 0; k < c; k++) for (let i = 0; i < h * w; i++) out[i * c + k] = numbers[k * h * w + i]!
  return out
}

/** The nearest label of each pixel. */
const nearest = <N extends Numbered>(labels: N, width: number, r: Rectangle, to: Size): N => {
  const out = roomLike(labels)
  for (let y = 0; y < to.height; y++)
    for (let x = 0; x < to.width; x++) {
      const row = r.top + Math.floor((y + 0.5) * (r.height / to.height))
      out[y * to.width + x] = labels[row * width + r.left + Math.floor((x + 0.5) * (r.width / to.width))]!
    }
  return out
}

const numbersOf = (value: FedValue, sample: Sample, name: string, layout: Chance['layout']): Numbered => {
  const given = sample[value.key]
  // One label may stand for the shares of a sample.
  if (value.shares && typeof given === 'number') return sharesOf([given], value.shares, name)
  const labels =
    value.shares && given !== undefined && (given as ArrayLike<number>).length * value.shares.classes === elementsOf(value)
  if (labels) return sharesOf(given as ArrayLike<number>, value.shares, name)
  const problem = valueProblem(value, given)
  if (problem !== undefined) throw dataRefused(name, `${value.key}: ${problem}`)
  return channelsLast(asNumbers(given!, value.labels !== undefined), value, layout)
}

const copied = (pixels: Pixels): Pixels => {
  const out = roomLike(pixels)
  out.set(pixels)
  return out
}

const coloursProblem = (pixels: Pixels): string | undefined => {
  if (pixels instanceof Uint8Array) return undefined
  const odd = pixels.findIndex((p) => !(p >= 0 && p <= 1))
  return odd < 0 ? undefined : `augment.jitter is of bytes, or of numbers from 0 to 1, and one is ${pixels[odd]}`
}

/** Before it is mixed with another: the input, and each target. */
interface Made extends Mixable {
  readonly targets: readonly Numbered[]
}

const madeOf = ([input, ...targets]: Values, chance: Chance, { epoch, index }: Place, sample: Sample, name: string): Made => {
  const { augment, seed, layout, fill } = chance
  const [size, random, channels] = [sizeOf(input), randomFor(seed, epoch, index), input.shape[0]]
  const given = numbersOf(input, sample, name, layout)
  const own: Pixels = given instanceof Int32Array ? Float32Array.from(given) : given
  const crop = augment.crop && cropFor(size, size, 'cover', augment.crop === true ? {} : augment.crop, random)
  const turn = turnFor(augment, size, random)
  const cropped = crop ? resampled(own, size.width, crop, size, channels) : own
  const problem = augment.jitter ? coloursProblem(cropped) : undefined
  if (problem !== undefined) throw dataRefused(name, `${input.key}: ${problem}`)
  const coloured = jittered(turned(cropped, size, channels, turn), channels, augment, random)
  const most = own instanceof Uint8Array ? 255 : 1
  const filling = fill.map((f) => (most === 255 ? Math.round(f * most) : f))
  // What is cut out is written in place, and the sample is its owner's.
  const pixels = augment.cutout ? cutOut(copied(coloured), size, augment, filling, random) : coloured
  const followed = (value: FedValue): Numbered => {
    const numbers = numbersOf(value, sample, name, layout)
    if (isWhole(value)) return numbers
    const part = !crop
      ? numbers
      : value.labels || numbers instanceof Int32Array
        ? nearest(numbers, size.width, crop, size)
        : resampled(numbers, size.width, crop, size, value.shape[0])
    return turned(part, size, value.shape[0], turn)
  }
  const all = targets.map(followed)
  return { pixels, targets: all, ...(all.length === 1 ? { target: all[0]! } : {}) }
}

/** A sample as the model sees it; `read` gives any other. */
export const sampleByChance = async (
  values: Values,
  chance: Chance,
  place: Place,
  own: { readonly sample: Sample; readonly name: string },
  read: (index: number) => Promise<{ readonly sample: Sample; readonly name: string }>,
): Promise<Sample> => {
  const [input, ...targets] = values
  const { augment, seed, others } = chance
  const made = madeOf(values, chance, place, own.sample, own.name)
  const mix = others && mixFor(augment, seed, place.epoch, place.index, others.length)
  const [, target] = values
  const withOther = async (): Promise<Made> => {
    const index = others![mix!.other]!
    const other = await read(index)
    const its = madeOf(values, chance, { epoch: place.epoch, index }, other.sample, other.name)
    return mixed<Made>(made, its, mix!, sizeOf(input), target !== undefined && !isWhole(target))
  }
  const all = mix && mix.share < 1 ? await withOther() : made
  const targetOf = (i: number): SampleValue => (all.target === undefined ? all.targets[i]! : (all.target as SampleValue))
  return { [input.key]: all.pixels, ...Object.fromEntries(targets.map((t, i) => [t.key, targetOf(i)])) }
}
