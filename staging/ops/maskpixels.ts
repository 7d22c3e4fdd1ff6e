// Pixels of a mask (dsl/masks.ts) in losses and max pools. A mask is 1 inside and 0 outside. Labels outside become a label that losses ignore.
// Losses per element multiply each pixel by its factor: then the mean over all pixels is the mean over the pixels inside. Max pools read values
// outside as a number below all others. Worked example, a mask [1, 0, 1, 1]: the factors are [4/3, 0, 4/3, 4/3].
import { data, defineOp, type OperandDef, pointwise, reduce, same, type Sizes } from './op'
import { stats } from './batchnorm'
import { checked, expectRank, expectShape, firstOut, legal, perElement } from './rules'

const ofPixels = ([b, , h, w]: Sizes): Sizes => [b!, 1, h!, w!]
const mask: OperandDef = { name: 'mask', role: 'data', access: () => pointwise }

export const maskFactors = defineOp({
  kind: 'mask_factors',
  wire: 276,
  fields: {},
  anchor: 'out',
  ins: [mask, { ...stats, dims: [4, 1] }],
  outs: [data('factors')],
  what: 'factors = mask divided by its mean, which `bn_stats` of the mask has; 0 if the mean is 0',
  shape: (_, [given]) =>
    checked([expectRank('the mask', given!, 4), () => expectShape('the mask', given!, ofPixels(given!))()], () => legal(given!)),
  samples: (image) => [{ attrs: {}, ins: [ofPixels(image), [4, 1]] }],
  flops: perElement(1, firstOut),
})

export const maskLabels = defineOp({
  kind: 'mask_labels',
  wire: 277,
  fields: { ignoreIndex: 'int' },
  limits: { ignoreIndex: { least: -(2 ** 31), most: 2 ** 31 - 1 } },
  anchor: 'out',
  inPlace: [0],
  ins: [{ name: 'labels', role: 'data', access: () => pointwise, dtype: 'i32' }, mask],
  outs: [{ name: 'y', role: 'data', access: () => pointwise, dtype: 'i32' }],
  what: 'labels `[B,1,H,W]` i32; y = mask > 0 ? labels : ignoreIndex',
  shape: (_, [labels, given]) =>
    checked(
      [
        expectRank('labels', labels!, 4),
        () => expectShape('labels', labels!, ofPixels(labels!))(),
        () => expectShape('the mask', given!, labels!)(),
      ],
      () => legal(labels!),
    ),
  flops: perElement(1, firstOut),
})

export const maskFill = defineOp({
  kind: 'mask_fill',
  wire: 278,
  half: 'may',
  fields: { value: 'float' },
  anchor: 'out',
  inPlace: [0],
  ins: [data('x'), { ...mask, access: () => ({ B: same, C: reduce, H: same, W: same }), drawn: 'one' }],
  outs: [data('y')],
  what: 'y = mask > 0 ? x : value, for all channels of a pixel of the mask `[B,1,H,W]`; may run in place of x',
  shape: (_, [x, given]) =>
    checked([expectRank('the input', x!, 4), () => expectShape('the mask', given!, ofPixels(x!))()], () => legal(x!)),
  backward: (g) => {
    const [x, inside] = g.ins
    if (g.needsGradient(0))
      g.addGradient(0, g.emit('multiply_bwd_data', { over: 2 }, [g.outputGradient(0), inside!], [g.shape(x!)])[0]!)
  },
  samples: (image) => [{ attrs: { value: -3e38 }, ins: [image, ofPixels(image)] }],
  flops: perElement(1, firstOut),
})
