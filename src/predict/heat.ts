// Probabilities as colours, from dark blue to yellow. In: numbers from 0 to 1. Out: pixels of red, green and blue, or a PNG. Invariant: a number that
// is not a number is transparent in a PNG.
import { pngOfIndices } from '../files/pictures'

/** Red, green and blue for shares of 0, 1/4, 1/2, 3/4 and 1: viridis. */
export const HEAT_COLOURS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
] as const

/** The colour of a share between 0 and 1. */
export const heatOf = (share: number): readonly number[] => {
  const at = Math.min(1, Math.max(0, share)) * (HEAT_COLOURS.length - 1)
  const low = Math.min(HEAT_COLOURS.length - 2, Math.floor(at))
  return HEAT_COLOURS[low]!.map((v, c) => Math.round(v + (HEAT_COLOURS[low + 1]![c]! - v) * (at - low)))
}

const WHITE = [255, 255, 255] as const

/** Three bytes a pixel: the last of the channels as heat; white without a number. */
export const heatPixels = (pixels: ArrayLike<number>, channels: number): Uint8Array => {
  const out = new Uint8Array((3 * pixels.length) / channels)
  for (let i = 0; 3 * i < out.length; i++) {
    const share = pixels[(i + 1) * channels - 1]!
    out.set(Number.isNaN(share) ? WHITE : heatOf(share), 3 * i)
  }
  return out
}

/** Index 0 is no number; 1 to 255 are shares from 0 to 1. */
const HEAT_PALETTE = Uint8Array.from({ length: 3 * 256 }, (_, i) => heatOf((Math.floor(i / 3) - 1) / 254)[i % 3]!)
const heatIndex = (share: number): number => (Number.isNaN(share) ? 0 : 1 + Math.round(254 * Math.min(1, Math.max(0, share))))

export const heatPng = (width: number, height: number, shares: Float32Array): Buffer => {
  const indices = new Uint8Array(shares.length)
  for (let i = 0; i < shares.length; i++) indices[i] = heatIndex(shares[i]!)
  return pngOfIndices(width, height, indices, HEAT_PALETTE)
}
