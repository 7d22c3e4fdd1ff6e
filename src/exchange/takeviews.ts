// Reshapes, transpositions and slices that no layer has, from ONNX nodes. In: the current node. Out: a view of a value, which attention reads; false
// if the node is none of these.
import {
  flatten,
  type PixelShuffle,
  pixelShuffle,
  type PixelUnshuffle,
  pixelUnshuffle,
  sliceChannels,
  turnPixels,
} from '../../dsl'
import type { Shape } from '../../dsl/net'
import { placesOf } from './folded'
import { axesOf, positive, type Reading, refuse } from './reading'
import type { Atom, Axis, Meaning, View } from './symbols'
import { rotaryOfRest, tokensOf } from './takerotary'
import { blocksOfPixels, pixelOfBlocks } from './takerolls'
import { isRow, isTurnedImage, joined, meaningOf, reshaped, sizeOf, viewOf } from './views'

/** The input as a view; tokens without the class token are a value of their own. */
const viewed = (r: Reading): View | undefined =>
  viewOf(r.symbol(0).tag === 'band' ? r.settled(0) : r.symbol(0), (step) => r.shape(step))
const put = (r: Reading, given: View, output = 0): true => {
  const view = squareOf(r, given) ?? given
  const merged = mergedPixels(r, view)
  if (merged !== undefined) {
    r.is({ tag: 'data', ...merged }, output)
    return true
  }
  const blocks = blocksOf(view, r.shape(view.step))
  r.is(
    blocks === undefined ? meaningOf(view, r.shape(view.step)) : { tag: 'data', step: r.layer(blocks, view.step), form: 'image' },
    output,
  )
  return true
}

const same = (a: readonly Axis[], b: readonly Axis[]): boolean => JSON.stringify(a) === JSON.stringify(b.map(joined))

/** The pixel shuffle or unshuffle that a view is: PyTorch writes them as a reshape, a transposition and a reshape. */
const blocksOf = (
  { axes, from, factor }: View,
  [, c, h, w]: Shape,
): PixelShuffle<number> | PixelUnshuffle<number> | undefined => {
  if (axes.length !== 4 || from !== 0 || factor !== 1) return undefined
  const atom = (dim: Atom['dim'], stride: number, size: number): Atom => ({ dim, stride, size })
  const n = h * w === 1 ? 1 : Math.max(1, axes[2]![0]?.stride ?? 1)
  const small = [atom('C', 1, c), atom('H', 1, n), atom('W', 1, n)]
  if (n > 1 && same(axes, [[], small, [atom('H', n, h / n)], [atom('W', n, w / n)]])) return pixelUnshuffle(n)
  const m = axes[2]!.find((a) => a.dim === 'C')?.stride ?? 1
  const rows = [atom('H', 1, h), atom('C', m, m)]
  const columns = [atom('W', 1, w), atom('C', 1, m)]
  // The channels of one pixel may be heads, too: they stay a view, which becomes an image if a layer reads it.
  return m > 1 && h * w > 1 && same(axes, [[], [atom('C', m * m, c / (m * m))], rows, columns]) ? pixelShuffle(m) : undefined
}

/**
 * Blocks of pixels as channels, the columns of a block before its rows or behind them: Swin merges patches so, with channels last, and TResNet, with
 * channels first.
 */
const mergedPixels = (
  r: Reading,
  { step, axes, from, factor }: View,
): { readonly step: number; readonly form: 'image' | 'last' } | undefined => {
  const [, c, h, w] = r.shape(step)
  const n = (axes[2]?.[0] ?? axes[1]?.[0])?.stride ?? 1
  if (axes.length !== 4 || from !== 0 || factor !== 1 || n < 2) return undefined
  const of = (dim: Atom['dim'], stride: number, size: number): Atom => ({ dim, stride, size })
  const [rows, columns, channels] = [of('H', 1, n), of('W', 1, n), of('C', 1, c)]
  const [down, across] = [[of('H', n, h / n)], [of('W', n, w / n)]]
  const formWith = (...blocks: readonly Atom[]): 'image' | 'last' | undefined =>
    same(axes, [[], down, across, blocks]) ? 'last' : same(axes, [[], blocks, down, across]) ? 'image' : undefined
  const form = formWith(rows, columns, channels)
  if (form !== undefined) return { step: blocksOfPixels(r, step, n), form }
  const turned = formWith(columns, rows, channels)
  if (turned === undefined) return undefined
  const pixels = Array.from({ length: n * n }, (_, i) => pixelOfBlocks(r, step, n, [i % n, Math.floor(i / n)]))
  const [b] = r.shape(step)
  return { step: r.joined(pixels, () => [b, n * n * c, h / n, w / n]), form: turned }
}

