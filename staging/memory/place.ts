// Gives every cell its place. In: cells with lifetimes. Out: storages (each a run of bytes made of pages) and, for each cell, a storage and an
// offset. Invariant: cells that share bytes are never alive at the same time.
//
// Large cells have a storage each, or one for a row of them: pages are interchangeable, so they cannot fragment. Smaller ones are packed: parameters
// and state into one permanent storage (large ones may be at home in the lower tier instead), small values by lifetime into another (or, with shared
// pages, resting ones by pages), and a tiled segment's locals into one per segment (the same offsets for every tile). Worked example of packing by
// lifetime, sizes in lines of 64: a[0,4) size 2, b[2,6) size 1, c[5,9) size 2: c takes a's bytes, b is after them; three lines in all.
import { mapped } from '../core/mapped'
import { ALIGN_BYTES, alignUp, mostHeld, PAGE_BYTES, pagesFor } from '../core/bytes'
import { sameBox } from '../core/box'
import type { ValueId } from '../graph/graph'
import { type Call, type Cell, type CellScope, type Place, SMALL_VALUES, type Storage, type View } from '../plan/plan'
import { SECTOR_BYTES } from '../plan/wire'
import { Gaps } from './gaps'
import { rowsOf } from './rows'
import { sharedPagesOf } from './sharedpages'

/** Cells below this are packed together; a storage of its own wastes half a page on average. */
export const SMALL_BYTES = PAGE_BYTES / 4
/** Locals below this leave their tile, where that saves it a page: as small values they live for as long as the segment runs. */
export const TINY_BYTES = 4096

export interface Lifetime {
  readonly bytes: number
  readonly first: number
  readonly last: number
}

export interface Packed {
  readonly offsets: readonly number[]
  readonly bytes: number
}

