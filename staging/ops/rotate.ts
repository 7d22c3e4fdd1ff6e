// Rotary positions: pairs of neighbouring channels are rotated by angles that grow with the row or the column of the pixel. The first half of the pairs
// of a head has angles of rows, the other half of columns. The gradient is the rotation by the negative angles. Worked example, 4 channels, step 1: the
// pixel in row 2, column 3 rotates channels 0 and 1 by 2, and channels 2 and 3 by 3.
import { type AttrsOf, data, defineOp, type OperandDef, type Sizes, wholeChannels } from './op'
import { checked, expectRank, firstOut, legal, perElement } from './rules'

const fields = {
  head: 'int',
  skip: 'int',
  columns: 'int',
  stepH: 'float',
  stepW: 'float',
  first: 'float',
  base: 'float',
  inverse: 'int',
} as const
const limits = {
  head: { least: 4 },
  skip: { least: 0 },
  columns: { least: 1 },
  base: { above: 0 },
  inverse: { least: 0, most: 1 },
} as const
type Attrs = AttrsOf<typeof fields>

/** The reason why channels are no heads of quadruples; undefined if they are. */
export const rotationFault = (head: number, channels: number): string | undefined =>
  head % 4 === 0 && channels % head === 0
    ? undefined
    : `${channels} channels are no heads of ${head}; allowed: heads of a multiple of 4 channels, and a multiple of a head`

/** Returns the angle of a pair of channels of a head, in a pixel by its number in the value. */
export const rotation = (a: Omit<Attrs, 'inverse'>, pixel: number, pair: number): number => {
  const [place, quarter] = [pixel - a.skip, a.head / 4]
  if (place < 0) return 0
  const at = pair < quarter ? (Math.floor(place / a.columns) + a.first) * a.stepH : ((place % a.columns) + a.first) * a.stepW
  return at * a.base ** (-(pair % quarter) / quarter)
}

const image = (name: string): OperandDef<typeof fields> => data(name, wholeChannels) as OperandDef<typeof fields>
const fits = ({ head }: Attrs, x: Sizes) => [expectRank('the input', x, 4), () => rotationFault(head, x[1]!)]

export const rotate = defineOp({
  kind: 'rotate',
  wire: 300,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  what: 'y = x with each pair of channels 2k, 2k + 1 of a head rotated by (place + first)·step·base^(−j / (head / 4)), j = k mod (head / 4). The place is a row for the first half of a head, a column for the other: those of pixel h·W + w − skip in an image of `columns`. The first `skip` pixels are copied. With inverse, by the negative angles',
  ins: [image('x')],
  outs: [image('y')],
  shape: (a, [x]) => checked(fits(a, x!), () => legal(x!)),
  backward: (g) => {
    const [x] = g.ins
    const attrs = { ...g.attrs, inverse: 1 - g.attrs.inverse }
    if (g.needsGradient(0)) g.addGradient(0, g.emit('rotate', attrs, [g.outputGradient(0)], [g.shape(x!)])[0]!)
  },
  samples: ([b, c, h, w]) => [
    {
      attrs: { head: 4, skip: 0, columns: w, stepH: 1, stepW: 0.5, first: 0.5, base: 100, inverse: 0 },
      ins: [[b, 4 * c, h, w]],
    },
    {
      attrs: { head: 8, skip: 1, columns: 2, stepH: 0.25, stepW: 1, first: 0, base: 10000, inverse: 1 },
      ins: [[b, 8, h, w]],
    },
  ],
  flops: perElement(4, firstOut),
})
