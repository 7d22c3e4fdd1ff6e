// Branches along an axis of their own, from ONNX nodes: [B,branches,C,H,W]. Split attention (ResNeSt, SK nets) multiplies them by a softmax over the
// branches and adds them. In: the current node. Out: the branches side by side along the channels, or their sum; false if the node is none of these.
// Worked example: the shares of two branches are sigmoid(a − b) and sigmoid(b − a). Invariant: branches that are used one by one are never joined.
import { affine, sigmoid, softplus } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { channelsOfAxis } from './channels'
import { axesOf, positive, type Reading, refuse } from './reading'
import type { Axis, Meaning, View } from './symbols'
import { joined, meaningOf, reshaped, sizeOf, viewOf } from './views'

const viewAt = (r: Reading, i: number): View | undefined => {
  const s = r.symbol(i)
  return s.tag === 'data' ? undefined : viewOf(s, (step) => r.shape(step))
}

const imageAxes = (r: Reading, step: number): readonly Axis[] =>
  viewOf({ tag: 'data', step, form: 'image' }, (s) => r.shape(s))!.axes

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)

/** Returns true for [1,…,C,H,W] with the channels in several axes, in order. */
const isSplitImage = (r: Reading, { step, axes, from, factor }: View): boolean => {
  const [, , h, w] = r.shape(step)
  const sizes = axes.slice(-2).map(sizeOf)
  const inOrder = same(joined(axes.flat()), joined(imageAxes(r, step).flat()))
  return from === 0 && factor === 1 && axes.length > 4 && sizes[0] === h && sizes[1] === w && inOrder
}

/** A value with its channels split into axes of these sizes. */
const asSplit = (r: Reading, step: number, sizes: readonly number[]): Meaning =>
  meaningOf({ step, axes: reshaped(imageAxes(r, step), sizes)!, from: 0, factor: 1 }, r.shape(step))

/** The image of a view without its branches: all channels in one axis or several, then rows and columns. */
const imageOf = (r: Reading, { step, axes, from }: View): number => {
  const [, , h, w] = r.shape(step)
  const [rows, columns] = axes.slice(-2)
  const fits = sizeOf(rows ?? []) === h && sizeOf(columns ?? []) === w
  const atoms = joined(axes.slice(0, fits && axes.length > 3 ? -2 : undefined).flat())
  const rest = axes.length > 3 && fits ? joined([...rows!, ...columns!]) : []
  const pixels = joined(imageAxes(r, step).slice(2).flat())
  if (atoms.some((a) => a.dim !== 'C') || (!same(rest, pixels) && h * w > 1))
    return refuse('its branches are not images; allowed: branches of [B,C,H,W], one after the other')
  return channelsOfAxis(r, step, atoms, from)
}

/** Each branch along an axis of channels, as an image. */
const branchesOf = (r: Reading, view: View, axis: number): readonly number[] => {
  const [atom, ...others] = view.axes[axis] ?? []
  if (atom?.dim !== 'C' || others.length > 0 || view.factor !== 1) return []
  const axes = view.axes.filter((_, i) => i !== axis)
  return Array.from({ length: atom.size }, (_, i) => imageOf(r, { ...view, axes, from: view.from + i * atom.stride }))
}

/** Images under a new axis before their channels: PyTorch's stack. */
export const stackedBranches = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const views = symbols.map((s) => (s.tag === 'view' ? s.view : undefined))
  const [first] = views
  if (first === undefined || symbols.length < 2) return false
  const sizes = first.axes.map(sizeOf)
  const [axis] = positive([r.int('axis', 0)], sizes.length) as [number]
  const isStack = views.every(
    (v) =>
      v !== undefined && isSplitImage(r, v) && same(v.axes.map(sizeOf), sizes) && sizes.slice(0, axis + 1).every((n) => n === 1),
  )
  if (!isStack) return false
  const steps = views.map((v) => v!.step)
  const [b, c, h, w] = r.shape(first.step)
  const step = r.joined(steps, () => [b, steps.length * c, h, w])
  r.alsoJoined(steps, step)
  r.is(
    asSplit(
      r,
      step,
      sizes.map((n, i) => (i === axis ? steps.length : n)),
    ),
  )
  return true
}

/** The product of branches and a factor for each of them. */
export const branchProduct = (r: Reading): boolean => {
  const [a, b] = [viewAt(r, 0), viewAt(r, 1)]
  if (a === undefined || b === undefined || ![a, b].every((v) => isSplitImage(r, v))) return false
  const [x, y] = [a, b].map((v) => v.axes.slice(0, -2).map(sizeOf))
  if (!same(x, y)) return false
  const [larger, smaller] = elementsOf(r.shape(a.step)) >= elementsOf(r.shape(b.step)) ? [a, b] : [b, a]
  const step = r.meeting('product', [larger.step, smaller.step], r.shape(larger.step))
  r.is(asSplit(r, step, larger.axes.map(sizeOf)))
  return true
}

/** The sum of branches. */
export const branchSum = (r: Reading): boolean => {
  const view = viewAt(r, 0)
  const axes = view === undefined ? [] : positive(axesOf(r) ?? [], view.axes.length)
  if (view === undefined || axes.length !== 1) return false
  const terms = branchesOf(r, view, axes[0]!)
  if (terms.length < 2) return false
  const step = terms.reduce((sum, i) => r.meeting('sum', [sum, i], r.shape(sum)))
  const rest = view.axes.filter((_, i) => i !== axes[0]).map(sizeOf)
  const sizes = r.int('keepdims', 1) === 1 ? view.axes.map((axis, i) => (i === axes[0] ? 1 : sizeOf(axis))) : rest
  r.is(asSplit(r, step, sizes))
  return true
}

/** log(e^a + e^b) = b + softplus(a − b). */
const logSum = (r: Reading, a: number, b: number): number => r.meeting('sum', [b, r.layer(softplus(), less(r, a, b))], r.shape(b))
const less = (r: Reading, a: number, b: number): number => r.meeting('sum', [a, r.layer(affine(-1), b)], r.shape(a))

/** A softmax over branches: the share of each is the sigmoid of its distance to the logarithm of the sum of the others. */
export const branchShares = (r: Reading): boolean => {
  const view = viewAt(r, 0)
  if (view === undefined) return false
  const [axis] = positive([r.int('axis', -1)], view.axes.length) as [number]
  const scores = branchesOf(r, view, axis)
  if (scores.length < 2) return false
  const shares = scores.map((s, i) => {
    const others = scores.filter((_, j) => j !== i)
    return r.layer(
      sigmoid(),
      less(
        r,
        s,
        others.reduce((sum, o) => logSum(r, o, sum)),
      ),
    )
  })
  const [b, c, h, w] = r.shape(shares[0]!)
  const step = r.joined(shares, () => [b, shares.length * c, h, w])
  r.alsoJoined(shares, step)
  // The branches come first among the channels of the result.
  const order = [axis, ...view.axes.map((_, i) => i).filter((i) => i !== axis)]
  const sized = reshaped(
    imageAxes(r, step),
    order.map((i) => sizeOf(view.axes[i]!)),
  )!
  r.is(meaningOf({ step, axes: view.axes.map((_, i) => sized[order.indexOf(i)]!), from: 0, factor: 1 }, r.shape(step)))
  return true
}
