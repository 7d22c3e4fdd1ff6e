// Imports products of matrices of computed values, and softmax over any of their axes. In: views of values. Out: views of named values with products
// (`contracted`), or false for other nodes. Invariant: a matrix has the pixels and the channels of a group, of whole images. Worked example: the scores
// of all pairs of 64 pixels are a value with 64 channels (the keys) and 64 pixels (the queries).
import { flatten, pixelShuffle, softmax, turnPixels } from '../../dsl'
import type { Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import { contracted as contractedShape } from '../../staging/ops/contract'
import { channelsOf } from './channels'
import { positive, type Reading, refuse } from './reading'
import type { Axis, Scores, View } from './symbols'
import { isRow, joined, meaningOf, sizeOf, viewOf } from './views'
import { EQUATIONS } from './writeattention'

const areChannels = (axis: Axis): boolean => axis.every((a) => a.dim === 'C')
const channels = (stride: number, size: number): Axis => joined([{ dim: 'C', stride, size }])
const rowOf = ([, , h, w]: Shape): Axis =>
  joined([
    { dim: 'H', stride: 1, size: h },
    { dim: 'W', stride: 1, size: w },
  ])

/** Axes of these sizes, one after the other in the channels, with `inner` channels in each place. */
const groupAxes = (sizes: readonly number[], inner: number): readonly Axis[] =>
  sizes.map((size, i) => channels(inner * elementsOf(sizes.slice(i + 1)), size))

/** A view's value with its channels in the order of these axes, and its factor applied. */
const ordered = (r: Reading, view: View, axes: readonly Axis[]): number => r.channelsOf(view, axes.flat())

// ---------------------------------------------------------------- products

/** A matrix of each group of channels. */
interface Matrix {
  readonly step: number
  /** True if its rows are the channels of a group, and its columns are pixels. */
  readonly hasChannelsFirst: boolean
  readonly inner: number
}

const matrixOf = (r: Reading, given: View): Matrix => {
  const view = withKeysAsChannels(r, given)
  const [rows, columns] = view.axes.slice(-2) as [Axis, Axis]
  const groups = view.axes.slice(0, -2)
  const shape = r.shape(view.step)
  const hasChannelsFirst = isRow(columns, shape) && areChannels(rows)
  if (!groups.every(areChannels) || (!hasChannelsFirst && !(isRow(rows, shape) && areChannels(columns))))
    return refuse(
      'it multiplies values of different arrangements; allowed: queries and keys of the same heads and pixels, and all pixels by channels of a group',
    )
  const inner = hasChannelsFirst ? rows : columns
  return { step: ordered(r, view, [...groups, inner]), hasChannelsFirst, inner: sizeOf(inner) }
}

/** Returns true for products over pixels, and values computed from one: their pixels are channels of a head. */
const hasChannelsAsPixels = (r: Reading, step: number): boolean => {
  const { kind, options, layer, ins } = r.steps[step]!
  if (kind === 'contracted') return (options as { readonly over?: string }).over === 'pixels'
  const [before] = ins
  return before !== undefined && layer?.kind !== 'turnPixels' && layer?.kind !== 'flatten' && hasChannelsAsPixels(r, before)
}

/** Returns the product of two values, each [..., rows, columns], as a view. */
export const matrixProduct = (r: Reading, a: View, b: View): View => {
  const sizes = a.axes.slice(0, -2).map(sizeOf)
  const others = b.axes.slice(0, -2).map(sizeOf)
  const [inner, other] = [sizeOf(a.axes[a.axes.length - 1]!), sizeOf(b.axes[b.axes.length - 2]!)]
  if (sizes.join() !== others.join() || inner !== other)
    return refuse(
      `it multiplies matrices [${a.axes.map(sizeOf).join(',')}] and [${b.axes.map(sizeOf).join(',')}]; allowed: equal numbers of matrices and equal inner sizes`,
    )
  const [left, right] = [matrixOf(r, a), matrixOf(r, b)]
  const groups = elementsOf(sizes)
  const contracted = (over: 'channels' | 'pixels' | 'mixed', first: Matrix, second: Matrix, shape: Shape): number =>
    r.once(`${over} ${groups} by ${second.step}`, first.step, () =>
      r.paired('contracted', [first.step, second.step], { over, ...(groups === 1 ? {} : { groups }) }, shape),
    )
  const [x, y] = [r.shape(left.step), r.shape(right.step)]
  const result = (step: number, channelCount: number, areRows: boolean): View => {
    const [own, pixels] = [channels(1, channelCount), rowOf(r.shape(step))]
    return { step, axes: [...groupAxes(sizes, channelCount), ...(areRows ? [own, pixels] : [pixels, own])], from: 0, factor: 1 }
  }
  if (!left.hasChannelsFirst && right.hasChannelsFirst) {
    // Pixels of an image stay pixels. Two images: the value of more pixels keeps them. Keys become channels, for a softmax over them.
    const [rows, columns] = [x[2] * x[3], y[2] * y[3]]
    const [isX, isY] = [left, right].map(({ step }) => hasChannelsAsPixels(r, step))
    return (isX === isY ? rows < columns : isX)
      ? result(contracted('channels', left, right, [x[0], groups * rows, y[2], y[3]]), rows, true)
      : result(contracted('channels', right, left, [x[0], groups * columns, x[2], x[3]]), columns, false)
  }
  if (!left.hasChannelsFirst) return result(contracted('mixed', right, left, mixedShape(y, x)), right.inner, false)
  if (right.hasChannelsFirst) return result(contracted('mixed', left, right, mixedShape(x, y)), left.inner, true)
  return result(contracted('pixels', right, left, [x[0], groups * right.inner, 1, left.inner]), right.inner, false)
}

/** Returns true for a matrix of all channels of a group, then all pixels. */
const hasRowsOfChannels = (r: Reading, { step, axes }: View): boolean =>
  isRow(axes[axes.length - 1], r.shape(step)) && axes.slice(0, -1).every(areChannels)

/** Returns an equation with the letters a, b, … in order of appearance. */
const lettered = (equation: string): string => {
  const known: string[] = []
  return equation.replace(/[a-zA-Z]/g, (letter) => {
    if (!known.includes(letter)) known.push(letter)
    return String.fromCharCode(97 + known.indexOf(letter))
  })
}

/** Returns the product of two matrices [B, groups, channels, pixels] by an equation, or undefined for other equations. */
export const productByEquation = (r: Reading, equation: string, a: View, b: View): View | undefined => {
  const over = EQUATIONS.indexOf(lettered(equation))
  if (over < 0 || ![a, b].every((v) => v.axes.length === 4 && v.axes[0]!.length === 0 && hasRowsOfChannels(r, v)))
    return undefined
  const ins = [a, b].map((v) => ordered(r, v, v.axes.slice(0, -1))) as [number, number]
  const groups = sizeOf(a.axes[1]!)
  const shape = contractedShape({ over, groups }, r.shape(ins[0]), r.shape(ins[1]))
  if (shape === undefined) return refuse('it multiplies matrices of different sizes; allowed: equal sizes of the summed axes')
  const name = (['channels', 'pixels', 'mixed'] as const)[over]!
  const step = r.paired('contracted', ins, { over: name, ...(groups === 1 ? {} : { groups }) }, shape as unknown as Shape)
  const count = shape[1]! / groups
  return { step, axes: [[], ...groupAxes([groups], count), channels(1, count), rowOf(r.shape(step))], from: 0, factor: 1 }
}

const mixedShape = ([b, c]: Shape, [, , h, w]: Shape): Shape => [b, c, h, w]

/** Computes scores of attention as a value, for nodes that the layer `attention` cannot express. */
export const scoresAsView = (r: Reading, { q, k, factor, bias, mask, soft, turned: areTurned }: Scores): View => {
  if (bias !== undefined || mask !== undefined)
    return refuse('it changes scores that have a bias or a mask; allowed: products, softmax and shares times values')
  const made = matrixProduct(r, { ...q, factor: 1 }, turned({ ...k, factor: 1 }))
  const scaled = { ...made, factor }
  const view = soft ? softView(r, scaled, made.axes.length - 1) : scaled
  return areTurned ? turned(view) : view
}

export const turned = (v: View): View => {
  const [i, j] = v.axes.slice(-2)
  return { ...v, axes: [...v.axes.slice(0, -2), j!, i!] }
}

/** Replaces scores, an input of the node, by a value. */
export const settleScores = (r: Reading, i: number): void => {
  const s = r.symbol(i)
  if (s.tag !== 'scores') return
  const view = scoresAsView(r, s.scores)
  r.bind(r.inputName(i), meaningOf(view, r.shape(view.step)))
}

// ---------------------------------------------------------------- scores of all heads of a pair

const pixelsAlong = (dim: 'H' | 'W', size: number): Axis => joined([{ dim, stride: 1, size }])
const same = (a: Axis, b: Axis): boolean => JSON.stringify(a) === JSON.stringify(b)

/** Returns the value with its channels as images of a given side. */
const cutInto = (r: Reading, step: number, side: number): number =>
  r.once(`images of ${side}`, step, () => r.layer(pixelShuffle(side), r.layer(flatten(), step)))

/** Replaces each axis by its counterpart in a list. Returns undefined if an axis is not in the list. */
const replaced = (axes: readonly Axis[], by: readonly (readonly [from: Axis, to: Axis])[]): readonly Axis[] | undefined => {
  const made = axes.map((axis) => (axis.length === 0 ? axis : by.find(([from]) => same(axis, from))?.[1]))
  return made.every((axis) => axis !== undefined) ? made : undefined
}

/** Scores as an image of keys by queries with the heads as channels; CaiT mixes them by a linear layer. False for other values. */
export const settleHeads = (r: Reading, i: number): boolean => {
  settleScores(r, i)
  const s = r.symbol(i)
  if (s.tag !== 'view' || s.view.from !== 0) return false
  const [, c, h, w] = r.shape(s.view.step)
  const count = h * w
  const heads = c / count
  const axes = replaced(s.view.axes, [
    [rowOf([0, c, h, w]), pixelsAlong('W', count)],
    [channels(1, count), pixelsAlong('H', count)],
    [channels(count, heads), channels(1, heads)],
  ])
  if (axes === undefined || count === 1 || heads < 2 || !Number.isInteger(heads)) return false
  const step = cutInto(r, ordered(r, s.view, [channels(1, c)]), count)
  r.bind(r.inputName(i), meaningOf({ step, axes, from: 0, factor: 1 }, r.shape(step)))
  return true
}

/** The inverse: keys are channels of a head, and queries are pixels. Other views are returned unchanged. */
const withKeysAsChannels = (r: Reading, view: View): View => {
  const [, heads, h, w] = r.shape(view.step)
  const side = Math.sqrt(w)
  const axes = replaced(view.axes, [
    [channels(1, heads), channels(h, heads)],
    [pixelsAlong('H', h), channels(1, h)],
    [
      pixelsAlong('W', w),
      joined([
        { dim: 'H', stride: 1, size: side },
        { dim: 'W', stride: 1, size: side },
      ]),
    ],
  ])
  if (axes === undefined || h !== w || w === 1 || !Number.isInteger(side) || view.from !== 0) return view
  return { ...view, step: cutInto(r, view.step, side), axes }
}

// ---------------------------------------------------------------- softmax

/** Layers that make all elements of an image channels of one pixel, and the inverse. */
const overAll = (r: Reading, view: View): View => {
  const [, , h, w] = r.shape(view.step)
  if (h !== w) return refuse(`it takes a softmax of all elements of an image of ${h}x${w}; allowed: as many rows as columns`)
  const whole = r.layer(softmax(), r.layer(flatten(), ordered(r, view, [channels(1, r.shape(view.step)[1])])))
  return { ...view, step: r.layer(pixelShuffle(h), whole), factor: 1 }
}

/** Applies a softmax over an axis: channels of a group, all pixels, or all elements. */
const softView = (r: Reading, given: View, axis: number): View => {
  const view = withKeysAsChannels(r, given)
  const own = view.axes[axis]!
  const others = view.axes.filter((_, i) => i !== axis)
  const shape = r.shape(view.step)
  const [, c, h, w] = shape
  if (areChannels(own) && sizeOf(own) > 1) {
    const groups = others.map((a) => a.filter((atom) => atom.dim === 'C'))
    if (others.some((a, i) => groups[i]!.length > 0 && groups[i]!.length < a.length))
      return refuse('it takes a softmax beside an axis of channels and pixels; allowed: axes of either')
    const step = ordered(r, view, [...groups, own])
    const [b] = shape
    const count = sizeOf(own)
    const parts = Array.from({ length: r.shape(step)[1] / count }, (_, i) =>
      r.layer(softmax(), channelsOf(r, step, i * count, count)),
    )
    const placed = groupAxes(groups.map(sizeOf), count)
    let place = 0
    const axes = view.axes.map((a, i): Axis => {
      if (i === axis) return channels(1, count)
      const group = placed[place++]!
      return a.some((atom) => atom.dim !== 'C') ? a : group
    })
    return { step: r.joined(parts, () => [b, parts.length * count, h, w]), axes, from: 0, factor: 1 }
  }
  if (isRow(own, shape) && others.every(areChannels)) {
    const order = others.flat()
    const step = [turnPixels(), softmax(), turnPixels()].reduce((at, l) => r.layer(l, at), ordered(r, view, [order]))
    const placed = groupAxes(others.map(sizeOf), 1)
    const row = rowOf(r.shape(step))
    const axes = view.axes.map((_, i) => (i === axis ? row : placed[i - Number(i > axis)]!))
    return { step, axes, from: 0, factor: 1 }
  }
  if (sizeOf(own) === c * h * w && view.from === 0) return overAll(r, view)
  return refuse('it takes a softmax over parts of pixels; allowed: channels of a group, all pixels, or all elements')
}

/** Imports a softmax of a view over any axis. Returns false for other values. Branches (takebranches.ts) are not a last axis. */
export const softmaxOfView = (r: Reading, isOfLast: boolean): boolean => {
  const s = r.symbol(0)
  const view = s.tag === 'view' || s.tag === 'rows' ? viewOf(s, (step) => r.shape(step)) : undefined
  if (view === undefined) return false
  const [axis] = positive([r.int('axis', -1)], view.axes.length) as [number]
  if (isOfLast && axis !== view.axes.length - 1) return false
  const made = softView(r, view, axis)
  r.is(meaningOf(made, r.shape(made.step)))
  return true
}
