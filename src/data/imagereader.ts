// Image files into places. In: the files of each sample, the way from images to the model's input. Out: a Reader. Invariant: a sample's numbers are a
// function of its files, seed and epoch: for any reading thread, and in any order. All of its inputs can be sent to another thread.
import { type Augment, cropFor, cutOut, type Taking, jittered, randomFor, rectangleFor, turned, turnFor } from './augment'
import { blurred, changedLabels, changedPixels, changesFor } from './changes'
import type { SampleValue } from './data'
import {
  type ImageFile,
  labelsOf,
  type Limits,
  nameOfFile,
  nameOfMask,
  pixelsOf,
  type Pixels,
  type Rectangle,
  type Size,
  sizeOf,
} from './decode'
import type { ImageSample } from './found'
import { mixed, mixFor, sharesOf } from './mix'
import type { Place } from './order'
import { filled, nearestIn, partOf, pasted, sameSize } from './parts'
import { dataRefused, type FedValue, type PlaceArray, type PlaceType, valueProblem, writeSample } from './places'
import type { Labels } from './png'
import type { Reader } from './readers'

/** Files of a sample; a picture to predict may be bytes in memory. */
export type FiledSample = Omit<ImageSample, 'image'> & { readonly image: ImageFile }

export interface ImageWork {
  readonly samples: readonly FiledSample[]
  /** The input, and the target where there is one. */
  readonly values: readonly [FedValue, FedValue] | readonly [FedValue]
  readonly fit: Taking
  readonly augment: Augment
  readonly limits: Limits
  readonly seed: number
  /** For each channel, as shares: the value outside an image, and that of erased pixels. */
  readonly fill: readonly number[]
  /** The samples of the run, where images are mixed: with these. */
  readonly others?: Uint32Array
}

const imageAt = async ({ limits, fill }: ImageWork, file: ImageFile, image: Size, r: Rectangle, to: Size): Promise<Pixels> => {
  const channels = fill.length as 1 | 3
  const part = partOf(r, image, to)
  if (part && sameSize(part.to, to)) return pixelsOf(file, part.from, to, channels, limits)
  const isWide = limits.depth === 16
  const out = filled(new (isWide ? Float32Array : Uint8Array)(to.width * to.height * channels), fill, isWide ? 1 : 255)
  return part ? pasted(out, to, await pixelsOf(file, part.from, part.to, channels, limits), part.to, channels) : out
}

/** Bytes, if the ignored label is one. */
const wideLabels = (target: FedValue | undefined): boolean => {
  const ignored = target?.labels?.ignored ?? 0
  return ignored < 0 || ignored > 255
}

/** The nearest label of each pixel; outside the mask the ignored one, or 0. */
const maskAt = ({ pixels, ...size }: Labels, r: Rectangle, to: Size, target: FedValue): Uint8Array | Int32Array => {
  const [all, outside, length] = [{ left: 0, top: 0, ...size }, target.labels?.ignored ?? 0, to.width * to.height]
  return wideLabels(target)
    ? nearestIn<Int32Array>(Int32Array.from(pixels), all, size, r, to, outside, new Int32Array(length))
    : nearestIn<Uint8Array>(pixels, all, size, r, to, outside, new Uint8Array(length))
}

export const imageTypes = ({
  limits,
  samples,
  values,
}: Pick<ImageWork, 'limits' | 'samples' | 'values'>): readonly PlaceType[] => {
  const { label, labels, mask } = samples[0]!
  const target =
    values[1]?.shares !== undefined || values[1]?.binary || values[1]?.several
      ? 'f32'
      : label !== undefined || wideLabels(values[1])
        ? 'i32'
        : 'u8'
  return [
    limits.depth === 16 ? 'f32' : 'u8',
    ...(label === undefined && labels === undefined && mask === undefined ? [] : ([target] as const)),
  ]
}

/** A sample before it is mixed with another: its pixels, and the labels of its class or mask, or their shares. */
interface Made {
  readonly pixels: Pixels
  readonly target?: ArrayLike<number>
  /** The name for errors of the target. */
  readonly name: string
}

