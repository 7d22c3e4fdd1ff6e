// `sft` (paper 3, Listings 2 to 4): one grid for all, with equal numbers of tiles along rows and columns; segments by the capacity. An op must be
// tiled if its output is larger than a capacity; a run of such ops, up to the next one that need not be, is one segment, the rest runs whole. Each
// tile is expanded twice: forwards, by the inputs of its outputs, and backwards, by the gradients that complete its own gradient. In: the training
// graph. Out: candidates, 2 to 32 tiles a side by capacities; nothing leaves the device. Worked example, [c1 p1 c2 p2] with outputs of 8 2 4 1 MiB,
// capacity 3: segments [c1 p1] and [c2 p2]; 1: all four; 4: c1 and p1 alone.
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

/** Ops in runs that are tiled, or not, for a capacity. */
const groupsFor = (graph: Graph, capacity: number, side: number): readonly Group[] => {
  /** `sums`: the sums of a segment over its tiles; their readers begin the next. */
  const groups: { tiled: boolean; open: boolean; ops: Op[]; sums: Set<ValueId> }[] = []
  const begin = (tiled: boolean, op: Op): void =>
    void groups.push({ tiled, open: tiled, ops: [op], sums: new Set(summed(graph, op.id)) })
  for (const op of forwardOps(graph)) {
    const dims = tileableDims(graph, op)
    // As in the paper, the loss is between the passes: the forward of every segment runs again.
    const canTile = op.phase === 'forward' && dims.has('H') && dims.has('W')
    const must = canTile && outputBytes(graph, op) > capacity
    const last = groups[groups.length - 1]
    const joins = last?.tiled && last.open && canTile && !op.ins.some((v) => last.sums.has(v))
    if (joins) {
      last.ops.push(op)
      last.open = must
      for (const v of summed(graph, op.id)) last.sums.add(v)
    } else if (must) begin(true, op)
    else if (last && !last.tiled) last.ops.push(op)
    else begin(false, op)
  }
  return groups.map(({ tiled, ops }) => ({ grid: tiled ? { B: 1, H: side, W: side } : UNTILED, ops: ops.map((o) => o.id) }))
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

/** All that can be tiled in one segment, in a number of tiles a side: the laboratory separates halos from the rest. */
export const sftWhole =
  (side: number, options: Partial<SftOptions> = {}): Planner =>
  (graph, machine) => {
    const segments = tiledIn(graph, groupsFor(graph, 0, side), { ...SFT, ...options })
    return right((segments ? [candidateOf(graph, machine, segments)] : []).values())
  }
