// From groups of forward ops to the whole sequence of segments: forward, recompute, backward, update. In: the training graph and groups (consecutive
// forward ops, each with a grid). Out: segments, sliced and with in-place choices. Values that a later group reads are kept whole (a checkpoint), and
// so are statistics. Each other forward value is dropped, and recomputed for the backward pass.
//
// Worked example, groups {c1 r1 c2 r2 | c3 r3 loss} with r2 crossing: forward [c1 r1 c2 r2], [c3 r3 loss dr3 dc3], recompute [c1 r1 c2], backward
// [dr2 dc2 dr1 dc1]. With a grid, recompute and backward are one segment, and each tile of the last group runs forward and backward.
import { mapped } from '../core/mapped'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { sameShape } from '../core/box'
import { onceFor, onceForPair } from '../core/remember'
import { ROW_EXCHANGES } from '../graph/bands'
import { type Graph, isLaid, isResult, type Op, type OpId, trains, type ValueId } from '../graph/graph'
import { type Grid, type Segment, type SegmentPhase, type Slices, type Step, tilesOf, UNTILED } from '../plan/plan'
import { inputDef } from '../ops/op'
import { opDef } from '../ops/registry'
import { isComputed, liveness, mutated, type RunLiveness } from './liveness'
import { operandsOf, sameSlices, type SlicedRun, sliceRun, type TileError } from './slices'

export interface Group {
  readonly ops: readonly OpId[]
  readonly grid: Grid
}

/** The ops of a future segment. An op may be in several runs. */
export interface Run {
  readonly phase: SegmentPhase
  readonly group: number
  readonly grid: Grid
  readonly ops: OpId[]
  /** True if tiles compute complete gradients, so tiles grow in both passes (paper 3). */
  readonly expands?: boolean | undefined
}

export const isForward = (op: Op): boolean => op.phase === 'forward' || op.phase === 'loss'
export const forwardOps = (graph: Graph): readonly Op[] => graph.ops.filter(isForward)
export const isTiled = (g: Grid): boolean => tilesOf(g) > 1

/** The groups that compute forward values, and the values that stay whole until the backward pass. */
export class ForwardMap {
  readonly maker = new Map<ValueId, Op>()
  readonly groupOf = new Map<ValueId, number>()
  readonly held = new Set<ValueId>()

  constructor(
    readonly graph: Graph,
    readonly groups: readonly Group[],
  ) {
    groups.forEach((g, gi) => {
      for (const id of g.ops)
        for (const v of graph.ops[id]!.outs) {
          this.maker.set(v, graph.ops[id]!)
          this.groupOf.set(v, gi)
        }
    })
    groups.forEach((g, gi) => {
      for (const id of g.ops) {
        for (const v of graph.ops[id]!.ins) if (this.groupOf.has(v) && this.groupOf.get(v) !== gi) this.held.add(v)
        for (const v of graph.ops[id]!.outs) {
          const value = graph.values[v]!
          if (value.role === 'stat' || isResult(value) || (gi === groups.length - 1 && !isTiled(g.grid))) this.held.add(v)
        }
      }
    })
  }

  /** Returns the forward ops that must run again for the inputs of `ops`, in forward order. */
  recompute(ops: readonly OpId[]): OpId[] {
    const made = new Set(ops.flatMap((id) => this.graph.ops[id]!.outs))
    const rerun = new Set<OpId>()
    const visit = (v: ValueId): void => {
      const op = this.maker.get(v)
      if (!op || this.held.has(v) || made.has(v) || rerun.has(op.id)) return
      rerun.add(op.id)
      op.ins.forEach(visit)
    }
    for (const id of ops) this.graph.ops[id]!.ins.forEach(visit)
    return [...rerun].sort((a, b) => a - b)
  }

  /**
   * Returns the first and the last group where a backward op may run: the groups of the gradients that it computes and reads.
   */
  reach(op: Op): readonly [number, number] | null {
    const of = (vs: readonly ValueId[]): number[] =>
      vs.flatMap((v) => {
        const target = this.graph.values[v]!.gradOf
        // A gradient of a standardised weight belongs to its convolution, as the gradient of a parameter does.
        const g = target === undefined || isLaid(this.graph.values[target]!) ? undefined : this.groupOf.get(target)
        return g === undefined ? [] : [g]
      })
    const gs = [...of(op.outs), ...of(op.ins)]
    return gs.length ? [Math.min(...gs), Math.max(...gs)] : null
  }
}

