// PyTorch's operators as ONNX nodes. In: a program of torch.export. Out: the graph that the importer reads, with the program's weights; a node without
// a counterpart has the reason instead. Invariant: norms train and dropouts stay, in whichever mode the program was exported; norms that a program in
// training keeps fixed are frozen. Worked example: aten.silu is Sigmoid and Mul; the importer knows the two as silu.
import * as E from 'fp-ts/Either'
import { elementsOf } from '../../staging/core/box'
import {
  cat,
  channelShuffle,
  exchange,
  expand,
  index,
  narrow,
  permute,
  pixelShuffle,
  pixelUnshuffle,
  reshape,
  roll,
  select,
  slice,
  split,
  squeeze,
  stack,
  unbind,
  unsqueeze,
  zero,
} from './atenforms'
import { isArrayNode } from './atenarrays'
import { Fault, fault, type Lower, Lowering, operatorOf } from './lowering'
import type { Attributes } from './nodes'
import { ELEMENT, OWN, type TensorProto, type ValueInfoProto } from './onnx'
import type { AtenNode, Program } from './pt2'
import { type OnnxFile, tensorOf } from './read'

/** The name of the argument that the operator computes with. */
const subject = (l: Lowering): string => (l.has('input') ? 'input' : 'self')

// ---------------------------------------------------------------- convolutions and pools

const convolution: Lower = (l) => {
  const kernel = l.sizes('weight').slice(2)
  const n = kernel.length
  const dilations = l.each('dilation', n, 1)
  const word = l.word('padding')
  const total = kernel.map((k, i) => (word === 'same' ? dilations[i]! * (k - 1) : 0))
  const lows = word === undefined ? l.each('padding', n, 0) : total.map((d) => Math.floor(d / 2))
  const highs = word === undefined ? lows : total.map((d) => Math.ceil(d / 2))
  const isTransposed = l.operator === 'conv_transpose2d' || l.flag('transposed', false)
  const attributes: Attributes = {
    strides: l.each('stride', n, 1),
    pads: [...lows, ...highs],
    dilations,
    group: l.number('groups', 1),
    ...(isTransposed ? { output_padding: l.each('output_padding', n, 0) } : {}),
  }
  // Constants for each image, or for all.
  if (l.arrays.has(l.names('input')[0] ?? '') && l.result()[0] === l.batch) l.isOfBatch()
  l.make(isTransposed ? 'ConvTranspose' : 'Conv', [l.given('input'), l.given('weight'), l.value('bias')], attributes)
}

const pool =
  (kind: 'MaxPool' | 'AveragePool', rank: 1 | 2 = 2): Lower =>
  (l) => {
    const kernel = l.each('kernel_size', rank, 1)
    const strides = (l.list('stride') ?? []).length === 0 ? kernel : l.each('stride', rank, 1)
    const [pads, dilations] = [l.each('padding', rank, 0), l.each('dilation', rank, 1)]
    if (l.has('divisor_override')) fault('it has a divisor_override; allowed: none')
    // Rounding up matters only if a window more begins in the image.
    const [from, to] = [l.sizes('self').slice(-rank), l.result().slice(-rank)]
    const isDown = to.every(
      (d, i) => d === Math.floor((from[i]! + 2 * pads[i]! - dilations[i]! * (kernel[i]! - 1) - 1) / strides[i]!) + 1,
    )
    l.make(kind, [l.given('self')], {
      kernel_shape: kernel,
      strides,
      pads: [...pads, ...pads],
      ceil_mode: isDown ? 0 : 1,
      ...(kind === 'MaxPool' ? { dilations } : { count_include_pad: Number(l.flag('count_include_pad', true)) }),
    })
  }

const adaptiveAverage: Lower = (l) => {
  const [from, to] = [l.sizes('self').slice(-2), l.result().slice(-2)]
  if (to.join() === from.join()) return l.same('self')
  if (elementsOf(to) === 1) return l.make('GlobalAveragePool', [l.given('self')])
  l.make('AdaptiveAveragePool', [l.given('self')], { output_size: to }, OWN)
}

const adaptiveMax: Lower = (l) => {
  const [from, to] = [l.sizes('self').slice(-2), l.result().slice(-2)]
  const kernel = from.map((n, i) => n / to[i]!)
  if (!kernel.every(Number.isInteger))
    fault(`it pools [${from.join(',')}] to [${to.join(',')}]; allowed: sizes that divide those of the image`)
  l.make('MaxPool', [l.given('self')], { kernel_shape: kernel, strides: kernel })
}

