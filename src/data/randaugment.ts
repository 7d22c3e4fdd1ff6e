// RandAugment (Cubuk et al., 2020): some operations, each drawn from one list, at one strength. In: bytes, channels last. Out: operations, and bytes.
// Invariant: the operations and their values are those of torchvision with PIL: test/fixtures/make_augment.py has PIL compute the same. Positions
// are interpolated linearly. Worked example: at strength 30, solarize inverts all bytes, and rotate turns by 30 degrees to either side.
import { MOST_STRENGTH } from './augment'
import type { Size } from './decode'
import { greyAt } from './greys'
import type { Random } from './random'
import { type Affine, affineWarp, type Warp } from './warp'

/** An operation of the list; `strength` is a share of the largest, `sign` 1 or -1. */
interface Operation {
  readonly colours?: (pixels: Uint8Array, size: Size, channels: number, strength: number, sign: number) => Uint8Array
  readonly positions?: (size: Size, strength: number, sign: number) => Affine
}

const [SHEAR, SHIFT, DEGREES, FACTOR, BITS] = [0.3, 150 / 331, 30, 0.9, 4] as const

// ---------------------------------------------------------------- colours

const clipped = (x: number): number => Math.min(255, Math.max(0, Math.trunc(x)))

/** Each channel by a table of its own, made from its histogram. */
const byTables = (pixels: Uint8Array, channels: number, tableOf: (histogram: Uint32Array) => ArrayLike<number> | undefined) => {
  const out = pixels.slice()
  for (let c = 0; c < channels; c++) {
    const histogram = new Uint32Array(256)
    for (let i = c; i < pixels.length; i += channels) histogram[pixels[i]!]!++
    const table = tableOf(histogram)
    for (let i = c; table && i < pixels.length; i += channels) out[i] = clipped(table[pixels[i]!]!)
  }
  return out
}

/** Stretches the values of each channel to 0 and 255. */
export const autocontrast = (pixels: Uint8Array, channels: number): Uint8Array =>
  byTables(pixels, channels, (histogram) => {
    const used = [...histogram.keys()].filter((i) => histogram[i]! > 0)
    const [low, high] = [used[0]!, used.at(-1)!]
    const scale = 255 / (high - low)
    return high <= low ? undefined : Float64Array.from({ length: 256 }, (_, i) => i * scale - low * scale)
  })

/** Makes the histogram of each channel flat. */
export const equalize = (pixels: Uint8Array, channels: number): Uint8Array =>
  byTables(pixels, channels, (histogram) => {
    const used = histogram.filter((n) => n > 0)
    const step = Math.floor((pixels.length / channels - used.at(-1)!) / 255)
    if (used.length < 2 || step === 0) return undefined
    let sum = Math.floor(step / 2)
    return Uint32Array.from(histogram, (n) => {
      const value = Math.floor(sum / step)
      sum += n
      return value
    })
  })

/** Keeps the high bits of each byte. */
export const posterize = (pixels: Uint8Array, bits: number): Uint8Array => pixels.map((x) => x & (256 - 2 ** (8 - bits)))

/** Inverts the bytes that are not below the threshold. */
export const solarize = (pixels: Uint8Array, threshold: number): Uint8Array => pixels.map((x) => (x < threshold ? x : 255 - x))

/** `other` at factor 0, the pixels at 1, and beyond them above. */
const blended = (pixels: Uint8Array, other: (i: number) => number, factor: number): Uint8Array =>
  pixels.map((x, i) => clipped(other(i) + factor * (x - other(i))))

export const brightness = (pixels: Uint8Array, factor: number): Uint8Array => blended(pixels, () => 0, factor)

const greysOf = (pixels: Uint8Array, channels: number): Uint8Array =>
  Uint8Array.from({ length: pixels.length / channels }, (_, i) => Math.round(greyAt(pixels, i * channels, channels)))

/** Around the mean grey. */
export const contrast = (pixels: Uint8Array, channels: number, factor: number): Uint8Array => {
  const greys = greysOf(pixels, channels)
  const mean = Math.floor(greys.reduce((a, b) => a + b, 0) / greys.length + 0.5)
  return blended(pixels, () => mean, factor)
}