/** Cuts the backward ops into runs: by group, and in tiled groups before an op that reads a sum over tiles. */
export const backwardRuns = (map: ForwardMap): Run[] => {
  const { graph, groups } = map
  const last = groups.length - 1
  const fused = isTiled(groups[last]!.grid)
  const runs: Run[] = []
  let cur: Run = {
    phase: fused ? (trains(graph) ? 'step' : 'forward') : 'backward',
    group: last,
    grid: groups[last]!.grid,
    ops: fused ? [...groups[last]!.ops] : [],
  }
  let sums = new Set<ValueId>(fused && isTiled(cur.grid) ? cur.ops.flatMap((id) => summed(graph, id)) : [])
  let updates: OpId[] = []
  const close = (): void => {
    if (cur.ops.length) runs.push(cur)
    if (updates.length) runs.push({ phase: 'update', group: cur.group, grid: UNTILED, ops: updates })
    updates = []
  }
  for (const op of graph.ops) {
    if (isForward(op)) continue
    if (isTiled(cur.grid) && isExchange(op)) {
      const { group, grid } = cur
      close()
      runs.push({ phase: 'backward', group, grid: UNTILED, ops: [op.id] })
      cur = { phase: 'backward', group, grid, ops: [] }
      sums = new Set()
      continue
    }
    if (isTiled(cur.grid) && (op.phase === 'update' || readsNoImages(op))) {
      updates.push(op.id)
      if (op.phase !== 'update') op.outs.forEach((v) => sums.add(v))
      continue
    }
    const reach = op.phase === 'update' ? null : map.reach(op)
    const blocked = isTiled(cur.grid) && op.ins.some((v) => sums.has(v))
    const group = reach && (blocked || cur.group < reach[0] || cur.group > reach[1]) ? reach[0] : cur.group
    if (blocked || group !== cur.group) {
      close()
      cur = { phase: 'backward', group, grid: groups[group]!.grid, ops: [] }
      sums = new Set()
    }
    cur.ops.push(op.id)
    if (isTiled(cur.grid)) for (const v of summed(graph, op.id)) sums.add(v)
  }
  close()
  return runs
}

/** Returns true for ops that exchange whole rows between ranks. No loop over tiles contains them. */
export const isExchange = (op: Op): boolean => ROW_EXCHANGES.includes(op.kind)

/** Returns true for an op that reads only complete values, such as sums. It is never in a loop over tiles. */
export const readsNoImages = onceFor((op: Op): boolean => op.ins.every((_, i) => inputDef(opDef(op.kind), i).role === 'whole'))

/** Returns the outputs of an op that are sums over tiles. */
export const summed = (graph: Graph, id: OpId): readonly ValueId[] => summedBy(graph, graph.ops[id]!)
const summedBy = onceForPair((graph: Graph, op: Op): readonly ValueId[] =>
  operandsOf(graph, op).outs.flatMap((o) => (o.def.merge ? [o.value] : [])),
)

const withRecompute = (map: ForwardMap, run: Run): readonly Run[] => {
  if (run.phase !== 'backward' && run.phase !== 'step') return [run]
  const rerun = map.recompute(run.ops)
  if (!rerun.length) return [run]
  return isTiled(run.grid)
    ? [{ ...run, ops: [...rerun, ...run.ops] }]
    : [{ phase: 'recompute', group: run.group, grid: UNTILED, ops: rerun }, run]
}

const nameOf = (graph: Graph, ops: readonly OpId[]): string => {
  const layers = [...new Set(mapped(ops, (id) => graph.ops[id]!.layer))]
  return layers.length === 1 ? layers[0]! : `${layers[0]} … ${layers[layers.length - 1]}`
}

/** Returns the segments of a training step for these groups of its forward ops. */
export const assemble = (graph: Graph, groups: readonly Group[], expands = false): Either<TileError, readonly Segment[]> =>
  slicedRuns(graph, assembledRuns(graph, groups), expands)

/** Returns the runs of a training step for these groups, in order. */
export const assembledRuns = (graph: Graph, groups: readonly Group[]): readonly Run[] => inOrder(graph, assembled(graph, groups))

const withSeparateExchanges =
  (graph: Graph) =>
  (g: Group): readonly Group[] => {
    if (!isTiled(g.grid) || !g.ops.some((id) => isExchange(graph.ops[id]!))) return [g]
    const parts: { readonly grid: Grid; readonly ops: OpId[] }[] = []
    for (const id of g.ops) {
      const grid = isExchange(graph.ops[id]!) ? UNTILED : g.grid
      const last = parts.at(-1)
      if (last?.grid === grid) last.ops.push(id)
      else parts.push({ grid, ops: [id] })
    }
    return parts
  }

