// Unrolls segments into the flat list of calls, over cells. In: graph, segments and the machine's workspaces and op times. Out: cells and calls;
// deterministic, so a plan file need not hold them. A segment without tiles has one call for each op; loops are unrolled in loop.ts. Calls that may
// run beside others hold their cells until something reads them.
import type { Box } from '../core/box'
import { mapped } from '../core/mapped'
import { type Graph, isFed, isPersistent, isResult, valueBytes, type ValueId } from '../graph/graph'
import type { Costs } from '../graph/machine'
import { BESIDE, mayStartEarly } from '../graph/ranks'
import { type Known, knownFor } from './callcosts'
import { type GrowingCell, TiledSegment, type Unrolling } from './loop'
import { type Call, type CellScope, type Segment, type Step, tilesOf, type Unrolled, type View } from './plan'

const cellsOf = ({ ins, outs, workspace }: Call): readonly number[] => [
  ...mapped([...ins, ...outs], (v) => v.cell),
  ...(workspace ? [workspace.cell] : []),
]

/** Parts of weights that are put back at once. */
const MOST_PUTS = 4

/** Returns true if it always runs on the lane of exchanges. */
export const goesBeside = ({ kind, attrs }: Pick<Call, 'kind' | 'attrs'>): boolean =>
  BESIDE.includes(kind) && attrs['beside'] === 1

class Expander implements Unrolling {
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
    const isBeside = goesBeside(call) || mayStartEarly(call)
    // Nothing touches a weight again: without a join, its operands would be held to the end of the step.
    if (call.kind === 'put_part' && isBeside && this.puts.push(at) > MOST_PUTS) {
      const earlier = this.puts.shift()!
      if (!this.until.has(earlier)) this.join(earlier, at)
    }
    for (const v of call.ins) this.touch(v.cell, at, isBeside)
    for (const v of call.outs) this.touch(v.cell, at, isBeside)
    if (call.workspace) this.touch(call.workspace.cell, at, isBeside)
    this.calls.push(call)
  }

  private touch(cell: number, at: number, isBeside: boolean): void {
    const c = this.cells[cell]!
    if (c.first < 0) c.first = at
    c.last = at
    if (this.underWay.size > 0) {
      const other = this.underWay.get(cell)
      if (other !== undefined && other !== at) this.join(other, at)
    }
    if (isBeside) this.underWay.set(cell, at)
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

  emitPlumbing(...[kind, attrs, ins, outs, segment, tile]: Parameters<Unrolling['emitPlumbing']>): void {
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

export const expand = (graph: Graph, segments: readonly Segment[], machine: Costs): Unrolled =>
  new Expander(graph, segments, machine).run()