const padding: Lower = (l) => {
  const pads = l.list(l.has('pad') ? 'pad' : 'padding') ?? []
  const rank = l.sizes('self').length
  // PyTorch lists both ends of the last axis first.
  const end = (axis: number, i: 0 | 1): number => pads[2 * (rank - 1 - axis) + i] ?? 0
  const axes = Array.from({ length: rank }, (_, i) => i)
  const mode = l.operator === 'reflection_pad2d' ? 'reflect' : l.text('mode', 'constant')
  const all = l.ints(...axes.map((a) => end(a, 0)), ...axes.map((a) => end(a, 1)))
  l.make('Pad', [l.given('self'), all, l.constant(l.number('value', 0))], { mode })
}

const resize: Lower = (l) => {
  const isNearest = l.operator.includes('nearest')
  const name = subject(l)
  const [from, to] = [l.sizes(name).slice(2), l.result()]
  const factors = l.list('scale_factors') ?? ['scales_h', 'scales_w'].flatMap((s) => (l.has(s) ? [l.number(s, 1)] : []))
  // PyTorch computes places by the given factor; equal sizes alone do not fix them.
  if (!l.flag('align_corners', false) && factors.some((f, i) => Math.abs(f * from[i]! - to[i + 2]!) > 1e-6))
    fault(`its scale factors [${factors.join(', ')}] do not give whole sizes; allowed: factors that do, or sizes`)
  l.make('Resize', [l.given(name), undefined, undefined, l.ints(1, ...to.slice(1))], {
    mode: isNearest ? 'nearest' : 'linear',
    coordinate_transformation_mode: isNearest ? 'asymmetric' : l.flag('align_corners', false) ? 'align_corners' : 'half_pixel',
    nearest_mode: 'floor',
  })
}

// ---------------------------------------------------------------- norms

const isTraining = (node: AtenNode): boolean =>
  /batch_norm|dropout/.test(node.target) && ['training', 'train'].some((name) => node.arguments.get(name)?.['as_bool'] === true)

/** The rows of a weight, normalised by their own statistics: a standardised weight. */
const weightNorm: Lower = (l) =>
  l.make('BatchNormalization', [l.given('input'), l.value('weight') ?? l.constant(1), l.value('bias') ?? l.constant(0)], {
    epsilon: { float: l.number('eps', 1e-5) },
    training_mode: 1,
  })

const batchNorm =
  (inTraining: boolean): Lower =>
  (l) => {
    if (!l.has('running_mean') && l.batchAxis('input') === undefined && l.flag('training', false)) return weightNorm(l)
    if (!l.has('running_mean') || !l.has('running_var')) fault('it has no running statistics; allowed: track_running_stats=True')
    if (!l.has('weight') || !l.has('bias')) fault('it has no weight or no bias; allowed: affine=True')
    const isFixed = inTraining && !l.flag('training', l.operator.endsWith('functional'))
    l.make(
      'BatchNormalization',
      ['input', 'weight', 'bias', 'running_mean', 'running_var'].map((n) => l.given(n)),
      {
        epsilon: { float: l.number('eps', 1e-5) },
        ...(isFixed ? { frozen: 1 } : {}),
      },
    )
  }

const layerNorm: Lower = (l) => {
  if (!l.has('weight')) fault('it has no weight; allowed: elementwise_affine=True')
  const axis = -(l.list('normalized_shape') ?? []).length
  l.make('LayerNormalization', [l.given('input'), l.given('weight'), l.value('bias')], {
    axis,
    epsilon: { float: l.number('eps', 1e-5) },
  })
}

/** Without an eps, PyTorch adds the smallest float that changes 1. */
const rmsNorm: Lower = (l) => {
  if (!l.has('weight')) fault('it has no weight; allowed: elementwise_affine=True')
  const axis = -(l.list('normalized_shape') ?? []).length
  l.make('RMSNormalization', [l.given('input'), l.given('weight')], { axis, epsilon: { float: l.number('eps', 2 ** -23) } })
}

const groupNorm: Lower = (l) =>
  l.make('GroupNormalization', [l.given('input'), l.value('weight'), l.value('bias')], {
    num_groups: l.number(l.has('num_groups') ? 'num_groups' : 'group', 1),
    epsilon: { float: l.number('eps', 1e-5) },
  })

