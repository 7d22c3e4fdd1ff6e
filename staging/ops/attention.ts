// Scaled dot-product attention of all heads within groups of pixels: a window, a grid of pixels at equal distances, or the whole image. The channels
// of x are queries, keys and values. `attend` reads keys and values from another value, of any height and width. No matrix of scores is stored: the
// backward computes the scores again, row by row. It tiles along B only. Worked example: 8 rows in windows of 4 are two groups of rows 0 to 3 and
// 4 to 7. A grid of 4 has the rows 0, 2, 4, 6 and 1, 3, 5, 7. A class token before 2x3 pixels is a row of 7 with `across` 3.
import { all, type AccessMap, type AttrsOf, type CallShapes, data, defineOp, type OperandDef, same, type Sizes } from './op'
import { checked, expectRange, expectRank, expectShape, legal } from './rules'

const fields = {
  heads: 'int',
  headFirst: 'int',
  windowH: 'int',
  windowW: 'int',
  grid: 'int',
  shiftH: 'int',
  shiftW: 'int',
  biased: 'int',
  scale: 'float',
  across: 'int',
} as const
type Attrs = AttrsOf<typeof fields>
const yesOrNo = { least: 0, most: 1 } as const
const limits = {
  heads: { least: 1 },
  headFirst: yesOrNo,
  windowH: { least: 1 },
  windowW: { least: 1 },
  grid: yesOrNo,
  shiftH: { least: 0 },
  shiftW: { least: 0 },
  biased: yesOrNo,
  across: { least: 0 },
} as const

/** The CUDA kernels hold a head's channels in registers. */
export const MOST_HEAD_CHANNELS = 256

const perImage: AccessMap = { B: same, C: all, H: all, W: all }
const image = (name: string): OperandDef<typeof fields> => data(name, perImage) as OperandDef<typeof fields>
/** Scores of a class token: to a pixel, from a pixel, and to itself. */
const OF_TOKEN = 3
/** The number of offsets between two pixels of an image. */
const offsets = (height: number, width: number): number => (2 * height - 1) * (2 * width - 1)
/** The shape of the position table: a number for each head and each offset between two pixels of a window, and three of a class token. */
export const tableOf = ({
  heads,
  windowH,
  windowW,
  across = 0,
}: Pick<Attrs, 'heads' | 'windowH' | 'windowW'> & Partial<Pick<Attrs, 'across'>>): Sizes => [
  across === 0 ? offsets(windowH, windowW) : offsets((windowW - 1) / across, across) + OF_TOKEN,
  heads,
]

/** The index into the position table for each pair of tokens. */
export const distances = ([height, width]: readonly [number, number]): readonly number[] => {
  const tokens = Array.from({ length: height * width }, (_, i) => [Math.floor(i / width), i % width] as const)
  return tokens.flatMap(([y, x]) => tokens.map(([v, u]) => (y - v + height - 1) * (2 * width - 1) + x - u + width - 1))
}
/** The same for a class token before the pixels of an image. */
export const distancesBehindToken = (size: readonly [number, number]): readonly number[] => {
  const [places, count, all] = [distances(size), size[0] * size[1], offsets(...size)]
  const rows = Array.from({ length: count }, (_, i) => [all + 1, ...places.slice(i * count, (i + 1) * count)])
  return [all + 2, ...Array<number>(count).fill(all), ...rows.flat()]
}

const fits = (a: Attrs, x: Sizes) => [
  expectRank('the input', x, 4),
  () =>
    x[1]! % (3 * a.heads) === 0
      ? undefined
      : `${x[1]} channels are not queries, keys and values of ${a.heads} heads; allowed: multiples of ${3 * a.heads}`,
  () => expectRange('channels of a head', x[1]! / (3 * a.heads), 1, MOST_HEAD_CHANNELS)(),
  () =>
    x[2]! % a.windowH === 0 && x[3]! % a.windowW === 0
      ? undefined
      : `windows of ${a.windowH}x${a.windowW} do not divide ${x[2]}x${x[3]} pixels`,
  expectRange('shiftH', a.shiftH, 0, a.windowH - 1),
  expectRange('shiftW', a.shiftW, 0, a.windowW - 1),
  () => (a.grid === 1 && a.shiftH + a.shiftW > 0 ? 'a grid is not shifted; allowed: shifts of 0' : undefined),
  () =>
    a.across > 0 && (a.windowH !== 1 || a.windowW === 1 || (a.windowW - 1) % a.across !== 0 || a.shiftW > 0)
      ? `${a.windowH}x${a.windowW} tokens are no class token before rows of ${a.across} pixels; allowed: one row, unshifted`
      : undefined,
]

