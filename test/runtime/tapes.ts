// A tape of a small network, written record by record (docs/internals/tape.md), so that these tests need no stager:
// x [B,C,1,1] -> linear -> softmax cross-entropy -> weight gradients -> sgd; and a relu of x that is swapped out and back.
import { pagesFor } from '../../staging/core/bytes'
import { opDef } from '../../staging/ops/registry'
import { emptySections, instructionRecord, joined, type Values } from '../../staging/plan/records'
import { type INSTRUCTIONS, NONE, type SECTIONS, type Tag } from '../../staging/plan/wire'

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
  const tape = emptySections()
  for (const bytes of [small, BATCH * 4, image, image, image]) tape.buffers.add({ pages: pagesFor(bytes), bytes })
  const runs = [
    [S, 0],
    [1, S],
    [P, S + 1],
    [P, S + 1 + P],
    [P, S + 1],
  ] as const
  runs.forEach(([pages, physPage], i) => {
    tape.mappings.add({ buffer: i, vaPage: 0, physPage, count: pages, residency: i })
    tape.residencies.add({ pages, flags: { forEver: i === 0, ahead: false } })
  })
  const view = (buffer: number | null, offset: number, shape: readonly number[], dtype: 'f32' | 'i32' = 'f32'): number => {
    const dims = [0, 1, 2, 3].map((i) => shape[i] ?? 1)
    const [, c, h, w] = dims as [number, number, number, number]
    const strides = shape.length === 4 ? [h * w * c, 1, w * c, c] : [c * h * w, h * w, w, 1]
    return tape.views.add({ buffer, dtype, offset, dims, strides, origin: [0, 0, 0, 0], extent: dims, rank: shape.length })
  }
  const tail = Math.ceil((2 * weights) / 64) * 64
  const [w, dw] = [view(0, 0, [CLASSES, CHANNELS]), view(0, weights, [CLASSES, CHANNELS])]
  const loss = view(0, tail, [1])
  const [logits, dlogits] = [view(0, tail + 64, [BATCH, CLASSES, 1, 1]), view(0, tail + 128, [BATCH, CLASSES, 1, 1])]
  const workspaceView = view(0, tail + 4096, [WORKSPACE_BYTES / 4])
  const labels = view(1, 0, [BATCH, 1, 1, 1], 'i32')
  const [x, y, back] = [2, 3, 4].map((b) => view(b, 0, [BATCH, CHANNELS, 1, 1])) as [number, number, number]
  const fedX = view(null, 0, [BATCH, CHANNELS, 1, 1])
  const fedLabels = view(null, 0, [BATCH, 1, 1, 1], 'i32')

  const call = (kind: string, ins: number[], outs: number[], values: number[]): number => {
    const id = tape.calls.add({
      kind: opDef(kind).wire,
      ins: ins.length,
      outs: outs.length,
      flags: { recompute: false, makesMask: false, fills: false },
      firstOperand: tape.operands.count,
      firstAttr: tape.attrs.count,
      attrs: values.length,
      workspaceView,
      op: NONE,
      segment: 0,
      tile: 0,
      way: 0,
      seconds: 0,
      flops: 0,
      mask: NONE,
      masked: 0,
    })
    for (const v of [...ins, ...outs]) tape.operands.add({ view: v })
    for (const value of values) tape.attrs.add({ value })
    return id
  }
  const transfer = (residency: number, bytes: number, binding: number | null): number =>
    tape.transfers.add({
      residency,
      buffer: residency,
      offset: 0,
      bytes,
      far: binding === null ? 'tier' : 'source',
      binding,
      farOffset: 0,
    })
  const bind = (
    said: Pick<Values<typeof SECTIONS.bindings.fields>, 'role' | 'view' | 'dtype' | 'dist' | 'a'>,
    name: string,
  ): void => {
    tape.bindings.add({ home: 0, ...said, nameOffset: tape.strings.count, nameBytes: name.length })
    for (const byte of new TextEncoder().encode(name)) tape.strings.add({ byte })
  }
  bind({ role: 'param', view: w, dtype: 'f32', dist: 'normal', a: 0.01 }, 'head.weight')
  bind({ role: 'input', view: fedX, dtype: 'f32', dist: 'none', a: 0 }, 'image')
  bind({ role: 'target', view: fedLabels, dtype: 'i32', dist: 'none', a: 0 }, 'labels')
  bind({ role: 'loss', view: loss, dtype: 'f32', dist: 'none', a: 0 }, 'loss')
  const put = <T extends Tag>(tag: T, operands: Values<(typeof INSTRUCTIONS)[T]['operands']>): void =>
    void tape.instrs.add(instructionRecord(tag, operands))
  const [inLabels, inX, out, again] = [
    transfer(1, BATCH * 4, 2),
    transfer(2, image, 1),
    transfer(3, image, null),
    transfer(4, image, null),
  ]
  put('mark', { segment: 0, tile: 0 })
  put('acquire', { residency: 1 })
  put('swapIn', { transfer: inLabels, event: 0 })
  put('acquire', { residency: 2 })
  put('swapIn', { transfer: inX, event: 1 })
  put('wait', { event: 1, cause: 'data' })
  put('acquire', { residency: 3 })
  put('call', { call: call('relu', [x], [y], [0]) })
  put('release', { residency: 2 })
  put('swapOut', { transfer: out, event: 2 })
  put('wait', { event: 2, cause: 'memory' })
  put('release', { residency: 3 })
  put('acquire', { residency: 4 })
  put('swapIn', { transfer: again, event: 3 })
  put('wait', { event: 3, cause: 'data' })
  put('mark', { segment: 1, tile: 0 })
  put('call', { call: call('linear', [back, w], [logits], []) })
  put('wait', { event: 0, cause: 'data' })
  put('call', { call: call('softmax_xent', [logits, labels], [loss], [BATCH, 1]) })
  put('call', { call: call('softmax_xent_bwd', [logits, labels], [dlogits], [BATCH, 1]) })
  put('call', { call: call('linear_bwd_weights', [back, dlogits], [dw], []) })
  put('release', { residency: 4 })
  put('release', { residency: 1 })
  put('call', { call: call('sgd', [w, dw], [], [1e-5, 0, 0, 0]) })

  return joined(tape, { floatType: 'f32', events: 4, budgetPages: peak, peakPages: peak, tierBytes: image })
}
