// When pages come and go. In: chunks with their stays, the gaps in which a chunk leaves the device, the budget and the
// link. Out: residencies without pages. The same code serves every planner that swaps: they differ in the gaps they choose.
//
// No-wait order (paper 5, Prop. 1): copies out start as soon as a stay ends and are waited for only when their time is over
// or the memory is needed; copies in are the mirror image, found by walking the step backwards in time.
// Worked example, budget 4 pages: x (2 pages) ends at call 1, y needs 2 and z 2: x's copy starts at point 2 while y is
// computed, and is waited for at point 3, where z needs the pages; if call 2 was shorter than the copy, that wait is a stall.
import { PAGE_BYTES } from '../core/bytes'
import type { Link } from '../graph/machine'
import { packByLifetime } from '../memory/place'
import type { Draft } from '../memory/pages'
import type { Chunk } from '../memory/touches'
import type { Call, Point } from '../plan/plan'

/** A chunk, and for each of its gaps (after stay i, before stay i+1) whether it leaves the device then. */
export interface Track extends Chunk {
  /** persistent: held for ever; packed: shared by many small values, never moved; fed: comes from the data source. */
  readonly kind: 'persistent' | 'packed' | 'fed' | 'value'
  readonly leaves: readonly boolean[]
}

interface Interval {
  readonly track: Track
  readonly pages: number
  readonly first: number
  readonly last: number
  readonly load: 'tier' | 'source' | null
  readonly save: boolean
  acquire: Point
  release: Point
  readonly previous: Interval | null
}

const intervalsOf = (t: Track): Interval[] => {
  const out: Interval[] = []
  const pages = t.to - t.from
  let first = 0
  let dirty = false
  for (let i = 0; i < t.stays.length; i++) {
    dirty ||= t.stays[i]!.writes
    const final = i === t.stays.length - 1
    if (!final && !t.leaves[i]) continue
    const previous: Interval | null = out[out.length - 1] ?? null
    const [a, b] = [t.stays[first]!.first, t.stays[i]!.last]
    const load = t.kind === 'fed' ? 'source' : previous ? 'tier' : null
    out.push({ track: t, pages, first: a, last: b, load, save: !final && t.kind === 'value' && dirty, acquire: a, release: b + 1, previous })
    if (!final) dirty = false
    first = i + 1
  }
  return out
}

/** Pages held at each call when nothing moves early or late. */
const occupancy = (ivs: readonly Interval[], calls: number): Int32Array => {
  const occ = new Int32Array(calls + 1)
  for (const iv of ivs) {
    occ[iv.first]! += iv.pages
    occ[Math.min(calls, iv.last + 1)]! -= iv.pages
  }
  for (let p = 1; p <= calls; p++) occ[p]! += occ[p - 1]!
  return occ
}

/** The least pages with which these moves work: each copy waited for at once. */
export const leastPages = (tracks: readonly Track[], calls: number): number =>
  occupancy(tracks.flatMap(intervalsOf), calls).subarray(0, calls).reduce((a, b) => Math.max(a, b), 0)

/** The first call at which the least is needed. */
export const tightestCall = (tracks: readonly Track[], calls: number): { readonly call: number; readonly pages: number } => {
  const occ = occupancy(tracks.flatMap(intervalsOf), calls)
  let call = 0
  for (let p = 1; p < calls; p++) if (occ[p]! > occ[call]!) call = p
  return { call, pages: occ[call] ?? 0 }
}

const seconds = (iv: Interval, rate: number, link: Link): number => link.latencySeconds + (iv.pages * PAGE_BYTES) / rate

/** Walks forward: how long a finished stay may keep its pages while its copy runs. Adds what it holds to `occ`. */
const placeSaves = (ivs: readonly Interval[], calls: readonly Call[], occ: Int32Array, budget: number, link: Link): void => {
  const ending = byPoint(ivs.filter((iv) => iv.save), (iv) => iv.last + 1)
  const returning = byPoint(ivs.filter((iv) => iv.previous?.save), (iv) => iv.first)
  const pending: { iv: Interval; end: number }[] = []
  let held = 0
  let time = 0
  let linkFree = 0
  const settle = (p: Point): void => {
    const { iv } = pending.shift()!
    held -= iv.pages
    iv.release = p
    for (let q = iv.last + 1; q < p; q++) occ[q]! += iv.pages
  }
  for (let p = 0; p < calls.length; p++) {
    for (const iv of ending.get(p) ?? []) {
      linkFree = Math.max(time, linkFree) + seconds(iv, link.outBytesPerSecond, link)
      pending.push({ iv, end: linkFree })
      held += iv.pages
    }
    while (pending.length && pending[0]!.end <= time) settle(p)
    const back = new Set((returning.get(p) ?? []).map((iv) => iv.previous))
    while (pending.length && (occ[p]! + held > budget || pending.some((x) => back.has(x.iv)))) {
      time = Math.max(time, pending[0]!.end)
      settle(p)
    }
    time += calls[p]!.seconds
  }
  while (pending.length) settle(calls.length)
}

