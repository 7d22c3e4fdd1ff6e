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
type GrowingStay = { -readonly [K in keyof Stay]: Stay[K] }
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

/** The last of these numbers, which rise, that is not above `n`; the first is not. */
const lastUpTo = (rising: readonly number[], n: number): number => {
  let [lo, hi] = [0, rising.length - 1]
  while (lo < hi) {
    const middle = (lo + hi + 1) >> 1
    if (rising[middle]! <= n) lo = middle
    else hi = middle - 1
  }
  return lo
}

/** Calls [first, last] of a segment, which write or only read. */
interface Touch {
  readonly segment: number
  readonly first: number
  readonly last: number
  readonly writes: boolean
}

/**
 * When the parts of a storage are touched. Parts side by side that have been touched alike share one history: where tiles are many and
 * parts small, most do, and their stays are made once.
 */
class Histories {
  /** The first parts of those that share one, from 0 on. */
  private readonly from: number[] = [0]
  private readonly stays: GrowingStay[][] = [[]]

  constructor(
    private readonly starts: Starts,
    private readonly rule: StayRule,
  ) {}

  /** Pages from `lo` to `hi`. */
  touch(lo: number, hi: number, t: Touch): void {
    const begin = this.splitAt(lastUpTo(this.starts, lo))
    const end = this.splitAt(lastUpTo(this.starts, hi) + 1)
    for (let k = begin; k < end; k++) this.add(this.stays[k]!, t)
  }

  /** The number of the history that begins with this part. */
  private splitAt(part: number): number {
    if (part === this.starts.length) return this.from.length
    const k = lastUpTo(this.from, part)
    if (this.from[k] === part) return k
    this.from.splice(k + 1, 0, part)
    const own = this.stays[k]!.map((stay) => ({ ...stay }))
    this.stays.splice(k + 1, 0, own)
    return k + 1
  }

  private add(stays: GrowingStay[], { segment, first, last, writes }: Touch): void {
    const before = stays[stays.length - 1]
    const goesOn =
      before && (before.last >= first || (before.segment === segment && (this.rule === 'segment' || before.last >= first - 1)))
    if (!goesOn) stays.push({ segment, first, last, lastWrite: writes ? last : -1 })
    else {
      before.last = Math.max(before.last, last)
      if (writes) before.lastWrite = Math.max(before.lastWrite, last)
    }
  }

  /** Those that are touched, or all `forEver`. */
  parts(storage: number, end: number, forEver: readonly Stay[] | undefined): readonly PageStays[] {
    const { starts, from } = this
    return this.stays.flatMap((own, k): readonly PageStays[] => {
      const stays = forEver ?? own
      if (!stays.length) return []
      const count = (from[k + 1] ?? starts.length) - from[k]!
      return Array.from({ length: count }, (_, i) => {
        const part = from[k]! + i
        return { storage, from: starts[part]!, to: starts[part + 1] ?? end, stays }
      })
    })
  }
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
  const histories = parts.map((starts) => new Histories(starts, rule))
  /** From call p to call `to`, where it goes on beside others. */
  const touch = (storage: number, lo: number, hi: number, at: Touch): void => {
    if (lo < hi) histories[storage]!.touch(pagesIn(lo), pagesIn(hi - 1), at)
  }
  calls.forEach((call, first) => {
    const { segment } = call
    const last = call.beside ? call.beside.until - 1 : first
    const view = (v: View, writes: boolean): void => {
      const value = graph.values[v.value]!
      const { storage, offset } = at.places[v.cell]!
      const [lo, hi] = bytesTouched(v, value.shape, value.dtype)
      touch(storage, offset + lo, offset + hi, { segment, first, last, writes })
    }
    const overwritten = call.op < 0 ? undefined : opDef(call.kind).mutates
    for (let k = 0; k < call.ins.length; k++) view(call.ins[k]!, (overwritten?.includes(k) ?? false) || call.beside !== undefined)
    for (let k = 0; k < call.outs.length; k++) view(call.outs[k]!, true)
    if (call.workspace) {
      const { storage, offset } = at.places[call.workspace.cell]!
      touch(storage, offset, offset + call.workspace.bytes, { segment, first, last, writes: true })
    }
  })
  const forEver: readonly Stay[] = [{ segment: -1, first: 0, last: calls.length, lastWrite: calls.length }]
  return at.storages.flatMap((s, i) => {
    const end = Math.max(1, pagesFor(s.bytes))
    return histories[i]!.parts(s.id, end, at.kinds[i] === 'persistent' ? forEver : undefined)
  })
}
