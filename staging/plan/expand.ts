// Unrolls segments into the flat list of calls, over cells. In: graph, segments and the machine's workspaces and op times.
// Out: cells and calls; deterministic, so a plan file need not hold them.
//
// Worked example, one tile of [c1 r1 c2] with c2 left whole in tiles of half the columns: copy (image columns with halo →
// dense local), c1 → local, r1 in place, c2 → local, copy (its columns → the whole c2); rows of one image are dense where they
// lie, and need neither copy. An accumulated value is zeroed band by band, just before the first tile that adds to a band, so
// that the bands of a large value need not all be there at once.
import { mapped } from '../core/mapped'
import { ALIGN_BYTES, alignUp } from '../core/bytes'
import { type Box, elementsOf, extentOf, fullBox, type Range, sameBox, sameRange, shapeIn, shapeOf } from '../core/box'
import { onceForPair } from '../core/remember'
import { halfOf } from '../graph/check'
import {
  type Graph,
  type Op,
  valueBytes,
  dtypeBytes,
  isFed,
  isLaid,
  isOfWeight,
  isPersistent,
  isResult,
  type ValueId,
} from '../graph/graph'
import { type Choice, type Costs, fastest } from '../graph/machine'
import { originIn } from '../graph/bands'
import { BESIDE, mayBeginEarly, wholeShape } from '../graph/ranks'
import { alignmentOf, anchorOf, callKey, type Windowed, windowedOf } from '../ops/callkey'
import { asShape, type CallShapes, type Whereabouts } from '../ops/op'
import { opDef } from '../ops/registry'
import {
  type Call,
  type CellScope,
  type Grid,
  type Keep,
  type Plumbing,
  type Segment,
  type Slices,
  type Step,
  tilesOf,
  type Unrolled,
  type View,
} from './plan'

interface GrowingCell {
  readonly id: number
  label: string
  scope: CellScope
  values: ValueId[]
  bytes: number
  segment: number
  first: number
  last: number
}

interface TileIndex {
  readonly index: number
  readonly B: number
  readonly H: number
  readonly W: number
}

/** The box of an operand at one tile; channels are whole. */
const boxAt = (s: Slices, full: Box, t: TileIndex): Box => [s.B[t.B]!, full[1], s.H[t.H]!, s.W[t.W]!]

/** Returns true if a box is one run of bytes inside the holding one (channels-last: B, H, W, C from the outside in). */
export const isDense = (held: Box, box: Box): boolean => {
  const full = (i: 0 | 1 | 2 | 3): boolean => extentOf(held[i]) === extentOf(box[i])
  const one = (i: 0 | 1 | 2 | 3): boolean => extentOf(box[i]) === 1
  const outerOne = (i: 0 | 2 | 3): boolean => (i === 0 ? true : i === 2 ? one(0) : one(0) && one(2))
  return full(1) && (full(3) || outerOne(3)) && (full(2) || outerOne(2))
}

const cellsOf = ({ ins, outs, workspace }: Call): readonly number[] => [
  ...mapped([...ins, ...outs], (v) => v.cell),
  ...(workspace ? [workspace.cell] : []),
]

/** Parts of weights that are put back at once. */
const MOST_PUTS = 4

/** Returns true if it always runs on the lane of exchanges. */
export const goesBeside = ({ kind, attrs }: Pick<Call, 'kind' | 'attrs'>): boolean =>
  BESIDE.includes(kind) && attrs['beside'] === 1

/** Statistics of each image [B,4G,1,1], as opposed to those of the batch [4,C]. */
const isPerImage = (stats: readonly number[]): boolean => stats.length === 4

/** The shapes of a call for a machine. */
export const callShapes = (graph: Graph, ins: readonly View[], outs: readonly View[]): CallShapes => {
  const shape = (v: View): readonly number[] => shapeIn(v.box, graph.values[v.value]!.shape)
  const where = (v: View): Whereabouts => {
    const value = graph.values[v.value]!
    return value.shape.length === 4 && !isOfWeight(graph, value)
      ? { origin: originIn(value, v.box), extent: wholeShape(graph, value) }
      : { origin: mapped(value.shape, () => 0), extent: shape(v) }
  }
  const half = halfOf(mapped([...ins, ...outs], (v) => graph.values[v.value]!))
  const laid = ins.some((v) => isLaid(graph.values[v.value]!))
  return {
    ins: mapped(ins, shape),
    outs: mapped(outs, shape),
    at: { ins: mapped(ins, where), outs: mapped(outs, where) },
    ...(half ? { half } : {}),
    ...(laid ? { laid } : {}),
  }
}

