// Gives each cell its place. In: cells with lifetimes. Out: storages (each a run of bytes made of pages) and, for each cell, a storage and an offset.
// Invariant: cells that share bytes are never alive at the same time.
//
// Each large cell, or each row of large cells, has a storage: pages are interchangeable, so they cannot fragment. Smaller cells are packed.
// Parameters and state are packed into one permanent storage; large ones may have homes in the lower tier instead. Small values are packed by
// lifetime into another storage; with shared pages, resting values are packed by pages. The locals of a tiled segment are packed into one storage per
// segment, with the same offsets for each tile. Worked example of packing by lifetime, sizes in lines of 64: a[0,4) size 2, b[2,6) size 1, c[5,9)
// size 2: c reuses a's bytes, b is after them; three lines in all.
import { mapped } from '../core/mapped'
import { ALIGN_BYTES, alignUp, mostHeld, PAGE_BYTES, pagesFor } from '../core/bytes'
import { sameBox } from '../core/box'
import type { ValueId } from '../graph/graph'
import { type Call, type Cell, type CellScope, type Place, SMALL_VALUES, type Storage, type View } from '../plan/plan'
import { SECTOR_BYTES } from '../plan/wire'
import { Gaps } from './gaps'
import { rowsOf } from './rows'
import { sharedPagesOf } from './sharedpages'

/** Cells below this are packed together. A storage of its own would waste half a page on average. */
export const SMALL_BYTES = PAGE_BYTES / 4
/** Locals below this are packed with the small values if that saves the tile a page. As small values they are alive as long as the segment runs. */
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

/** Places the items in this order, each at the lowest gap that is free throughout its life. */
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

/** Returns the live bytes at the peak, a lower bound of each packing. */
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
/** Values of a forward pass live like a stack: made first, used last. */
const longestFirst: Order = (a, b) => b.last - b.first - (a.last - a.first) || largestFirst(a, b)

/** The most pairs of items that are compared for a better packing than the first. Planners place hundreds of layouts. */
const MOST_PAIRS = 250_000

/**
 * Returns offsets by lifetime: largest items first, which leaves small gaps. If that takes more than the live bytes, and there are few items, tries
 * longest lives first. Then, repeatedly, places the top item before the first item that is alive at the same time.
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

/** The most packings that are cached. Layouts have most of their loops in common. */
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

/** Moves the top item before the first item that is alive at the same time. */
const topFirst = (items: readonly Lifetime[], { offsets, bytes }: Packed, order: readonly number[]): readonly number[] => {
  const at = order.findIndex((i) => offsets[i]! + alignUp(items[i]!.bytes, ALIGN_BYTES) === bytes)
  const top = order[at]!
  const { first, last } = items[top]!
  const before = order.findIndex((i) => items[i]!.first <= last && first <= items[i]!.last)
  return [...order.slice(0, before), top, ...order.slice(before, at), ...order.slice(at + 1)]
}

/**
 * The contents of a storage.
 *  persistent  parameters, state, the loss: on the device for the whole step
 *  small       values packed by lifetime: each page is held while any value on it may be alive
 *  scratch     values inside a tile, or a call
 *  fed         values from the data source
 *  output      results for the caller
 *  home        a large parameter or state that is loaded from its home in the lower tier, and saved there
 *  value       a large value, or a row of them
 */
export type StorageKind = 'persistent' | 'small' | 'scratch' | 'fed' | 'output' | 'home' | 'value'

/**
 * Returns true for storages that may be on the device in a part of the step only, and in parts: large values, fed ones, outputs, and those with a
 * home.
 */
export const isMovable = (k: StorageKind): boolean => k === 'value' || k === 'fed' || k === 'output' || k === 'home'

/**
 * The packing of the values of a step. `apart`: each large value on its own pages. `rows`: large values of similar lifetimes side by side. `shared`:
 * rows, and resting values below a page share pages that are swapped. `dense`: rows, and small values on the last page of the parameters. `tight`:
 * all values packed by lifetime, for plans that move nothing.
 */
export type Packing = 'apart' | 'rows' | 'shared' | 'dense' | 'tight'

export interface Placement {
  readonly storages: readonly Storage[]
  readonly places: readonly Place[]
  /** By storage. */
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

/** Returns the small cells that fit on the last page of a row, and the other ones. */
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

/** Returns the packed locals of a tile. Tiny locals are left out if the tile needs fewer pages without them. */
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

/** Returns the cells by key, in order. */
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

/** Returns offsets at which each cell follows the one before it. */
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

/** The storages that are open so far. */
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