/** Moves ops without images from the start or end of a tiled group before or after its loop. */
const withSeparateWholeOps =
  (graph: Graph) =>
  (g: Group): readonly Group[] => {
    const isWhole = (id: OpId): boolean => readsNoImages(graph.ops[id]!)
    if (!isTiled(g.grid) || !g.ops.some(isWhole)) return [g]
    const first = g.ops.findIndex((id) => !isWhole(id))
    const last = g.ops.length - [...g.ops].reverse().findIndex((id) => !isWhole(id))
    if (first < 0) return [{ ...g, grid: UNTILED }]
    return [
      { grid: UNTILED, ops: g.ops.slice(0, first) },
      { grid: g.grid, ops: g.ops.slice(first, last) },
      { grid: UNTILED, ops: g.ops.slice(last) },
    ].filter((part) => part.ops.length > 0)
  }

const assembled = (graph: Graph, all: readonly Group[]): readonly Run[] => {
  const map = new ForwardMap(graph, all.flatMap(withSeparateExchanges(graph)).flatMap(withSeparateWholeOps(graph)))
  const { groups } = map
  const fused = isTiled(groups[groups.length - 1]!.grid)
  const forward: Run[] = mapped(groups, (g, gi): Run => ({ phase: 'forward', group: gi, grid: g.grid, ops: [...g.ops] })).slice(
    0,
    fused ? -1 : undefined,
  )
  return [...forward, ...backwardRuns(map).flatMap((r) => withRecompute(map, r))]
}

/**
 * Moves updates behind the last run that reads an overwritten value. With one objective they are there already. With several, the forward ops of a
 * network may run again for another objective's gradients after its own gradients are complete.
 */
const withLateUpdates = (graph: Graph, runs: readonly Run[]): readonly Run[] => {
  const isUpdate = (id: OpId): boolean => graph.ops[id]!.phase === 'update'
  const lastRead = new Int32Array(graph.values.length).fill(-1)
  runs.forEach((r, i) => {
    for (const id of r.ops) if (!isUpdate(id)) for (const v of graph.ops[id]!.ins) lastRead[v] = i
  })
  const due = (id: OpId, i: number): number =>
    isUpdate(id) ? mutated(graph, id).reduce((n, v) => Math.max(n, lastRead[v]!), i) : i
  const late = new Map<number, OpId[]>()
  runs.forEach((r, i) => {
    for (const id of r.ops) {
      const to = due(id, i)
      if (to > i) late.set(to, [...(late.get(to) ?? []), id])
    }
  })
  if (late.size === 0) return runs
  const update = (i: number): readonly Run[] =>
    late.has(i) ? [{ phase: 'update', group: runs[i]!.group, grid: UNTILED, ops: late.get(i)! }] : []
  return runs
    .flatMap((r, i) => [{ ...r, ops: r.ops.filter((id) => due(id, i) === i) }, ...update(i)])
    .filter((r) => r.ops.length > 0)
}

/** Drops a forward op if it runs again, for the backward pass, before any op reads its values. Unchanged runs stay the same objects. */
const withoutUnread = (graph: Graph, runs: readonly Run[]): readonly Run[] => {
  const needed = new Uint8Array(graph.values.length)
  for (const v of graph.values) if (isResult(v)) needed[v.id] = 1
  const runsLater = new Uint8Array(graph.ops.length)
  const isRead = (id: OpId): boolean => {
    const op = graph.ops[id]!
    if (isForward(op) && runsLater[id] === 1 && !op.outs.some((v) => needed[v] === 1)) return false
    runsLater[id] = 1
    for (const v of op.outs) needed[v] = 0
    for (const v of op.ins) needed[v] = 1
    return true
  }
  const kept: Run[] = []
  for (let i = runs.length - 1; i >= 0; i--) {
    const { phase, group, grid, ops: all, expands } = runs[i]!
    const ops: OpId[] = []
    for (let k = all.length - 1; k >= 0; k--) if (isRead(all[k]!)) ops.push(all[k]!)
    if (ops.length === 0) continue
    kept.push(ops.length === all.length ? runs[i]! : { phase, group, grid, ops: ops.reverse(), expands })
  }
  return kept.length === runs.length && kept.every((r, i) => r === runs[runs.length - 1 - i]) ? runs : kept.reverse()
}

