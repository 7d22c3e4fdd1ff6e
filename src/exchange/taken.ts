// From ONNX nodes to layers. In: an ONNX file, sizes of the input. Out: the steps of a net in order, the output, and the tensor of each parameter; or
// the first unsupported node, by name and operator, with the legal ones. Invariant: a node's declarations are checked against the rules of its layer,
// so that a returned net has a graph.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import {
  adaptiveAvgPool,
  affine,
  clamp,
  elu,
  dropout,
  gelu,
  geluTanh,
  globalAvgPool,
  globalMaxPool,
  hardSigmoid,
  hardSwish,
  type InputOverride,
  leakyRelu,
  localResponseNorm,
  mish,
  prelu,
  reciprocal,
  relu,
  relu6,
  pixelUnshuffle,
  sigmoid,
  softmax,
  softplus,
  stochasticDepth,
  tanh,
} from '../../dsl'
import { LEAST_LENGTH } from '../../dsl/layers/layernorm'
import type { Shape } from '../../dsl/net'
import { type SpillwayError, usage } from '../errors/errors'
import { elementsOf } from '../../staging/core/box'
import { numberOf } from '../files/protobuf'
import { ELEMENT, type NodeProto, OWN } from './onnx'
import type { OnnxFile } from './read'
import { FileFault, near, Odd, type Parameter, Reading, refuse, Refused, shortest } from './reading'
import { nodeText } from './symbols'
import { isFolded, OF_NUMBERS } from './folded'
import { isArray, OF_ARRAYS } from './takearrays'
import { einsum, exponentsPart, gatheredTable, scaledScores, scoreSizes, softScores } from './takeattention'
import { lengths, sameLengths, spread } from './elements'
import { branchShares } from './takebranches'
import { castBytes, ofBytes } from './takebytes'
import { depthToSpace, slice, spaceToDepth, split } from './takechannels'
import {
  constant,
  flattened,
  gather,
  globalAverage,
  join,
  reshape,
  sizesOf,
  squeeze,
  axisSum,
  transpose,
  unsqueeze,
} from './takeforms'
import { batchNormalization, groupNormalization, instanceNormalization, layerNormalization, rmsNormalization } from './takenorms'
import { difference, gemm, isPerChannel, matMul, product, quotient, sum, sumOfMany } from './takeproducts'
import { softmaxOfView } from './takematrices'
import { gatheredWindows, maskedWindows } from './takemeans'
import { networkPart } from './takenetwork'
import { norms } from './takeresponse'
import { atLeast, meanOfPowers, power } from './takepowers'
import { squaresPart } from './takesquares'
import { standardPart } from './takestandard'
import { repeatedToken } from './taketokens'
import { flattenView } from './takeviews'
import { convolution, padding, pooling, resize, transposedConvolution } from './takewindows'
import { isLast, sizeOf } from './views'
import type { Step } from './ways'

export interface Taken {
  readonly input: Shape
  readonly steps: readonly Step[]
  readonly output: number
  readonly parameters: readonly Parameter[]
  /** The tensors that are weights of several layers; each layer has a copy. */
  readonly copied: readonly string[]
  /** The weights that are constants of layers. */
  readonly constants: readonly string[]
  /** Buffers of a PyTorch program that became parameters. */
  readonly buffers: readonly string[]
}

const alias = (r: Reading): unknown => r.is(r.symbol(0))

/** PyTorch's older exporter writes equal weights of an untrained network once, and an Identity with the name of each other. */
const renamed = (r: Reading): unknown => {
  const s = r.symbol(0)
  if (s.tag !== 'weight') return r.is(s)
  const { weight } = s
  r.is({ tag: 'weight', weight: { ...weight, tensor: { ...weight.tensor, name: r.outputName } } })
}

