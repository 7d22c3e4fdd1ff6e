// Lowers a finished plan to the binary tape of docs/internals/tape.md. In: a plan. Out: bytes. The only decision here is the virtual range (buffer)
// that maps a storage at each time.
//
// A storage whose pages are swapped has a buffer for each era: within an era each page has one residency. Worked example, two bands a, b: a0 b0 are
// written in the forward pass, both are swapped out, a1 b1 are swapped in: era 0 maps a0 b0, era 1 maps a1 b1. If b had stayed on the device, era 1
// would map a1 and b0, the same physical pages as in era 0.
import { mapped } from '../core/mapped'
import { bytesOf, pagesFor, pagesIn } from '../core/bytes'
import { elementsOf, type Shape, shapeIn, shapeOf } from '../core/box'
import { BOUND_ROLES, type DType, dtypeBytes, type Float, floatOf, isFed, isOfWeight, type Value } from '../graph/graph'
import { bandsOf, originIn, wholeRows } from '../graph/bands'
import { sharesOf, slicesOf, wholeShape } from '../graph/ranks'
import { asShape, attrNames } from '../ops/op'
import { opDef } from '../ops/registry'
import { fromBefore, isForNext, keyOf } from './ahead'
import { isDense } from './tileboxes'
import { instructions, isPermanent } from './instructions'
import { type Mark, marksOf } from './outside'
import type { Call, Plan, View } from './plan'
import { repeatedCalls } from './repeated'
import { emptySections, instructionRecord, joined, type Values } from './records'
import { type INSTRUCTIONS, NONE, type SECTIONS, type Tag } from './wire'

type ViewFields = (typeof SECTIONS)['views']['fields']
type Box4 = Pick<Values<ViewFields>, 'dims' | 'strides' | 'origin' | 'extent' | 'rank'>
type Placed = Pick<Values<ViewFields>, 'buffer' | 'offset'>

interface Era {
  readonly from: number
  readonly buffer: number
  readonly residencies: number[]
}

/**
 * By residency: the residency at the beginning of the step on the same pages, for those that are filled for the next step; for all others, itself.
 */
const ownersOf = ({ storages, cells, calls, residencies }: Plan): readonly number[] => {
  const isFromBefore = fromBefore({ storages, cells })
  const beginning = new Map(residencies.flatMap((r, i) => (isFromBefore(r) ? [[keyOf(r), i] as const] : [])))
  return mapped(residencies, (r, i) => (isForNext(r, calls.length) ? beginning.get(keyOf(r))! : i))
}

/** Groups the residencies of each storage into eras. Buffers are numbered by storage, then by era. */
const erasOf = (plan: Plan): { readonly of: readonly (readonly Era[])[]; readonly buffers: readonly number[] } => {
  const byStorage: number[][] = mapped(plan.storages, () => [])
  plan.residencies.forEach((r, i) => {
    if (!isForNext(r, plan.calls.length)) byStorage[r.storage]!.push(i)
  })
  const buffers: number[] = []
  const of = mapped(byStorage, (ids, storage) => {
    const eras: Era[] = []
    const open = (from: number, shown: number[]): void => {
      eras.push({ from, buffer: buffers.length, residencies: shown })
      buffers.push(storage)
    }
    for (const i of [...ids].sort((a, b) => plan.residencies[a]!.acquire - plan.residencies[b]!.acquire)) {
      const r = plan.residencies[i]!
      const era = eras[eras.length - 1]
      const clash = era?.residencies.some((j) => plan.residencies[j]!.from < r.to && r.from < plan.residencies[j]!.to)
      if (era && !clash) era.residencies.push(i)
      else open(r.acquire, [...(era?.residencies.filter((j) => plan.residencies[j]!.release > r.acquire) ?? []), i])
    }
    if (!eras.length) open(0, [])
    return eras
  })
  return { of, buffers }
}

class TapeWriter {
  private readonly sections = emptySections()
  private readonly viewIds = new Map<string, number>()
  private readonly bindingOf = new Map<number, number>()
  private readonly eras: ReturnType<typeof erasOf>
  private readonly float: Float
  private readonly owners: readonly number[]
  /** By residency: its record. Two residencies across the border of steps share one. */
  private readonly records: readonly number[]
  private events = 0

