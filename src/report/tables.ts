// The rows of the report's tables. In: a plan and its timeline. Out: one row a segment, one row a layer.
// Invariant: the seconds of the segments add up to the seconds of all calls, and so do those of the layers but for plumbing.
import { bytesOf, pagesOf } from '../../staging/core/bytes'
import { valueBytes, type Graph, type Op } from '../../staging/graph/graph'
import { isSwappedToTier, type Plan, type Segment, type SegmentPhase, tilesOf } from '../../staging/plan/plan'
import { repeatedCalls } from '../../staging/plan/repeated'
import { segmentFlops } from './facts'
import { pagesByKind, totalPages } from './memory'

// ---------------------------------------------------------------- segments

export interface SegmentRow {
  readonly index: number
  readonly name: string
  readonly phase: SegmentPhase
  readonly grid: string
  readonly tiles: number
  readonly ops: number
  /** First and last layer of the body. */
  readonly layers: string
  /** Whole values that the segment leaves behind for later ones, and their bytes. */
  readonly keeps: readonly string[]
  readonly keptBytes: number
  readonly seconds: number
  readonly recomputeSeconds: number
  readonly haloRatio: number
  readonly peakBytes: number
}

/** '4×4', with the micro-batches in front where there are several: '2 × 4×4'. */
export const showGrid = (s: Segment): string => {
  const { B, H, W } = s.grid
  if (tilesOf(s.grid) === 1) return 'whole'
  return B > 1 ? `${B} × ${H}×${W}` : `${H}×${W}`
}

const layerRange = (graph: Graph, s: Segment): string => {
  const layers = s.body.map((step) => graph.ops[step.op]!.layer).filter((l) => l !== '')
  const first = layers[0]
  const last = layers[layers.length - 1]
  return first === undefined ? '' : first === last ? first : `${first} … ${last}`
}

/** Values made in the segment and read in a later one: an untiled segment keeps these without saying so. */
const leftBehind = (plan: Plan): readonly (readonly number[])[] => {
  const madeIn = new Map<number, number>()
  const kept = plan.segments.map(() => new Set<number>())
  plan.segments.forEach((s, i) => {
    for (const step of s.body) {
      const op = plan.graph.ops[step.op]!
      for (const v of op.ins) if ((madeIn.get(v) ?? i) < i) kept[madeIn.get(v)!]!.add(v)
      for (const v of op.outs) madeIn.set(v, i)
    }
  })
  return kept.map((vs) => [...vs])
}

export const segmentRows = (plan: Plan): readonly SegmentRow[] => {
  const flops = segmentFlops(plan)
  const repeated = repeatedCalls(plan)
  const pages = pagesByKind(plan)
  const left = leftBehind(plan)
  const sums = plan.segments.map(() => ({ seconds: 0, recompute: 0, pages: 0 }))
  plan.calls.forEach((c, i) => {
    const s = sums[c.segment]!
    s.seconds += c.seconds
    if (repeated[i]) s.recompute += c.seconds
    s.pages = Math.max(s.pages, totalPages(pages, i))
  })
  return plan.segments.map((s, index) => {
    const kept = left[index]!.map((v) => plan.graph.values[v]!)
    return {
      index,
      name: s.name,
      phase: s.phase,
      grid: showGrid(s),
      tiles: tilesOf(s.grid),
      ops: s.body.length,
      layers: layerRange(plan.graph, s),
      keeps: kept.map((v) => v.name),
      keptBytes: kept.reduce((n, v) => n + valueBytes(v), 0),
      seconds: sums[index]!.seconds,
      recomputeSeconds: sums[index]!.recompute,
      haloRatio: flops[index]!.whole > 0 ? flops[index]!.done / flops[index]!.whole : 1,
      peakBytes: bytesOf(sums[index]!.pages),
    }
  })
}

// ---------------------------------------------------------------- layers

/** What becomes of a layer's output between forward and backward. */
export type Fate = 'stays' | 'swapped out' | 'recomputed' | 'only in tiles'

export interface LayerRow {
  readonly layer: string
  readonly kinds: string
  readonly shape: readonly number[]
  readonly bytes: number
  readonly parameterBytes: number
  readonly forwardSeconds: number
  readonly recomputeSeconds: number
  readonly backwardSeconds: number
  readonly fate: Fate
}

const forwardOps = (graph: Graph): ReadonlyMap<string, readonly Op[]> => {
  const layers = new Map<string, Op[]>()
  for (const op of graph.ops) {
    if (op.phase !== 'forward') continue
    const ops = layers.get(op.layer)
    if (ops) ops.push(op)
    else layers.set(op.layer, [op])
  }
  return layers
}

/** For each value: whether a whole cell holds it, and whether pages of that cell move to the lower tier. */
const whereabouts = (plan: Plan): ReadonlyMap<number, { readonly moves: boolean }> => {
  const saves = plan.residencies.filter(isSwappedToTier)
  const found = new Map<number, { moves: boolean }>()
  for (const c of plan.cells) {
    if (c.scope !== 'whole') continue
    const { storage, offset } = plan.places[c.id]!
    const [from, to] = pagesOf(offset, c.bytes)
    const moves = saves.some((r) => r.storage === storage && r.from < to && from < r.to)
    for (const v of c.values) found.set(v, { moves: (found.get(v)?.moves ?? false) || moves })
  }
  return found
}

export const layerRows = (plan: Plan): readonly LayerRow[] => {
  const { graph } = plan
  const repeated = repeatedCalls(plan)
  const where = whereabouts(plan)
  const seconds = new Map<string, { forward: number; recompute: number; backward: number }>()
  const redone = new Set<number>()
  plan.calls.forEach((c, i) => {
    if (c.op < 0) return
    const op = graph.ops[c.op]!
    const s = seconds.get(op.layer) ?? { forward: 0, recompute: 0, backward: 0 }
    s[repeated[i] ? 'recompute' : op.phase === 'forward' || op.phase === 'loss' ? 'forward' : 'backward'] += c.seconds
    if (repeated[i]) redone.add(c.op)
    seconds.set(op.layer, s)
  })
  return [...forwardOps(graph)].map(([layer, ops]) => {
    // The places of a pool's maxima are kept for the backward pass, after the layer's output.
    const last = [...ops].reverse().find((op) => graph.values[op.outs[0]!]!.dtype !== 'i32') ?? ops[ops.length - 1]!
    const out = graph.values[last.outs[0]!]!
    const params = new Set(ops.flatMap((op) => op.ins.filter((v) => graph.values[v]!.role === 'param')))
    const held = where.get(out.id)
    const s = seconds.get(layer) ?? { forward: 0, recompute: 0, backward: 0 }
    const fate: Fate = redone.has(last.id) ? 'recomputed' : held?.moves ? 'swapped out' : held ? 'stays' : 'only in tiles'
    return {
      layer,
      shape: out.shape,
      bytes: valueBytes(out),
      fate,
      kinds: [...new Set(ops.map((op) => op.kind))].join(', '),
      parameterBytes: [...params].reduce((n, v) => n + valueBytes(graph.values[v]!), 0),
      forwardSeconds: s.forward,
      recomputeSeconds: s.recompute,
      backwardSeconds: s.backward,
    }
  })
}
