// The forward pass in pieces, with the cost of each run of pieces as a segment, for segmentation.ts. In: the training graph and seconds by op. Out:
// pieces (cut at the borders of FT runs and at single crossing values) and their runs. Halos are computed backwards through a run. A value has the
// largest halo that any of its readers needs: stride times the reader's halo, plus reach less stride. An op of c seconds over E rows with halo h
// costs c h / E more for each further tile. Worked example, two 3x3 convolutions over 100 rows: the second has halo 0, the first 2, the image 4.
import { mapped } from '../core/mapped'
import { type Graph, isOfParameters, type Op, trains, type ValueId } from '../graph/graph'
import type { Grid } from '../plan/plan'
import { profileForward } from './cuts'
import type { OpCost } from './footprint'
import { type FtRun, maximalRuns } from './ft'
import type { Piece, Pieces, PieceRun } from './segmentation'
import { type Held, heldPredicting, HeldTraining } from './held'
import { forwardOps } from './segments'
import { operandsOf } from './slices'

export interface ForwardPieces extends Pieces {
  readonly ops: readonly (readonly Op[])[]
}

/** Returns the most tiles that the values of these ops admit; 1 along a dimension where an op cannot be tiled. */
export const mostTiles = (graph: Graph, run: Pick<FtRun, 'dims'>, ops: readonly Op[]): Grid => {
  const most = { B: Infinity, H: Infinity, W: Infinity }
  for (const op of ops) {
    const { ins, outs } = operandsOf(graph, op)
    for (const o of [...ins, ...outs]) {
      if (o.def.role !== 'data') continue
      const [b, , h, w] = graph.values[o.value]!.shape as [number, number, number, number]
      most.B = Math.min(most.B, b)
      // Each tile reads or sums statistics of an image, and a pooled row, as a whole.
      if (o.access?.H.tag !== 'reduce' && h > 1) most.H = Math.min(most.H, h)
      if (o.access?.W.tag !== 'reduce' && w > 1) most.W = Math.min(most.W, w)
    }
  }
  const along = (d: 'B' | 'H' | 'W'): number =>
    run.dims.has(d) && (run.dims.has('H') || run.dims.has('W')) && Number.isFinite(most[d]) ? most[d] : 1
  return { B: along('B'), H: along('H'), W: along('W') }
}

