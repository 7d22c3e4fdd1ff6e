// Lowers a finished plan to the binary tape of docs/tape.md. In: a plan. Out: bytes. Nothing is decided here but names:
// which virtual range (buffer) shows a storage at a time.
//
// A storage whose pages leave and come back has a buffer for each era: within an era each page has one residency.
// Worked example, two bands a, b: a0 b0 are written in the forward pass, both leave, a1 b1 come back: era 0 shows a0 b0,
// era 1 shows a1 b1; had b stayed, era 1 would show a1 and b0's same physical pages again.
import { alignUp, bytesOf, PAGE_BYTES, pagesFor, pagesIn } from '../core/bytes'
import { elementsOf, extentOf, shapeOf } from '../core/box'
import { fnv1a64 } from '../core/fnv'
import { dtypeBytes, floatOf, isPersistent, type Value } from '../graph/graph'
import { asShape } from '../ops/op'
import { opDef } from '../ops/registry'
import { isDense } from './expand'
import { instructions, isForEver } from './instructions'
import type { Call, Plan, View } from './plan'
import { RecordWriter } from './records'

const NONE = 0xffffffff
const HEADER_BYTES = 256
const dtypeCode = { f32: 0, f64: 1, i32: 2, bf16: 3 } as const
const roleCode: Readonly<Record<string, number>> = { param: 0, state: 1, input: 2, target: 3, loss: 4 }
const distCode = { uniform: 1, normal: 2, constant: 3 } as const

interface Era {
  readonly from: number
  readonly buffer: number
  readonly shows: number[]
}

