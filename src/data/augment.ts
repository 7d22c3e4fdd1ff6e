// Random changes of images. In: the augmentation, the random numbers of a sample. Out: the rectangle of an image, its turn, its colours. Invariant: a
// function of seed, epoch and sample alone; a mask is cut and turned as its image is, and its labels stay unchanged.
import type { Pixels, Rectangle, Size } from './decode'
import { greyAt, turnHues } from './greys'
import { type Random, randomOf } from './random'

/**
 * Random changes of images. They differ in each epoch and depend on the seed.
 *
 * @example
 * const augment: Augment = { flip: 'horizontal', crop: true, jitter: true }
 * folder('cats/', { augment })
 */
export interface Augment {
  /**
   * Mirrors each image with probability 0.5: left to right, top to bottom, or both. Default: none.
   *
   * @example folder('cats/', { augment: { flip: 'horizontal' } })
   */
  readonly flip?: 'horizontal' | 'vertical' | 'both'
  /**
   * If true, turns each image by 0, 90, 180 or 270 degrees; an oblong image by 0 or 180. Default false.
   *
   * @example folder('cells/', { augment: { turns: true } })
   */
  readonly turns?: boolean
  /**
   * Cuts a random rectangle of this share of the area and this ratio of width to height. True means 0.08 to 1
   * and 3/4 to 4/3.
   *
   * @example folder('cats/', { augment: { crop: { area: [0.5, 1] } } })
   */
  readonly crop?: boolean | { readonly area?: readonly [number, number]; readonly ratio?: readonly [number, number] }
  /**
   * Changes brightness, contrast and saturation by a factor between 1 − x and 1 + x, and turns the hue by at most x of
   * the colour circle. True means 0.2 for the factors, and 0 for the hue.
   *
   * @example folder('cats/', { augment: { jitter: { brightness: 0.3, hue: 0.05 } } })
   */
  readonly jitter?:
    | boolean
    | { readonly brightness?: number; readonly contrast?: number; readonly saturation?: number; readonly hue?: number }
  /**
   * Blurs each image by a Gaussian filter with a standard deviation between two numbers of pixels. True means 0.1 to 2.
   *
   * @example folder('cats/', { augment: { blur: [0.1, 1] } })
   */
  readonly blur?: boolean | readonly [number, number]
  /**
   * Bends each image and its mask: `shift` is the largest movement as a share of the shorter side, `cells` the number of
   * bends along a side. True means 0.05 and 4.
   *
   * @example folder('cells/', { augment: { elastic: { shift: 0.1 } } })
   */
  readonly elastic?: boolean | { readonly shift?: number; readonly cells?: number }
  /**
   * Applies `count` operations of RandAugment at a strength from 0 to 30. True means 2 operations at strength 9. Masks
   * follow; images need 8 bits.
   *
   * @example folder('cats/', { augment: { randAugment: { count: 2, strength: 12 } } })
   */
  readonly randAugment?: boolean | { readonly count?: number; readonly strength?: number }
  /**
   * Replaces a square by the mean; the number is its side as a share of the shorter side. True means 0.25.
   *
   * @example folder('cats/', { augment: { cutout: 0.3 } })
   */
  readonly cutout?: boolean | number
  /**
   * Mixes each image and its classes with another image, by a share from Beta(x, x). True means x = 0.2. It
   * needs a loss of shares, e.g. `softCrossEntropy()`.
   *
   * @example folder('cats/', { augment: { mixup: 0.4 } })
   */
  readonly mixup?: boolean | number
  /**
   * Replaces a rectangle by one of another image, of an area share from Beta(x, x). True means x = 1. With
   * `mixup`, each sample gets one of the two.
   *
   * @example folder('cats/', { augment: { cutmix: true, mixup: 0.4 } })
   */
  readonly cutmix?: boolean | number
}

export const AUGMENTS = [
  'flip',
  'turns',
  'crop',
  'elastic',
  'randAugment',
  'jitter',
  'blur',
  'cutout',
  'mixup',
  'cutmix',
] as const satisfies readonly (keyof Augment)[]

