// Random changes of samples from a user's own source. In: the augmentation, the fed values, a sample, or an image with regions. Out: the sample, cut,
// turned, coloured and mixed, its channels last. Invariant: a function of the sample, seed, epoch and index alone, as for image files; only the cut
// part is read; a target of the input's height and width is cut and turned as the input is, and one number or list for the whole of it stays
// unchanged.
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { type SpillwayError, usage } from '../errors/errors'
import { type Augment, cropFor, cutOut, type Fit, jittered, randomFor, rectangleFor, roomLike, turned, turnFor } from './augment'
import type { Random } from './random'
import { blurred, changedLabels, changedNumbers, changedPixels, changesFor } from './changes'
import type { Numbers, Sample, SampleValue } from './data'
import type { Pixels, Rectangle, Size } from './decode'
import { type Mixable, mixed, mixFor, sharesOf } from './mix'
import type { Place } from './order'
import { cutFrom, filled, nearestIn, type Part, partOf, pasted, sameSize } from './parts'
import { dataRefused, elementsOf, type FedValue, valueProblem } from './places'
import { resampled } from './resample'

/** The random changes of a source. */
export interface Chance {
  readonly augment: Augment
  readonly seed: number
  readonly layout: NonNullable<Numbers['layout']>
  /** How an image of another size becomes the model's. */
  readonly fit: Fit
  /** For each channel of the input, the value of erased pixels and of those outside an image: as shares of 255 for bytes. */
  readonly fill: readonly number[]
  /** The samples of the run, where they are mixed: with these. */
  readonly others?: Uint32Array
}

/** The read part of an image: numbers of a window of it, and facts of the whole. */
export interface Window {
  readonly sample: Sample
  readonly window: Rectangle
  readonly name: string
}
/** Reads the rectangle, which is inside; or more. */
export interface Picture {
  readonly size: Size
  readonly read: (r: Rectangle) => Promise<Window>
}

type Values = readonly [input: FedValue, ...targets: FedValue[]]

const sizeOf = ({ shape: [, height, width] }: FedValue): Size => ({ height, width })
const isWhole = ({ shape: [, h, w] }: FedValue): boolean => h * w === 1
const sizeWords = ({ shape: [, h, w] }: FedValue): string => `${h} x ${w}`

/** The needs of mixing in the target, for samples of any source. */
export const mixingProblem = (augment: Augment, target: FedValue | undefined, isOfPixels: boolean): string | undefined =>
  target?.labels && !target.shares && (augment.mixup || (augment.cutmix && !isOfPixels))
    ? `augment.${augment.mixup ? 'mixup' : 'cutmix'} needs a loss with class probabilities: softCrossEntropy() (--loss soft-cross-entropy)`
    : undefined

/** Changes that a target with a value per pixel follows. */
const FOLLOWED = ['flip', 'turns', 'crop', 'elastic', 'randAugment', 'cutmix'] as const

