// Pictures that are drawn when they are needed: a bright shape on a dark background with grain. Replace them by your own images:
// folder('data/train') reads a folder of images for each class, or images/ with masks/ of equal names.
import { source } from 'spillway'

/** A shape, as a test of points: x and y are from -1 to 1. */
type Shape = (x: number, y: number) => boolean

const SHAPES: Readonly<Record<string, Shape>> = {
  disc: (x, y) => x * x + y * y < 1,
  square: (x, y) => Math.max(Math.abs(x), Math.abs(y)) < 0.8,
  triangle: (x, y) => y < 0.8 && y > 2 * Math.abs(x) - 0.9,
  ring: (x, y) => x * x + y * y < 1 && x * x + y * y > 0.4,
  cross: (x, y) => Math.max(Math.abs(x), Math.abs(y)) < 0.9 && Math.min(Math.abs(x), Math.abs(y)) < 0.3,
  bars: (x, y) => Math.max(Math.abs(x), Math.abs(y)) < 0.9 && Math.abs(x) > 0.35,
}

/** Returns the same numbers from 0 to 1 for the same seed. */
const random = (seed: number): (() => number) => {
  let state = Math.imul(seed + 1, 0x9e3779b9)
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** Draws one shape of the given kinds. The mask holds 0 for the background, and the class plus 1 inside the shape. */
const draw = (kinds: readonly string[], size: number, seed: number) => {
  const next = random(seed)
  const label = Math.floor(next() * kinds.length)
  const isInside = SHAPES[kinds[label]!]!
  const radius = size * (0.2 + 0.15 * next())
  const [cx, cy] = [0, 0].map(() => radius + next() * (size - 2 * radius)) as [number, number]
  const light = 0.4 + 0.5 * next()
  const image = new Float32Array(size * size)
  const mask = new Uint8Array(size * size)
  for (let i = 0; i < image.length; i++) {
    const inside = isInside(((i % size) - cx) / radius, (Math.floor(i / size) - cy) / radius)
    image[i] = 0.3 * next() + (inside ? light : 0)
    mask[i] = inside ? label + 1 : 0
  }
  return { image, mask, label }
}

/** Images with one label each. Sets with different seeds have no picture in common. */
export const labelled = (kinds: readonly string[], size: number, count: number, seed: number) =>
  source({
    length: count,
    read: (i) => {
      const { image, label } = draw(kinds, size, seed + i)
      return { input: image, target: label }
    },
  })

/** Images with a class for each pixel. */
export const masked = (kinds: readonly string[], size: number, count: number, seed: number) =>
  source({
    length: count,
    read: (i) => {
      const { image, mask } = draw(kinds, size, seed + i)
      return { input: image, target: mask }
    },
  })
