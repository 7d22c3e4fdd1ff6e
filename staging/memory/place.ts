// Gives every cell its place. In: cells with lifetimes. Out: storages (each a run of bytes made of pages) and, for each
// cell, a storage and an offset. Invariant: cells that share bytes are never alive at the same time.
//
// Large cells have a storage each, or one for a row of them: pages are interchangeable, so they cannot fragment. What is smaller is packed:
// parameters and state into one storage for ever, small values by lifetime into another, and a tiled segment's locals
// into one per segment (the same offsets for every tile). Worked example of packing by lifetime, sizes in lines of 64:
// a[0,4) size 2, b[2,6) size 1, c[5,9) size 2: c takes a's bytes, b lies behind them; three lines in all.
import { ALIGN_BYTES, alignUp, PAGE_BYTES } from '../core/bytes'
import { type Call, type Cell, type Place, SMALL_VALUES, type Storage } from '../plan/plan'
import { rowsOf } from './rows'

/** Cells below this are packed together; a storage of its own wastes half a page on average. */
export const SMALL_BYTES = PAGE_BYTES / 4

export interface Interval { readonly bytes: number; readonly first: number; readonly last: number }

/** What is placed so far, in order of offset; flat arrays, since every new item looks at all of it. */
class Placed {
  private readonly offset: Float64Array
  private readonly end: Float64Array
  private readonly first: Float64Array
  private readonly last: Float64Array
  private count = 0

  constructor(most: number) {
    this.offset = new Float64Array(most)
    this.end = new Float64Array(most)
    this.first = new Float64Array(most)
    this.last = new Float64Array(most)
  }

  /** The lowest offset at which `size` bytes are free throughout a life. */
  lowestFree(size: number, first: number, last: number): number {
    let at = 0
    for (let j = 0; j < this.count; j++) {
      if (this.last[j]! < first || this.first[j]! > last) continue
      if (at + size <= this.offset[j]!) break
      if (this.end[j]! > at) at = this.end[j]!
    }
    return at
  }

  put(offset: number, size: number, first: number, last: number): void {
    let lo = 0
    for (let hi = this.count; lo < hi; ) {
      const middle = (lo + hi) >> 1
      if (this.offset[middle]! <= offset) lo = middle + 1
      else hi = middle
    }
    for (const field of [this.offset, this.end, this.first, this.last]) field.copyWithin(lo + 1, lo, this.count)
    this.offset[lo] = offset
    this.end[lo] = offset + size
    this.first[lo] = first
    this.last[lo] = last
    this.count++
  }
}

/** Offsets by lifetime: largest first, each at the lowest gap that is free throughout its life. */
export const packByLifetime = (items: readonly Interval[]): { readonly offsets: readonly number[]; readonly bytes: number } => {
  const order = items.map((_, i) => i).sort((a, b) => items[b]!.bytes - items[a]!.bytes || items[a]!.first - items[b]!.first || a - b)
  const offsets = new Array<number>(items.length).fill(0)
  const placed = new Placed(items.length)
  let total = 0
  for (const i of order) {
    const { first, last, bytes } = items[i]!
    const size = alignUp(bytes, ALIGN_BYTES)
    const at = placed.lowestFree(size, first, last)
    placed.put(at, size, first, last)
    offsets[i] = at
    total = Math.max(total, at + size)
  }
  return { offsets, bytes: total }
}

/**
 * What a storage holds.
 *  persistent  parameters, state, the loss: for ever
 *  small       values packed by lifetime: each page stays while anything in it may live
 *  scratch     what lives inside a tile, or a call
 *  fed         what comes from the data source
 *  value       a large value, or a row of them
 */
export type StorageKind = 'persistent' | 'small' | 'scratch' | 'fed' | 'value'

/**
 * How the large values of a step lie: each on pages of its own, those that live alike side by side, or packed by lifetime with
 * the small ones, for plans that move nothing.
 */
export type Packing = 'apart' | 'rows' | 'tight'

export interface Placement {
  readonly storages: readonly Storage[]
  readonly places: readonly Place[]
  /** For each storage. */
  readonly kinds: readonly StorageKind[]
}

const isLocal = (c: Cell): boolean => c.segment >= 0
const isSmall = (packing: Packing) => (c: Cell): boolean =>
  (c.scope === 'whole' || c.scope === 'workspace') && !isLocal(c) && (packing === 'tight' || c.bytes < SMALL_BYTES)

/** Storages as they are opened. */
class Placer implements Placement {
  readonly storages: Storage[] = []
  readonly kinds: StorageKind[] = []
  readonly places: Place[]

