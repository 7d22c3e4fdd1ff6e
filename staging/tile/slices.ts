// Tile boxes of one segment (paper 3, Listing 4). In: a run of ops and a grid. Out: for each op, the range of each sliced operand at each tile index
// along B, H and W, and the part of the kept values that each tile adds.
//
// Dimensions are independent, so all computations are on ranges. A dimension with one tile is whole, with pixels that no window touches, as in-core:
// so a part of the batch has the bits of the whole batch. Otherwise two sweeps along each dimension compute the ranges. Sweep 1: ops anchored at an
// input (reductions, backward), in order. The iteration range is the piece of the anchor that the tile consumes: the producer's range if another such
// op of the tile made it, otherwise tile i of n disjoint pieces. Sweep 2: ops anchored at their output, in reverse. The iteration range is the hull
// of their readers' ranges and of the piece to keep.
//
// Worked example: 3x3 convolutions c1, c2 (padding 1) over 10 rows in 2 tiles, c2 kept whole: tile 0 stores rows [0,5) of c2, needs [0,6) of c1, so
// [0,7) of the image. Backwards from dy [0,5): dc1 on [0,6), dx on [0,7), added to the whole.
import { mapped } from '../core/mapped'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { dimIndex, hull, type Range, sameRange, tileRange } from '../core/box'
import { onceForPair } from '../core/remember'
import { ofBand, ROW_EXCHANGES } from '../graph/bands'
import type { Graph, Op, OpId, ValueId } from '../graph/graph'
import type { Grid, Keep, Segment, Slices, Step } from '../plan/plan'
import { opDef } from '../ops/registry'
import { type Access, type AccessMap, inputDef, outputDef, type OperandDef, type OpDef, touched } from '../ops/op'

export const TILED_DIMS = ['B', 'H', 'W'] as const
export type TiledDim = (typeof TILED_DIMS)[number]

/** The reason why a run of ops cannot be tiled in this way: the layer, the dimension, and the legal values. */
export interface TileError {
  readonly layer: string
  readonly dim: TiledDim
  readonly why: string
}

type Ranges = readonly Range[]

interface Operand {
  readonly value: ValueId
  readonly def: OperandDef
  readonly access: AccessMap | null
}

interface Operands {
  readonly ins: readonly Operand[]
  readonly outs: readonly Operand[]
}

export const operandsOf = onceForPair((graph: Graph, op: Op): Operands => {
  const def = opDef(op.kind)
  const shape = (v: ValueId): readonly number[] => graph.values[v]!.shape
  const shapes = { ins: mapped(op.ins, shape), outs: mapped(op.outs, shape) }
  const one = (value: ValueId, d: OperandDef): Operand => ({
    value,
    def: d,
    access: d.access ? ofBand(graph, op, value, d.access(op.attrs, shapes)) : null,
  })
  return {
    ins: mapped(op.ins, (v, i) => one(v, inputDef(def, i))),
    outs: mapped(op.outs, (v, i) => one(v, outputDef(def, i))),
  }
})

const isGathering = (def: OpDef, accesses: readonly (AccessMap | null)[]): boolean =>
  def.anchor === 'out' && accesses.some((a) => a !== null && a.H.tag === 'inside')

/** Returns the inverse of a result's access: from a range of the result to the anchor's range that contributes to it. Null if there is no inverse. */
const inverseOf = (a: Access): Access | null => {
  if (a.tag === 'same') return a
  if (a.tag === 'window') return { ...a, tag: 'transposed' }
  if (a.tag === 'transposed') return { ...a, tag: 'window' }
  return null
}

const extent = (graph: Graph, v: ValueId, d: TiledDim): number => graph.values[v]!.shape[dimIndex[d]] ?? 1

interface Reading {
  readonly reader: Op
  readonly operand: Operand
}
type Readings = ReadonlyMap<ValueId, readonly Reading[]>

const readingsOf = (graph: Graph, ops: readonly Op[]): Readings => {
  const readings = new Map<ValueId, Reading[]>()
  for (const reader of ops)
    for (const operand of operandsOf(graph, reader).ins) {
      const known = readings.get(operand.value)
      if (known) known.push({ reader, operand })
      else readings.set(operand.value, [{ reader, operand }])
    }
  return readings
}

/** The ranges along one dimension of a segment. */
class DimSlicer {
  /** By value that the run computes: its ranges. */
  readonly made = new Map<ValueId, Ranges>()
  /** By op: its iteration ranges. */
  readonly iteration = new Map<OpId, Ranges>()
  /** By value that sweep 1 computes: its ranges. These are gradients and sums. */
  private readonly contributions = new Map<ValueId, Ranges>()
  private readonly madeBy = new Map<ValueId, Op>()
  private error: TileError | undefined