const instanceNorm: Lower = (l) => {
  if (!l.flag('use_input_stats', true)) fault('it uses running statistics; allowed: track_running_stats=False')
  l.make('InstanceNormalization', [l.given('input'), l.value('weight'), l.value('bias')], {
    epsilon: { float: l.number('eps', 1e-5) },
  })
}

// ---------------------------------------------------------------- dropout and stochastic depth

const dropout: Lower = (l) => {
  const p = l.number('p', 0.5)
  if (p === 0) return l.same(subject(l))
  // A network of weights and constants has no images.
  if (l.batchAxis(subject(l)) === undefined) return channelDropout(l)
  l.make('Dropout', [l.given(subject(l))], { ratio: { float: p } }, OWN)
}

/** Dropout of whole channels; predictions skip it. */
const channelDropout: Lower = (l) => {
  if (l.number('p', 0.5) > 0) l.left.add(l.module)
  l.same(subject(l))
}

const isOnePerImage = (l: Lowering): boolean => l.result()[0] === l.batch && elementsOf(l.result().slice(1)) === 1

const randomNumbers =
  (noise: { readonly uniform?: number; readonly scale: number }): Lower =>
  (l) =>
    l.result().includes(0)
      ? undefined
      : isOnePerImage(l)
        ? l.isNoise(noise)
        : fault(`it makes random numbers [${l.result().join(',')}]; allowed: one for each image, as in stochastic depth`)

const bernoulli: Lower = (l) =>
  l.noise('self') === undefined
    ? fault('it makes random numbers from computed ones; allowed: stochastic depth')
    : l.isNoise({ keep: l.number('p', 0.5), scale: 1 })

/** An image times random zeros and ones: stochastic depth, up to a factor. */
const dropped = (l: Lowering, data: string, { keep, scale }: { readonly keep?: number; readonly scale: number }): void => {
  const kept = keep ?? fault('it multiplies by random numbers; allowed: zeros and ones for each image')
  const factor = scale * kept
  const from = Math.abs(factor - 1) < 1e-6 ? l.given(data) : l.add('Mul', [l.given(data), l.constant(factor)])
  l.make('StochasticDepth', [from], { p: { float: 1 - kept } }, OWN)
}

// ---------------------------------------------------------------- arithmetic

const binary =
  (opType: 'Add' | 'Sub' | 'Mul' | 'Div'): Lower =>
  (l) => {
    const [a, b] = [l.noise('self'), l.noise('other')]
    const number = l.names('other').length === 0 ? l.number('other', 0) : undefined
    if (a && number !== undefined) {
      if (opType === 'Div') return l.isNoise({ ...a, scale: a.scale / number })
      if (opType === 'Mul') return l.isNoise({ ...a, scale: a.scale * number })
      if (opType === 'Add' && a.uniform !== undefined) return l.isNoise({ ...a, uniform: a.uniform + number })
    }
    if (opType === 'Mul' && b) return dropped(l, 'self', b)
    if (opType === 'Mul' && a) return dropped(l, 'other', a)
    const alpha = l.number('alpha', 1)
    const other = alpha === 1 ? l.operand('other') : l.add('Mul', [l.operand('other'), l.constant(alpha)])
    l.make(opType, [l.operand('self'), other])
  }

const floor: Lower = (l) => {
  const noise = l.noise('self')
  if (noise?.uniform === undefined) return fault('allowed: random numbers of stochastic depth')
  l.isNoise({ keep: noise.uniform, scale: noise.scale })
}

const unary =
  (opType: string, attributes: Attributes = {}): Lower =>
  (l) =>
    l.make(opType, [l.given('self')], attributes)

const elu: Lower = (l) => {
  const [alpha, gamma] = [l.number('alpha', 1), l.number('scale', 1)]
  if (l.number('input_scale', 1) !== 1) return l.refuse('it scales its input; allowed: an input scale of 1')
  return l.make('Selu', [l.given('self')], { alpha: { float: alpha }, gamma: { float: gamma } })
}

/** From 20 on, floats cannot tell the function from its input. */
const softplus: Lower = (l) => {
  const [beta, threshold] = [l.number('beta', 1), l.number('threshold', 20)]
  if (beta !== 1 || threshold < 20) return l.refuse(`its beta is ${beta}, its threshold ${threshold}; allowed: 1 and 20`)
  return l.make('Softplus', [l.given('self')])
}

