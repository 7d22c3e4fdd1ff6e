// The forward pass in pieces, with what each stretch of them costs as a segment, for segmentation.ts. In: the training graph and
// seconds by op. Out: pieces (cut at the borders of FT runs and wherever one value crosses) and their stretches.
// Halos: going backwards through a stretch, a value needs the most that any of its readers does: stride times the reader's
// halo plus reach less stride; an op of c seconds over E rows with halo h costs c h / E more for each further tile.
// Worked example, two 3x3 convolutions over 100 rows: the second has halo 0, the first 2, the image 4.
import { type Graph, type Op, trains, type ValueId } from '../graph/graph'
import type { Grid } from '../plan/plan'
import { profileForward } from './cuts'
import type { OpCost } from './footprint'
import { type FtRun, maximalRuns } from './ft'
import type { Piece, Pieces, Stretch } from './segmentation'
import { type Held, heldPredicting, heldTraining } from './held'
import { forwardOps } from './segments'
import { operandsOf } from './slices'

export interface ForwardPieces extends Pieces {
  readonly ops: readonly (readonly Op[])[]
}

const NOTHING: Stretch = {
  forwardSeconds: 0,
  backwardSeconds: 0,
  calls: 0,
  haloH: 0,
  haloW: 0,
  haloBoth: 0,
  workBytes: 0,
  bandBytes: 0,
  crossingBytes: 0,
}

/** The most tiles that the values of these ops admit; 1 along a dimension in which one of them cannot be tiled. */
export const mostTiles = (graph: Graph, run: Pick<FtRun, 'dims'>, ops: readonly Op[]): Grid => {
  const most = { B: Infinity, H: Infinity, W: Infinity }
  for (const op of ops) {
    const { ins, outs } = operandsOf(graph, op)
    for (const o of [...ins, ...outs]) {
      if (o.def.role !== 'data') continue
      const [b, , h, w] = graph.values[o.value]!.shape as [number, number, number, number]
      most.B = Math.min(most.B, b)
      // Statistics of an image, and a pooled row, are read or summed whole by every tile.
      if (o.access?.H.tag !== 'reduce' && h > 1) most.H = Math.min(most.H, h)
      if (o.access?.W.tag !== 'reduce' && w > 1) most.W = Math.min(most.W, w)
    }
  }
  const along = (d: 'B' | 'H' | 'W'): number =>
    run.dims.has(d) && (run.dims.has('H') || run.dims.has('W')) && Number.isFinite(most[d]) ? most[d] : 1
  return { B: along('B'), H: along('H'), W: along('W') }
}

/** Backward seconds of each forward op: its layer's, given to the layer's first op. */
const backwardSeconds = (graph: Graph, costs: readonly OpCost[]): ReadonlyMap<number, number> => {
  const first = new Map<string, number>()
  const seconds = new Map<number, number>()
  for (const op of graph.ops) {
    if (op.phase === 'forward' || op.phase === 'loss') {
      if (!first.has(op.layer)) first.set(op.layer, op.id)
    } else if (op.phase === 'backward') {
      const of = first.get(op.layer)
      if (of !== undefined) seconds.set(of, (seconds.get(of) ?? 0) + costs[op.id]!.seconds)
    }
  }
  return seconds
}

interface Halo {
  readonly H: number
  readonly W: number
}

/** One stretch after the other from a last piece backwards, each with a piece more in front. */
class Growing {
  private readonly halos = new Map<ValueId, Halo>()
  private sum = NOTHING

  constructor(
    private readonly graph: Graph,
    private readonly costs: readonly OpCost[],
    private readonly backward: ReadonlyMap<number, number>,
    private readonly held: Held,
    private readonly operands: ReadonlyMap<number, ReturnType<typeof operandsOf>>,
    private readonly forwards: Pieces['forwards'],
  ) {}

  add(ops: readonly Op[]): Stretch {
    for (const op of [...ops].reverse()) this.op(op)
    return { ...this.sum, ...this.held.bytes() }
  }

