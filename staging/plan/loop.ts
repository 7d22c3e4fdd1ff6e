// Unrolls the loop over the tiles of one segment. In: the segment, the step so far. Out: the calls of each tile, and local cells of the size of the
// largest tile.
//
// Worked example, one tile of [c1 r1 c2] with c2 left whole in tiles of half the columns: copy (image columns with halo →
// dense local), c1 → local, r1 in place, c2 → local, copy (its columns → the whole c2). Rows of one image are dense where they
// lie, and need neither copy. An accumulated value is zeroed band by band, just before the first tile that adds to a band, so
// that the bands of a large value need not all be there at once.
import { type Box, elementsOf, sameBox, sameRange, shapeOf } from '../core/box'
import { mapped } from '../core/mapped'
import { dtypeBytes, type Graph, type Op, type ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import { callShapes, type Known, type StepCosts } from './callcosts'
import {
  type Call,
  type CellScope,
  type Keep,
  type Plumbing,
  type Segment,
  type Slices,
  type Step,
  tilesOf,
  type View,
} from './plan'
import { boxAt, Boxes, isDense, type TileIndex } from './tileboxes'

/** A cell whose size, values and last call are not known yet. */
export interface GrowingCell {
  readonly id: number
  readonly label: string
  readonly scope: CellScope
  readonly values: ValueId[]
  bytes: number
  readonly segment: number
  first: number
  last: number
}

/** The step that the loop is a part of. */
export interface Unrolling {
  readonly graph: Graph
  readonly known: Known
  readonly cells: readonly GrowingCell[]
  readonly cell: (label: string, scope: CellScope, values: ValueId[], bytes: number, segment?: number) => number
  readonly fullOf: (v: ValueId) => Box
  /** A whole value, or a box of it. */
  readonly wholeView: (v: ValueId, box?: Box) => View
  readonly newWhole: (v: ValueId) => View
  readonly emit: (call: Call) => void
  /** Appends a call that tiling adds: a copy, a sum, zeros. */
  readonly emitPlumbing: (
    kind: Plumbing,
    attrs: Readonly<Record<string, number>>,
    ins: readonly View[],
    outs: readonly View[],
    segment: number,
    tile: number,
  ) => void
}

/** Statistics of each image [B,4G,1,1], as opposed to those of the batch [4,C]. */
const isPerImage = (stats: readonly number[]): boolean => stats.length === 4

const NO_ATTRS = {}

const ZERO = { value: 0 }

const sameView = (a: View, b: View): boolean =>
  a === b || (a.cell === b.cell && a.value === b.value && sameBox(a.box, b.box) && sameBox(a.held, b.held))

/** The views of one place in a loop's body. A plan has millions of views, and most are those of the tile before: these are shared. */
class Views {
  private last: readonly View[] = []

  /** The list of the tile before if it is equal; else a list that shares the equal views. */
  once(views: View[]): readonly View[] {
    const { last } = this
    let isSame = views.length === last.length
    for (let i = 0; i < views.length; i++) {
      if (i < last.length && sameView(views[i]!, last[i]!)) views[i] = last[i]!
      else isSame = false
    }
    if (!isSame) this.last = views
    return this.last
  }
}

/** The calls of one kind, such as copies of an operand, that a loop has at each tile. */
class Plumbed {
  private readonly ins = new Views()
  private readonly outs = new Views()

  constructor(
    private readonly x: Unrolling,
    private readonly segment: number,
    private readonly kind: Plumbing,
  ) {}

  emit(from: View[], to: View, tile: number, attrs: Readonly<Record<string, number>> = NO_ATTRS): void {
    this.x.emitPlumbing(this.kind, attrs, this.ins.once(from), this.outs.once([to]), this.segment, tile)
  }
}

/** The merge or copy of a result into the whole value, after each tile. */
interface Kept {
  readonly keep: Keep
  readonly boxes: Boxes | null
  readonly plumbed: Plumbed
}

/** An operand or a result of a step. Its cell, where it has its own, serves all tiles. */
interface Operand {
  readonly value: ValueId
  /** Null: whole at each tile. */
  readonly boxes: Boxes | null
  readonly bytesPerElement: number
  cell: number
  readonly copied: Plumbed
  readonly kept: Kept | undefined
}

/** A step of the body, with all that it needs at each tile. */
interface TiledStep {
  readonly op: Op
  readonly inPlace: number | undefined
  readonly isDense: boolean
  readonly costs: StepCosts
  readonly ins: readonly Operand[]
  readonly outs: readonly Operand[]
  readonly inViews: Views
  readonly outViews: Views
  scratch: Call['workspace']
}

/** The loop over the tiles of one segment. Local cells are made once, at the size of the largest tile. */
export class TiledSegment {
  private readonly keeps: ReadonlyMap<ValueId, Keep>
  /** The place of each value of the current tile, and its box there. */
  private readonly here = new Map<ValueId, View>()
  private readonly boxes: Boxes[] = []
  private readonly steps: readonly TiledStep[]
  /** For moments, the elements behind those of the tiles [from, to). */
  private readonly merged = new Map<ValueId, { readonly from: number; to: number; count: number }>()

  constructor(
    private readonly x: Unrolling,
    private readonly seg: Segment,
    private readonly s: number,
  ) {
    this.keeps = new Map(mapped(seg.keeps, (k) => [k.value, k]))
    this.steps = mapped(seg.body, (step) => this.tiled(step))
  }

  private tiled(step: Step): TiledStep {
    const op = this.x.graph.ops[step.op]!
    const operand = (value: ValueId, i: number): Operand => ({
      value,
      boxes: this.boxesOf(step.slices![i] ?? null, value),
      bytesPerElement: dtypeBytes[this.x.graph.values[value]!.dtype],
      cell: -1,
      copied: new Plumbed(this.x, this.s, 'copy'),
      kept: i < op.ins.length ? undefined : this.keptAs(value),
    })
    return {
      op,
      inPlace: step.inPlace,
      isDense: opDef(op.kind).dense ?? false,
      costs: this.x.known.stepCosts(step, this.seg.grid),
      ins: mapped(op.ins, operand),
      outs: mapped(op.outs, (v, i) => operand(v, op.ins.length + i)),
      inViews: new Views(),
      outViews: new Views(),
      scratch: null,
    }
  }

  private keptAs(value: ValueId): Kept | undefined {
    const keep = this.keeps.get(value)
    if (!keep) return undefined
    const kind = keep.merge === 'sum' ? 'merge_sum' : keep.merge ? 'merge_moments' : 'copy'
    return { keep, boxes: this.boxesOf(keep.slices, value), plumbed: new Plumbed(this.x, this.s, kind) }
  }

  private boxesOf(slices: Slices | null, v: ValueId): Boxes | null {
    if (!slices) return null
    const full = this.x.fullOf(v)
    const same = this.boxes.find((b) => b.isOf(slices, full))
    if (same) return same
    const boxes = new Boxes(slices, full)
    this.boxes.push(boxes)
    return boxes
  }

  run(): void {
    for (const k of this.seg.keeps) this.x.newWhole(k.value)
    // Gradients of parameters are used in the order of their completion: begun the other way round, their lives nest (memory/rows.ts).
    const sums = this.seg.keeps.filter((k) => k.merge === 'sum').reverse()
    const zeroes = mapped(sums, (k) => this.zeroing(k))
    const g = this.seg.grid
    for (let index = 0; index < tilesOf(g); index++) {
      const t = { index, B: Math.floor(index / (g.H * g.W)), H: Math.floor(index / g.W) % g.H, W: index % g.W }
      this.here.clear()
      for (const zero of zeroes) zero(t)
      for (const step of this.steps) this.step(step, t)
    }
  }

  /** The cell of an operand or of scratch, as large as at the largest tile. */
  private grown(cell: number, label: () => string, value: ValueId | null, bytes: number): number {
    const scope = value === null ? 'workspace' : 'local'
    const own = cell < 0 ? this.x.cell(label(), scope, value === null ? [] : [value], 0, this.s) : cell
    const c = this.x.cells[own]!
    c.bytes = Math.max(c.bytes, bytes)
    return own
  }

  private localView(o: Operand, box: Box): View {
    o.cell = this.grown(o.cell, () => this.x.graph.values[o.value]!.name, o.value, elementsOf(shapeOf(box)) * o.bytesPerElement)
    return { cell: o.cell, value: o.value, held: box, box }
  }

  /** Zeroes the rows that a tile is the first to add to, over the whole width; the last row of tiles zeroes the rest. */
  private zeroing({ value, slices }: Keep): (t: TileIndex) => void {
    const full = this.x.fullOf(value)
    const zeroed = new Plumbed(this.x, this.s, 'fill')
    const fill = (box: Box, t: TileIndex): void => zeroed.emit([], this.x.wholeView(value, box), t.index, ZERO)
    if (!slices) return (t) => t.index === 0 && fill(full, t)
    const rows = slices.H
    // The halos of small tiles all begin at the border: a sum over all tiles has one range throughout.
    const isOne = rows.length > 1 && rows.every((r) => sameRange(r, rows[0]!))
    let done = 0
    return (t) => {
      if (t.W > 0 || (isOne && t.H > 0)) return
      const from = t.H === 0 ? 0 : done
      done = Math.max(from, rows[t.H]![1])
      const to = isOne || t.H === rows.length - 1 ? full[2][1] : rows[t.H]![1]
      if (from < to) fill([slices.B[t.B]!, full[1], [from, to], full[3]], t)
    }
  }

  private step(step: TiledStep, t: TileIndex): void {
    const { op } = step
    const ins = mapped(step.ins, (o) => this.input(step, o, t))
    const outs = mapped(step.outs, (o, i) => this.output(step, o, i, ins, t))
    const { seconds, workspace, way } = step.costs.at(t, () => callShapes(this.x.graph, ins, outs))
    this.x.emit({
      kind: op.kind,
      op: op.id,
      segment: this.s,
      tile: t.index,
      attrs: op.attrs,
      ins: step.inViews.once(ins),
      outs: step.outViews.once(outs),
      workspace: this.scratchOf(step, workspace),
      way,
      seconds,
    })
    for (const o of step.outs) if (o.kept) this.keep(o.kept, this.here.get(o.value)!, op, t)
  }

  private scratchOf(step: TiledStep, bytes: number): Call['workspace'] {
    if (bytes === 0) return null
    if (step.scratch?.bytes !== bytes) {
      const cell = this.grown(step.scratch?.cell ?? -1, () => `${step.op.layer} workspace`, null, bytes)
      step.scratch = { cell, bytes }
    }
    return step.scratch
  }

  private input({ isDense: needsDense }: TiledStep, o: Operand, t: TileIndex): View {
    const held = this.here.get(o.value) ?? this.x.wholeView(o.value)
    if (!o.boxes) return held
    const box = o.boxes.at(t)
    // A loop mostly reads its own results unchanged.
    const view = box === held.box ? held : { cell: held.cell, value: held.value, held: held.held, box }
    if (!needsDense || isDense(view.held, view.box)) return view
    const copy = this.localView(o, view.box)
    o.copied.emit([view], copy, t.index)
    return copy
  }

  private output(step: TiledStep, o: Operand, i: number, ins: readonly View[], t: TileIndex): View {
    const { value, kept } = o
    const box = o.boxes ? o.boxes.at(t) : this.x.fullOf(value)
    let view: View
    if (i === 0 && step.inPlace !== undefined) {
      const cell = ins[step.inPlace]!.cell
      const c = this.x.cells[cell]!
      if (!c.values.includes(value)) c.values.push(value)
      view = { cell, value, held: box, box }
    } else if (
      kept &&
      !kept.keep.merge &&
      sameBox(box, this.keptBox(kept, t)) &&
      (!step.isDense || isDense(this.x.fullOf(value), box))
    )
      view = this.x.wholeView(value, box)
    else view = this.localView(o, box)
    this.here.set(value, view)
    return view
  }

  private keptBox({ keep, boxes }: Kept, t: TileIndex): Box {
    return boxes ? boxes.at(t) : this.x.fullOf(keep.value)
  }

  /** Adds or copies the tile's part into the whole value. */
  private keep(kept: Kept, made: View, op: Op, t: TileIndex): void {
    const { keep, plumbed } = kept
    const whole = this.x.wholeView(keep.value, this.keptBox(kept, t))
    if (made.cell === whole.cell) return
    const part = { cell: made.cell, value: made.value, held: made.held, box: whole.box }
    const isMoments = keep.merge && keep.merge !== 'sum'
    plumbed.emit([part], whole, t.index, isMoments ? this.counts(op, made, t) : NO_ATTRS)
  }

  /** Elements behind each of this tile's partial moments, and behind those merged so far: those of the same images, where images have their own. */
  private counts(op: Op, moments: View, t: TileIndex): { countX: number; countY: number } {
    const slices = this.seg.body.find((x) => x.op === op.id)!.slices![0]!
    const full = this.x.fullOf(op.ins[0]!)
    const g = this.seg.grid
    const statistics = elementsOf(shapeOf(moments.box)) / 4
    const size = (b: number, h: number, w: number): number =>
      elementsOf(shapeOf(boxAt(slices, full, { index: 0, B: b, H: h, W: w }))) / statistics
    const from = isPerImage(this.x.graph.values[moments.value]!.shape) ? t.B * g.H * g.W : 0
    const before = this.merged.get(moments.value)
    const merged = before?.from === from ? before : { from, to: from, count: 0 }
    this.merged.set(moments.value, merged)
    for (let i = merged.to; i < t.index; i++)
      merged.count += size(Math.floor(i / (g.H * g.W)), Math.floor(i / g.W) % g.H, i % g.W)
    merged.to = t.index
    return { countX: size(t.B, t.H, t.W), countY: merged.count }
  }
}
