// Segments, unrolled and placed: the input of every planner's decisions. In: graph, segments, machine. Out: cells, calls, storages, and planned stays
// (nothing is swapped yet).
import { mapped } from '../core/mapped'
import { pagesIn, pagesOf } from '../core/bytes'
import { copiesIn } from '../graph/copied'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Homes, isMovable, type Packing, place, type Placement } from '../memory/place'
import { type PageStays, type Parts, type StayRule, touches } from '../memory/touches'
import { expand } from '../plan/expand'
import { pagesLabel } from '../plan/naming'
import type { Segment, Unrolled } from '../plan/plan'
import { type PlannedStays, staying } from './stays'

export interface Layout extends Unrolled, Placement {
  readonly graph: Graph
  readonly segments: readonly Segment[]
  readonly planned: readonly PlannedStays[]
}

interface Placing {
  /** For touches: the times at which pages may be swapped out. */
  readonly rule?: StayRule
  readonly packing?: Packing
  readonly persistents?: Homes
  readonly parts?: Parts
}

/** Returns the test of parts with a copied input (graph/copied.ts), which never leave the device. */
const heldParts = (graph: Graph, cells: Unrolled['cells'], { places }: Placement): ((t: PageStays) => boolean) => {
  const copies = copiesIn(graph)
  const held = copies.size === 0 ? [] : cells.filter((c) => c.segment < 0 && c.values.some((v) => copies.has(v)))
  const pages = mapped(held, ({ id, bytes }) => ({ storage: places[id]!.storage, pages: pagesOf(places[id]!.offset, bytes) }))
  return (t) => pages.some(({ storage, pages: [from, to] }) => storage === t.storage && t.from < to && from < t.to)
}

const placed = (
  graph: Graph,
  segments: readonly Segment[],
  { cells, calls }: Unrolled,
  { rule, packing, persistents, parts }: Placing,
): Layout => {
  const placement = place(cells, calls, packing, persistents)
  const isHeld = heldParts(graph, cells, placement)
  const planned = mapped(touches(graph, segments, calls, placement, rule, parts), (t) => {
    const kind = placement.kinds[t.storage]!
    return staying(t, isMovable(kind) && isHeld(t) ? 'small' : kind)
  })
  const { storages, places, kinds } = placement
  return { graph, segments, cells, calls, storages, places, kinds, planned }
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

/** The values on the device at a call, largest first. */
export const heldAt = (
  l: Layout,
  planned: readonly PlannedStays[],
  call: number,
): readonly { label: string; pages: number }[] => {
  const by = new Map<string, number>()
  const packed = new Set<number>()
  const add = (label: string, pages: number): void => void by.set(label, (by.get(label) ?? 0) + pages)
  for (const t of planned) {
    const stays = t.stays
    const here = stays.some(
      (s, i) =>
        (s.first <= call && call <= s.last) ||
        (i < stays.length - 1 && !t.swapped[i] && s.last < call && call < stays[i + 1]!.first),
    )
    if (!here) continue
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
