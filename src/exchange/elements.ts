// Views computed element by element: activations, products with repetition, channels beside those of each group. In: views of values. Out: views of new
// values. Invariant: a compact view has all channels of its value, and no factor. Worked example: the first 16 of 17 channels of each of 8 heads are 8
// slices, joined to 128 channels.
import { affine, globalAvgPool, layerScale, reciprocal, turnPixels, unitNorm } from '../../dsl'
import type { Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import { channelAtoms, channelsOf, renumbered } from './channels'
import { axesOf, positive, type Reading, refuse } from './reading'
import type { Atom, Axis, Meaning, View, Weight } from './symbols'
import { isLast, isRow, joined, meaningOf, sizeOf, viewOf } from './views'

const isChannel = ({ dim }: Atom): boolean => dim === 'C'

/** A number as the only channel of a value's pixels. */
const numberOf = (r: Reading, step: number, n: number): number =>
  r.once(`the number ${n}`, step, () => r.layer(affine(0, n), channelsOf(r, step, 0, 1)))

/** Far above the sums of shares of linear attention. */
const MOST_PADDED = 64

/** Places before and behind an axis of channels, filled with a number. */
const paddedChannels = (r: Reading, view: View, axis: number, [low, high]: readonly [number, number], n: number): View => {
  const own = view.axes[axis]!
  if (low + high > MOST_PADDED) return refuse(`it pads ${low + high} channels; allowed: at most ${MOST_PADDED}`)
  if (!own.every(isChannel)) return refuse('it pads pixels of a reshaped value; allowed: channels')
  const groups = channelAtoms(view.axes.filter((_, i) => i !== axis))
  const [count, width] = [elementsOf(groups.map((a) => a.size)), sizeOf(own)]
  const step = r.channelsOf(view, [...groups, ...own])
  const number = numberOf(r, step, n)
  const filled = (places: number): readonly number[] => Array<number>(places).fill(number)
  const parts = Array.from({ length: count }, (_, i) => [
    ...filled(low),
    channelsOf(r, step, i * width, width),
    ...filled(high),
  ]).flat()
  const [b, , h, w] = r.shape(step)
  const all = low + width + high
  const axes = renumbered(view.axes, groups, all).map((a, i): Axis => (i === axis ? [{ dim: 'C', stride: 1, size: all }] : a))
  return { step: r.joined(parts, () => [b, count * all, h, w]), axes, from: 0, factor: 1 }
}

// ---------------------------------------------------------------- products

/** Each channel `times` in a row: a product of ones, one matrix for each channel. */
const repeated = (r: Reading, step: number, times: number, like: number): number => {
  const [b, c, h, w] = r.shape(step)
  const ones = r.once('ones', like, () => r.layer(affine(0, 1), r.layer(globalAvgPool(), like)))
  const shape: Shape = [b, c * times, h, w]
  return r.paired('contracted', [ones, step], { over: 'mixed', ...(c === 1 ? {} : { groups: c }) }, shape)
}

/** The parts of an axis; a place of size 1 has none. */
const fits = (own: Axis, other: Axis): boolean =>
  other.length === 0 ||
  (own.length === other.length &&
    own.every((a, i) => a.dim === other[i]!.dim && a.size === other[i]!.size && (isChannel(a) || a.stride === other[i]!.stride)))

/** Elements of `a` times those of `b`, which is repeated along its axes of size 1. Undefined if it is not so. */
const productWith = (r: Reading, a: View, b: View): View | undefined => {
  const missing = a.axes.length - b.axes.length
  const others: readonly Axis[] = [...Array<Axis>(Math.max(0, missing)).fill([]), ...b.axes]
  if (missing < 0 || !a.axes.every((axis, i) => fits(axis, others[i]!))) return undefined
  const whole = r.compact(a)
  // Atoms of the whole in the order of its channels, each with its counterpart.
  const pairs = whole.axes.flatMap((axis, i) => axis.map((atom, n) => [atom, others[i]![n]] as const))
  const order = pairs.filter(([atom]) => isChannel(atom)).sort(([x], [y]) => y.stride - x.stride)
  const held = order.flatMap(([, other]) => other ?? [])
  const innermost = order.findIndex(([, other]) => other === undefined)
  if (innermost >= 0 && order.slice(innermost).some(([, other]) => other !== undefined)) return undefined
  const factor = r.channelsOf({ ...b, axes: others }, held)
  const arePixels = pairs.some(([atom, other]) => !isChannel(atom) && other === undefined)
  if (arePixels && pairs.some(([atom, other]) => !isChannel(atom) && other !== undefined)) return undefined
  const times = innermost < 0 || held.length === 0 ? 1 : elementsOf(order.slice(innermost).map(([atom]) => atom.size))
  const full = times === 1 ? factor : repeated(r, factor, times, whole.step)
  return { ...whole, step: r.meeting('product', [whole.step, full], r.shape(whole.step)) }
}

const viewAt = (r: Reading, i: number): View | undefined => viewOf(r.settled(i), (step) => r.shape(step))
const put = (r: Reading, view: View): true => {
  r.is(meaningOf(view, r.shape(view.step)))
  return true
}

/** Imports a padding of channels of a view with a number. Returns false for other inputs. */
export const paddedView = (r: Reading, lows: readonly number[], highs: readonly number[], n: number): boolean => {
  const s = r.settled(0)
  if (s.tag !== 'view') return false
  const [axis, ...more] = s.view.axes.flatMap((_, i) => (lows[i] === 0 && highs[i] === 0 ? [] : [i]))
  if (axis === undefined || more.length > 0 || lows.length !== s.view.axes.length || lows[axis]! < 0 || highs[axis]! < 0)
    return refuse('it pads several axes of a reshaped value, or crops it; allowed: channels')
  return put(r, paddedChannels(r, s.view, axis, [lows[axis]!, highs[axis]!], n))
}

/** Returns true if an input is a view that is no plain value. */
const isView = (s: Meaning): boolean => s.tag === 'view'

/** Imports a product of two computed values, at least one of them a view. Returns false for other inputs. */
export const productOfViews = (r: Reading): boolean => {
  const [x, y] = [r.settled(0), r.settled(1)]
  const areOfOneForm = x.tag === 'data' && y.tag === 'data' && x.form === y.form
  if (areOfOneForm || (!isView(x) && !isView(y) && !(x.tag === 'data' && y.tag === 'data' && isLast(x.form) && isLast(y.form))))
    return false
  const [a, b] = [viewAt(r, 0), viewAt(r, 1)]
  const made = a && b && (productWith(r, a, b) ?? productWith(r, b, a))
  return made !== undefined && put(r, made)
}

/** Imports a quotient of two computed values as a product with a reciprocal. Returns false for other inputs. */
export const quotientOfViews = (r: Reading): boolean => {
  const [a, b] = [viewAt(r, 0), viewAt(r, 1)]
  const made = a && b && productWith(r, a, r.elementwise(b, reciprocal()))
  return made !== undefined && put(r, made)
}

// ---------------------------------------------------------------- lengths

/** √Σx² along one axis. Returns false for other axes. */
export const lengths = (r: Reading): boolean => {
  const view = viewAt(r, 0)
  const [axis, ...more] = view ? positive(axesOf(r) ?? [], view.axes.length) : []
  if (!view || axis === undefined || more.length > 0 || r.int('keepdims', 1) !== 1) return false
  r.is({ tag: 'length', view, axis })
  return true
}

/** Gives the result the meaning of the first input, if it has this tag. Returns false for other values. */
const passedOn =
  (tag: Meaning['tag']) =>
  (r: Reading): boolean => {
    const s = r.symbol(0)
    if (s.tag === tag) r.is(s)
    return s.tag === tag
  }

/** Lengths that are at least PyTorch's smallest one, or repeated for a quotient. */
export const sameLengths = passedOn('length')

/** A view divided by its lengths. Returns false for other quotients. */
export const unitQuotient = (r: Reading): boolean => {
  const s = r.symbol(1)
  const view = s.tag === 'length' ? viewAt(r, 0) : undefined
  if (s.tag !== 'length' || view === undefined) return false
  if (JSON.stringify(view) !== JSON.stringify(s.view))
    return refuse('it divides by the lengths of another value; allowed: its own')
  const own = r.compact(view)
  const axis = own.axes[s.axis]!
  if (isRow(axis, r.shape(own.step))) {
    const step = [turnPixels(), unitNorm(), turnPixels()].reduce((at, l) => r.layer(l, at), own.step)
    const row = joined([{ dim: 'W', stride: 1, size: sizeOf(axis) }])
    return put(r, { ...own, step, axes: own.axes.map((a, i) => (i === s.axis ? row : a)) })
  }
  const [atom, ...others] = axis
  if (atom?.dim !== 'C' || others.length > 0 || atom.stride !== 1)
    return refuse('it divides by lengths over parts of pixels; allowed: all pixels, and neighbouring channels')
  const [b, c, h, w] = r.shape(own.step)
  const parts = Array.from({ length: c / atom.size }, (_, i) =>
    r.layer(unitNorm(), channelsOf(r, own.step, i * atom.size, atom.size)),
  )
  const step = r.joined(parts, () => [b, c, h, w])
  r.units.set(step, view)
  return put(r, { ...own, step })
}

// ---------------------------------------------------------------- factors of groups

/** A view times one trained number for each place of its outermost channels: temperatures of heads. Returns false for other weights. */
export const scaledGroups = (r: Reading, at: number, weight: Weight, name: () => string): boolean => {
  const s = r.settled(at)
  if (s.tag !== 'view' || !weight.dims.some((n) => n > 1)) return false
  const { axes } = s.view
  const dims = [...Array<number>(Math.max(0, axes.length - weight.dims.length)).fill(1), ...weight.dims]
  const [axis, ...more] = dims.flatMap((n, i) => (n > 1 ? [i] : []))
  if (dims.length !== axes.length || axis === undefined || more.length > 0 || sizeOf(axes[axis]!) !== dims[axis]) return false
  const own = r.compact(s.view)
  const groups = dims[axis]!
  const [atom, ...others] = own.axes[axis]!
  const isOutermost = atom?.dim === 'C' && others.length === 0 && atom.stride * groups === r.shape(own.step)[1]
  if (!isOutermost) return refuse('it multiplies an inner axis by trained numbers; allowed: one number for each head')
  const called = name()
  r.parameter(called, weight, [groups, 1, 1])
  return put(r, { ...own, step: r.layer(layerScale(called, 1, { groups }), own.step) })
}

/** Each number of a column [N, 1] `times` in a row, as `spillway export` writes factors of groups. Returns false for other weights. */
export const spread = (r: Reading, weight: Weight): boolean => {
  const [count, one] = weight.dims
  const to = r.numbers(1)
  const times = Number(to?.[1])
  if (weight.dims.length !== 2 || count === 1 || one !== 1 || to?.length !== 2 || to[0] !== count || !(times > 1)) return false
  r.is({ tag: 'spread', weight, times })
  return true
}

/** Such numbers in one axis. */
export const sameSpread = passedOn('spread')

/** An image times one trained number for each group of channels. Returns false for other products. */
export const scaledBySpread = (r: Reading, nameOf: (w: Weight) => string): boolean => {
  const [x, s] = [r.symbol(0), r.symbol(1)]
  if (s.tag !== 'spread' || x.tag !== 'data' || x.form !== 'image') return false
  const groups = s.weight.dims[0]!
  if (groups * s.times !== r.shape(x.step)[1])
    return refuse(
      'it multiplies by other numbers than one for each group of channels; allowed: numbers of groups of the same size',
    )
  const name = nameOf(s.weight)
  r.parameter(name, s.weight, [groups, 1, 1])
  r.is({ tag: 'data', step: r.layer(layerScale(name, 1, { groups }), x.step), form: 'image' })
  return true
}