interface Alike {
  readonly kinds: readonly string[]
  readonly of: readonly number[]
}

/** Equal for the indices along a dimension whose boxes have one shape and the same borders. */
type KindOf = (dim: 'B' | 'H' | 'W', i: number) => string

const alongOf = { B: 0, H: 2, W: 3 } as const

const kindsOf = (graph: Graph, known: Known, op: Op, step: Step): KindOf => {
  const slices = step.slices!
  const values = mapped([...op.ins, ...op.outs], (v) => graph.values[v]!)
  const windowed = known.windowsOf(op)
  const anchor = anchorOf(op.kind, op.ins.length)
  return (dim, i) => {
    const d = alongOf[dim]
    const at = (operand: number): Range => slices[operand]?.[dim][i] ?? [0, values[operand]?.shape[d] ?? 1]
    let kind = ''
    for (const s of slices) kind += s ? `${s[dim][i]![1] - s[dim][i]![0]},` : ','
    for (const { operand, windows, d: of } of windowed)
      if (of === d) kind += `|${alignmentOf(windows, at(anchor), at(operand)[0], wholeShape(graph, values[operand]!)[d] ?? 1)}`
    return kind
  }
}

/** The costs of a loop's tiles at one of its steps: tiles whose boxes have one shape and the same borders cost the same. */
class StepCosts {
  private readonly choices: (Choice | undefined)[] = []
  /** For each dimension, the kinds of indices along it, and the kind of each index. */
  private readonly alike: Readonly<Record<'B' | 'H' | 'W', Alike>>

  constructor(
    graph: Graph,
    private readonly known: Known,
    private readonly op: Op,
    step: Step,
    grid: Grid,
  ) {
    const kindOf = kindsOf(graph, known, op, step)
    const along = (dim: 'B' | 'H' | 'W'): Alike => {
      const kinds: string[] = []
      const of = new Array<number>(grid[dim])
      for (let i = 0; i < grid[dim]; i++) {
        const kind = kindOf(dim, i)
        const known = kinds.indexOf(kind)
        of[i] = known < 0 ? kinds.push(kind) - 1 : known
      }
      return { kinds, of }
    }
    this.alike = { B: along('B'), H: along('H'), W: along('W') }
  }

  at(t: TileIndex, shapes: () => CallShapes): Choice {
    const { B, H, W } = this.alike
    const [b, h, w] = [B.of[t.B]!, H.of[t.H]!, W.of[t.W]!]
    const key = (b * H.kinds.length + h) * W.kinds.length + w
    const known = this.choices[key] ?? this.known.tileCost(this.op, `${B.kinds[b]};${H.kinds[h]};${W.kinds[w]}`, shapes)
    this.choices[key] = known
    return known
  }
}

/** Facts for all expansions of a graph for a machine: full boxes, and the ways to run calls. */
class Known {
  readonly boxes: readonly Box[]
  private readonly whole: (Choice | undefined)[] = []
  private readonly costs = new Map<string, Choice>()
  private readonly plumbing = new Map<string, number>()
  private readonly alike = new Map<string, Choice>()
  private readonly windows: (readonly Windowed[] | undefined)[] = []
  private readonly steps = new WeakMap<Step, StepCosts>()

  constructor(
    private readonly graph: Graph,
    private readonly machine: Costs,
  ) {
    this.boxes = mapped(graph.values, (v) => fullBox(asShape(v.shape)))
  }

  private choice(op: Op, shapes: CallShapes): Choice {
    const best = fastest(this.machine, op.kind, op.attrs, shapes)
    return { ...best, workspace: alignUp(best.workspace, ALIGN_BYTES) }
  }

  private cost(op: Op, shapes: CallShapes): Choice {
    const key = callKey(op.kind, op.attrs, shapes)
    const known = this.costs.get(key) ?? this.choice(op, shapes)
    this.costs.set(key, known)
    return known
  }

