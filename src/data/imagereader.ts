// Image files into places. In: the files of each sample, how images become the model's. Out: a Reader. Invariant: a sample's numbers are a
// function of its files, seed and epoch: whichever thread reads it, and in whatever order. All of what it is told can go to another thread.
import { type Augment, cropFor, cutOut, type Fit, jittered, randomFor, rectangleFor, turned, turnFor } from './augment'
import type { SampleValue } from './data'
import { labelsOf, type Limits, pixelsOf, type Pixels, type Rectangle, type Size, sizeOf } from './decode'
import type { ImageSample } from './images'
import { mixed, mixFor, sharesOf } from './mix'
import type { Place } from './order'
import { dataRefused, type FedValue, type PlaceArray, type PlaceType, writeSample } from './places'
import type { Reader } from './readers'

export interface ImageWork {
  readonly samples: readonly ImageSample[]
  /** The input, and the target where there is one. */
  readonly values: readonly [FedValue, FedValue] | readonly [FedValue]
  readonly fit: Fit
  readonly augment: Augment
  readonly limits: Limits
  readonly seed: number
  /** Of each channel, as shares: what lies outside an image, and what is cut out. */
  readonly fill: readonly number[]
  /** The samples of the run, where images are mixed: with these. */
  readonly others?: Uint32Array
}

/** Where part of a rectangle lies in the image, and where that part goes. */
interface Part {
  readonly from: Rectangle
  readonly to: Rectangle
}

/** What of a rectangle the image has; undefined where it has nothing. */
const partOf = (r: Rectangle, image: Size, to: Size): Part | undefined => {
  const left = Math.max(0, r.left)
  const top = Math.max(0, r.top)
  const right = Math.min(image.width, r.left + r.width)
  const bottom = Math.min(image.height, r.top + r.height)
  if (right <= left || bottom <= top) return undefined
  const x = (at: number): number => Math.round(((at - r.left) * to.width) / r.width)
  const y = (at: number): number => Math.round(((at - r.top) * to.height) / r.height)
  return {
    from: { left, top, width: right - left, height: bottom - top },
    to: { left: x(left), top: y(top), width: Math.max(1, x(right) - x(left)), height: Math.max(1, y(bottom) - y(top)) },
  }
}

const filled = (out: Pixels, fill: readonly number[], most: number): Pixels => {
  const numbers = out instanceof Float32Array ? fill : fill.map((f) => Math.round(f * most))
  for (let i = 0; i < out.length; i++) out[i] = numbers[i % numbers.length]!
  return out
}

/** A part's rows at their place in the whole. */
const pasted = (out: Pixels, size: Size, part: Pixels, at: Rectangle, channels: number): Pixels => {
  for (let y = 0; y < at.height && at.top + y < size.height; y++) {
    const row = part.subarray(y * at.width * channels, (y + 1) * at.width * channels)
    out.set(row.subarray(0, (size.width - at.left) * channels), ((at.top + y) * size.width + at.left) * channels)
  }
  return out
}

const imageAt = async ({ limits, fill }: ImageWork, file: string, image: Size, r: Rectangle, to: Size): Promise<Pixels> => {
  const channels = fill.length as 1 | 3
  const part = partOf(r, image, to)
  const isWhole = part && part.to.width === to.width && part.to.height === to.height
  if (isWhole) return pixelsOf(file, part.from, to, channels, limits)
  const isWide = limits.depth === 16
  const out = filled(new (isWide ? Float32Array : Uint8Array)(to.width * to.height * channels), fill, isWide ? 1 : 255)
  return part ? pasted(out, to, await pixelsOf(file, part.from, part.to, channels, limits), part.to, channels) : out
}

/** The nearest label of each pixel; outside the mask what is ignored, or 0. */
const maskAt = (pixels: Uint8Array, mask: Size, r: Rectangle, to: Size, outside: number): Uint8Array =>
  Uint8Array.from({ length: to.width * to.height }, (_, i) => {
    const x = r.left + Math.floor(((i % to.width) + 0.5) * (r.width / to.width))
    const y = r.top + Math.floor((Math.floor(i / to.width) + 0.5) * (r.height / to.height))
    return x >= 0 && y >= 0 && x < mask.width && y < mask.height ? pixels[y * mask.width + x]! : outside
  })

export const imageTypes = ({
  limits,
  samples,
  values,
}: Pick<ImageWork, 'limits' | 'samples' | 'values'>): readonly PlaceType[] => {
  const { label, mask } = samples[0]!
  const target = values[1]?.shares !== undefined ? 'f32' : label !== undefined ? 'i32' : 'u8'
  return [limits.depth === 16 ? 'f32' : 'u8', ...(label === undefined && mask === undefined ? [] : ([target] as const))]
}

/** What a sample is before it is mixed with another: its pixels, and of its class or mask the labels, or their shares. */
interface Made {
  readonly pixels: Pixels
  readonly target?: ArrayLike<number>
  /** Where what is wrong with the target is to be looked for. */
  readonly name: string
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
  const pixels = turned(await imageAt(work, sample.image, size, from, to), to, fill.length, turn)
  const most = limits.depth === 16 ? 1 : 255
  const colours = jittered(pixels, fill.length, augment, random)
  const cut = cutOut(
    colours,
    to,
    augment,
    fill.map((f) => (most === 1 ? f : Math.round(f * most))),
    random,
  )
  const { label, mask: file } = sample
  if (!target || (label === undefined && file === undefined)) return { pixels: cut, name: sample.image }
  const asWanted = (labels: ArrayLike<number>, name: string): Made => ({
    pixels: cut,
    target: target.shares ? sharesOf(labels, target.shares, name) : labels,
    name,
  })
  if (file === undefined) return asWanted([label!], sample.image)
  const mask = await labelsOf(file, limits)
  if (mask.width !== size.width || mask.height !== size.height)
    throw dataRefused(file, `${mask.width} x ${mask.height} pixels, but its image has ${size.width} x ${size.height}`)
  return asWanted(turned(maskAt(mask.pixels, mask, from, to, target.labels?.ignored ?? 0), to, 1, turn), file)
}

const readSample = async (work: ImageWork, { epoch, index }: Place, arrays: readonly PlaceArray[], at: number): Promise<void> => {
  const [input, target] = work.values
  const { image, mask } = work.samples[index]!
  const own = await sampleOf(work, epoch, index)
  const mix = work.others && mixFor(work.augment, work.seed, epoch, index, work.others.length)
  const size: Size = { height: input.shape[1], width: input.shape[2] }
  const all =
    mix && mix.share < 1 ? mixed(own, await sampleOf(work, epoch, work.others![mix.other]!), mix, size, mask !== undefined) : own
  writeSample(arrays[0]!, input, at, all.pixels, image)
  if (target && all.target !== undefined) writeSample(arrays[1]!, target, at, all.target as SampleValue, own.name)
}

/** Reads in the thread that asks. */
export const imageReader = (work: ImageWork): Reader => ({
  inTurn: false,
  types: () => Promise.resolve(imageTypes(work)),
  read: (place, _, arrays, at) => readSample(work, place, arrays, at),
  close: () => {},
})
