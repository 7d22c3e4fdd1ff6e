// Attention whose values are wider than its queries and keys (SHViT, YOLO11). In: queries, keys and values of heads, as views. Out: the same with heads of
// one width: a head for each part of the values, with its own copy of queries and keys. Invariant: the result has the channels of the values, in order.
// Worked example: one head of 16 channels with values of 48 is three heads of 16 with equal scores.
import { gathered, startsOf } from './channels'
import { type Reading, refuse } from './reading'
import type { Axis, View } from './symbols'
import { isRow, joined, sizeOf } from './views'

const headOf = ({ axes }: View): number => sizeOf(axes[axes.length - 1]!)

/** The axes with all heads in one, and its heads one after the other. */
const inRow = (heads: number, width: number, tokens: Axis): readonly Axis[] => [
  [],
  joined([{ dim: 'C', stride: width, size: heads }]),
  tokens,
  joined([{ dim: 'C', stride: 1, size: width }]),
]

/** Queries, keys and values with heads of the width of the queries. */
export const equalHeads = (r: Reading, [q, k, v]: readonly [View, View, View]): readonly [View, View, View] => {
  const [narrow, wide] = [headOf(q), headOf(v)]
  const copies = wide / narrow
  const tokens = q.axes[q.axes.length - 2]!
  const asRow = (of: View, width: number, times: number): View => {
    const [heads, channels] = [of.axes.slice(0, -2).flat(), joined(of.axes[of.axes.length - 1]!)]
    const isWhole =
      isRow(of.axes[of.axes.length - 2], r.shape(of.step)) &&
      JSON.stringify(of.axes[of.axes.length - 2]) === JSON.stringify(tokens)
    const isPlain =
      isWhole && [...heads, ...channels].every((a) => a.dim === 'C') && channels.length < 2 && (channels[0]?.stride ?? 1) === 1
    if (!Number.isInteger(copies) || !isPlain || heads.length > 1 || headOf(of) !== width)
      return refuse(`its values have ${wide} channels, its queries ${narrow}; allowed: a multiple, of whole images`)
    const starts = startsOf(heads, of.from).flatMap((s) => Array<number>(times).fill(s))
    return { ...of, step: gathered(r, of.step, starts, width), from: 0, axes: inRow(sizeOf(heads) * copies, narrow, tokens) }
  }
  return [asRow(q, narrow, copies), asRow(k, narrow, copies), asRow(v, wide, 1)]
}
