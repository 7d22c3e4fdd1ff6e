// The index of the largest channel of each pixel: the predicted class. With one channel: 1 if it is above zero, else 0. It has no gradient. Worked
// example: [0.1, 2, 2] gives 1, the first of equal channels; a pixel of NaNs gives 0.
import { defineOp, data, pixels } from './op'
import { checked, expectRank, firstIn, legal, perElement } from './rules'

export const argmax = defineOp({
  kind: 'argmax',
  wire: 128,
  fields: {},
  anchor: 'out',
  what: 'y `[B,1,H,W]` i32: the first channel with the largest value of a pixel; for a single channel, 1 if the value is above zero, else 0',
  ins: [pixels('x')],
  outs: [{ ...data('y'), dtype: 'i32' }],
  shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal([x![0]!, 1, x![2]!, x![3]!])),
  flops: perElement(1, firstIn),
})