const tokens = (a: Attrs): number => a.windowH * a.windowW
const cost =
  (perPair: number) =>
  (a: Attrs, s: CallShapes): number =>
    (perPair * (s.ins[0] ?? [1, 1, 1, 1]).reduce((n, d) => n * d, 1) * tokens(a)) / 3
/** Scratch of the CPU kernel: for each thread, q, k and v of a group as floats, and a block of rows of scores. */
const scratch =
  (values: number, rows: number) =>
  (a: Attrs, s: CallShapes): number => {
    const head = (s.ins[0]?.[1] ?? 1) / (3 * a.heads)
    return 64 * tokens(a) * (values * head + rows) * 4 + 64 * a.heads * tableOf(a)[0]! * 8
  }

export const attention = defineOp({
  kind: 'attention',
  wire: 229,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  dense: true,
  what: 'y = softmax(scale·q·kᵀ + table)·v for each head, image and group of windowH × windowW pixels. x `[B,3C,H,W]` has q, k, v as channels `[3][heads][C/heads]`, with headFirst `[heads][3][C/heads]`. Groups are windows; with grid, pixels at distances of H/windowH and W/windowW; with shifts, windows of the image rolled by them, where pixels of opposite borders ignore each other. table `[(2·windowH − 1)·(2·windowW − 1), heads]` is read at (row of q − row of k + windowH − 1)·(2·windowW − 1) + column of q − column of k + windowW − 1. With across, the tokens are a class token and rows of `across` pixels: table has the numbers of the pixels, and three for scores of the class token: to a pixel, from a pixel, to itself',
  ins: [image('x'), { name: 'table', role: 'whole', optional: true, when: 'biased' }],
  outs: [image('y')],
  shape: (a, [x, table]) =>
    checked([...fits(a, x!), () => (table ? expectShape('the table', table, tableOf(a))() : undefined)], () =>
      legal([x![0]!, x![1]! / 3, x![2]!, x![3]!]),
    ),
  backward: (g) => {
    const [x, table] = g.ins
    const outs = [g.shape(x!), ...(table === undefined ? [] : [g.shape(table)])]
    const [dx, dtable] = g.emit('attention_bwd', g.attrs, [...g.ins.slice(0, 1), g.outputGradient(0), ...g.ins.slice(1)], outs)
    if (g.needsGradient(0)) g.addGradient(0, dx!)
    if (dtable !== undefined && g.needsGradient(1)) g.addGradient(1, dtable)
  },
  samples: ([b, c, h, w]) => [
    {
      attrs: { heads: c, headFirst: 0, windowH: h, windowW: w, grid: 0, shiftH: 0, shiftW: 0, biased: 0, scale: 0.5, across: 0 },
      ins: [[b, 3 * c, h, w]],
    },
  ],
  flops: cost(4),
  workspace: scratch(3, 16),
})

export const attentionBwd = defineOp({
  kind: 'attention_bwd',
  wire: 230,
  half: 'may',
  fields,
  limits,
  anchor: 1,
  dense: true,
  outputsGiven: true,
  what: 'the gradients of x and table; the scores are computed again; dtable: sum',
  ins: [image('x'), image('dy'), { name: 'table', role: 'whole', optional: true, when: 'biased' }],
  outs: [image('dx'), { name: 'dtable', role: 'whole', optional: true, merge: 'sum' }],
  shape: (a, [x, dy], given) =>
    checked(
      [
        ...fits(a, x!),
        () => expectShape('the incoming gradient', dy!, [x![0]!, x![1]! / 3, x![2]!, x![3]!])(),
        expectShape('dx', given[0]!, x!),
        () => (given.length === 1 + a.biased ? undefined : `it has ${given.length} outputs; allowed: ${1 + a.biased}`),
        () => (given[1] ? expectShape('dtable', given[1], tableOf(a))() : undefined),
      ],
      () => legal(...given),
    ),
  flops: cost(10),
  workspace: scratch(8, 32),
})

