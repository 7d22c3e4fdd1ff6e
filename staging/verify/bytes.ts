// The bytes of its cell that a view touches. Boxes of activations are channels-last inside the held box; a view of the whole held box is one run, in
// any layout. Invariant: runs are ascending; gaps inside a run (without `exact`) are shorter than a page, so no untouched page is named.
import { PAGE_BYTES } from '../core/bytes'
import type { View } from '../plan/plan'
import { inBox, volume } from './region'

export type ByteRange = readonly [lo: number, hi: number]

export const byteRuns = (view: View, elementBytes: number, exact = false): readonly ByteRange[] => {
  const { held, box } = view
  if (inBox(box, held)) return [[0, volume(held) * elementBytes]]
  const pixel = (held[1][1] - held[1][0]) * elementBytes
  const rowPitch = (held[3][1] - held[3][0]) * pixel
  const imagePitch = (held[2][1] - held[2][0]) * rowPitch
  const first = (box[2][0] - held[2][0]) * rowPitch + (box[3][0] - held[3][0]) * pixel + (box[1][0] - held[1][0]) * elementBytes
  const rowBytes = (box[3][1] - box[3][0] - 1) * pixel + (box[1][1] - box[1][0]) * elementBytes
  const rows = box[2][1] - box[2][0]
  if (rows * rowBytes === imagePitch) return [[(box[0][0] - held[0][0]) * imagePitch, (box[0][1] - held[0][0]) * imagePitch]]
  const together = rowPitch === rowBytes || (!exact && rowPitch - rowBytes < PAGE_BYTES)
  const runs: [number, number][] = []
  const add = (lo: number, hi: number): void => {
    const last = runs[runs.length - 1]
    if (last && lo <= last[1]) last[1] = Math.max(last[1], hi)
    else runs.push([lo, hi])
  }
  for (let b = box[0][0] - held[0][0]; b < box[0][1] - held[0][0]; b++) {
    const start = b * imagePitch + first
    if (together) add(start, start + (rows - 1) * rowPitch + rowBytes)
    else for (let h = 0; h < rows; h++) add(start + h * rowPitch, start + h * rowPitch + rowBytes)
  }
  return runs
}

// ---------------------------------------------------------------- sets of bytes

/** Disjoint runs in ascending order. */
export type Bytes = readonly ByteRange[]

/** Returns the index of the first run that ends after `at` (if `after`), or at `at` or later. */
const firstEnding = (set: Bytes, at: number, after: boolean): number => {
  let [lo, hi] = [0, set.length]
  while (lo < hi) {
    const mid = (lo + hi) >> 1
    const end = set[mid]![1]
    if (after ? end <= at : end < at) lo = mid + 1
    else hi = mid
  }
  return lo
}

export const withRun = (set: Bytes, lo: number, hi: number): Bytes => {
  const from = firstEnding(set, lo, false)
  let to = from
  while (to < set.length && set[to]![0] <= hi) to++
  const one: ByteRange = from < to ? [Math.min(lo, set[from]![0]), Math.max(hi, set[to - 1]![1])] : [lo, hi]
  return [...set.slice(0, from), one, ...set.slice(to)]
}

export const withoutRun = (set: Bytes, lo: number, hi: number): Bytes => {
  const from = firstEnding(set, lo, true)
  let to = from
  while (to < set.length && set[to]![0] < hi) to++
  if (from === to) return set
  const left: readonly ByteRange[] = set[from]![0] < lo ? [[set[from]![0], lo]] : []
  const right: readonly ByteRange[] = hi < set[to - 1]![1] ? [[hi, set[to - 1]![1]]] : []
  return [...set.slice(0, from), ...left, ...right, ...set.slice(to)]
}

export const meetsRun = (set: Bytes, lo: number, hi: number): boolean => set.some((r) => r[0] < hi && lo < r[1])

/** Returns true if a set overlaps any of these ascending runs. */
export const meetsAny = (set: Bytes, runs: readonly ByteRange[]): boolean => {
  let i = 0
  return runs.some(([lo, hi]) => {
    while (i < set.length && set[i]![1] <= lo) i++
    return i < set.length && set[i]![0] < hi
  })
}
