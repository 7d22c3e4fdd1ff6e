// Planned stays: the stays of a part's pages, and a planner's decision for each gap between two. In: planned stays. Out: their residencies, and the
// least number of pages with which they work. Invariant: a residency holds its pages from `acquire` to the end of its last stay, or longer;
// swaptimes.ts only adds to that. Worked example: stays [0,1] [4,4] [9,9] with only the second gap swapped: residencies [0,4] and [9,9]; the first is
// swapped out.
import { mostHeld } from '../core/bytes'
import { isMovable, type StorageKind } from '../memory/place'
import type { AlikeParts, PageStays } from '../memory/touches'
import type { Point } from '../plan/plan'

/** A planner's times for the copies of a gap. swaptimes.ts chooses the times that are absent. */
export interface Timing {
  /** The step waits for the swap out here at the latest. */
  readonly swappedOutBy?: Point
  /** The swap in starts here, and holds its pages from here on. */
  readonly swapInAt?: Point
  /** The step waits for the swap in here at the latest, even if the pages are needed later. */
  readonly swappedInBy?: Point
}

/** For each gap (after stay i, before stay i+1): true if the pages are swapped out and in again. */
export interface PlannedStays extends PageStays {
  readonly kind: StorageKind
  readonly swapped: readonly boolean[]
  /** By gap. */
  readonly timing: readonly (Timing | undefined)[] | undefined
  /** For a value that is loaded during the step before: the end of the step. */
  readonly ahead: Point | undefined
}

type Leaving = Pick<PlannedStays, 'swapped'> & Partial<Pick<PlannedStays, 'timing' | 'ahead'>>

/** Up to this number of gaps, equal lists are one object: there are many parts, and few kinds of lists. */
const FEW_GAPS = 16
const knownGaps: (readonly boolean[])[] = []

const sharedGaps = (swapped: readonly boolean[]): readonly boolean[] => {
  if (swapped.length > FEW_GAPS) return swapped
  const key = swapped.reduce((bits, isSwapped) => 2 * bits + Number(isSwapped), 1)
  const known = knownGaps[key] ?? [...swapped]
  knownGaps[key] = known
  return known
}

/** A list of `count` gaps, none swapped. */
const noGaps = (count: number): readonly boolean[] => {
  if (count > FEW_GAPS) return new Array<boolean>(count).fill(false)
  const known = knownGaps[1 << count] ?? new Array<boolean>(count).fill(false)
  knownGaps[1 << count] = known
  return known
}

/** The same stays with these gaps. All planned stays are made here, so that V8 compiles their readers for one shape. */
export const leavingIn = (
  { storage, from, to, stays }: PageStays,
  kind: StorageKind,
  { swapped, timing, ahead }: Leaving,
): PlannedStays => ({
  storage,
  from,
  to,
  stays,
  kind,
  swapped: sharedGaps(swapped),
  timing,
  ahead,
})

/** Stays without swaps. */
export const staying = ({ storage, from, to, stays }: PageStays, kind: StorageKind): PlannedStays => ({
  storage,
  from,
  to,
  stays,
  kind,
  swapped: noGaps(stays.length - 1),
  timing: undefined,
  ahead: undefined,
})

export interface PlannedResidency {
  readonly stays: PlannedStays
  readonly pages: number
  readonly first: number
  readonly last: number
  readonly swapIn: 'tier' | 'source' | null
  readonly swapOut: boolean
  /** The copy out goes to the sink, not to the lower tier. */
  readonly handsOut: boolean
  /** From this call on the bytes do not change: the swap out may start, even while they are read. */
  readonly settled: Point
  readonly swappedOutBy: Point
  /** The planner gave the time of the swap in. */
  readonly timed: boolean
  /** The point at which the step waits for the swap in. */
  readonly ready: Point
  /** The time of the swap in, unless its lane starts it earlier. */
  readonly comes: Point
  /** It holds pages across the border of two steps. */
  readonly crosses: boolean
  acquire: Point
  release: Point
  readonly previous: PlannedResidency | null
}