const clipped = (r: Reading): unknown => {
  const bound = (name: string, i: number): number | undefined => (r.has(i) ? r.scalar(i) : r.attribute(name)?.f)
  const [low, high] = [bound('min', 1), bound('max', 2)]
  if (low !== undefined && near(low, LEAST_LENGTH) && high === undefined && sameLengths(r)) return undefined
  if (low === 0 && high === 6) return r.makes(relu6())
  if (low === 0 && high === undefined && !r.has(2)) return r.makes(relu())
  if (low !== undefined && high !== undefined && low < high) return r.makes(clamp(shortest(low), shortest(high)))
  if (low !== undefined && high === undefined && !r.has(2)) return atLeast(r, low)
  // PyTorch decomposes relu6 so.
  const s = low === undefined && high === 6 ? r.symbol(0) : undefined
  const before = s?.tag === 'data' ? r.steps[s.step] : undefined
  if (s?.tag === 'data' && before?.layer?.kind === 'relu')
    return r.is({ tag: 'data', step: r.layer(relu6(), before.ins[0]!), form: s.form })
  refuse(`it clips to ${low ?? '−∞'} and ${high ?? '∞'}; allowed: two numbers, the smaller one first, and 0 and ∞`)
}

const scaledElu = (r: Reading): void => {
  const { step, form } = r.data(0)
  const inner = r.layer(elu(r.float('alpha', SELU.alpha)), step)
  const gamma = r.float('gamma', SELU.gamma)
  r.is({ tag: 'data', step: gamma === 1 ? inner : r.layer(affine(gamma), inner), form })
}
const SELU = { alpha: 1.6732632423543772, gamma: 1.0507009873554805 }

const sloped = (r: Reading): void => {
  const { step, form } = r.data(0)
  const slope = r.weight(1)
  const c = r.shape(step)[1]
  const count = elementsOf(slope.dims)
  const isOfChannels = isPerChannel(slope, c, form) || (slope.dims.length === 1 && count === c)
  if (count !== 1 && !isOfChannels)
    refuse(`its slope is [${slope.dims.join(',')}]; allowed: one number, or one for each of the ${c} channels`)
  const name = r.named(slope)
  r.parameter(`${name}.weight`, slope, [count])
  r.makes(prelu(name, { shared: count === 1 }))
}

const hardSigmoidOf = (r: Reading): void => {
  const [alpha, beta] = [r.float('alpha', 0.2), r.float('beta', 0.5)]
  if (!near(alpha, 1 / 6) || !near(beta, 0.5))
    refuse(`its alpha is ${alpha}, its beta ${beta}; allowed: 1/6 and 1/2, as in PyTorch`)
  r.makes(hardSigmoid())
}

const softmaxOver = (r: Reading): void => {
  if (softScores(r) || softmaxOfView(r, true) || branchShares(r) || softmaxOfView(r, false)) return
  const { form } = r.data(0)
  const usual = r.file.opset < 13 ? 1 : -1
  const axis = r.int('axis', usual)
  const legal = form === 'image' ? [1, -3] : form === 'flat' ? [1, -1] : form === 'last' ? [3, -1] : [-1]
  if (!legal.includes(axis)) refuse(`its axis is ${axis}; allowed: the channel axis`)
  r.makes(softmax())
}

const localResponse = (r: Reading): void => {
  r.image(0)
  const size = r.int('size', 0)
  if (size % 2 === 0) refuse(`its size is ${size}; allowed: odd sizes, as in PyTorch`)
  r.makes(localResponseNorm(size, { alpha: r.float('alpha', 1e-4), beta: r.float('beta', 0.75), k: r.float('bias', 1) }))
}

const part = (r: Reading): unknown => r.odd('it is not a part of a known function')

/** x > 20 ? x : softplus(x), which floats cannot tell from softplus. */
const choosesSoftplus = (r: Reading): boolean => {
  const [choice, x, y] = [0, 1, 2].map((i) => r.inputName(i))
  const greater = r.maker(choice!)
  const made = r.maker(y!)
  if (greater?.opType !== 'Greater' || made?.opType !== 'Softplus' || made.input?.[0] !== x) return false
  if (greater.input?.[0] !== x || r.scalarNamed(greater.input?.[1] ?? '') !== 20) return false
  r.is(r.symbol(2))
  return true
}

/** Repeats elements; sums and products do so themselves. */
const expanded = (r: Reading): unknown => {
  const s = r.symbol(0)
  if (s.tag === 'weight') return spread(r, s.weight) || r.is(s)
  if (sameLengths(r)) return undefined
  if (r.numbers(1)?.every((n) => n === 1)) return r.is(s)
  const { step, form } = r.data(0)
  const [, , h, w] = r.shape(step)
  if (form === 'image' && h * w === 1) return r.is(s)
  return (
    (h * w === 1 && repeatedToken(r, step, form)) ||
    refuse('it repeats an image; allowed: [B,C,1,1] as a factor, one token for all pixels, and weights')
  )
}

