// Elastic deformation, RandAugment and blur of a sample. In: the augmentation, and the seed, epoch and number of a sample. Out: its changes, and
// pixels and labels after them. Invariant: changes apply at the model's size, so they need no pixel outside the rectangle of a sample. Each kind has
// random numbers of its own.
import type { Augment } from './augment'
import type { Pixels, Size } from './decode'
import { type Change, drawnOperations } from './randaugment'
import { type Random, randomOf } from './random'
import { elasticWarp, warpedLabels, warpedPixels } from './warp'

/** The purposes of a generator's words, apart from those of augment.ts and mix.ts. */
const [ELASTIC, OPERATIONS, BLUR] = [5, 6, 7]

const USUAL_ELASTIC = { shift: 0.05, cells: 4 } as const
const USUAL_OPERATIONS = { count: 2, strength: 9 } as const
const USUAL_BLUR = [0.1, 2] as const

/** The changes of positions and colours of a sample, in their order. */
export const changesFor = (
  a: Augment,
  size: Size,
  channels: number,
  ...of: readonly [seed: number, epoch: number, index: number]
) => {
  const elastic = a.elastic && { ...USUAL_ELASTIC, ...(a.elastic === true ? {} : a.elastic) }
  const operations = a.randAugment && { ...USUAL_OPERATIONS, ...(a.randAugment === true ? {} : a.randAugment) }
  return [
    ...(elastic
      ? [{ kind: 'positions', warp: elasticWarp(size, elastic.shift, elastic.cells, randomOf(ELASTIC, ...of)) } as const]
      : []),
    ...(operations ? drawnOperations(size, channels, operations, randomOf(OPERATIONS, ...of)) : []),
  ] satisfies readonly Change[]
}

/** Pixels after all changes; positions outside an image take the fill. */
export const changedPixels = (
  pixels: Pixels,
  size: Size,
  channels: number,
  changes: readonly Change[],
  fill: readonly number[],
): Pixels =>
  changes.reduce<Pixels>((p, change) => {
    if (change.kind === 'positions') return warpedPixels(p, size, channels, change.warp, fill)
    return p instanceof Uint8Array ? change.of(p) : p
  }, pixels)

/** Numbers of a target, such as distances: interpolated as pixels, but without changes of colours. */
export const changedNumbers = (numbers: Pixels, size: Size, depth: number, changes: readonly Change[]): Pixels =>
  changedPixels(
    numbers,
    size,
    depth,
    changes.filter(({ kind }) => kind === 'positions'),
    Array<number>(depth).fill(0),
  )

/** Labels after the same changes of positions; `outside` where the image has its fill. */
export const changedLabels = <N extends Uint8Array | Int32Array | Float32Array>(
  labels: N,
  size: Size,
  changes: readonly Change[],
  outside: number,
): N => changes.reduce((l, change) => (change.kind === 'positions' ? warpedLabels(l, size, change.warp, outside) : l), labels)

// ---------------------------------------------------------------- blur

/** Beyond this number of standard deviations, weights are left out. */
const REACH = 4

const gaussian = (sigma: number): Float64Array => {
  const radius = Math.ceil(REACH * sigma)
  const heights = Float64Array.from({ length: 2 * radius + 1 }, (_, i) => Math.exp(-((i - radius) ** 2) / (2 * sigma ** 2)))
  const sum = heights.reduce((a, b) => a + b, 0)
  return heights.map((h) => h / sum)
}

/** Index of a pixel beyond the border, as in a mirror at the middle of the last pixel. */
const mirrored = (i: number, extent: number): number => {
  if (extent === 1) return 0
  const period = 2 * (extent - 1)
  const at = ((i % period) + period) % period
  return at < extent ? at : period - at
}

/** Along one axis of `extent` pixels that are `step` numbers apart. */
const blurredAlong = (numbers: Float64Array, extent: number, step: number, weights: Float64Array): Float64Array => {
  const taps = weights.length
  const radius = (taps - 1) / 2
  // For each pixel of a line, the distances to the numbers that it is made of.
  const offsets = Int32Array.from({ length: extent * taps }, (_, i) => {
    const at = Math.floor(i / taps)
    return (mirrored(at + (i % taps) - radius, extent) - at) * step
  })
  const out = new Float64Array(numbers.length)
  for (let line = 0; line < numbers.length; line += extent * step)
    for (let at = 0; at < extent; at++)
      for (let i = line + at * step; i < line + (at + 1) * step; i++) {
        let sum = 0
        for (let k = 0; k < taps; k++) sum += weights[k]! * numbers[i + offsets[at * taps + k]!]!
        out[i] = sum
      }
  return out
}

/** A Gaussian filter with this standard deviation in pixels. Bytes are rounded once. */
export const gaussianBlur = (pixels: Pixels, { width, height }: Size, channels: number, sigma: number): Pixels => {
  const weights = gaussian(sigma)
  const rows = blurredAlong(Float64Array.from(pixels), width, channels, weights)
  const all = blurredAlong(rows, height, width * channels, weights)
  return pixels instanceof Uint8Array ? Uint8Array.from(all, Math.round) : Float32Array.from(all)
}

/** Blurred by a random standard deviation. */
export const blurred = (
  pixels: Pixels,
  size: Size,
  channels: number,
  { blur }: Augment,
  ...of: readonly [seed: number, epoch: number, index: number]
): Pixels => {
  if (!blur) return pixels
  const [low, high] = blur === true ? USUAL_BLUR : blur
  const random: Random = randomOf(BLUR, ...of)
  return gaussianBlur(pixels, size, channels, low + (high - low) * random())
}
