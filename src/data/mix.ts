// Samples mixed with others: mixup (Zhang et al., 2018) and cutmix (Yun et al., 2019). In: the augmentation, seed, epoch and sample; two samples.
// Out: the other sample, and the kind of mixture; and the mixture. Invariant: a function of seed, epoch and sample alone, with numbers of its own, so
// that a sample is cut, turned and coloured as without mixing.
import type { Augment } from './augment'
import type { Pixels, Rectangle, Size } from './decode'
import { dataRefused } from './places'
import { type Random, randomOf } from './random'

/** How a sample is mixed: with which of the others, and how much of it is its own. */
export type Mix = { readonly other: number; readonly share: number } & (
  | { readonly kind: 'mixup' }
  | { readonly kind: 'cutmix'; readonly across: number; readonly down: number }
)

const MIX = 4

/** Normally distributed, by Box and Muller. */
const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

/** A number of the gamma distribution of this shape, by Marsaglia and Tsang; below 1 by that of one more. */
const gamma = (shape: number, random: Random): number => {
  if (shape < 1) return gamma(shape + 1, random) * (1 - random()) ** (1 / shape)
  const d = shape - 1 / 3
  for (;;) {
    const x = normal(random)
    const v = (1 + x / Math.sqrt(9 * d)) ** 3
    if (v > 0 && Math.log(1 - random()) < (x * x) / 2 + d - d * v + d * Math.log(v)) return d * v
  }
}

/** Of Beta(x, x). */
export const betaOf = (x: number, random: Random): number => {
  const [a, b] = [gamma(x, random), gamma(x, random)]
  return a + b === 0 ? 0.5 : a / (a + b)
}

const USUAL = { mixup: 0.2, cutmix: 1 } as const

export const mixFor = (a: Augment, seed: number, epoch: number, index: number, others: number): Mix | undefined => {
  if (!a.mixup && !a.cutmix) return undefined
  const random = randomOf(MIX, seed, epoch, index)
  const [other, choice] = [Math.floor(random() * others), random()]
  const kind = a.mixup && (!a.cutmix || choice < 0.5) ? 'mixup' : 'cutmix'
  const odds = a[kind]!
  const share = betaOf(odds === true ? USUAL[kind] : Number(odds), random)
  return kind === 'mixup' ? { kind, other, share } : { kind, other, share, across: random(), down: random() }
}

/** The rectangle from the other image: of its share of the area, its middle anywhere, cut at the border. */
const windowOf = ({ width, height }: Size, { share, across, down }: Extract<Mix, { readonly kind: 'cutmix' }>): Rectangle => {
  const side = Math.sqrt(1 - share)
  const along = (extent: number, middle: number): readonly [number, number] => {
    const [half, at] = [Math.floor(side * extent) / 2, Math.floor(middle * extent)]
    return [Math.max(0, Math.floor(at - half)), Math.min(extent, Math.floor(at + half))]
  }
  const [[left, right], [top, bottom]] = [along(width, across), along(height, down)]
  return { left, top, width: right - left, height: bottom - top }
}

/** a·share + b·(1 − share); once rounded, where both are bytes. */
const blended = <N extends ArrayLike<number>>(a: N, b: N, share: number): N => {
  const at = (i: number): number => share * a[i]! + (1 - share) * b[i]!
  return (a instanceof Uint8Array ? a.map((_, i) => Math.round(at(i))) : Float32Array.from(a, (_, i) => at(i))) as unknown as N
}

/** `a` with the part of `b` in a rectangle. */
const pastedInto = <N extends ArrayLike<number>>(a: N, b: N, { width }: Size, r: Rectangle, channels: number): N => {
  const out = (a as unknown as Uint8Array).slice()
  for (let y = r.top; y < r.top + r.height; y++) {
    const [from, to] = [(y * width + r.left) * channels, (y * width + r.left + r.width) * channels]
    out.set((b as unknown as Uint8Array).subarray(from, to), from)
  }
  return out as unknown as N
}

/** Labels as shares of the classes: all of a pixel is of its own. */
export const sharesOf = (labels: ArrayLike<number>, { classes }: { readonly classes: number }, name: string): Float32Array => {
  const shares = new Float32Array(labels.length * classes)
  for (let i = 0; i < labels.length; i++) {
    const label = labels[i]!
    if (!(Number.isInteger(label) && label >= 0 && label < classes))
      throw dataRefused(name, `target: ${label} is not one of ${classes} classes (0 to ${classes - 1})`)
    shares[i * classes + label] = 1
  }
  return shares
}

/** The pixels of an image, and a label or shares for the whole of it or for each pixel. */
export interface Mixable {
  readonly pixels: Pixels
  readonly target?: ArrayLike<number>
}

/** `isOfPixels`: the target has something for each pixel. */
export const mixed = <M extends Mixable>(a: M, b: M, mix: Mix, size: Size, isOfPixels: boolean): M => {
  const area = size.width * size.height
  if (mix.kind === 'mixup')
    return {
      ...a,
      pixels: blended(a.pixels, b.pixels, mix.share),
      ...(a.target ? { target: blended(a.target, b.target!, mix.share) } : {}),
    }
  const r = windowOf(size, mix)
  const pixels = pastedInto(a.pixels, b.pixels, size, r, a.pixels.length / area)
  if (!a.target) return { ...a, pixels }
  const target = isOfPixels
    ? pastedInto(a.target, b.target!, size, r, a.target.length / area)
    : blended(a.target, b.target!, 1 - (r.width * r.height) / area)
  return { ...a, pixels, target }
}
