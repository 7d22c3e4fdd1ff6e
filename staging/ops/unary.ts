// Activations without parameters, one line each: y = f(x) element by element, and dx from dy and the operands of its gradient. A gradient that reads
// y lets the forward overwrite x. The functions themselves are in native/ops/unary.hpp, once for all devices and element types; kernels, the DSL's
// layers, the cases of tests and documentation follow from a line.
import { type AnyAttrs, data, defineOp, type Fields, type Limit, type OpDef, type OperandDef } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, perElement, gradientBy } from './rules'

export interface Unary {
  readonly kind: string
  /** Wire numbers of the function and of its gradient. */
  readonly wires: readonly [number, number]
  readonly reads: 'x' | 'y'
  readonly value: string
  readonly gradient: string
  /** Operations for each element, of the function and of its gradient. */
  readonly flops: readonly [number, number]
  readonly fields?: Fields
  readonly limits?: Readonly<Record<string, Limit>>
  /** Returns an error text if attributes are illegal in combination. */
  readonly fault?: (a: AnyAttrs) => string | undefined
  /** Attributes of the layer with the same name. */
  readonly attrs?: AnyAttrs
  /** Attributes for tests. */
  readonly tried?: readonly AnyAttrs[]
  /** True if it is no layer, but a function for the user's own losses. */
  readonly inner?: true
  /** The test values, if not all numbers are allowed. */
  readonly drawn?: OperandDef['drawn']
}

// With a negative slope, the sign of y would not determine that of x.
const slope = {
  fields: { slope: 'float' },
  limits: { slope: { least: 0 } },
  attrs: { slope: 0 },
  tried: [{ slope: 0 }, { slope: 0.1 }],
} as const

