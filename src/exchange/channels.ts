// Channels of a value by their numbers. In: a value, and runs of neighbouring channels. Out: the step that has them, in order. Invariant: channels of a
// concatenation or of a product are taken before it. Worked example: two heads of [q k v], 4 channels each, have the keys in channels 4 to 7 and 16 to 19.
import { sliceChannels } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import type { Net, Shape } from '../../dsl/net'
import type { Atom, Axis } from './symbols'
import type { Step } from './ways'

/** The steps of a net that is being read (reading.ts). */
interface Steps {
  readonly steps: readonly Step[]
  shape(step: number): Shape
  once(name: string, from: number, make: () => number): number
  layer(layer: Net, from: number): number
  meeting(kind: 'product', ins: readonly number[], shape: Shape): number
  joined(ins: readonly number[], shapeOf: () => Shape): number
}

/** Channels [from, from + count) of a value. */
export const channelsOf = (r: Steps, step: number, from: number, count: number): number => {
  const { kind, ins, shape } = r.steps[step]!
  if (from === 0 && count === shape[1]) return step
  if (kind === 'product' && ins.every((i) => r.shape(i)[1] === shape[1])) {
    const parts = ins.map((i) => channelsOf(r, i, from, count))
    const [a, b] = parts.map((i) => r.shape(i)) as [typeof shape, typeof shape]
    return r.once(`product ${parts.join()}`, step, () => r.meeting('product', parts, elementsOf(a) >= elementsOf(b) ? a : b))
  }
  let start = 0
  for (const i of kind === 'join' ? ins : []) {
    const own = r.shape(i)[1]
    if (from >= start && from + count <= start + own) return channelsOf(r, i, from - start, count)
    start += own
  }
  return r.once(`channels ${from} to ${from + count}`, step, () => r.layer(sliceChannels(from, count), step))
}

/** The channels at which the parts of an axis begin. */
export const startsOf = (axis: Axis, from: number): readonly number[] =>
  axis.reduce<readonly number[]>(
    (all, a) => all.flatMap((s) => Array.from({ length: a.size }, (_, i) => s + i * a.stride)),
    [from],
  )

/** Runs of channels of one length as one value; neighbours are one run. */
export const gathered = (r: Steps, step: number, starts: readonly number[], length: number): number => {
  const runs: { from: number; count: number }[] = []
  for (const from of starts) {
    const last = runs[runs.length - 1]
    if (last !== undefined && last.from + last.count === from) last.count += length
    else runs.push({ from, count: length })
  }
  const parts = runs.map((run) => channelsOf(r, step, run.from, run.count))
  const [b, , h, w] = r.shape(step)
  return parts.length === 1 ? parts[0]! : r.joined(parts, () => [b, starts.length * length, h, w])
}

/** The value with the channels of an axis, in order. */
export const channelsOfAxis = (r: Steps, step: number, axis: Axis, from: number): number => {
  const last = axis[axis.length - 1]
  const isRun = last?.stride === 1
  return gathered(r, step, startsOf(isRun ? axis.slice(0, -1) : axis, from), isRun ? last.size : 1)
}

// ---------------------------------------------------------------- channels of views

/** The parts of axes that are channels, the outer ones first. */
export const channelAtoms = (axes: readonly Axis[]): readonly Atom[] =>
  axes
    .flat()
    .filter((a) => a.dim === 'C')
    .sort((a, b) => b.stride - a.stride)

/** Axes whose channels lie one inside the other, in this order, with `inner` channels in each place. */
export const renumbered = (axes: readonly Axis[], order: readonly Atom[], inner = 1): readonly Axis[] => {
  const strides = new Map(order.map((a, i) => [a, inner * elementsOf(order.slice(i + 1).map((b) => b.size))]))
  return axes.map((axis) => axis.map((a) => ({ ...a, stride: strides.get(a) ?? a.stride })))
}
