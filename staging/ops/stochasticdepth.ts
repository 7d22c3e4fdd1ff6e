// Stochastic depth: whole images of a residual branch are dropped, the others scaled. An image's lot is drawn from Philox by seed,
// step, `key` and its place in the batch: the same under any tiling, of the batch too, and for the backward.
import { data, defineOp } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const fields = { p: 'float', key: 'int' } as const
const limits = { p: { least: 0, below: 1 }, key: { least: 0, most: 0xffffffff } } as const
type Shape = readonly number[]

const unchanged = (_: unknown, [x]: readonly Shape[]) => checked([expectRank('the input', x!, 4)], () => legal(x!))

export const dropImages = defineOp({
  kind: 'drop_images',
  wire: 120,
  narrow: 'may',
  fields,
  limits,
  anchor: 'out',
  random: true,
  inPlace: [0],
  what: 'y = keep ? x/(1−p) : 0, keep drawn as in dropout, by the index of the image in the batch; in place',
  ins: [data('x')],
  outs: [data('y')],
  shape: unchanged,
  backward: (g) => {
    if (g.wants(0)) g.give(0, g.emit('drop_images_bwd', g.attrs, [g.dOut(0)], [g.shape(g.ins[0]!)])[0]!)
  },
  samples: (image) => [0, 0.2, 0.5].map((p) => ({ attrs: { p, key: 7 }, ins: [image] })),
  flops: perElement(1, firstOut),
})

export const dropImagesBwd = defineOp({
  kind: 'drop_images_bwd',
  wire: 121,
  narrow: 'may',
  fields,
  limits,
  anchor: 0,
  random: true,
  inPlace: [0],
  what: 'the same images; in place',
  ins: [data('dy')],
  outs: [data('dx')],
  shape: unchanged,
  flops: perElement(1, firstOut),
})