// biome-ignore format: a table
export const UNARY: readonly Unary[] = [
  { kind: 'relu', wires: [15, 16], reads: 'y', value: 'x > 0 ? x : slope·x', gradient: 'y > 0 ? dy : slope·dy', flops: [1, 1], ...slope },
  { kind: 'sigmoid', wires: [37, 38], reads: 'y', value: '1 / (1 + e^−x)', gradient: 'dy·y·(1 − y)', flops: [4, 3] },
  { kind: 'tanh', wires: [39, 40], reads: 'y', value: 'tanh(x)', gradient: 'dy·(1 − y²)', flops: [5, 3] },
  { kind: 'relu6', wires: [100, 101], reads: 'y', value: 'min(max(x, 0), 6)', gradient: '0 < y < 6 ? dy : 0', flops: [2, 2] },
  { kind: 'hard_swish', wires: [102, 103], reads: 'x', value: 'x·min(max(x + 3, 0), 6) / 6', gradient: 'x ≤ −3 ? 0 : x ≥ 3 ? dy : dy·(x/3 + 1/2)', flops: [5, 4] },
  { kind: 'hard_sigmoid', wires: [199, 200], reads: 'y', value: 'min(max(x + 3, 0), 6) / 6', gradient: '0 < y < 1 ? dy / 6 : 0', flops: [4, 3] },
  { kind: 'silu', wires: [104, 105], reads: 'x', value: 'x / (1 + e^−x)', gradient: 'dy·s·(1 + x·(1 − s)), s = 1 / (1 + e^−x)', flops: [5, 8] },
  { kind: 'gelu', wires: [106, 107], reads: 'x', value: 'x·Φ(x), Φ the normal distribution (by erf, not tanh)', gradient: 'dy·(Φ(x) + x·e^(−x²/2)/√(2π))', flops: [15, 20] },
  { kind: 'gelu_tanh', wires: [260, 261], reads: 'x', value: 'x·σ(2u), u = √(2/π)·(x + 0.044715·x³), σ the sigmoid: `gelu` by tanh', gradient: 'dy·s·(1 + 2·x·u′·(1 − s)), s = σ(2u)', flops: [10, 16] },
  { kind: 'softplus', wires: [262, 263], reads: 'x', value: 'log(1 + e^x)', gradient: 'dy / (1 + e^−x)', flops: [9, 5] },
  { kind: 'mish', wires: [264, 265], reads: 'x', value: 'x·tanh(log(1 + e^x))', gradient: 'dy·(t + x·(1 − t²) / (1 + e^−x)), t = tanh(log(1 + e^x))', flops: [9, 14] },
  { kind: 'elu', wires: [266, 267], reads: 'y', value: 'x > 0 ? x : alpha·(e^x − 1)', gradient: 'y > 0 ? dy : dy·(y + alpha)', flops: [6, 3], inner: true,
    fields: { alpha: 'float' }, limits: { alpha: { above: 0 } }, tried: [{ alpha: 1 }, { alpha: 0.5 }] },
  { kind: 'clamp', wires: [268, 269], reads: 'y', value: 'min(max(x, low), high)', gradient: 'low < y < high ? dy : 0', flops: [2, 2], inner: true,
    fields: { low: 'float', high: 'float' }, tried: [{ low: -1, high: 1 }, { low: 0, high: 0.5 }],
    fault: ({ low, high }) => (low! < high! ? undefined : `low is ${low} and high is ${high}; allowed: a low below high`) },
  { kind: 'affine', wires: [152, 153], reads: 'x', value: 'factor·x + shift', gradient: 'factor·dy', flops: [2, 1], inner: true,
    fields: { factor: 'float', shift: 'float' }, tried: [{ factor: -1, shift: 0 }, { factor: 0.5, shift: 2 }] },
  { kind: 'abs', wires: [154, 155], reads: 'x', value: '|x|', gradient: 'dy·sign(x), 0 for 0', flops: [1, 2], inner: true },
  { kind: 'exp', wires: [156, 157], reads: 'y', value: 'e^x', gradient: 'dy·y', flops: [4, 1], inner: true, drawn: 'small' },
  { kind: 'log', wires: [158, 159], reads: 'x', value: 'log(x)', gradient: 'dy / x', flops: [5, 1], inner: true, drawn: 'positive' },
  { kind: 'sqrt', wires: [160, 161], reads: 'y', value: '√x', gradient: 'dy / (2·y)', flops: [4, 2], inner: true, drawn: 'positive' },
  { kind: 'square', wires: [162, 163], reads: 'x', value: 'x²', gradient: '2·x·dy', flops: [1, 2], inner: true, drawn: 'small' },
  { kind: 'reciprocal', wires: [164, 165], reads: 'y', value: '1 / x', gradient: '−dy·y²', flops: [1, 2], drawn: 'positive' },
]

const read = (u: Unary, name: string): OperandDef => (u.drawn ? { ...data(name), drawn: u.drawn } : data(name))

const forward = (u: Unary): OpDef =>
  defineOp({
    kind: u.kind,
    wire: u.wires[0],
    half: 'may',
    fields: u.fields ?? {},
    limits: u.limits ?? {},
    anchor: 'out',
    inPlace: [0],
    what: `y = ${u.value}; may run in place`,
    ins: [read(u, 'x')],
    outs: [data('y')],
    shape: (a, [x]) => checked([expectRank('the input', x!, 4), () => u.fault?.(a)], () => legal(x!)),
    backward: gradientBy(`${u.kind}_bwd`, u.reads),
    samples: (image) => (u.tried ?? [{}]).map((attrs) => ({ attrs, ins: [image] })),
    flops: perElement(u.flops[0], firstOut),
  })

const backward = (u: Unary): OpDef =>
  defineOp({
    kind: `${u.kind}_bwd`,
    wire: u.wires[1],
    half: 'may',
    fields: u.fields ?? {},
    limits: u.limits ?? {},
    anchor: 1,
    inPlace: [1],
    what: `dx = ${u.gradient}; in place of dy`,
    ins: [read(u, u.reads), data('dy')],
    outs: [data('dx')],
    shape: (_, [v, dy]) => checked([expectRank(u.reads, v!, 4), expectShape('the incoming gradient', dy!, v!)], () => legal(v!)),
    flops: perElement(u.flops[1], firstIn),
  })

export const unaryOps: readonly OpDef[] = UNARY.flatMap((u) => [forward(u), backward(u)])
