// Linear layers, activations, sums and moves of channels as ONNX nodes.
import { attrsListed } from '../../staging/ops/op'
import { ELEMENT, GELU_CUBIC, GELU_SCALE } from './onnx'
import { elementWise, flatDims, imageDims, onImage, weightsOf, type Write } from './writing'

/** For a flat image PyTorch's linear layer; else a convolution of one pixel. */
export const linear: Write = (at, op) => {
  const [x, weight] = op.ins
  const [, , h, w] = at.value(x!).shape
  const out = op.outs[0]!
  if (h === 1 && w === 1)
    return at.is(out, { flat: at.nodes.add('Gemm', [at.flat(x!), ...weightsOf(at, op)], flatDims(at.value(out)), { transB: 1 }) })
  const [o, c] = at.value(weight!).shape as [number, number]
  const kernel = at.nodes.add('Unsqueeze', [at.image(weight!), at.nodes.ints(2, 3)], [o, c, 1, 1])
  const bias = op.ins.slice(2).map((i) => at.image(i))
  const image = at.nodes.add('Conv', [at.image(x!), kernel, ...bias], imageDims(at.value(out)), { kernel_shape: [1, 1] })
  return at.is(out, { image })
}

export const flatten: Write = (at, { ins, outs }) => {
  const out = outs[0]!
  at.is(out, { flat: at.nodes.add('Flatten', [at.image(ins[0]!)], flatDims(at.value(out)), { axis: 1 }) })
}

export const relu: Write = elementWise((at, ins, dims, { attrs: { slope } }) =>
  slope === 0 ? at.nodes.add('Relu', ins, dims) : at.nodes.add('LeakyRelu', ins, dims, { alpha: { float: slope! } }),
)

export const gelu: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  const erf = nodes.add('Erf', [nodes.add('Div', [x!, nodes.scalar(Math.SQRT2)], dims)], dims)
  const twice = nodes.add('Mul', [x!, nodes.add('Add', [erf, nodes.scalar(1)], dims)], dims)
  return nodes.add('Mul', [twice, nodes.scalar(0.5)], dims)
})

export const geluTanh: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  const product = (a: string, b: string): string => nodes.add('Mul', [a, b], dims)
  const cubic = product(nodes.scalar(GELU_CUBIC), product(x!, product(x!, x!)))
  const inner = product(nodes.scalar(GELU_SCALE), nodes.add('Add', [x!, cubic], dims))
  const share = nodes.add('Add', [nodes.scalar(1), nodes.add('Tanh', [inner], dims)], dims)
  return product(nodes.scalar(0.5), product(x!, share))
})

export const mish: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  return nodes.add('Mul', [x!, nodes.add('Tanh', [nodes.add('Softplus', [x!], dims)], dims)], dims)
})

export const silu: Write = elementWise((at, [x], dims) => at.nodes.add('Mul', [x!, at.nodes.add('Sigmoid', [x!], dims)], dims))

export const add: Write = (at, op) =>
  elementWise(
    (_, [first, ...others], dims) => others.reduce((sum, x) => at.nodes.add('Add', [sum, x], dims), first!),
    op.ins.length,
  )(at, op)

export const concat: Write = (at, op) =>
  elementWise((_, ins, dims) => at.nodes.add('Concat', ins, dims, { axis: 1 }), op.ins.length)(at, op)

/** PyTorch's `x.float() / 255` and the rest; nothing if it would change nothing. */
export const fromBytes: Write = onImage((at, x, dims, { attrs }) => {
  const [mean, std] = [attrsListed('mean', attrs), attrsListed('std', attrs)]
  const { nodes } = at
  const shares = nodes.add('Div', [nodes.add('Cast', [x], dims, { to: ELEMENT.FLOAT }), nodes.scalar(255)], dims)
  const shifted = mean.every((m) => m === 0) ? shares : nodes.add('Sub', [shares, nodes.channels(mean)], dims)
  return std.every((s) => s === 1) ? shifted : nodes.add('Div', [shifted, nodes.channels(std)], dims)
})

export const affine: Write = elementWise((at, [x], dims, { attrs: { factor, shift } }) => {
  const { nodes } = at
  const product = factor === 1 ? x! : nodes.add('Mul', [x!, nodes.scalar(factor!)], dims)
  return shift === 0 && factor !== 1 ? product : nodes.add('Add', [product, nodes.scalar(shift!)], dims)
})

export const takeChannels: Write = elementWise((at, [x], dims, { attrs: { from, count } }) =>
  at.nodes.add('Slice', [x!, at.nodes.ints(from!), at.nodes.ints(from! + count!), at.nodes.ints(1)], dims),
)

/** Channels as [groups, C / groups], exchanged. */
export const shuffleChannels: Write = onImage((at, x, dims, { attrs: { groups }, ins }) => {
  const { nodes } = at
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const inner = c / groups!
  const cut = nodes.add('Reshape', [x, nodes.ints(0, groups!, inner, h, w)], ['batch', groups!, inner, h, w])
  const turned = nodes.add('Transpose', [cut], ['batch', inner, groups!, h, w], { perm: [0, 2, 1, 3, 4] })
  return nodes.add('Reshape', [turned, nodes.ints(0, c, h, w)], dims)
})

export const pixelShuffle: Write = onImage((at, x, dims, { attrs: { factor } }) =>
  at.nodes.add('DepthToSpace', [x], dims, { blocksize: factor!, mode: 'CRD' }),
)

/** The channels of a block stand together, as in PyTorch; those of SpaceToDepth do not. */
export const pixelUnshuffle: Write = onImage((at, x, dims, { attrs, ins, outs }) => {
  const { nodes } = at
  const n = attrs['factor']!
  const c = at.value(ins[0]!).shape[1]!
  const [, all, h, w] = at.value(outs[0]!).shape as [number, number, number, number]
  const cut = nodes.add('Reshape', [x, nodes.ints(0, c, h, n, w, n)], ['batch', c, h, n, w, n])
  const turned = nodes.add('Transpose', [cut], ['batch', c, n, n, h, w], { perm: [0, 1, 3, 5, 2, 4] })
  return nodes.add('Reshape', [turned, nodes.ints(0, all, h, w)], dims)
})

/** A weight whose output channels have the mean 0 and the variance 1. */
export const standardized: Write = (at, { attrs, ins, outs }) => {
  const { nodes } = at
  const shape = at.value(outs[0]!).shape
  const means = [shape[0]!, 1, 1, 1]
  const w = at.image(ins[0]!)
  const mean = (of: string): string => nodes.add('ReduceMean', [of, nodes.ints(1, 2, 3)], means, { keepdims: 1 })
  const centred = nodes.add('Sub', [w, mean(w)], shape)
  const variance = mean(nodes.add('Mul', [centred, centred], shape))
  const deviation = nodes.add('Sqrt', [nodes.add('Add', [variance, nodes.scalar(attrs['eps']!)], means)], means)
  at.is(outs[0]!, { image: nodes.add('Div', [centred, deviation], shape) })
}

/** Each value of a parameter several times in a row. */
export const spread: Write = (at, { attrs, ins, outs }) => {
  const { nodes } = at
  const times = attrs['times']!
  const [count] = at.value(ins[0]!).shape as [number]
  const column = nodes.add('Reshape', [at.image(ins[0]!), nodes.ints(count, 1)], [count, 1])
  const rows = nodes.add('Expand', [column, nodes.ints(count, times)], [count, times])
  at.is(outs[0]!, { image: nodes.add('Reshape', [rows, nodes.ints(-1)], [count * times]) })
}