const clip =
  (low: number | undefined, high: number | undefined, names: readonly [string, string] = ['min', 'max']): Lower =>
  (l) => {
    const bound = (name: string, usual: number | undefined): string | undefined =>
      l.has(name) ? l.constant(l.number(name, 0)) : usual === undefined ? undefined : l.constant(usual)
    l.make('Clip', [l.given('self'), bound(names[0], low), bound(names[1], high)])
  }

const silu: Lower = (l) => l.make('Mul', [l.given('self'), l.add('Sigmoid', [l.given('self')])])

const softmax: Lower = (l) => l.make('Softmax', [l.given('self')], { axis: l.axis('dim', l.result().length, -1) })

/** axis and keepdim of a reduction. */
const reduced =
  (opType: string): Lower =>
  (l) => {
    const rank = l.sizes('self').length
    const axes =
      l.list('dim')?.map((a) => (a < 0 ? a + rank : a)) ?? fault('it reduces all dimensions; allowed: height and width')
    const keeps = l.flag('keepdim', false)
    if (!keeps) l.moves('self', (batch) => batch - axes.filter((a) => a < batch).length)
    if (opType === 'ReduceL2' && l.number('ord', 2) !== 2) fault(`it is a norm of order ${l.number('ord', 2)}; allowed: 2`)
    l.make(opType, [l.given('self')], { axes, keepdims: Number(keeps) })
  }

// ---------------------------------------------------------------- products of matrices

const linear: Lower = (l) => l.make('Gemm', [l.given('input'), l.given('weight'), l.value('bias')], { transB: 1 })

const addmm: Lower = (l) => {
  if (l.number('alpha', 1) !== 1 || l.number('beta', 1) !== 1) fault('it has an alpha or a beta; allowed: 1')
  l.make('Gemm', [l.given('mat1'), l.given('mat2'), l.given('self')])
}

const matmul: Lower = (l) => l.make('MatMul', [l.given('self'), l.given(l.has('other') ? 'other' : 'mat2')])

const attention: Lower = (l) => {
  if (l.flag('is_causal', false)) fault('it is causal; allowed: attention to all pixels')
  if (l.number('dropout_p', 0) > 0) fault(`it drops scores with probability ${l.number('dropout_p', 0)}; allowed: 0`)
  if (l.flag('enable_gqa', false)) fault('it has fewer heads of keys than of queries; allowed: equal numbers')
  const sizes = l.sizes('query')
  const last = sizes.length - 1
  const perm = sizes.map((_, i) => (i === last ? last - 1 : i === last - 1 ? last : i))
  const keys = l.add('Transpose', [l.given('key')], { perm })
  const products = l.add('MatMul', [l.given('query'), keys])
  const scaled = l.add('Mul', [products, l.constant(l.number('scale', 1 / Math.sqrt(sizes[last]!)))])
  const biased = l.has('attn_mask') ? l.add('Add', [scaled, l.given('attn_mask')]) : scaled
  l.make('MatMul', [l.add('Softmax', [biased], { axis: -1 }), l.given('value')])
}

/** A value without a batch, for each image. */
const repeat: Lower = (l) => {
  const [sizes, to] = [l.sizes('self'), l.result()]
  const isForBatch = l.batchAxis('self') === undefined && sizes[0] === 1 && to[0] === l.batch
  if (!isForBatch || sizes.slice(1).join() !== to.slice(1).join())
    return fault(`it repeats [${sizes.join(',')}] to [${to.join(',')}]; allowed: constants, and one value for each image`)
  l.isOfBatch()
  l.same('self')
}

const einsum: Lower = (l) => l.make('Einsum', l.values('tensors'), { equation: l.text('equation', '') })

/** Global response normalisation: bias + weight · x · ratio. */
const addcmul: Lower = (l) => {
  const product = l.add('Mul', [l.given('tensor1'), l.given('tensor2')])
  const scaled = l.number('value', 1) === 1 ? product : l.add('Mul', [product, l.constant(l.number('value', 1))])
  l.make('Add', [l.given('self'), scaled])
}

// ---------------------------------------------------------------- number types

/** Conversions between floats change nothing; of bytes they begin the numbers. */
const convert: Lower = (l) => {
  const type = (name: string) => l.program.values.get(name)?.type
  const [from, to] = [type(l.names('self')[0] ?? ''), type(l.output())]
  if (from === to) return l.same('self')
  if (from !== 'U8' || to !== 'F32')
    return fault(`it converts ${from} to ${to}; allowed: float32 everywhere, and bytes to float32`)
  l.make('Cast', [l.given('self')], { to: ELEMENT.FLOAT })
}