  constructor(
    private readonly plan: Plan,
    private readonly rank: number,
  ) {
    this.eras = erasOf(plan)
    this.float = floatOf(plan.graph)
    this.owners = ownersOf(plan)
    const numbers = new Map(this.owners.filter((r, i) => r === i).map((r, i) => [r, i]))
    this.records = mapped(this.owners, (r) => numbers.get(r)!)
  }

  bytes(): Uint8Array {
    this.addMappings()
    this.addBindings()
    const repeated = repeatedCalls(this.plan)
    const marks = marksOf(this.plan)
    this.plan.calls.forEach((c, p) => this.addCall(c, p, repeated[p]!, marks[p]))
    this.addInstructions()
    return joined(this.sections, {
      floatType: this.float,
      events: this.events,
      budgetPages: pagesIn(this.plan.budgetBytes),
      peakPages: this.plan.peakPages,
      tierBytes: this.plan.tierBytes,
    })
  }

  private bufferAt(storage: number, p: number): number {
    const eras = this.eras.of[storage]!
    let era = eras[0]!
    for (const e of eras) if (e.from <= p) era = e
    return era.buffer
  }

  /** Returns a buffer that maps a residency's pages at point p. A swap out may start at the point where the next era begins without the residency. */
  private bufferMapping(residency: number, p: number): number {
    const eras = this.eras.of[this.plan.residencies[residency]!.storage]!
    let era: Era | undefined
    for (const e of eras) if (e.from <= p && e.residencies.includes(residency)) era = e
    if (!era) throw new Error(`no buffer shows residency ${residency} at point ${p}`)
    return era.buffer
  }

  private placed(cell: number, p: number): Placed {
    const { storage, offset } = this.plan.places[cell]!
    return { buffer: this.bufferAt(storage, p), offset }
  }

  private view(v: View, p: number): number {
    const value = this.plan.graph.values[v.value]!
    const at = this.placed(v.cell, p)
    if (value.shape.length !== 4) return this.rowsView(v, at, value)
    const held = shapeOf(v.held)
    const dims = shapeOf(v.box)
    const e = dtypeBytes[value.dtype]
    const [b, , h, w] = [v.box[0][0] - v.held[0][0], 0, v.box[2][0] - v.held[2][0], v.box[3][0] - v.held[3][0]]
    const inside = ((b * held[2] + h) * held[3] + w) * held[1]
    const from = isDense(v.held, v.box) ? dims : held
    const strides = [from[2] * from[3] * from[1], 1, from[3] * from[1], from[1]]
    return this.addView({ ...at, offset: at.offset + inside * e }, value.dtype, {
      dims,
      strides,
      origin: mapped(originIn(value, v.box), (first, d) => first + (d === 0 ? this.firstImage(value) : 0)),
      extent: asShape(wholeShape(this.plan.graph, value)),
      rank: 4,
    })
  }

  /** Returns the index, in the whole batch, of the first image of this rank's share. */
  private firstImage(value: Value): number {
    const isShare = slicesOf(this.plan.graph) > 1 && sharesOf(this.plan.graph).has(value.id)
    return isShare ? Math.floor(this.rank / bandsOf(this.plan.graph)) * value.shape[0]! : 0
  }

  /** Returns a view of a dense value in its natural order: parameters, statistics, scalars. Activations of rank 4 and laid weights use `view`. */
  private flatView(at: Placed, value: Pick<Value, 'shape' | 'dtype'>): number {
    return this.addView(at, value.dtype, wholeBox(value.shape, naturalStrides))
  }

  /** Returns the same for the rows of a view: all rows of a parameter or its state, or the rows of an update. */
  private rowsView({ box }: View, at: Placed, { shape, dtype }: Value): number {
    const before = box[0][0] === 0 ? 0 : box[0][0] * elementsOf(shape.slice(1)) * dtypeBytes[dtype]
    return this.flatView({ ...at, offset: at.offset + before }, { shape: shapeIn(box, shape), dtype })
  }

  private addView(at: Placed, dtype: DType, box: Box4): number {
    const { dims, strides, origin, extent, rank } = box
    const key = `${at.buffer},${at.offset},${dtype},${rank},${dims.join()},${strides.join()},${origin.join()},${extent.join()}`
    const known = this.viewIds.get(key)
    if (known !== undefined) return known
    const id = this.sections.views.add({ ...at, dtype, dims, strides, origin, extent, rank })
    this.viewIds.set(key, id)
    return id
  }

