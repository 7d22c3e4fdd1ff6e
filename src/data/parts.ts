// Rectangles of images, which may reach beyond them. In: a rectangle, the image's size, the new size. Out: the part inside the image, and its new
// place; its numbers, put together. Invariant: for images of any source, the same rectangle gives the same numbers. Worked example: of an image of 4
// x 4, the 4 x 4 from row -2 on, at 8 x 8: rows 0 and 1 of the image become rows 4 to 7, above them is the fill.
import type { Pixels, Rectangle, Size } from './decode'

/** The place of a part of a rectangle in the image, and its new place. */
export interface Part {
  readonly from: Rectangle
  readonly to: Rectangle
}

/** The part of a rectangle inside the image; undefined if there is none. */
export const partOf = (r: Rectangle, image: Size, to: Size): Part | undefined => {
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

export const sameSize = (a: Size, b: Size): boolean => a.width === b.width && a.height === b.height

/** For bytes the fill is a share of `most`. */
export const filled = <P extends Pixels>(out: P, fill: readonly number[], most: number): P => {
  const numbers = out instanceof Float32Array ? fill : fill.map((f) => Math.round(f * most))
  for (let i = 0; i < out.length; i++) out[i] = numbers[i % numbers.length]!
  return out
}

/** A part's rows at their place in the whole. */
export const pasted = <P extends Pixels>(out: P, size: Size, part: Pixels, at: Rectangle, channels: number): P => {
  for (let y = 0; y < at.height && at.top + y < size.height; y++) {
    const row = part.subarray(y * at.width * channels, (y + 1) * at.width * channels)
    out.set(row.subarray(0, (size.width - at.left) * channels), ((at.top + y) * size.width + at.left) * channels)
  }
  return out
}

/** A rectangle of an image of this width, as it is. */
export const cutFrom = <N extends Uint8Array | Int32Array | Float32Array>(
  numbers: N,
  width: number,
  r: Rectangle,
  channels: number,
): N => {
  if (r.left === 0 && r.top === 0 && r.width === width && r.height * width * channels === numbers.length) return numbers
  const row = r.width * channels
  const space = row * r.height
  const out = (
    numbers instanceof Float32Array
      ? new Float32Array(space)
      : numbers instanceof Int32Array
        ? new Int32Array(space)
        : new Uint8Array(space)
  ) as N
  for (let y = 0; y < r.height; y++) {
    const at = ((r.top + y) * width + r.left) * channels
    out.set(numbers.subarray(at, at + row), y * row)
  }
  return out
}

/**
 * The nearest label of each pixel of a rectangle; pixels outside the image get another. The labels are those of `window`, a part of the image with
 * all of the rectangle inside it.
 */
export const nearestIn = <N extends Uint8Array | Int32Array | Float32Array>(
  labels: N,
  window: Rectangle,
  image: Size,
  r: Rectangle,
  to: Size,
  outside: number,
  room: N,
): N => {
  for (let i = 0; i < room.length; i++) {
    const x = r.left + Math.floor(((i % to.width) + 0.5) * (r.width / to.width))
    const y = r.top + Math.floor((Math.floor(i / to.width) + 0.5) * (r.height / to.height))
    const isInside = x >= 0 && y >= 0 && x < image.width && y < image.height
    room[i] = isInside ? labels[(y - window.top) * window.width + x - window.left]! : outside
  }
  return room
}
