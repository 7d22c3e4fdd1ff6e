// The calls that touch the pages of each storage. In: calls and places. Out: for each storage its parts (pages that are swapped together) and their
// stays. A stay is the hull of the calls of one segment that touch the part, or one run of calls that all do.
//
// A storage that only untiled segments touch is one part. A storage that tiles touch in bands is cut into parts, so that bands can be swapped
// separately. A row of values is cut where one value follows another. Worked example: a value of 10 pages, written in 5 bands of 2 pages by segment 0
// and read by segment 3: five parts with two stays each, the k-th of them in the k-th tile.
import { mapped } from '../core/mapped'
import type { Box } from '../core/box'
import { pagesFor, pagesIn } from '../core/bytes'
import { type DType, dtypeBytes, type Graph } from '../graph/graph'
import { opDef } from '../ops/registry'
import { type Call, type Segment, tilesOf, type View } from '../plan/plan'
import { isMovable, type Placement, type StorageKind } from './place'

/** Calls [first, last]; `lastWrite` is the last of them that writes, -1 when all only read. */
export interface Stay {
  readonly segment: number
  readonly first: number
  readonly last: number
  readonly lastWrite: number
}
type GrowingStay = { -readonly [K in keyof Stay]: Stay[K] }
export interface PageStays {
  readonly storage: number
  readonly from: number
  readonly to: number
  readonly stays: readonly Stay[]
}

/** The first pages of the parts of a storage. The first part begins at 0. */
type Starts = readonly number[]

/** Adjacent parts of a storage with the same stays, from the first page of the first part. A step has many parts and few of these. */
export interface AlikeParts extends PageStays {
  /** The first pages of all parts of the storage. */
  readonly starts: Starts
  /** The indices in `starts` of the first part and of the part behind the last. */
  readonly first: number
  readonly next: number
  readonly kind: StorageKind
}

/** Calls `look` with the pages and the index of each of these parts. */
export const eachPart = (p: AlikeParts, look: (from: number, to: number, index: number) => void): void => {
  for (let k = p.first; k < p.next; k++) look(p.starts[k]!, k + 1 < p.next ? p.starts[k + 1]! : p.to, k)
}

/** A stay lasts through its segment, from the first touch to the last, or ends at a call without a touch. */
export type StayRule = 'segment' | 'run'

/** The size of parts. `usual`: few parts. `fine`: few pages are held that no tile touches. */
export type Parts = 'usual' | 'fine'

/** The least pages of a band that move together. Two are large enough for a link and small enough to follow a band of tiles. */
export const PART_PAGES: Readonly<Record<Parts, number>> = { usual: 2, fine: 1 }
/** The most parts of a value, and of the small values. Without a limit, the time of planning would grow with the bytes of the values. */
const MOST_PARTS = 1024
const MOST_SMALL = 4096
/** A part is at most this share of the pages that a tile touches, for any number of parts: the device holds the whole parts of a tile. */
const BAND_SHARE = 1 / 8

/** Bytes [lo, hi) of a cell from the first to the last element of a view. */
export const bytesTouched = (v: View, natural: readonly number[], dtype: DType): readonly [number, number] => {
  const e = dtypeBytes[dtype]
  if (natural.length !== 4) {
    const row = natural.slice(1).reduce((n, d) => n * d, e)
    return [v.box[0][0] * row, v.box[0][1] * row]
  }
  const [B, C, H, W] = v.held
  const [h, w, c] = [H[1] - H[0], W[1] - W[0], C[1] - C[0]]
  if (v.box === v.held) return [0, (B[1] - B[0]) * h * w * c * e]
  const [b, , y, x] = v.box
  const lo = (((b[0] - B[0]) * h + (y[0] - H[0])) * w + (x[0] - W[0])) * c
  const hi = (((b[1] - 1 - B[0]) * h + (y[1] - 1 - H[0])) * w + (x[1] - 1 - W[0])) * c + c
  return [lo * e, hi * e]
}

const UNCUT: Starts = [0]

/**
 * Cuts the pages at `seams`, and then into parts of at most `most` pages. Parts are counted, not pages, because a value may have millions of pages.
 */
const cutAt = (pages: number, seams: readonly number[], most: number): Starts => {
  if (seams.length === 0 && most >= pages) return UNCUT
  const edges = [...new Set([0, ...seams.filter((s) => s > 0 && s < pages)])].sort((a, b) => a - b)
  const starts: number[] = []
  edges.forEach((from, i) => {
    const end = edges[i + 1] ?? pages
    for (let start = from; start < end; start += most) starts.push(start)
  })
  return starts
}