const TAKERS: Readonly<Record<string, (r: Reading) => unknown>> = {
  Add: (r) => ofBytes(r, 'Add') || sum(r),
  AveragePool: (r) => pooling(r, 'avg'),
  BatchNormalization: batchNormalization,
  Cast: (r) => {
    const s = r.symbol(0)
    if (s.tag === 'bytes') return castBytes(r, s.step)
    return r.int('to', 0) === ELEMENT.FLOAT ? alias(r) : refuse('it changes the number type; allowed: float')
  },
  Clip: clipped,
  Concat: join,
  Constant: constant,
  Conv: convolution,
  ConvTranspose: transposedConvolution,
  DepthToSpace: depthToSpace,
  Div: (r) => ofBytes(r, 'Div') || quotient(r),
  Dropout: alias,
  Einsum: einsum,
  Elu: (r) => r.makes(elu(r.float('alpha', 1))),
  Erf: part,
  Expand: expanded,
  Flatten: (r) => {
    const axis = r.int('axis', 1)
    if (axis !== 1 && flattenView(r, axis)) return
    const { step, form } = r.data(0)
    if (isLast(form) || axis !== 1)
      refuse(`its axis is ${axis}; allowed: 1, of an image, and axes of a value with its channels last`)
    flattened(r, step)
  },
  Gather: gather,
  GatherND: (r) =>
    gatheredWindows(r) ||
    gatheredTable(r) ||
    refuse('allowed: a table of relative positions at constant places, and windows of an adaptive pool'),
  Gelu: (r) => {
    const form = r.text('approximate', 'none')
    if (form !== 'none' && form !== 'tanh') refuse(`its approximation is '${form}'; allowed: 'none', 'tanh'`)
    r.makes(form === 'none' ? gelu() : geluTanh())
  },
  Gemm: gemm,
  GlobalAveragePool: (r) => {
    if (meanOfPowers(r, true)) return
    r.image(0)
    r.makes(globalAvgPool())
  },
  GlobalMaxPool: (r) => {
    r.image(0)
    r.makes(globalMaxPool())
  },
  GroupNormalization: (r) =>
    r.file.opset >= 21 ? groupNormalization(r) : refuse('its version is 18; allowed: version 21, or reshape and normalise'),
  Greater: part,
  HardSigmoid: hardSigmoidOf,
  HardSwish: (r) => r.makes(hardSwish()),
  Identity: renamed,
  InstanceNormalization: instanceNormalization,
  LRN: localResponse,
  LayerNormalization: layerNormalization,
  LeakyRelu: (r) => r.makes(leakyRelu(r.float('alpha', 0.01))),
  MatMul: matMul,
  MaxPool: (r) => pooling(r, 'max'),
  Mish: (r) => r.makes(mish()),
  Neg: (r) => scaledScores(r, 0, -1) || r.makes(affine(-1)),
  Mul: (r) => ofBytes(r, 'Mul') || product(r),
  PRelu: sloped,
  Pad: padding,
  Pow: power,
  RMSNormalization: rmsNormalization,
  ReduceL2: (r) => lengths(r) || norms(r),
  ReduceMean: (r) => meanOfPowers(r, false) || globalAverage(r),
  ReduceSum: axisSum,
  Reciprocal: (r) => r.makes(reciprocal()),
  Relu: (r) => r.makes(relu()),
  Reshape: reshape,
  Resize: resize,
  Shape: (r) => {
    const s = r.symbol(0)
    const { step, form } =
      s.tag === 'bytes' || s.tag === 'pixels'
        ? { step: s.step, form: 'image' as const }
        : s.tag === 'view' || s.tag === 'scores'
          ? { step: -1, form: 'image' as const }
          : r.data(0)
    const sizes = s.tag === 'view' ? s.view.axes.map(sizeOf) : s.tag === 'scores' ? scoreSizes(s.scores) : sizesOf(r, step, form)
    r.is({
      tag: 'sizes',
      sizes: sizes.slice(r.int('start', 0), r.attribute('end') ? r.int('end', 0) : undefined),
    })
  },
  Selu: scaledElu,
  Sigmoid: (r) => r.makes(sigmoid()),
  Slice: slice,
  Softmax: softmaxOver,
  Softplus: (r) => r.makes(softplus()),
  SpaceToDepth: spaceToDepth,
  Split: split,
  Squeeze: squeeze,
  Sub: (r) => ofBytes(r, 'Sub') || difference(r),
  Sum: sumOfMany,
  Tanh: (r) => r.makes(tanh()),
  Tile: (r) => (r.numbers(1)?.every((n) => n === 1) ? alias(r) : refuse('it repeats a value; allowed: constants')),
  Transpose: transpose,
  Unsqueeze: unsqueeze,
  Where: (r) =>
    maskedWindows(r) ||
    choosesSoftplus(r) ||
    refuse('it chooses between computed values; allowed: the windows of an adaptive pool, and softplus'),
}
/** Operators of PyTorch programs that ONNX does not have. */
const OWN_TAKERS: Readonly<Record<string, (r: Reading) => unknown>> = {
  AdaptiveAveragePool: (r) => {
    const [h, w] = r.ints('output_size') as [number, number]
    r.is({ tag: 'data', step: r.layer(adaptiveAvgPool(r.named(), h === w ? h : [h, w]), r.image(0)), form: 'image' })
  },
  Blank: (r) => r.is({ tag: 'blanked', weight: r.weight(0), from: r.int('from', 0), to: r.int('to', 0) }),
  Dropout: (r) => r.makes(dropout(r.float('ratio', 0.5))),
  PixelUnshuffle: (r) => {
    r.image(0)
    r.makes(pixelUnshuffle(r.int('factor', 1)))
  },
  StochasticDepth: (r) => r.makes(stochasticDepth(r.float('p', 0))),
}
/** The ONNX operators that are taken. */
export const TAKEN: readonly string[] = [
  ...Object.keys(TAKERS),
  ...[...OF_NUMBERS, ...OF_ARRAYS].filter((op) => !Object.hasOwn(TAKERS, op)),
].sort()

