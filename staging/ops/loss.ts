// Losses: a sum over the tiles into one number, and its gradient, which reads what the loss read and no dy (the loss's
// own gradient is 1). `count` is that of the whole value, so a tile contributes its share of the mean; `weight` multiplies
// value and gradient. A loss per element compares with a target or, when that is left out, with `constant` everywhere.
import { all, type AccessMap, defineOp, type Fields, type GradContext, type OperandDef, type OpDef, pointwise, same } from './op'
import { checked, elements, expectRank, expectShape, firstIn, legal, partialSums, perElement } from './rules'

const classFields = { count: 'int', weight: 'float' } as const
const elementFields = { count: 'int', weight: 'float', constant: 'float' } as const
type Shape = readonly number[]

const perPixel = (): AccessMap => ({ B: same, C: all, H: same, W: same })
const loss: OperandDef = { name: 'loss', role: 'whole', merge: 'sum' }

const gradientOf =
  <F extends Fields>(kind: string) =>
  (g: GradContext<F>): void => {
    if (g.wants(0)) g.give(0, g.emit(kind, g.attrs, g.ins, [g.shape(g.ins[0]!)])[0]!)
  }

const labelsOf = (x: Shape): Shape => [x[0]!, 1, x[2]!, x[3]!]
const counted = (count: number, expected: number) => (): string | undefined =>
  count === expected ? undefined : `count is ${count}; legal is ${expected}`

const labelled = (count: number, x: Shape, labels: Shape, out: Shape) =>
  checked(
    [expectRank('the input', x, 4), expectShape('labels', labels, labelsOf(x)), counted(count, elements(labelsOf(x)))],
    () => legal(out),
  )
const compared = (count: number, x: Shape, target: Shape | undefined, out: Shape) =>
  checked(
    [expectRank('the input', x, 4), () => target && expectShape('the target', target, x)(), counted(count, elements(x))],
    () => legal(out),
  )

const xentIns: readonly OperandDef[] = [
  { name: 'x', role: 'data', access: perPixel },
  { name: 'labels', role: 'data', access: perPixel, dtype: 'i32' },
]
const elementIns: readonly OperandDef[] = [
  { name: 'x', role: 'data', access: () => pointwise },
  { name: 'target', role: 'data', access: () => pointwise, optional: true, float: true },
]

export const softmaxXent = defineOp({
  kind: 'softmax_xent',
  wire: 31,
  bf16: 'may',
  reclaimed: true,
  fields: classFields,
  anchor: 0,
  ins: xentIns,
  outs: [loss],
  what: 'labels `[B,1,H,W]` i32; loss `[1]` = weight·Σ −log softmax(x)[label] / count, count = B·H·W of the whole value; a label outside [0, C) contributes nothing; sum',
  shape: (a, [x, labels]) => labelled(a.count, x!, labels!, [1]),
  backward: gradientOf('softmax_xent_bwd'),
  flops: perElement(15, firstIn),
  workspace: partialSums(1),
})

export const softmaxXentBwd = defineOp({
  kind: 'softmax_xent_bwd',
  wire: 32,
  bf16: 'may',
  fields: classFields,
  anchor: 0,
  ins: xentIns,
  what: 'dx = weight·(softmax(x) − one-hot(label)) / count; 0 for a label outside [0, C)',
  outs: [{ name: 'dx', role: 'data', access: perPixel }],
  shape: (a, [x, labels]) => labelled(a.count, x!, labels!, x!),
  flops: perElement(15, firstIn),
})

// ---------------------------------------------------------------- losses per element

interface ElementLoss {
  readonly kind: string
  readonly wire: number
  readonly what: string
  readonly flops: number
  /** Of |x − t| alone: then the target's gradient is that of x with the two exchanged. */
  readonly symmetric: boolean
}

/** The target may be computed, too: what is trained may stand on either side. */
const elementBackward =
  (e: ElementLoss) =>
  (g: GradContext<typeof elementFields>): void => {
    gradientOf<typeof elementFields>(`${e.kind}_bwd`)(g)
    const [x, target] = g.ins
    if (target === undefined || !g.wants(1)) return
    if (!e.symmetric) throw new Error(`${e.kind} has no gradient by its target`)
    g.give(1, g.emit(`${e.kind}_bwd`, g.attrs, [target, x!], [g.shape(target)])[0]!)
  }

const lossFor = (e: ElementLoss): OpDef =>
  defineOp({
    kind: e.kind,
    wire: e.wire,
    bf16: 'may',
    fields: elementFields,
    anchor: 0,
    ins: elementIns,
    outs: [loss],
    what: e.what,
    shape: (a, [x, target]) => compared(a.count, x!, target, [1]),
    backward: elementBackward(e),
    flops: perElement(e.flops, firstIn),
    workspace: partialSums(1),
  })

const gradientFor = (e: ElementLoss, what: string): OpDef =>
  defineOp({
    kind: `${e.kind}_bwd`,
    wire: e.wire + 1,
    bf16: 'may',
    fields: elementFields,
    anchor: 0,
    ins: elementIns,
    what,
    outs: [{ name: 'dx', role: 'data', access: () => pointwise }],
    shape: (a, [x, target]) => compared(a.count, x!, target, x!),
    flops: perElement(e.flops, firstIn),
  })

const squared: ElementLoss = {
  kind: 'mse',
  wire: 33,
  flops: 3,
  symmetric: true,
  what: 'weight·Σ (x−t)²/count, where t is the target or, without one, the constant; sum',
}
const absolute: ElementLoss = { kind: 'l1', wire: 54, flops: 2, symmetric: true, what: 'weight·Σ |x−t|/count; sum' }
const binary: ElementLoss = {
  kind: 'bce_with_logits',
  wire: 56,
  flops: 12,
  symmetric: false,
  what: 'weight·Σ (max(x,0) − x·t + log(1+exp(−|x|)))/count; the target has no gradient; sum',
}

export const mse = lossFor(squared)
export const mseBwd = gradientFor(squared, 'weight·2(x−t)/count')
export const l1 = lossFor(absolute)
export const l1Bwd = gradientFor(absolute, 'weight·sign(x−t)/count, 0 where they are equal')
export const bceWithLogits = lossFor(binary)
export const bceWithLogitsBwd = gradientFor(binary, 'weight·(σ(x)−t)/count')