// ---------------------------------------------------------------- the table

const same: Lower = (l) => l.same(subject(l))
const nothing: Lower = () => undefined

/** The operators of a program, without overloads and without the mark of a change in place. */
const operators = (inTraining: boolean): Readonly<Record<string, Lower>> => ({
  _adaptive_avg_pool2d: adaptiveAverage,
  _assert_tensor_metadata: nothing,
  _batch_norm_with_update: batchNorm(inTraining),
  _native_batch_norm_legit: batchNorm(inTraining),
  _native_batch_norm_legit_functional: batchNorm(inTraining),
  _native_batch_norm_legit_no_training: batchNorm(inTraining),
  _softmax: softmax,
  _to_copy: convert,
  _unsafe_view: reshape,
  adaptive_avg_pool2d: adaptiveAverage,
  adaptive_max_pool2d: adaptiveMax,
  add: binary('Add'),
  addcmul,
  addmm,
  alias: same,
  avg_pool1d: pool('AveragePool', 1),
  avg_pool2d: pool('AveragePool'),
  batch_norm: batchNorm(inTraining),
  bernoulli,
  bmm: matmul,
  cat,
  channel_shuffle: channelShuffle,
  chunk: split,
  clamp: clip(undefined, undefined),
  clamp_min: clip(undefined, undefined),
  clone: same,
  constant_pad_nd: padding,
  contiguous: same,
  conv1d: convolution,
  conv2d: convolution,
  conv_transpose2d: convolution,
  convolution,
  detach: same,
  div: binary('Div'),
  dropout,
  einsum,
  elu,
  empty: randomNumbers({ scale: 1 }),
  exp: unary('Exp'),
  expand,
  expand_as: expand,
  feature_dropout: channelDropout,
  flatten: reshape,
  floor,
  gelu: (l) => l.make('Gelu', [l.given('self')], { approximate: l.text('approximate', 'none') }),
  group_norm: groupNorm,
  hardsigmoid: unary('HardSigmoid', { alpha: { float: 1 / 6 }, beta: { float: 0.5 } }),
  hardswish: unary('HardSwish'),
  hardtanh: clip(-1, 1, ['min_val', 'max_val']),
  index,
  instance_norm: instanceNorm,
  layer_norm: layerNorm,
  leaky_relu: (l) => l.make('LeakyRelu', [l.given('self')], { alpha: { float: l.number('negative_slope', 0.01) } }),
  lift_fresh_copy: same,
  linalg_vector_norm: reduced('ReduceL2'),
  linear,
  matmul,
  max_pool2d: pool('MaxPool'),
  max_pool2d_with_indices: pool('MaxPool'),
  mean: reduced('ReduceMean'),
  mish: unary('Mish'),
  mm: matmul,
  mul: binary('Mul'),
  narrow,
  native_channel_shuffle: channelShuffle,
  native_dropout: dropout,
  native_group_norm: groupNorm,
  native_layer_norm: layerNorm,
  neg: unary('Neg'),
  new_empty: randomNumbers({ scale: 1 }),
  norm: reduced('ReduceL2'),
  pad: padding,
  permute,
  pixel_shuffle: pixelShuffle,
  pixel_unshuffle: pixelUnshuffle,
  pow: (l) => l.make('Pow', [l.operand('self'), l.operand('exponent')]),
  prelu: (l) => l.make('PRelu', [l.given('self'), l.given('weight')]),
  rand: randomNumbers({ uniform: 0, scale: 1 }),
  reciprocal: unary('Reciprocal'),
  reflection_pad2d: padding,
  relu: unary('Relu'),
  relu6: clip(0, 6),
  repeat,
  reshape,
  reshape_as: reshape,
  rms_norm: rmsNorm,
  roll,
  rsqrt: (l) => l.make('Reciprocal', [l.add('Sqrt', [l.given('self')])]),
  rsub: (l) => l.make('Sub', [l.operand('other'), l.operand('self')]),
  scaled_dot_product_attention: attention,
  select,
  selu: unary('Selu'),
  sigmoid: unary('Sigmoid'),
  silu,
  slice,
  softmax,
  softplus,
  split,
  split_with_sizes: split,
  sqrt: unary('Sqrt'),
  square: (l) => l.make('Mul', [l.given('self'), l.given('self')]),
  squeeze,
  stack,
  sub: binary('Sub'),
  sum: reduced('ReduceSum'),
  swapaxes: exchange,
  t: exchange,
  tanh: unary('Tanh'),
  to: convert,
  transpose: exchange,
  type_as: convert,
  unbind,
  unflatten: reshape,
  unsqueeze,
  upsample_bilinear2d: resize,
  upsample_nearest2d: resize,
  view: reshape,
  zero,
})