  constructor(
    private readonly graph: Graph,
    private readonly ops: readonly Op[],
    private readonly readings: Readings,
    private readonly leaves: ReadonlySet<ValueId>,
    private readonly dim: TiledDim,
    private readonly n: number,
    private readonly expands: boolean,
  ) {
    for (const op of ops) for (const v of op.outs) this.madeBy.set(v, op)
  }

  /** Returns this with all ranges, or the first error. */
  sliced(): Either<TileError, DimSlicer> {
    if (!this.expands) for (const op of this.ops) this.consume(op)
    for (let i = this.ops.length - 1; i >= 0 && !this.error; i--) this.produce(this.ops[i]!)
    for (const op of this.ops) this.checkAll(op)
    return this.error ? E.left(this.error) : E.right(this)
  }

  private fail(op: Op, why: string): Ranges {
    this.error ??= { layer: op.layer, dim: this.dim, why }
    return Array.from({ length: this.n }, () => [0, 1] as Range)
  }

  private pieces(op: Op, v: ValueId): Ranges {
    const e = extent(this.graph, v, this.dim)
    if (this.n > e) return this.fail(op, `${this.n} tiles along ${this.dim} exceed its ${e} rows; allowed: at most ${e}`)
    return Array.from({ length: this.n }, (_, i) => tileRange(e, this.n, i))
  }

  private map(op: Op, a: Access, over: Ranges, v: ValueId): Ranges {
    const e = extent(this.graph, v, this.dim)
    if (this.n === 1) return [[0, e]]
    return mapped(over, (r) => {
      const t = touched(a, r, e)
      if (t[0] >= t[1]) this.fail(op, `a tile would see only padding: use fewer tiles along ${this.dim}`)
      return t
    })
  }

  private anchored(op: Op, def: OpDef): ValueId | null {
    return def.anchor === 'out' ? null : op.ins[def.anchor]!
  }

  /**
   * Returns the tile's share of a value, so that each element enters a sum once. For a result of sweep 1, that is the tile's own contribution, halo
   * included. For any other value, it is a disjoint piece, even if the tile computes more of it.
   */
  private share(op: Op, v: ValueId): Ranges {
    return this.contributions.get(v) ?? this.pieces(op, v)
  }

  /**
   * Returns the tile's share of a summand: the rows that the tile made of another summand, if these are disjoint pieces. So a tile has all summands
   * of the same rows. Without this, pieces of 32 rows that are pooled from 64 would not match pieces of 64 rows.
   */
  private summand(op: Op, v: ValueId): Ranges {
    const e = extent(this.graph, v, this.dim)
    const beside = mapped(op.ins, (w) => this.contributions.get(w)).find((rs) => rs && tilesExactly(rs, e))
    return this.contributions.get(v) ?? beside ?? this.pieces(op, v)
  }

  /** Sweep 1, for ops that consume pieces of an input, and for sums of partial gradients. */
  private consume(op: Op): void {
    const def = opDef(op.kind)
    const { ins, outs } = operandsOf(this.graph, op)
    const anchor = this.anchored(op, def)
    if (
      anchor === null &&
      !isGathering(
        def,
        mapped(ins, (o) => o.access),
      )
    )
      return
    const over =
      anchor === null
        ? mapped(op.ins, (v) => this.summand(op, v)).reduce((a, b) => mapped(a, (r, i) => hull(r, b[i]!)))
        : this.share(op, anchor)
    this.iteration.set(op.id, over)
    for (const o of outs)
      if (o.access && o.def.role === 'data') {
        const made = this.map(op, o.access[this.dim], over, o.value)
        this.contributions.set(o.value, made)
        this.made.set(o.value, made)
      }
  }

  /**
   * Replaces sweep 1 if tiles expand, as in paper 3. A tile computes complete gradients, from all values that touch them. So tiles also grow
   * backwards, and only sums are added between tiles; for sums, tiles take disjoint pieces.
   */
  private gather(op: Op, anchor: ValueId | null): { readonly over: Ranges; readonly needed?: Ranges } {
    const { outs } = operandsOf(this.graph, op)
    const all = outs.filter((o) => o.access && o.def.role === 'data' && o.access[this.dim].tag !== 'reduce')
    const data = all[0]
    if (!data) return { over: this.pieces(op, anchor ?? op.ins[0]!) }
    const needed = this.neededRanges(
      op,
      mapped(all, (o) => o.value),
    )
    if (anchor === null) return { over: needed }
    const back = inverseOf(data.access![this.dim])
    if (!back) return { over: this.fail(op, 'its gradient is not computed in complete tiles: end the segment before it') }
    return { over: this.map(op, back, needed, anchor), needed }
  }

