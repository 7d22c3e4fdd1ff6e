// PyTorch's PixelShuffle and PixelUnshuffle: channels as blocks of pixels, and back. A fine image of C channels has `factor` times the rows and columns
// of a coarse one, which has factor² times the channels. For tiles, blocks are windows of the coarse pixels. Worked example, factor 2: channels 4c to
// 4c + 3 of a coarse pixel are channel c of 2x2 fine ones, row by row. A tile that cuts a block sets the other channels of the coarse gradient to 0;
// tiles add.
import { type AccessMap, all, type AttrsOf, defineOp, type OperandDef, pixels, same, transposed, type Sizes, window } from './op'
import { checked, expectRank, firstIn, firstOut, gradientBy, invertsForward, legal, perElement } from './rules'

const fields = { factor: 'int' } as const
const limits = { factor: { least: 1, most: 1024 } } as const
type Attrs = AttrsOf<typeof fields>

const blocks = (name: string, seen: typeof window): OperandDef<typeof fields> => ({
  name,
  role: 'data',
  access: ({ factor }): AccessMap => ({ B: same, C: all, H: seen(factor, factor, 0), W: seen(factor, factor, 0) }),
})

const shuffled = ({ factor }: Attrs, x: Sizes) =>
  checked(
    [
      expectRank('the input', x, 4),
      () => (x[1]! % factor ** 2 === 0 ? undefined : `it has ${x[1]} channels; allowed: multiples of ${factor ** 2}`),
    ],
    () => legal([x[0]!, x[1]! / factor ** 2, x[2]! * factor, x[3]! * factor]),
  )
const unshuffled = ({ factor }: Attrs, x: Sizes) =>
  checked(
    [
      expectRank('the input', x, 4),
      () =>
        x[2]! % factor === 0 && x[3]! % factor === 0
          ? undefined
          : `it is ${x[2]}x${x[3]}; allowed: rows and columns that ${factor} divides`,
    ],
    () => legal([x[0]!, x[1]! * factor ** 2, x[2]! / factor, x[3]! / factor]),
  )

const common = { half: 'may', fields, limits } as const

export const pixelShuffle = defineOp({
  ...common,
  kind: 'pixel_shuffle',
  wire: 235,
  anchor: 'out',
  what: 'y[c, h·factor + i, w·factor + j] = x[c·factor² + i·factor + j, h, w]',
  ins: [blocks('x', transposed)],
  outs: [pixels('y')],
  shape: (a, [x]) => shuffled(a, x!),
  backward: gradientBy('pixel_shuffle_bwd'),
  flops: perElement(0, firstOut),
})

export const pixelShuffleBwd = defineOp({
  ...common,
  kind: 'pixel_shuffle_bwd',
  wire: 236,
  anchor: 0,
  what: 'dx[c·factor² + i·factor + j, h, w] = dy[c, h·factor + i, w·factor + j], 0 for pixels outside dy; writes the whole dx box',
  ins: [pixels('dy')],
  outs: [blocks('dx', transposed)],
  outputsGiven: true,
  shape: (a, [dy], given) => invertsForward(() => shuffled(a, given[0]!), dy!, given),
  flops: perElement(0, firstIn),
})

export const pixelUnshuffle = defineOp({
  ...common,
  kind: 'pixel_unshuffle',
  wire: 237,
  anchor: 'out',
  what: 'y[c·factor² + i·factor + j, h, w] = x[c, h·factor + i, w·factor + j]',
  ins: [blocks('x', window)],
  outs: [pixels('y')],
  shape: (a, [x]) => unshuffled(a, x!),
  backward: gradientBy('pixel_unshuffle_bwd'),
  flops: perElement(0, firstOut),
})

export const pixelUnshuffleBwd = defineOp({
  ...common,
  kind: 'pixel_unshuffle_bwd',
  wire: 238,
  anchor: 0,
  what: 'dx[c, h·factor + i, w·factor + j] = dy[c·factor² + i·factor + j, h, w], 0 for pixels outside dy',
  ins: [pixels('dy')],
  outs: [blocks('dx', window)],
  outputsGiven: true,
  shape: (a, [dy], given) => invertsForward(() => unshuffled(a, given[0]!), dy!, given),
  flops: perElement(0, firstOut),
})
