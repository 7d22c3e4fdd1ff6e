// Attention whose values are wider than its queries and keys (SHViT, YOLO11, LeViT). In: queries, keys and values of heads, as views. Out: the same with
// heads of one width: queries and keys get channels of zeros, which change no score. Invariant: the result has the channels of the values, in order.
// Worked example: a head of 16 channels with values of 48 has queries and keys of 16 channels and 32 zeros.
import { affine } from '../../dsl'
import { channelsOf, gathered, startsOf } from './channels'
import { type Reading, refuse } from './reading'
import type { Axis, View } from './symbols'
import { joined, sizeOf } from './views'

export const widthOf = ({ axes }: View): number => sizeOf(axes[axes.length - 1]!)

/** The axes with heads of this width, one after the other. */
const withWidth = (axes: readonly Axis[], width: number): readonly Axis[] =>
  axes.map((axis, i) =>
    i === axes.length - 1
      ? joined([{ dim: 'C', stride: 1, size: width }])
      : axis.map((a) => (a.dim === 'C' ? { ...a, stride: width } : a)),
  )

/** The first channel of each head, in order. */
const headStarts = ({ axes, from }: View): readonly number[] => {
  const heads = axes
    .slice(0, -1)
    .flat()
    .filter((a) => a.dim === 'C')
  const channels = joined(axes[axes.length - 1]!)
  if (heads.length > 1 || channels.some((a) => a.dim !== 'C') || channels.length > 1 || (channels[0]?.stride ?? 1) !== 1)
    return refuse('its heads are not channels one after the other')
  return startsOf(heads, from)
}

/** Channels of zeros. */
const zeros = (r: Reading, step: number, count: number): number => {
  const [b, c, h, w] = r.shape(step)
  const most = Math.min(c, count)
  const some = r.once(`${most} zeros`, step, () => r.layer(affine(0), channelsOf(r, step, 0, most)))
  const parts = Array.from({ length: Math.ceil(count / most) }, (_, i) =>
    channelsOf(r, some, 0, Math.min(most, count - i * most)),
  )
  return parts.length === 1 ? some : r.joined(parts, () => [b, count, h, w])
}

/** Queries, keys and values with heads of the width of the values. */
export const equalHeads = (r: Reading, [q, k, v]: readonly [View, View, View]): readonly [View, View, View] => {
  const [narrow, wide] = [widthOf(q), widthOf(v)]
  if (narrow > wide) return refuse(`its values have ${wide} channels, its queries ${narrow}; allowed: at least as many`)
  const widened = (view: View): View => {
    const starts = headStarts(view)
    const [b, , h, w] = r.shape(view.step)
    const none = zeros(r, view.step, wide - narrow)
    const parts = starts.flatMap((from) => [channelsOf(r, view.step, from, narrow), none])
    const step = r.joined(parts, () => [b, starts.length * wide, h, w])
    return { ...view, step, from: 0, axes: withWidth(view.axes, wide) }
  }
  const values = { ...v, step: gathered(r, v.step, headStarts(v), wide), from: 0, axes: withWidth(v.axes, wide) }
  return [widened(q), widened(k), values]
}