/** Returns the index of the last of these rising numbers that is not above `n`. The first must not be above `n`. */
const lastUpTo = (rising: readonly number[], n: number): number => {
  let [lo, hi] = [0, rising.length - 1]
  while (lo < hi) {
    const middle = (lo + hi + 1) >> 1
    if (rising[middle]! <= n) lo = middle
    else hi = middle - 1
  }
  return lo
}

/**
 * The touches of the parts of a storage. Adjacent parts with the same touches share one history, so their stays are made once. With many tiles and
 * small parts, most parts do.
 */
class Histories {
  /** The first part of each run of parts that share a history. */
  private readonly from: number[] = [0]
  private readonly stays: GrowingStay[][] = [[]]

  constructor(
    private readonly starts: Starts,
    private readonly rule: StayRule,
  ) {}

  /** True if the storage is one part. */
  get isOne(): boolean {
    return this.starts.length === 1
  }

  /** Records that calls [first, last] of a segment touch pages `lo` to `hi`, and whether they write. */
  touch(lo: number, hi: number, segment: number, first: number, last: number, writes: boolean): void {
    const begin = this.splitAt(lastUpTo(this.starts, lo))
    const end = this.splitAt(lastUpTo(this.starts, hi) + 1)
    for (let k = begin; k < end; k++) this.add(this.stays[k]!, segment, first, last, writes)
  }

  touchAll(segment: number, first: number, last: number, writes: boolean): void {
    this.add(this.stays[0]!, segment, first, last, writes)
  }

  /** Returns the index of the history that begins with this part, after a split if necessary. */
  private splitAt(part: number): number {
    if (part === this.starts.length) return this.from.length
    const k = lastUpTo(this.from, part)
    if (this.from[k] === part) return k
    this.from.splice(k + 1, 0, part)
    // Only the last stay grows, so both histories share the earlier ones.
    const own = this.stays[k]!.slice()
    const last = own.pop()
    if (last) own.push({ ...last })
    this.stays.splice(k + 1, 0, own)
    return k + 1
  }

  private add(stays: GrowingStay[], segment: number, first: number, last: number, writes: boolean): void {
    const before = stays.length === 0 ? undefined : stays[stays.length - 1]!
    const continues =
      before && (before.last >= first || (before.segment === segment && (this.rule === 'segment' || before.last >= first - 1)))
    if (!continues) stays.push({ segment, first, last, lastWrite: writes ? last : -1 })
    else {
      if (last > before.last) before.last = last
      if (writes && last > before.lastWrite) before.lastWrite = last
    }
  }

  /** Adds the stays of all touched parts to `out`; with `forEver`, of all parts. */
  parts(storage: number, end: number, kind: StorageKind, forEver: readonly Stay[] | undefined, out: AlikeParts[]): void {
    const { starts, from } = this
    for (let k = 0; k < from.length; k++) {
      const stays = forEver ?? this.stays[k]!
      if (stays.length === 0) continue
      const first = from[k]!
      const next = k + 1 < from.length ? from[k + 1]! : starts.length
      const to = next < starts.length ? starts[next]! : end
      out.push({ storage, from: starts[first]!, to, stays, starts, first, next, kind })
    }
  }
}

/** Returns an array with a 1 for each storage that may move and that tiles touch. */
const tiledStorages = (segments: readonly Segment[], calls: readonly Call[], at: Placement): Uint8Array => {
  const out = new Uint8Array(at.storages.length)
  const tiled = mapped(segments, (s) => tilesOf(s.grid) > 1)
  if (!tiled.includes(true)) return out
  for (const call of calls)
    if (tiled[call.segment]) {
      for (const v of call.ins) out[at.places[v.cell]!.storage] = 1
      for (const v of call.outs) out[at.places[v.cell]!.storage] = 1
    }
  for (let s = 0; s < out.length; s++) if (!isMovable(at.kinds[s]!)) out[s] = 0
  return out
}

