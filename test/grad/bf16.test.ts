// Activations stored as bf16: the changed values, the places of casts, the unchanged values; and damaged element types are refused by the codec and,
// in a plan, by the verifier.
import { type Either, isLeft, isRight, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Model } from '../../dsl'
import {
  batchNorm,
  conv2d,
  crossEntropy,
  globalAvgPool,
  identity,
  linear,
  localResponseNorm,
  maxPool,
  model,
  relu,
  residual,
  seq,
} from '../../dsl'
import { compile } from '../../staging/compile'
import { renderError } from '../../staging/core/errors'
import { type Loss, training } from '../../staging/grad/grad'
import { inHalf } from '../../staging/grad/rewrite/half'
import { rewritten } from '../../staging/grad/rewrite/rewrites'
import { decodeGraph, checkedGraph } from '../../staging/graph/codec'
import { valueBytes, type DType, type Graph, type Value } from '../../staging/graph/graph'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import { machineNamed } from '../../src/machine/machine'
import { elaborated } from '../dsl/forward'
import type { MutablePlan } from '../verify/draft'
import { refuses } from '../verify/refused'

const given = <A>(e: Either<unknown, A>): A => {
  if (isLeft(e)) throw new Error(JSON.stringify(e.left))
  return e.right
}
const floats = (m: Model, loss: Loss): Graph => {
  return given(training(rewritten(given(elaborated(m, 'net', loss)))))
}
const valueNamed = (g: Graph, name: string): Value => g.values.find((v) => v.name === name)!
const kinds = (g: Graph): readonly string[] => g.ops.map((o) => o.kind)

const classifier = model(
  [2, 3, 8, 8],
  seq(
    conv2d('c1', 8, 3),
    batchNorm('bn'),
    relu(),
    maxPool('pool', 2),
    residual(seq(conv2d('c2', 8, 3)), identity),
    relu(),
    globalAvgPool('gap'),
    linear('fc', 4),
  ),
)
const between = model([1, 3, 8, 8], seq(conv2d('c1', 4, 3), localResponseNorm(5), conv2d('c2', 4, 3)))
const stored = inHalf('bf16')(floats(classifier, crossEntropy))
const cast = inHalf('bf16')(floats(between, 'mse'))

test('activations and their gradients are bf16, all else is not', () => {
  assert.equal(checkedGraph(stored), right(stored))
  for (const v of stored.values) {
    const isWide =
      ['param', 'state', 'stat', 'loss', 'target'].includes(v.role) ||
      v.shape.length !== 4 ||
      stored.values[v.gradOf ?? -1]?.role === 'param'
    if (isWide) assert.is.not(v.dtype, 'bf16', v.name)
    // Sums over tiles have the float type until their reader.
    else if (!['gap', 'gap.grad.float'].includes(v.name)) assert.is(v.dtype, 'bf16', v.name)
  }
  assert.equal([valueNamed(stored, 'gap').dtype, valueNamed(stored, 'gap.bf16').dtype], ['f32', 'bf16'])
})

test('activations take half the bytes', () => {
  const before = floats(classifier, crossEntropy)
  for (const v of before.values)
    if (v.role === 'activation' && v.name !== 'gap') assert.is(2 * valueBytes(stored.values[v.id]!), valueBytes(v), v.name)
})

test('an operator that takes no bf16 is fed and read through casts, and cast again for its gradient', () => {
  assert.equal(checkedGraph(cast), right(cast))
  assert.equal(kinds(cast).slice(0, 6), ['conv2d', 'from_bf16', 'lrn', 'to_bf16', 'conv2d', 'mse'])
  const norm = cast.ops.find((o) => o.kind === 'lrn_bwd')!
  assert.ok(norm.ins.every((v) => cast.values[v]!.dtype === 'f32'))
  const again = cast.ops.filter((o) => o.kind === 'from_bf16')
  assert.equal(
    again.map((o) => o.phase),
    ['forward', 'backward'],
  )
  assert.is(again[0]!.ins[0], again[1]!.ins[0])
  // The second convolution's weight gradient reads the value rounded for its forward.
  assert.is(kinds(cast).filter((k) => k === 'to_bf16').length, 1)
  assert.is(cast.ops.filter((o) => o.kind === 'to_bf16_grad').length, 1)
})

test('a graph of several precisions survives its codec, and a damaged one is refused with the place', () => {
  for (const g of [stored, cast]) assert.equal(given(decodeGraph(JSON.parse(JSON.stringify(g)))), g)
  const refusal = (name: string, dtype: DType): string => {
    const values = stored.values.map((v) => (v.name === name ? { ...v, dtype } : v))
    const read = decodeGraph({ ...stored, values })
    assert.ok(isLeft(read), `${name} as ${dtype}`)
    return renderError((read as { readonly left: Parameters<typeof renderError>[0] }).left)
  }
  assert.match(refusal('c1.weight', 'bf16'), /'c1.weight' of role param is bf16; allowed: f32/)
  assert.match(refusal('bn.stats', 'bf16'), /of role stat is bf16; allowed: f32/)
  assert.match(refusal('c1', 'f32'), /allowed: bf16/)
  assert.match(refusal('gap', 'bf16'), /allowed: f32/)
  assert.match(refusal('c1.grad', 'f32'), /allowed: bf16|element type bf16/)
})

const machine = { ...given(machineNamed('null', { precision: 'fp32' })), seconds: () => 1e-5, workspace: () => 64 }
const planned = () => given(compile(stored, { strategy: 'in-core', budgetBytes: 2 ** 30, machine }))
const draft = () => structuredClone(planned()) as unknown as MutablePlan

test('a plan carries its element types through its file', () => {
  const plan = planned()
  const read = decodePlan(encodePlan(plan))
  assert.ok(isRight(read))
  assert.equal(given(read).graph.values, plan.graph.values)
})

for (const [name, dtype] of [
  ['c1', 'f32'],
  ['bn.stats', 'bf16'],
  ['c2.weight', 'bf16'],
  ['input', 'f32'],
  ['gap', 'bf16'],
] as const)
  refuses(
    `'${name}' as ${dtype}`,
    'graph',
    draft,
    (p) => {
      p.graph.values.find((v) => v.name === name)!.dtype = dtype
    },
    /takes it as/,
  )

test.run()
