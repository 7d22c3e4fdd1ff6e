// Bytes of pixels to numbers: fed bytes stay bytes until here. In: a fed value of bytes. Out: (x/255 − mean)/std, channel by channel, in the float
// type or in 16 bits, with the same roundings as PyTorch's x.float() / 255 and the normalisation after it. It has no gradient, because no op needs that of an image. Worked example:
// byte 255, mean 0.5 and deviation 0.25 give 2.
import type { Shape } from '../core/box'
import { attrsListed, data, defineOp } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const withChannels = ([b, , h, w]: Shape, channels: number): Shape => [b, channels, h, w]

export const fromBytes = defineOp({
  kind: 'from_bytes',
  wire: 170,
  half: 'may',
  fields: {},
  rest: { mean: {}, std: { above: 0 } },
  anchor: 'out',
  ins: [{ ...data('x'), dtype: 'u8', drawn: 'byte' }],
  outs: [data('y')],
  what: 'x bytes; y = (x/255 − mean)/std, with one mean and one std for all channels, or one per channel',
  shape: (a, [x]) =>
    checked(
      [
        expectRank('the input', x!, 4),
        () => {
          const given = attrsListed('mean', a).length
          return given === 1 || given === x![1]
            ? undefined
            : `it has ${given} means and deviations; allowed: ${x![1]} (one per channel), or one for all`
        },
      ],
      () => legal(x!),
    ),
  samples: (image) => [
    { attrs: { mean0: 0, std0: 1 }, ins: [image] },
    { attrs: { mean0: 0.485, std0: 0.229, mean1: 0.456, std1: 0.224, mean2: 0.406, std2: 0.225 }, ins: [withChannels(image, 3)] },
  ],
  flops: perElement(3, firstOut),
})