/** Returns the backward seconds by forward op: those of a layer belong to its first forward op. */
const backwardSeconds = (graph: Graph, costs: readonly OpCost[]): ReadonlyMap<number, number> => {
  const first = new Map<string, number>()
  const seconds = new Map<number, number>()
  for (const op of graph.ops) {
    if (op.phase === 'forward' || op.phase === 'loss') {
      if (!first.has(op.layer) && !isOfParameters(graph.values, op)) first.set(op.layer, op.id)
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

/** A list of numbers that stores one number while all are the same. */
class Column {
  private first = 0
  private numbers: Float64Array | undefined
  private count = 0

  push(x: number): void {
    if (this.count === 0) this.first = x
    if (!this.numbers && x !== this.first) this.numbers = new Float64Array(this.count + 1).fill(this.first)
    if (this.numbers) {
      if (this.count >= this.numbers.length) {
        const longer = new Float64Array((this.count * 3) / 2 + 8)
        longer.set(this.numbers)
        this.numbers = longer
      }
      this.numbers[this.count] = x
    }
    this.count++
  }

  at(i: number): number {
    return this.numbers ? this.numbers[i]! : this.first
  }
}

/** The common data of all runs. */
interface PieceData {
  readonly graph: Graph
  readonly costs: readonly OpCost[]
  readonly ops: readonly (readonly Op[])[]
  /** By op: the backward seconds. */
  readonly backward: ReadonlyMap<number, number>
  readonly forwards: Pieces['forwards']
  /** By piece: the number of ops before it. */
  readonly before: readonly number[]
}

/** The halos of the runs that end with one piece. Each run has one piece more in front than the run before it. */
class Halos {
  readonly H = new Column()
  readonly W = new Column()
  readonly both = new Column()
  private readonly halos = new Map<ValueId, Halo>()
  private sum = { H: 0, W: 0, both: 0 }

  constructor(
    private readonly m: PieceData,
    private next: number,
  ) {}

  /** Computes the halos of the runs down to first piece `i`. */
  downTo(i: number): this {
    for (; this.next >= i; this.next--) {
      for (const addOp of [...this.m.ops[this.next]!].reverse()) this.op(addOp)
      this.H.push(this.sum.H)
      this.W.push(this.sum.W)
      this.both.push(this.sum.both)
    }
    return this
  }

  private op(op: Op): void {
    const { graph, costs, backward, forwards } = this.m
    const { ins, outs } = operandsOf(graph, op)
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
    const shape = graph.values[outs[0]?.value ?? op.ins[0]!]!.shape
    const [h, w] = [halo.H / (shape[2] ?? 1), halo.W / (shape[3] ?? 1)]
    const all = forwards * costs[op.id]!.seconds + (backward.get(op.id) ?? 0)
    const { H, W, both } = this.sum
    this.sum = { H: H + all * h, W: W + all * w, both: both + all * h * w }
  }
}

/**
 * The runs that end with one piece, each with one piece more in front than the run before it. They are computed on request, because their number is
 * half the square of the pieces. Most of them cover several FT runs and are never tiled, so their halos are computed separately.
 */
class Row {
  readonly forwardSeconds = new Column()
  readonly backwardSeconds = new Column()
  readonly workBytes = new Column()
  readonly bandBytes = new Column()
  readonly crossingBytes = new Column()
  private readonly halos: Halos
  private next: number
  private forward = 0
  private backward = 0

  constructor(
    readonly m: PieceData,
    readonly last: number,
    private readonly held: Held,
  ) {
    this.next = last
    this.halos = new Halos(m, last)
  }

  downTo(i: number): this {
    for (; this.next >= i; this.next--) this.add(this.m.ops[this.next]!)
    return this
  }

  halosFrom(i: number): Halos {
    return this.halos.downTo(i)
  }

  private add(ops: readonly Op[]): void {
    const { m, held } = this
    for (let k = ops.length - 1; k >= 0; k--) {
      const op = ops[k]!
      this.forward += m.costs[op.id]!.seconds
      this.backward += m.backward.get(op.id) ?? 0
      held.add(op)
    }
    this.forwardSeconds.push(this.forward)
    this.backwardSeconds.push(this.backward)
    this.workBytes.push(held.workBytes)
    this.bandBytes.push(held.bandBytes)
    this.crossingBytes.push(held.crossingBytes)
  }
}

/** The run from the i-th piece to the last piece of a row. */
class GrowingRun implements PieceRun {
  forwardSeconds = 0
  backwardSeconds = 0
  workBytes = 0
  bandBytes = 0
  crossingBytes = 0
  private at = 0
  private i = 0

  constructor(private row: Row) {}

  to(row: Row, i: number): this {
    const at = row.last - i
    this.row = row.downTo(i)
    this.i = i
    this.at = at
    this.forwardSeconds = row.forwardSeconds.at(at)
    this.backwardSeconds = row.backwardSeconds.at(at)
    this.workBytes = row.workBytes.at(at)
    this.bandBytes = row.bandBytes.at(at)
    this.crossingBytes = row.crossingBytes.at(at)
    return this
  }

  get calls(): number {
    const { before } = this.row.m
    return CALLS_OF_AN_OP * (before[this.row.last + 1]! - before[this.i]!)
  }
  get haloH(): number {
    return this.row.halosFrom(this.i).H.at(this.at)
  }
  get haloW(): number {
    return this.row.halosFrom(this.i).W.at(this.at)
  }
  get haloBoth(): number {
    return this.row.halosFrom(this.i).both.at(this.at)
  }
}
/** The calls of an op in a training step: forward, forward again, and two backward. */
const CALLS_OF_AN_OP = 4

/** Returns the pieces of the forward pass. `launchSeconds`: the time of a call with next to no work. */
export const piecesOf = (graph: Graph, costs: readonly OpCost[], launchSeconds: number): ForwardPieces => {
  // With a backward pass, each crossing value is kept for long, so cuts must be clean. Without one, several values may cross.
  const forwards = trains(graph) ? 2 : 1
  const cuts = new Map(mapped(profileForward(graph).cuts, (c) => [c.at, c]))
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
  const order = new Map(mapped(forward, (op, i) => [op.id, i]))
  const lastUse = new Map(forward.flatMap((op, i) => mapped(op.ins, (v) => [v, i] as const)))
  const held = (j: number): Held =>
    trains(graph) ? new HeldTraining(graph, read, crossing[j]!) : heldPredicting(graph, lastUse, order)
  const before = [0]
  for (const here of ops) before.push(before.at(-1)! + here.length)
  const data: PieceData = { graph, costs, ops, backward, forwards, before }
  const rows = mapped(ops, (_, j) => new Row(data, j, held(j)))
  const passing = new GrowingRun(rows[0]!)
  return {
    pieces,
    ops,
    launchSeconds,
    span: (i, j) => new GrowingRun(rows[j]!).to(rows[j]!, i),
    spanReused: (i, j) => passing.to(rows[j]!, i),
    forwards,
  }
}
