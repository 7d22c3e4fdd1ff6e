// A forward graph as ONNX nodes, in the form for inference: norms by running statistics, no dropout. In: the graph, its output. Out: the ONNX graph
// without weights. Invariant: initializers are the parameters and statistics and nothing else, under PyTorch's names; other constants are nodes. The
// result of a linear layer is [B,C], as in PyTorch: flat. All else is [B,C,H,W]. Worked example: bn_stats is nothing, bn_apply a BatchNormalization
// that reads NAME.running_mean and NAME.running_var.
import type { Graph, ValueId } from '../../staging/graph/graph'
import { valueInfo } from './nodes'
import { ELEMENT, type GraphProto } from './onnx'
import {
  attend,
  attention,
  blank,
  contract,
  distanceScores,
  mirror,
  response,
  rotate,
  shift,
  squareSums,
  turnPixels,
  unitHeads,
} from './writeattention'
import {
  add,
  affine,
  concat,
  flatten,
  fromBytes,
  gelu,
  geluTanh,
  linear,
  mish,
  pixelShuffle,
  pixelUnshuffle,
  relu,
  shuffleChannels,
  silu,
  spread,
  standardized,
  takeChannels,
} from './writelayers'
import { batchNorm, groupNorm, layerNorm, localResponseNorm } from './writenorms'
import { reflectPad, upsample } from './writesizes'
import { avgPool, conv, convTranspose, maxPool } from './writewindows'
import { elementWise, flatDims, imageDims, Inference, INPUT, nothing, onImage, OUTPUT, unary, type Write } from './writing'

/** A parameter [C] or [C,1,1] as [C,1,1]. */
const ofChannels = (at: Inference, parameter: ValueId): string => {
  const { shape } = at.value(parameter)
  const own = at.image(parameter)
  return shape.length === 1 ? at.nodes.add('Unsqueeze', [own, at.nodes.ints(1, 2)], [shape[0]!, 1, 1]) : own
}

/** Every operator of a forward graph; those that rewrites join are not in it yet. */
const WRITERS: Readonly<Record<string, Write>> = {
  add,
  affine,
  attend,
  attention,
  avg_pool: avgPool,
  blank,
  bn_apply: batchNorm(false),
  bn_frozen: batchNorm(true),
  bn_masked_apply: batchNorm(false),
  bn_stats: () => {},
  clamp: elementWise((at, [x], dims, { attrs }) =>
    at.nodes.add('Clip', [x!, at.nodes.scalar(attrs['low']!), at.nodes.scalar(attrs['high']!)], dims),
  ),
  concat,
  contract,
  conv2d: conv,
  conv_transpose2d: convTranspose,
  distance_scores: distanceScores,
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
  mirror,
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
  prelu: onImage((at, x, dims, { ins: [, slope] }) => at.nodes.add('PRelu', [x, ofChannels(at, slope!)], dims)),
  reciprocal: unary('Reciprocal'),
  reflect_pad: reflectPad,
  relu,
  response,
  relu6: elementWise((at, [x], dims) => at.nodes.add('Clip', [x!, at.nodes.scalar(0), at.nodes.scalar(6)], dims)),
  rotate,
  scale: onImage((at, x, dims, { ins: [, gamma] }) => at.nodes.add('Mul', [x, ofChannels(at, gamma!)], dims)),
  shift,
  shuffle_channels: shuffleChannels,
  sigmoid: unary('Sigmoid'),
  silu,
  softmax: elementWise((at, ins, dims) => at.nodes.add('Softmax', ins, dims, { axis: 1 })),
  softplus: unary('Softplus'),
  spread,
  sqrt: unary('Sqrt'),
  square: elementWise((at, [x], dims) => at.nodes.add('Mul', [x!, x!], dims)),
  square_sums: squareSums,
  standardize: standardized,
  take_channels: takeChannels,
  tanh: unary('Tanh'),
  turn_pixels: turnPixels,
  unit_heads: unitHeads,
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
