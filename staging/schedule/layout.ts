// Segments, unrolled and placed: the input of every planner's decisions. In: graph, segments, machine. Out: cells, calls, storages, and planned stays
// (nothing is swapped yet).
import { mapped } from '../core/mapped'
import { pagesIn, pagesOf } from '../core/bytes'
import { copiesIn } from '../graph/copied'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Homes, isMovable, type Packing, place, type Placement, type StorageKind } from '../memory/place'
import { type AlikeParts, eachPart, type PageStays, type Parts, type StayRule, touches } from '../memory/touches'
import { expand } from '../plan/expand'
import { pagesLabel } from '../plan/naming'
import type { Segment, Unrolled } from '../plan/plan'
import { canSwap, type PlannedStays, staying } from './stays'

export interface Layout extends Unrolled, Placement {
  readonly graph: Graph
  readonly segments: readonly Segment[]
  /** Parts with the same stays together: the form for bounds, which need no decision for each part. */
  readonly alike: readonly AlikeParts[]
  /** Each part, from the first read on. A large step has millions, so candidates that do not fit never make them. */
  readonly planned: readonly PlannedStays[]
}

/** `most`: pages of the largest part that may be swapped. */
const withParts = (l: Omit<Layout, 'planned'>, most = Infinity): Layout => {
  const { graph, segments, cells, calls, storages, places, kinds, alike } = l
  let made: readonly PlannedStays[] | undefined
  return {
    graph,
    segments,
    cells,
    calls,
    storages,
    places,
    kinds,
    alike,
    get planned() {
      made ??= partsOf(alike, most)
      return made
    },
  }
}

const partsOf = (alike: readonly AlikeParts[], most: number): readonly PlannedStays[] => {
  const out: PlannedStays[] = []
  for (const p of alike) {
    const { storage, stays, kind } = p
    const pages = canSwap(p) ? most : Infinity
    eachPart(p, (start, end) => {
      for (let from = start; from < end; from += pages)
        out.push(staying({ storage, from, to: Math.min(end, from + pages), stays }, kind))
    })
  }
  return out
}

/** The same step with parts that may be swapped of at most this number of pages. */
export const cutInto = (l: Layout, pages: number): Layout => withParts(l, pages)

interface Placing {
  /** For touches: the times at which pages may be swapped out. */
  readonly rule?: StayRule
  readonly packing?: Packing
  readonly persistents?: Homes
  readonly parts?: Parts
}

/** Returns the parts, where those with a copied input (graph/copied.ts) never leave the device. */
const withoutCopies = (
  graph: Graph,
  cells: Unrolled['cells'],
  { places }: Placement,
  alike: readonly AlikeParts[],
): readonly AlikeParts[] => {
  const copies = copiesIn(graph)
  if (copies.size === 0) return alike
  const held = cells.filter((c) => c.segment < 0 && c.values.some((v) => copies.has(v)))
  const pages = mapped(held, ({ id, bytes }) => ({ storage: places[id]!.storage, pages: pagesOf(places[id]!.offset, bytes) }))
  const isHeld = (s: number, from: number, to: number): boolean =>
    pages.some(({ storage, pages: [first, end] }) => storage === s && from < end && first < to)
  const out: AlikeParts[] = []
  for (const p of alike) {
    const { storage, kind } = p
    if (!isMovable(kind) || !isHeld(storage, p.from, p.to)) out.push(p)
    else
      eachPart(p, (from, to, k) => {
        out.push({ ...p, from, to, first: k, next: k + 1, kind: isHeld(storage, from, to) ? 'small' : kind })
      })
  }
  return out
}

const placed = (
  graph: Graph,
  segments: readonly Segment[],
  { cells, calls }: Unrolled,
  { rule, packing, persistents, parts }: Placing,
): Layout => {
  const placement = place(cells, calls, packing, persistents)
  const alike = withoutCopies(graph, cells, placement, touches(graph, segments, calls, placement, rule, parts))
  const { storages, places, kinds } = placement
  return withParts({ graph, segments, cells, calls, storages, places, kinds, alike })
}

/** A step whose cells have no places yet. */
export type Unplaced = Pick<Layout, 'graph' | 'segments' | keyof Unrolled>

export const unroll = (graph: Graph, segments: readonly Segment[], machine: Machine): Unplaced => ({
  graph,
  segments,
  ...expand(graph, segments, machine),
})

export const layOut = (graph: Graph, segments: readonly Segment[], machine: Machine, placing: Placing = {}): Layout =>
  placed(graph, segments, expand(graph, segments, machine), placing)

/** The same step with large parameters and state in the lower tier between their uses. */
export const atHome = (l: Layout, packing: Packing, rule?: StayRule): Layout =>
  placed(l.graph, l.segments, l, { packing, persistents: 'home', ...(rule ? { rule } : {}) })

/**
 * The same step with other places of its values. A storage of its own wastes half a page for each value: a tenth of a step whose values have a few
 * pages each.
 */
export const packedAs = (l: Unplaced, packing?: Packing, rule?: StayRule): Layout =>
  placed(l.graph, l.segments, l, { ...(packing ? { packing } : {}), ...(rule ? { rule } : {}) })

export interface HeldValue {
  readonly label: string
  readonly pages: number
}

type HeldPart = Pick<PageStays, 'storage' | 'from' | 'to'> & { readonly kind: StorageKind }

/** Returns true if the pages are on the device at a call. */
const isHere = ({ stays }: Pick<PageStays, 'stays'>, call: number, isSwapped: (gap: number) => boolean): boolean =>
  stays.some(
    (s, i) =>
      (s.first <= call && call <= s.last) ||
      (i < stays.length - 1 && !isSwapped(i) && s.last < call && call < stays[i + 1]!.first),
  )

/** The values on the device at a call, largest first. */
export const heldAt = (l: Layout, planned: readonly PlannedStays[], call: number): readonly HeldValue[] =>
  valuesOf(
    l,
    planned.filter((t) => isHere(t, call, (gap) => t.swapped[gap]!)),
    call,
  )

/** The same if all parts that may leave are swapped out in every gap. */
export const heldAtSwappingAll = (l: Layout, call: number, may: typeof canSwap): readonly HeldValue[] => {
  const parts: HeldPart[] = []
  for (const p of l.alike) {
    const { storage, kind } = p
    const leaves = may(p)
    if (isHere(p, call, () => leaves)) eachPart(p, (from, to) => parts.push({ storage, from, to, kind }))
  }
  return valuesOf(l, parts, call)
}

const valuesOf = (l: Layout, parts: readonly HeldPart[], call: number): readonly HeldValue[] => {
  const by = new Map<string, number>()
  const packed = new Set<number>()
  const add = (label: string, pages: number): void => void by.set(label, (by.get(label) ?? 0) + pages)
  for (const t of parts) {
    const label = t.kind === 'value' ? pagesLabel(l, t.storage, t.from, t.to) : l.storages[t.storage]!.label
    add(label, t.to - t.from)
    if (t.kind === 'small') packed.add(t.storage)
  }
  // A large value among small ones on shared pages is named.
  for (const s of packed)
    for (const id of l.storages[s]!.cells) {
      const { label, first, last, bytes } = l.cells[id]!
      const pages = pagesIn(bytes)
      if (pages === 0 || call < first || last < call) continue
      add(label, pages)
      add(l.storages[s]!.label, -pages)
    }
  return [...by].flatMap(([label, pages]) => (pages > 0 ? [{ label, pages }] : [])).sort((a, b) => b.pages - a.pages)
}
