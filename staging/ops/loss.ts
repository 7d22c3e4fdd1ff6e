// Losses: a sum over the tiles into one number, and its gradient, which reads what the loss read and no dy (the loss's
// own gradient is 1). `count` is that of the whole value, so a tile contributes its share of the mean.
import { all, type AccessMap, defineOp, type GradContext, type OperandDef, pointwise, same } from './op'
import { checked, elements, expectRank, expectShape, firstIn, legal, partialSums, perElement } from './rules'

const fields = { count: 'int' } as const
type Shape = readonly number[]

const perPixel = (): AccessMap => ({ B: same, C: all, H: same, W: same })
const loss: OperandDef = { name: 'loss', role: 'whole', merge: 'sum' }

const gradientOf = (kind: string) => (g: GradContext<typeof fields>): void => {
  if (g.wants(0)) g.give(0, g.emit(kind, g.attrs, g.ins, [g.shape(g.ins[0]!)])[0]!)
}

const labelsOf = (x: Shape): Shape => [x[0]!, 1, x[2]!, x[3]!]
const counted = (count: number, expected: number) => (): string | undefined =>
  count === expected ? undefined : `count is ${count}; legal is ${expected}`

const labelled = (count: number, x: Shape, labels: Shape, out: Shape) => checked([
  expectRank('the input', x, 4), expectShape('labels', labels, labelsOf(x)), counted(count, elements(labelsOf(x))),
], () => legal(out))
const compared = (count: number, x: Shape, target: Shape, out: Shape) => checked([
  expectRank('the input', x, 4), expectShape('the target', target, x), counted(count, elements(x)),
], () => legal(out))

const xentIns: readonly OperandDef[] =
  [{ name: 'x', role: 'data', access: perPixel }, { name: 'labels', role: 'data', access: perPixel, dtype: 'i32' }]
const mseIns: readonly OperandDef[] =
  [{ name: 'x', role: 'data', access: () => pointwise }, { name: 'target', role: 'data', access: () => pointwise }]

export const softmaxXent = defineOp({
  kind: 'softmax_xent', wire: 31, fields, anchor: 0, ins: xentIns, outs: [loss],
  what: 'labels `[B,1,H,W]` i32; loss `[1]` = Σ −log softmax(x)[label] / count, count = B·H·W of the whole value; a label outside [0, C) contributes nothing; sum',
  shape: (a, [x, labels]) => labelled(a.count, x!, labels!, [1]),
  backward: gradientOf('softmax_xent_bwd'),
  flops: perElement(15, firstIn), workspace: partialSums(1),
})

export const softmaxXentBwd = defineOp({
  kind: 'softmax_xent_bwd', wire: 32, fields, anchor: 0, ins: xentIns,
  what: 'dx = (softmax(x) − one-hot(label)) / count; 0 for a label outside [0, C)',
  outs: [{ name: 'dx', role: 'data', access: perPixel }],
  shape: (a, [x, labels]) => labelled(a.count, x!, labels!, x!),
  flops: perElement(15, firstIn),
})

export const mse = defineOp({
  kind: 'mse', wire: 33, fields, anchor: 0, ins: mseIns, outs: [loss],
  what: 'Σ (x−t)²/count; sum',
  shape: (a, [x, target]) => compared(a.count, x!, target!, [1]),
  backward: gradientOf('mse_bwd'),
  flops: perElement(3, firstIn), workspace: partialSums(1),
})

export const mseBwd = defineOp({
  kind: 'mse_bwd', wire: 34, fields, anchor: 0, ins: mseIns,
  what: '2(x−t)/count',
  outs: [{ name: 'dx', role: 'data', access: () => pointwise }],
  shape: (a, [x, target]) => compared(a.count, x!, target!, x!),
  flops: perElement(2, firstIn),
})