/** Returns the runs in order: with late updates, and without unread ops. */
const inOrder = (graph: Graph, planned: readonly Run[]): readonly Run[] => withoutUnread(graph, withLateUpdates(graph, planned))

/** Returns the segments of runs: slices, kept values of each run, and in-place choices. `expands`: the default of the runs. */
export const segmentsOf = (graph: Graph, planned: readonly Run[], expands = false): Either<TileError, readonly Segment[]> =>
  slicedRuns(graph, inOrder(graph, planned), expands)

/** Returns the segments of runs that are in order. */
export const slicedRuns = (graph: Graph, runs: readonly Run[], expands = false): Either<TileError, readonly Segment[]> =>
  slicedOn(graph, runs, expands)((r) => r.grid)

/**
 * Returns a function from grids to segments, to be called repeatedly. A run with an unchanged grid keeps its segment object, and an unchanged list of
 * grids keeps the list. `known`: segments of other steps of the graph.
 */
export const segmentsOn = (graph: Graph, planned: readonly Run[], known?: KnownSegments): Sliced =>
  slicedOn(graph, inOrder(graph, planned), false, known)

type Sliced = (gridOf: (r: Run) => Grid) => Either<TileError, readonly Segment[]>

/** The values that each run of a list reads and leaves. */
export const liveIn = onceForPair((graph: Graph, runs: readonly Run[]): readonly RunLiveness[] =>
  liveness(
    graph,
    mapped(runs, (r) => r.ops),
  ),
)

/** A key of these ops. Runs of several steps share their lists of ops. */
export const opsKey = onceFor((ops: readonly OpId[]): string => ops.join())

/** Segments by run (its phase, its ops and the values that outlive it), then by grid. */
export type KnownSegments = Map<string, Map<string, Either<TileError, Segment>>>

const slicedOn = (graph: Graph, runs: readonly Run[], expands: boolean, common?: KnownSegments): Sliced => {
  // Only tiled runs and `common` need it.
  const leavesOf = (i: number): ReadonlySet<ValueId> => liveIn(graph, runs)[i]!.outputs
  const bodyOf = ({ ops, expands: grows = expands }: Run, grid: Grid, i: number): Either<TileError, SlicedRun> =>
    isTiled(grid) ? sliceRun(graph, ops, grid, leavesOf(i), grows) : E.right({ body: mapped(ops, (op) => ({ op })), keeps: [] })
  const runKey = ({ phase, ops, expands: grows = expands }: Run, i: number): string =>
    `${phase}${grows ? '+' : ''} ${opsKey(ops)};${[...leavesOf(i)].join()}`
  const byRun = mapped(runs, (): Map<string, Either<TileError, Segment>> | undefined => undefined)
  const byGridOf = (r: Run, i: number): Map<string, Either<TileError, Segment>> => {
    const key = common ? runKey(r, i) : ''
    const byGrid = byRun[i] ?? common?.get(key) ?? new Map<string, Either<TileError, Segment>>()
    byRun[i] = byGrid
    common?.set(key, byGrid)
    return byGrid
  }
  const segment = (r: Run, grid: Grid, i: number): Either<TileError, Segment> => {
    const key = keyOf(grid)
    const byGrid = byGridOf(r, i)
    const known = byGrid.get(key)
    if (known) return known
    const made = pipe(
      bodyOf(r, grid, i),
      E.map((own): Segment => ({ name: nameOf(graph, r.ops), phase: r.phase, grid, ...own })),
    )
    byGrid.set(key, made)
    return made
  }
  const all = new Map<string, Either<TileError, readonly Segment[]>>()
  return (gridOf) => {
    const grids = mapped(runs, gridOf)
    const key = mapped(grids, keyOf).join()
    const known = all.get(key)
    if (known) return known
    const made = pipe(
      runs,
      E.traverseReadonlyArrayWithIndex((i, r) => segment(r, grids[i]!, i)),
      E.map((segments) => withInPlace(graph, segments)),
    )
    all.set(key, made)
    return made
  }
}

/** Returns the runs of these segments, to make others from. */
export const runsOf = (graph: Graph, segments: readonly Segment[]): readonly Run[] =>
  mapped(segments, (s, group): Run => {
    const run = { phase: s.phase, group, grid: s.grid, ops: mapped(s.body, (step) => step.op) }
    return isTiled(s.grid) && !isSlicedAs(graph, s, false) ? { ...run, expands: true } : run
  })

