// Which chunks leave the device, and when, so that a budget is met. In: tracks. Out: the same with gaps marked.
// Invariant: marking a gap never makes any call need more, so what fits a smaller budget fits a larger one.
//
// `leaveUntil` follows Belady: at the call that needs most, the chunk whose next use is farthest away goes first.
// Worked example, pages a b c of one size, budget 2, used a b c b a: at c, of a and b the farther next use is a's.
import type { Call } from '../plan/plan'
import type { Track } from './moves'

export const canLeave = (t: Track): boolean => t.kind === 'value' || t.kind === 'fed'

export const leaveAll = (tracks: readonly Track[]): readonly Track[] =>
  tracks.map((t) => (canLeave(t) ? { ...t, leaves: t.leaves.map(() => true) } : t))

export const leaveUntil = (tracks: readonly Track[], calls: readonly Call[], budgetPages: number): readonly Track[] => {
  const leaves = tracks.map((t) => [...t.leaves])
  const occ = new Int32Array(calls.length + 1)
  const hold = (from: number, to: number, pages: number): void => {
    for (let p = from; p <= to; p++) occ[p]! += pages
  }
  for (const t of tracks) hold(t.stays[0]!.first, Math.min(calls.length, t.stays[t.stays.length - 1]!.last), t.to - t.from)
  const movable = tracks.map((t, i) => ({ t, i })).filter(({ t }) => canLeave(t) && t.stays.length > 1)
  for (;;) {
    let worst = 0
    for (let p = 1; p < calls.length; p++) if (occ[p]! > occ[worst]!) worst = p
    if ((occ[worst] ?? 0) <= budgetPages) break
    const gaps = movable.flatMap(({ t, i }) => {
      const g = t.stays.findIndex((s, k) => s.last < worst && k + 1 < t.stays.length && worst < t.stays[k + 1]!.first)
      return g >= 0 && !leaves[i]![g] ? [{ t, i, g, next: t.stays[g + 1]!.first }] : []
    }).sort((a, b) => b.next - a.next)
    if (!gaps.length) break
    for (const { t, i, g } of gaps) {
      if (occ[worst]! <= budgetPages) break
      leaves[i]![g] = true
      hold(t.stays[g]!.last + 1, t.stays[g + 1]!.first - 1, t.from - t.to)
    }
  }
  return tracks.map((t, i) => ({ ...t, leaves: leaves[i]! }))
}
