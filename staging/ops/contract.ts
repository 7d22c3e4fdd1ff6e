// Products of matrices of two values, for each image and group of channels: a value is a matrix of channels and pixels. `over` names the axes that are
// summed: 0 the channels of both, 1 the pixels of both, 2 the pixels of the first and the channels of the second. All scores of attention, and linear
// attention, are such products. It tiles along B only. Worked example, over 0, one group, a and b of 3 channels: y has a channel for each pixel of a.
import { all, type AccessMap, type AttrsOf, type CallShapes, data, defineOp, type OperandDef, same, type Sizes } from './op'
import { checked, expectRank, expectShape, legal } from './rules'

const fields = { over: 'int', groups: 'int' } as const
const limits = { over: { least: 0, most: 2 }, groups: { least: 1 } } as const
type Attrs = AttrsOf<typeof fields>

const perImage: AccessMap = { B: same, C: all, H: all, W: all }
const value = (name: string): OperandDef<typeof fields> => data(name, perImage) as OperandDef<typeof fields>

const pixelsOf = (s: Sizes): number => s[2]! * s[3]!

/** Returns the shape of a product, or undefined if the two values do not fit. */
export const contracted = ({ over, groups }: Attrs, a: Sizes, b: Sizes): Sizes | undefined => {
  const inner = [a, b].map((s) => s[1]! / groups)
  if (a[0] !== b[0] || !inner.every(Number.isInteger)) return undefined
  if (over === 0) return a[1] === b[1] ? [a[0]!, groups * pixelsOf(a), b[2]!, b[3]!] : undefined
  if (over === 1) return pixelsOf(a) === pixelsOf(b) ? [a[0]!, a[1]!, 1, inner[1]!] : undefined
  return b[1] === groups * pixelsOf(a) ? [a[0]!, a[1]!, b[2]!, b[3]!] : undefined
}

const fits = (a: Attrs, x: Sizes, z: Sizes) => [
  expectRank('the first value', x, 4),
  expectRank('the second value', z, 4),
  () =>
    contracted(a, x, z) === undefined
      ? `[${x.join(',')}] and [${z.join(',')}] do not fit in ${a.groups} groups; allowed: equal sizes of the summed axes`
      : undefined,
]

/** Returns the length of the summed axis of a group. */
const summed = ({ over, groups }: Attrs, [a = [1, 1, 1, 1]]: CallShapes['ins']): number =>
  over === 0 ? a[1]! / groups : pixelsOf(a)
const cost =
  (products: number) =>
  (a: Attrs, s: CallShapes): number =>
    (2 * products * s.ins.slice(0, 2).reduce((n, x) => n * (x ?? []).reduce((m, d) => m * d, 1), 1)) /
    (summed(a, s.ins) * a.groups * (s.ins[0]?.[0] ?? 1))
/** Scratch of the CPU kernel: for each thread, one side of a product and blocks of rows of the others. In the gradient, dy may be that side. */
const scratch = ({ groups }: Attrs, { ins }: CallShapes): number => {
  const sides = ins.flatMap((v) => (v === undefined ? [] : [[v[1]! / groups, pixelsOf(v)] as const]))
  return 64 * 4 * (Math.max(...sides.map(([c, p]) => c * p)) + 2 * 64 * Math.max(...sides.flat()))
}

export const contract = defineOp({
  kind: 'contract',
  wire: 296,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  dense: true,
  what: 'a product of matrices for each image and group of channels. a `[B,G·D,h,w]`, b `[B,G·E,H,W]`, p a pixel of a, n one of b. Over 0 (D = E): y `[B,G·h·w,H,W]`: y[p, n] = Σ a[d, p]·b[d, n]. Over 1 (h·w = H·W): y `[B,G·D,1,E]`: y[d, e] = Σ a[d, p]·b[e, p]. Over 2 (E = h·w): y `[B,G·D,H,W]`: y[d, n] = Σ a[d, p]·b[p, n]',
  ins: [value('a'), value('b')],
  outs: [value('y')],
  shape: (attrs, [a, b]) => checked(fits(attrs, a!, b!), () => legal(contracted(attrs, a!, b!)!)),
  backward: (g) => {
    const [a, b] = g.ins
    const gradients = g.emit('contract_bwd', g.attrs, [a!, b!, g.outputGradient(0)], [g.shape(a!), g.shape(b!)])
    for (const i of [0, 1]) if (g.needsGradient(i)) g.addGradient(i, gradients[i]!)
  },
  samples: ([b, c, h, w]) => [
    {
      attrs: { over: 0, groups: c },
      ins: [
        [b, c, h, w],
        [b, c, w, h],
      ],
    },
    {
      attrs: { over: 1, groups: 1 },
      ins: [
        [b, c, h, w],
        [b, 2 * c, w, h],
      ],
    },
    {
      attrs: { over: 2, groups: 1 },
      ins: [
        [b, c, h, w],
        [b, h * w, 2, w],
      ],
    },
  ],
  flops: cost(1),
  workspace: scratch,
})

export const contractBwd = defineOp({
  kind: 'contract_bwd',
  wire: 297,
  half: 'may',
  fields,
  limits,
  anchor: 2,
  dense: true,
  what: 'the gradients of a and b: products of dy with the other one',
  ins: [value('a'), value('b'), value('dy')],
  outs: [value('da'), value('db')],
  shape: (attrs, [a, b, dy]) =>
    checked([...fits(attrs, a!, b!), () => expectShape('the incoming gradient', dy!, contracted(attrs, a!, b!)!)()], () =>
      legal(a!, b!),
    ),
  flops: cost(2),
  workspace: scratch,
})