// ---------------------------------------------------------------- the graph

const OWN_DOMAINS = ['', 'ai.onnx']

/** Computes numbers, arrays and standardised weights from constants of the file. */
const takesConstants = (r: Reading, op: string): boolean => isFolded(r, op) || standardPart(r, op) || isArray(r, op)

const takeNode = (r: Reading, node: NodeProto): void => {
  r.begin(node)
  if (node.fault !== undefined) refuse(node.fault)
  const isOnnx = OWN_DOMAINS.includes(node.domain ?? '')
  const op = node.opType ?? ''
  if (isOnnx && (takesConstants(r, op) || squaresPart(r, op) || networkPart(r, op) || exponentsPart(r, op))) return
  const takers = isOnnx ? TAKERS : node.domain === OWN ? OWN_TAKERS : {}
  const take = Object.hasOwn(takers, node.opType ?? '') ? takers[node.opType!] : undefined
  if (take === undefined) refuse(`this operator is not supported; allowed: ${TAKEN.join(', ')}`)
  else take(r)
}

/** The input's sizes as the file has them, and as the caller wants them. */
const inputOf = (
  file: OnnxFile,
  o: InputOverride,
): Either<
  SpillwayError,
  { readonly name: string; readonly shape: Shape; readonly isBytes: boolean; readonly isOfOneImage: boolean }
> => {
  const held = new Set((file.graph.initializer ?? []).map((t) => t.name))
  const inputs = (file.graph.input ?? []).filter((v) => !held.has(v.name))
  const [input] = inputs
  if (input === undefined || inputs.length !== 1)
    return E.left(
      file.refused(
        `it has ${inputs.length} inputs${inputs.length > 1 ? ` (${inputs.map((v) => v.name).join(', ')})` : ''}; allowed: one`,
      ),
    )
  const tensor = input.type?.tensorType
  const dims = tensor?.shape?.dim ?? []
  const isBytes = tensor?.elemType === ELEMENT.UINT8
  if ((tensor?.elemType !== ELEMENT.FLOAT && !isBytes) || dims.length !== 4)
    return E.left(
      file.refused(
        `its input '${input.name}' has ${dims.length} dimensions of element type ${tensor?.elemType}; allowed: images [B,C,H,W] of float or uint8`,
      ),
    )
  const [b, c, h, w] = dims.map((d) => numberOf(d.dimValue ?? 0) || undefined)
  const [batch, height, width] = [o.batch ?? b ?? 1, o.height ?? h, o.width ?? w]
  if (c === undefined) return E.left(file.refused(`its input '${input.name}' has no fixed number of channels`))
  if (height === undefined || width === undefined)
    return E.left(usage(`the file has no height and width for '${input.name}': add --image, e.g. --image 224`))
  if (file.isSized && (height !== h || width !== w))
    return E.left(
      usage(`a program of torch.export has the size of its example, ${h}x${w}: export it with an example of ${height}x${width}`),
    )
  return E.right({ name: input.name ?? '', shape: [batch, c, height, width], isBytes, isOfOneImage: b === 1 })
}

