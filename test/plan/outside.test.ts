// Marks of calls that may leave out pixels outside of a mask: they follow from the values, so tiles, copies and recomputations have those of the whole.
// A value that another operator reads, a gate, and a mask that is made too late have none.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, fromBytes, globalAvgPool, linear, masked, maxPool, modelAt, relu } from '../../dsl'
import { smallestBudget, staged } from '../e2e/runs'
import { marksOf } from '../../staging/plan/outside'
import type { Plan } from '../../staging/plan/plan'

const body = [
  fromBytes({ mean: 0.5, std: 0.25 }),
  conv2d('stem', 16, 3, { stride: 2, bias: false }),
  batchNorm('n0'),
  relu(),
  maxPool(3, { stride: 2, pad: 1 }),
  conv2d('a', 16, 3),
  batchNorm('n1'),
  relu(),
  globalAvgPool(),
  linear('head', 3),
] as const
const made = modelAt([2, 3, 256, 256], masked(16, ...body))
if (made._tag === 'Left') throw new Error(JSON.stringify(made.left))
const net = made.right

const options = { loss: crossEntropy } as const
const wholePlan = staged(net, { ...options, strategy: 'in-core' }).plan
const plans: readonly (readonly [string, Plan])[] = [
  ['in-core', wholePlan],
  ['tiled', staged(net, { ...options, strategy: 'tiled', budget: smallestBudget(net, 'tiled', options) }).plan],
]

const LEFT_OUT = [
  'conv2d',
  'bn_masked_apply',
  'relu',
  'max_pool',
  'relu_bwd',
  'bn_bwd_reduce',
  'bn_bwd_data',
  'conv2d_bwd_weights',
  'conv2d_bwd_data',
]
for (const [name, plan] of plans)
  test(`${name}: all calls of kernels that leave out pixels have a mark, the mask is made before them`, () => {
    const marks = marksOf(plan)
    plan.calls.forEach(({ kind, op }, i) => {
      // The mask's own maxima see the whole image.
      const isOfMask = kind === 'max_pool' && plan.graph.ops[op]!.attrs['kernelH'] === 16
      if (LEFT_OUT.includes(kind) && !isOfMask) assert.is(marks[i]?.mask, 0, `${kind} ${i}`)
    })
    assert.ok(marks.findIndex((m) => m?.makes) < marks.findIndex((m) => m && !m.makes))
  })

test('a call writes 0 outside unless its output shares the bytes of an input that is 0 there', () => {
  const marks = marksOf(wholePlan)
  wholePlan.calls.forEach((c, i) => {
    const shares = c.ins.some((v) => v.cell === c.outs[0]?.cell)
    if (marks[i] && !shares && ['conv2d', 'bn_masked_apply', 'relu'].includes(c.kind)) assert.ok(marks[i].fills, c.kind)
    if (marks[i] && shares && c.kind === 'relu') assert.not(marks[i].fills, c.kind)
  })
  assert.ok(marks.some((m) => m?.fills) && marks.some((m) => m && !m.fills && !m.makes))
})

test('a copy between tiles leaves out the pixels that its value does', () => {
  const written = wholePlan.calls.find((c) => c.kind === 'relu')!.outs
  const bytes = wholePlan.calls.find((c) => c.kind === 'from_bytes')!.ins
  const copies = [written, bytes].map((ins) => ({
    ...wholePlan.calls[0]!,
    kind: 'copy',
    op: -1,
    ins,
    outs: [{ ...ins[0]!, cell: -1 }],
  }))
  const [, ...rest] = marksOf({ ...wholePlan, calls: [...wholePlan.calls, ...copies] }).slice(wholePlan.calls.length - 1)
  assert.equal(rest, [{ mask: 0, makes: false, masked: 1, fills: true }, undefined])
})

test('a value that another operator reads before its product with the mask is computed everywhere', () => {
  const { graph } = wholePlan
  const conv = graph.ops.find((op) => op.kind === 'conv2d')!
  const stats = graph.ops.find(
    (op) => op.kind === 'bn_stats' && op.phase === 'forward' && graph.values[op.ins[0]!]!.shape[1] === 16,
  )!
  const ops = graph.ops.map((op) => (op === stats ? { ...op, ins: [conv.outs[0]!] } : op))
  const marks = marksOf({ ...wholePlan, graph: { ...graph, ops } })
  const at = (id: number): number => wholePlan.calls.findIndex((c) => c.op === id)
  assert.is(marks[at(conv.id)], undefined)
  assert.is(marks[at(stats.id)], undefined)
})

test('without blocks that an upsample reads there is no mask; a mask that is made too late has no marks', () => {
  const { graph, calls } = wholePlan
  const ops = graph.ops.map((op) => (op.kind === 'upsample' ? { ...op, attrs: { ...op.attrs, mode: 1 } } : op))
  assert.ok(marksOf({ ...wholePlan, graph: { ...graph, ops } }).every((m) => m === undefined))
  const first = calls.findIndex((c) => c.kind === 'clamp')
  const late = [...calls.slice(0, first), ...calls.slice(first + 1), calls[first]!]
  assert.ok(marksOf({ ...wholePlan, calls: late }).every((m) => m === undefined))
})

test('a convolution that runs before the mask is made is computed everywhere, the others leave out pixels', () => {
  const floats = modelAt(
    [1, 3, 64, 64],
    masked(16, conv2d('first', 16, 3), relu(), conv2d('second', 16, 3), globalAvgPool(), linear('head', 3)),
  )
  if (floats._tag === 'Left') throw new Error(JSON.stringify(floats.left))
  const { plan } = staged(floats.right, { ...options, strategy: 'in-core' })
  const marks = marksOf(plan)
  const convolutions = plan.calls.flatMap(({ kind }, i) => (kind === 'conv2d' ? [marks[i]?.mask] : []))
  assert.equal(convolutions, [undefined, 0])
})

test.run()
