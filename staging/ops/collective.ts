// Exchanges of the ranks of one training, each with a share of the batch. Sums and moments of the shares become those of the whole batch, in the
// order of ranks and by the rules of tiles; divided values have a part at each rank. For planners they are ops with scratch that read a complete
// value and make a complete one. native/ops/collective.hpp has their arithmetic. Worked example of parts, 5 elements, 2 ranks: rank 0 has [0,3), rank
// 1 [3,5) and a zero.
import { right } from 'fp-ts/Either'
import { asInput0, attrsListed, defineOp } from './op'
import { checked, elements, expectShape, legal } from './rules'

const ranks = { least: 1, most: 1024 } as const
/** Elements of one piece of a sum. */
const AT_ONCE = 2 ** 21
/**
 * Up to this number of elements of all ranks, one round suffices: each rank receives all of them and adds them. That is 128 KiB, whose transfer takes
 * about as long as the second round.
 */
const IN_ONE_ROUND = 2 ** 15
export const inOneRound = (elements: number, among: number): boolean => elements * among <= IN_ONE_ROUND
/** Scratch elements of a sum: those of all ranks, or each rank's part of a piece. */
const partsOf = (n: number, among: number): number => among * (inOneRound(n, among) ? n : Math.ceil(Math.min(n, AT_ONCE) / among))

export const allSum = defineOp({
  kind: 'all_sum',
  wire: 180,
  fields: { ranks: 'int' },
  limits: { ranks },
  anchor: 0,
  inPlace: [0],
  what: 'y = Σ of x over the ranks, from zero in their order; with one rank: x; in place of x',
  ins: [asInput0('x')],
  outs: [asInput0('y')],
  shape: (_, [x]) => legal(x!),
  flops: (a, s) => a.ranks * elements(s.outs[0]),
  workspace: (a, s, elementBytes) => elementBytes * partsOf(elements(s.ins[0]), a.ranks),
})

export const allSums = defineOp({
  kind: 'all_sums',
  wire: 182,
  fields: { ranks: 'int', beside: 'int' },
  limits: { ranks, beside: { least: 0, most: 1 } },
  anchor: 0,
  variadic: true,
  paired: true,
  inPlace: [0],
  what: 'each y = Σ of its x over the ranks, as `all_sum`, sent as one message. With beside = 1, it has its own lane, concurrent with calls until one of them is touched; in place of x',
  ins: [{ name: 'x', role: 'whole' }],
  outs: [{ name: 'y', role: 'whole' }],
  shape: (_, ins) => right([...ins]),
  flops: (a, s) => a.ranks * s.ins.reduce((n, x) => n + elements(x), 0),
  // Several values are copied side by side into scratch and sent together; a single one is sent in place.
  workspace: (a, s, elementBytes) => {
    const n = s.ins.reduce((sum, x) => sum + elements(x), 0)
    return elementBytes * (partsOf(n, a.ranks) + (s.ins.length > 1 && !inOneRound(n, a.ranks) ? n : 0))
  },
})

export const allMoments = defineOp({
  kind: 'all_moments',
  wire: 181,
  fields: { ranks: 'int', count: 'int' },
  limits: { ranks, count: { least: 1 } },
  rest: { of: { least: 1 } },
  anchor: 0,
  inPlace: [0],
  what: "y = Chan's merge of x, `[4,C]` or `[B,4G,1,1]`, over the ranks in their order. Each covers `count` elements or, if they differ, its number in `of`. With one rank: x; in place of x",
  ins: [asInput0('x')],
  outs: [asInput0('y')],
  shape: (a, [x]) => {
    const counts = attrsListed('of', a).length
    return checked(
      [
        expectShape('x', x!, x!.length === 4 ? [x![0]!, 4 * Math.floor(x![1]! / 4), 1, 1] : [4, x![1] ?? 1]),
        () =>
          counts === 0 || counts === a.ranks ? undefined : `it has ${counts} counts; allowed: one for each of ${a.ranks} ranks`,
      ],
      () => legal(x!),
    )
  },
  flops: (a, s) => 5 * a.ranks * elements(s.outs[0]),
  workspace: (a, s, elementBytes) => elementBytes * a.ranks * elements(s.ins[0]),
})

/** Returns the elements of each rank's part. If the ranks do not divide the elements, the last parts end in zeros. */
export const partOf = (elements: number, among: number): number => Math.ceil(elements / among)
/** Elements of each rank's parts in one round. Sent and received parts have separate scratch. */
const piecesOf = (own: number, among: number): number => 2 * among * Math.min(own, Math.max(1, Math.floor(AT_ONCE / 2 / among)))

// For the table's shape rules, a part has the shape of the whole value (graph/ranks.ts).
export const sumParts = defineOp({
  kind: 'sum_parts',
  wire: 183,
  fields: { ranks: 'int', beside: 'int' },
  limits: { ranks, beside: { least: 0, most: 1 } },
  anchor: 0,
  variadic: true,
  paired: true,
  what: "each y = the rank's own part of Σ of its x over the ranks, from zero in their order, sent as one message; beside as `all_sums`; with one rank: the first part of x",
  ins: [{ name: 'x', role: 'whole' }],
  outs: [{ name: 'y', role: 'whole' }],
  shape: (_, ins) => right([...ins]),
  flops: (_, s) => s.ins.reduce((n, x) => n + elements(x), 0),
  workspace: (a, s, elementBytes) =>
    elementBytes *
    piecesOf(
      s.ins.reduce((n, x) => n + partOf(elements(x), a.ranks), 0),
      a.ranks,
    ),
})

export const takePart = defineOp({
  kind: 'take_part',
  wire: 184,
  fields: { ranks: 'int' },
  limits: { ranks },
  anchor: 0,
  what: "y = the rank's own part of x, zeros after its last element; with one rank: the first part",
  ins: [{ name: 'x', role: 'whole' }],
  outs: [{ name: 'y', role: 'whole' }],
  shape: (_, [x]) => legal(x!),
  flops: () => 0,
})

export const putPart = defineOp({
  kind: 'put_part',
  wire: 185,
  fields: { ranks: 'int', beside: 'int' },
  limits: { ranks, beside: { least: 0, most: 1 } },
  anchor: 0,
  mutates: [0],
  what: "w ← the parts of all ranks; x is the rank's own part; beside as `all_sums`; with one rank: the first part",
  ins: [
    { name: 'w', role: 'whole' },
    { name: 'x', role: 'whole' },
  ],
  outs: [],
  shape: () => legal(),
  flops: () => 0,
})