const addResidencies = (t: PlannedStays, out: PlannedResidency[]): void => {
  const final = t.stays.length - 1
  let first = 0
  let lastWrite = -1
  let previous: PlannedResidency | null = null
  let before: PlannedResidency | undefined
  for (let i = 0; i <= final; i++) {
    lastWrite = Math.max(lastWrite, t.stays[i]!.lastWrite)
    if (i < final && !t.swapped[i]) continue
    const isFromBefore = t.ahead !== undefined && first === 0
    const [begin, end] = [isFromBefore ? 0 : t.stays[first]!.first, t.stays[i]!.last]
    const handsOut = i === final && t.kind === 'output'
    const { swapInAt, swappedInBy } = (first > 0 ? t.timing?.[first - 1] : undefined) ?? {}
    const comes: Point = Math.max(previous?.release ?? 0, Math.min(begin, swapInAt ?? begin))
    previous = {
      stays: t,
      pages: t.to - t.from,
      first: begin,
      last: end,
      previous,
      swapIn: isFromBefore ? null : t.kind === 'fed' ? 'source' : previous || t.kind === 'home' ? 'tier' : null,
      swapOut: handsOut || ((i < final || t.kind === 'home') && t.kind !== 'fed' && lastWrite >= 0),
      handsOut,
      settled: lastWrite + 1,
      swappedOutBy: (i < final ? t.timing?.[i]?.swappedOutBy : undefined) ?? Infinity,
      timed: swapInAt !== undefined,
      ready: Math.max(comes, Math.min(begin, swappedInBy ?? begin)),
      comes,
      crosses: isFromBefore,
      acquire: comes,
      release: end + 1,
    }
    out.push(previous)
    if (isFromBefore) before = previous
    if (i < final) lastWrite = -1
    first = i + 1
  }
  if (before) out.push(forNextStep(before, t.kind === 'home' ? previous! : before, t.ahead!))
}

/** The same pages, filled for the next step by the end of this one. A parameter is first updated by the last residency of the part. */
const forNextStep = (before: PlannedResidency, previous: PlannedResidency, end: Point): PlannedResidency => ({
  ...before,
  first: end,
  last: end,
  previous,
  swapIn: before.stays.kind === 'home' ? 'tier' : 'source',
  swapOut: false,
  ready: end,
  comes: end,
  acquire: end,
  release: end,
})

/** The residencies of all parts. Those of one part follow each other. */
export const residenciesOf = (planned: readonly PlannedStays[]): readonly PlannedResidency[] => {
  const out: PlannedResidency[] = []
  for (const t of planned) addResidencies(t, out)
  return out
}

/** The residencies without early or late copies. */
export const untimed = (rs: readonly PlannedResidency[]): readonly PlannedResidency[] => {
  for (const r of rs) {
    r.acquire = r.comes
    r.release = r.swapIn && r.crosses ? r.last : r.last + 1
  }
  return rs
}

/** The change of held pages at each call, without early or late copies. */
const changes = (planned: readonly PlannedStays[], calls: number): Int32Array => {
  const by = new Int32Array(calls + 1)
  for (const t of planned) {
    const pages = t.to - t.from
    const final = t.stays.length - 1
    by[t.ahead === undefined ? t.stays[0]!.first : 0]! += pages
    for (let gap = 0; gap < final; gap++) {
      if (!t.swapped[gap]) continue
      const end = t.stays[gap]!.last + 1
      const next = t.stays[gap + 1]!.first
      by[end]! -= pages
      by[Math.max(end, Math.min(next, t.timing?.[gap]?.swapInAt ?? next))]! += pages
    }
    by[Math.min(calls, t.stays[final]!.last + 1)]! -= pages
  }
  return by
}

/** Pages held at each call, computed without residencies. */
export const occupancy = (planned: readonly PlannedStays[], calls: number): Int32Array => summedUp(changes(planned, calls))

/** The least number of pages, and the first call that needs it. */
export interface Tightest {
  readonly call: number
  readonly pages: number
}

