// The parts that leave the device for a budget, and their times. In: planned stays. Out: the same with gaps marked. Invariant: marking a gap never
// increases the need of any call, so a plan for a smaller budget fits a larger one.
//
// `swapUntil` follows Belady: going through the step, at a call without enough memory, the idle part whose next use is farthest away has left. Worked
// example, pages a b c of one size, budget 2, used a b c b a: at c, of a and b the farther next use is a's.
import { mapped } from '../core/mapped'
import { Heap } from '../core/heap'
import type { Call } from '../plan/plan'
import { canSwap, leavingIn, type PlannedStays } from './stays'

export const swapAll = (planned: readonly PlannedStays[]): readonly PlannedStays[] =>
  mapped(planned, (t) => (canSwap(t) ? leavingIn(t, t.kind, { ...t, swapped: mapped(t.swapped, () => true) }) : t))

/** The gaps that may be swapped and are not yet, by the call before which they begin: those of call p from `starts[p]` to `starts[p + 1]`. */
interface Idle {
  readonly starts: Int32Array
  readonly part: Int32Array
  readonly gap: Int32Array
}

const idleIn = (planned: readonly PlannedStays[], calls: number, may: typeof canSwap): Idle => {
  const starts = new Int32Array(calls + 2)
  const each = (look: (begins: number, part: number, gap: number) => void): void =>
    planned.forEach((t, part) => {
      if (!may(t)) return
      for (let gap = 0; gap < t.stays.length - 1; gap++) {
        const begins = t.stays[gap]!.last + 1
        if (!t.swapped[gap] && begins < t.stays[gap + 1]!.first) look(begins, part, gap)
      }
    })
  each((begins) => starts[begins + 1]!++)
  for (let p = 0; p <= calls; p++) starts[p + 1]! += starts[p]!
  const next = starts.slice()
  const [part, gap] = [new Int32Array(starts[calls + 1]!), new Int32Array(starts[calls + 1]!)]
  each((begins, ofPart, ofGap) => {
    const at = next[begins]!++
    part[at] = ofPart
    gap[at] = ofGap
  })
  return { starts, part, gap }
}

export const swapUntil = (
  planned: readonly PlannedStays[],
  calls: readonly Call[],
  budgetPages: number | Int32Array,
  may = canSwap,
): readonly PlannedStays[] => {
  /** The gaps of parts that have more swaps than before. */
  const swapped = new Map<number, boolean[]>()
  const held = new Int32Array(calls.length + 1)
  const add = (p: number, pages: number): void => {
    if (p < held.length) held[p]! += pages
  }
  for (const t of planned) {
    const pages = t.to - t.from
    const last = t.stays.length - 1
    add(t.stays[0]!.first, pages)
    add(t.stays[last]!.last + 1, -pages)
    for (let gap = 0; gap < last; gap++)
      if (t.swapped[gap]) {
        add(t.stays[gap]!.last + 1, -pages)
        add(t.stays[gap + 1]!.first, pages)
      }
  }
  const idle = idleIn(planned, calls.length, may)
  const nextUse = (i: number): number => planned[idle.part[i]!]!.stays[idle.gap[i]! + 1]!.first
  // The part with the farthest next use is on top. When the call reaches that use, all remaining parts are in use, too.
  const farthest = new Heap<number>((a, b) => nextUse(a) > nextUse(b))
  let now = 0
  for (let p = 0; p < calls.length; p++) {
    now += held[p]!
    for (let i = idle.starts[p]!; i < idle.starts[p + 1]!; i++) farthest.push(i)
    const budget = typeof budgetPages === 'number' ? budgetPages : budgetPages[p]!
    while (now > budget) {
      const i = farthest.pop()
      if (i === undefined || nextUse(i) <= p) break
      const part = idle.part[i]!
      const pages = planned[part]!.to - planned[part]!.from
      const gaps = swapped.get(part) ?? [...planned[part]!.swapped]
      gaps[idle.gap[i]!] = true
      swapped.set(part, gaps)
      now -= pages
      add(nextUse(i), pages)
    }
  }
  return mapped(planned, (t, i) => (swapped.has(i) ? leavingIn(t, t.kind, { ...t, swapped: swapped.get(i)! }) : t))
}