  private addCall(c: Call, p: number, recompute: boolean, mark: Mark | undefined): void {
    const def = opDef(c.kind)
    const view = (v: View): number => {
      const value = this.plan.graph.values[v.value]!
      if (!isOfWeight(this.plan.graph, value)) return this.view(v, p)
      const at = this.placed(v.cell, p)
      const isRun = c.op < 0 && value.shape.length === 4
      return isRun ? this.flatView(at, { ...value, shape: [elementsOf(value.shape)] }) : this.rowsView(v, at, value)
    }
    const firstOperand = this.sections.operands.count
    for (const v of [...c.ins, ...c.outs]) this.sections.operands.add({ view: view(v) })
    const firstAttr = this.sections.attrs.count
    for (const f of attrNames(def, c.attrs)) this.sections.attrs.add({ value: c.attrs[f]! })
    const flops = def.flops(c.attrs, { ins: mapped(c.ins, (v) => this.shapeIn(v)), outs: mapped(c.outs, (v) => this.shapeIn(v)) })
    this.sections.calls.add({
      kind: def.wire,
      ins: c.ins.length,
      outs: c.outs.length,
      flags: { recompute, makesMask: mark?.makes === true, fills: mark?.fills === true },
      firstOperand,
      firstAttr,
      attrs: this.sections.attrs.count - firstAttr,
      workspaceView: c.workspace && this.workspaceView(c.workspace, p),
      op: c.op < 0 ? NONE : c.op,
      segment: c.segment,
      tile: c.tile,
      way: c.way ?? 0,
      seconds: c.beside?.seconds ?? c.seconds,
      flops: Math.round(flops),
      mask: mark?.mask ?? NONE,
      masked: mark?.masked ?? 0,
    })
  }

  private workspaceView(workspace: NonNullable<Call['workspace']>, p: number): number {
    const elements = Math.floor(workspace.bytes / dtypeBytes[this.float])
    return this.flatView(this.placed(workspace.cell, p), { shape: [elements], dtype: this.float })
  }

  private shapeIn(v: View): readonly number[] {
    return shapeIn(v.box, this.plan.graph.values[v.value]!.shape)
  }

  /** Writes the bindings of parameters, state, fed values, losses and outputs, by name. */
  private addBindings(): void {
    for (const v of this.plan.graph.values) {
      const role = BOUND_ROLES.find((r) => r === v.role)
      const cell = role && this.plan.cells.find((c) => c.values.includes(v.id))
      if (!cell) continue
      const name = new TextEncoder().encode(v.name)
      this.bindingOf.set(v.id, this.sections.bindings.count)
      this.sections.bindings.add({
        role,
        view: this.boundView(v, cell.id),
        nameOffset: this.sections.strings.count,
        nameBytes: name.length,
        dist: v.init?.dist ?? 'none',
        dtype: v.dtype,
        a: v.init?.a ?? 0,
        home: this.homeOf(cell.id) ?? 0,
      })
      for (const byte of name) this.sections.strings.add({ byte })
    }
  }

  private homeOf(cell: number): number | undefined {
    const { storage, offset } = this.plan.places[cell]!
    const { home } = this.plan.storages[storage]!
    return home === undefined ? undefined : home + offset
  }

  private boundView(v: Value, cell: number): number {
    if (isFed(v) || v.role === 'output') return this.template(v)
    const at =
      this.homeOf(cell) === undefined
        ? this.placed(cell, this.readAt(v))
        : { buffer: null, offset: this.plan.places[cell]!.offset }
    return this.flatView(at, v)
  }

  /** Returns the point at which the runtime reads a value: a loss after its last write, persistent values at the end. */
  private readAt(v: Value): number {
    const { calls } = this.plan
    let p = calls.length
    if (v.role === 'loss') while (p > 0 && !calls[p - 1]!.outs.some((o) => o.value === v.id)) p--
    return v.role === 'loss' ? Math.max(0, p - 1) : p
  }

  private template(v: Value): number {
    const whole = wholeBox(v.shape, channelsLast)
    const rows = v.rows && { origin: [0, 0, v.rows.from, 0], extent: asShape(wholeRows(v)) }
    return this.addView({ buffer: null, offset: 0 }, v.dtype, { ...whole, ...rows })
  }

  private addInstruction<T extends Tag>(tag: T, operands: Values<(typeof INSTRUCTIONS)[T]['operands']>): void {
    this.sections.instrs.add(instructionRecord(tag, operands))
  }