export const tightestCall = (planned: readonly PlannedStays[], calls: number): Tightest =>
  tightestOf(occupancy(planned, calls), calls)

const tightestOf = (occ: Int32Array, calls: number): Tightest => {
  let call = 0
  for (let p = 1; p < calls; p++) if (occ[p]! > occ[call]!) call = p
  return { call, pages: occ[call] ?? 0 }
}

/** The least pages with which these swaps work. Each swap out is waited for immediately, and each swap in starts when its planner says. */
export const leastPages = (planned: readonly PlannedStays[], calls: number): number => tightestCall(planned, calls).pages

/** `tightestCall` if all parts that may leave are swapped out in every gap. */
export const tightestSwappingAll = (alike: readonly AlikeParts[], calls: number, may = canSwap): Tightest =>
  tightestOf(heldSwappingAll(alike, calls, may), calls)

/** The calls that hold more than these pages in this case. */
export const overfullCalls = (alike: readonly AlikeParts[], calls: number, pages: number): readonly number[] => {
  const held = heldSwappingAll(alike, calls)
  return [...held.keys()].filter((p) => held[p]! > pages)
}

/** Pages held at each call in this case. */
export const heldSwappingAll = (alike: readonly AlikeParts[], calls: number, may = canSwap): Int32Array => {
  const by = new Int32Array(calls + 1)
  for (const p of alike) {
    const { stays } = p
    const pages = p.to - p.from
    const movable = may(p)
    let first = stays[0]!.first
    for (let i = 0; i < stays.length; i++) {
      const next = stays[i + 1]
      if (next && !movable) continue
      by[first]! += pages
      by[Math.min(calls, stays[i]!.last + 1)]! -= pages
      if (next) first = next.first
    }
  }
  return summedUp(by)
}

const summedUp = (changes: Int32Array): Int32Array => {
  for (let p = 1; p < changes.length; p++) changes[p]! += changes[p - 1]!
  return changes
}

const knownChanges = new WeakMap<readonly PlannedStays[], Int32Array>()

/** `leastPages` of planned stays if these gaps are swapped as well. The stays are not made, because searches over swaps call this often. */
export const leastSwapping = (
  planned: readonly PlannedStays[],
  calls: number,
  gaps: readonly { readonly index: number; readonly gap: number }[],
): number => {
  const before = knownChanges.get(planned) ?? changes(planned, calls)
  knownChanges.set(planned, before)
  const by = before.slice()
  for (const { index, gap } of gaps) {
    const { from, to, stays, swapped } = planned[index]!
    if (swapped[gap]) continue
    by[stays[gap]!.last + 1]! -= to - from
    by[stays[gap + 1]!.first]! += to - from
  }
  return mostHeld(by, calls)
}

/** The numbers of items by point, in order: those of point p are from `starts[p]` to `starts[p + 1]`. */
export interface ByPoint {
  readonly starts: Int32Array
  readonly numbers: Int32Array
}

/** `at`: undefined for irrelevant items; points from `points` on are irrelevant, too. */
export const byPoint = (
  rs: readonly PlannedResidency[],
  points: number,
  at: (r: PlannedResidency) => Point | undefined,
): ByPoint => {
  const pointOf = new Int32Array(rs.length)
  const starts = new Int32Array(points + 2)
  for (let i = 0; i < rs.length; i++) {
    const p = at(rs[i]!) ?? points
    pointOf[i] = p < points ? p : points
    starts[pointOf[i]! + 1]!++
  }
  for (let p = 0; p <= points; p++) starts[p + 1]! += starts[p]!
  const next = starts.slice()
  const numbers = new Int32Array(rs.length)
  for (let i = 0; i < rs.length; i++) numbers[next[pointOf[i]!]!++] = i
  return { starts, numbers }
}

/** Returns true if a planner may swap the part. */
export const canSwap = (t: Pick<PlannedStays, 'kind'>): boolean => isMovable(t.kind)
/** Returns true if a planner may drop the part without a lower tier: fed values have a source. */
export const isFedAgain = (t: Pick<PlannedStays, 'kind'>): boolean => t.kind === 'fed'
