// A forward graph as ONNX nodes, in the form for inference: norms by running statistics, no dropout. In: the graph, its output. Out: the ONNX graph
// without weights. Invariant: initializers are the parameters and statistics and nothing else, under PyTorch's names; other constants are nodes. The
// result of a linear layer is [B,C], as in PyTorch: flat. All else is [B,C,H,W]. Worked example: bn_stats is nothing, bn_apply a BatchNormalization
// that reads NAME.running_mean and NAME.running_var.
import type { Graph, Op, Value, ValueId } from '../../staging/graph/graph'
import { attrsListed } from '../../staging/ops/op'
import { distances } from '../../staging/ops/attention'
import { windowOutput } from '../../staging/ops/rules'
import { type Dims, Nodes, valueInfo } from './nodes'
import { ELEMENT, GELU_CUBIC, GELU_SCALE, type GraphProto } from './onnx'

/** The names that a value has; one of both at least. */
interface Forms {
  image?: string
  flat?: string
}

export const INPUT = 'input'
export const OUTPUT = 'output'

const imageDims = (v: Value): Dims => ['batch', ...v.shape.slice(1)]
const flatDims = (v: Value): Dims => ['batch', v.shape[1]!]

class Inference {
  readonly nodes: Nodes
  private readonly forms = new Map<ValueId, Forms>()
  private readonly named: ReadonlyMap<string, Value>

  constructor(private readonly graph: Graph) {
    const weights = graph.values.filter((v) => v.role === 'param' || v.role === 'state')
    this.named = new Map(weights.map((v) => [v.name, v]))
    this.nodes = new Nodes([INPUT, OUTPUT, ...this.named.keys()])
    for (const v of graph.values)
      if (v.role === 'input') this.forms.set(v.id, { image: INPUT })
      else if (this.named.has(v.name)) this.forms.set(v.id, { image: v.name })
  }

  value(id: ValueId): Value {
    return this.graph.values[id]!
  }
  formsOf(id: ValueId): Forms {
    const forms = this.forms.get(id)
    if (!forms) throw new Error(`'${this.value(id).name}' is read before it is computed`)
    return forms
  }
  is(id: ValueId, forms: Forms): void {
    this.forms.set(id, forms)
  }

  /** A value as [B,C,H,W], or a weight. */
  image(id: ValueId): string {
    const forms = this.formsOf(id)
    forms.image ??= this.nodes.add('Unsqueeze', [forms.flat!, this.nodes.ints(2, 3)], imageDims(this.value(id)))
    return forms.image
  }
  flat(id: ValueId): string {
    const forms = this.formsOf(id)
    forms.flat ??= this.nodes.add('Flatten', [forms.image!], flatDims(this.value(id)), { axis: 1 })
    return forms.flat
  }
  /** Returns true if all of them are flat already. */
  areFlat(ids: readonly ValueId[]): boolean {
    return ids.every((id) => this.formsOf(id).image === undefined)
  }
  /** The statistics of a norm, by its scale. */
  statistic(scale: ValueId, name: string): string {
    const found = `${this.value(scale).name.replace(/[^.]*$/, '')}${name}`
    if (!this.named.has(found)) throw new Error(`there is no '${found}'`)
    return found
  }
}

type Write = (at: Inference, op: Op) => void
type Attrs = Readonly<Record<string, number>>

/** The value unchanged: ops for training alone are left out. */
const nothing: Write = (at, { ins, outs }) => at.is(outs[0]!, at.formsOf(ins[0]!))

/** In any form of its inputs; `make` gets their names. */
const elementWise =
  (make: (at: Inference, ins: readonly string[], dims: Dims, op: Op) => string, operands = 1): Write =>
  (at, op) => {
    const data = op.ins.slice(0, operands)
    const out = op.outs[0]!
    if (at.areFlat(data))
      at.is(out, {
        flat: make(
          at,
          data.map((i) => at.flat(i)),
          flatDims(at.value(out)),
          op,
        ),
      })
    else
      at.is(out, {
        image: make(
          at,
          data.map((i) => at.image(i)),
          imageDims(at.value(out)),
          op,
        ),
      })
  }

