// Reshaped and transposed activations. In: the axes of an ONNX value, each a list of parts of channels, rows and columns. Out: the axes after a
// Reshape or a slice; the plain form, if they are one. Invariant: a view computes nothing; the batch is an axis without parts, so a file must be
// written with one image. Worked example: [1,144,28,28] as [144·14,2,14,2] has the rows as 14 parts with stride 2 and 2 parts with stride 1.
import type { Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import type { Atom, Axis, Form, Meaning, View } from './symbols'

const whole = (dim: Atom['dim'], size: number): Axis => joined([{ dim, stride: 1, size }])

/** Neighbours that are one range become one part. */
export const joined = (atoms: Axis): Axis => {
  const out: Atom[] = []
  for (const a of atoms) {
    const last = out[out.length - 1]
    if (a.size === 1) continue
    if (last && last.dim === a.dim && last.stride === a.stride * a.size) out[out.length - 1] = { ...a, size: last.size * a.size }
    else out.push(a)
  }
  return out
}

export const sizeOf = (axis: Axis): number => elementsOf(axis.map((a) => a.size))

/** The same elements in axes of other sizes; undefined if a size divides no part. */
export const reshaped = (axes: readonly Axis[], sizes: readonly number[]): readonly Axis[] | undefined => {
  const left = [...joined(axes.flat())]
  const out: Axis[] = []
  for (const size of sizes) {
    const axis: Atom[] = []
    for (let need = size; need > 1; ) {
      const a = left.shift()
      if (a === undefined) return undefined
      const inner = a.size / need
      if (need % a.size === 0) axis.push(a)
      else if (Number.isInteger(inner)) {
        axis.push({ ...a, stride: a.stride * inner, size: need })
        left.unshift({ ...a, size: inner })
      } else return undefined
      need = need % a.size === 0 ? need / a.size : 1
    }
    out.push(joined(axis))
  }
  return left.length === 0 ? out : undefined
}

// ---------------------------------------------------------------- plain forms

const BEFORE = 'last:'
export const isLast = (form: Form): boolean => form === 'last' || form.startsWith(BEFORE)

const imageAxes = ([, c, h, w]: Shape): readonly Axis[] => [[], whole('C', c), whole('H', h), whole('W', w)]

/** The axes of a value in a plain form. */
export const axesOfForm = (form: Form, shape: Shape): readonly Axis[] => {
  const [batch, c, h, w] = imageAxes(shape) as [Axis, Axis, Axis, Axis]
  if (form === 'image') return [batch, c, h, w]
  if (form === 'flat') return [batch, c]
  if (form === 'last') return [batch, h, w, c]
  return [...(JSON.parse(form.slice(BEFORE.length)) as readonly Axis[]), c]
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

/** All pixels, rows before columns. */
export const isRow = (axis: Axis | undefined, shape: Shape): boolean =>
  axis !== undefined && same(axis, joined([...whole('H', shape[2]), ...whole('W', shape[3])]))

/** Returns true for [B,H·W,1,C], read as an image. */
export const isTurnedImage = (form: Form, shape: Shape): boolean => {
  const axes = isLast(form) ? axesOfForm(form, shape) : []
  return axes.length === 4 && isRow(axes[1], shape) && sizeOf(axes[2]!) === 1
}

/** The plain form of a view: all channels in one axis of their own; undefined for others. */
const formOf = ({ axes, from, factor }: View, shape: Shape): Form | undefined => {
  if (from !== 0 || factor !== 1) return undefined
  const plain = (['image', 'flat', 'last'] as const).find(
    (form) => (form !== 'flat' || shape[2] * shape[3] === 1) && same(axesOfForm(form, shape), axes),
  )
  if (plain) return plain
  const pixels = axes.slice(0, -1)
  return same(axes[axes.length - 1], whole('C', shape[1])) && pixels.flat().every((a) => a.dim !== 'C')
    ? `last:${JSON.stringify(pixels)}`
    : undefined
}

/** The meaning of a view: a value in a plain form, or the view. */
export const meaningOf = (view: View, shape: Shape): Meaning => {
  const form = formOf(view, shape)
  return form === undefined ? { tag: 'view', view } : { tag: 'data', step: view.step, form }
}

/** The channels of a view that is an image of a part of the channels, or of all in another order; undefined for others. */
export const channelsIn = ({ axes, factor }: View, shape: Shape): Axis | undefined => {
  const [batch, channels, ...pixels] = axes
  const isImage = batch?.length === 0 && factor === 1 && same(pixels, imageAxes(shape).slice(2))
  return isImage && channels!.length > 0 && channels!.every((a) => a.dim === 'C') ? channels : undefined
}

/** The axes of [B,C,H·W] after the layer `turnPixels`, whose channels are the pixels; undefined for other views. */
export const turnedAxes = ({ axes, from, factor }: View, shape: Shape): readonly Axis[] | undefined => {
  const [, c, h, w] = shape
  const [row, ...others] = [...axes].reverse().filter((a) => a.length > 0)
  const isTurned = from === 0 && factor === 1 && row === axes[axes.length - 1] && isRow(row, shape)
  if (!isTurned || h * w === 1 || others.length !== 1 || !same(others[0], whole('C', c))) return undefined
  return axes.map((a) => (a === row ? whole('C', h * w) : a === others[0] ? whole('W', c) : a))
}

/** A value as a view; undefined for numbers, weights and the like. */
export const viewOf = (s: Meaning, shapeOf: (step: number) => Shape): View | undefined => {
  if (s.tag === 'view') return s.view
  if (s.tag === 'data') return { step: s.step, axes: axesOfForm(s.form, shapeOf(s.step)), from: 0, factor: 1 }
  if ((s.tag !== 'rows' || s.eps !== undefined) && s.tag !== 'grouped') return undefined
  const shape = shapeOf(s.step)
  const [, c, h, w] = shape
  const sizes = s.tag === 'rows' ? [1, s.groups, (c / s.groups) * h * w] : [1, s.groups, c / s.groups, h, w]
  const axes = reshaped(imageAxes(shape), sizes)!
  const [batch, groups, inner, ...rest] = axes as [Axis, Axis, Axis, ...Axis[]]
  return { step: s.step, axes: s.tag === 'grouped' && s.shuffled ? [batch, inner, groups, ...rest] : axes, from: 0, factor: 1 }
}

/**
 * All elements in order as another image of these sizes: true if the value has its channels last. Undefined for other orders, and for images that are
 * not square. Worked example: 64 pixels of 512 channels, read as [512,8,8].
 */
export const rereadAs = (
  { axes, from, factor }: View,
  shape: Shape,
  sizes: readonly number[],
): { readonly isLast: boolean } | undefined => {
  const [batch, channels, rows, columns] = sizes
  const [, c, h, w] = imageAxes(shape) as [Axis, Axis, Axis, Axis]
  const order = joined(axes.flat())
  const isLast = same(order, joined([...h, ...w, ...c]))
  const isImage =
    sizes.length === 4 && batch === 1 && rows === columns && rows! > 1 && channels! * rows! ** 2 === elementsOf(shape.slice(1))
  return isImage && from === 0 && factor === 1 && (isLast || same(order, joined([...c, ...h, ...w]))) ? { isLast } : undefined
}
