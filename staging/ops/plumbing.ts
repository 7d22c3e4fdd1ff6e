// The calls that tiling needs between the operators of a graph: zeroing, moving and merging boxes and accumulators. They have no graph op; plans name
// them by kind.
import { defineOp, type OperandDef, pointwise } from './op'
import { checked, elements, expectRange, expectShape, firstOut, legal, perElement } from './rules'

const anything = (name: string): OperandDef => ({ name, role: 'any', access: () => pointwise })

export const fill = defineOp({
  kind: 'fill',
  wire: 60,
  half: 'may',
  fields: { value: 'float' },
  anchor: 'out',
  plumbing: true,
  outputsGiven: true,
  what: 'y = value everywhere',
  ins: [],
  outs: [anything('y')],
  shape: (_, __, given) => legal(given[0]!),
  flops: perElement(0, firstOut),
})

export const copy = defineOp({
  kind: 'copy',
  wire: 61,
  fields: {},
  anchor: 'out',
  plumbing: true,
  what: 'any strides on either side',
  ins: [{ ...anything('x'), dtype: 'any' }],
  outs: [{ ...anything('y'), dtype: 'any' }],
  shape: (_, [x]) => legal(x!),
  flops: perElement(0, firstOut),
})

export const mergeSum = defineOp({
  kind: 'merge_sum',
  wire: 62,
  half: 'may',
  fields: {},
  anchor: 0,
  plumbing: true,
  what: 'y += x (y is read and written)',
  ins: [anything('x')],
  outs: [{ ...anything('y'), updates: true }],
  shape: (_, [x]) => legal(x!),
  flops: perElement(1, firstOut),
})

export const mergeMoments = defineOp({
  kind: 'merge_moments',
  wire: 63,
  fields: { countX: 'int', countY: 'int' },
  anchor: 0,
  plumbing: true,
  what: "y ← Chan's merge of y (countY elements so far; 0: y ← x) and x, both `[4,C]`, or `[B,4G,1,1]` of the same images",
  ins: [anything('x')],
  outs: [{ ...anything('y'), updates: true }],
  shape: (a, [x]) =>
    checked(
      [
        expectShape('x', x!, x!.length === 4 ? [x![0]!, 4 * Math.floor(x![1]! / 4), 1, 1] : [4, x![1]!]),
        expectRange('countX', a.countX, 1),
        expectRange('countY', a.countY, 0),
      ],
      () => legal(x!),
    ),
  flops: (_, s) => 5 * elements(s.outs[0]),
})