/** Returns the pages of the bands that loops touch, by storage that may move: the largest band of each loop, and of these the smallest. */
const bandPages = (graph: Graph, calls: readonly Call[], at: Placement, tiled: Uint8Array): ReadonlyMap<number, number> => {
  const byLoop = new Map<number, Map<number, number>>()
  const note = (segment: number, v: View): void => {
    const { storage } = at.places[v.cell]!
    if (!tiled[storage]) return
    const [lo, hi] = bytesTouched(v, graph.values[v.value]!.shape, graph.values[v.value]!.dtype)
    const loops = byLoop.get(storage) ?? new Map<number, number>()
    loops.set(segment, Math.max(loops.get(segment) ?? 0, hi - lo))
    byLoop.set(storage, loops)
  }
  for (const { segment, ins, outs } of calls) for (const v of [...ins, ...outs]) note(segment, v)
  return new Map(mapped([...byLoop], ([s, loops]) => [s, pagesFor(Math.min(...loops.values()))]))
}

const partsOf = (at: Placement, tiled: Uint8Array, bands: ReadonlyMap<number, number>, cut: Parts): readonly Starts[] =>
  mapped(at.storages, (s) => {
    const pages = Math.max(1, pagesFor(s.bytes))
    const kind = at.kinds[s.id]!
    const seams = kind === 'value' ? s.cells.flatMap((c) => seamOf(at.places[c]!.offset)) : []
    const band = Math.floor((bands.get(s.id) ?? Infinity) * BAND_SHARE)
    const most = (least: number, parts: number): number => Math.max(least, Math.min(band, Math.ceil(pages / parts)))
    return cutAt(
      pages,
      seams,
      kind === 'small' ? most(1, MOST_SMALL) : tiled[s.id] ? most(PART_PAGES[cut], MOST_PARTS) : Infinity,
    )
  })

/** Returns the cuts around a value's offset. A page that two values share is a part of its own. */
const seamOf = (offset: number): readonly number[] => [pagesIn(offset), pagesFor(offset)]

export const touches = (
  graph: Graph,
  segments: readonly Segment[],
  calls: readonly Call[],
  at: Placement,
  rule: StayRule = 'segment',
  cut: Parts = 'usual',
): readonly AlikeParts[] => {
  const tiled = tiledStorages(segments, calls, at)
  const parts = partsOf(at, tiled, bandPages(graph, calls, at, tiled), cut)
  const histories = mapped(parts, (starts) => new Histories(starts, rule))
  /** A touch from call `first` to call `last`: a call that runs beside others lasts until it is joined. */
  const touch = (
    storage: number,
    lo: number,
    hi: number,
    segment: number,
    first: number,
    last: number,
    writes: boolean,
  ): void => {
    if (lo < hi) histories[storage]!.touch(pagesIn(lo), pagesIn(hi - 1), segment, first, last, writes)
  }
  const view = (v: View, segment: number, first: number, last: number, writes: boolean): void => {
    const { storage, offset } = at.places[v.cell]!
    const history = histories[storage]!
    if (history.isOne && v.box === v.held && isNonEmpty(v.box)) history.touchAll(segment, first, last, writes)
    else {
      const { shape, dtype } = graph.values[v.value]!
      const [lo, hi] = bytesTouched(v, shape, dtype)
      touch(storage, offset + lo, offset + hi, segment, first, last, writes)
    }
  }
  for (let first = 0; first < calls.length; first++) {
    const { segment, kind, op, ins, outs, workspace, beside } = calls[first]!
    const last = beside ? beside.until - 1 : first
    const overwritten = op < 0 ? undefined : opDef(kind).mutates
    for (let k = 0; k < ins.length; k++)
      view(ins[k]!, segment, first, last, (overwritten?.includes(k) ?? false) || beside !== undefined)
    for (let k = 0; k < outs.length; k++) view(outs[k]!, segment, first, last, true)
    if (workspace) {
      const { storage, offset } = at.places[workspace.cell]!
      touch(storage, offset, offset + workspace.bytes, segment, first, last, true)
    }
  }
  const forEver: readonly Stay[] = [{ segment: -1, first: 0, last: calls.length, lastWrite: calls.length }]
  const out: AlikeParts[] = []
  for (const s of at.storages) {
    const end = Math.max(1, pagesFor(s.bytes))
    const kind = at.kinds[s.id]!
    histories[s.id]!.parts(s.id, end, kind, kind === 'persistent' ? forEver : undefined, out)
  }
  return out
}

const isNonEmpty = (box: Box): boolean => {
  for (let i = 0; i < box.length; i++) if (box[i]![1] <= box[i]![0]) return false
  return true
}