/** Walks backward: how early a copy in may start. The mirror image of `placeSaves`. */
const placeLoads = (ivs: readonly Interval[], calls: readonly Call[], occ: Int32Array, budget: number, link: Link): void => {
  const starting = byPoint(ivs.filter((iv) => iv.load), (iv) => iv.first)
  const pending: { iv: Interval; end: number }[] = []
  let held = 0
  let time = 0
  let linkFree = 0
  const settle = (i: number, p: Point): void => {
    const { iv } = pending.splice(i, 1)[0]!
    held -= iv.pages
    iv.acquire = p
    for (let q = p; q < iv.first; q++) occ[q]! += iv.pages
  }
  for (let p = calls.length - 1; p >= 0; p--) {
    time += calls[p]!.seconds
    for (const iv of (starting.get(p) ?? []).slice().reverse()) {
      linkFree = Math.max(time, linkFree) + seconds(iv, link.inBytesPerSecond, link)
      pending.push({ iv, end: linkFree })
      held += iv.pages
    }
    while (pending.length && pending[0]!.end <= time) settle(0, p)
    for (let i = 0; i < pending.length; )
      if ((pending[i]!.iv.previous?.release ?? 0) >= p) settle(i, p)
      else i++
    while (pending.length && occ[p - 1]! + held > budget) {
      time = Math.max(time, pending[0]!.end)
      settle(0, p)
    }
  }
}

const byPoint = (ivs: readonly Interval[], at: (iv: Interval) => Point): ReadonlyMap<Point, readonly Interval[]> => {
  const m = new Map<Point, Interval[]>()
  for (const iv of ivs) {
    const p = at(iv)
    const list = m.get(p)
    if (list) list.push(iv)
    else m.set(p, [iv])
  }
  return m
}

/** Null when even with each copy waited for at once the budget is too small. */
export const scheduleMoves = (tracks: readonly Track[], calls: readonly Call[], budgetPages: number, link: Link): { readonly drafts: readonly Draft[]; readonly tierBytes: number } | null => {
  const ivs = tracks.flatMap(intervalsOf)
  const occ = occupancy(ivs, calls.length)
  for (let p = 0; p < calls.length; p++) if (occ[p]! > budgetPages) return null
  placeSaves(ivs, calls, occ, budgetPages, link)
  placeLoads(ivs, calls, occ, budgetPages, link)
  const slots = tierSlots(ivs)
  const drafts = ivs.map((iv): Draft => ({
    storage: iv.track.storage,
    from: iv.track.from,
    to: iv.track.to,
    acquire: iv.acquire,
    release: iv.track.kind === 'persistent' ? calls.length : iv.release,
    ...(iv.load ? { load: { ready: iv.first, from: iv.load } } : {}),
    ...(iv.save ? { save: { start: iv.last + 1 } } : {}),
    ...(slots.offset(iv) === undefined ? {} : { tierOffset: slots.offset(iv)! }),
  }))
  return { drafts: mergeNeighbours(drafts), tierBytes: slots.bytes }
}

/** Where in the lower tier a storage's pages go: one slot for all of its chunks that leave, from the first save to the last load. */
const tierSlots = (ivs: readonly Interval[]): { readonly offset: (iv: Interval) => number | undefined; readonly bytes: number } => {
  const slots = new Map<number, { from: number; to: number; first: Point; last: Point }>()
  for (const iv of ivs) {
    if (!iv.save) continue
    const { storage, from, to } = iv.track
    const s = slots.get(storage)
    slots.set(storage, s
      ? { from: Math.min(s.from, from), to: Math.max(s.to, to), first: Math.min(s.first, iv.last + 1), last: s.last }
      : { from, to, first: iv.last + 1, last: iv.last + 1 })
  }
  for (const iv of ivs) {
    const s = slots.get(iv.track.storage)
    if (s && iv.load === 'tier') s.last = Math.max(s.last, iv.first)
  }
  const list = [...slots]
  const packed = packByLifetime(list.map(([, s]) => ({ bytes: (s.to - s.from) * PAGE_BYTES, first: s.first, last: s.last })))
  const base = new Map(list.map(([storage, s], i) => [storage, packed.offsets[i]! - s.from * PAGE_BYTES]))
  return {
    offset: (iv) => (iv.save || iv.load === 'tier' ? base.get(iv.track.storage)! + iv.track.from * PAGE_BYTES : undefined),
    bytes: packed.bytes,
  }
}

/** Chunks side by side that come and go together are one residency. */
const mergeNeighbours = (drafts: readonly Draft[]): readonly Draft[] => {
  const sorted = [...drafts].sort((a, b) => a.storage - b.storage || a.acquire - b.acquire || a.from - b.from)
  const out: Draft[] = []
  for (const d of sorted) {
    const l = out[out.length - 1]
    const together = l && l.storage === d.storage && l.to === d.from && l.acquire === d.acquire && l.release === d.release &&
      l.load?.ready === d.load?.ready && l.load?.from === d.load?.from && l.save?.start === d.save?.start &&
      (l.tierOffset === undefined ? d.tierOffset === undefined : d.tierOffset === l.tierOffset + (l.to - l.from) * PAGE_BYTES)
    if (together) out[out.length - 1] = { ...l, to: d.to }
    else out.push(d)
  }
  return out
}
