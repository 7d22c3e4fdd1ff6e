// Resampling to another image size, bilinear or to the nearest pixel, as PyTorch's interpolate with the ratio of the sizes
// (all in integers, so that each tile computes the same source pixels). The backward adds each piece of dy to its
// source pixels. sigma is the ratio of the sizes: a slice of T rows of an image f times as high needs
// ceil(T/f) + 2 rows. Worked example, bilinear, 4 rows to 8: row 3 of y is at (3 + 1/2)/2 - 1/2 = 1.25: it reads rows 1 and 2 of x.
import { type AccessMap, type AttrsOf, data, defineOp, type OperandDef, resampled, same, type Sizes } from './op'
import { checked, elements, expectRank, expectShape, legal, gradientBy } from './rules'

/**
 * Mode 0: nearest. 1: bilinear, pixels are areas. 2: bilinear, pixels are points and corners map to corners (align_corners).
 * Mode 3 is the mean of the pixels that a new pixel covers: PyTorch's adaptive average pooling.
 */
const fields = { mode: 'int', inH: 'int', inW: 'int', outH: 'int', outW: 'int' } as const
type Attrs = AttrsOf<typeof fields>

const taken = (a: Attrs): AccessMap => ({
  B: same,
  C: same,
  H: resampled(a.mode, a.inH, a.outH),
  W: resampled(a.mode, a.inW, a.outW),
})
const image = (name: string): OperandDef<typeof fields> => ({ name, role: 'data', access: taken })

const sized = (a: Attrs, name: string, got: Sizes, from: 'in' | 'out') => (): string | undefined =>
  expectShape(name, got, [got[0]!, got[1]!, a[`${from}H`], a[`${from}W`]])()
const size = { least: 1 } as const
const limits = { mode: { least: 0, most: 3 }, inH: size, inW: size, outH: size, outW: size } as const

export const upsample = defineOp({
  kind: 'upsample',
  wire: 44,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  what: 'mode 0 nearest, 1 bilinear, 2 bilinear with aligned corners, 3 the mean of pixels [⌊o·in/out⌋, ⌈(o + 1)·in/out⌉); sizes are those of the whole values',
  ins: [image('x')],
  outs: [data('y')],
  shape: (a, [x]) =>
    checked([expectRank('the input', x!, 4), sized(a, 'the input', x!, 'in')], () => legal([x![0]!, x![1]!, a.outH, a.outW])),
  backward: gradientBy('upsample_bwd'),
  flops: (a, s) => (a.mode === 0 ? 1 : 8) * elements(s.outs[0]),
})

export const upsampleBwd = defineOp({
  kind: 'upsample_bwd',
  wire: 45,
  half: 'may',
  fields,
  limits,
  anchor: 0,
  what: 'each dy is added to the pixels of x that it was interpolated from, with their weights; writes the whole dx box',
  ins: [data('dy')],
  outs: [image('dx')],
  shape: (a, [dy]) =>
    checked([expectRank('the incoming gradient', dy!, 4), sized(a, 'the incoming gradient', dy!, 'out')], () =>
      legal([dy![0]!, dy![1]!, a.inH, a.inW]),
    ),
  flops: (a, s) => (a.mode === 0 ? 1 : 8) * elements(s.ins[0]),
})