/** The input and its targets, where all that is wished for can be done to them. */
export const chanceFits = (
  augment: Augment,
  values: readonly FedValue[],
  { isInTurn, isOfRegions }: { readonly isInTurn: boolean; readonly isOfRegions: boolean },
): Either<SpillwayError, Values> => {
  const [input, ...targets] = values
  const refused = (reason: string): Either<SpillwayError, never> => E.left(usage(reason))
  const mixes = augment.mixup || augment.cutmix
  const other = targets.find((t) => !isWhole(t) && (t.shape[1] !== input!.shape[1] || t.shape[2] !== input!.shape[2]))
  if (!input?.isInput || targets.some((t) => t.isInput))
    return refused(`${isOfRegions ? 'a source of regions' : 'augment'} needs a model with one input`)
  if (other && isOfRegions)
    return refused(
      `'${other.key}' is ${sizeWords(other)}, but '${input.key}' is ${sizeWords(input)}: in a region, both must have one size, or the target must be one label per image`,
    )
  if (other && FOLLOWED.some((a) => augment[a]))
    return refused(
      `augment: '${other.key}' is ${sizeWords(other)}, but '${input.key}' is ${sizeWords(input)}: both must have one size to be changed together`,
    )
  const ofColours = (['jitter', 'randAugment'] as const).find((a) => augment[a])
  if (ofColours && input.shape[0] !== 1 && input.shape[0] !== 3)
    return refused(`augment.${ofColours} needs 1 or 3 channels; '${input.key}' has ${input.shape[0]}`)
  if (mixes && isInTurn) return refused('augment: mixing needs samples in any order: pass { length, read } instead of a stream')
  if (mixes && targets.length > 1)
    return refused(`augment: mixing needs a model with one target; this model has ${targets.length}`)
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
  if (given instanceof Int32Array) return given
  // A Buffer's slices are views of it.
  if (given instanceof Uint8Array || given instanceof Uint8ClampedArray)
    return given.constructor === Uint8Array ? given : new Uint8Array(given.buffer, given.byteOffset, given.length)
  const list = typeof given === 'number' ? [given] : given
  return isOfLabels ? Int32Array.from(list) : Float32Array.from(list)
}

const likeRoom = (numbers: Exclude<SampleValue, number>): number[] | Float64Array | Numbered => {
  if (Array.isArray(numbers)) return Array<number>(numbers.length)
  if (numbers instanceof Float64Array) return new Float64Array(numbers.length)
  return roomLike(numbers as Numbered)
}

/** As pixels lie in images. */
export const channelsLast = <N extends Exclude<SampleValue, number>>(
  numbers: N,
  { shape: [c, h, w] }: FedValue,
  layout: Chance['layout'],
): N => {
  if (layout === 'NHWC' || c === 1 || h * w === 1) return numbers
  const out = likeRoom(numbers)
  for (let k = 0; k < c; k++) for (let i = 0; i < h * w; i++) out[i * c + k] = numbers[k * h * w + i]!
  return out as unknown as N
}

/** A value with something for each pixel of the input is as large as the read part. */
const readOf = (value: FedValue, input: FedValue, { height, width }: Size): FedValue =>
  sameSize(sizeOf(value), sizeOf(input)) ? { ...value, shape: [value.shape[0], height, width] } : value

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

const coloursProblem = (pixels: Pixels, { jitter, randAugment }: Augment): string | undefined => {
  if (pixels instanceof Uint8Array || !(jitter || randAugment)) return undefined
  if (randAugment) return 'augment.randAugment needs bytes: pass a Uint8Array'
  const odd = pixels.findIndex((p) => !(p >= 0 && p <= 1))
  return odd < 0 ? undefined : `augment.jitter needs bytes, or numbers from 0 to 1; found ${pixels[odd]}`
}

/** The rectangle of an image that becomes the model's input. */
export const rectangleIn = (
  image: Size,
  to: Size,
  { fit, augment }: Pick<Chance, 'fit' | 'augment'>,
  random: Random,
): Rectangle => {
  const crop = augment.crop && cropFor(image, to, fit, augment.crop === true ? {} : augment.crop, random)
  return crop || rectangleFor(image, to, fit)
}

/** Before it is mixed with another: the input, and each target. */
interface Made extends Mixable {
  readonly targets: readonly Numbered[]
}

/** A part of the read window, at its size. */
const sized = (numbers: Pixels, window: Rectangle, { from, to }: Part, channels: number): Pixels => {
  const r = { ...from, left: from.left - window.left, top: from.top - window.top }
  return sameSize(from, to) ? cutFrom(numbers, window.width, r, channels) : resampled(numbers, window.width, r, to, channels)
}

/** The part in its place, where it is not all. */
const placed = (part: Pixels, { to: at }: Part, to: Size, channels: number, fill: readonly number[]): Pixels => {
  if (sameSize(at, to)) return part
  const length = to.width * to.height * channels
  const space = part instanceof Float32Array ? new Float32Array(length) : new Uint8Array(length)
  return pasted(filled(space, fill, 255), to, part, at, channels)
}