  private op(op: Op): void {
    const { ins, outs } = this.operands.get(op.id)!
    const halo = op.outs.reduce<Halo>(
      (h, v) => ({ H: Math.max(h.H, this.halos.get(v)?.H ?? 0), W: Math.max(h.W, this.halos.get(v)?.W ?? 0) }),
      { H: 0, W: 0 },
    )
    for (const o of ins) {
      if (!o.access) continue
      const grown = (d: 'H' | 'W'): number => {
        const own = o.access![d]
        const a = own.tag === 'shifted' ? own.access : own
        return a.tag === 'window' ? halo[d] * a.stride + Math.max(0, a.reach - a.stride) : halo[d]
      }
      const before = this.halos.get(o.value) ?? { H: 0, W: 0 }
      this.halos.set(o.value, { H: Math.max(before.H, grown('H')), W: Math.max(before.W, grown('W')) })
    }
    const shape = this.graph.values[outs[0]?.value ?? op.ins[0]!]!.shape
    const [h, w] = [halo.H / (shape[2] ?? 1), halo.W / (shape[3] ?? 1)]
    const forward = this.costs[op.id]!.seconds
    const back = this.backward.get(op.id) ?? 0
    const all = this.forwards * forward + back
    const s = this.sum
    this.sum = {
      ...NOTHING,
      forwardSeconds: s.forwardSeconds + forward,
      backwardSeconds: s.backwardSeconds + back,
      calls: s.calls + 4,
      haloH: s.haloH + all * h,
      haloW: s.haloW + all * w,
      haloBoth: s.haloBoth + all * h * w,
    }
    this.held.add(op)
  }
}

/** `launchSeconds`: of a call that does next to nothing. */
export const piecesOf = (graph: Graph, costs: readonly OpCost[], launchSeconds: number): ForwardPieces => {
  // What is kept for a backward pass costs whatever crosses for long; without one, several values may cross.
  const forwards = trains(graph) ? 2 : 1
  const cuts = new Map(profileForward(graph).cuts.map((c) => [c.at, c]))
  const ops: Op[][] = []
  const pieces: Piece[] = []
  const crossing: number[] = []
  let at = 0
  maximalRuns(graph).forEach((run, r) => {
    let here: Op[] = []
    run.ops.forEach((op, i) => {
      here.push(op)
      at++
      const cut = cuts.get(at)
      const isLegal = cut && (cut.clean || forwards === 1)
      if (i < run.ops.length - 1 && !isLegal) return
      ops.push(here)
      pieces.push({ run: r, most: mostTiles(graph, run, here) })
      crossing.push(cut?.bytes ?? 0)
      here = []
    })
  })
  const backward = backwardSeconds(graph, costs)
  const read = new Set(graph.ops.filter((o) => o.phase === 'backward').flatMap((o) => o.ins))
  const forward = forwardOps(graph)
  const order = new Map(forward.map((op, i) => [op.id, i]))
  const lastUse = new Map(forward.flatMap((op, i) => op.ins.map((v) => [v, i] as const)))
  const held = (j: number): Held =>
    trains(graph) ? heldTraining(graph, read, crossing[j]!) : heldPredicting(graph, lastUse, order)
  const operands = new Map(graph.ops.map((op) => [op.id, operandsOf(graph, op)]))
  const rows = ops.map((_, j) => ({
    stretches: [] as Stretch[],
    next: j,
    growing: new Growing(graph, costs, backward, held(j), operands, forwards),
  }))
  /** Stretches that end with piece j are made as far as they are asked for. */
  const stretch = (i: number, j: number): Stretch => {
    const row = rows[j]!
    for (; row.next >= i; row.next--) row.stretches[row.next] = row.growing.add(ops[row.next]!)
    return row.stretches[i]!
  }
  return { pieces, ops, launchSeconds, stretch, forwards }
}
