// Gives every cell its place. In: cells with lifetimes. Out: storages (each a run of bytes made of pages) and, for each
// cell, a storage and an offset. Invariant: cells that share bytes are never alive at the same time.
//
// Large cells have a storage each: pages are interchangeable, so they cannot fragment. What is smaller is packed:
// parameters and state into one storage for ever, small values by lifetime into another, and a tiled segment's locals
// into one per segment (the same offsets for every tile). Worked example of packing by lifetime, sizes in lines of 64:
// a[0,4) size 2, b[2,6) size 1, c[5,9) size 2: c takes a's bytes, b lies behind them; three lines in all.
import { ALIGN_BYTES, alignUp, PAGE_BYTES } from '../core/bytes'
import type { Call, Cell, Place, Storage } from '../plan/plan'

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

export interface Placement { readonly storages: readonly Storage[]; readonly places: readonly Place[] }

/** `smallBytes`: values below it share a storage, and stay while one of them is alive. */
export const place = (cells: readonly Cell[], calls: readonly Call[], smallBytes = SMALL_BYTES): Placement => {
  const storages: Storage[] = []
  const places = new Array<Place>(cells.length)
  const open = (label: string, bytes: number, members: readonly Cell[], offsets: readonly number[]): void => {
    const id = storages.length
    storages.push({ id, label, bytes, cells: members.map((c) => c.id) })
    members.forEach((c, i) => { places[c.id] = { storage: id, offset: offsets[i]! } })
  }
  const inARow = (label: string, members: readonly Cell[]): void => {
    let bytes = 0
    const offsets = members.map((c) => {
      const at = bytes
      bytes += alignUp(c.bytes, ALIGN_BYTES)
      return at
    })
    if (members.length) open(label, bytes, members, offsets)
  }
  const packed = (label: string, members: readonly Cell[], life: (c: Cell) => readonly [number, number]): void => {
    if (!members.length) return
    const p = packByLifetime(members.map((c) => ({ bytes: c.bytes, first: life(c)[0], last: life(c)[1] })))
    open(label, p.bytes, members, p.offsets)
  }
  const isLocal = (c: Cell): boolean => c.segment >= 0
  const isSmall = (c: Cell): boolean => (c.scope === 'whole' || c.scope === 'workspace') && !isLocal(c) && c.bytes < smallBytes

  inARow('parameters and state', cells.filter((c) => c.scope === 'persistent'))
  packed('small values', cells.filter(isSmall), (c) => [c.first, c.last])
  const locals = new Map<number, Cell[]>()
  for (const c of cells.filter(isLocal)) locals.set(c.segment, [...(locals.get(c.segment) ?? []), c])
  const phases = locals.size ? localPhases(cells, calls) : null
  for (const [s, members] of locals) packed(`tiles of segment ${s}`, members, (c) => phases!.get(c.id)!)
  for (const c of cells) if (!places[c.id]) open(c.label, c.bytes, [c], [0])
  return { storages, places }
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
