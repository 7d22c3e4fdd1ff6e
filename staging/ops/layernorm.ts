// Layer normalisation over the channels of each pixel, as ConvNeXt has it: PyTorch's LayerNorm of channels-last values. The
// backward computes a pixel's mean and variance again from the channels of x, which it reads in any case: only x is kept.
import { data, defineOp, perChannel, perChannelSum, wholeChannels, type Sizes } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, partialSums, perElement } from './rules'

const fields = { eps: 'float' } as const
const limits = { eps: { least: 0 } } as const

const fits = (x: Sizes, dy: Sizes, outs: readonly Sizes[]) =>
  checked([expectRank('the input', x, 4), expectShape('the incoming gradient', dy, x)], () => legal(...outs))

export const layerNorm = defineOp({
  kind: 'layer_norm',
  wire: 117,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  what: 'y = (x − mean)·rsqrt(variance + eps)·gamma + beta, both over the channels of a pixel; without beta, it is 0',
  ins: [data('x', wholeChannels), perChannel('gamma'), { ...perChannel('beta'), optional: true }],
  outs: [data('y', wholeChannels)],
  shape: (_, [x]) => fits(x!, x!, [x!]),
  backward: (g) => {
    const [x, gamma] = g.ins
    const dy = g.outputGradient(0)
    if (g.needsGradient(1) || g.needsGradient(2)) {
      const [dgamma, dbeta] = g.emit('layer_norm_bwd_weights', g.attrs, [x!, dy], [g.shape(gamma!), g.shape(gamma!)])
      if (g.needsGradient(1)) g.addGradient(1, dgamma!)
      if (g.needsGradient(2)) g.addGradient(2, dbeta!)
    }
    if (g.needsGradient(0)) g.addGradient(0, g.emit('layer_norm_bwd_data', g.attrs, [x!, dy, gamma!], [g.shape(x!)])[0]!)
  },
  samples: (x) => [[[x[1]]], []].map((beta) => ({ attrs: { eps: 1e-5 }, ins: [x, [x[1]], ...beta] })),
  flops: perElement(8, firstOut),
})

export const layerNormBwdData = defineOp({
  kind: 'layer_norm_bwd_data',
  wire: 118,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  inPlace: [1],
  what: 'dx = rstd·(g − mean of g − x̂·mean of g·x̂), g = gamma·dy; in place of dy',
  ins: [data('x', wholeChannels), data('dy', wholeChannels), perChannel('gamma')],
  outs: [data('dx', wholeChannels)],
  shape: (_, [x, dy]) => fits(x!, dy!, [x!]),
  flops: perElement(14, firstIn),
})

export const layerNormBwdWeights = defineOp({
  kind: 'layer_norm_bwd_weights',
  wire: 119,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  what: 'dgamma = Σ dy·x̂, dbeta = Σ dy over batch and pixels; sum',
  ins: [data('x', wholeChannels), data('dy', wholeChannels)],
  outs: [perChannelSum('dgamma'), perChannelSum('dbeta')],
  shape: (_, [x, dy]) => fits(x!, dy!, [[x![1]!], [x![1]!]]),
  flops: perElement(10, firstIn),
  workspace: partialSums(2),
})