/** A row of n·n pixels in two axes becomes an image: [B,C,1,n·n] as channels, shuffled to pixels. Tokens become an image so (PiT, DPT). */
const squareOf = (r: Reading, view: View): View | undefined => {
  const [, c, h, w] = r.shape(view.step)
  const n = Math.sqrt(w)
  const parts = view.axes.filter((axis) => axis.some((a) => a.dim === 'W'))
  const isSquare = h === 1 && w > 1 && Number.isInteger(n) && view.from === 0 && view.factor === 1
  const areCut = parts.length === 2 && parts.every((axis) => axis.length === 1 && axis[0]!.size === n)
  if (!isSquare || !areCut || view.axes.some((axis) => axis.some((a) => a.dim === 'C' && a.size !== c))) return undefined
  const step = r.once('square', view.step, () => r.layer(pixelShuffle(n), r.layer(flatten(), view.step)))
  const turned = (a: Atom): Atom => (a.dim === 'W' && a.stride === n ? { dim: 'H', stride: 1, size: n } : a)
  return { ...view, step, axes: view.axes.map((axis) => axis.map(turned)) }
}

const imageOf = (r: Reading, step: number): View => viewOf({ tag: 'data', step, form: 'image' }, () => r.shape(step))!

export const reshapeView = (r: Reading): boolean => {
  const view = viewed(r)
  const wanted = r.numbers(1)
  if (view === undefined || wanted === undefined) return false
  const total = view.axes.reduce((n, a) => n * sizeOf(a), 1)
  const sizes = wanted.map((d, i) => (d === 'batch' ? 1 : d === 0 ? sizeOf(view.axes[i] ?? []) : d))
  const known = sizes.filter((d) => d !== -1).reduce((n, d) => n * d, 1)
  const whole = sizes.map((d) => (d === -1 ? total / known : d))
  const axes = reshaped(view.axes, whole)
  if (axes !== undefined) return put(r, { ...view, axes })
  const image = r.reread(view, whole)
  if (image !== undefined) r.is(image)
  return image !== undefined
}

/** The axes before `axis` as one, and the others as one. */
export const flattenView = (r: Reading, axis: number): boolean => {
  const view = viewed(r)
  if (view === undefined || axis < 1 || axis >= view.axes.length) return false
  return put(r, { ...view, axes: [view.axes.slice(0, axis), view.axes.slice(axis)].map((axes) => joined(axes.flat())) })
}

export const transposeView = (r: Reading): boolean => {
  const view = viewed(r)
  if (view === undefined) return false
  const perm = r.ints('perm') ?? view.axes.map((_, i) => view.axes.length - 1 - i)
  return perm.length === view.axes.length && put(r, { ...view, axes: perm.map((i) => view.axes[i]!) })
}

export const squeezeView = (r: Reading): boolean => {
  const view = viewed(r)
  if (view === undefined) return false
  const at = axesOf(r)
  const dropped = at ? positive(at, view.axes.length) : view.axes.flatMap((a, i) => (sizeOf(a) === 1 ? [i] : []))
  if (dropped.some((i) => sizeOf(view.axes[i] ?? []) !== 1))
    refuse(`it squeezes axes ${dropped.join(', ')}; allowed: axes of size 1`)
  return put(r, { ...view, axes: view.axes.filter((_, i) => !dropped.includes(i)) })
}

export const unsqueezeView = (r: Reading, at: readonly number[]): boolean => {
  const view = viewed(r)
  if (view === undefined) return false
  const axes = [...view.axes]
  for (const a of positive(at, axes.length + at.length)) axes.splice(a, 0, [])
  const meaning = meaningOf({ ...view, axes }, r.shape(view.step))
  // [B,H·W,1,C] is an image: the result of the layer turnPixels.
  const isTurned = meaning.tag === 'data' && meaning.form !== 'last' && isTurnedImage(meaning.form, r.shape(view.step))
  return isTurned ? put(r, imageOf(r, r.layer(turnPixels(), view.step))) : put(r, { ...view, axes })
}

// ---------------------------------------------------------------- parts of the channels

/** Places [from, from + count) of an axis of channels. */
const part = (r: Reading, view: View, axis: number, from: number, count: number, every = 1): View => {
  const [atom, ...others] = view.axes[axis] ?? []
  if (others.length > 0 || (atom ?? { dim: 'H' }).dim !== 'C') {
    if (every !== 1) refuse(`it slices axis ${axis} in steps of ${every}; allowed: channels, and steps of 1`)
    return tokensOf(r, view, axis, from, count)
  }
  const { stride } = atom!
  const axes = view.axes.map(
    (a, i): Axis => (i !== axis ? a : count === 1 ? [] : [{ dim: 'C', stride: stride * every, size: count }]),
  )
  return { ...view, axes, from: view.from + from * stride }
}

const own = (r: Reading): View | undefined => {
  const s = r.symbol(0)
  return s.tag === 'view' ? s.view : undefined
}

