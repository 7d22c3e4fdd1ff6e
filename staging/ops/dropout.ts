// Dropout. The mask is drawn from Philox by seed, step, `key` and global element index: the same under any tiling,
// recompute or swap, so the backward draws the same mask and no mask is saved.
import { type CallShapes, data, defineOp } from './op'
import { checked, expectRank, firstOut, legal, perElement, gradientBy } from './rules'

const fields = { p: 'float', key: 'int' } as const
const limits = { p: { least: 0, below: 1 }, key: { least: 0, most: 0xffffffff } } as const

/** Returns an operator that drops elements at random, and its gradient, which draws the same mask. */
export const dropping = (
  kind: string,
  wires: readonly [number, number],
  what: readonly [string, string],
  { flops, reclaimed }: { readonly flops: number; readonly reclaimed: boolean },
) => {
  const common = {
    half: 'may',
    fields,
    limits,
    random: true,
    inPlace: [0],
    shape: (_: unknown, [x]: CallShapes['ins']) => checked([expectRank('the input', x!, 4)], () => legal(x!)),
    flops: perElement(flops, firstOut),
  } as const
  return [
    defineOp({
      ...common,
      kind,
      wire: wires[0],
      reclaimed,
      anchor: 'out',
      what: what[0],
      ins: [data('x')],
      outs: [data('y')],
      backward: gradientBy(`${kind}_bwd`),
      samples: (image) => [0, 0.2, 0.5].map((p) => ({ attrs: { p, key: 7 }, ins: [image] })),
    }),
    defineOp({ ...common, kind: `${kind}_bwd`, wire: wires[1], anchor: 0, what: what[1], ins: [data('dy')], outs: [data('dx')] }),
  ] as const
}

export const [dropout, dropoutBwd] = dropping(
  'dropout',
  [29, 30],
  [
    'y = keep ? x/(1−p) : 0, keep drawn from Philox4x32-10 by (seed, step, key, global element index in B,C,H,W order); in place',
    'the same mask; in place',
  ],
  { flops: 10, reclaimed: true },
)