  /** The windowed operands of an op: those of its tiles, too. */
  windowsOf(op: Op): readonly Windowed[] {
    const shape = (v: ValueId): readonly number[] => this.graph.values[v]!.shape
    const known =
      this.windows[op.id] ?? windowedOf(op.kind, op.attrs, { ins: mapped(op.ins, shape), outs: mapped(op.outs, shape) })
    this.windows[op.id] = known
    return known
  }

  /** The costs of a loop's step at its tiles. */
  stepCosts(step: Step, grid: Grid): StepCosts {
    const known = this.steps.get(step) ?? new StepCosts(this.graph, this, this.graph.ops[step.op]!, step, grid)
    this.steps.set(step, known)
    return known
  }

  /** The cost of a tile of an op; `like` is equal for tiles whose boxes have one shape and the same borders. */
  tileCost(op: Op, like: string, shapes: () => CallShapes): Choice {
    const key = `${op.id} ${like}`
    const known = this.alike.get(key) ?? this.cost(op, shapes())
    this.alike.set(key, known)
    return known
  }

  /** Moves and fills without attributes cost the same for boxes of the same shape. */
  plumbingSeconds(kind: Plumbing, attrs: Record<string, number>, ins: readonly View[], outs: readonly View[]): number {
    const seconds = (): number => this.machine.seconds(kind, attrs, callShapes(this.graph, ins, outs))
    if (kind === 'merge_moments') return seconds()
    const key = `${kind} ${this.shapeKey(outs[0]!)}${ins[0] ? ` ${this.shapeKey(ins[0])}` : ''}`
    const known = this.plumbing.get(key) ?? seconds()
    this.plumbing.set(key, known)
    return known
  }

  private shapeKey({ value, box: [b, c, h, w] }: View): string {
    const v = this.graph.values[value]!
    return v.shape.length === 4
      ? `${v.dtype}${b[1] - b[0]},${c[1] - c[0]},${h[1] - h[0]},${w[1] - w[0]}`
      : `${v.dtype}${v.shape.join()}`
  }

  /** An op over whole values costs the same wherever they lie. Few such ops are alike: a key takes longer than a cost. */
  wholeCost(op: Op, ins: readonly View[], outs: readonly View[]): Choice {
    const cost = this.whole[op.id] ?? this.choice(op, callShapes(this.graph, ins, outs))
    this.whole[op.id] = cost
    return cost
  }
}

const knownFor = onceForPair((graph: Graph, machine: Costs) => new Known(graph, machine))

const indexOfLargest = (ranges: readonly Range[]): number =>
  ranges.reduce((best, r, i) => (r[1] - r[0] > ranges[best]![1] - ranges[best]![0] ? i : best), 0)

/** The scratch that a step of a loop takes at its largest tile: of the others nothing is worked out. */
export const tileScratch = (graph: Graph, machine: Costs, step: Step): number => {
  const op = graph.ops[step.op]!
  const known = knownFor(graph, machine)
  const first = step.slices!.find((s) => s !== null)
  if (!first) return 0
  const t = { index: 0, B: indexOfLargest(first.B), H: indexOfLargest(first.H), W: indexOfLargest(first.W) }
  const views = (): readonly View[] =>
    mapped([...op.ins, ...op.outs], (value, i) => {
      const held = known.boxes[value]!
      const slices = step.slices![i]
      return { cell: -1, value, held, box: slices ? boxAt(slices, held, t) : held }
    })
  const shapes = (): CallShapes => callShapes(graph, views().slice(0, op.ins.length), views().slice(op.ins.length))
  const kindOf = kindsOf(graph, known, op, step)
  return known.tileCost(op, `${kindOf('B', t.B)};${kindOf('H', t.H)};${kindOf('W', t.W)}`, shapes).workspace
}

class Expander {
  readonly cells: GrowingCell[] = []
  readonly calls: Call[] = []
  readonly known: Known
  private readonly whole = new Map<ValueId, View>()
  /** Calls that go on beside others, by the cells that they touch, and where each is waited for. */
  private readonly underWay = new Map<number, number>()
  private readonly until = new Map<number, number>()
  private readonly puts: number[] = []

  constructor(
    readonly graph: Graph,
    readonly segments: readonly Segment[],
    readonly machine: Costs,
  ) {
    this.known = knownFor(graph, machine)
    for (const v of graph.values)
      if (isPersistent(v) || v.role === 'loss') this.wholeIn(v.id, this.cell(v.name, 'persistent', [v.id], valueBytes(v)))
      else if (isFed(v)) this.wholeIn(v.id, this.cell(v.name, 'fed', [v.id], valueBytes(v)))
      else if (v.role === 'output') this.wholeIn(v.id, this.cell(v.name, 'output', [v.id], valueBytes(v)))
  }