// ---------------------------------------------------------------- keys and values of another value

const apart = { heads: 'int', headFirst: 'int', scale: 'float' } as const
type ApartAttrs = AttrsOf<typeof apart>
const value = (name: string): OperandDef<typeof apart> => data(name, perImage) as OperandDef<typeof apart>

/** The reason why queries do not attend to keys and values of another shape; undefined if they do. */
const apartFault = (heads: number, q: Sizes, kv: Sizes): string | undefined =>
  q[1]! % heads !== 0 || kv[1] !== 2 * q[1]! || kv[0] !== q[0]
    ? `[${kv.join(',')}] are not the keys and values of ${heads} heads for queries of [${q.join(',')}]; allowed: twice the channels, a multiple of ${2 * heads}`
    : undefined

const apartFits = (a: ApartAttrs, q: Sizes, kv: Sizes) => [
  expectRank('the queries', q, 4),
  expectRank('the keys and values', kv, 4),
  () => apartFault(a.heads, q, kv),
  () => expectRange('channels of a head', q[1]! / a.heads, 1, MOST_HEAD_CHANNELS)(),
]

const pixelsOf = (s: Sizes | undefined): number => (s?.[2] ?? 1) * (s?.[3] ?? 1)
const apartCost =
  (perPair: number) =>
  (_: ApartAttrs, s: CallShapes): number =>
    perPair * (s.ins[0] ?? [1, 1, 1, 1]).reduce((n, d) => n * d, 1) * pixelsOf(s.ins[1])
const apartScratch =
  (queries: number, keys: number, rows: number) =>
  (a: ApartAttrs, s: CallShapes): number => {
    const head = (s.ins[0]?.[1] ?? 1) / a.heads
    return 64 * (pixelsOf(s.ins[0]) * queries * head + pixelsOf(s.ins[1]) * (keys * head + rows)) * 4
  }

export const attend = defineOp({
  kind: 'attend',
  wire: 292,
  half: 'may',
  fields: apart,
  limits: { heads: { least: 1 }, headFirst: yesOrNo },
  anchor: 'out',
  dense: true,
  what: 'y = softmax(scale·q·kᵀ)·v for each head and image, from the pixels of q to all pixels of kv. q `[B,C,H,W]`; kv `[B,2C,h,w]` has k, v as channels `[2][heads][C/heads]`, with headFirst `[heads][2][C/heads]`',
  ins: [value('q'), value('kv')],
  outs: [value('y')],
  shape: (a, [q, kv]) => checked(apartFits(a, q!, kv!), () => legal(q!)),
  backward: (g) => {
    const [q, kv] = g.ins
    const gradients = g.emit('attend_bwd', g.attrs, [q!, kv!, g.outputGradient(0)], [g.shape(q!), g.shape(kv!)])
    for (const i of [0, 1]) if (g.needsGradient(i)) g.addGradient(i, gradients[i]!)
  },
  samples: ([b, c, h, w]) => [
    {
      attrs: { heads: c, headFirst: 0, scale: 0.5 },
      ins: [
        [b, c, h, w],
        [b, 2 * c, h, w],
      ],
    },
  ],
  flops: apartCost(4),
  workspace: apartScratch(1, 2, 16),
})

export const attendBwd = defineOp({
  kind: 'attend_bwd',
  wire: 293,
  half: 'may',
  fields: apart,
  limits: { heads: { least: 1 }, headFirst: yesOrNo },
  anchor: 2,
  dense: true,
  what: 'the gradients of q and kv; the scores are computed again',
  ins: [value('q'), value('kv'), value('dy')],
  outs: [value('dq'), value('dkv')],
  shape: (a, [q, kv, dy]) =>
    checked([...apartFits(a, q!, kv!), () => expectShape('the incoming gradient', dy!, q!)()], () => legal(q!, kv!)),
  flops: apartCost(10),
  workspace: apartScratch(3, 5, 32),
})