/** Returns true if this `expands` gives the slices of the segment. */
const isSlicedAs = (graph: Graph, { body, grid, keeps }: Segment, expands: boolean): boolean => {
  const ops = mapped(body, (step) => step.op)
  const sliced = sliceRun(graph, ops, grid, new Set(mapped(keeps, (k) => k.value)), expands)
  const same = (a: Slices | null, b: Slices | null): boolean => (a && b ? sameSlices(a, b) : a === b)
  return E.isRight(sliced) && sliced.right.body.every((step, i) => step.slices!.every((s, k) => same(s, body[i]!.slices![k]!)))
}

const keyOf = ({ B, H, W }: Grid): string => `${B}x${H}x${W}`

/** Returns the part of a computed value that a tile holds. */
const heldSlices = (graph: Graph, seg: Segment, v: ValueId): Slices | null => {
  const maker = seg.body.find((st) => graph.ops[st.op]!.outs.includes(v))!
  const op = graph.ops[maker.op]!
  return maker.slices![op.ins.length + op.outs.indexOf(v)]!
}

const NONE: readonly number[] = []

/** Returns, for each step, the inputs whose bytes output 0 may overwrite if no later op reads them. */
const overwritableInputs = onceForPair((graph: Graph, seg: Segment): readonly (readonly number[])[] => {
  const tiled = isTiled(seg.grid)
  const own = new Set(tiled ? seg.body.flatMap((st) => graph.ops[st.op]!.outs) : [])
  const kept = new Set(mapped(seg.keeps, (k) => k.value))
  return mapped(seg.body, (step) => {
    const op = graph.ops[step.op]!
    const o = op.outs[0]!
    const { inPlace = NONE } = opDef(op.kind)
    // An output of the step has its own bytes until it is copied to the caller; a loss has its own for the read after the step.
    if (inPlace.length === 0 || isResult(graph.values[o]!)) return NONE
    return inPlace.filter((i) => {
      const v = op.ins[i]
      if (v === undefined || !isComputed(graph, v) || op.ins.indexOf(v) !== op.ins.lastIndexOf(v)) return false
      if (!sameShape(graph.values[v]!.shape, graph.values[o]!.shape)) return false
      if (!tiled) return true
      if (!own.has(v) || kept.has(v) || kept.has(o)) return false
      // A tile may hold more of v than this op reads (another reader's halo). Then the rows of v and of the output have different addresses.
      const held = heldSlices(graph, seg, v)
      return held !== null && sameSlices(step.slices![op.ins.length]!, held)
    })
  })
})

/** Cached variants of a segment, by the overwritten input of each step from the last to the first. */
const inPlaceVariants = onceFor((_: Segment) => new Map<string, Segment>())
const stepVariants = onceFor((_: Step) => new Map<number, Step>())

/** Lets output 0 overwrite the bytes of an input that no later op reads. */
const withInPlace = (graph: Graph, segments: readonly Segment[]): readonly Segment[] => {
  const readLater = new Uint8Array(graph.values.length)
  for (const v of graph.values) if (isResult(v)) readLater[v.id] = 1
  const out: Segment[] = []
  for (let s = segments.length - 1; s >= 0; s--) out.push(withChosenInputs(graph, segments[s]!, readLater))
  return out.reverse()
}

const withChosenInputs = (graph: Graph, seg: Segment, readLater: Uint8Array): Segment => {
  const overwritable = overwritableInputs(graph, seg)
  const choices: (number | undefined)[] = []
  for (let k = seg.body.length - 1; k >= 0; k--) {
    const { ins, outs } = graph.ops[seg.body[k]!.op]!
    for (const v of outs) readLater[v] = 0
    choices.push(overwritable[k]!.find((i) => readLater[ins[i]!] !== 1))
    for (const v of ins) readLater[v] = 1
  }
  if (choices.every((t) => t === undefined)) return seg
  const known = inPlaceVariants(seg)
  const key = choices.join()
  const made = known.get(key) ?? {
    ...seg,
    body: mapped(seg.body, (step, k) => stepInPlace(step, choices[seg.body.length - 1 - k])),
  }
  known.set(key, made)
  return made
}

const stepInPlace = (step: Step, input: number | undefined): Step => {
  if (input === undefined) return step
  const known = stepVariants(step)
  const made =
    known.get(input) ?? (step.slices ? { op: step.op, slices: step.slices, inPlace: input } : { op: step.op, inPlace: input })
  known.set(input, made)
  return made
}