/** Two labels as numbers. */
const yesOrNo = (labels: ArrayLike<number>, target: FedValue, name: string): Float32Array => {
  const numbers = Float32Array.from(labels)
  const problem = valueProblem({ ...target, labels: { classes: 2 } }, numbers)
  if (problem !== undefined) throw dataRefused(name, `target: ${problem}`)
  return numbers
}

/** 1 for each class of an image, 0 for the others. */
const multiHot = (labels: readonly number[], { shape: [classes] }: FedValue, name: string): Float32Array => {
  const out = new Float32Array(classes)
  for (const label of labels) {
    if (label >= classes) throw dataRefused(name, `target: ${label} is not one of ${classes} classes (0 to ${classes - 1})`)
    out[label] = 1
  }
  return out
}

/** Throws if a mask has another size than its image. */
export const checkMaskSize = (name: string, mask: Size, image: Size): void => {
  if (sameSize(mask, image)) return
  const turned = mask.width === image.height && mask.height === image.width ? ' when turned upright by its rotation tag' : ''
  throw dataRefused(
    name,
    `${mask.width} x ${mask.height} pixels, but its image has ${image.width} x ${image.height}${turned}: save the mask at the size of its image`,
  )
}

const sampleOf = async (work: ImageWork, epoch: number, index: number): Promise<Made> => {
  const { values, augment, fit, fill, limits, seed } = work
  const [input, target] = values
  const sample = work.samples[index]!
  const to: Size = { height: input.shape[1], width: input.shape[2] }
  const random = randomFor(seed, epoch, index)
  const size = await sizeOf(sample.image, limits)
  const crop = augment.crop && cropFor(size, to, fit, augment.crop === true ? {} : augment.crop, random)
  const from = crop || rectangleFor(size, to, fit)
  const turn = turnFor(augment, to, random)
  const most = limits.depth === 16 ? 1 : 255
  const filling = fill.map((f) => (most === 1 ? f : Math.round(f * most)))
  const channels = fill.length
  const changes = changesFor(augment, to, channels, seed, epoch, index)
  const whole = turned(await imageAt(work, sample.image, size, from, to), to, channels, turn)
  const pixels = changedPixels(whole, to, channels, changes, filling)
  const colours = jittered(pixels, channels, augment, random)
  const cut = cutOut(blurred(colours, to, channels, augment, seed, epoch, index), to, augment, filling, random)
  const { label, labels: several, mask: file } = sample
  if (target && several)
    return { pixels: cut, target: multiHot(several, target, nameOfFile(sample.image)), name: nameOfFile(sample.image) }
  if (!target || (label === undefined && file === undefined)) return { pixels: cut, name: nameOfFile(sample.image) }
  const asWanted = (labels: ArrayLike<number>, name: string): Made => ({
    pixels: cut,
    target: target.shares ? sharesOf(labels, target.shares, name) : target.binary ? yesOrNo(labels, target, name) : labels,
    name,
  })
  if (file === undefined) return asWanted([label!], nameOfFile(sample.image))
  const mask = await labelsOf(file, limits)
  checkMaskSize(nameOfMask(file), mask, size)
  const labels = turned(maskAt(mask, from, to, target), to, 1, turn)
  return asWanted(changedLabels(labels, to, changes, target.labels?.ignored ?? 0), nameOfMask(file))
}

const readSample = async (work: ImageWork, { epoch, index }: Place, arrays: readonly PlaceArray[], at: number): Promise<void> => {
  const [input, target] = work.values
  const { image, mask } = work.samples[index]!
  const own = await sampleOf(work, epoch, index)
  const mix = work.others && mixFor(work.augment, work.seed, epoch, index, work.others.length)
  const size: Size = { height: input.shape[1], width: input.shape[2] }
  const all =
    mix && mix.share < 1 ? mixed(own, await sampleOf(work, epoch, work.others![mix.other]!), mix, size, mask !== undefined) : own
  writeSample(arrays[0]!, input, at, all.pixels, nameOfFile(image))
  if (target && all.target !== undefined) writeSample(arrays[1]!, target, at, all.target as SampleValue, own.name)
}

/** Reads in the thread that asks. */
export const imageReader = (work: ImageWork): Reader => ({
  inTurn: false,
  types: () => Promise.resolve(imageTypes(work)),
  read: (place, _, arrays, at) => readSample(work, place, arrays, at),
  close: () => {},
})
