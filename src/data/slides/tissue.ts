// The parts of a slide with tissue or data. In: a small level of its pyramid. Out: for any rectangle, the share of pixels that are not background.
// Invariant: one small level is decoded, whole. Background has little colour (Otsu's threshold on the saturation), or the value of pixels without
// data. Worked example: half of a tile is white glass: its share is 0.5.
import { SpillwayException, usage } from '../../errors/errors'
import type { Region } from '../data'
import { regionOf, type Slide } from './slide'
import type { Level } from './tiff'

/** The level for the mask has at most this number of pixels. */
const MOST_PIXELS = 1 << 24

/** Otsu's threshold: the one with the largest variance between both sides. */
export const otsu = (histogram: readonly number[]): number => {
  const total = histogram.reduce((a, b) => a + b, 0)
  const sum = histogram.reduce((a, n, v) => a + n * v, 0)
  let [below, sumBelow, best, threshold] = [0, 0, -1, 0]
  for (let v = 0; v < histogram.length - 1; v++) {
    below += histogram[v]!
    sumBelow += histogram[v]! * v
    const above = total - below
    if (below === 0 || above === 0) continue
    const between = below * above * (sumBelow / below - (sum - sumBelow) / above) ** 2
    if (between > best) [best, threshold] = [between, v]
  }
  return threshold
}

/** 0 to 255 for each pixel: its saturation, or the darkness of one channel. */
const colourOf = (pixels: ArrayLike<number>, channels: number, top: number): Uint8Array => {
  const out = new Uint8Array(pixels.length / channels)
  for (let i = 0; i < out.length; i++) {
    if (channels === 1) {
      out[i] = 255 * (1 - pixels[i]! / top)
      continue
    }
    let [most, least] = [0, top]
    for (let c = 0; c < 3; c++) {
      const x = pixels[i * channels + c]!
      if (x > most) most = x
      if (x < least) least = x
    }
    out[i] = most === 0 ? 0 : (255 * (most - least)) / most
  }
  return out
}

/** Pixels that count, 1 each: with data, if the file names a value for no data, else with tissue. */
const maskOf = (pixels: ArrayLike<number>, channels: number, { bits }: Level, noData: number | undefined): Uint8Array => {
  if (noData !== undefined) {
    const out = new Uint8Array(pixels.length / channels)
    for (let i = 0; i < pixels.length; i++) if (pixels[i] !== noData) out[Math.floor(i / channels)] = 1
    return out
  }
  const colour = colourOf(pixels, channels, 2 ** bits - 1)
  const histogram = new Array<number>(256).fill(0)
  for (const c of colour) histogram[c]!++
  const threshold = otsu(histogram)
  return colour.map((c) => (c > threshold ? 1 : 0))
}

/** Returns the share of a rectangle of the slide's level that has tissue. */
export const tissueOf = async (slide: Slide): Promise<(region: Region) => number> => {
  const { pyramid, level, file } = slide
  const at = pyramid.levels.findIndex((l) => l.width * l.height <= MOST_PIXELS)
  if (at < 0)
    throw new SpillwayException(
      usage(
        `tissue: ${file} has no level of at most ${MOST_PIXELS} pixels to look for tissue in: add levels, e.g. vips tiffsave --pyramid, or leave tissue out`,
      ),
    )
  const small = pyramid.levels[at]!
  const { width, height } = small
  const pixels = await regionOf({ ...slide, at, level: small }, { top: 0, left: 0, width, height })
  const mask = maskOf(pixels, pixels.length / (width * height), small, pyramid.noData)
  // Sums of all pixels above and to the left: any rectangle takes four of them.
  const sums = new Float64Array((width + 1) * (height + 1))
  for (let y = 0; y < height; y++)
    for (let x = 0, row = 0; x < width; x++) {
      row += mask[y * width + x]!
      sums[(y + 1) * (width + 1) + x + 1] = sums[y * (width + 1) + x + 1]! + row
    }
  const [down, across] = [height / level.height, width / level.width]
  const sumAt = (y: number, x: number): number => sums[y * (width + 1) + x]!
  return (region) => {
    const top = Math.min(height - 1, Math.floor(region.top * down))
    const left = Math.min(width - 1, Math.floor(region.left * across))
    const bottom = Math.max(top + 1, Math.min(height, Math.round((region.top + region.height) * down)))
    const right = Math.max(left + 1, Math.min(width, Math.round((region.left + region.width) * across)))
    const inside = sumAt(bottom, right) - sumAt(top, right) - sumAt(bottom, left) + sumAt(top, left)
    return inside / ((bottom - top) * (right - left))
  }
}
