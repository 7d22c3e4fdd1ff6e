// Norms as ONNX nodes, by running statistics or those of the image.
import type { Dims } from './nodes'
import { elementWise, flatDims, imageDims, onImage, type Write } from './writing'

/** Reads statistics by the scale's name, or as inputs. */
export const batchNorm = (frozen: boolean): Write =>
  elementWise((at, [x], dims, { ins, attrs }) => {
    const [scale, shift] = frozen ? [ins[3]!, ins[4]!] : [ins[2]!, ins[3]!]
    const statistics = frozen
      ? [at.image(ins[1]!), at.image(ins[2]!)]
      : ['running_mean', 'running_var'].map((name) => at.statistic(scale, name))
    return at.nodes.add('BatchNormalization', [x!, at.image(scale), at.image(shift), ...statistics], dims, {
      epsilon: { float: attrs['eps']! },
    })
  })

/** Each group as one channel of a row, normalised there; then a scale and a shift for each of the channels. */
export const groupNorm: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const groups = attrs['groups']!
  const affine = ins.slice(2).map((i) => at.image(i))
  const epsilon = { epsilon: { float: attrs['eps']! } }
  if (groups === c)
    return nodes.add(
      'InstanceNormalization',
      [x, ...(affine.length > 0 ? affine : [nodes.filled(c, 1), nodes.filled(c, 0)])],
      dims,
      epsilon,
    )
  const rows: Dims = ['batch', groups, (c / groups) * h * w]
  const cut = nodes.add('Reshape', [x, nodes.ints(0, groups, -1)], rows)
  const normed = nodes.add('InstanceNormalization', [cut, nodes.filled(groups, 1), nodes.filled(groups, 0)], rows, epsilon)
  const whole = nodes.add('Reshape', [normed, nodes.ints(0, c, h, w)], dims)
  if (affine.length === 0) return whole
  const [scale, shift] = affine.map((name) => nodes.add('Unsqueeze', [name, nodes.ints(1, 2)], [c, 1, 1]))
  return nodes.add('Add', [nodes.add('Mul', [whole, scale!], dims), shift!], dims)
})

export const layerNorm: Write = (at, op) => {
  const [x, ...weights] = op.ins
  const out = op.outs[0]!
  const attributes = { axis: -1, epsilon: { float: op.attrs['eps']! } }
  const affine = weights.map((i) => at.image(i))
  if (at.areFlat([x!]))
    return at.is(out, { flat: at.nodes.add('LayerNormalization', [at.flat(x!), ...affine], flatDims(at.value(out)), attributes) })
  const [, c, h, w] = at.value(out).shape
  const last: Dims = ['batch', h!, w!, c!]
  const turned = at.nodes.add('Transpose', [at.image(x!)], last, { perm: [0, 2, 3, 1] })
  const normed = at.nodes.add('LayerNormalization', [turned, ...affine], last, attributes)
  return at.is(out, { image: at.nodes.add('Transpose', [normed], imageDims(at.value(out)), { perm: [0, 3, 1, 2] }) })
}

/** ONNX sums over a window with the channel in its middle; one of an even size has none, and is an average along the channels. */
export const localResponseNorm: Write = onImage((at, x, dims, { attrs }) => {
  const { size, alpha, beta, k } = attrs as { size: number; alpha: number; beta: number; k: number }
  const { nodes } = at
  if (size % 2 === 1)
    return nodes.add('LRN', [x], dims, { size, alpha: { float: alpha }, beta: { float: beta }, bias: { float: k } })
  const [b, ...chw] = dims
  const deep: Dims = [b!, 1, ...chw]
  const squares = nodes.add('Unsqueeze', [nodes.add('Mul', [x, x], dims), nodes.ints(1)], deep)
  const low = Math.floor(size / 2)
  const means = nodes.add('AveragePool', [squares], deep, {
    kernel_shape: [size, 1, 1],
    pads: [low, 0, 0, size - 1 - low, 0, 0],
    strides: [1, 1, 1],
    count_include_pad: 1,
  })
  const sums = nodes.add('Mul', [nodes.add('Squeeze', [means, nodes.ints(1)], dims), nodes.scalar(alpha)], dims)
  const divisor = nodes.add('Pow', [nodes.add('Add', [sums, nodes.scalar(k)], dims), nodes.scalar(beta)], dims)
  return nodes.add('Div', [x, divisor], dims)
})