export const splitView = (r: Reading): boolean => {
  const view = own(r)
  if (view === undefined) return false
  const [axis] = positive([r.int('axis', 0)], view.axes.length) as [number]
  const all = sizeOf(view.axes[axis] ?? [])
  const sizes = r.has(1) ? r.numbers(1)?.map(Number) : r.ints('split')
  const each = sizes ?? Array.from({ length: r.outputs }, () => all / r.outputs)
  if (each.length !== r.outputs || each.reduce((n, s) => n + s, 0) !== all || !each.every(Number.isInteger))
    refuse(`it splits ${all} places into [${each.join(',')}]`)
  let from = 0
  for (const [i, size] of each.entries()) {
    put(r, part(r, view, axis, from, size), i)
    from += size
  }
  return true
}

export const sliceView = (r: Reading): boolean => {
  const view = own(r)
  if (view === undefined) return false
  const numbers = (i: number, name: string): readonly number[] | undefined =>
    r.has(i) ? r.numbers(i)?.map(Number) : r.ints(name)
  const [starts, ends] = [
    numbers(1, 'starts') ?? refuse('its starts are computed'),
    numbers(2, 'ends') ?? refuse('its ends are computed'),
  ]
  const axes = numbers(3, 'axes') ?? starts.map((_, i) => i)
  const steps = numbers(4, 'steps') ?? starts.map(() => 1)
  let result = view
  for (const [i, a] of axes.entries()) {
    const [axis] = positive([a], view.axes.length) as [number]
    const places = placesOf(starts[i]!, ends[i]!, steps[i] ?? 1, sizeOf(view.axes[axis] ?? []))
    const every = steps[i] ?? 1
    if (every < 1 || places.length === 0) refuse(`it slices axis ${axis} in steps of ${every}; allowed: steps of 1 or more`)
    if (places.length < sizeOf(view.axes[axis] ?? [])) result = part(r, result, axis, places[0]!, places.length, every)
  }
  return put(r, result)
}

/** One place of an axis: of channels, or one pixel of those in a row. */
export const gatherView = (r: Reading): boolean => {
  const s = r.symbol(0)
  const index = r.scalar(1)
  const view = viewed(r)
  if (view === undefined || (s.tag !== 'view' && s.tag !== 'data') || index === undefined) return false
  const [axis] = positive([r.int('axis', 0)], view.axes.length) as [number]
  const at = index < 0 ? index + sizeOf(view.axes[axis] ?? []) : index
  const axes = view.axes.filter((_, i) => i !== axis)
  if (s.tag === 'view') {
    const one = part(r, view, axis, at, 1)
    return put(r, { ...one, axes: one.axes.filter((_, i) => i !== axis) })
  }
  const [, , h, w] = r.shape(s.step)
  // The only token of a value.
  if (axis > 0 && view.axes[axis]?.length === 0) return put(r, { ...view, axes })
  if (sizeOf(view.axes[axis] ?? []) !== h * w || h * w === 1) return false
  const pixel = [turnPixels(), sliceChannels(at, 1), turnPixels()].reduce((step, l) => r.layer(l, step), s.step)
  return put(r, { step: pixel, axes, from: 0, factor: 1 })
}

/** Views one after the other along pixels of a row. Returns false for other values. */
export const joinViews = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const views = symbols.flatMap((s) => (s.tag === 'view' ? [s.view] : []))
  const [first] = views
  if (first === undefined || views.length !== symbols.length) return false
  const [axis] = positive([r.int('axis', 0)], first.axes.length) as [number]
  const own = views.map((v) => r.compact(v))
  const isRowThere = (v: View): boolean => r.shape(v.step)[2] === 1 && isRow(v.axes[axis], r.shape(v.step))
  const others = (v: View): readonly Axis[] => v.axes.filter((_, i) => i !== axis)
  if (!own.every((v) => isRowThere(v) && same(others(v), others(own[0]!)))) return false
  const [a, b, ...more] = own.map((v) => v.step)
  const known = more.length === 0 && b !== undefined ? rotaryOfRest(r, a!, b) : undefined
  const step =
    known ??
    joinedRows(
      r,
      own.map((v) => v.step),
    )
  const row = joined([{ dim: 'W', stride: 1, size: r.shape(step)[3] }])
  return put(r, { ...own[0]!, step, axes: own[0]!.axes.map((a, i) => (i === axis ? row : a)) })
}

const joinedRows = (r: Reading, steps: readonly number[]): number => {
  const turned = steps.map((step) => r.layer(turnPixels(), step))
  const [b, , , c] = r.shape(turned[0]!)
  const count = turned.reduce((n, step) => n + r.shape(step)[1], 0)
  return r.layer(
    turnPixels(),
    r.joined(turned, () => [b, count, 1, c]),
  )
}