/** Words of --augment: the options, and a part of one. */
export const AUGMENT_WORDS = [...AUGMENTS, 'hue'] as const
export type AugmentWord = (typeof AUGMENT_WORDS)[number]

const isRange = (u: unknown, most: number): boolean =>
  Array.isArray(u) && u.length === 2 && u.every((n) => Number.isFinite(n) && n > 0 && n <= most) && u[0] <= u[1]
const isShare = (u: unknown): boolean => typeof u === 'number' && u >= 0 && u <= 1

/** The largest strength of RandAugment. */
export const MOST_STRENGTH = 30
const JITTERS: readonly string[] = ['brightness', 'contrast', 'saturation', 'hue']
/** Largest standard deviation of a blur, in pixels. */
const MOST_BLUR = 100

/** The error of an augmentation, in words. */
export const augmentProblem = (a: Augment): string | undefined => {
  const odd = Object.keys(a).find((k) => !(AUGMENTS as readonly string[]).includes(k))
  if (odd !== undefined) return `unknown augment option '${odd}'; allowed: ${AUGMENTS.join(', ')}`
  if (a.flip !== undefined && !['horizontal', 'vertical', 'both'].includes(a.flip))
    return `augment.flip is '${String(a.flip)}'; allowed: horizontal, vertical, both`
  const crop = typeof a.crop === 'object' ? a.crop : {}
  if (crop.area !== undefined && !isRange(crop.area, 1))
    return 'augment.crop.area must be two shares of the image area, the smaller first'
  if (crop.ratio !== undefined && !isRange(crop.ratio, 100)) return 'augment.crop.ratio must be two ratios, the smaller first'
  const jitter = typeof a.jitter === 'object' ? a.jitter : {}
  const wild = Object.entries(jitter).find(([k, x]) => !JITTERS.includes(k) || !isShare(x) || (k === 'hue' && Number(x) > 0.5))
  if (wild)
    return `augment.jitter.${wild[0]} is not allowed; allowed: brightness, contrast, saturation, each from 0 to 1, and hue, from 0 to 0.5`
  return changesProblem(a) ?? othersProblem(a)
}

/** The first member of an option that is unknown or out of its range. */
const memberProblem = (
  name: string,
  given: unknown,
  ranges: Readonly<Record<string, { readonly least: number; readonly most: number; readonly whole?: true }>>,
): string | undefined => {
  if (given === undefined || typeof given === 'boolean') return undefined
  if (typeof given !== 'object' || given === null)
    return `augment.${name} is ${String(given)}; allowed: true or an object of ${Object.keys(ranges).join(', ')}`
  for (const [key, x] of Object.entries(given)) {
    const range = ranges[key]
    if (!range) return `unknown option augment.${name}.${key}; allowed: ${Object.keys(ranges).join(', ')}`
    const { least, most, whole } = range
    if (!(typeof x === 'number' && x >= least && x <= most && (!whole || Number.isInteger(x))))
      return `augment.${name}.${key} is ${String(x)}; allowed: ${whole ? 'whole numbers' : 'numbers'} from ${least} to ${most}`
  }
  return undefined
}

const changesProblem = ({ blur, elastic, randAugment }: Augment): string | undefined => {
  if (blur !== undefined && typeof blur !== 'boolean' && !isRange(blur, MOST_BLUR))
    return `augment.blur is ${JSON.stringify(blur)}; allowed: true, or two numbers of pixels above 0 and at most ${MOST_BLUR}, the smaller first`
  return (
    memberProblem('elastic', elastic, { shift: { least: 0, most: 0.5 }, cells: { least: 1, most: 64, whole: true } }) ??
    memberProblem('randAugment', randAugment, {
      count: { least: 1, most: 20, whole: true },
      strength: { least: 0, most: MOST_STRENGTH },
    })
  )
}

