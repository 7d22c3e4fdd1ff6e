// A tape of a small network, written record by record (docs/tape.md), so that these tests need no stager:
// x [B,C,1,1] -> linear -> softmax cross-entropy -> weight gradients -> sgd; and a relu of x that is swapped out and back.
import { fnv1a64 } from '../../staging/core/fnv'
import { PAGE_BYTES, pagesFor } from '../../staging/core/bytes'
import { RecordWriter } from '../../staging/plan/records'

const NONE = 0xffffffff
export const BATCH = 2
export const CHANNELS = 300_000
export const CLASSES = 3
/** More than any kernel of this network asks for, however many threads there are. */
const WORKSPACE_BYTES = 32 * 1024 ** 2

/** Buffers 0 weights, gradients, loss; 1 labels; 2 x; 3 relu; 4 the relu when it is back. All f32. */
export const classifierTape = (): Uint8Array => {
  const image = BATCH * CHANNELS * 4
  const weights = CLASSES * CHANNELS * 4
  const small = 2 * weights + 4096 + WORKSPACE_BYTES
  const P = pagesFor(image)
  const S = pagesFor(small)
  const peak = S + 1 + 2 * P
  const buffers = new RecordWriter(16)
  for (const bytes of [small, BATCH * 4, image, image, image]) buffers.next().u64(pagesFor(bytes)).u64(bytes)
  const mappings = new RecordWriter(24)
  const residencies = new RecordWriter(16)
  ;[
    [S, 0],
    [1, S],
    [P, S + 1],
    [P, S + 1 + P],
    [P, S + 1],
  ].forEach(([pages, at], i) => {
    mappings.next().u32(i).u32(0).u32(at!).u32(pages!).u32(i).u32(0)
    residencies
      .next()
      .u32(pages!)
      .u32(i === 0 ? 1 : 0)
      .u64(0)
  })
  const views = new RecordWriter(104)
  const view = (buffer: number, offset: number, shape: readonly number[], dtype = 0): number => {
    const dims = [0, 1, 2, 3].map((i) => shape[i] ?? 1)
    const [, c, h, w] = dims as [number, number, number, number]
    const r = views.next().u32(buffer).u32(dtype).u64(offset)
    for (const d of dims) r.u32(d)
    for (const s of shape.length === 4 ? [h * w * c, 1, w * c, c] : [c * h * w, h * w, w, 1]) r.u64(s)
    for (let i = 0; i < 4; i++) r.u32(0)
    for (const d of dims) r.u32(d)
    r.u32(shape.length).u32(0)
    return views.count - 1
  }
  const tail = Math.ceil((2 * weights) / 64) * 64
  const w = view(0, 0, [CLASSES, CHANNELS]),
    dw = view(0, weights, [CLASSES, CHANNELS])
  const loss = view(0, tail, [1]),
    logits = view(0, tail + 64, [BATCH, CLASSES, 1, 1]),
    dlogits = view(0, tail + 128, [BATCH, CLASSES, 1, 1])
  const workspace = view(0, tail + 4096, [WORKSPACE_BYTES / 4])
  const labels = view(1, 0, [BATCH, 1, 1, 1], 2)
  const [x, y, back] = [2, 3, 4].map((b) => view(b, 0, [BATCH, CHANNELS, 1, 1])) as [number, number, number]
  const fedX = view(NONE, 0, [BATCH, CHANNELS, 1, 1]),
    fedLabels = view(NONE, 0, [BATCH, 1, 1, 1], 2)

  const calls = new RecordWriter(56),
    operands = new RecordWriter(4),
    attrs = new RecordWriter(8)
  const call = (kind: number, ins: number[], outs: number[], values: number[]): number => {
    calls
      .next()
      .u16(kind)
      .u16(ins.length)
      .u16(outs.length)
      .u16(0)
      .u32(operands.count)
      .u32(attrs.count)
      .u32(values.length)
      .u32(workspace)
      .u32(NONE)
      .u32(0)
      .u32(0)
      .u32(0)
      .f64(0)
      .u64(0)
    for (const v of [...ins, ...outs]) operands.next().u32(v)
    for (const a of values) attrs.next().f64(a)
    return calls.count - 1
  }
  const transfers = new RecordWriter(48)
  const transfer = (residency: number, bytes: number, from: number, binding: number): number => {
    transfers.next().u32(residency).u32(residency).u64(0).u64(bytes).u32(from).u32(binding).u64(0).u64(0)
    return transfers.count - 1
  }
  const bindings = new RecordWriter(32),
    names: number[] = []
  const bind = (role: number, v: number, name: string, dtype: number, dist: number, a: number): void => {
    bindings.next().u32(role).u32(v).u32(names.length).u32(name.length).u32(dist).u32(dtype).f64(a)
    names.push(...new TextEncoder().encode(name))
  }
  bind(0, w, 'head.weight', 0, 2, 0.01)
  bind(2, fedX, 'image', 0, 0, 0)
  bind(3, fedLabels, 'labels', 2, 0, 0)
  bind(4, loss, 'loss', 0, 0, 0)
  const instrs = new RecordWriter(16)
  const put = (tag: number, a: number, b = 0): void => void instrs.next().u32(tag).u32(a).u32(b).u32(0)
  const [inLabels, inX, out, again] = [
    transfer(1, BATCH * 4, 1, 2),
    transfer(2, image, 1, 1),
    transfer(3, image, 0, NONE),
    transfer(4, image, 0, NONE),
  ]
  put(7, 0)
  put(2, 1)
  put(5, inLabels, 0)
  put(2, 2)
  put(5, inX, 1)
  put(6, 1, 1)
  put(2, 3)
  put(1, call(15, [x], [y], [0]))
  put(3, 2)
  put(4, out, 2)
  put(6, 2, 0)
  put(3, 3)
  put(2, 4)
  put(5, again, 3)
  put(6, 3, 1)
  put(7, 1)
  put(1, call(4, [back, w], [logits], []))
  put(6, 0, 1)
  put(1, call(31, [logits, labels], [loss], [BATCH, 1]))
  put(1, call(32, [logits, labels], [dlogits], [BATCH, 1]))
  put(1, call(6, [back, dlogits], [dw], []))
  put(3, 4)
  put(3, 1)
  put(1, call(35, [w, dw], [], [1e-5, 0, 0, 0]))

  const strings = new RecordWriter(1)
  for (const b of names) strings.next().u8(b)
  const sections = [buffers, mappings, residencies, views, calls, operands, attrs, instrs, transfers, bindings, strings]
  return assemble(sections, { events: 4, peak, tier: image })
}

const assemble = (
  sections: readonly RecordWriter[],
  h: { readonly events: number; readonly peak: number; readonly tier: number },
): Uint8Array => {
  let at = 256
  const offsets = sections.map((s) => {
    const from = at
    at = Math.ceil((at + s.size) / 8) * 8
    return from
  })
  const out = new Uint8Array(at)
  sections.forEach((s, i) => out.set(s.done(), offsets[i]))
  const head = new RecordWriter(256)
  const w = head.next()
  for (const c of new TextEncoder().encode('SPILLWAY')) w.u8(c)
  w.u32(1).u32(0).u64(at).u64(0).u32(PAGE_BYTES).u32(h.events).u64(h.peak).u64(h.peak).u64(h.peak).u64(h.tier)
  sections.forEach((s, i) => w.u64(offsets[i]!).u64(s.count))
  out.set(head.done())
  const sum = fnv1a64(out.subarray(32))
  new DataView(out.buffer).setUint32(24, sum.lo, true)
  new DataView(out.buffer).setUint32(28, sum.hi, true)
  return out
}