const unary = (opType: string): Write => elementWise((at, ins, dims) => at.nodes.add(opType, ins, dims))

/** On [B,C,H,W]. */
const onImage =
  (make: (at: Inference, x: string, dims: Dims, op: Op) => string): Write =>
  (at, op) =>
    at.is(op.outs[0]!, { image: make(at, at.image(op.ins[0]!), imageDims(at.value(op.outs[0]!)), op) })

const weightsOf = (at: Inference, { ins }: Op): readonly string[] => ins.slice(1).map((i) => at.image(i))

// ---------------------------------------------------------------- windows

const convAttributes = (a: Attrs, kernel: readonly number[]) => ({
  dilations: [a['dilationH']!, a['dilationW']!],
  group: a['groups']!,
  kernel_shape: kernel.slice(2),
  pads: [a['padTop']!, a['padLeft']!, a['padBottom']!, a['padRight']!],
  strides: [a['strideH']!, a['strideW']!],
})

const conv: Write = onImage((at, x, dims, op) =>
  at.nodes.add('Conv', [x, ...weightsOf(at, op)], dims, convAttributes(op.attrs, at.value(op.ins[1]!).shape)),
)

const convTranspose: Write = onImage((at, x, dims, op) =>
  at.nodes.add('ConvTranspose', [x, ...weightsOf(at, op)], dims, {
    ...convAttributes(op.attrs, at.value(op.ins[1]!).shape),
    output_padding: [op.attrs['outputPadH']!, op.attrs['outputPadW']!],
  }),
)

interface Side {
  /** The missing part of the last window. */
  readonly extra: number
  /** True if rounding up rounds to the same. */
  readonly ceil: boolean
}
/** Windows that reach beyond the image get rows of padding, because operators differ in the last window. */
const sideOf = (extent: number, kernel: number, stride: number, low: number, high: number, ceil: boolean): Side => {
  const windows = windowOutput(extent, { kernel, stride, padLow: low, padHigh: high, dilation: 1, ceil })
  const lacking = (windows - 1) * stride + kernel - (extent + low + high)
  return { extra: Math.max(0, lacking), ceil: ceil && lacking >= 0 }
}

const poolOf = (at: Inference, { attrs: a, ins }: Op) => {
  const [, , h, w] = at.value(ins[0]!).shape
  const {
    kernelH,
    kernelW,
    strideH,
    strideW,
    padTop,
    padLeft,
    padEnd0 = padTop,
    padEnd1 = padLeft,
    padBottom = padEnd0,
    padRight = padEnd1,
    ceil,
  } = a as Record<string, number>
  const rows = sideOf(h!, kernelH!, strideH!, padTop!, padBottom!, ceil === 1)
  const columns = sideOf(w!, kernelW!, strideW!, padLeft!, padRight!, ceil === 1)
  return {
    pads: [padTop!, padLeft!, padBottom!, padRight!],
    extra: [rows.extra, columns.extra] as const,
    window: {
      ceil_mode: Number(rows.ceil && columns.ceil),
      kernel_shape: [kernelH!, kernelW!],
      strides: [strideH!, strideW!],
    },
  }
}

const withExtra = ([t, l, b, r]: readonly number[], [h, w]: readonly [number, number]) => [t!, l!, b! + h, r! + w]

const maxPool: Write = onImage((at, x, dims, op) => {
  const { pads, extra, window } = poolOf(at, op)
  return at.nodes.add('MaxPool', [x], dims, { ...window, pads: withExtra(pads, extra) })
})

/** Zeros of the padding may count in the mean; the missing part of a last window does not. */
const avgPool: Write = onImage((at, x, dims, op) => {
  const { pads, extra, window } = poolOf(at, op)
  const isPadded = pads.some((n) => n > 0)
  const counts = op.attrs['countIncludePad'] === 1 && (isPadded || extra[0] + extra[1] === 0)
  if (!counts || extra[0] + extra[1] === 0)
    return at.nodes.add('AveragePool', [x], dims, { ...window, pads: withExtra(pads, extra), count_include_pad: Number(counts) })
  const [t, l, b, r] = pads as [number, number, number, number]
  const [, c, h, w] = at.value(op.ins[0]!).shape
  const padded = at.nodes.add('Pad', [x, at.nodes.ints(0, 0, t, l, 0, 0, b, r)], ['batch', c!, h! + t + b, w! + l + r], {
    mode: 'constant',
  })
  return at.nodes.add('AveragePool', [padded], dims, { ...window, pads: [0, 0, ...extra], count_include_pad: 0 })
})

