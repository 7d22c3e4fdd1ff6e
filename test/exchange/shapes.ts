// ONNX's shape rules for the operators of exports, written from the operators' documentation and sharing nothing with the writer. In: a node, its
// inputs' shapes and constants. Out: its output's shape, with the batch as 0. Only used by tests.
import type { AttributeProto, NodeProto } from '../../src/exchange/onnx'

export type Shape = readonly number[]
export interface Known {
  readonly shape: Shape
  /** The values of a constant of whole numbers. */
  readonly ints?: readonly number[]
}

const attributes = (n: NodeProto): ReadonlyMap<string, AttributeProto> => new Map((n.attribute ?? []).map((a) => [a.name!, a]))
const ints = (n: NodeProto, name: string, usual: readonly number[]): readonly number[] =>
  attributes(n).get(name)?.ints?.map(Number) ?? usual
const int = (n: NodeProto, name: string, usual: number): number => Number(attributes(n).get(name)?.i ?? usual)

/** 1 stretches. */
const broadcast = (a: Shape, b: Shape): Shape => {
  const rank = Math.max(a.length, b.length)
  const at = (s: Shape, i: number): number => s[i - (rank - s.length)] ?? 1
  return Array.from({ length: rank }, (_, i) => {
    const [x, y] = [at(a, i), at(b, i)]
    if (x !== y && x !== 1 && y !== 1) throw new Error(`[${a}] and [${b}] do not go together`)
    return x === 1 ? y : x
  })
}

const windows = (n: NodeProto, space: Shape, kernel: Shape): Shape => {
  const rank = space.length
  const [strides, dilations, pads] = [
    ints(n, 'strides', Array(rank).fill(1)),
    ints(n, 'dilations', Array(rank).fill(1)),
    ints(n, 'pads', Array(2 * rank).fill(0)),
  ]
  const round = int(n, 'ceil_mode', 0) === 1 ? Math.ceil : Math.floor
  return space.map((d, i) => round((d + pads[i]! + pads[i + rank]! - (dilations[i]! * (kernel[i]! - 1) + 1)) / strides[i]!) + 1)
}

const spread = (n: NodeProto, space: Shape, kernel: Shape): Shape =>
  space.map((d, i) => {
    const [pads, out] = [ints(n, 'pads', [0, 0, 0, 0]), ints(n, 'output_padding', [0, 0])]
    const reach = (kernel[i]! - 1) * ints(n, 'dilations', [1, 1])[i]! + 1
    return ints(n, 'strides', [1, 1])[i]! * (d - 1) + out[i]! + reach - pads[i]! - pads[i + 2]!
  })

const same = (_: NodeProto, [x]: readonly Known[]): Shape => x!.shape
const both = (_: NodeProto, [a, b]: readonly Known[]): Shape => broadcast(a!.shape, b!.shape)
const size = (s: Shape): number => s.reduce((n, d) => n * d, 1)

const reduced = (_: NodeProto, [x, axes]: readonly Known[]): Shape => x!.shape.map((d, i) => (axes!.ints!.includes(i) ? 1 : d))