const othersProblem = (a: Augment): string | undefined => {
  if (typeof a.cutout === 'number' && !isShare(a.cutout)) return 'augment.cutout must be a share from 0 to 1'
  const odds = (['mixup', 'cutmix'] as const).find((k) => typeof a[k] === 'number' && !(Number.isFinite(a[k]) && a[k] > 0))
  if (odds !== undefined) return `augment.${odds} is ${String(a[odds])}; allowed: numbers above 0`
  return undefined
}

const AUGMENT = 3
export const randomFor = (seed: number, epoch: number, index: number): Random => randomOf(AUGMENT, seed, epoch, index)

const between = (random: Random, low: number, high: number): number => low + (high - low) * random()

// ---------------------------------------------------------------- which rectangle

/** How an image of another size becomes the model's. */
export const FITS = ['cover', 'stretch', 'pad', 'crop'] as const
export type Fit = (typeof FITS)[number]
/** A fit, or the image's own size: the image at the top left, and a border below and on the right up to the size of the plan. */
export const TAKINGS = [...FITS, 'own'] as const
export type Taking = (typeof TAKINGS)[number]

const centred = (image: Size, width: number, height: number): Rectangle => ({
  left: Math.floor((image.width - width) / 2),
  top: Math.floor((image.height - height) / 2),
  width,
  height,
})

/**
 * The rectangle of an image; it may reach beyond it. Worked example: an image of 400 x 200 for a model of 100 x 100: cover takes the 200 x 200 in the
 * middle, stretch all of it, pad 400 x 400 with a border of 100 above and below, crop the 100 x 100 in the middle.
 */
export const rectangleFor = (image: Size, to: Size, fit: Taking): Rectangle => {
  if (fit === 'own') return { left: 0, top: 0, width: to.width, height: to.height }
  if (fit === 'stretch') return centred(image, image.width, image.height)
  if (fit === 'crop') return centred(image, to.width, to.height)
  const scales = [image.width / to.width, image.height / to.height]
  const scale = fit === 'cover' ? Math.min(...scales) : Math.max(...scales)
  const whole = (n: number): number => Math.max(1, Math.round(n))
  return centred(image, whole(to.width * scale), whole(to.height * scale))
}

const USUAL_AREA = [0.08, 1] as const
const USUAL_RATIO = [3 / 4, 4 / 3] as const
const TRIES = 10

/** For an image that is cropped to the model's size without resizing, anywhere; else as torchvision's RandomResizedCrop draws it. */
export const cropFor = (
  image: Size,
  to: Size,
  fit: Taking,
  crop: Exclude<Augment['crop'], undefined | boolean>,
  random: Random,
): Rectangle => {
  const anywhere = (width: number, height: number): Rectangle => ({
    left: Math.floor(random() * (image.width - width + 1)),
    top: Math.floor(random() * (image.height - height + 1)),
    width,
    height,
  })
  if (fit === 'crop')
    return to.width <= image.width && to.height <= image.height ? anywhere(to.width, to.height) : rectangleFor(image, to, fit)
  const [area, ratio] = [crop.area ?? USUAL_AREA, crop.ratio ?? USUAL_RATIO]
  for (let i = 0; i < TRIES; i++) {
    const pixels = image.width * image.height * between(random, area[0], area[1])
    const shape = Math.exp(between(random, Math.log(ratio[0]), Math.log(ratio[1])))
    const [width, height] = [Math.round(Math.sqrt(pixels * shape)), Math.round(Math.sqrt(pixels / shape))]
    if (width >= 1 && height >= 1 && width <= image.width && height <= image.height) return anywhere(width, height)
  }
  return rectangleFor(image, to, 'cover')
}

// ---------------------------------------------------------------- how it is turned

/** Mirrored first, then turned, in quarters. */
export interface Turn {
  readonly mirrorX: boolean
  readonly mirrorY: boolean
  readonly quarters: 0 | 1 | 2 | 3
}

export const turnFor = (a: Augment, { width, height }: Size, random: Random): Turn => {
  const [x, y, q] = [random(), random(), random()]
  const quarters = !a.turns ? 0 : width === height ? Math.floor(4 * q) : 2 * Math.floor(2 * q)
  return {
    mirrorX: (a.flip === 'horizontal' || a.flip === 'both') && x < 0.5,
    mirrorY: (a.flip === 'vertical' || a.flip === 'both') && y < 0.5,
    quarters: quarters as Turn['quarters'],
  }
}