// ---------------------------------------------------------------- norms

/** Reads statistics by the scale's name, or as inputs. */
const batchNorm = (frozen: boolean): Write =>
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
const groupNorm: Write = onImage((at, x, dims, { attrs, ins }) => {
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

const layerNorm: Write = (at, op) => {
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
const localResponseNorm: Write = onImage((at, x, dims, { attrs }) => {
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

// ---------------------------------------------------------------- sizes

/** Returns true if the nearest pixel is ours, with places computed in single precision. */
const isNearestExact = (from: number, to: number): boolean => {
  const scale = Math.fround(to / from)
  for (let i = 0; i < to; i++) if (Math.floor(Math.fround(i / scale)) !== Math.floor((i * from) / to)) return false
  return true
}

const resized = (at: Inference, x: string, dims: Dims, mode: number, [h, w]: readonly [number, number]): string =>
  at.nodes.add('Resize', [x, '', '', at.nodes.ints(h, w)], dims, {
    axes: [2, 3],
    ...(mode === 0
      ? { mode: 'nearest', coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' }
      : { mode: 'linear', coordinate_transformation_mode: mode === 1 ? 'half_pixel' : 'align_corners' }),
  })

/** The mean of the pixels that a new pixel covers: [from, to]. */
export const meansOf = (from: number, to: number): readonly number[] =>
  Array.from({ length: from * to }, (_, n) => {
    const [i, o] = [Math.floor(n / to), n % to]
    const [first, end] = [Math.floor((o * from) / to), Math.ceil(((o + 1) * from) / to)]
    return i >= first && i < end ? 1 / (end - first) : 0
  })

/** ONNX has no windows that differ in size: a product with a matrix for each axis. */
const windowMeans = (at: Inference, x: string, dims: Dims, [h, w]: readonly [number, number]): string => {
  const [, c, outH, outW] = dims as readonly ['batch', number, number, number]
  const rows = Array.from({ length: outH }, (_, o) => meansOf(h, outH).filter((_, n) => n % outH === o)).flat()
  const narrow = outW === w ? x : at.nodes.add('MatMul', [x, at.nodes.matrix(meansOf(w, outW), w)], ['batch', c, h, outW])
  return outH === h ? narrow : at.nodes.add('MatMul', [at.nodes.matrix(rows, outH), narrow], dims)
}

const upsample: Write = onImage((at, x, dims, { attrs }) => {
  const { mode, inH, inW, outH, outW } = attrs as Record<'mode' | 'inH' | 'inW' | 'outH' | 'outW', number>
  if (mode === 3) return windowMeans(at, x, dims, [inH, inW])
  if (mode !== 0 || (isNearestExact(inH, outH) && isNearestExact(inW, outW))) return resized(at, x, dims, mode, [outH, outW])
  const places = (from: number, to: number) => Array.from({ length: to }, (_, i) => Math.floor((i * from) / to))
  const rows = at.nodes.add('Gather', [x, at.nodes.ints(...places(inH, outH))], ['batch', dims[1]!, outH, inW], { axis: 2 })
  return at.nodes.add('Gather', [rows, at.nodes.ints(...places(inW, outW))], dims, { axis: 3 })
})

const reflectPad: Write = onImage((at, x, dims, { attrs: a }) =>
  at.nodes.add('Pad', [x, at.nodes.ints(0, 0, a['padTop']!, a['padLeft']!, 0, 0, a['padBottom']!, a['padRight']!)], dims, {
    mode: 'reflect',
  }),
)

// ---------------------------------------------------------------- the rest

/** For a flat image PyTorch's linear layer; else a convolution of one pixel. */
const linear: Write = (at, op) => {
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

const flatten: Write = (at, { ins, outs }) => {
  const out = outs[0]!
  at.is(out, { flat: at.nodes.add('Flatten', [at.image(ins[0]!)], flatDims(at.value(out)), { axis: 1 }) })
}

const relu: Write = elementWise((at, ins, dims, { attrs: { slope } }) =>
  slope === 0 ? at.nodes.add('Relu', ins, dims) : at.nodes.add('LeakyRelu', ins, dims, { alpha: { float: slope! } }),
)

const gelu: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  const erf = nodes.add('Erf', [nodes.add('Div', [x!, nodes.scalar(Math.SQRT2)], dims)], dims)
  const twice = nodes.add('Mul', [x!, nodes.add('Add', [erf, nodes.scalar(1)], dims)], dims)
  return nodes.add('Mul', [twice, nodes.scalar(0.5)], dims)
})

const geluTanh: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  const product = (a: string, b: string): string => nodes.add('Mul', [a, b], dims)
  const cubic = product(nodes.scalar(GELU_CUBIC), product(x!, product(x!, x!)))
  const inner = product(nodes.scalar(GELU_SCALE), nodes.add('Add', [x!, cubic], dims))
  const share = nodes.add('Add', [nodes.scalar(1), nodes.add('Tanh', [inner], dims)], dims)
  return product(nodes.scalar(0.5), product(x!, share))
})

const mish: Write = elementWise((at, [x], dims) => {
  const { nodes } = at
  return nodes.add('Mul', [x!, nodes.add('Tanh', [nodes.add('Softplus', [x!], dims)], dims)], dims)
})

const silu: Write = elementWise((at, [x], dims) => at.nodes.add('Mul', [x!, at.nodes.add('Sigmoid', [x!], dims)], dims))

const add: Write = (at, op) =>
  elementWise(
    (_, [first, ...others], dims) => others.reduce((sum, x) => at.nodes.add('Add', [sum, x], dims), first!),
    op.ins.length,
  )(at, op)
const concat: Write = (at, op) =>
  elementWise((_, ins, dims) => at.nodes.add('Concat', ins, dims, { axis: 1 }), op.ins.length)(at, op)

/** PyTorch's `x.float() / 255` and the rest; nothing if it would change nothing. */
const fromBytes: Write = onImage((at, x, dims, { attrs }) => {
  const [mean, std] = [attrsListed('mean', attrs), attrsListed('std', attrs)]
  const { nodes } = at
  const shares = nodes.add('Div', [nodes.add('Cast', [x], dims, { to: ELEMENT.FLOAT }), nodes.scalar(255)], dims)
  const shifted = mean.every((m) => m === 0) ? shares : nodes.add('Sub', [shares, nodes.channels(mean)], dims)
  return std.every((s) => s === 1) ? shifted : nodes.add('Div', [shifted, nodes.channels(std)], dims)
})

const affine: Write = elementWise((at, [x], dims, { attrs: { factor, shift } }) => {
  const { nodes } = at
  const product = factor === 1 ? x! : nodes.add('Mul', [x!, nodes.scalar(factor!)], dims)
  return shift === 0 && factor !== 1 ? product : nodes.add('Add', [product, nodes.scalar(shift!)], dims)
})

const takeChannels: Write = elementWise((at, [x], dims, { attrs: { from, count } }) =>
  at.nodes.add('Slice', [x!, at.nodes.ints(from!), at.nodes.ints(from! + count!), at.nodes.ints(1)], dims),
)

/** Channels as [groups, C / groups], exchanged. */
const shuffleChannels: Write = onImage((at, x, dims, { attrs: { groups }, ins }) => {
  const { nodes } = at
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const inner = c / groups!
  const cut = nodes.add('Reshape', [x, nodes.ints(0, groups!, inner, h, w)], ['batch', groups!, inner, h, w])
  const turned = nodes.add('Transpose', [cut], ['batch', inner, groups!, h, w], { perm: [0, 2, 1, 3, 4] })
  return nodes.add('Reshape', [turned, nodes.ints(0, c, h, w)], dims)
})

const pixelShuffle: Write = onImage((at, x, dims, { attrs: { factor } }) =>
  at.nodes.add('DepthToSpace', [x], dims, { blocksize: factor!, mode: 'CRD' }),
)

/** The channels of a block stand together, as in PyTorch; those of SpaceToDepth do not. */
const pixelUnshuffle: Write = onImage((at, x, dims, { attrs, ins, outs }) => {
  const { nodes } = at
  const n = attrs['factor']!
  const c = at.value(ins[0]!).shape[1]!
  const [, all, h, w] = at.value(outs[0]!).shape as [number, number, number, number]
  const cut = nodes.add('Reshape', [x, nodes.ints(0, c, h, n, w, n)], ['batch', c, h, n, w, n])
  const turned = nodes.add('Transpose', [cut], ['batch', c, n, n, h, w], { perm: [0, 1, 3, 5, 2, 4] })
  return nodes.add('Reshape', [turned, nodes.ints(0, all, h, w)], dims)
})

/** A weight whose output channels have the mean 0 and the variance 1. */
const standardized: Write = (at, { attrs, ins, outs }) => {
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

// ---------------------------------------------------------------- attention and trained values

/** A trained value that is added, as [C,1,1] or [C,H,W]; flat, as [C]. */
const shift: Write = (at, op) => {
  const [x, p] = op.ins
  const out = op.outs[0]!
  const c = at.value(x!).shape[1]!
  const own = at.image(p!)
  if (at.areFlat([x!])) {
    const line = op.attrs['elements'] === 1 ? at.nodes.add('Reshape', [own, at.nodes.ints(c)], [c]) : own
    return at.is(out, { flat: at.nodes.add('Add', [at.flat(x!), line], flatDims(at.value(out))) })
  }
  const added = op.attrs['elements'] === 1 ? own : at.nodes.add('Unsqueeze', [own, at.nodes.ints(1, 2)], [c, 1, 1])
  const dims = imageDims(at.value(out))
  return at.is(out, { image: at.nodes.add('Add', [at.image(x!), added], dims) })
}

const turnPixels: Write = onImage((at, x, dims, { ins }) => {
  const [, c, h, w] = at.value(ins[0]!).shape as [number, number, number, number]
  const rows = at.nodes.add('Reshape', [x, at.nodes.ints(0, c, h * w)], ['batch', c, h * w])
  const turned = at.nodes.add('Transpose', [rows], ['batch', h * w, c], { perm: [0, 2, 1] })
  return at.nodes.add('Unsqueeze', [turned, at.nodes.ints(2)], dims)
})

/** The root of the sum, which is all that `response` reads. */
const squareSums: Write = onImage((at, x, dims) => at.nodes.add('ReduceL2', [x, at.nodes.ints(2, 3)], dims, { keepdims: 1 }))

const response: Write = onImage((at, norms, dims, { attrs, ins }) => {
  const { nodes } = at
  const [, c] = at.value(ins[0]!).shape as [number, number]
  const mean = nodes.add('ReduceMean', [norms, nodes.ints(1)], ['batch', 1, 1, 1], { keepdims: 1 })
  const ratio = nodes.add('Div', [norms, nodes.add('Add', [mean, nodes.scalar(attrs['eps']!)], ['batch', 1, 1, 1])], dims)
  const weight = nodes.add('Unsqueeze', [at.image(ins[1]!), nodes.ints(1, 2)], [c, 1, 1])
  return nodes.add('Add', [nodes.add('Mul', [ratio, weight], dims), nodes.scalar(1)], dims)
})

interface Windows {
  readonly heads: number
  readonly headFirst: number
  readonly windowH: number
  readonly windowW: number
  readonly grid: number
  readonly shiftH: number
  readonly shiftW: number
  readonly biased: number
  readonly scale: number
}

/** An image rolled by some rows and columns: the last ones come first. */
const rolled = (at: Inference, x: string, dims: Dims, by: readonly [number, number]): string =>
  [2, 3].reduce((image, axis, i) => {
    const extent = dims[axis] as number
    const cut = (((by[i]! % extent) + extent) % extent) as number
    if (cut === 0) return image
    const part = (from: number, to: number): string =>
      at.nodes.add(
        'Slice',
        [image, at.nodes.ints(from), at.nodes.ints(to), at.nodes.ints(axis)],
        dims.map((d, j) => (j === axis ? to - from : d)),
      )
    return at.nodes.add('Concat', [part(extent - cut, extent), part(0, extent - cut)], dims, { axis })
  }, x)

/** 0 for pairs of tokens of one side of a rolled image, a large negative number for others: [groups, 1, tokens, tokens]. */
export const sidesOf = (
  a: Pick<Windows, 'windowH' | 'windowW' | 'shiftH' | 'shiftW'>,
  h: number,
  w: number,
): readonly number[] => {
  const tokens = Array.from({ length: a.windowH * a.windowW }, (_, i) => [Math.floor(i / a.windowW), i % a.windowW] as const)
  const groups = Array.from({ length: (h / a.windowH) * (w / a.windowW) }, (_, g) => {
    const [top, left] = [Math.floor(g / (w / a.windowW)) * a.windowH, (g % (w / a.windowW)) * a.windowW]
    return tokens.map(([y, x]) => 2 * Number(top + y >= h - a.shiftH) + Number(left + x >= w - a.shiftW))
  })
  return groups.flatMap((sides) => sides.flatMap((q) => sides.map((k) => (q === k ? 0 : -1e30))))
}

/** The scores' bias from the table: [heads, tokens, tokens]. */
const tableBias = (at: Inference, table: string, a: Windows): string => {
  const { nodes } = at
  const n = a.windowH * a.windowW
  const places = nodes.ints(...distances([a.windowH, a.windowW]))
  const rows = nodes.add('Gather', [table, places], [n * n, a.heads], { axis: 0 })
  const pairs = nodes.add('Reshape', [rows, nodes.ints(n, n, a.heads)], [n, n, a.heads])
  return nodes.add('Transpose', [pairs], [a.heads, n, n], { perm: [2, 0, 1] })
}

/** Queries, keys and values as [B, groups, heads, tokens, channels], their products, and the way back. */
const attention: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const a = attrs as unknown as Windows
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const [head, n, down, across] = [c / a.heads, a.windowH * a.windowW, h / a.windowH, w / a.windowW]
  const image = rolled(at, x, ['batch', 3 * c, h, w], [-a.shiftH, -a.shiftW])
  const channels = a.headFirst === 1 ? [a.heads, 3, head] : [3, a.heads, head]
  const places = a.grid === 1 ? [a.windowH, down, a.windowW, across] : [down, a.windowH, across, a.windowW]
  const cut = nodes.add('Reshape', [image, nodes.ints(0, ...channels, ...places)], ['batch', ...channels, ...places])
  const [part, own] = a.headFirst === 1 ? [2, 1] : [1, 2]
  const [groups, tokens] =
    a.grid === 1
      ? [
          [5, 7],
          [4, 6],
        ]
      : [
          [4, 6],
          [5, 7],
        ]
  const turned = nodes.add('Transpose', [cut], [3, 'batch', down, across, a.heads, a.windowH, a.windowW, head], {
    perm: [part, 0, ...groups, own, ...tokens, 3],
  })
  const all = nodes.add(
    'Reshape',
    [turned, nodes.ints(3, 0, down * across, a.heads, n, head)],
    [3, 'batch', down * across, a.heads, n, head],
  )
  const rows: Dims = ['batch', down * across, a.heads, n, head]
  const [q, k, v] = [0, 1, 2].map((i) => nodes.add('Gather', [all, nodes.index(i)], rows, { axis: 0 })) as [
    string,
    string,
    string,
  ]
  const pairs: Dims = ['batch', down * across, a.heads, n, n]
  const turnedKeys = nodes.add('Transpose', [k], ['batch', down * across, a.heads, head, n], { perm: [0, 1, 2, 4, 3] })
  const products = nodes.add('Mul', [nodes.add('MatMul', [q, turnedKeys], pairs), nodes.scalar(a.scale)], pairs)
  const biased = a.biased === 1 ? nodes.add('Add', [products, tableBias(at, at.image(ins[1]!), a)], pairs) : products
  const masked =
    a.shiftH + a.shiftW > 0 ? nodes.add('Add', [biased, nodes.tensor(sidesOf(a, h, w), [down * across, 1, n, n])], pairs) : biased
  const y = nodes.add('MatMul', [nodes.add('Softmax', [masked], pairs, { axis: -1 }), v], rows)
  const split = nodes.add(
    'Reshape',
    [y, nodes.ints(0, down, across, a.heads, a.windowH, a.windowW, head)],
    ['batch', down, across, a.heads, a.windowH, a.windowW, head],
  )
  const back = nodes.add('Transpose', [split], ['batch', a.heads, head, ...places], {
    perm: a.grid === 1 ? [0, 3, 6, 4, 1, 5, 2] : [0, 3, 6, 1, 4, 2, 5],
  })
  return rolled(at, nodes.add('Reshape', [back, nodes.ints(0, c, h, w)], dims), dims, [a.shiftH, a.shiftW])
})

/** Queries, and keys and values, as [B, heads, pixels, channels], and their products. */
const attend: Write = onImage((at, x, dims, { attrs, ins }) => {
  const { nodes } = at
  const [heads, headFirst, scale] = [attrs['heads']!, attrs['headFirst'] === 1, attrs['scale']!]
  const [, c, h, w] = dims as readonly ['batch', number, number, number]
  const [, , keyH, keyW] = at.value(ins[1]!).shape as readonly [number, number, number, number]
  const [head, n, m] = [c / heads, h * w, keyH * keyW]
  const cut = nodes.add('Reshape', [x, nodes.ints(0, heads, head, n)], ['batch', heads, head, n])
  const q = nodes.add('Transpose', [cut], ['batch', heads, n, head], { perm: [0, 1, 3, 2] })
  const channels = headFirst ? [heads, 2, head] : [2, heads, head]
  const pairs = nodes.add('Reshape', [at.image(ins[1]!), nodes.ints(0, ...channels, m)], ['batch', ...channels, m])
  const [k, v] = [0, 1].map((i) =>
    nodes.add('Gather', [pairs, nodes.index(i)], ['batch', heads, head, m], { axis: headFirst ? 2 : 1 }),
  ) as [string, string]
  const products = nodes.add(
    'Mul',
    [nodes.add('MatMul', [q, k], ['batch', heads, n, m]), nodes.scalar(scale)],
    ['batch', heads, n, m],
  )
  const shares = nodes.add('Softmax', [products], ['batch', heads, n, m], { axis: -1 })
  const values = nodes.add('Transpose', [v], ['batch', heads, m, head], { perm: [0, 1, 3, 2] })
  const y = nodes.add('MatMul', [shares, values], ['batch', heads, n, head])
  const turned = nodes.add('Transpose', [y], ['batch', heads, head, n], { perm: [0, 1, 3, 2] })
  return nodes.add('Reshape', [turned, nodes.ints(0, c, h, w)], dims)
})

/** Every operator of a forward graph; those that rewrites join are not in it yet. */
const WRITERS: Readonly<Record<string, Write>> = {
  add,
  affine,
  attend,
  attention,
  avg_pool: avgPool,
  bn_apply: batchNorm(false),
  bn_frozen: batchNorm(true),
  bn_masked_apply: batchNorm(false),
  bn_stats: () => {},
  clamp: elementWise((at, [x], dims, { attrs }) =>
    at.nodes.add('Clip', [x!, at.nodes.scalar(attrs['low']!), at.nodes.scalar(attrs['high']!)], dims),
  ),
  concat,
  conv2d: conv,
  conv_transpose2d: convTranspose,
  drop_images: nothing,
  dropout: nothing,
  elu: elementWise((at, ins, dims, { attrs }) => at.nodes.add('Elu', ins, dims, { alpha: { float: attrs['alpha']! } })),
  exp: unary('Exp'),
  flatten,
  from_bytes: fromBytes,
  gelu,
  gelu_tanh: geluTanh,
  global_avg_pool: onImage((at, x, dims) => at.nodes.add('GlobalAveragePool', [x], dims)),
  group_norm_apply: groupNorm,
  group_norm_stats: () => {},
  hard_sigmoid: elementWise((at, ins, dims) =>
    at.nodes.add('HardSigmoid', ins, dims, { alpha: { float: 1 / 6 }, beta: { float: 0.5 } }),
  ),
  hard_swish: unary('HardSwish'),
  layer_norm: layerNorm,
  linear,
  log: unary('Log'),
  lrn: localResponseNorm,
  masked_stats: () => {},
  // x is 0 outside of the mask: there, x + (mask - 1)·(-value) is the value.
  mask_fill: elementWise((at, [x, mask], dims, { attrs, ins }) => {
    const { nodes } = at
    const place = imageDims(at.value(ins[1]!))
    const less = nodes.add('Sub', [mask!, nodes.scalar(1)], place)
    return nodes.add('Add', [x!, nodes.add('Mul', [less, nodes.scalar(-attrs['value']!)], place)], dims)
  }, 2),
  max_pool: maxPool,
  mish,
  multiply: elementWise((at, ins, dims) => at.nodes.add('Mul', ins, dims), 2),
  multiply_bwd_channels: (at, { ins, outs }) => {
    const [x, y] = ins.map((i) => at.image(i))
    const product = at.nodes.add('Mul', [x!, y!], imageDims(at.value(ins[0]!)))
    const sum = at.nodes.add('ReduceSum', [product, at.nodes.ints(1)], imageDims(at.value(outs[0]!)), { keepdims: 1 })
    at.is(outs[0]!, { image: sum })
  },
  pixel_shuffle: pixelShuffle,
  pixel_unshuffle: pixelUnshuffle,
  prelu: onImage((at, x, dims, { ins }) => {
    const slope = ins[1]!
    const spread = at.nodes.add('Unsqueeze', [at.image(slope), at.nodes.ints(1, 2)], [at.value(slope).shape[0]!, 1, 1])
    return at.nodes.add('PRelu', [x, spread], dims)
  }),
  reciprocal: unary('Reciprocal'),
  reflect_pad: reflectPad,
  relu,
  response,
  relu6: elementWise((at, [x], dims) => at.nodes.add('Clip', [x!, at.nodes.scalar(0), at.nodes.scalar(6)], dims)),
  scale: onImage((at, x, dims, op) => at.nodes.add('Mul', [x, ...weightsOf(at, op)], dims)),
  shift,
  shuffle_channels: shuffleChannels,
  sigmoid: unary('Sigmoid'),
  silu,
  softmax: elementWise((at, ins, dims) => at.nodes.add('Softmax', ins, dims, { axis: 1 })),
  softplus: unary('Softplus'),
  square: elementWise((at, [x], dims) => at.nodes.add('Mul', [x!, x!], dims)),
  square_sums: squareSums,
  standardize: standardized,
  take_channels: takeChannels,
  tanh: unary('Tanh'),
  turn_pixels: turnPixels,
  upsample,
}

/** The kinds that can be written. */
export const WRITTEN = Object.keys(WRITERS)

/** The graph from its input to `output`, without the weights. */
export const inferenceGraph = (graph: Graph, output: ValueId): Omit<GraphProto, 'initializer'> => {
  const at = new Inference(graph)
  for (const op of graph.ops) {
    at.nodes.at(op.layer)
    const write = WRITERS[op.kind]
    if (!write) throw new Error(`operator ${op.kind} has no ONNX form`)
    write(at, op)
  }
  const made = at.value(output)
  const { flat, image } = at.formsOf(output)
  // A network may end with its input, or with an earlier result: an output has a name of its own.
  if (!at.nodes.rename((flat ?? image)!, OUTPUT)) {
    at.nodes.at('end')
    at.nodes.rename(at.nodes.add('Identity', [(flat ?? image)!], flat ? flatDims(made) : imageDims(made)), OUTPUT)
  }
  return {
    name: graph.name,
    node: at.nodes.list,
    input: graph.values
      .filter((v) => v.role === 'input')
      .map((v) => valueInfo(INPUT, imageDims(v), v.dtype === 'u8' ? ELEMENT.UINT8 : ELEMENT.FLOAT)),
    output: [valueInfo(OUTPUT, flat ? flatDims(made) : imageDims(made))],
    valueInfo: at.nodes.values,
  }
}
