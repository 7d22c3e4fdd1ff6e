// Tokens, from ONNX nodes: a trained token before the pixels, position embeddings, and convolutions along the channels. In: the current node. Out: the
// layers; false if the node is none of these. Worked example: a class token before 14x14 pixels of 192 channels gives [B,192,1,197].
import { affine, conv2d, globalAvgPool, position, sliceChannels, turnPixels, upsample } from '../../dsl'
import { type PositionShape, positionSizes } from '../../dsl/layers/shift'
import type { Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import { isOfModule, positive, type Reading, refuse } from './reading'
import type { Axis, Form, Meaning, Weight } from './symbols'
import { axesOfForm, isLast, isRow, isTurnedImage, meaningOf, sizeOf, viewOf } from './views'

interface Value {
  readonly step: number
  readonly form: Form
}

/** All pixels of a value as one row, if its form has them in one axis. */
const asRow = (r: Reading, { step, form }: Value): Value => {
  const shape = r.shape(step)
  const axes = isLast(form) ? axesOfForm(form, shape) : []
  const [row, ...others] = axes.slice(0, -1).filter((a) => a.length > 0)
  if (shape[2] === 1 || others.length > 0 || !isRow(row, shape)) return { step, form }
  const turned = r.once('row', step, () => r.layer(turnPixels(), r.layer(turnPixels(), step)))
  const whole: Axis = [{ dim: 'W', stride: 1, size: shape[2] * shape[3] }]
  const s = meaningOf({ step: turned, axes: axes.map((a) => (a === row ? whole : a)), from: 0, factor: 1 }, r.shape(turned))
  return s.tag === 'data' ? s : { step, form }
}

/** Channels before a row of pixels, [B,C,N], as a value of one row; undefined for other arrangements. */
export const channelsOfRow = (r: Reading, s: Meaning): number | undefined => {
  const view = viewOf(s, (step) => r.shape(step))
  const [, c = [], row = []] = view?.axes ?? []
  if (view?.axes.length !== 3 || !isRow(row, r.shape(view.step)) || c.some((a) => a.dim !== 'C') || view.factor !== 1)
    return undefined
  const step = r.channelsOf(view, c)
  return r.shape(step)[2] === 1 ? step : r.once('row', step, () => r.layer(turnPixels(), r.layer(turnPixels(), step)))
}
/** A value of one row as channels before pixels. */
export const asChannelsOfRow = (r: Reading, step: number): Meaning => {
  const [, c, , w] = r.shape(step)
  return meaningOf(
    { step, axes: [[], [{ dim: 'C', stride: 1, size: c }], [{ dim: 'W', stride: 1, size: w }]], from: 0, factor: 1 },
    r.shape(step),
  )
}

/** A row [B,H·W,1,C] beside images is an image, too: `spillway export` writes turned pixels so. */
const asImage = (r: Reading, { step, form }: Value): Value =>
  form !== 'image' && isTurnedImage(form, r.shape(step))
    ? { step: r.once('turned', step, () => r.layer(turnPixels(), step)), form: 'image' }
    : { step, form }

/** Values of one form: pixels that are rows and columns in one value and one row in another become one row in all. */
export const aligned = (r: Reading, given: readonly Value[]): readonly Value[] => {
  const values = given.some((v) => v.form === 'image') ? given.map((v) => asImage(r, v)) : given
  return values.every((v) => v.form === values[0]!.form && r.shape(v.step)[2] === r.shape(values[0]!.step)[2])
    ? values
    : values.map((v) => asRow(r, v))
}

/** A parameter's name: its own in PyTorch, or that of its node. */
export const parameterName = (r: Reading, { tensor }: Weight): string =>
  /^[\w.-]+$/.test(tensor.name) && !tensor.name.startsWith('onnx') ? r.unused(tensor.name) : r.named()

/** Trained tokens [1,N,C], as a value of N channels and C columns. */
const tokensOf = (r: Reading, pixels: number, weight: Weight): number => {
  const made = r.tokenSteps.get(weight.tensor.name) ?? madeTokens(r, pixels, weight)
  r.tokenSteps.set(weight.tensor.name, made)
  return made
}

/** A single token that was joined to pixels before, as one pixel of an image: CaiT adds to it. Undefined for other weights. */
export const tokenOf = (r: Reading, { tensor }: Weight, [, c, h, w]: Shape): number | undefined => {
  const made = tensor.name === '' ? undefined : r.tokenSteps.get(tensor.name)
  const [, count, , channels] = made === undefined ? [0, 0, 0, 0] : r.shape(made)
  return made !== undefined && count === 1 && channels === c && h * w === 1
    ? r.once('turned', made, () => r.layer(turnPixels(), made))
    : undefined
}

const madeTokens = (r: Reading, pixels: number, weight: Weight): number => {
  const [batch, , , channels] = r.shape(pixels)
  const count = elementsOf(weight.dims) / channels
  const name = parameterName(r, weight)
  const one = [sliceChannels(0, 1), affine(0)].reduce((step, l) => r.layer(l, step), pixels)
  r.parameter(name, weight, [1, count, channels])
  // One token has the shape [1,1,C] in both orders.
  if (count === 1) return r.layer(position(name), one)
  const blank = r.joined(Array<number>(count).fill(one), () => [batch, count, 1, channels])
  return [turnPixels(), position(name, { shape: 'tokens' }), turnPixels()].reduce((step, l) => r.layer(l, step), blank)
}

/** Trained tokens [1,N,C] that a layer reads, as a value of their own beside the latest one of C channels: the query of a pooling by attention. */
export const tokensRead = (r: Reading, i: number): void => {
  const s = r.symbol(i)
  if (s.tag !== 'weight' || s.weight.dims.length !== 3 || s.weight.dims[0] !== 1) return
  if (s.weight.tensor.isFixed || (!r.file.isSized && !isOfModule(s.weight))) return
  const [, count, c] = s.weight.dims as [number, number, number]
  const beside = r.steps.map(({ kind, shape }) => kind !== 'input' && shape[1] === c).lastIndexOf(true)
  if (beside < 0) return
  const zeros = [globalAvgPool(), affine(0), ...(count === 1 ? [] : [upsample({ size: [1, count] })])]
  const blank = zeros.reduce((step, l) => r.layer(l, step), beside)
  const name = parameterName(r, s.weight)
  r.parameter(name, s.weight, [1, count, c])
  const step = r.layer(position(name, { shape: 'tokens' }), blank)
  const row: Axis = count === 1 ? [] : [{ dim: 'W', stride: 1, size: count }]
  const channels: Axis = [{ dim: 'C', stride: 1, size: c }]
  r.bind(r.inputName(i), meaningOf({ step, axes: [[], row, channels], from: 0, factor: 1 }, r.shape(step)))
}

/** The tokens of a value with its channels last, as channels: pixels of a row, or a single one; undefined for other axes. */
const tokensAlong = (r: Reading, { step, form }: Value, axis: number): number | undefined => {
  const [, , h, w] = r.shape(step)
  const axes = axesOfForm(form, r.shape(step))
  const isRowThere = isRow(axes[axis], r.shape(step)) || (h * w === 1 && axes[axis]?.length === 0)
  return isLast(form) && axis > 0 && axis < axes.length - 1 && isRowThere
    ? r.once('tokens', step, () => r.layer(turnPixels(), step))
    : undefined
}

/** Tokens one after the other: pixels of values, and weights [1,N,C], as class tokens and registers. */
export const joinTokens = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const data = symbols.filter((s) => s.tag === 'data')
  const [first] = data
  if (first === undefined || data.some((s) => !isLast(s.form)) || symbols.some((s) => s.tag !== 'data' && s.tag !== 'weight'))
    return false
  const axes = axesOfForm(first.form, r.shape(first.step))
  const [axis] = positive([r.int('axis', 0)], axes.length) as [number]
  if (data.length === symbols.length && axis === axes.length - 1) return false
  const [, c] = r.shape(first.step)
  const isLegal = (s: Meaning): boolean =>
    s.tag === 'weight'
      ? s.weight.dims.length === axes.length && s.weight.dims.every((n, i) => i === axis || n === (i === axes.length - 1 ? c : 1))
      : s.tag === 'data' && r.shape(s.step)[1] === c && tokensAlong(r, s, axis) !== undefined
  if (!symbols.every(isLegal))
    return refuse(
      'it concatenates along other axes than the channels; allowed: pixels in a row, and tokens of all channels beside them',
    )
  const pixels = tokensAlong(r, first, axis)!
  const parts = symbols.map((s) =>
    s.tag === 'weight' ? tokensOf(r, pixels, s.weight) : tokensAlong(r, s as Value & Meaning, axis)!,
  )
  const count = parts.reduce((n, part) => n + r.shape(part)[1], 0)
  const [batch] = r.shape(pixels)
  const step = r.layer(
    turnPixels(),
    r.joined(parts, () => [batch, count, 1, c]),
  )
  const row: Axis = [{ dim: 'W', stride: 1, size: count }]
  const channels = axes.length - 1
  r.is(
    meaningOf(
      { step, axes: axes.map((old, i) => (i === axis ? row : i === channels ? old : [])), from: 0, factor: 1 },
      r.shape(step),
    ),
  )
  return true
}