/** The value that becomes the output: the only one of the file, or the one with this name. */
const outputName = (file: OnnxFile, wanted: string | undefined): Either<SpillwayError, string> => {
  const outputs = (file.graph.output ?? []).map((v) => v.name ?? '')
  const list = outputs.join(', ')
  if (wanted === undefined)
    return outputs.length === 1
      ? E.right(outputs[0]!)
      : E.left(file.refused(`it has ${outputs.length} outputs (${list}); choose one, e.g. --output ${outputs[0] ?? 'y'}`))
  return (file.graph.node ?? []).some((n) => n.output?.includes(wanted))
    ? E.right(wanted)
    : E.left(file.refused(`no node has the output '${wanted}'; the outputs of the file: ${list}`))
}

/** The nodes that compute a chosen value, in the order of the file; all nodes without a choice. */
const nodesOf = (file: OnnxFile, chosen: string | undefined): readonly NodeProto[] => {
  const all = file.graph.node ?? []
  if (chosen === undefined) return all
  const needed = new Set([chosen])
  const nodes = [...all].reverse().filter((n) => {
    const isNeeded = n.output?.some((v) => needed.has(v)) ?? false
    if (isNeeded) for (const v of n.input ?? []) needed.add(v)
    return isNeeded
  })
  return nodes.reverse()
}

const outputOf = (r: Reading, name: string): number => {
  const s = r.symbolOf(name)
  if (s.tag === 'odd') throw new Odd(s.node, s.why)
  if (s.tag === 'pixels') return r.numbersOfBytes(s).step
  if (s.tag !== 'data') return refuse('its output is not computed by layers')
  return r.rollOf(s.step).every((n) => n === 0) ? s.step : refuse('its output is rolled; allowed: values that are rolled back')
}

/** Sizes of the input, and the value that becomes the output. */
export interface ImportChoice extends InputOverride {
  readonly output?: string | undefined
}

/** Reads a file's nodes one by one. With `found`, it collects the refused nodes and goes on with their declared results. */
export const takeOnnx = (file: OnnxFile, o: ImportChoice, found?: Map<string, string>): Either<SpillwayError, Taken> => {
  const input = inputOf(file, o)
  if (E.isLeft(input)) return input
  const output = outputName(file, o.output)
  if (E.isLeft(output)) return output
  const r = new Reading(file, input.right.name, input.right.shape, input.right.isBytes, input.right.isOfOneImage)
  let node: NodeProto | undefined
  try {
    for (const t of file.graph.initializer ?? []) {
      const tensor = file.tensor(t, 'without a name')
      if (E.isLeft(tensor)) return tensor
      r.bind(t.name ?? '', { tag: 'weight', weight: { tensor: tensor.right, dims: tensor.right.dims, transposed: false } })
    }
    for (const [name, array] of file.arrays ?? []) r.bind(name, { tag: 'array', array })
    for (node of nodesOf(file, o.output)) {
      try {
        takeNode(r, node)
      } catch (e) {
        if (!(e instanceof Refused) || found === undefined) throw e
        const blamed = nodeText(e instanceof Odd ? e.blamed : node)
        if (!found.has(blamed)) found.set(blamed, e.message)
        r.standIn(e.message)
      }
    }
    node = undefined
    r.underlined()
    return E.right({
      input: input.right.shape,
      steps: r.steps,
      output: outputOf(r, output.right),
      parameters: r.parameters,
      copied: [...r.copied],
      constants: [...r.constants],
      buffers: [...r.buffers],
    })
  } catch (e) {
    if (e instanceof FileFault) return E.left(e.error)
    if (!(e instanceof Refused)) throw e
    const blamed = e instanceof Odd ? e.blamed : node
    return E.left(file.refused(`${blamed ? `${nodeText(blamed)}: ` : ''}${e.message}`))
  }
}
