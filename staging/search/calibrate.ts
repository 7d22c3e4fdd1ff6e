// Corrections of the model by a layout. In: the model with the decisions of a plan, the layout of the plan, the loop of each segment. Out:
// nothing. Corrected are the seconds and the working set of each loop, and the part of a page that a value wastes.
// Worked example: the model gives a loop a working set of 40 MiB, but in the layout it has 46. From then on 6 MiB are added.
import { bytesOf, PAGE_BYTES } from '../core/bytes'
import type { Layout } from '../schedule/layout'
import { canSwap, heldSwappingAll } from '../schedule/stays'
import type { Model } from './model'

/** For each loop the peak of the device if all pages leave that may leave. */
const workingBytes = ({ alike, calls }: Layout, loopOf: readonly number[], loops: number): Float64Array => {
  const held = heldSwappingAll(alike, calls.length)
  const most = new Float64Array(loops)
  for (let p = 0; p < calls.length; p++) {
    const i = loopOf[calls[p]!.segment]!
    if (i >= 0) most[i] = Math.max(most[i]!, bytesOf(held[p]!))
  }
  return most
}

/** Bytes on pages that may leave, after each loop and before any swap. The peak of the other pages. */
const standingBytes = (
  { alike, calls }: Layout,
  loopOf: readonly number[],
  loops: number,
): { moving: Float64Array; fixed: number } => {
  const last = new Int32Array(loops).fill(-1)
  calls.forEach(({ segment }, p) => {
    if (loopOf[segment]! >= 0) last[loopOf[segment]!] = p
  })
  const [moves, stays] = [new Int32Array(calls.length + 1), new Int32Array(calls.length + 1)]
  for (const t of alike) {
    const change = canSwap(t) ? moves : stays
    change[t.stays[0]!.first]! += t.to - t.from
    change[Math.min(calls.length, t.stays[t.stays.length - 1]!.last)]! -= t.to - t.from
  }
  for (let p = 1; p <= calls.length; p++) {
    moves[p]! += moves[p - 1]!
    stays[p]! += stays[p - 1]!
  }
  const moving = new Float64Array(loops)
  let fixed = 0
  last.forEach((p, i) => {
    if (p < 0) return
    moving[i] = bytesOf(moves[p]!)
    fixed = Math.max(fixed, bytesOf(stays[p]!))
  })
  return { moving, fixed }
}

export const calibrate = (model: Model, layout: Layout, loopOf: readonly number[]): void => {
  const { p } = model
  const loops = p.atoms
  const { moving, fixed } = standingBytes(layout, loopOf, loops)
  const { bytes, count } = model.standingAfter()
  let [wasted, values] = [0, 0]
  for (let i = 0; i < loops; i++) {
    if (moving[i] === 0) continue
    wasted += moving[i]! - bytes[i]!
    values += count[i]!
  }
  if (fixed !== model.alwaysBytes) model.smallBytes = Math.max(0, fixed - model.resident)
  if (values > 0) model.setWaste(Math.max(0, wasted / values / PAGE_BYTES))
  const working = workingBytes(layout, loopOf, loops)
  const seconds = new Float64Array(loops)
  for (const c of layout.calls) {
    const i = loopOf[c.segment]!
    if (i >= 0) seconds[i]! += c.seconds
  }
  for (let i = 0; i < loops; i++) {
    if (seconds[i] === 0) continue
    model.correct(i, seconds[i]! - model.compute[i]!, working[i]! - model.alwaysBytes - model.holds(i))
  }
  model.price()
}