/** Space for labels and for the ignored one. */
const labelRoom = (labels: Numbered, length: number, outside: number): Numbered =>
  labels instanceof Uint8Array && outside >= 0 && outside <= 255 ? new Uint8Array(length) : new Int32Array(length)

const madeOf = async ([input, ...targets]: Values, chance: Chance, { epoch, index }: Place, picture: Picture): Promise<Made> => {
  const { augment, seed, layout, fill } = chance
  const [size, random, channels] = [sizeOf(input), randomFor(seed, epoch, index), input.shape[0]]
  const from = rectangleIn(picture.size, size, chance, random)
  const turn = turnFor(augment, size, random)
  // Rectangles are inside, or around the middle.
  const part = partOf(from, picture.size, size)!
  const { sample, window, name } = await picture.read(part.from)
  const given = numbersOf(readOf(input, input, window), sample, name, layout)
  const own: Pixels = given instanceof Int32Array ? Float32Array.from(given) : given
  const cropped = placed(sized(own, window, part, channels), part, size, channels, fill)
  const problem = coloursProblem(cropped, augment)
  if (problem !== undefined) throw dataRefused(name, `${input.key}: ${problem}`)
  const most = own instanceof Uint8Array ? 255 : 1
  const filling = fill.map((f) => (most === 255 ? Math.round(f * most) : f))
  const changes = changesFor(augment, size, channels, seed, epoch, index)
  const changed = changedPixels(turned(cropped, size, channels, turn), size, channels, changes, filling)
  const coloured = blurred(jittered(changed, channels, augment, random), size, channels, augment, seed, epoch, index)
  // Erasing writes in place, and the sample is its owner's.
  const pixels = augment.cutout ? cutOut(copied(coloured), size, augment, filling, random) : coloured
  const followed = (value: FedValue): Numbered => {
    const numbers = numbersOf(readOf(value, input, window), sample, name, layout)
    if (isWhole(value) || !sameSize(sizeOf(value), size)) return numbers
    const [depth, outside] = [value.shape[0], value.labels?.ignored ?? 0]
    const ofNumbers = (): Pixels => {
      const pixels = numbers instanceof Int32Array ? Float32Array.from(numbers) : numbers
      return placed(sized(pixels, window, part, depth), part, size, depth, Array<number>(depth).fill(0))
    }
    const ofLabels = (): Numbered => {
      const room = labelRoom(numbers, size.width * size.height, outside)
      return nearestIn<Numbered>(numbers, window, picture.size, from, size, outside, room)
    }
    if (value.labels) return changedLabels(turned(ofLabels(), size, depth, turn), size, changes, outside)
    return changedNumbers(turned(ofNumbers(), size, depth, turn), size, depth, changes)
  }
  const all = targets.map(followed)
  return { pixels, targets: all, ...(all.length === 1 ? { target: all[0]! } : {}) }
}

/** A sample as the model sees it; `pictureAt` finds any. */
export const sampleByChance = async (
  values: Values,
  chance: Chance,
  place: Place,
  pictureAt: (index: number) => Promise<Picture>,
): Promise<Sample> => {
  const [input, ...targets] = values
  const { augment, seed, others } = chance
  const made = await madeOf(values, chance, place, await pictureAt(place.index))
  const mix = others && mixFor(augment, seed, place.epoch, place.index, others.length)
  const [, target] = values
  const withOther = async (): Promise<Made> => {
    const index = others![mix!.other]!
    const its = await madeOf(values, chance, { epoch: place.epoch, index }, await pictureAt(index))
    return mixed<Made>(made, its, mix!, sizeOf(input), target !== undefined && !isWhole(target))
  }
  const all = mix && mix.share < 1 ? await withOther() : made
  const targetOf = (i: number): SampleValue => (all.target === undefined ? all.targets[i]! : (all.target as SampleValue))
  return { [input.key]: all.pixels, ...Object.fromEntries(targets.map((t, i) => [t.key, targetOf(i)])) }
}
