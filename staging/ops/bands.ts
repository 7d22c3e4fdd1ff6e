// Exchanges between ranks that hold bands of one image's rows. In: for each rank the rows that it holds and the rows that it needs. Out: rows of other
// ranks (halos, all rows, or a part), or sums over the ranks that hold a part of a row (overlap-add, the transpose of a halo). native/ops/bands.hpp
// copies the bytes. Worked example, 8 rows, 2 ranks, a 3x3 window: `has` is [0,4) and [4,8), `wants` is [0,5) and [3,8).
import type { Range } from '../core/box'
import { all, type AccessMap, type AnyAttrs, attrsListed, data, defineOp, listedAttrs, type OpDef } from './op'
import { checked, elements, expectRank, legal } from './rules'

/** For each rank a range of rows. */
export type Cut = readonly Range[]

export const sameCut = (a: Cut, b: Cut): boolean => a.every((r, i) => r[0] === b[i]![0] && r[1] === b[i]![1])
/** Returns true if the ranks' rows follow each other without gap or overlap. */
export const isPartition = (c: Cut): boolean => c.every((r, i) => r[0] === (i === 0 ? 0 : c[i - 1]![1]))
const within = (a: Range, b: Range): boolean => b[0] <= a[0] && a[1] <= b[1]
const common = (a: Range, b: Range): number => Math.max(0, Math.min(a[1], b[1]) - Math.max(a[0], b[0]))

const cutIn = (name: 'has' | 'wants', a: AnyAttrs): Cut => {
  const to = attrsListed(`${name}To`, a)
  return attrsListed(`${name}From`, a).map((from, r) => [from, to[r]!])
}
export const hasIn = (a: AnyAttrs): Cut => cutIn('has', a)
export const wantsIn = (a: AnyAttrs): Cut => cutIn('wants', a)

const lists = (name: 'has' | 'wants', c: Cut): AnyAttrs => ({
  ...listedAttrs(
    `${name}From`,
    c.map((r) => r[0]),
  ),
  ...listedAttrs(
    `${name}To`,
    c.map((r) => r[1]),
  ),
})
export const rowAttrs = (band: number, has: Cut, wants: Cut): AnyAttrs => ({
  bands: has.length,
  band,
  ...lists('has', has),
  ...lists('wants', wants),
})

/** Returns the number of rows that a rank sends, summed over the receivers. */
export const rowsSent = (kind: string, a: AnyAttrs): number => {
  const [has, wants] = [hasIn(a), wantsIn(a)]
  const own = has[a['band']!]!
  return wants.reduce((n, w, r) => (r === a['band'] || (kind === 'take_rows' && within(w, has[r]!)) ? n : n + common(own, w)), 0)
}

/** Returns the number of rows of other ranks that a sum reads. */
const rowsAdded = (a: AnyAttrs): number => {
  const own = wantsIn(a)[a['band']!]!
  return hasIn(a).reduce((n, h, r) => (r === a['band'] ? n : n + common(own, h)), 0)
}

const rows = { least: 0, most: 2 ** 31 } as const
const fields = { bands: 'int', band: 'int' } as const
type Attrs = { readonly bands: number; readonly band: number }

const isCut = (c: Cut, bands: number): boolean =>
  c.length === bands && c.every(([from, to]) => Number.isInteger(from) && from < to)

/** Checks the bands: each row that a rank reads is held by one rank, or by the reader itself. */
const cutsFit = (kind: string, a: Attrs, height: number) => (): string | undefined => {
  const [has, wants] = [hasIn(a), wantsIn(a)]
  if (!isCut(has, a.bands) || !isCut(wants, a.bands)) return `the rows of ${a.bands} bands must be given, at least one each`
  if (a.band >= a.bands) return `band is ${a.band}; allowed: 0 to ${a.bands - 1}`
  if ([...has, ...wants].some(([, to]) => to > height)) return `rows exceed the height of ${height}`
  // A sum may have rows that no rank holds: strided windows skipped them, and their sum is zero.
  if (kind === 'sum_rows' || has.every((h, r) => within(wants[r]!, h))) return undefined
  return isPartition(has) && has[has.length - 1]![1] === height
    ? undefined
    : 'rows are read that no rank, or more than one rank, has'
}

const everything: AccessMap = { B: all, C: all, H: all, W: all }

const exchange = (kind: 'take_rows' | 'sum_rows', wire: number, own: Pick<OpDef, 'what' | 'workspace'>): OpDef =>
  defineOp<typeof fields>({
    ...own,
    kind,
    wire,
    half: 'may',
    fields,
    limits: { bands: { least: 2, most: 1024 }, band: { least: 0, most: 1023 } },
    rest: { hasFrom: rows, hasTo: rows, wantsFrom: rows, wantsTo: rows },
    anchor: 'out',
    dense: true,
    ins: [data('x', everything)],
    outs: [data('y')],
    outputsGiven: true,
    // Shape rules use the shape of the whole value; x and y hold some of its rows.
    shape: (a, [x]) => checked([expectRank('the input', x!, 4), () => cutsFit(kind, a, x![2]!)()], () => legal(x!)),
    flops: (_, s) => (kind === 'sum_rows' ? elements(s.outs[0]) : 0),
  })

export const takeRows = exchange('take_rows', 190, {
  what: 'each of the `bands` ranks has rows [hasFrom, hasTo) of a value; y = its rows [wantsFrom, wantsTo), from the ranks that have them; with one rank: its own rows, else zeros',
})

export const sumRows = exchange('sum_rows', 191, {
  what: 'y = the same rows, each summed over the ranks that have it, from zero in their order; with one rank: its own rows, else zeros',
  workspace: (a, s, bytes) => (bytes * rowsAdded(a) * elements(s.ins[0])) / (s.ins[0]?.[2] ?? 1),
})