  /** Returns the hull of the ranges of an op's outputs that readers need or that are kept. */
  private neededRanges(op: Op, outs: readonly ValueId[] = op.outs): Ranges {
    const needed: Ranges[] = []
    for (const v of outs) if (this.leaves.has(v)) needed.push(this.pieces(op, v))
    for (const v of outs)
      for (const { reader, operand } of this.readings.get(v) ?? []) {
        const over = this.iteration.get(reader.id)
        if (over && reader.id !== op.id && operand.access) needed.push(this.read(reader, operand, over))
      }
    return needed.length
      ? needed.reduce((a, b) => mapped(a, (r, i) => hull(r, b[i]!)))
      : this.fail(op, 'nothing in the segment reads it')
  }

  /** Sweep 2, for ops that compute the ranges that their readers need. All outputs have the same range. */
  private produce(op: Op): void {
    if (this.iteration.has(op.id)) return
    const def = opDef(op.kind)
    const anchor = this.anchored(op, def)
    const { ins, outs } = operandsOf(this.graph, op)
    const isWindow = (o: Operand): boolean => o.access?.[this.dim].tag === 'window'
    if (
      this.expands &&
      (anchor !== null ||
        isGathering(
          def,
          mapped(ins, (o) => o.access),
        ))
    ) {
      const { needed, over } = this.gather(op, anchor)
      this.iteration.set(op.id, over)
      for (const o of outs)
        if (o.access && o.def.role === 'data') {
          const touched = this.map(op, o.access[this.dim], over, o.value)
          // Pixels that no window touches are zero. They are computed too, unless another operand is read by windows.
          const made = mapped(touched, (r, i) => (needed ? hull(r, needed[i]!) : r))
          if (ins.some((x, k) => k !== def.anchor && isWindow(x)) && made.some((r, i) => !sameRange(r, touched[i]!)))
            this.fail(op, 'no window touches some rows of its gradient: end the segment before it')
          this.made.set(o.value, made)
        }
      return
    }
    const over = this.neededRanges(op)
    this.iteration.set(op.id, over)
    for (const v of op.outs) this.made.set(v, over)
  }

  /** Returns the ranges of an input that `op` reads. */
  read(op: Op, o: Operand, over: Ranges): Ranges {
    const a = o.access![this.dim]
    if (a.tag === 'inside') return this.expands ? over : this.summand(op, o.value)
    return this.map(op, a, over, o.value)
  }

  /** Reports ops that need a whole extent but have a slice, and ops that read a sum before all tiles have added to it. */
  private checkAll(op: Op): void {
    if (this.n === 1) return
    const { ins, outs } = operandsOf(this.graph, op)
    if (outs.some((o) => o.access?.[this.dim].tag === 'all' && extent(this.graph, o.value, this.dim) > 1))
      this.fail(op, `computes all of its output along ${this.dim}: end the segment before it`)
    for (const o of ins) {
      const maker = this.madeBy.get(o.value)
      if (!maker) continue
      const made = operandsOf(this.graph, maker).outs.find((x) => x.value === o.value)!
      if (o.access?.[this.dim].tag === 'all' && extent(this.graph, o.value, this.dim) > 1)
        this.fail(op, `needs all of its input along ${this.dim}: end the segment before it`)
      if (made.def.merge && (made.def.role === 'whole' || made.access?.[this.dim].tag === 'reduce'))
        this.fail(op, `reads the sum of ${maker.layer} over the tiles: begin a new segment before it`)
    }
  }
}

export type SlicedRun = Pick<Segment, 'body' | 'keeps'>

const tilesExactly = (rs: Ranges, extent: number): boolean =>
  rs[0]![0] === 0 && rs[rs.length - 1]![1] === extent && rs.every((r, i) => i === 0 || r[0] === rs[i - 1]![1])

/** Returns the slices of each operand of a run on a grid with more than one tile. */
export const sliceRun = (
  graph: Graph,
  ids: readonly OpId[],
  grid: Grid,
  leaves: ReadonlySet<ValueId>,
  expands = false,
): Either<TileError, SlicedRun> => {
  const ops = mapped(ids, (id) => graph.ops[id]!)
  const exchange = ops.find((op) => ROW_EXCHANGES.includes(op.kind))
  if (exchange) return E.left({ layer: exchange.layer, dim: 'H', why: 'ranks exchange whole rows: end the segment before it' })
  const [update] = ops
  if (update && ops.length === 1 && opDef(update.kind).byRows) return rowsOf(graph, update, grid)
  const readings = readingsOf(graph, ops)
  return pipe(
    TILED_DIMS,
    E.traverseArray((d) => new DimSlicer(graph, ops, readings, leaves, d, grid[d], expands).sliced()),
    E.map((dims) => slicedAlong(graph, ops, grid, leaves, dims, expands)),
  )
}

