// The parts of global response normalisation, as ConvNeXt V2 has it. The op `square_sums` computes Σ x² of each channel of an image; tiles add to it. The op
// `response` computes the factor of each channel, from the root of this sum and the image's mean root. Worked example: the roots 3 and 1 with gamma 1
// give the factors 2.5 and 1.5.
import { all, type AccessMap, data, defineOp, perChannel, perChannelSum, pixels, reduce, same, type Sizes } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const sums: AccessMap = { B: same, C: same, H: reduce, W: reduce }
const ofImages: AccessMap = { B: same, C: same, H: all, W: all }
const sumsOf = (x: Sizes): Sizes => [x[0]!, x[1]!, 1, 1]

export const squareSums = defineOp({
  kind: 'square_sums',
  wire: 220,
  half: 'may',
  fields: {},
  anchor: 0,
  what: 's `[B,C,1,1]` = Σ x² over the pixels of an image; sum',
  ins: [data('x')],
  outs: [{ ...data('s', sums), merge: 'sum' }],
  shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(sumsOf(x!))),
  backward: (g) => {
    const x = g.ins[0]!
    if (g.needsGradient(0)) g.addGradient(0, g.emit('square_sums_bwd', {}, [x, g.outputGradient(0)], [g.shape(x)])[0]!)
  },
  samples: (x) => [{ attrs: {}, ins: [x] }],
  flops: perElement(2, firstIn),
  workspace: partialSums(1),
})

export const squareSumsBwd = defineOp({
  kind: 'square_sums_bwd',
  wire: 221,
  half: 'may',
  fields: {},
  anchor: 'out',
  what: 'dx = 2·x·ds',
  ins: [data('x'), { ...data('ds', ofImages), float: true }],
  outs: [data('dx')],
  shape: (_, [x, ds]) =>
    checked([expectRank('x', x!, 4), () => expectShape('the incoming gradient', ds!, sumsOf(x!))()], () => legal(x!)),
  flops: perElement(2, firstOut),
})

const fields = { eps: 'float' } as const
const limits = { eps: { above: 0 } } as const
const ofPixel = (s: Sizes) => checked([expectRank('the sums', s, 4)], () => legal(s))

export const response = defineOp({
  kind: 'response',
  wire: 222,
  fields,
  limits,
  anchor: 'out',
  what: 'f = 1 + gamma·√s / (mean of √s over the channels of a pixel + eps)',
  ins: [{ ...pixels('s'), drawn: 'positive' }, perChannel('gamma')],
  outs: [pixels('f')],
  shape: (_, [s]) => ofPixel(s!),
  backward: (g) => {
    const [s, gamma] = g.ins
    const df = g.outputGradient(0)
    if (g.needsGradient(1)) g.addGradient(1, g.emit('response_bwd_weights', g.attrs, [s!, df], [g.shape(gamma!)])[0]!)
    if (g.needsGradient(0)) g.addGradient(0, g.emit('response_bwd_data', g.attrs, [s!, df, gamma!], [g.shape(s!)])[0]!)
  },
  samples: (x) => [{ attrs: { eps: 1e-6 }, ins: [x, [x[1]]] }],
  flops: perElement(6, firstOut),
})

export const responseBwdData = defineOp({
  kind: 'response_bwd_data',
  wire: 223,
  fields,
  limits,
  anchor: 1,
  what: 'ds = (gamma·df − Σ gamma·df·√s / (C·m)) / (2·m·√s), m = mean of √s + eps; 0 for s = 0, as PyTorch',
  ins: [{ ...pixels('s'), drawn: 'positive' }, pixels('df'), perChannel('gamma')],
  outs: [pixels('ds')],
  shape: (_, [s, df]) => checked([expectShape('the incoming gradient', df!, s!)], () => ofPixel(s!)),
  flops: perElement(8, firstIn),
})

export const responseBwdWeights = defineOp({
  kind: 'response_bwd_weights',
  wire: 224,
  fields,
  limits,
  anchor: 1,
  what: 'dgamma = Σ df·√s / m over batch and pixels, m = mean of √s + eps; sum',
  ins: [{ ...pixels('s'), drawn: 'positive' }, pixels('df')],
  outs: [perChannelSum('dgamma')],
  shape: (_, [s, df]) =>
    checked([expectRank('the sums', s!, 4), expectShape('the incoming gradient', df!, s!)], () => legal([s![1]!])),
  flops: perElement(6, firstIn),
  workspace: partialSums(1),
})