  addCell(kind: StorageKind, c: Cell): void {
    this.open(kind, c.label, c.bytes, [c], [0])
  }

  /** Homes follow each other from the beginning of the lower tier. */
  addHome(members: readonly Cell[]): void {
    const { offsets, bytes } = sideBySide(members, SECTOR_BYTES)
    this.open('home', labelOf(members), bytes, members, offsets, this.homeBytes)
    this.homeBytes = alignUp(this.homeBytes + bytes, SECTOR_BYTES)
  }
  private homeBytes = 0

  /** Opens a storage for a row of cells, followed by the packed cells `behind`. */
  addRow(kind: StorageKind, label: string, members: readonly Cell[], behind: PackedCells = NO_CELLS): void {
    const { offsets, bytes } = sideBySide(members, ALIGN_BYTES)
    const end = alignUp(bytes, ALIGN_BYTES)
    const all = [...members, ...behind.members]
    const at = [...offsets, ...mapped(behind.offsets, (offset) => end + offset)]
    if (all.length) this.open(kind, label, end + behind.bytes, all, at)
  }

  addPacked(kind: StorageKind, label: string, { members, offsets, bytes }: PackedCells): void {
    if (members.length) this.open(kind, label, bytes, members, offsets)
  }
}

/**
 * Returns the rows of a step. Values that loops over tiles touch in parts are in no row: they move by bands, and a neighbour would share a page with
 * a band. Values below a page have no bands, so they may be in a row.
 */
const rowsIn = (cells: readonly Cell[], calls: readonly Call[]): readonly (readonly Cell[])[] => {
  const loops = new Set<number>()
  for (const c of calls) if (c.tile > 0) loops.add(c.segment)
  const byBands = new Set<number>()
  const noteBand = (v: View): void => {
    if (v.box !== v.held && !sameBox(v.box, v.held)) byBands.add(v.cell)
  }
  if (loops.size)
    for (const c of calls)
      if (loops.has(c.segment)) {
        c.ins.forEach(noteBand)
        c.outs.forEach(noteBand)
      }
  const whole = cells.filter((c) => c.scope === 'whole' && c.bytes >= SMALL_BYTES)
  return rowsOf(whole.filter((c) => c.bytes < PAGE_BYTES || !byBands.has(c.id))).filter((row) => row.length > 1)
}

/** The place of large parameters and state: on the device for the whole step, or at home in the lower tier. */
export type Persistents = 'resident' | 'home'
/** The same for all; or the values that have homes, each with the first value of its storage, since small values may share pages. */
export type Homes = Persistents | ReadonlyMap<ValueId, ValueId>

const hasHome = (c: Cell, persistents: Homes): boolean =>
  c.scope === 'persistent' &&
  (typeof persistents === 'string' ? persistents === 'home' && c.bytes >= SMALL_BYTES : persistents.has(c.values[0]!))

/** Returns the bytes of the lower tier that are homes. */
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
  placer.addRow('persistent', 'parameters and state', residents, behind)
  placer.addPacked('small', SMALL_VALUES, others)
  const homes = grouped(
    cells.filter((c) => hasHome(c, persistents)),
    (c) => (typeof persistents === 'string' ? c.id : persistents.get(c.values[0]!)!),
  )
  for (const members of homes.values()) placer.addHome(members)
  for (const [s, tile] of tiles) placer.addPacked('scratch', `tiles of segment ${s}`, tile)
  for (const c of cells) {
    const row = rowOf.get(c.id)
    if (placer.places[c.id]) continue
    if (row) placer.addRow('value', labelOf(row), row)
    else placer.addCell(KIND_OF_SCOPE[c.scope] ?? 'scratch', c)
  }
  return placer
}

const KIND_OF_SCOPE: Partial<Readonly<Record<CellScope, StorageKind>>> = { fed: 'fed', output: 'output', whole: 'value' }

/**
 * Returns the lifetimes of local cells within one tile: from the first to the last call that touches them, in steps from the tile's first call. A
 * lifetime is the hull over all tiles. Only ops count as steps, so that tiles with and without copies have the same numbers.
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
    // Copies before an op gather its inputs, and copies after it store its result. The k-th op is at 2k+1, and the calls between ops k-1 and k are at
    // 2k. So the cells of both ops overlap at the calls between them.
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