  /** Writes the instructions, with a transfer and an event for each copy. */
  private addInstructions(): void {
    const eventOf = new Map<string, number>()
    const start = (tag: 'swapOut' | 'swapIn', residency: number, p: number): void => {
      const event = this.events++
      eventOf.set(`${tag}${residency}`, event)
      this.addInstruction(tag, { transfer: this.addTransfer(residency, p, tag === 'swapIn'), event })
    }
    const exchange = (call: number): void => {
      const event = this.events++
      eventOf.set(`exchange${call}`, event)
      this.addInstruction('exchange', { call, event })
    }
    const wait = (tag: 'swapOut' | 'swapIn' | 'exchange', of: number, cause: 'memory' | 'data' | 'ranks'): void =>
      this.addInstruction('wait', { event: eventOf.get(`${tag}${of}`)!, cause })
    let p = 0
    for (const i of instructions(this.plan)) {
      if (i.tag === 'mark') this.addInstruction('mark', i)
      else if (i.tag === 'call') this.addInstruction('call', i)
      else if (i.tag === 'exchange') exchange(i.call)
      else if (i.tag === 'waitExchange') wait('exchange', i.call, 'ranks')
      else if (i.tag === 'acquire' || i.tag === 'release') this.addInstruction(i.tag, { residency: this.records[i.residency]! })
      else if (i.tag === 'waitSwapOut') wait('swapOut', i.residency, 'memory')
      else if (i.tag === 'waitSwapIn') wait('swapIn', i.residency, 'data')
      else start(i.tag, i.residency, p)
      if (i.tag === 'call' || i.tag === 'exchange') p = i.call + 1
    }
  }

  /** Adds a transfer and returns its index. Fed values and outputs have the same offsets in their binding's value as in their storage. */
  private addTransfer(residency: number, p: number, isIn: boolean): number {
    const r = this.plan.residencies[residency]!
    const storage = this.plan.storages[r.storage]!
    const [outside, end] = isIn ? (['source', r.swapIn!.from] as const) : (['sink', r.swapOut!.to] as const)
    const far = end === outside ? outside : 'tier'
    const bound = far !== 'tier'
    const cell = this.plan.cells[storage.cells[0]!]!
    const offset = bytesOf(r.from)
    const owner = this.owners[residency]!
    return this.sections.transfers.add({
      residency: this.records[residency]!,
      buffer: this.bufferMapping(owner, owner === residency ? p : 0),
      offset,
      bytes: Math.min(bytesOf(r.to), storage.bytes) - offset,
      far,
      binding: bound ? this.bindingOf.get(cell.values[0]!)! : null,
      farOffset: bound ? offset : (r.tierOffset ?? 0),
    })
  }

  private addMappings(): void {
    const { plan } = this
    for (const s of this.eras.buffers) {
      const bytes = Math.max(1, plan.storages[s]!.bytes)
      this.sections.buffers.add({ pages: pagesFor(bytes), bytes })
    }
    for (const { buffer, residencies } of this.eras.of.flat())
      for (const residency of residencies) {
        let vaPage = plan.residencies[residency]!.from
        for (const { page, count } of plan.residencies[residency]!.runs) {
          this.sections.mappings.add({ buffer, vaPage, physPage: page, count, residency: this.records[residency]! })
          vaPage += count
        }
      }
    const forEver = isPermanent(plan)
    const ahead = fromBefore(plan)
    plan.residencies.forEach((r, i) => {
      if (this.owners[i] === i)
        this.sections.residencies.add({ pages: r.to - r.from, flags: { forEver: forEver(r), ahead: ahead(r) } })
    })
  }
}

const naturalStrides = ([, c, h, w]: Shape): readonly number[] => [c * h * w, h * w, w, 1]
const channelsLast = ([, c, h, w]: Shape): readonly number[] => [h * w * c, 1, w * c, c]
const wholeBox = (shape: readonly number[], strides: (s: Shape) => readonly number[]): Box4 => {
  const dims = asShape(shape)
  return { dims, strides: strides(dims), origin: [0, 0, 0, 0], extent: dims, rank: shape.length }
}

/** Returns the tape of a plan. Ranks run one plan; their tapes differ in the positions of their shares in the whole batch. */
export const toTape = (plan: Plan, rank = 0): Uint8Array => new TapeWriter(plan, rank).bytes()