/** The rows of a dense weight are cut at multiples of this, so that each part begins at an aligned address, as the whole does. */
const ROWS = 16

/** Returns an update of a parameter in parts of rows. The last part may be smaller. */
const rowsOf = (graph: Graph, op: Op, { B, H, W }: Grid): Either<TileError, SlicedRun> => {
  const { shape } = graph.values[op.ins[0]!]!
  const rows = shape[0] ?? 1
  const blocks = Math.ceil(rows / ROWS)
  if (H * W > 1 || B > blocks)
    return E.left({
      layer: op.layer,
      dim: H * W > 1 ? 'H' : 'B',
      why: `a parameter is updated in at most ${blocks} parts of its rows`,
    })
  const one = (d: 'H' | 'W'): Ranges => [[0, shape[dimIndex[d]] ?? 1]]
  const parts = Array.from({ length: B }, (_, i): Range => {
    const [from, to] = tileRange(blocks, B, i)
    return [from * ROWS, Math.min(rows, to * ROWS)]
  })
  const slices: Slices = { B: parts, H: one('H'), W: one('W') }
  return E.right({
    body: [{ op: op.id, slices: mapped(op.ins, (_, i) => (inputDef(opDef(op.kind), i).dims === 'as input 0' ? slices : null)) }],
    keeps: [],
  })
}

const slicedAlong = (
  graph: Graph,
  ops: readonly Op[],
  grid: Grid,
  leaves: ReadonlySet<ValueId>,
  dims: readonly DimSlicer[],
  expands: boolean,
): SlicedRun => {
  const slices = (f: (d: DimSlicer) => Ranges): Slices => ({ B: f(dims[0]!), H: f(dims[1]!), W: f(dims[2]!) })
  const body = mapped(ops, (op): Step => {
    const { ins, outs } = operandsOf(graph, op)
    return {
      op: op.id,
      slices: [
        ...mapped(ins, (o) => (o.def.role === 'whole' ? null : slices((d) => d.read(op, o, d.iteration.get(op.id)!)))),
        ...mapped(outs, (o) => (o.def.role === 'whole' ? null : slices((d) => d.made.get(o.value)!))),
      ],
    }
  })
  const keeps = ops.flatMap((op) =>
    operandsOf(graph, op).outs.flatMap((o) => (leaves.has(o.value) ? [keepOf(graph, op, o, grid, slices, expands)] : [])),
  )
  return { body, keeps }
}

const keepOf = (
  graph: Graph,
  op: Op,
  o: Operand,
  grid: Grid,
  slices: (f: (d: DimSlicer) => Ranges) => Slices,
  expands: boolean,
): Keep => {
  if (o.def.role === 'whole') return { value: o.value, merge: o.def.merge ?? 'sum', slices: null }
  const forward =
    (expands && TILED_DIMS.every((d) => o.access?.[d].tag !== 'reduce')) ||
    (opDef(op.kind).anchor === 'out' &&
      !isGathering(
        opDef(op.kind),
        mapped(operandsOf(graph, op).ins, (i) => i.access),
      ))
  const shape = graph.values[o.value]!.shape
  const part = forward ? slicesOfPieces(shape, grid) : slices((d) => d.made.get(o.value)!)
  const exact = TILED_DIMS.every(
    (d) => tilesExactly(part[d], shape[dimIndex[d]] ?? 1) && !(o.access?.[d].tag === 'reduce' && grid[d] > 1),
  )
  return { value: o.value, slices: part, ...(exact ? {} : { merge: o.def.merge ?? 'sum' }) }
}

const slicesOfPieces = (shape: readonly number[], grid: Grid): Slices => {
  const one = (d: TiledDim): Ranges => Array.from({ length: grid[d] }, (_, i) => tileRange(shape[dimIndex[d]] ?? 1, grid[d], i))
  return { B: one('B'), H: one('H'), W: one('W') }
}

export const sameSlices = (a: Slices, b: Slices): boolean =>
  TILED_DIMS.every((d) => a[d].length === b[d].length && a[d].every((r, i) => sameRange(r, b[d][i]!)))