/** Groups the residencies of each storage into eras; buffers are numbered in order of storage, then era. */
const erasOf = (plan: Plan): { readonly of: readonly (readonly Era[])[]; readonly buffers: readonly number[] } => {
  const byStorage: number[][] = plan.storages.map(() => [])
  plan.residencies.forEach((r, i) => byStorage[r.storage]!.push(i))
  const buffers: number[] = []
  const of = byStorage.map((ids, storage) => {
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
  private readonly views = new RecordWriter(104)
  private readonly viewIds = new Map<string, number>()
  private readonly calls = new RecordWriter(56)
  private readonly operands: number[] = []
  private readonly attrs: number[] = []
  private readonly instrs = new RecordWriter(16)
  private readonly transfers = new RecordWriter(48)
  private readonly bindings = new RecordWriter(32)
  private readonly bindingOf = new Map<number, number>()
  private readonly names: number[] = []
  private readonly eras: ReturnType<typeof erasOf>
  private events = 0

  constructor(private readonly plan: Plan) {
    this.eras = erasOf(plan)
  }

  bytes(): Uint8Array {
    this.bind()
    this.plan.calls.forEach((c, p) => this.call(c, p))
    this.order()
    return this.assemble()
  }

  private bufferAt(storage: number, p: number): number {
    const eras = this.eras.of[storage]!
    let found = eras[0]!
    for (const e of eras) if (e.from <= p) found = e
    return found.buffer
  }

  /** A buffer in which a residency's pages are mapped at point p: a save may start where the next era begins without it. */
  private bufferShowing(residency: number, p: number): number {
    const eras = this.eras.of[this.plan.residencies[residency]!.storage]!
    let found: Era | undefined
    for (const e of eras) if (e.from <= p && e.shows.includes(residency)) found = e
    if (!found) throw new Error(`no buffer shows residency ${residency} at point ${p}`)
    return found.buffer
  }

  private placed(cell: number, p: number): { readonly buffer: number; readonly offset: number } {
    const { storage, offset } = this.plan.places[cell]!
    return { buffer: this.bufferAt(storage, p), offset }
  }

  private view(v: View, p: number): number {
    const value = this.plan.graph.values[v.value]!
    const { buffer, offset } = this.placed(v.cell, p)
    if (value.shape.length !== 4) return this.flatView(buffer, offset, value)
    const held = shapeOf(v.held)
    const dims = shapeOf(v.box)
    const e = dtypeBytes[value.dtype]
    const [b, , h, w] = [v.box[0][0] - v.held[0][0], 0, v.box[2][0] - v.held[2][0], v.box[3][0] - v.held[3][0]]
    const inside = ((b * held[2] + h) * held[3] + w) * held[1]
    const from = isDense(v.held, v.box) ? dims : held
    const strides = [from[2] * from[3] * from[1], 1, from[3] * from[1], from[1]]
    return this.record(
      buffer,
      dtypeCode[value.dtype],
      offset + inside * e,
      dims,
      strides,
      v.box.map((r) => r[0]),
      asShape(value.shape),
      4,
    )
  }

  /** Parameters, statistics, scalars: dense in their natural order. Activations of rank 4 go through `view`. */
  private flatView(buffer: number, offset: number, value: Value): number {
    const dims = asShape(value.shape)
    return this.record(buffer, dtypeCode[value.dtype], offset, dims, naturalStrides(dims), [0, 0, 0, 0], dims, value.shape.length)
  }

  private record(
    buffer: number,
    dtype: number,
    offset: number,
    dims: readonly number[],
    strides: readonly number[],
    origin: readonly number[],
    extent: readonly number[],
    rank: number,
  ): number {
    const key = `${buffer},${offset},${dtype},${rank},${dims.join()},${strides.join()},${origin.join()},${extent.join()}`
    const known = this.viewIds.get(key)
    if (known !== undefined) return known
    const w = this.views.next()
    w.u32(buffer).u32(dtype).u64(offset)
    dims.forEach((d) => w.u32(d))
    strides.forEach((s) => w.u64(s))
    origin.forEach((o) => w.u32(o))
    extent.forEach((d) => w.u32(d))
    w.u32(rank).u32(0)
    this.viewIds.set(key, this.views.count - 1)
    return this.views.count - 1
  }

  private call(c: Call, p: number): void {
    const def = opDef(c.kind)
    const op = this.plan.graph.ops[c.op]
    const isWeights = (v: View): boolean => {
      const role = this.plan.graph.values[v.value]!.role
      return role === 'param' || role === 'state'
    }
    const view = (v: View): number => {
      const value = this.plan.graph.values[v.value]!
      const dense =
        value.shape.length === 4 &&
        (isWeights(v) || (value.gradOf !== undefined && isPersistent(this.plan.graph.values[value.gradOf]!)))
      if (!dense) return this.view(v, p)
      const { buffer, offset } = this.placed(v.cell, p)
      return this.flatView(buffer, offset, c.op < 0 ? { ...value, shape: [elementsOf(value.shape)] } : value)
    }
    const first = this.operands.length
    for (const v of [...c.ins, ...c.outs]) this.operands.push(view(v))
    const fields = Object.keys(def.fields)
    const firstAttr = this.attrs.length
    for (const f of fields) this.attrs.push(c.attrs[f]!)
    let workspace = NONE
    if (c.workspace) {
      const { buffer, offset } = this.placed(c.workspace.cell, p)
      const e = this.floatBytes()
      const n = Math.floor(c.workspace.bytes / e)
      workspace = this.record(
        buffer,
        this.floatCode(),
        offset,
        [n, 1, 1, 1],
        naturalStrides([n, 1, 1, 1]),
        [0, 0, 0, 0],
        [n, 1, 1, 1],
        1,
      )
    }
    const again = this.plan.segments[c.segment]!
    const firstForward = again.phase === 'recompute' || (again.phase === 'backward' && op?.phase === 'forward')
    const flops = def.flops(c.attrs, { ins: c.ins.map((v) => this.shapeIn(v)), outs: c.outs.map((v) => this.shapeIn(v)) })
    this.calls
      .next()
      .u16(def.wire)
      .u16(c.ins.length)
      .u16(c.outs.length)
      .u16(firstForward ? 1 : 0)
      .u32(first)
      .u32(firstAttr)
      .u32(fields.length)
      .u32(workspace)
      .u32(c.op < 0 ? NONE : c.op)
      .u32(c.segment)
      .u32(c.tile)
      .u32(c.way ?? 0)
      .f64(c.seconds)
      .u64(Math.round(flops))
  }

  private shapeIn(v: View): readonly number[] {
    const natural = this.plan.graph.values[v.value]!.shape
    return natural.length === 4 ? v.box.map(extentOf) : natural
  }

  private floatCode(): number {
    return dtypeCode[floatOf(this.plan.graph)]
  }

  private floatBytes(): number {
    return this.floatCode() === 1 ? 8 : 4
  }

  /** Parameters, state, fed values and losses, by name. */
  private bind(): void {
    for (const v of this.plan.graph.values) {
      const role = roleCode[v.role]
      if (role === undefined) continue
      const fed = v.role === 'input' || v.role === 'target'
      const cell = this.plan.cells.find((c) => c.values.includes(v.id))
      if (!cell) continue
      const { storage, offset } = this.plan.places[cell.id]!
      const buffer = fed ? NONE : this.bufferAt(storage, this.plan.calls.length)
      const name = new TextEncoder().encode(v.name)
      const full = asShape(v.shape)
      const view = fed
        ? this.record(
            NONE,
            dtypeCode[v.dtype],
            0,
            full,
            [full[1] * full[2] * full[3], 1, full[3] * full[1], full[1]],
            [0, 0, 0, 0],
            full,
            v.shape.length,
          )
        : this.flatView(buffer, offset, v)
      this.bindingOf.set(v.id, this.bindings.count)
      this.bindings
        .next()
        .u32(role)
        .u32(view)
        .u32(this.names.length)
        .u32(name.length)
        .u32(v.init ? distCode[v.init.dist] : 0)
        .u32(dtypeCode[v.dtype])
        .f64(v.init?.a ?? 0)
      this.names.push(...name)
    }
  }

  /** The instruction list, with a transfer and an event for each copy. */
  private order(): void {
    const eventOf = new Map<string, number>()
    const put = (tag: number, a: number, b = 0): void => {
      this.instrs.next().u32(tag).u32(a).u32(b).u32(0)
    }
    let p = 0
    for (const i of instructions(this.plan)) {
      switch (i.tag) {
        case 'mark':
          put(7, i.segment, i.tile)
          break
        case 'call':
          put(1, i.call)
          p = i.call + 1
          break
        case 'acquire':
          put(2, i.residency)
          break
        case 'release':
          put(3, i.residency)
          break
        case 'copyOut':
        case 'copyIn': {
          const transfer = this.transfer(i.residency, p, i.tag === 'copyIn')
          eventOf.set(`${i.tag}${i.residency}`, this.events)
          put(i.tag === 'copyOut' ? 4 : 5, transfer, this.events++)
          break
        }
        case 'waitOut':
          put(6, eventOf.get(`copyOut${i.residency}`)!, 0)
          break
        case 'waitIn':
          put(6, eventOf.get(`copyIn${i.residency}`)!, 1)
          break
      }
    }
  }

  private transfer(residency: number, p: number, isIn: boolean): number {
    const r = this.plan.residencies[residency]!
    const storage = this.plan.storages[r.storage]!
    const source = isIn && r.load?.from === 'source'
    const cell = this.plan.cells[storage.cells[0]!]!
    const from = bytesOf(r.from)
    const bytes = Math.min(bytesOf(r.to), storage.bytes) - from
    this.transfers
      .next()
      .u32(residency)
      .u32(this.bufferShowing(residency, p))
      .u64(from)
      .u64(bytes)
      .u32(source ? 1 : 0)
      .u32(source ? this.bindingOf.get(cell.values[0]!)! : NONE)
      .u64(source ? from : (r.tierOffset ?? 0))
      .u64(0)
    return this.transfers.count - 1
  }

  private assemble(): Uint8Array {
    const { plan } = this
    const buffers = new RecordWriter(16)
    for (const s of this.eras.buffers) {
      const bytes = Math.max(1, plan.storages[s]!.bytes)
      buffers.next().u64(pagesFor(bytes)).u64(bytes)
    }
    const mappings = new RecordWriter(24)
    for (const eras of this.eras.of)
      for (const e of eras)
        for (const i of e.shows) {
          let va = plan.residencies[i]!.from
          for (const run of plan.residencies[i]!.runs) {
            mappings.next().u32(e.buffer).u32(va).u32(run.page).u32(run.count).u32(i).u32(0)
            va += run.count
          }
        }
    const residencies = new RecordWriter(16)
    const forEver = isForEver(plan)
    for (const r of plan.residencies)
      residencies
        .next()
        .u32(r.to - r.from)
        .u32(forEver(r) ? 1 : 0)
        .u64(0)
    const words = (list: readonly number[], width: number, put: (w: RecordWriter, x: number) => void): RecordWriter => {
      const w = new RecordWriter(width)
      for (const x of list) put(w.next(), x)
      return w
    }
    const sections = [
      buffers,
      mappings,
      residencies,
      this.views,
      this.calls,
      words(this.operands, 4, (w, x) => w.u32(x)),
      words(this.attrs, 8, (w, x) => w.f64(x)),
      this.instrs,
      this.transfers,
      this.bindings,
      words(this.names, 1, (w, x) => w.u8(x)),
    ]
    return this.join(sections)
  }

  private join(sections: readonly RecordWriter[]): Uint8Array {
    const { plan } = this
    let at = HEADER_BYTES
    const offsets = sections.map((s) => {
      const o = at
      at = alignUp(at + s.size, 8)
      return o
    })
    const out = new Uint8Array(at)
    sections.forEach((s, i) => out.set(s.done(), offsets[i]!))
    const head = new RecordWriter(HEADER_BYTES)
    const w = head.next()
    for (const ch of 'SPILLWAY') w.u8(ch.charCodeAt(0))
    w.u32(1).u32(this.floatCode()).u64(at).u64(0).u32(PAGE_BYTES).u32(this.events)
    w.u64(pagesIn(plan.budgetBytes)).u64(plan.peakPages).u64(plan.peakPages).u64(plan.tierBytes)
    sections.forEach((s, i) => w.u64(offsets[i]!).u64(s.count))
    w.u64(0)
    out.set(head.done(), 0)
    const sum = fnv1a64(out.subarray(32))
    new DataView(out.buffer).setUint32(24, sum.lo, true)
    new DataView(out.buffer).setUint32(28, sum.hi, true)
    return out
  }
}

const naturalStrides = (d: readonly number[]): readonly number[] => [d[1]! * d[2]! * d[3]!, d[2]! * d[3]!, d[3]!, 1]

export const toTape = (plan: Plan): Uint8Array => new TapeWriter(plan).bytes()