  run(): Unrolled {
    this.segments.forEach((seg, s) => {
      if (tilesOf(seg.grid) > 1) new TiledSegment(this, seg, s).run()
      else seg.body.forEach((step) => this.untiled(step, s))
    })
    for (const call of new Set(this.underWay.values())) this.join(call, this.calls.length)
    for (const c of this.cells) c.first = Math.max(0, c.first)
    for (const [i, until] of this.until) {
      const c = this.calls[i]!
      this.calls[i] = { ...c, seconds: 0, beside: { until, seconds: c.seconds } }
    }
    return { calls: this.calls, cells: this.cells }
  }

  cell(label: string, scope: CellScope, values: ValueId[], bytes: number, segment = -1): number {
    const id = this.cells.length
    this.cells.push({ id, label, scope, values, bytes, segment, first: -1, last: -1 })
    return id
  }

  wholeView(v: ValueId, box?: Box): View {
    const view = this.whole.get(v)
    if (view === undefined) throw new Error(`value ${this.graph.values[v]!.name} (${v}) is read before it is computed`)
    return box ? { cell: view.cell, value: v, held: view.held, box } : view
  }

  fullOf(v: ValueId): Box {
    return this.known.boxes[v]!
  }

  private wholeIn(v: ValueId, cell: number): View {
    const held = this.fullOf(v)
    const view = { cell, value: v, held, box: held }
    this.whole.set(v, view)
    return view
  }

  newWhole(v: ValueId): View {
    const value = this.graph.values[v]!
    // A loss is read after the step: it has a permanent place, among the parameters. So has an output, until it leaves.
    return isResult(value) ? this.whole.get(v)! : this.wholeIn(v, this.cell(value.name, 'whole', [v], valueBytes(value)))
  }

  emit(call: Call): void {
    const at = this.calls.length
    const isBeside = goesBeside(call) || mayBeginEarly(call)
    // Nothing touches a weight again: without a join, its operands would be held to the end of the step.
    if (call.kind === 'put_part' && isBeside && this.puts.push(at) > MOST_PUTS) {
      const earlier = this.puts.shift()!
      if (!this.until.has(earlier)) this.join(earlier, at)
    }
    const touch = (cell: number): void => {
      const c = this.cells[cell]!
      if (c.first < 0) c.first = at
      c.last = at
      const other = this.underWay.get(cell)
      if (other !== undefined && other !== at) this.join(other, at)
      if (isBeside) this.underWay.set(cell, at)
    }
    for (const v of call.ins) touch(v.cell)
    for (const v of call.outs) touch(v.cell)
    if (call.workspace) touch(call.workspace.cell)
    this.calls.push(call)
  }

  /** From this point on its cells may be used. Calls that need not run beside others do so if there are some. */
  private join(call: number, at: number): void {
    if (goesBeside(this.calls[call]!) || at > call + 1) this.until.set(call, at)
    for (const cell of cellsOf(this.calls[call]!)) {
      const c = this.cells[cell]!
      c.last = Math.max(c.last, at - 1)
      this.underWay.delete(cell)
    }
  }

  plumb(
    kind: Plumbing,
    attrs: Readonly<Record<string, number>>,
    ins: readonly View[],
    outs: readonly View[],
    segment: number,
    tile: number,
  ): void {
    const isSome = (v: View): boolean => v.box.every((r) => r[1] > r[0])
    const seconds = ins.some(isSome) || outs.some(isSome) ? this.known.plumbingSeconds(kind, attrs, ins, outs) : 0
    this.emit({ kind, op: -1, segment, tile, attrs, ins, outs, workspace: null, seconds })
  }

