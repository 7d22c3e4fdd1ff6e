// Softmax over the channels of each pixel. The backward reads y, not x, so the forward may overwrite x; it needs all
// channels, and any rows and columns.
import { defineOp, pixels } from './op'
import { checked, expectRank, expectShape, firstIn, firstOut, legal, perElement, gradientBy } from './rules'

export const softmax = defineOp({
  kind: 'softmax',
  wire: 48,
  reclaimed: true,
  fields: {},
  anchor: 'out',
  inPlace: [0],
  what: 'y = e^x / Σ e^x over the channels of a pixel; may run in place',
  ins: [pixels('x')],
  outs: [pixels('y')],
  shape: (_, [x]) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
  backward: gradientBy('softmax_bwd', 'y'),
  samples: (image) => [{ attrs: {}, ins: [image] }],
  flops: perElement(6, firstOut),
})

export const softmaxBwd = defineOp({
  kind: 'softmax_bwd',
  wire: 49,
  fields: {},
  anchor: 1,
  inPlace: [1],
  what: 'dx = y·(dy − Σ dy·y) over the channels of a pixel; in place of dy',
  ins: [pixels('y'), pixels('dy')],
  outs: [pixels('dx')],
  shape: (_, [y, dy]) => checked([expectRank('y', y!, 4), expectShape('the incoming gradient', dy!, y!)], () => legal(y!)),
  flops: perElement(4, firstIn),
})