/** The operators whose results use the memory of their first argument. */
const VIEWS = new Set(
  (
    'alias chunk contiguous detach dropout expand expand_as feature_dropout flatten narrow permute reshape reshape_as select slice split ' +
    'split_with_sizes squeeze swapaxes t to transpose type_as unbind unflatten unsqueeze view _unsafe_view'
  ).split(' '),
)

/** Ways around operators that no layer has. */
const NEAR: readonly (readonly [RegExp, string])[] = [
  [/^(conv3d|max_pool3d|avg_pool3d|adaptive_avg_pool3d|upsample_trilinear3d)$/, 'two-dimensional images: conv2d, max_pool2d'],
  [/^(celu|rrelu|softsign|log_sigmoid)/, 'relu, leaky_relu, prelu, elu, silu, gelu, mish, softplus, hardswish, tanh'],
  [
    /^_?upsample_(bicubic|linear|nearest_exact|bilinear2d_aa|bicubic2d_aa)/,
    "interpolate with mode 'nearest' or 'bilinear' and antialias=False",
  ],
  [/^(masked_fill|where)$/, 'attention with masks of constants'],
  [/^(alpha_dropout|feature_alpha_dropout)$/, 'dropout'],
  [/^(copy|index_put|fill|scatter)/, 'cat, or an operator that is not in place'],
  [/^(gru|lstm|rnn|embedding)/, 'convolutional networks'],
]

const nearest = (name: string): string =>
  NEAR.find(([pattern]) => pattern.test(name))?.[1] ?? Object.keys(operators(false)).sort().join(', ')

const lowered = (l: Lowering, node: AtenNode, table: Readonly<Record<string, Lower>>): void => {
  l.begin(node)
  const { name, inPlace } = operatorOf(node)
  const [first = 'self'] = node.arguments.keys()
  // Counters of norms.
  if (inPlace && ['I64', 'I32'].includes(l.program.tensors.get(l.names(first)[0] ?? '')?.type ?? '')) return
  const own = node.target.startsWith('aten.') && Object.hasOwn(table, name) ? table[name] : undefined
  try {
    if (isArrayNode(l, name, inPlace)) return
    if (own === undefined) fault(`this operator is not supported; allowed: ${nearest(name)}`)
    own?.(l)
    if (VIEWS.has(name)) l.shares(first)
    if (inPlace && name !== 'zero') l.replaces(first)
    l.staysBatched()
  } catch (e) {
    if (!(e instanceof Fault)) throw e
    l.refuse(e.message)
  }
}

const infoOf = (program: Program, name: string): ValueInfoProto => {
  const { type, sizes } = program.values.get(name) ?? { type: undefined, sizes: [] }
  const elemType = type === 'F32' ? ELEMENT.FLOAT : type === 'U8' ? ELEMENT.UINT8 : 0
  return { name, type: { tensorType: { elemType, shape: { dim: sizes.map((dimValue) => ({ dimValue })) } } } }
}

/** From this version on, group norms of ONNX have a weight for each channel. */
const OPSET = 21

/** A program as the graph that the importer reads. */
export const asOnnx = (program: Program): OnnxFile => {
  const l = new Lowering(program)
  const table = operators(program.nodes.some(isTraining))
  for (const node of program.nodes) lowered(l, node, table)
  const plain = tensorOf(program.path, program.refused)
  const initializer = [...[...program.tensors.keys()].map((name): TensorProto => ({ name })), ...l.constants]
  return {
    path: program.path,
    opset: OPSET,
    graph: {
      node: l.nodes,
      initializer,
      input: program.inputs.map((name) => infoOf(program, name)),
      output: program.outputs.map((name) => ({ name: l.nameOf(name) })),
      valueInfo: [...program.values.keys()].map((name) => infoOf(program, name)),
    },
    arrays: l.read,
    left: [...l.left],
    state: [...program.tensors.values()].filter((held) => held.isSaved === true),
    isSized: true,
    refused: program.refused,
    tensor: (t, called) => {
      const held = program.tensors.get(t.name ?? '')
      return held === undefined ? plain(t, called) : E.right(held)
    },
  }
}