/** Each item in its turn at the lowest gap that is free throughout its life. */
const packInOrder = (items: readonly Lifetime[], order: readonly number[]): Packed => {
  const offsets = new Array<number>(items.length).fill(0)
  const placed = new Gaps(items.reduce((n, i) => Math.max(n, i.last), 0) + 1)
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

/** The live bytes at the peak: no packing takes less. */
const leastBytes = (items: readonly Lifetime[]): number => {
  const points = items.reduce((n, i) => Math.max(n, i.last), 0) + 1
  const change = new Float64Array(points + 1)
  for (const { bytes, first, last } of items) {
    change[first]! += alignUp(bytes, ALIGN_BYTES)
    change[last + 1]! -= alignUp(bytes, ALIGN_BYTES)
  }
  return mostHeld(change, points)
}

type Order = (a: Lifetime, b: Lifetime) => number
const largestFirst: Order = (a, b) => b.bytes - a.bytes || a.first - b.first
/** Values of a forward pass lie like a stack. */
const longestFirst: Order = (a, b) => b.last - b.first - (a.last - a.first) || largestFirst(a, b)

/** Pairs that are looked at for a better packing than the first: planners place hundreds of layouts. */
const MOST_PAIRS = 250_000

/**
 * Offsets by lifetime: largest first, which leaves small gaps. If that takes more than the live bytes, and there are few items, longest lives first;
 * then, repeatedly, the top item is placed before the first that lives beside it.
 */
export const packByLifetime = (items: readonly Lifetime[]): Packed => {
  const least = leastBytes(items)
  const sorted = (by: Order): readonly number[] => mapped(items, (_, i) => i).sort((a, b) => by(items[a]!, items[b]!) || a - b)
  const first = packInOrder(items, sorted(largestFirst))
  const tries = Math.floor(MOST_PAIRS / items.length ** 2)
  if (tries === 0 || first.bytes <= least) return first
  return betterPacked(items, () => {
    let best = first
    let order = sorted(longestFirst)
    for (let left = tries; left > 0 && best.bytes > least; left--) {
      const packed = packInOrder(items, order)
      if (packed.bytes < best.bytes) best = packed
      order = topFirst(items, packed, order)
    }
    return best
  })
}

/** Layouts have most of their loops in common: the results of this number of packings are kept, enough for a search. */
const MOST_KNOWN = 4096
const knownPacked = new Map<string, Packed>()

const betterPacked = (items: readonly Lifetime[], pack: () => Packed): Packed => {
  let key = ''
  for (const { bytes, first, last } of items) key += `${bytes} ${first} ${last},`
  const packed = knownPacked.get(key) ?? pack()
  if (knownPacked.size >= MOST_KNOWN) knownPacked.clear()
  knownPacked.set(key, packed)
  return packed
}

/** Places the top item before the first that lives beside it. */
const topFirst = (items: readonly Lifetime[], { offsets, bytes }: Packed, order: readonly number[]): readonly number[] => {
  const at = order.findIndex((i) => offsets[i]! + alignUp(items[i]!.bytes, ALIGN_BYTES) === bytes)
  const top = order[at]!
  const { first, last } = items[top]!
  const before = order.findIndex((i) => items[i]!.first <= last && first <= items[i]!.last)
  return [...order.slice(0, before), top, ...order.slice(before, at), ...order.slice(at + 1)]
}

/**
 * The contents of a storage.
 *  persistent  parameters, state, the loss: for ever
 *  small       values packed by lifetime: each page stays while anything in it may live
 *  scratch     values inside a tile, or a call
 *  fed         values from the data source
 *  output      results for the caller
 *  home        a large parameter or state that comes from its home in the lower tier, and goes back there
 *  value       a large value, or a row of them
 */
export type StorageKind = 'persistent' | 'small' | 'scratch' | 'fed' | 'output' | 'home' | 'value'

/** Storages that are there for a part of the step only, perhaps in parts: large values, fed ones, outputs, and those with a home. */
export const mayMove = (k: StorageKind): boolean => k === 'value' || k === 'fed' || k === 'output' || k === 'home'

/**
 * How the values of a step lie: large ones each on pages of its own, or those that live alike side by side, or so and values under a
 * page that rest together on pages that leave; or rows and small values on the last page of the parameters; or all packed by lifetime, for plans
 * that move nothing.
 */
export type Packing = 'apart' | 'rows' | 'shared' | 'dense' | 'tight'

export interface Placement {
  readonly storages: readonly Storage[]
  readonly places: readonly Place[]
  /** For each storage. */
  readonly kinds: readonly StorageKind[]
}

const isLocal = (c: Cell): boolean => c.segment >= 0
const isSmall =
  (packing: Packing) =>
  (c: Cell): boolean =>
    (c.scope === 'whole' || c.scope === 'workspace') &&
    !isLocal(c) &&
    (packing === 'tight' || c.bytes < SMALL_BYTES || (packing === 'shared' && 2 * c.bytes <= PAGE_BYTES))

interface PackedCells extends Packed {
  readonly members: readonly Cell[]
}

const packedCells = (members: readonly Cell[], life: (c: Cell) => readonly [number, number]): PackedCells => ({
  members,
  ...packByLifetime(mapped(members, (c) => ({ bytes: c.bytes, first: life(c)[0], last: life(c)[1] }))),
})

const NO_CELLS: PackedCells = { members: [], offsets: [], bytes: 0 }

/** Small cells that have room on the last page of a row, and the other ones. */
const onLastPage = (
  row: readonly Cell[],
  { members, offsets }: PackedCells,
  life: (c: Cell) => readonly [number, number],
): readonly [PackedCells, PackedCells] => {
  const { bytes } = sideBySide(row, ALIGN_BYTES)
  const space = alignUp(bytes, PAGE_BYTES) - alignUp(bytes, ALIGN_BYTES)
  const fits = new Set(members.filter((c, i) => offsets[i]! + alignUp(c.bytes, ALIGN_BYTES) <= space))
  return [
    packedCells([...fits], life),
    packedCells(
      members.filter((c) => !fits.has(c)),
      life,
    ),
  ]
}

/** A tile's locals, without tiny ones that would make it take a page more. */
const packedTile = (members: readonly Cell[], life: (c: Cell) => readonly [number, number]): PackedCells => {
  const all = packedCells(members, life)
  const tiny = members.filter((c) => c.bytes < TINY_BYTES).reduce((n, c) => n + alignUp(c.bytes, ALIGN_BYTES), 0)
  if (all.bytes < PAGE_BYTES || all.bytes % PAGE_BYTES > tiny) return all
  const others = packedCells(
    members.filter((c) => c.bytes >= TINY_BYTES),
    life,
  )
  return pagesFor(others.bytes) < pagesFor(all.bytes) ? others : all
}

/** Cells with the same key, in order. */
const grouped = (cells: readonly Cell[], keyOf: (c: Cell) => number): ReadonlyMap<number, readonly Cell[]> => {
  const groups = new Map<number, Cell[]>()
  for (const c of cells) {
    const key = keyOf(c)
    const members = groups.get(key)
    if (members) members.push(c)
    else groups.set(key, [c])
  }
  return groups
}

/** Each cell behind the one before it. */
const sideBySide = (members: readonly Cell[], align: number): Packed => {
  let bytes = 0
  const offsets = mapped(members, (c) => {
    const at = alignUp(bytes, align)
    bytes = at + c.bytes
    return at
  })
  return { offsets, bytes }
}

const labelOf = (members: readonly Cell[]): string =>
  [...new Set([members[0]!.label, members[members.length - 1]!.label])].join(' … ')

/** Storages as they are opened. */
class Placer implements Placement {
  readonly storages: Storage[] = []
  readonly kinds: StorageKind[] = []
  readonly places: Place[]

  constructor(cells: number) {
    this.places = new Array<Place>(cells)
  }

  private open(
    kind: StorageKind,
    label: string,
    bytes: number,
    members: readonly Cell[],
    offsets: readonly number[],
    home?: number,
  ): void {
    const id = this.storages.length
    const cells = mapped(members, (c) => c.id)
    this.storages.push(home === undefined ? { id, label, bytes, cells } : { id, label, bytes, cells, home })
    this.kinds.push(kind)
    members.forEach((c, i) => {
      this.places[c.id] = { storage: id, offset: offsets[i]! }
    })
  }

  alone(kind: StorageKind, c: Cell): void {
    this.open(kind, c.label, c.bytes, [c], [0])
  }

  /** Homes lie side by side from the beginning of the lower tier on. */
  atHome(members: readonly Cell[]): void {
    const { offsets, bytes } = sideBySide(members, SECTOR_BYTES)
    this.open('home', labelOf(members), bytes, members, offsets, this.homeBytes)
    this.homeBytes = alignUp(this.homeBytes + bytes, SECTOR_BYTES)
  }
  private homeBytes = 0

  /** `behind`: packed cells behind the row. */
  inARow(kind: StorageKind, label: string, members: readonly Cell[], behind: PackedCells = NO_CELLS): void {
    const { offsets, bytes } = sideBySide(members, ALIGN_BYTES)
    const end = alignUp(bytes, ALIGN_BYTES)
    const all = [...members, ...behind.members]
    const at = [...offsets, ...mapped(behind.offsets, (offset) => end + offset)]
    if (all.length) this.open(kind, label, end + behind.bytes, all, at)
  }

  packed(kind: StorageKind, label: string, { members, offsets, bytes }: PackedCells): void {
    if (members.length) this.open(kind, label, bytes, members, offsets)
  }
}

/**
 * The rows of a step. Values that loops over tiles touch in parts move by bands, which a neighbour would disturb: they are in no row. Values under a
 * page have no bands.
 */
const rowsIn = (cells: readonly Cell[], calls: readonly Call[]): readonly (readonly Cell[])[] => {
  const loops = new Set<number>()
  for (const c of calls) if (c.tile > 0) loops.add(c.segment)
  const byBands = new Set<number>()
  const look = (v: View): void => {
    if (v.box !== v.held && !sameBox(v.box, v.held)) byBands.add(v.cell)
  }
  if (loops.size)
    for (const c of calls)
      if (loops.has(c.segment)) {
        c.ins.forEach(look)
        c.outs.forEach(look)
      }
  const whole = cells.filter((c) => c.scope === 'whole' && c.bytes >= SMALL_BYTES)
  return rowsOf(whole.filter((c) => c.bytes < PAGE_BYTES || !byBands.has(c.id))).filter((row) => row.length > 1)
}

/** Large parameters and state are on the device for the whole step, or at home in the lower tier. */
export type Persistents = 'resident' | 'home'
/** The same, or the ones that are at home, each with the first value of its storage: small ones may share pages. */
export type Homes = Persistents | ReadonlyMap<ValueId, ValueId>

const hasHome = (c: Cell, persistents: Homes): boolean =>
  c.scope === 'persistent' &&
  (typeof persistents === 'string' ? persistents === 'home' && c.bytes >= SMALL_BYTES : persistents.has(c.values[0]!))

/** Bytes of the lower tier that are homes. */
export const homeBytes = (storages: readonly Storage[]): number =>
  storages.reduce((n, s) => (s.home === undefined ? n : Math.max(n, alignUp(s.home + s.bytes, PAGE_BYTES))), 0)

export const place = (
  cells: readonly Cell[],
  calls: readonly Call[],
  packing: Packing = 'apart',
  persistents: Homes = 'resident',
): Placement => {
  const placer = new Placer(cells.length)
  const shared = packing === 'shared' ? sharedPagesOf(cells, calls) : []
  const isShared = new Set(shared.flat())
  const rows =
    packing !== 'apart' && packing !== 'tight'
      ? [
          ...rowsIn(
            cells.filter((c) => !isShared.has(c)),
            calls,
          ),
          ...shared,
        ]
      : []
  const rowOf = new Map(rows.flatMap((row) => mapped(row, (c) => [c.id, row] as const)))
  const locals = grouped(cells.filter(isLocal), (c) => c.segment)
  const phases = locals.size ? localPhases(cells, calls) : null
  const tiles = new Map(mapped([...locals], ([s, members]) => [s, packedTile(members, (c) => phases!.get(c.id)!)]))
  const inTiles = new Set([...tiles.values()].flatMap((t) => t.members))
  const residents = cells.filter((c) => c.scope === 'persistent' && !hasHome(c, persistents))
  const life = (c: Cell): readonly [number, number] => [c.first, c.last]
  const small = packedCells(
    cells.filter((c) => (isLocal(c) ? !inTiles.has(c) : isSmall(packing)(c) && !rowOf.has(c.id))),
    life,
  )
  const [behind, others] = packing === 'dense' ? onLastPage(residents, small, life) : [NO_CELLS, small]
  placer.inARow('persistent', 'parameters and state', residents, behind)
  placer.packed('small', SMALL_VALUES, others)
  const homes = grouped(
    cells.filter((c) => hasHome(c, persistents)),
    (c) => (typeof persistents === 'string' ? c.id : persistents.get(c.values[0]!)!),
  )
  for (const members of homes.values()) placer.atHome(members)
  for (const [s, tile] of tiles) placer.packed('scratch', `tiles of segment ${s}`, tile)
  for (const c of cells) {
    const row = rowOf.get(c.id)
    if (placer.places[c.id]) continue
    if (row) placer.inARow('value', labelOf(row), row)
    else placer.alone(ALONE[c.scope] ?? 'scratch', c)
  }
  return placer
}

const ALONE: Partial<Readonly<Record<CellScope, StorageKind>>> = { fed: 'fed', output: 'output', whole: 'value' }

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
    // Copies before an op gather for it and belong to its step; copies after it store its result and belong to its step too. An op counts as 2k+1,
    // and the calls between ops k-1 and k as 2k: both neighbours overlap it.
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
