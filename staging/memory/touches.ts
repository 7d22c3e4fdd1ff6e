// When the pages of each storage are touched. In: calls and places. Out: for each storage its parts (pages that
// come and go together) and their stays. A stay is the hull of the calls of one segment that touch the part, or one run of calls that all do.
//
// A storage that only untiled segments touch is one part; one that tiles touch in bands is cut into parts, so that bands
// can come and go on their own; a row of values is cut where one gives way to the next. Worked example: a value of 10 pages, written in 5 bands of 2 pages by segment 0 and read
// by segment 3: five parts with two stays each, the k-th of them in the k-th tile.
import { pagesFor, pagesIn } from '../core/bytes'
import { type DType, dtypeBytes, type Graph } from '../graph/graph'
import { opDef } from '../ops/registry'
import { type Call, type Segment, tilesOf, type View } from '../plan/plan'
import { mayMove, type Placement } from './place'

/** Calls [first, last]; `lastWrite` is the last of them that writes, -1 when all only read. */
export interface Stay {
  readonly segment: number
  readonly first: number
  readonly last: number
  readonly lastWrite: number
}
export interface PageStays {
  readonly storage: number
  readonly from: number
  readonly to: number
  readonly stays: readonly Stay[]
}

/** Whether a stay lasts through its segment, from the first touch to the last, or ends when a call does not touch. */
export type StayRule = 'segment' | 'run'

/** How large parts are: so that they are not too many, or so that little is held that no tile touches. */
export type Parts = 'usual' | 'fine'

/** Pages of a band that move together: large enough for a link, small enough to follow a band of tiles. */
export const PART_PAGES = 2
/** Parts that bands, and small values, are cut into at the most: those of a value of 100 GiB are larger, or planning would take as long. */
const MOST_PARTS = 1024
/** Where every page counts, a part is no more than this share of what a tile touches, however many that makes. */
const BAND_SHARE = 1 / 8
const MOST_SMALL = 4096

/** Bytes [lo, hi) of a cell from the first to the last element of a view. */
export const bytesTouched = (v: View, natural: readonly number[], dtype: DType): readonly [number, number] => {
  const e = dtypeBytes[dtype]
  if (natural.length !== 4) return [0, natural.reduce((n, d) => n * d, e)]
  const [B, C, H, W] = v.held
  const [h, w, c] = [H[1] - H[0], W[1] - W[0], C[1] - C[0]]
  if (v.box === v.held) return [0, (B[1] - B[0]) * h * w * c * e]
  const [b, , y, x] = v.box
  const lo = (((b[0] - B[0]) * h + (y[0] - H[0])) * w + (x[0] - W[0])) * c
  const hi = (((b[1] - 1 - B[0]) * h + (y[1] - 1 - H[0])) * w + (x[1] - 1 - W[0])) * c + c
  return [lo * e, hi * e]
}

/** The pages at which parts of a storage begin, from 0 on. */
type Starts = readonly number[]

/** Cut at `seams`, and then into parts of at most so many pages. Parts are counted, not pages, of which a value may have millions. */
const cutAt = (pages: number, seams: readonly number[], most: number): Starts => {
  const edges = [...new Set([0, ...seams.filter((s) => s > 0 && s < pages)])].sort((a, b) => a - b)
  return edges.flatMap((from, i) => {
    const length = (edges[i + 1] ?? pages) - from
    return most >= length ? [from] : Array.from({ length: Math.ceil(length / most) }, (_, k) => from + k * most)
  })
}

/** The part that a page belongs to. */
const partOf = (starts: Starts, page: number): number => {
  let [lo, hi] = [0, starts.length - 1]
  while (lo < hi) {
    const middle = (lo + hi + 1) >> 1
    if (starts[middle]! <= page) lo = middle
    else hi = middle - 1
  }
  return lo
}

/** Storages that may move and that tiles touch. */
const tiledStorages = (segments: readonly Segment[], calls: readonly Call[], at: Placement): ReadonlySet<number> => {
  const out = new Set<number>()
  const tiled = segments.map((s) => tilesOf(s.grid) > 1)
  const touched = (v: View): void => void out.add(at.places[v.cell]!.storage)
  for (const call of calls)
    if (tiled[call.segment]) {
      call.ins.forEach(touched)
      call.outs.forEach(touched)
    }
  return new Set([...out].filter((s) => mayMove(at.kinds[s]!)))
}

