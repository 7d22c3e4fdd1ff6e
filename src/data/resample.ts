// Pixels at another size. In: numbers, channels last, and a rectangle of them. Out: the rectangle at a size, by a bicubic filter whose width grows
// where it gets smaller, as Pillow's and PyTorch's with antialias. Invariant: nothing outside the rectangle is read; bytes are rounded once.
// Worked example: 4 numbers become 2: each is made of the 4, by the weights that the filter, twice as wide, has at their middles.
import type { Pixels, Rectangle, Size } from './decode'

/** Along one axis: where the numbers begin that one of the result is made of, and their weights, which add up to 1. */
interface Taps {
  readonly from: number
  readonly weights: readonly number[]
}

/** Keys's, with a = -1/2. */
const cubic = (x: number): number => {
  const d = Math.abs(x)
  return d < 1 ? (1.5 * d - 2.5) * d * d + 1 : d < 2 ? ((-0.5 * d + 2.5) * d - 4) * d + 2 : 0
}
const RADIUS = 2

const tapsOf = (extent: number, to: number): readonly Taps[] => {
  const scale = extent / to
  const span = Math.max(1, scale)
  return Array.from({ length: to }, (_, i) => {
    const middle = (i + 0.5) * scale
    const from = Math.max(0, Math.floor(middle - RADIUS * span + 0.5))
    const end = Math.min(extent, Math.floor(middle + RADIUS * span + 0.5))
    const heights = Array.from({ length: end - from }, (_x, k) => cubic((from + k + 0.5 - middle) / span))
    const all = heights.reduce((a, b) => a + b, 0)
    return { from, weights: heights.map((w) => w / all) }
  })
}

/** A rectangle inside an image of this width, at a size. */
export const resampled = (pixels: Pixels, width: number, r: Rectangle, to: Size, channels: number): Pixels => {
  const [across, down] = [tapsOf(r.width, to.width), tapsOf(r.height, to.height)]
  const rows = new Float64Array(r.height * to.width * channels)
  for (let y = 0; y < r.height; y++)
    across.forEach(({ from, weights }, x) => {
      for (let c = 0; c < channels; c++) {
        let sum = 0
        const at = ((r.top + y) * width + r.left + from) * channels + c
        for (let k = 0; k < weights.length; k++) sum += weights[k]! * pixels[at + k * channels]!
        rows[(y * to.width + x) * channels + c] = sum
      }
    })
  const isBytes = pixels instanceof Uint8Array
  const row = to.width * channels
  const out = isBytes ? new Uint8Array(to.height * row) : new Float32Array(to.height * row)
  down.forEach(({ from, weights }, y) => {
    for (let x = 0; x < row; x++) {
      let sum = 0
      for (let k = 0; k < weights.length; k++) sum += weights[k]! * rows[(from + k) * row + x]!
      out[y * row + x] = isBytes ? Math.min(255, Math.max(0, Math.round(sum))) : sum
    }
  })
  return out
}