/** One token [B,1,C], repeated to a row of tokens: the readout of DPT. */
export const repeatedToken = (r: Reading, step: number, form: Form): boolean => {
  const axes = isLast(form) ? axesOfForm(form, r.shape(step)) : []
  const sizes = r.numbers(1)?.map(Number) ?? []
  const [at, ...more] = axes.flatMap((a, i) => (sizes[i] === sizeOf(a) || sizes[i] === 1 ? [] : [i]))
  if (sizes.length !== axes.length || at === undefined || more.length > 0 || sizeOf(axes[at]!) > 1) return false
  const count = sizes[at]!
  const row = r.layer(upsample({ size: [1, count] }), step)
  const whole: Axis = [{ dim: 'W', stride: 1, size: count }]
  r.is(meaningOf({ step: row, axes: axes.map((a, i) => (i === at ? whole : a)), from: 0, factor: 1 }, r.shape(row)))
  return true
}

/**
 * The shape of a weight with a number for each element of an image, as PyTorch stores it: its channels are first or last. A matrix [H·W,C] that the
 * file transposes has them last. Undefined if the weight has another order.
 */
const shapeOf = (weight: Weight, form: Form, [, c, h, w]: Shape): PositionShape | undefined => {
  const axes = axesOfForm(form, [1, c, h, w])
  const pixels = isLast(form) ? axes.slice(0, -1) : axes.slice(2)
  const ordered = pixels.flat().map((a) => `${a.dim}${a.stride}`)
  const sizes = axes.slice(1).map(sizeOf)
  const fits = elementsOf(weight.dims) === c * h * w && weight.dims.slice(-sizes.length).join() === sizes.join()
  if (!fits || !['', 'H1', 'W1', 'H1,W1'].includes(ordered.join()) || (weight.transposed && isLast(form))) return undefined
  const { dims } = weight.tensor
  if (isLast(form) || weight.transposed) return dims.length === 4 && dims[1] === h && dims[2] === w ? 'rows' : 'tokens'
  return dims.length === 4 ? 'batch' : dims.length === 2 ? 'matrix' : 'image'
}