  private untiled(step: Step, segment: number): void {
    const op = this.graph.ops[step.op]!
    const ins = mapped(op.ins, (v) => this.wholeView(v))
    const outs = mapped(op.outs, (v, i) => {
      if (i > 0 || step.inPlace === undefined) return this.newWhole(v)
      const { cell } = ins[step.inPlace]!
      this.cells[cell]!.values.push(v)
      return this.wholeIn(v, cell)
    })
    const { seconds, workspace, way } = this.known.wholeCost(op, ins, outs)
    const scratch =
      workspace > 0 ? { cell: this.cell(`${op.layer} workspace`, 'workspace', [], workspace), bytes: workspace } : null
    this.emit({ kind: op.kind, op: op.id, segment, tile: 0, attrs: op.attrs, ins, outs, workspace: scratch, way, seconds })
  }
}

const NO_ATTRS = {}
const ZERO = { value: 0 }
const sameView = (a: View, b: View): boolean =>
  a === b || (a.cell === b.cell && a.value === b.value && sameBox(a.box, b.box) && sameBox(a.held, b.held))

/** The loop over the tiles of one segment. Local cells are made once, at the size of the largest tile. */
class TiledSegment {
  private readonly keeps: ReadonlyMap<ValueId, Keep>
  private readonly locals = new Map<string, number>()
  /** The place of each value of the current tile, and its box there. */
  private here = new Map<ValueId, View>()
  private readonly costs: readonly StepCosts[]
  /** The boxes of the current tile, each once. */
  private boxes: Box[] = []
  /** The last operands, results and scratch of its calls: plans have millions of views, and most do not change. */
  private readonly views = new Map<string, readonly View[]>()
  private readonly scratch = new Map<number, NonNullable<Call['workspace']>>()
  /** For moments, the elements behind those of the tiles [from, to). */
  private readonly merged = new Map<ValueId, { readonly from: number; to: number; count: number }>()

  constructor(
    private readonly x: Expander,
    private readonly seg: Segment,
    private readonly s: number,
  ) {
    this.keeps = new Map(mapped(seg.keeps, (k) => [k.value, k]))
    this.costs = mapped(seg.body, (step) => x.known.stepCosts(step, seg.grid))
  }

  run(): void {
    for (const k of this.seg.keeps) this.x.newWhole(k.value)
    // Gradients of parameters are used in the order of their completion: begun the other way round, their lives nest (memory/rows.ts).
    const sums = this.seg.keeps.filter((k) => k.merge === 'sum').reverse()
    const zeroes = mapped(sums, (k) => this.zeroing(k))
    const g = this.seg.grid
    for (let index = 0; index < tilesOf(g); index++) {
      const t = { index, B: Math.floor(index / (g.H * g.W)), H: Math.floor(index / g.W) % g.H, W: index % g.W }
      this.here = new Map()
      this.boxes = []
      for (const zero of zeroes) zero(t)
      this.seg.body.forEach((step, k) => this.step(step, k, t))
    }
  }

  /** The same list as the last one of that name, where it is alike; else a list of as many of its views as are. */
  private once(name: string, views: readonly View[]): readonly View[] {
    const last = this.views.get(name)
    const alike = last ? mapped(views, (v, i) => (sameView(v, last[i]!) ? last[i]! : v)) : views
    const same = last && alike.every((v, i) => v === last[i]) ? last : alike
    this.views.set(name, same)
    return same
  }

  private plumb(
    kind: Plumbing,
    attrs: Record<string, number>,
    ins: readonly View[],
    outs: readonly View[],
    name: string,
    t: TileIndex,
  ): void {
    this.x.plumb(kind, attrs, this.once(`${name} ins`, ins), this.once(`${name} outs`, outs), this.s, t.index)
  }

  private local(key: string, label: string, value: ValueId | null, bytes: number): number {
    let cell = this.locals.get(key)
    if (cell === undefined) {
      cell = this.x.cell(label, value === null ? 'workspace' : 'local', value === null ? [] : [value], 0, this.s)
      this.locals.set(key, cell)
    }
    const c = this.x.cells[cell]!
    c.bytes = Math.max(c.bytes, bytes)
    return cell
  }

  private localView(key: string, value: ValueId, box: Box): View {
    const v = this.x.graph.values[value]!
    const bytes = elementsOf(shapeOf(box)) * dtypeBytes[v.dtype]
    return { cell: this.local(key, v.name, value, bytes), value, held: box, box }
  }