/** Pages of the bands that loops touch of storages that move: of each loop the largest, of these the smallest. */
const bandPages = (
  graph: Graph,
  calls: readonly Call[],
  at: Placement,
  tiled: ReadonlySet<number>,
): ReadonlyMap<number, number> => {
  const byLoop = new Map<number, Map<number, number>>()
  const look = (segment: number, v: View): void => {
    const { storage } = at.places[v.cell]!
    if (!tiled.has(storage)) return
    const [lo, hi] = bytesTouched(v, graph.values[v.value]!.shape, graph.values[v.value]!.dtype)
    const loops = byLoop.get(storage) ?? new Map<number, number>()
    loops.set(segment, Math.max(loops.get(segment) ?? 0, hi - lo))
    byLoop.set(storage, loops)
  }
  for (const { segment, ins, outs } of calls) for (const v of [...ins, ...outs]) look(segment, v)
  return new Map([...byLoop].map(([s, loops]) => [s, pagesFor(Math.min(...loops.values()))]))
}

const NO_BANDS: ReadonlyMap<number, number> = new Map()

const partsOf = (at: Placement, tiled: ReadonlySet<number>, bands: ReadonlyMap<number, number>): readonly Starts[] =>
  at.storages.map((s) => {
    const pages = Math.max(1, pagesFor(s.bytes))
    const kind = at.kinds[s.id]!
    const seams = kind === 'value' ? s.cells.flatMap((c) => seamOf(at.places[c]!.offset)) : []
    const band = Math.floor((bands.get(s.id) ?? Infinity) * BAND_SHARE)
    const most = (least: number, parts: number): number => Math.max(least, Math.min(band, Math.ceil(pages / parts)))
    return cutAt(pages, seams, kind === 'small' ? most(1, MOST_SMALL) : tiled.has(s.id) ? most(PART_PAGES, MOST_PARTS) : Infinity)
  })

/** A page that two values share comes and goes by itself. */
const seamOf = (offset: number): readonly number[] => [pagesIn(offset), pagesFor(offset)]

export const touches = (
  graph: Graph,
  segments: readonly Segment[],
  calls: readonly Call[],
  at: Placement,
  rule: StayRule = 'segment',
  cut: Parts = 'usual',
): readonly PageStays[] => {
  const tiled = tiledStorages(segments, calls, at)
  const parts = partsOf(at, tiled, cut === 'fine' ? bandPages(graph, calls, at, tiled) : NO_BANDS)
  const stays: { segment: number; first: number; last: number; lastWrite: number }[][][] = parts.map((c) => c.map(() => []))
  /** From call p to call `to`, where it goes on beside others. */
  const touch = (
    storage: number,
    lo: number,
    hi: number,
    [p, to]: readonly [number, number],
    segment: number,
    writes: boolean,
  ): void => {
    if (hi <= lo) return
    const starts = parts[storage]!
    const one = starts.length === 1
    const end = one ? 0 : partOf(starts, pagesIn(hi - 1))
    for (let c = one ? 0 : partOf(starts, pagesIn(lo)); c <= end; c++) {
      const list = stays[storage]![c]!
      const last = list[list.length - 1]
      if (last && (last.last >= p || (last.segment === segment && (rule === 'segment' || last.last >= p - 1)))) {
        last.last = Math.max(last.last, to)
        if (writes) last.lastWrite = Math.max(last.lastWrite, to)
      } else list.push({ segment, first: p, last: to, lastWrite: writes ? to : -1 })
    }
  }
  calls.forEach((call, p) => {
    const calls = [p, call.beside ? call.beside.until - 1 : p] as const
    const view = (v: View, writes: boolean): void => {
      const value = graph.values[v.value]!
      const { storage, offset } = at.places[v.cell]!
      const [lo, hi] = bytesTouched(v, value.shape, value.dtype)
      touch(storage, offset + lo, offset + hi, calls, call.segment, writes)
    }
    const overwritten = call.op < 0 ? undefined : opDef(call.kind).mutates
    for (let k = 0; k < call.ins.length; k++) view(call.ins[k]!, (overwritten?.includes(k) ?? false) || call.beside !== undefined)
    for (let k = 0; k < call.outs.length; k++) view(call.outs[k]!, true)
    if (call.workspace) {
      const { storage, offset } = at.places[call.workspace.cell]!
      touch(storage, offset, offset + call.workspace.bytes, calls, call.segment, true)
    }
  })
  return at.storages.flatMap((s, i) => {
    const pages = Math.max(1, pagesFor(s.bytes))
    const starts = parts[i]!
    return stays[i]!.map(
      (list, k): PageStays => ({
        storage: s.id,
        from: starts[k]!,
        to: starts[k + 1] ?? pages,
        stays: at.kinds[i] === 'persistent' ? [{ segment: -1, first: 0, last: calls.length, lastWrite: calls.length }] : list,
      }),
    ).filter((c) => c.stays.length > 0)
  })
}
