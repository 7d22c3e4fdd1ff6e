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

/** Offsets by lifetime: largest first, each at the lowest gap that is free throughout its life. */
export const packByLifetime = (items: readonly Interval[]): { readonly offsets: readonly number[]; readonly bytes: number } => {
  const order = items.map((_, i) => i).sort((a, b) => items[b]!.bytes - items[a]!.bytes || items[a]!.first - items[b]!.first || a - b)
  const offsets = new Array<number>(items.length).fill(0)
  const placed: number[] = []
  let total = 0
  for (const i of order) {
    const it = items[i]!
    const size = alignUp(it.bytes, ALIGN_BYTES)
    let at = 0
    for (const j of placed) {
      const o = items[j]!
      if (o.last < it.first || o.first > it.last) continue
      if (at + size <= offsets[j]!) break
      at = Math.max(at, offsets[j]! + alignUp(o.bytes, ALIGN_BYTES))
    }
    offsets[i] = at
    total = Math.max(total, at + size)
    const where = placed.findIndex((j) => offsets[j]! > at)
    placed.splice(where < 0 ? placed.length : where, 0, i)
  }
  return { offsets, bytes: total }
}

export interface Placement { readonly storages: readonly Storage[]; readonly places: readonly Place[] }

export const place = (cells: readonly Cell[], calls: readonly Call[]): Placement => {
  const storages: Storage[] = []
  const places = new Array<Place>(cells.length)
  const open = (label: string, bytes: number, members: readonly Cell[], offsets: readonly number[]): void => {
    const id = storages.length
    storages.push({ id, label, bytes, cells: members.map((c) => c.id) })
    members.forEach((c, i) => { places[c.id] = { storage: id, offset: offsets[i]! } })
  }
  const packed = (label: string, members: readonly Cell[], life: (c: Cell) => readonly [number, number]): void => {
    if (!members.length) return
    const p = packByLifetime(members.map((c) => ({ bytes: c.bytes, first: life(c)[0], last: life(c)[1] })))
    open(label, p.bytes, members, p.offsets)
  }
  const isLocal = (c: Cell): boolean => c.segment >= 0
  const isSmall = (c: Cell): boolean => (c.scope === 'whole' || c.scope === 'workspace') && !isLocal(c) && c.bytes < SMALL_BYTES

  packed('parameters and state', cells.filter((c) => c.scope === 'persistent'), () => [0, calls.length])
  packed('small values', cells.filter(isSmall), (c) => [c.first, c.last])
  const phases = localPhases(cells, calls)
  for (const s of [...new Set(cells.filter(isLocal).map((c) => c.segment))])
    packed(`tiles of segment ${s}`, cells.filter((c) => c.segment === s), (c) => phases.get(c.id)!)
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