  /** Zeroes the rows that a tile is the first to add to, over the whole width; the last row of tiles zeroes the rest. */
  private zeroing({ value, slices }: Keep): (t: TileIndex) => void {
    const full = this.x.fullOf(value)
    const fill = (box: Box, t: TileIndex): void =>
      this.plumb('fill', ZERO, [], [this.x.wholeView(value, box)], `${value} zeroed`, t)
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

  private boxAt(slices: Slices, v: ValueId, t: TileIndex): Box {
    const box = boxAt(slices, this.x.fullOf(v), t)
    const same = this.boxes.find((b) => sameBox(b, box))
    if (same) return same
    this.boxes.push(box)
    return box
  }

  private step(step: Step, k: number, t: TileIndex): void {
    const op = this.x.graph.ops[step.op]!
    const ins = mapped(op.ins, (v, i) => this.input(op, v, step.slices![i]!, `${k}.in${i}`, t))
    const outs = mapped(op.outs, (v, i) => this.output(op, step, v, i, ins, `${k}.out${i}`, t))
    const { seconds, workspace, way } = this.costs[k]!.at(t, () => callShapes(this.x.graph, ins, outs))
    this.x.emit({
      kind: op.kind,
      op: op.id,
      segment: this.s,
      tile: t.index,
      attrs: op.attrs,
      ins: this.once(`${k} ins`, ins),
      outs: this.once(`${k} outs`, outs),
      workspace: this.scratchOf(k, op, workspace),
      way,
      seconds,
    })
    op.outs.forEach((v, i) => this.keep(op.outs[i]!, this.here.get(v)!, op, t))
  }

  private scratchOf(k: number, op: Op, bytes: number): Call['workspace'] {
    if (bytes === 0) return null
    const last = this.scratch.get(k)
    if (last?.bytes === bytes) return last
    const made = { cell: this.local(`${k}.ws`, `${op.layer} workspace`, null, bytes), bytes }
    this.scratch.set(k, made)
    return made
  }

  private input(op: Op, v: ValueId, slices: Slices | null, key: string, t: TileIndex): View {
    const held = this.here.get(v) ?? this.x.wholeView(v)
    if (!slices) return held
    const box = this.boxAt(slices, v, t)
    // A loop mostly reads its own results unchanged: plans have millions of views.
    const view = box === held.box ? held : { cell: held.cell, value: held.value, held: held.held, box }
    if (!opDef(op.kind).dense || isDense(view.held, view.box)) return view
    const copy = this.localView(key, v, view.box)
    this.plumb('copy', NO_ATTRS, [view], [copy], `${key} copied`, t)
    return copy
  }

  private output(op: Op, step: Step, v: ValueId, i: number, ins: readonly View[], key: string, t: TileIndex): View {
    const slices = step.slices![op.ins.length + i] ?? null
    const keep = this.keeps.get(v)
    const box = slices ? this.boxAt(slices, v, t) : this.x.fullOf(v)
    let view: View
    if (i === 0 && step.inPlace !== undefined) {
      const cell = ins[step.inPlace]!.cell
      const c = this.x.cells[cell]!
      if (!c.values.includes(v)) c.values.push(v)
      view = { cell, value: v, held: box, box }
    } else if (
      keep !== undefined &&
      !keep.merge &&
      sameBox(box, this.keptBox(keep, t)) &&
      (!opDef(op.kind).dense || isDense(this.x.fullOf(v), box))
    )
      view = this.x.wholeView(v, box)
    else view = this.localView(key, v, box)
    this.here.set(v, view)
    return view
  }

  private keptBox(k: Keep, t: TileIndex): Box {
    return k.slices ? this.boxAt(k.slices, k.value, t) : this.x.fullOf(k.value)
  }

  /** Adds or copies the tile's part into the whole value. */
  private keep(v: ValueId, made: View, op: Op, t: TileIndex): void {
    const k = this.keeps.get(v)
    if (!k) return
    const whole = this.x.wholeView(v, this.keptBox(k, t))
    if (made.cell === whole.cell) return
    const part = { cell: made.cell, value: made.value, held: made.held, box: whole.box }
    const name = `${v} kept`
    if (!k.merge) this.plumb('copy', NO_ATTRS, [part], [whole], name, t)
    else if (k.merge === 'sum') this.plumb('merge_sum', NO_ATTRS, [part], [whole], name, t)
    else this.plumb('merge_moments', this.counts(op, made, t), [part], [whole], name, t)
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

export const expand = (graph: Graph, segments: readonly Segment[], machine: Costs): Unrolled =>
  new Expander(graph, segments, machine).run()
