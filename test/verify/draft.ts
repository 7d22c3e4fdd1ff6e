// Plans by hand, a call at a time, for tests of the verifier: nothing here comes from a planner.
// In: a training graph, calls with their rows, stays that differ from "from first to last use". Out: a plan.
import { alignUp, bytesOf, PAGE_BYTES, pagesFor } from '../../staging/core/bytes'
import { type Box, elementsOf, fullBox, type Range } from '../../staging/core/box'
import { dtypeBytes, type Graph } from '../../staging/graph/graph'
import { asShape } from '../../staging/ops/op'
import type { Call, CellScope, Grid, Plan, Plumbing, Residency, SegmentPhase, View } from '../../staging/plan/plan'

type Mutable<T> = T extends object ? { -readonly [K in keyof T]: Mutable<T[K]> } : T
export type MutablePlan = Mutable<Plan>

/** An operand: a value, and the rows of it that are held and touched. */
export interface Operand {
  readonly cell: number
  readonly value: number
  readonly rows?: Range
  readonly held?: Range
  readonly channels?: Range
  readonly columns?: Range
}
type Stay = Partial<Omit<Residency, 'storage' | 'runs' | 'from' | 'to'>> & { readonly acquire: number; readonly release: number }

interface DraftCell {
  label: string
  scope: CellScope
  values: number[]
  bytes: number
  segment: number
}
interface DraftSegment {
  name: string
  phase: SegmentPhase
  grid: Grid
  ops: Set<number>
}

export class PlanByHand {
  private readonly cells: DraftCell[] = []
  private readonly calls: Call[] = []
  private readonly segments: DraftSegment[] = []
  private readonly stays = new Map<number, readonly Stay[]>()
  private tile = 0

  constructor(readonly graph: Graph) {
    for (const v of graph.values)
      if (v.role === 'param' || v.role === 'state') this.cell(v.name, 'persistent')
      else if (v.role === 'input' || v.role === 'target') this.cell(v.name, 'fed')
  }

  value(name: string): number {
    const v = this.graph.values.findIndex((x) => x.name === name)
    if (v < 0) throw new Error(`no value '${name}' among ${this.graph.values.map((x) => x.name).join(', ')}`)
    return v
  }
  /** A cell for a value; locals are as large as the rows they are for. */
  cell(name: string, scope: CellScope, rows?: number): number {
    const value = this.value(name)
    const shape = [...this.graph.values[value]!.shape]
    if (rows !== undefined) shape[2] = rows
    const bytes = elementsOf(shape) * dtypeBytes[this.graph.values[value]!.dtype]
    return (
      this.cells.push({
        label: name,
        scope,
        values: [value],
        bytes,
        segment: scope === 'local' ? this.segments.length - 1 : -1,
      }) - 1
    )
  }
  scratch(bytes: number): number {
    return this.cells.push({ label: 'scratch', scope: 'workspace', values: [], bytes, segment: -1 }) - 1
  }
  /** The latest cell with the whole value. */
  home(name: string): number {
    const value = this.value(name)
    for (let c = this.cells.length - 1; c >= 0; c--)
      if (this.cells[c]!.values[0] === value && this.cells[c]!.scope !== 'local') return c
    return this.cell(name, 'whole')
  }
  of(name: string, rows?: Range): Operand {
    return { cell: this.home(name), value: this.value(name), ...(rows ? { rows } : {}) }
  }
  local(cell: number, held: Range, rows: Range = held): Operand {
    return { cell, value: this.cells[cell]!.values[0]!, held, rows }
  }

  segment(name: string, phase: SegmentPhase, tiles = 1): void {
    this.segments.push({ name, phase, grid: { B: 1, H: tiles, W: 1 }, ops: new Set() })
    this.tile = 0
  }
  nextTile(tile: number): void {
    this.tile = tile
  }