/** A position embedding: a trained value for each element. */
export const positions = (r: Reading, data: number, weight: Weight): boolean => {
  const { step, form } = r.data(data)
  const [, c, h, w] = r.shape(step)
  const shape = form === 'flat' ? undefined : shapeOf(weight, form, r.shape(step))
  if (shape === undefined) return false
  const name = parameterName(r, weight)
  r.parameter(name, { ...weight, transposed: false }, positionSizes(shape, c, h, w))
  r.is({ tag: 'data', step: r.layer(position(name, { shape }), step), form })
  return true
}

/** ECA's convolution along the channels of [B,1,C]: between two turns of channels and pixels. */
export const channelConvolution = (r: Reading, weight: Weight): boolean => {
  const s = r.symbol(0)
  if (weight.dims.length !== 3 || s.tag !== 'data' || !isLast(s.form)) return false
  const [, c, h, w] = r.shape(s.step)
  const [out, , kernel] = weight.dims as [number, number, number]
  const [low = 0, high = 0] = r.ints('pads') ?? []
  const plain = [...(r.ints('strides') ?? []), ...(r.ints('dilations') ?? [])].every((n) => n === 1)
  if (h * w !== 1 || out !== 1 || weight.dims[1] !== 1 || low + high !== kernel - 1 || !plain)
    return refuse('it convolves along channels; allowed: one filter over the channels of one pixel, which keeps their number')
  const bias = r.has(2) ? r.weight(2) : undefined
  const name = r.named(weight, bias)
  r.parameter(`${name}.weight`, weight, [1, 1, 1, kernel])
  if (bias) r.parameter(`${name}.bias`, bias, [1])
  const pad = low === high ? ([0, low] as const) : { top: 0, left: low, bottom: 0, right: high }
  const turned = [turnPixels(), conv2d(name, 1, [1, kernel], { pad, bias: bias !== undefined }), turnPixels()]
  const step = turned.reduce((at, l) => r.layer(l, at), s.step)
  if (r.shape(step)[1] !== c) refuse('it changes the number of channels; allowed: padding that keeps it')
  r.is({ tag: 'data', step, form: s.form })
  return true
}
