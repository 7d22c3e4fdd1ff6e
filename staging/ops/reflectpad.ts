// Reflection padding, with a size for each side: the rows outside the image are the image's rows, mirrored at the first and the last row, which
// are not repeated. The backward adds each row of dy to its source row.
// A slice of T rows reads T rows, and fewer at a border. Worked example: 2 above rows 0 1 2 3: 2 1 0 1 2 3.
import { type AccessMap, type AttrsOf, data, defineOp, mirrored, same, type Sizes } from './op'
import { checked, expectRange, expectRank, firstIn, firstOut, invertsForward, legal, perElement, gradientBy } from './rules'

const fields = { padTop: 'int', padLeft: 'int', padBottom: 'int', padRight: 'int' } as const
type Attrs = AttrsOf<typeof fields>

const image = (a: Attrs): AccessMap => ({
  B: same,
  C: same,
  H: mirrored(a.padTop, a.padBottom),
  W: mirrored(a.padLeft, a.padRight),
})

const padded = (a: Attrs, x: Sizes) =>
  checked(
    [
      expectRank('the input', x, 4),
      expectRange('padTop', a.padTop, 0, x[2]! - 1),
      expectRange('padBottom', a.padBottom, 0, x[2]! - 1),
      expectRange('padLeft', a.padLeft, 0, x[3]! - 1),
      expectRange('padRight', a.padRight, 0, x[3]! - 1),
    ],
    () => legal([x[0]!, x[1]!, x[2]! + a.padTop + a.padBottom, x[3]! + a.padLeft + a.padRight]),
  )

export const reflectPad = defineOp({
  kind: 'reflect_pad',
  wire: 46,
  fields,
  anchor: 'out',
  what: 'y[o] = x[|o − padTop|], mirrored at the last row likewise; less padding than rows',
  ins: [{ name: 'x', role: 'data', access: image }],
  outs: [data('y')],
  shape: (a, [x]) => padded(a, x!),
  backward: gradientBy('reflect_pad_bwd'),
  flops: perElement(0, firstOut),
})

export const reflectPadBwd = defineOp({
  kind: 'reflect_pad_bwd',
  wire: 47,
  fields,
  anchor: 0,
  what: 'each dy is added to the pixel that it was copied from; writes the whole dx box',
  ins: [data('dy')],
  outs: [{ name: 'dx', role: 'data', access: image }],
  outputsGiven: true,
  shape: (a, [dy], given) => invertsForward(() => padded(a, given[0]!), dy!, given),
  flops: perElement(1, firstIn),
})