/** Room for as many numbers of the kind. */
export const roomLike = <N extends Pixels | Int32Array>(numbers: N): N =>
  new (numbers instanceof Float32Array ? Float32Array : numbers instanceof Int32Array ? Int32Array : Uint8Array)(
    numbers.length,
  ) as N

/** Pixels of `channels` numbers each, turned. */
export const turned = <P extends Pixels | Int32Array>(pixels: P, { width, height }: Size, channels: number, turn: Turn): P => {
  if (!turn.mirrorX && !turn.mirrorY && turn.quarters === 0) return pixels
  const out = roomLike(pixels)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      let [fx, fy] = [x, y]
      if (turn.quarters === 1) [fx, fy] = [y, width - 1 - x]
      else if (turn.quarters === 2) [fx, fy] = [width - 1 - x, height - 1 - y]
      else if (turn.quarters === 3) [fx, fy] = [height - 1 - y, x]
      if (turn.mirrorX) fx = width - 1 - fx
      if (turn.mirrorY) fy = height - 1 - fy
      const [from, to] = [(fy * width + fx) * channels, (y * width + x) * channels]
      for (let c = 0; c < channels; c++) out[to + c] = pixels[from + c]!
    }
  return out
}

// ---------------------------------------------------------------- colours

export const USUAL_JITTER: Exclude<Augment['jitter'], boolean | undefined> = { brightness: 0.2, contrast: 0.2, saturation: 0.2 }

const greyMean = (p: Float32Array, channels: number): number => {
  let sum = 0
  for (let i = 0; i < p.length; i += channels) sum += greyAt(p, i, channels)
  return (sum * channels) / p.length
}

/** Brightness, contrast around the mean grey, saturation around each pixel's grey, hue; once rounded, where pixels are bytes. */
export const jittered = (pixels: Pixels, channels: number, a: Augment, random: Random): Pixels => {
  if (!a.jitter) return pixels
  const by = typeof a.jitter === 'object' ? a.jitter : USUAL_JITTER
  const factor = (x: number | undefined): number => between(random, 1 - (x ?? 0), 1 + (x ?? 0))
  const [bright, contrast, saturation] = [factor(by.brightness), factor(by.contrast), factor(by.saturation)]
  const most = pixels instanceof Float32Array ? 1 : 255
  const clamped = (x: number): number => Math.min(most, Math.max(0, x))
  const out = Float32Array.from(pixels, (x) => clamped(x * bright))
  const mean = greyMean(out, channels)
  for (let i = 0; i < out.length; i++) out[i] = clamped(mean + (out[i]! - mean) * contrast)
  for (let i = 0; i < out.length && channels === 3; i += 3) {
    const grey = greyAt(out, i, 3)
    for (let c = i; c < i + 3; c++) out[c] = clamped(grey + (out[c]! - grey) * saturation)
  }
  const { hue = 0 } = by
  if (hue > 0 && channels === 3) turnHues(out, between(random, -hue, hue))
  return pixels instanceof Float32Array ? out : Uint8Array.from(out, Math.round)
}

/** A square somewhere becomes `fill`, of each channel; it may reach beyond the border. In place. */
export const cutOut = (pixels: Pixels, { width, height }: Size, a: Augment, fill: readonly number[], random: Random): Pixels => {
  if (!a.cutout) return pixels
  const side = Math.round((a.cutout === true ? 0.25 : a.cutout) * Math.min(width, height))
  const [left, top] = [width, height].map((n) => Math.floor(random() * n) - Math.floor(side / 2)) as [number, number]
  const channels = fill.length
  for (let y = Math.max(0, top); y < Math.min(height, top + side); y++)
    for (let x = Math.max(0, left); x < Math.min(width, left + side); x++)
      for (let c = 0; c < channels; c++) pixels[(y * width + x) * channels + c] = fill[c]!
  return pixels
}