  private view(o: Operand): View {
    const full = fullBox(asShape(this.graph.values[o.value]!.shape))
    const box = (rows: Range | undefined, inner: boolean): Box => [
      full[0],
      (inner && o.channels) || full[1],
      rows ?? full[2],
      (inner && o.columns) || full[3],
    ]
    return { cell: o.cell, value: o.value, held: box(o.held, false), box: box(o.rows ?? o.held, true) }
  }
  run(layer: string, kind: string, ins: readonly Operand[], outs: readonly Operand[], scratch?: number): number {
    const op = this.graph.ops.find((o) => o.kind === kind && o.layer === layer)
    if (!op) throw new Error(`no ${kind} of ${layer} among ${this.graph.ops.map((o) => `${o.kind} ${o.layer}`).join(', ')}`)
    return this.runOp(op.id, ins, outs, scratch)
  }
  runOp(id: number, ins: readonly Operand[], outs: readonly Operand[], scratch?: number): number {
    const op = this.graph.ops[id]!
    this.segments.at(-1)!.ops.add(id)
    const workspace = scratch === undefined ? null : { cell: scratch, bytes: this.cells[scratch]!.bytes }
    return this.push({
      kind: op.kind,
      op: id,
      attrs: op.attrs,
      ins: ins.map((o) => this.view(o)),
      outs: outs.map((o) => this.view(o)),
      workspace,
    })
  }
  plumb(kind: Plumbing, ins: readonly Operand[], outs: readonly Operand[], attrs: Record<string, number> = {}): number {
    return this.push({
      kind,
      op: -1,
      attrs,
      ins: ins.map((o) => this.view(o)),
      outs: outs.map((o) => this.view(o)),
      workspace: null,
    })
  }
  private push(c: Pick<Call, 'kind' | 'op' | 'attrs' | 'ins' | 'outs' | 'workspace'>): number {
    for (const v of c.outs) {
      const { values } = this.cells[v.cell]!
      if (!values.includes(v.value)) values.push(v.value)
    }
    return this.calls.push({ ...c, segment: this.segments.length - 1, tile: this.tile, seconds: 1e-6 }) - 1
  }
  get here(): number {
    return this.calls.length
  }

  /** When a cell's pages are on the device, instead of from its first to its last use. */
  stay(cell: number, ...stays: readonly Stay[]): void {
    this.stays.set(cell, stays)
  }

  /** Every cell has a storage of its own; pages are given in order of acquisition, the lowest free first. */
  finish(): MutablePlan {
    const uses = this.cells.map((_, c) =>
      this.calls.flatMap((call, i) =>
        [...call.ins, ...call.outs].some((v) => v.cell === c) || call.workspace?.cell === c ? [i] : [],
      ),
    )
    const end = this.calls.length
    const cells = this.cells.map((c, id) => ({ ...c, id, first: uses[id]![0] ?? 0, last: uses[id]!.at(-1) ?? 0 }))
    const residencies = cells
      .flatMap((c, storage) =>
        this.staysOf(c.id, c.scope, c.first, c.last + 1, end).map((s) => ({
          ...s,
          storage,
          from: 0,
          to: pagesFor(c.bytes),
        })),
      )
      .sort((a, b) => a.acquire - b.acquire)
    const { paged, peakPages } = givePages(residencies)
    const tierBytes = Math.max(0, ...paged.map((r) => (r.tierOffset ?? -PAGE_BYTES) + bytesOf(r.to - r.from)))
    return structuredClone({
      graph: this.graph,
      strategy: 'by hand',
      machine: 'none',
      algorithms: 'fixed',
      budgetBytes: bytesOf(peakPages),
      segments: this.segments.map(({ ops, ...s }) => ({ ...s, body: [...ops].map((op) => ({ op })), keeps: [] })),
      cells,
      calls: this.calls,
      storages: cells.map((c) => ({ id: c.id, label: c.label, bytes: alignUp(c.bytes, 64), cells: [c.id] })),
      places: cells.map((c) => ({ storage: c.id, offset: 0 })),
      residencies: paged,
      peakPages,
      tierBytes,
    }) as unknown as MutablePlan
  }
  private staysOf(cell: number, scope: CellScope, first: number, last: number, end: number): readonly Stay[] {
    const given = this.stays.get(cell)
    if (given) return given
    if (scope === 'persistent') return [{ acquire: 0, release: end }]
    if (scope === 'fed') return [{ acquire: first, release: last, swapIn: { ready: first, from: 'source' } }]
    const loss = this.cells[cell]!.values.some((v) => this.graph.values[v]!.role === 'loss')
    return [{ acquire: first, release: loss ? end : last }]
  }
}

const givePages = (
  list: readonly Omit<Residency, 'runs'>[],
): { readonly paged: readonly Residency[]; readonly peakPages: number } => {
  const until: number[] = []
  let peakPages = 0
  const paged = list.map((r): Residency => {
    const pages = Array.from({ length: r.to - r.from }, () => {
      const free = until.findIndex((t) => t <= r.acquire)
      const page = free < 0 ? until.length : free
      until[page] = r.release
      return page
    })
    peakPages = Math.max(peakPages, until.filter((t) => t > r.acquire).length)
    return { ...r, runs: pages.map((page) => ({ page, count: 1 })) }
  })
  return { paged, peakPages: Math.max(peakPages, until.length) }
}
