// `sft` (paper 3, Listings 2 to 4): one grid for all, with equal numbers of tiles along rows and columns; segments by the capacity. An op must be
// tiled if its output is larger than a capacity. A segment is a run of such ops, up to the next one that need not be tiled; the rest runs whole. A
// segment contains the post-dominators of its ops: branches end in the segment where they begin. Each tile is expanded twice: forwards, by the inputs
// of its outputs, and backwards, by the gradients that complete its own gradient. In: the training graph. Out: candidates, 2 to 32 tiles a side by
// capacities; nothing leaves the device. Worked example, [c1 p1 c2 p2] with outputs of 8 2 4 1 MiB. Capacity 3: segments [c1 p1] and [c2 p2]; 1: all
// four; 4: c1 and p1 alone.
import { isLeft, right } from 'fp-ts/Either'
import { type Graph, type Op, type ValueId, valueBytes } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Segment, UNTILED } from '../plan/plan'
import { tileableDims } from '../tile/ft'
import { assemble, forwardOps, type Group, summed } from '../tile/segments'
import { atLeastResident, callSeconds } from '../schedule/atleast'
import { type Candidate, deferred, type Planner, resident } from '../schedule/candidate'
import { inCoreRows } from '../schedule/incore'
import { layOut } from '../schedule/layout'

export interface SftOptions {
  /** Tiles grow backwards, too, so that gradients are complete; otherwise their overlaps are added up. */
  readonly expands: boolean
}
const SFT: SftOptions = { expands: true }

/** Tiles along rows, and as many along columns: the paper's five. */
const SIDES = [2, 4, 8, 16, 32]
const MOST_CAPACITIES = 8

const outputBytes = (graph: Graph, op: Op): number =>
  op.outs.reduce((n, v) => Math.max(n, graph.values[v]!.role === 'activation' ? valueBytes(graph.values[v]!) : 0), 0)

/**
 * For each op, the last position that its segment must contain, unless the op ends the segment. It is that of the immediate post-dominator: the first
 * op on all paths to the loss. An op that only the backward pass reads is on no path, as the places of a pool. It follows its inputs.
 */
const partners = (ops: readonly Op[]): readonly number[] => {
  const readers = new Map<ValueId, number[]>(ops.flatMap((o) => o.outs.map((v) => [v, []])))
  ops.forEach((o, k) => o.ins.forEach((v) => readers.get(v)?.push(k)))
  const nextOf = (k: number): readonly number[] => ops[k]!.outs.flatMap((v) => readers.get(v)!)
  const dominators = ops.map((o, k) => (o.phase === 'loss' ? ops.length : k))
  const isOnPath = (k: number): boolean => dominators[k]! > k
  const meet = (a: number, b: number): number => (a === b ? a : a < b ? meet(dominators[a]!, b) : meet(a, dominators[b]!))
  for (let k = ops.length - 1; k >= 0; k--) {
    const next = nextOf(k).filter(isOnPath)
    if (next.length) dominators[k] = next.reduce((a, b) => meet(a, b))
  }
  return ops.map((_, k) => Math.max(dominators[k]!, ...nextOf(k).filter((n) => !isOnPath(n))))
}

/** The last op of the segment that begins at an op that must be tiled (Listing 3). */
const segmentEnd = (from: number, must: readonly boolean[], partner: readonly number[]): number => {
  let end = from
  for (let k = from; k < end || (k === end && must[k]); k++) end = Math.max(end, Math.min(partner[k]!, must.length - 1))
  return end
}

/** Ops in runs that are tiled, or not, for a capacity. */
export const groupsFor = (graph: Graph, capacity: number, side: number): readonly Group[] => {
  const ops = forwardOps(graph)
  const partner = partners(ops)
  // As in the paper, the loss is between the passes: the backward pass runs the forward ops of each segment again.
  const canTile = ops.map((op) => op.phase === 'forward' && (['H', 'W'] as const).every((d) => tileableDims(graph, op).has(d)))
  const must = ops.map((op, k) => canTile[k]! && outputBytes(graph, op) > capacity)
  /** `sums`: the sums of a segment over its tiles; their readers begin the next. */
  const groups: { end: number; ops: Op[]; sums: Set<ValueId> }[] = []
  ops.forEach((op, k) => {
    const last = groups.at(-1)
    const isWhole = last !== undefined && last.end < 0
    const joins = last && k <= last.end && canTile[k] && !op.ins.some((v) => last.sums.has(v))
    if (joins || (isWhole && !must[k])) last.ops.push(op)
    else groups.push({ end: must[k] ? segmentEnd(k, must, partner) : -1, ops: [op], sums: new Set() })
    for (const v of summed(graph, op.id)) groups.at(-1)!.sums.add(v)
  })
  return groups.map(({ end, ops: own }) => ({
    grid: end < 0 ? UNTILED : { B: 1, H: side, W: side },
    ops: own.map((o) => o.id),
  }))
}

/** Null where nothing is tiled, or cannot be. */
const tiledIn = (graph: Graph, groups: readonly Group[], o: SftOptions): readonly Segment[] | null => {
  const segments = assemble(graph, groups, o.expands)
  return isLeft(segments) || groups.every((g) => g.grid === UNTILED) ? null : segments.right
}

const candidateOf = (graph: Graph, machine: Machine, segments: readonly Segment[]): Candidate =>
  deferred(callSeconds(graph, segments, machine), () => resident(layOut(graph, segments, machine, { packing: 'rows' })), {
    atLeast: () => atLeastResident(graph, segments, machine),
  })

function* candidates(graph: Graph, machine: Machine, o: SftOptions): Generator<Candidate, void, boolean> {
  const sizes = [...new Set(forwardOps(graph).map((op) => outputBytes(graph, op)))].sort((a, b) => b - a)
  const seen = new Set<string>()
  let any = false
  for (const capacity of [...sizes.slice(1, MOST_CAPACITIES), 0])
    for (const side of SIDES) {
      const groups = groupsFor(graph, capacity, side)
      const key = `${side}: ${groups.map((g) => `${g.ops.length}x${g.grid.H}`).join()}`
      const segments = seen.has(key) ? null : tiledIn(graph, groups, o)
      seen.add(key)
      if (!segments) continue
      any = true
      yield candidateOf(graph, machine, segments)
    }
  // A network that cannot be tiled runs unchanged.
  if (!any) yield resident(inCoreRows(graph, machine))
}

export const sft =
  (options: Partial<SftOptions> = {}): Planner =>
  (graph, machine) =>
    right(candidates(graph, machine, { ...SFT, ...options }))

/** All tileable ops in one segment, with a number of tiles along each side: the laboratory separates halos from the rest. */
export const sftWhole =
  (side: number, options: Partial<SftOptions> = {}): Planner =>
  (graph, machine) => {
    const segments = tiledIn(graph, groupsFor(graph, 0, side), { ...SFT, ...options })
    return right((segments ? [candidateOf(graph, machine, segments)] : []).values())
  }
