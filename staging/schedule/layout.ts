// Segments, unrolled and placed: what every planner looks at before it decides what leaves the device. In: graph, segments,
// machine. Out: cells, calls, storages, and tracks (chunks of pages with their stays, nothing leaving yet).
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { place, type Placement } from '../memory/place'
import { type StayRule, touches } from '../memory/touches'
import { expand, type Expansion } from '../plan/expand'
import type { Segment, Storage } from '../plan/plan'
import type { Track } from './tracks'

export interface Layout extends Expansion, Placement {
  readonly graph: Graph
  readonly segments: readonly Segment[]
  readonly tracks: readonly Track[]
}

const placed = (
  graph: Graph,
  segments: readonly Segment[],
  expansion: Expansion,
  rule: StayRule,
  smallBytes?: number,
): Layout => {
  const placement = place(expansion.cells, expansion.calls, smallBytes)
  const kindOf = ({ cells: members, label }: Storage): Track['kind'] => {
    const first = expansion.cells[members[0]!]!
    if (first.scope === 'persistent') return 'persistent'
    if (members.length > 1 || first.segment >= 0 || first.scope === 'workspace' || label === 'small values') return 'packed'
    return first.scope === 'fed' ? 'fed' : 'value'
  }
  const tracks = touches(graph, segments, expansion.cells, expansion.calls, placement, rule).map((c): Track => {
    const kind = kindOf(placement.storages[c.storage]!)
    return { ...c, kind, leaves: c.stays.slice(1).map(() => false) }
  })
  const { cells, calls } = expansion
  return { graph, segments, cells, calls, ...placement, tracks }
}

export const layOut = (graph: Graph, segments: readonly Segment[], machine: Machine, rule: StayRule = 'segment'): Layout =>
  placed(graph, segments, expand(graph, segments, machine), rule)

/**
 * The same step with all of its values packed by lifetime, for plans that move nothing: a storage of its own wastes half a
 * page a value, which is a tenth of a step whose values are a few pages each.
 */
export const packedTight = (l: Layout): Layout => placed(l.graph, l.segments, l, 'segment', Infinity)

/** What fills the device at a call, largest first. */
export const heldAt = (l: Layout, tracks: readonly Track[], call: number): readonly { label: string; pages: number }[] => {
  const by = new Map<string, number>()
  for (const t of tracks) {
    const stays = t.stays
    const here = stays.some(
      (s, i) =>
        (s.first <= call && call <= s.last) ||
        (i < stays.length - 1 && !t.leaves[i] && s.last < call && call < stays[i + 1]!.first),
    )
    if (here) by.set(l.storages[t.storage]!.label, (by.get(l.storages[t.storage]!.label) ?? 0) + t.to - t.from)
  }
  return [...by].map(([label, pages]) => ({ label, pages })).sort((a, b) => b.pages - a.pages)
}
