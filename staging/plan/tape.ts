// Lowers a finished plan to the binary tape of docs/internals/tape.md. In: a plan. Out: bytes. Nothing is decided here but names:
// which virtual range (buffer) shows a storage at a time.
//
// A storage whose pages leave and come back has a buffer for each era: within an era each page has one residency.
// Worked example, two bands a, b: a0 b0 are written in the forward pass, both leave, a1 b1 come back: era 0 shows a0 b0,
// era 1 shows a1 b1; had b stayed, era 1 would show a1 and b0's same physical pages again.
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
import { instructions, isForEver } from './instructions'
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
  readonly shows: number[]
}

/** For each residency the one with its pages: the one that begins the step has those that are filled for the next. */
const beginningsOf = ({ storages, cells, calls, residencies }: Plan): readonly number[] => {
  const isFromBefore = fromBefore({ storages, cells })
  const beginning = new Map(residencies.flatMap((r, i) => (isFromBefore(r) ? [[keyOf(r), i] as const] : [])))
  return mapped(residencies, (r, i) => (isForNext(r, calls.length) ? beginning.get(keyOf(r))! : i))
}

/** Groups the residencies of each storage into eras; buffers are numbered in order of storage, then era. */
const erasOf = (plan: Plan): { readonly of: readonly (readonly Era[])[]; readonly buffers: readonly number[] } => {
  const byStorage: number[][] = mapped(plan.storages, () => [])
  plan.residencies.forEach((r, i) => {
    if (!isForNext(r, plan.calls.length)) byStorage[r.storage]!.push(i)
  })
  const buffers: number[] = []
  const of = mapped(byStorage, (ids, storage) => {
    const eras: Era[] = []
    const open = (from: number, shows: number[]): void => {
      eras.push({ from, buffer: buffers.length, shows })
      buffers.push(storage)
    }
    for (const i of [...ids].sort((a, b) => plan.residencies[a]!.acquire - plan.residencies[b]!.acquire)) {
      const r = plan.residencies[i]!
      const era = eras[eras.length - 1]
      const clash = era?.shows.some((j) => plan.residencies[j]!.from < r.to && r.from < plan.residencies[j]!.to)
      if (era && !clash) era.shows.push(i)
      else open(r.acquire, [...(era?.shows.filter((j) => plan.residencies[j]!.release > r.acquire) ?? []), i])
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
  private readonly beginnings: readonly number[]
  /** For each residency its record; two that cross the border of steps share one. */
  private readonly records: readonly number[]
  private events = 0

  constructor(
    private readonly plan: Plan,
    private readonly rank: number,
  ) {
    this.eras = erasOf(plan)
    this.float = floatOf(plan.graph)
    this.beginnings = beginningsOf(plan)
    const numbers = new Map(this.beginnings.filter((r, i) => r === i).map((r, i) => [r, i]))
    this.records = mapped(this.beginnings, (r) => numbers.get(r)!)
  }

  bytes(): Uint8Array {
    this.mapped()
    this.bind()
    const repeated = repeatedCalls(this.plan)
    this.plan.calls.forEach((c, p) => this.call(c, p, repeated[p]!))
    this.order()
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
    let found = eras[0]!
    for (const e of eras) if (e.from <= p) found = e
    return found.buffer
  }

  /** A buffer that maps a residency's pages at point p: a swap out may start when the next era begins without it. */
  private bufferShowing(residency: number, p: number): number {
    const eras = this.eras.of[this.plan.residencies[residency]!.storage]!
    let found: Era | undefined
    for (const e of eras) if (e.from <= p && e.shows.includes(residency)) found = e
    if (!found) throw new Error(`no buffer shows residency ${residency} at point ${p}`)
    return found.buffer
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
    return this.record({ ...at, offset: at.offset + inside * e }, value.dtype, {
      dims,
      strides,
      origin: mapped(originIn(value, v.box), (first, d) => first + (d === 0 ? this.firstImage(value) : 0)),
      extent: asShape(wholeShape(this.plan.graph, value)),
      rank: 4,
    })
  }

  /** The first image of this rank's share, in the whole batch. */
  private firstImage(value: Value): number {
    const isShare = slicesOf(this.plan.graph) > 1 && sharesOf(this.plan.graph).has(value.id)
    return isShare ? Math.floor(this.rank / bandsOf(this.plan.graph)) * value.shape[0]! : 0
  }

  /** Parameters, statistics, scalars: dense in their natural order. Activations of rank 4 and laid weights go through `view`. */
  private flatView(at: Placed, value: Pick<Value, 'shape' | 'dtype'>): number {
    return this.record(at, value.dtype, wholeBox(value.shape, naturalStrides))
  }

  /** The same for the rows of a view: of parameters and their state, all rows or those of an update. */
  private rowsView({ box }: View, at: Placed, { shape, dtype }: Value): number {
    const before = box[0][0] === 0 ? 0 : box[0][0] * elementsOf(shape.slice(1)) * dtypeBytes[dtype]
    return this.flatView({ ...at, offset: at.offset + before }, { shape: shapeIn(box, shape), dtype })
  }

  private record(at: Placed, dtype: DType, box: Box4): number {
    const { dims, strides, origin, extent, rank } = box
    const key = `${at.buffer},${at.offset},${dtype},${rank},${dims.join()},${strides.join()},${origin.join()},${extent.join()}`
    const known = this.viewIds.get(key)
    if (known !== undefined) return known
    const id = this.sections.views.add({ ...at, dtype, dims, strides, origin, extent, rank })
    this.viewIds.set(key, id)
    return id
  }

  private call(c: Call, p: number, recompute: boolean): void {
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
      flags: { recompute },
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
    })
  }

  private workspaceView(workspace: NonNullable<Call['workspace']>, p: number): number {
    const elements = Math.floor(workspace.bytes / dtypeBytes[this.float])
    return this.flatView(this.placed(workspace.cell, p), { shape: [elements], dtype: this.float })
  }

  private shapeIn(v: View): readonly number[] {
    return shapeIn(v.box, this.plan.graph.values[v.value]!.shape)
  }

  /** Parameters, state, fed values, losses and outputs, by name. */
  private bind(): void {
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

  /** The time of the runtime's read: a loss right after the last call that writes it, values that last between steps at the end. */
  private readAt(v: Value): number {
    const { calls } = this.plan
    let p = calls.length
    if (v.role === 'loss') while (p > 0 && !calls[p - 1]!.outs.some((o) => o.value === v.id)) p--
    return v.role === 'loss' ? Math.max(0, p - 1) : p
  }

  private template(v: Value): number {
    const whole = wholeBox(v.shape, channelsLast)
    const rows = v.rows && { origin: [0, 0, v.rows.from, 0], extent: asShape(wholeRows(v)) }
    return this.record({ buffer: null, offset: 0 }, v.dtype, { ...whole, ...rows })
  }

  private put<T extends Tag>(tag: T, operands: Values<(typeof INSTRUCTIONS)[T]['operands']>): void {
    this.sections.instrs.add(instructionRecord(tag, operands))
  }

  /** The instruction list, with a transfer and an event for each copy. */
  private order(): void {
    const eventOf = new Map<string, number>()
    const start = (tag: 'swapOut' | 'swapIn', residency: number, p: number): void => {
      const event = this.events++
      eventOf.set(`${tag}${residency}`, event)
      this.put(tag, { transfer: this.transfer(residency, p, tag === 'swapIn'), event })
    }
    const exchange = (call: number): void => {
      const event = this.events++
      eventOf.set(`exchange${call}`, event)
      this.put('exchange', { call, event })
    }
    const wait = (tag: 'swapOut' | 'swapIn' | 'exchange', of: number, cause: 'memory' | 'data' | 'ranks'): void =>
      this.put('wait', { event: eventOf.get(`${tag}${of}`)!, cause })
    let p = 0
    for (const i of instructions(this.plan)) {
      if (i.tag === 'mark') this.put('mark', i)
      else if (i.tag === 'call') this.put('call', i)
      else if (i.tag === 'exchange') exchange(i.call)
      else if (i.tag === 'waitExchange') wait('exchange', i.call, 'ranks')
      else if (i.tag === 'acquire' || i.tag === 'release') this.put(i.tag, { residency: this.records[i.residency]! })
      else if (i.tag === 'waitSwapOut') wait('swapOut', i.residency, 'memory')
      else if (i.tag === 'waitSwapIn') wait('swapIn', i.residency, 'data')
      else start(i.tag, i.residency, p)
      if (i.tag === 'call' || i.tag === 'exchange') p = i.call + 1
    }
  }

  /** Fed values and outputs have in their binding's value the place that they have in their storage. */
  private transfer(residency: number, p: number, isIn: boolean): number {
    const r = this.plan.residencies[residency]!
    const storage = this.plan.storages[r.storage]!
    const [outside, end] = isIn ? (['source', r.swapIn!.from] as const) : (['sink', r.swapOut!.to] as const)
    const far = end === outside ? outside : 'tier'
    const bound = far !== 'tier'
    const cell = this.plan.cells[storage.cells[0]!]!
    const offset = bytesOf(r.from)
    const beginning = this.beginnings[residency]!
    return this.sections.transfers.add({
      residency: this.records[residency]!,
      buffer: this.bufferShowing(beginning, beginning === residency ? p : 0),
      offset,
      bytes: Math.min(bytesOf(r.to), storage.bytes) - offset,
      far,
      binding: bound ? this.bindingOf.get(cell.values[0]!)! : null,
      farOffset: bound ? offset : (r.tierOffset ?? 0),
    })
  }

  private mapped(): void {
    const { plan } = this
    for (const s of this.eras.buffers) {
      const bytes = Math.max(1, plan.storages[s]!.bytes)
      this.sections.buffers.add({ pages: pagesFor(bytes), bytes })
    }
    for (const { buffer, shows } of this.eras.of.flat())
      for (const residency of shows) {
        let vaPage = plan.residencies[residency]!.from
        for (const { page, count } of plan.residencies[residency]!.runs) {
          this.sections.mappings.add({ buffer, vaPage, physPage: page, count, residency: this.records[residency]! })
          vaPage += count
        }
      }
    const forEver = isForEver(plan)
    const ahead = fromBefore(plan)
    plan.residencies.forEach((r, i) => {
      if (this.beginnings[i] === i)
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

/** Ranks run one plan; their tapes differ in the places of their shares in the whole batch. */
export const toTape = (plan: Plan, rank = 0): Uint8Array => new TapeWriter(plan, rank).bytes()
