// The loops of a joint plan, which keeps some forward values and recomputes the others in the tiles of their readers. In: the training graph, the kept
// values, a limit of a tile's working set. Out: runs of ops. A run ends at a reader of a sum over its tiles: at every norm in training mode, in the
// forward pass for its statistics, in the backward pass for its two sums. A run recomputes missing values inside its own tiles, through any number of
// norms, because the statistics are known by then. Worked example, [conv1 norm1 relu1 conv2 norm2 relu2] that keeps conv1: forward [conv1 stats1 | norm1 relu1 conv2
// stats2 | norm2 relu2]; backward [norm1 relu1 conv2 | norm2's sums], [norm1 relu1 conv2 | norm2's and conv2's gradients, norm1's sums], [norm1's
// gradient].
import { mapped } from '../core/mapped'
import type { Either } from 'fp-ts/Either'
import { dimIndex, tileRange } from '../core/box'
import { onceForPair } from '../core/remember'
import { type Graph, isOfWeight, type Op, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { SMALL_BYTES } from '../memory/place'
import { type Access, touched } from '../ops/op'
import { opDef } from '../ops/registry'
import { type Grid, type Segment, UNTILED } from '../plan/plan'
import { profileForward } from '../tile/cuts'
import type { OpCost } from '../tile/footprint'
import { tileableDims } from '../tile/ft'
import { gridsOf, reachOf } from '../tile/gridfor'
import { liveness } from '../tile/liveness'
import { forwardOps, isForward, type Run, segmentsOn, summed, readsNoImages } from '../tile/segments'
import { operandsOf, TILED_DIMS, type TileError, type TiledDim } from '../tile/slices'
import { makersOf, stagesAt, withoutDead, withReruns } from './rerun'

/** Ops that one loop over tiles can run, and the ops that wait for its sums. */
export interface LoopOps {
  readonly phase: 'forward' | 'backward'
  readonly ops: readonly OpId[]
  readonly dims: ReadonlySet<TiledDim>
  readonly after: readonly OpId[]
}

const NONE: ReadonlySet<OpId> = new Set()

/** The parameters, and gradients of parameters, that every tile of a loop reads or adds to whole. */
const heldWhole = onceForPair((graph: Graph, op: Op): readonly ValueId[] => {
  const { ins, outs } = operandsOf(graph, op)
  const isHeld = (v: ValueId, role: string): boolean => role === 'whole' && isOfWeight(graph, graph.values[v]!)
  return [...ins, ...outs].flatMap(({ value, def }) => (isHeld(value, def.role) ? [value] : []))
})

/** Parameters and their gradients that each tile of a loop of these ops reads or adds to whole. */
export const wholeIn = (graph: Graph, ops: readonly OpId[]): readonly ValueId[] =>
  ops.flatMap((id) => heldWhole(graph, graph.ops[id]!))

/** The longest loops. A new one begins before each op of `before`, and none holds more than `mostWhole` bytes of parameters. */
export const loopsOf = (
  graph: Graph,
  phase: LoopOps['phase'],
  ops: readonly Op[],
  before: ReadonlySet<OpId> = NONE,
  mostWhole = Infinity,
): readonly LoopOps[] => {
  const out: LoopOps[] = []
  let cur: { ops: OpId[]; dims: ReadonlySet<TiledDim>; after: OpId[] } | undefined
  /** Values that are complete only after the loop. */
  let sums = new Set<ValueId>()
  let whole = new Set<ValueId>()
  const end = (): void => {
    if (cur) out.push({ phase, ...cur })
    cur = undefined
    whole = new Set()
  }
  const bytes = (values: Iterable<ValueId>): number => [...values].reduce((n, v) => n + valueBytes(graph.values[v]!), 0)
  /** With this op's own bytes; an op that adds none always joins. */
  const isFull = (op: Op): boolean => {
    const more = mostWhole === Infinity ? [] : heldWhole(graph, op).filter((v) => !whole.has(v))
    const full = more.length > 0 && whole.size > 0 && bytes(whole) + bytes(more) > mostWhole
    for (const v of more) whole.add(v)
    return full
  }
  for (const op of ops) {
    if (before.has(op.id)) end()
    const waits = op.phase === 'update' || readsNoImages(op)
    if (cur && waits && reachOf(cur.dims) !== 'none') {
      cur.after.push(op.id)
      for (const v of op.outs) sums.add(v)
      continue
    }
    const dims = tileableDims(graph, op)
    const both = new Set([...dims].filter((d) => cur?.dims.has(d)))
    const reach = reachOf(dims)
    const joins = cur && reachOf(cur.dims) === reach && reachOf(both) === reach && (reach === 'none' || !isFull(op))
    if (cur && joins && (reach === 'none' || !op.ins.some((v) => sums.has(v)))) {
      cur.ops.push(op.id)
      cur.dims = both
    } else {
      end()
      cur = { ops: [op.id], dims, after: [] }
      sums = new Set()
      isFull(op)
    }
    if (reach !== 'none') for (const v of summed(graph, op.id)) sums.add(v)
  }
  end()
  return out
}

/**
 * The backward ops, where an op whose result is larger than its inputs runs directly before its first reader, if that is in another loop. Among the
 * gradients of branches that are added, the small ones wait.
 */
const delayed = (graph: Graph, leastBytes: number): readonly Op[] => {
  const ops = graph.ops.filter((op) => !isForward(op))
  const loopOf = new Map<OpId, number>()
  loopsOf(graph, 'backward', ops).forEach((s, i) => [...s.ops, ...s.after].forEach((id) => loopOf.set(id, i)))
  const readers = new Map<ValueId, Op[]>()
  for (const op of ops) for (const v of op.ins) readers.set(v, [...(readers.get(v) ?? []), op])
  const bytes = (values: readonly ValueId[]): number =>
    values.reduce(
      (n, v) =>
        n + (graph.values[v]!.role === 'gradient' && graph.values[v]!.shape.length === 4 ? valueBytes(graph.values[v]!) : 0),
      0,
    )
  const waiting = new Map<OpId, Op[]>()
  const waits = new Set<OpId>()
  for (const op of [...ops].reverse()) {
    const first = op.outs.flatMap((v) => readers.get(v) ?? []).sort((a, b) => a.id - b.id)[0]
    if (!first || reachOf(tileableDims(graph, op)) !== 'image' || summed(graph, op.id).length > 0) continue
    if (loopOf.get(first.id) === loopOf.get(op.id) || bytes(op.outs) < leastBytes || bytes(op.ins) >= bytes(op.outs)) continue
    waits.add(op.id)
    waiting.set(first.id, [op, ...(waiting.get(first.id) ?? [])])
  }
  const at = (op: Op): readonly Op[] => [...(waiting.get(op.id) ?? []).flatMap(at), op]
  return ops.flatMap((op) => (waits.has(op.id) ? [] : at(op)))
}

/**
 * The forward ops, where an op that reads a large value runs in an earlier loop that recomputes or reads the value, if its other inputs are complete by
 * then. The value is loaded once for both. In a block that halves its image, the convolution of the shortcut runs beside the first of the branch.
 */
const advanced = (graph: Graph, leastBytes: number): readonly Op[] => {
  const runs = mapped(loopsOf(graph, 'forward', forwardOps(graph)), ({ ops, dims, after }) => ({
    ops,
    after,
    isLoop: reachOf(dims) === 'image',
    own: [] as OpId[],
    joining: [] as OpId[],
    large: new Set<ValueId>(),
  }))
  /** By value: the first loop that may read it. */
  const from = new Map<ValueId, number>()
  const isLarge = (v: ValueId): boolean => graph.values[v]!.role === 'activation' && valueBytes(graph.values[v]!) >= leastBytes
  runs.forEach((s, i) => {
    for (const id of s.ops) {
      const op = graph.ops[id]!
      const complete = op.ins.reduce((n, v) => Math.max(n, from.get(v) ?? 0), 0)
      const joins = s.isLoop && reachOf(tileableDims(graph, op)) === 'image'
      const other = joins
        ? runs.findIndex((t, k) => k >= complete && k < i && t.isLoop && op.ins.some((v) => t.large.has(v)))
        : -1
      const to = other < 0 ? i : other
      runs[to]![to < i ? 'joining' : 'own'].push(id)
      const sums = new Set(summed(graph, id))
      for (const v of op.outs) from.set(v, sums.has(v) ? to + 1 : to)
      for (const v of [...op.ins, ...op.outs]) if (isLarge(v)) runs[to]!.large.add(v)
    }
    for (const id of s.after) for (const v of graph.ops[id]!.outs) from.set(v, i + 1)
  })
  return runs.flatMap(({ own, joining, after }) => mapped([...own, ...joining, ...after], (id) => graph.ops[id]!))
}

/** Returns true if no two rows of an access touch the same row: mirrors and enlargements touch some twice. */
const isApart = (access: Access, rows: number, extent: number): boolean => {
  if (access.tag === 'same') return true
  let end = 0
  for (let i = 0; i < rows; i++) {
    const [from, to] = touched(access, [i, i + 1], extent)
    if (from < end) return false
    end = to
  }
  return true
}

/**
 * Returns true if the results of an op's tiles lie side by side. If they overlap, a tile adds a part of a sum, which a norm's gradient cannot read.
 * A loop that recomputes such an op computes whole sums, in larger tiles.
 */
export const inPieces = (graph: Graph, op: Op): boolean => {
  const { anchor } = opDef(op.kind)
  return operandsOf(graph, op).outs.every(({ value, access }) =>
    TILED_DIMS.every((d) => {
      const over = graph.values[anchor === 'out' ? value : op.ins[anchor]!]!.shape[dimIndex[d]] ?? 1
      const extent = graph.values[value]!.shape[dimIndex[d]] ?? 1
      if (!access || over < 2) return access !== null
      const [first, second] = mapped([0, 1], (i) => touched(access[d], tileRange(over, 2, i), extent))
      return first![0] === 0 && first![1] === second![0] && second![1] === extent && isApart(access[d], over, extent)
    }),
  )
}

/** Facts that do not depend on the choice. */
export interface Joint {
  readonly graph: Graph
  readonly costs: readonly OpCost[]
  readonly makers: ReadonlyMap<ValueId, Op>
  readonly forward: readonly LoopOps[]
  readonly backward: readonly LoopOps[]
  /** Ops in the order of the loops. */
  readonly forwardOrder: readonly Op[]
  readonly backwardOrder: readonly Op[]
  /** Returns true if a loop over tiles can recompute it. */
  readonly canRecompute: (v: ValueId) => boolean
  /** Those of them that the backward pass reads, in order. */
  readonly droppable: readonly ValueId[]
  /** The makers of gradients that a loop over tiles can recompute. */
  readonly gradientMakers: ReadonlyMap<ValueId, Op>
}

/** `leastBytes`: smaller values are neither moved nor recomputed. */
export const jointOf = (graph: Graph, costs: readonly OpCost[], leastBytes = SMALL_BYTES): Joint => {
  const makers = makersOf(graph)
  const isInLoop = (op: Op): boolean => reachOf(tileableDims(graph, op)) === 'image' && summed(graph, op.id).length === 0
  const inLoops = new Set(forwardOps(graph).flatMap((op) => (isInLoop(op) ? op.outs : [])))
  const canGo = (v: ValueId): boolean => {
    const value = graph.values[v]!
    return value.role === 'activation' && valueBytes(value) >= leastBytes && inLoops.has(v)
  }
  const isGradient = (v: ValueId): boolean => graph.values[v]!.role === 'gradient' && graph.values[v]!.shape.length === 4
  const gradientMakers = new Map(
    graph.ops
      .filter((op) => op.phase === 'backward' && isInLoop(op))
      .flatMap((op) =>
        op.outs.flatMap((v) => (isGradient(v) && valueBytes(graph.values[v]!) >= leastBytes ? [[v, op] as const] : [])),
      ),
  )
  const read = new Set(graph.ops.filter((op) => op.phase === 'backward').flatMap((op) => op.ins))
  const forwardOrder = forwardOps(graph)
  const backwardOrder = delayed(graph, leastBytes)
  return {
    graph,
    costs,
    makers,
    forward: loopsOf(graph, 'forward', forwardOrder),
    backward: loopsOf(graph, 'backward', backwardOrder),
    forwardOrder,
    backwardOrder,
    canRecompute: canGo,
    droppable: [...read].filter(canGo).sort((a, b) => a - b),
    gradientMakers,
  }
}

/** The same with ops in the earlier loops of their inputs: common inputs are loaded once, and results are held for longer. */
export const withAdvancedOps = (j: Joint, leastBytes = SMALL_BYTES): Joint => {
  const forwardOrder = advanced(j.graph, leastBytes)
  return { ...j, forwardOrder, forward: loopsOf(j.graph, 'forward', forwardOrder) }
}

/** The values at the start of the backward pass: the kept ones, and all that no loop over tiles can recompute. */
export const keptFor = (
  { makers, canRecompute: canGo, droppable: mayGo }: Joint,
  dropped: ReadonlySet<ValueId>,
): ReadonlySet<ValueId> => new Set([...[...makers.keys()].filter((v) => !canGo(v)), ...mayGo.filter((v) => !dropped.has(v))])

/** The ops of loops, in any tiles. */
export interface Shape {
  /** Loops also end where all values that cross are kept. */
  readonly cut?: boolean
  /** The most bytes of parameters, and of their gradients, in a loop, unless one op has more. */
  readonly whole?: number
}
export interface Limits {
  /** The largest working set of a tile, inputs and results included, in the forward and in the backward pass. */
  readonly forward: number
  readonly backward: number
}

/** The ops that begin a loop, if the values that cross it are kept. */
export const breaksOf = (j: Joint, kept: ReadonlySet<ValueId>): ReadonlySet<OpId> => {
  const cuts = profileForward(j.graph).cuts.filter((c) => c.clean && c.values.every((v) => kept.has(v)))
  const stages = stagesAt(
    j.graph,
    mapped(cuts, (c) => c.at),
  )
  return new Set(stages.flatMap((s) => [s.forward[0]!, ...s.backward.slice(0, 1)]))
}

/** Returns true if a loop recomputes a value of another loop in its own tiles. */
type Recomputes = (s: LoopOps, v: ValueId) => boolean

/** Returns true if a value can be recomputed by this loop: loops over tiles cannot recompute all values. */
export const canRecomputeIn = (j: Joint, s: LoopOps, v: ValueId): boolean =>
  reachOf(s.dims) === 'image' && (j.canRecompute(v) || (s.phase === 'backward' && j.gradientMakers.has(v)))

/** All backward loops recompute the dropped values. */
const inAllLoops = (j: Joint, dropped: ReadonlySet<ValueId>): Recomputes => {
  const kept = keptFor(j, dropped)
  return ({ phase }, v) => phase === 'backward' && j.makers.has(v) && !kept.has(v)
}

/** The ops of each loop: recomputed ones come before their first reader. */
const bodiesOf = (j: Joint, loops: readonly LoopOps[], recomputes: Recomputes): readonly (readonly OpId[])[] => {
  const makers = new Map([...j.makers, ...j.gradientMakers])
  return mapped(loops, (s) => {
    const here = new Set(s.ops.flatMap((id) => j.graph.ops[id]!.outs))
    return withReruns(j.graph, makers, s.ops, { has: (v) => here.has(v) || !recomputes(s, v), add: (v) => here.add(v) })
  })
}

/** A loop, or the ops that wait for its sums. */
interface Part extends Pick<Run, 'phase' | 'expands'> {
  readonly ops: readonly OpId[]
  readonly of: LoopOps['phase']
  readonly isLoop: boolean
}

/** The parts of the step for loops that recompute. `dropped`: values that are not kept for the backward pass. */
const jointParts = (j: Joint, dropped: ReadonlySet<ValueId>, { cut, whole }: Shape, recomputes: Recomputes): readonly Part[] => {
  const breaks = cut ? breaksOf(j, keptFor(j, dropped)) : NONE
  const isUsual = !cut && whole === undefined
  const forward = isUsual ? j.forward : loopsOf(j.graph, 'forward', j.forwardOrder, breaks, whole)
  const backward = isUsual ? j.backward : loopsOf(j.graph, 'backward', j.backwardOrder, breaks, whole)
  const loops = [...forward, ...backward]
  const bodies = bodiesOf(j, loops, recomputes)
  const expands = (s: LoopOps, ops: readonly OpId[]): boolean => {
    const own = new Set(s.ops)
    return ops.some((id) => !own.has(id) && j.graph.ops[id]!.phase === 'backward' && !inPieces(j.graph, j.graph.ops[id]!))
  }
  return withoutDead(
    j.graph,
    loops.flatMap((s, i): readonly Part[] => [
      { phase: s.phase, ops: bodies[i]!, of: s.phase, isLoop: true, expands: expands(s, bodies[i]!) },
      { phase: s.phase === 'forward' ? 'forward' : 'update', ops: s.after, of: s.phase, isLoop: false },
    ]),
  )
}

/** The step for some limits of its tiles. */
type InTiles = (limits: Limits) => Either<TileError, readonly Segment[]>

const partsInTiles = (j: Joint, parts: readonly Part[]): InTiles => {
  const live = liveness(
    j.graph,
    mapped(parts, (p) => p.ops),
  )
  const grids = mapped(parts, ({ isLoop, ops, expands }, i): ((limit: number) => Grid) =>
    isLoop ? gridsOf(j.graph, j.costs, ops, live[i]!, expands) : () => UNTILED,
  )
  const inGrids = segmentsOn(
    j.graph,
    mapped(
      parts,
      ({ phase, ops, expands }, group): Run => ({
        phase,
        group,
        grid: UNTILED,
        ops: [...ops],
        expands,
      }),
    ),
  )
  // Updates that wait for others (segmentsOf) are of no group's loop.
  return (limits) => inGrids((r) => (r.phase === 'update' ? UNTILED : grids[r.group]!(limits[parts[r.group]!.of])))
}

export const jointSegments = (
  j: Joint,
  dropped: ReadonlySet<ValueId>,
  choice: Shape & Limits,
): Either<TileError, readonly Segment[]> => partsInTiles(j, jointParts(j, dropped, choice, inAllLoops(j, dropped)))(choice)