  constructor(cells: number) {
    this.places = new Array<Place>(cells)
  }

  private open(kind: StorageKind, label: string, bytes: number, members: readonly Cell[], offsets: readonly number[]): void {
    const id = this.storages.length
    this.storages.push({ id, label, bytes, cells: members.map((c) => c.id) })
    this.kinds.push(kind)
    members.forEach((c, i) => { this.places[c.id] = { storage: id, offset: offsets[i]! } })
  }

  alone(kind: StorageKind, c: Cell): void {
    this.open(kind, c.label, c.bytes, [c], [0])
  }

  inARow(kind: StorageKind, label: string, members: readonly Cell[]): void {
    let bytes = 0
    const offsets = members.map((c) => {
      const at = bytes
      bytes += alignUp(c.bytes, ALIGN_BYTES)
      return at
    })
    if (members.length) this.open(kind, label, bytes, members, offsets)
  }

  packed(kind: StorageKind, label: string, members: readonly Cell[], life: (c: Cell) => readonly [number, number]): void {
    if (!members.length) return
    const p = packByLifetime(members.map((c) => ({ bytes: c.bytes, first: life(c)[0], last: life(c)[1] })))
    this.open(kind, label, p.bytes, members, p.offsets)
  }
}

/** Cells that loops over tiles touch: they come and go by bands, which a neighbour would disturb. */
const touchedByTiles = (calls: readonly Call[]): ReadonlySet<number> => {
  const loops = new Set(calls.flatMap((c) => (c.tile > 0 ? [c.segment] : [])))
  const views = loops.size ? calls.flatMap((c) => (loops.has(c.segment) ? [...c.ins, ...c.outs] : [])) : []
  return new Set(views.map((v) => v.cell))
}

export const place = (cells: readonly Cell[], calls: readonly Call[], packing: Packing = 'apart'): Placement => {
  const placer = new Placer(cells.length)
  placer.inARow('persistent', 'parameters and state', cells.filter((c) => c.scope === 'persistent'))
  placer.packed('small', SMALL_VALUES, cells.filter(isSmall(packing)), (c) => [c.first, c.last])
  const locals = new Map<number, Cell[]>()
  for (const c of cells.filter(isLocal)) locals.set(c.segment, [...(locals.get(c.segment) ?? []), c])
  const phases = locals.size ? localPhases(cells, calls) : null
  for (const [s, members] of locals) placer.packed('scratch', `tiles of segment ${s}`, members, (c) => phases!.get(c.id)!)
  const large = cells.filter((c) => !placer.places[c.id])
  const byBands = touchedByTiles(calls)
  const inRows = packing === 'rows' ? large.filter((c) => c.scope === 'whole' && !byBands.has(c.id)) : []
  const rowOf = new Map(rowsOf(inRows).flatMap((row) => row.map((c) => [c, row] as const)))
  for (const c of large) {
    const row = rowOf.get(c)
    if (placer.places[c.id]) continue
    if (row && row.length > 1) placer.inARow('value', `${row[0]!.label} … ${row[row.length - 1]!.label}`, row)
    else placer.alone(c.scope === 'fed' ? 'fed' : c.scope === 'whole' ? 'value' : 'scratch', c)
  }
  return placer
}

/**
 * Lifetimes of local cells within one tile: from the first to the last call that touches them, counted from the tile's
 * first call; the hull over all tiles, since border tiles may need a copy more.
 * Calls are named by (op, how many plumbing calls since), so that tiles with and without copies line up.
 */
const localPhases = (cells: readonly Cell[], calls: readonly Call[]): ReadonlyMap<number, readonly [number, number]> => {
  const life = new Map<number, [number, number]>()
  let segment = -1
  let tile = -1
  let step = 0
  for (const call of calls) {
    if (call.segment !== segment || call.tile !== tile) {
      segment = call.segment
      tile = call.tile
      step = 0
    }
    // Copies before an op gather for it and belong to its step; copies after it store its result and belong to its step too.
    // Counting an op as 2k+1, what lies between ops k-1 and k is 2k: both neighbours overlap it.
    const at = call.op >= 0 ? 2 * step++ + 1 : 2 * step
    const touch = (cell: number): void => {
      if (cells[cell]!.segment < 0) return
      const l = life.get(cell)
      if (!l) life.set(cell, [at, at])
      else {
        l[0] = Math.min(l[0], at)
        l[1] = Math.max(l[1], at)
      }
    }
    call.ins.forEach((v) => touch(v.cell))
    call.outs.forEach((v) => touch(v.cell))
    if (call.workspace) touch(call.workspace.cell)
  }
  return life
}