const RULES: Readonly<Record<string, (n: NodeProto, ins: readonly Known[]) => Shape>> = {
  Add: both,
  AveragePool: (n, [x]) => [...x!.shape.slice(0, 2), ...windows(n, x!.shape.slice(2), ints(n, 'kernel_shape', []))],
  BatchNormalization: (_, [x, ...weights]) => {
    if (weights.length !== 4 || weights.some((w) => w.shape.length !== 1 || w.shape[0] !== x!.shape[1]))
      throw new Error('weights of [C]')
    return x!.shape
  },
  Clip: same,
  Concat: (n, ins) => {
    const axis = int(n, 'axis', -9)
    const [first] = ins
    if (ins.some((x) => x.shape.some((d, i) => i !== axis && d !== first!.shape[i])))
      throw new Error('more than the axis differs')
    return first!.shape.map((d, i) => (i === axis ? ins.reduce((m, x) => m + x.shape[i]!, 0) : d))
  },
  Conv: (n, [x, w, b]) => {
    if (x!.shape[1] !== w!.shape[1]! * int(n, 'group', 1) || (b && b.shape.join() !== `${w!.shape[0]}`))
      throw new Error('channels')
    return [x!.shape[0]!, w!.shape[0]!, ...windows(n, x!.shape.slice(2), w!.shape.slice(2))]
  },
  ConvTranspose: (n, [x, w]) => {
    if (x!.shape[1] !== w!.shape[0]) throw new Error('channels')
    return [x!.shape[0]!, w!.shape[1]! * int(n, 'group', 1), ...spread(n, x!.shape.slice(2), w!.shape.slice(2))]
  },
  Cast: same,
  DepthToSpace: (n, [x]) => {
    const [b, c, h, w] = x!.shape as [number, number, number, number]
    const size = int(n, 'blocksize', 1)
    return [b, c / size ** 2, h * size, w * size]
  },
  Div: both,
  Einsum: (n, ins) => {
    const [from, to] = Buffer.from(attributes(n).get('equation')!.s!).toString().split('->') as [string, string]
    const sizes = new Map<string, number>()
    for (const [i, letters] of from.split(',').entries())
      for (const [axis, letter] of [...letters].entries()) {
        const d = ins[i]!.shape[axis]!
        if ((sizes.get(letter) ?? d) !== d) throw new Error(`the sizes of '${letter}' differ`)
        sizes.set(letter, d)
      }
    return [...to].map((letter) => sizes.get(letter)!)
  },
  Elu: same,
  Erf: same,
  Exp: same,
  Expand: (_, [, to]) => to!.ints!,
  Flatten: (_, [x]) => [x!.shape[0]!, size(x!.shape.slice(1))],
  Gather: (n, [x, at]) => x!.shape.flatMap((d, i) => (i === int(n, 'axis', 0) ? at!.shape : [d])),
  Gemm: (n, [a, b]) => {
    const [rows, inner] = int(n, 'transB', 0) === 1 ? b!.shape : [...b!.shape].reverse()
    if (a!.shape.length !== 2 || a!.shape[1] !== inner) throw new Error('the inner sizes differ')
    return [a!.shape[0]!, rows!]
  },
  GlobalAveragePool: (_, [x]) => [...x!.shape.slice(0, 2), 1, 1],
  HardSigmoid: same,
  HardSwish: same,
  Identity: same,
  InstanceNormalization: same,
  LRN: same,
  LayerNormalization: (_, [x, w]) => {
    if (w!.shape.join() !== `${x!.shape[x!.shape.length - 1]}`) throw new Error('weights of the last size')
    return x!.shape
  },
  LeakyRelu: same,
  Log: same,
  MatMul: (_, [a, b]) => {
    if (a!.shape[a!.shape.length - 1] !== b!.shape[b!.shape.length - 2]) throw new Error('the inner sizes differ')
    const before = broadcast(a!.shape.slice(0, -2), b!.shape.slice(0, -2))
    return [...before, a!.shape[a!.shape.length - 2]!, b!.shape[b!.shape.length - 1]!]
  },
  MaxPool: (n, [x]) => [...x!.shape.slice(0, 2), ...windows(n, x!.shape.slice(2), ints(n, 'kernel_shape', []))],
  Min: both,
  Mul: both,
  PRelu: same,
  Neg: same,
  Pad: (_, [x, pads]) => x!.shape.map((d, i) => d + pads!.ints![i]! + pads!.ints![i + x!.shape.length]!),
  Pow: both,
  Reciprocal: same,
  ReduceL2: reduced,
  ReduceMean: reduced,
  ReduceSum: reduced,
  Relu: same,
  Reshape: (_, [x, to]) => {
    const kept = to!.ints!.map((d, i) => (d === 0 ? x!.shape[i]! : d))
    const known = kept.filter((d) => d > 0)
    return kept.map((d) => (d === -1 ? size(x!.shape.filter((v) => v !== 0)) / size(known) : d))
  },
  Resize: (n, [x, , , sizes]) => {
    const axes = ints(n, 'axes', [])
    return x!.shape.map((d, i) => (axes.includes(i) ? sizes!.ints![axes.indexOf(i)]! : d))
  },
  Sigmoid: same,
  Slice: (_, [x, from, to, axes, steps]) =>
    x!.shape.map((d, i) => (i === axes!.ints![0] ? Math.ceil((to!.ints![0]! - from!.ints![0]!) / (steps?.ints?.[0] ?? 1)) : d)),
  Softmax: same,
  Softplus: same,
  Sqrt: same,
  Sub: both,
  Squeeze: (_, [x, axes]) => x!.shape.filter((_d, i) => !axes!.ints!.includes(i)),
  Tanh: same,
  Transpose: (n, [x]) => ints(n, 'perm', []).map((i) => x!.shape[i]!),
  Unsqueeze: (_, [x, axes]) => {
    const out = [...x!.shape]
    for (const a of axes!.ints!) out.splice(a, 0, 1)
    return out
  },
}

export const inferred = (n: NodeProto, ins: readonly Known[]): Shape => {
  const rule = RULES[n.opType!]
  if (!rule) throw new Error(`no rule for ${n.opType}`)
  return rule(n, ins)
}
