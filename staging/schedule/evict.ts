// Which chunks leave the device, and when, so that a budget is met. In: tracks. Out: the same with gaps marked.
// Invariant: marking a gap never makes any call need more, so what fits a smaller budget fits a larger one.
//
// `leaveUntil` follows Belady: going through the step, wherever there is too little room, the idle chunk whose next use is
// farthest away has left.
// Worked example, pages a b c of one size, budget 2, used a b c b a: at c, of a and b the farther next use is a's.
import { Heap } from '../core/heap'
import type { Call } from '../plan/plan'
import { canLeave, type Track } from './tracks'

export const leaveAll = (tracks: readonly Track[]): readonly Track[] =>
  tracks.map((t) => (canLeave(t) ? { ...t, leaves: t.leaves.map(() => true) } : t))

interface Idle {
  readonly track: number
  readonly gap: number
  readonly next: number
}

export const leaveUntil = (tracks: readonly Track[], calls: readonly Call[], budgetPages: number): readonly Track[] => {
  const leaves = tracks.map((t) => [...t.leaves])
  const held = new Int32Array(calls.length + 1)
  const add = (p: number, pages: number): void => {
    if (p < held.length) held[p]! += pages
  }
  const endsBefore: Idle[][] = Array.from({ length: calls.length + 1 }, () => [])
  tracks.forEach((t, track) => {
    const pages = t.to - t.from
    const last = t.stays.length - 1
    add(t.stays[0]!.first, pages)
    add(t.stays[last]!.last + 1, -pages)
    for (let gap = 0; gap < last; gap++) {
      const next = t.stays[gap + 1]!.first
      if (t.leaves[gap]) {
        add(t.stays[gap]!.last + 1, -pages)
        add(next, pages)
      } else if (canLeave(t) && t.stays[gap]!.last + 1 < next) endsBefore[t.stays[gap]!.last + 1]!.push({ track, gap, next })
    }
  })
  // The one with the farthest next use is on top. Once that use has come, everything left is in use too.
  const idle = new Heap<Idle>((a, b) => a.next > b.next)
  let now = 0
  for (let p = 0; p < calls.length; p++) {
    now += held[p]!
    for (const i of endsBefore[p]!) idle.push(i)
    while (now > budgetPages) {
      const i = idle.pop()
      if (!i || i.next <= p) break
      const pages = tracks[i.track]!.to - tracks[i.track]!.from
      leaves[i.track]![i.gap] = true
      now -= pages
      add(i.next, pages)
    }
  }
  return tracks.map((t, i) => ({ ...t, leaves: leaves[i]! }))
}
