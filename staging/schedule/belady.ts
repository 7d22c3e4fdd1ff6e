// Which parts leave the device, and when, so that a budget is met. In: planned stays. Out: the same with gaps marked.
// Invariant: marking a gap never makes any call need more, so what fits a smaller budget fits a larger one.
//
// `swapUntil` follows Belady: going through the step, wherever there is too little room, the idle part whose next use is
// farthest away has left.
// Worked example, pages a b c of one size, budget 2, used a b c b a: at c, of a and b the farther next use is a's.
import { Heap } from '../core/heap'
import type { Call } from '../plan/plan'
import { canSwap, leavingIn, type PlannedStays } from './stays'

export const swapAll = (planned: readonly PlannedStays[]): readonly PlannedStays[] =>
  planned.map((t) => (canSwap(t) ? leavingIn(t, t.kind, { ...t, swapped: t.swapped.map(() => true) }) : t))

interface Idle {
  readonly index: number
  readonly gap: number
  readonly next: number
}

export const swapUntil = (
  planned: readonly PlannedStays[],
  calls: readonly Call[],
  budgetPages: number,
): readonly PlannedStays[] => {
  /** Of those of which more leave than before. */
  const swapped = new Map<number, boolean[]>()
  const held = new Int32Array(calls.length + 1)
  const add = (p: number, pages: number): void => {
    if (p < held.length) held[p]! += pages
  }
  const endsBefore = new Map<number, Idle[]>()
  planned.forEach((t, index) => {
    const pages = t.to - t.from
    const last = t.stays.length - 1
    add(t.stays[0]!.first, pages)
    add(t.stays[last]!.last + 1, -pages)
    for (let gap = 0; gap < last; gap++) {
      const next = t.stays[gap + 1]!.first
      if (t.swapped[gap]) {
        add(t.stays[gap]!.last + 1, -pages)
        add(next, pages)
      } else if (canSwap(t) && t.stays[gap]!.last + 1 < next) {
        const end = t.stays[gap]!.last + 1
        const before = endsBefore.get(end)
        if (before) before.push({ index, gap, next })
        else endsBefore.set(end, [{ index, gap, next }])
      }
    }
  })
  // The one with the farthest next use is on top. Once that use has come, everything left is in use too.
  const idle = new Heap<Idle>((a, b) => a.next > b.next)
  let now = 0
  for (let p = 0; p < calls.length; p++) {
    now += held[p]!
    for (const i of endsBefore.get(p) ?? []) idle.push(i)
    while (now > budgetPages) {
      const i = idle.pop()
      if (!i || i.next <= p) break
      const pages = planned[i.index]!.to - planned[i.index]!.from
      const gaps = swapped.get(i.index) ?? [...planned[i.index]!.swapped]
      gaps[i.gap] = true
      swapped.set(i.index, gaps)
      now -= pages
      add(i.next, pages)
    }
  }
  return planned.map((t, i) => (swapped.has(i) ? leavingIn(t, t.kind, { ...t, swapped: swapped.get(i)! }) : t))
}