/** Around the grey of each pixel. */
export const colour = (pixels: Uint8Array, channels: number, factor: number): Uint8Array => {
  const greys = greysOf(pixels, channels)
  return blended(pixels, (i) => greys[Math.floor(i / channels)]!, factor)
}

/** Around a smoothed image; pixels of the border stay. */
export const sharpness = (pixels: Uint8Array, { width, height }: Size, channels: number, factor: number): Uint8Array => {
  const row = width * channels
  const smooth = pixels.slice()
  for (let y = 1; y < height - 1; y++)
    for (let i = y * row + channels; i < (y + 1) * row - channels; i++) {
      let sum = 4 * pixels[i]!
      for (const j of [i - row, i, i + row]) sum += pixels[j - channels]! + pixels[j]! + pixels[j + channels]!
      smooth[i] = Math.floor(sum / 13 + 0.5)
    }
  return blended(pixels, (i) => smooth[i]!, factor)
}

// ---------------------------------------------------------------- positions

/** Turns an image around its middle, counterclockwise. */
export const rotation = ({ width, height }: Size, degrees: number): Affine => {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)]
  const [x, y] = [width / 2, height / 2]
  return [cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y]
}
export const shearX = (by: number): Affine => [1, by, 0, 0, 1, 0]
export const shearY = (by: number): Affine => [1, 0, 0, by, 1, 0]
export const shift = (x: number, y: number): Affine => [1, 0, -x, 0, 1, -y]

// ---------------------------------------------------------------- the list

const factorOf = (strength: number, sign: number): number => 1 + sign * strength * FACTOR

/** The operations by name, in a fixed order. */
export const OPERATIONS = {
  identity: {},
  shearX: { positions: (_, s, sign) => shearX(sign * s * SHEAR) },
  shearY: { positions: (_, s, sign) => shearY(sign * s * SHEAR) },
  translateX: { positions: ({ width }, s, sign) => shift(sign * Math.trunc(s * SHIFT * width), 0) },
  translateY: { positions: ({ height }, s, sign) => shift(0, sign * Math.trunc(s * SHIFT * height)) },
  rotate: { positions: (size, s, sign) => rotation(size, sign * s * DEGREES) },
  brightness: { colours: (p, _, __, s, sign) => brightness(p, factorOf(s, sign)) },
  colour: { colours: (p, _, channels, s, sign) => colour(p, channels, factorOf(s, sign)) },
  contrast: { colours: (p, _, channels, s, sign) => contrast(p, channels, factorOf(s, sign)) },
  sharpness: { colours: (p, size, channels, s, sign) => sharpness(p, size, channels, factorOf(s, sign)) },
  posterize: { colours: (p, _, __, s) => posterize(p, 8 - Math.round(s * BITS)) },
  solarize: { colours: (p, _, __, s) => solarize(p, 255 * (1 - s)) },
  autocontrast: { colours: (p, _, channels) => autocontrast(p, channels) },
  equalize: { colours: (p, _, channels) => equalize(p, channels) },
} as const satisfies Readonly<Record<string, Operation>>

/** One change of an image: of its positions, or of its colours. */
export type Change =
  | { readonly kind: 'positions'; readonly warp: Warp }
  | { readonly kind: 'colours'; readonly of: (pixels: Uint8Array) => Uint8Array }

/** `count` operations at a strength from 0 to 30. */
export const drawnOperations = (
  size: Size,
  channels: number,
  { count, strength }: { readonly count: number; readonly strength: number },
  random: Random,
): readonly Change[] => {
  const all: readonly Operation[] = Object.values(OPERATIONS)
  return Array.from({ length: count }, () => [random(), random()] as const).flatMap(([choice, side]): readonly Change[] => {
    const { colours, positions } = all[Math.floor(choice * all.length)]!
    const [share, sign] = [strength / MOST_STRENGTH, side < 0.5 ? 1 : -1]
    if (positions) return [{ kind: 'positions', warp: affineWarp(size, positions(size, share, sign)) }]
    return colours ? [{ kind: 'colours', of: (pixels) => colours(pixels, size, channels, share, sign) }] : []
  })
}
