// Convolutions, pools, padding and resizing, from ONNX nodes. In: the current node. Out: its layer. Invariant: padding of all kinds becomes numbers
// of each side; padding that the layer cannot have is refused.
import {
  type Affine,
  affine,
  avgPool,
  bias,
  clamp,
  conv2d,
  convTranspose2d,
  layerScale,
  maxPool,
  pixelLinear,
  type PoolOptions,
  reflectionPad2d,
  relu,
  sliceChannels,
  upsample,
} from '../../dsl'
import { padOf } from '../../dsl/layers/window'
import type { Net } from '../../dsl/net'
import { windowOutput } from '../../staging/ops/rules'
import { positive, type Reading, refuse } from './reading'
import { paddedView } from './elements'
import { meanOfPowers } from './takepowers'
import { imageOfPlaces } from './takerotary'
import { asChannelsOfRow, channelConvolution, channelsOfRow } from './taketokens'
import { type Constants, numbersOf } from './read'
import type { Meaning, Weight } from './symbols'

const pair = (ns: readonly number[] | undefined, usual: number): readonly [number, number] => {
  if (ns === undefined) return [usual, usual]
  return ns.length === 2 ? [ns[0]!, ns[1]!] : refuse(`it has ${ns.length} dimensions; allowed: height and width`)
}
const extent = ([h, w]: readonly [number, number]): number | readonly [number, number] => (h === w ? h : [h, w])

type Sides = readonly [top: number, left: number, bottom: number, right: number]

/** Padding as numbers, from any of its forms. */
const padsOf = (
  r: Reading,
  from: number,
  kernel: readonly [number, number],
  stride: readonly [number, number],
  dilation: readonly [number, number],
): Sides => {
  const auto = r.text('auto_pad', 'NOTSET')
  const [, , h, w] = r.shape(from)
  if (auto === 'SAME_UPPER' || auto === 'SAME_LOWER') {
    const total = ([h, w] as const).map((n, i) => {
      const reach = dilation[i]! * (kernel[i]! - 1) + 1
      return Math.max((Math.ceil(n / stride[i]!) - 1) * stride[i]! + reach - n, 0)
    })
    const less = total.map((n) => Math.floor(n / 2))
    const more = total.map((n, i) => n - less[i]!)
    const [low, high] = auto === 'SAME_UPPER' ? [less, more] : [more, less]
    return [low[0]!, low[1]!, high[0]!, high[1]!]
  }
  if (auto !== 'NOTSET' && auto !== 'VALID' && auto !== '')
    return refuse(`its auto_pad is '${auto}'; allowed: NOTSET, VALID, SAME_UPPER, SAME_LOWER`)
  const pads = auto === 'VALID' ? undefined : r.ints('pads')
  if (pads !== undefined && pads.length !== 4) return refuse(`it has ${pads.length} paddings; allowed: 4, for two dimensions`)
  return (pads ?? [0, 0, 0, 0]) as unknown as Sides
}

const sidesPad = ([top, left, bottom, right]: Sides) =>
  top === bottom && left === right ? extent([top, left]) : { top, left, bottom, right }

/** Layers that give no negative numbers. */
const ABOVE = ['hardSigmoid', 'relu', 'relu6', 'sigmoid', 'softmax', 'softplus']
/** Layers that give no negative numbers for such. */
const KEEPING = ['avgPool', 'channelShuffle', 'dropout', 'flatten', 'globalAvgPool', 'maxPool', 'sliceChannels']

/** Returns true for a value without negative numbers: before a max pool, zeros around it are as good as −∞. */
const isAbove = (r: Reading, step: number): boolean => {
  const { kind, layer, ins } = r.steps[step]!
  if (kind === 'layer' && ABOVE.includes(layer!.kind)) return true
  if (layer?.kind === 'affine') {
    const { factor, shift } = layer as Affine
    return factor >= 0 && shift >= 0 && isAbove(r, ins[0]!)
  }
  const isKept = kind === 'layer' ? KEEPING.includes(layer!.kind) : kind !== 'input' && kind !== 'attended'
  return isKept && ins.every((i) => isAbove(r, i))
}

/** The numbers of a constant that is no weight of a module. */
const constantsOf = (s: Meaning): Constants | undefined => {
  const numbers = s.tag === 'weight' && !s.weight.tensor.name.includes('.') ? numbersOf(s.weight.tensor) : undefined
  return numbers && s.tag === 'weight' ? { dims: s.weight.dims, numbers: Float64Array.from(numbers), real: true } : undefined
}

/** The image, or one with zeros around it, and the zeros. `isMost`: before a max pool, which has −∞ around it. */
const paddedInput = (r: Reading, isMost = false): { readonly from: number; readonly around: Sides } => {
  const s = r.symbol(0)
  const constants = s.tag === 'array' ? s.array : constantsOf(s)
  if (constants !== undefined) return { from: imageOfPlaces(r, constants), around: [0, 0, 0, 0] }
  if (s.tag !== 'padded') return { from: r.image(0), around: [0, 0, 0, 0] }
  if (s.isLeast && !isMost) refuse('its input is padded with −∞; allowed: zeros')
  return { from: s.step, around: s.sides }
}

/** Returns true for zeros around values that may be negative: they count as values of a max pool's windows. */
const haveZeros = (r: Reading): boolean => {
  const s = r.symbol(0)
  return s.tag === 'padded' && !s.isLeast && !isAbove(r, s.step)
}

/**
 * The maximum of windows that reach zeros, from the maximum m of their pixels: m + e·relu(−m). The factor e is 1 for windows that reach beyond the
 * image and 0 for others. It follows from the mean of a window over ones with zeros around them. Worked example: a window of 2x2 with one row
 * outside has the mean 1/2, and min(max(7.5 − 8/2, 0), 1) = 1. The mean 1 gives 0, also if it is rounded.
 */
const withZeros = (r: Reading, from: number, most: number, kernel: readonly [number, number], options: PoolOptions): number => {
  const size = kernel[0] * kernel[1]
  const chain = (step: number, ...layers: readonly Net[]): number => layers.reduce((at, l) => r.layer(l, at), step)
  const share = avgPool(extent(kernel), { ...options, ceil: false, countIncludePad: true })
  const edge = chain(from, sliceChannels(0, 1), affine(0, 1), share, affine(-2 * size, 2 * size - 0.5), clamp(0, 1))
  if (r.shape(edge)[2] !== r.shape(most)[2] || r.shape(edge)[3] !== r.shape(most)[3])
    refuse('it is padded with zeros, and its last windows are rounded up; allowed: whole windows')
  const rise = r.meeting('product', [chain(most, affine(-1), relu()), edge], r.shape(most))
  return r.meeting('sum', [most, rise], r.shape(most))
}

const plus = (a: Sides, b: Sides): Sides => a.map((n, i) => n + b[i]!) as unknown as Sides

const kernelOf = (weight: Weight): readonly [number, number] => {
  if (weight.dims.length !== 4)
    return refuse(`its weight is [${weight.dims.join(',')}]; it must have four dimensions, for images`)
  return [weight.dims[2]!, weight.dims[3]!]
}

const biased = (r: Reading, name: string, i: number, channels: number): boolean => {
  if (!r.has(i)) return false
  r.parameter(`${name}.bias`, r.weight(i), [channels])
  return true
}

export const convolution = (r: Reading): void => {
  const standard = r.symbol(1)
  const isStandard = standard.tag === 'standard' && standard.part === 'whole'
  const weight = isStandard ? standard.weight : r.weight(1)
  if (channelConvolution(r, weight)) return
  const kernel = kernelOf(weight)
  const [stride, dilation] = [pair(r.ints('strides'), 1), pair(r.ints('dilations'), 1)]
  const { from, around } = paddedInput(r)
  const pads = plus(padsOf(r, from, kernel, stride, dilation), around)
  const groups = r.int('group', 1)
  const out = weight.dims[0]!
  const name = r.named(weight, r.has(2) ? r.weight(2) : undefined)
  const isPixel = weight.tensor.dims.length === 2
  r.parameter(`${name}.weight`, weight, isPixel ? weight.dims.slice(0, 2) : weight.dims)
  const { gain, factor } = isStandard ? standard : {}
  const options = { bias: gain ? false : biased(r, name, 2, out) }
  const plain = [...kernel, ...stride, ...dilation, groups].every((n) => n === 1) && pads.every((n) => n === 0)
  const usual = padOf('same', extent(kernel), extent(dilation))
  const isUsual = [usual.top, usual.left, usual.bottom, usual.right].every((n, i) => n === pads[i])
  const given = {
    ...options,
    stride: extent(stride),
    pad: isUsual ? ('same' as const) : sidesPad(pads),
    dilation: extent(dilation),
    groups,
    ...(isStandard ? { standardize: standard.eps } : {}),
  }
  const layer: Net = isPixel && plain ? pixelLinear(name, out, options) : conv2d(name, out, extent(kernel), given)
  if (weight.dims[1]! * groups !== r.shape(from)[1])
    refuse(`its weight is for ${weight.dims[1]! * groups} channels, its input has ${r.shape(from)[1]}`)
  const step = r.layer(layer, from)
  r.is({ tag: 'data', step: gain ? gained(r, name, step, gain, factor) : step, form: 'image' })
}

/** A convolution of a standardised weight with a gain: the factor and the bias of each channel are layers behind it. */
const gained = (r: Reading, name: string, step: number, gain: Weight, factor = 1): number => {
  const channels = r.shape(step)[1]
  r.parameter(`${name}.gain`, gain, [channels, 1, 1])
  const whole = r.layer(layerScale(`${name}.gain`), step)
  const scaled = factor === 1 ? whole : r.layer(affine(factor), whole)
  return biased(r, name, 2, channels) ? r.layer(bias(`${name}.bias`), scaled) : scaled
}

export const transposedConvolution = (r: Reading): void => {
  const weight = r.weight(1)
  const kernel = kernelOf(weight)
  const [stride, dilation] = [pair(r.ints('strides'), 1), pair(r.ints('dilations'), 1)]
  const from = r.image(0)
  if (r.ints('output_shape') !== undefined || !['NOTSET', ''].includes(r.text('auto_pad', 'NOTSET')))
    refuse('its padding is given by output_shape; allowed: pads')
  const pads = padsOf(r, from, kernel, stride, dilation)
  if (pads[0] !== pads[2] || pads[1] !== pads[3]) refuse(`its pads are ${pads.join(', ')}; allowed: equal pads on opposite sides`)
  const groups = r.int('group', 1)
  const out = weight.dims[1]! * groups
  const name = r.named(weight, r.has(2) ? r.weight(2) : undefined)
  r.parameter(`${name}.weight`, weight, weight.dims)
  if (weight.dims[0] !== r.shape(from)[1])
    refuse(`its weight is for ${weight.dims[0]} channels, its input has ${r.shape(from)[1]}`)
  const layer = convTranspose2d(name, out, extent(kernel), {
    stride: extent(stride),
    pad: extent([pads[0], pads[1]]),
    outputPad: extent(pair(r.ints('output_padding'), 0)),
    dilation: extent(dilation),
    groups,
    bias: biased(r, name, 2, out),
  })
  r.is({ tag: 'data', step: r.layer(layer, from), form: 'image' })
}

/**
 * The sides and the rounding of windows: up to the same windows, sides are equal and rounding up stands for the rest of a last window, as in
 * PyTorch. `counts` is true if all of the padding counts in a mean.
 */
const windowsOf = (
  r: Reading,
  from: number,
  kernel: readonly [number, number],
  stride: readonly [number, number],
  pads: Sides,
  counts: boolean,
): { readonly pads: Sides; readonly ceil: boolean } => {
  const requested = r.int('ceil_mode', 0) === 1
  const sizes = r.shape(from).slice(2)
  const number = (i: number, padHigh: number, ceil: boolean): number =>
    windowOutput(sizes[i]!, { kernel: kernel[i]!, stride: stride[i]!, padLow: pads[i]!, padHigh, dilation: 1, ceil })
  const wanted = [0, 1].map((i) => {
    const space = (sizes[i]! + pads[i]! + pads[i + 2]! - kernel[i]!) / stride[i]!
    return (requested ? Math.ceil(space) : Math.floor(space)) + 1
  })
  const isSame = (highs: readonly number[], ceil: boolean): boolean =>
    [0, 1].every((i) => number(i, highs[i]!, ceil) === wanted[i])
  const lows = pads.slice(0, 2)
  const isEven = lows.every((n, i) => n === pads[i + 2])
  if (isEven && isSame(lows, requested)) return { pads, ceil: requested }
  if (!counts && isSame(lows, true) && lows.every((n, i) => pads[i + 2]! >= n))
    return { pads: [lows[0]!, lows[1]!, lows[0]!, lows[1]!], ceil: true }
  return isSame(pads.slice(2), requested)
    ? { pads, ceil: requested }
    : refuse(`its last windows begin behind the image with pads ${pads.join(', ')}; allowed: windows that begin in it`)
}

/** An average of the whole image as a part of a generalised mean. */
const isOfPowers = (r: Reading, kernel: readonly [number, number]): boolean => {
  const s = r.symbol(0)
  const isWhole =
    s.tag === 'power' && kernel.join() === r.shape(s.step).slice(2).join() && (r.ints('pads') ?? []).every((n) => n === 0)
  return s.tag === 'power' && meanOfPowers(r, isWhole)
}

/** An average of neighbouring tokens of [B,C,N], without padding: NextViT's keys. */
const averageOfRow = (r: Reading): boolean => {
  const [kernel = 0, ...more] = r.ints('kernel_shape') ?? []
  if (more.length > 0) return false
  const row =
    channelsOfRow(r, r.symbol(0)) ?? refuse('it averages along one dimension; allowed: pixels in a row behind the channels')
  const [stride = kernel] = r.ints('strides') ?? []
  if ((r.ints('pads') ?? []).some((n) => n !== 0) || r.int('ceil_mode', 0) !== 0)
    refuse('it averages a row with padding or with parts of windows; allowed: whole windows')
  r.is(asChannelsOfRow(r, r.layer(avgPool([1, kernel], { stride: [1, stride] }), row)))
  return true
}

export const pooling = (r: Reading, kind: 'max' | 'avg'): void => {
  if (kind === 'avg' && averageOfRow(r)) return
  const kernel = pair(r.ints('kernel_shape'), 0)
  if (kind === 'avg' && isOfPowers(r, kernel)) return
  const stride = pair(r.ints('strides'), 1)
  if (pair(r.ints('dilations'), 1).some((n) => n !== 1)) refuse('its dilations exceed 1; allowed: 1')
  if (r.int('storage_order', 0) !== 0) refuse('its storage_order is 1; allowed: 0')
  const { from, around } = paddedInput(r, kind === 'max')
  const own = padsOf(r, from, kernel, stride, [1, 1])
  const isAround = around.some((n) => n > 0)
  // Without padding both values mean the same. Spillway's own files state it; others have the default of the layer.
  const counted = r.int('count_include_pad', -1)
  const isPadded = own.some((n) => n > 0) && !isAround
  const counts = kind === 'avg' && (counted === 1 || isAround)
  const isEven = around[0] === around[2] && around[1] === around[3]
  const { pads, ceil } = windowsOf(r, from, kernel, stride, plus(own, around), counts && !(isAround && isEven))
  // The rest of a last window, which spillway's own files have as padding, does not count.
  if (kind === 'avg' && isAround && (own[0] + own[1] > 0 || (own[2] + own[3] > 0 && !ceil)))
    refuse('it is padded twice; use one padding')
  const options = { stride: extent(stride), pad: sidesPad(pads), ceil }
  const layer =
    kind === 'max'
      ? maxPool(extent(kernel), options)
      : avgPool(extent(kernel), { ...options, countIncludePad: counts || (counted !== 0 && !isPadded) })
  const pooled = r.layer(layer, from)
  const isZeroed = kind === 'max' && haveZeros(r)
  if (isZeroed && own.some((n) => n > 0)) refuse('it is padded twice; use one padding')
  r.is({ tag: 'data', step: isZeroed ? withZeros(r, from, pooled, kernel, options) : pooled, form: 'image' })
}

export const padding = (r: Reading): unknown => {
  const pads = r.ints('pads') ?? r.numbers(1)?.map(Number) ?? refuse('its pads are computed')
  if (pads.every((n) => n === 0)) return r.is(r.symbol(0))
  const rank = pads.length / 2
  const isPlain = r.text('mode', 'constant') === 'constant' && !r.has(3)
  if (isPlain && paddedView(r, pads.slice(0, rank), pads.slice(rank), r.has(2) ? (r.scalar(2) ?? 0) : r.float('value', 0)))
    return undefined
  const from = r.image(0)
  const axes = r.has(3) ? positive((r.numbers(3) ?? []).map(Number), 4) : [0, 1, 2, 3]
  const all = Array<number>(8).fill(0)
  axes.forEach((a, i) => {
    all[a] = pads[i] ?? 0
    all[a + 4] = pads[i + axes.length] ?? 0
  })
  const [b, c, top, left, b2, c2, bottom, right] = all as [number, number, number, number, number, number, number, number]
  if ([b, c, b2, c2].some((n) => n !== 0)) refuse('it pads more than height and width')
  const mode = r.text('mode', 'constant')
  const sides: Sides = [top, left, bottom, right]
  if (mode === 'reflect') return r.makes(reflectionPad2d(sidesPad(sides)))
  const value = r.has(2) ? r.scalar(2) : r.float('value', 0)
  const isLeast = value === -Infinity || (value !== undefined && value <= -3.4e38)
  if (mode !== 'constant' || (value !== 0 && !isLeast))
    refuse(
      `its mode is '${mode}'${mode === 'constant' ? ` of ${value}` : ''}; allowed: reflect, zeros before a convolution or an average, and −∞ before a max pool`,
    )
  if (sides.some((n) => n < 0)) refuse('it crops rows or columns; allowed: zeros around the image')
  r.is({ tag: 'padded', step: from, sides, isLeast })
}

export const resize = (r: Reading): unknown => {
  const from = r.image(0)
  const [, c, h, w] = r.shape(from)
  const axes = positive(r.ints('axes') ?? [0, 1, 2, 3], 4)
  const along = (list: readonly (number | 'batch')[], a: number, usual: number): number => {
    const n = list[axes.indexOf(a)]
    return axes.includes(a) && typeof n === 'number' ? n : usual
  }
  const sizes = r.numbers(3)
  const scales = r.numbers(2)
  const usesSizes = sizes !== undefined && sizes.length > 0
  if (!usesSizes && !scales?.length) return refuse('its sizes are computed in an unsupported way; allowed: constants')
  const [outC, outH, outW] = usesSizes
    ? [along(sizes, 1, c), along(sizes, 2, h), along(sizes, 3, w)]
    : [c * along(scales!, 1, 1), Math.floor(h * along(scales!, 2, 1)), Math.floor(w * along(scales!, 3, 1))]
  if (outC !== c) refuse('it resizes more than height and width')
  const [mode, place] = [r.text('mode', 'nearest'), r.text('coordinate_transformation_mode', 'half_pixel')]
  const whole = outH % h === 0 && outW % w === 0
  const nearest = r.text('nearest_mode', 'round_prefer_floor')
  const isNearest =
    mode === 'nearest' &&
    ((place === 'asymmetric' && nearest === 'floor') || (whole && place === 'half_pixel' && nearest.startsWith('round')))
  const isAreas = mode === 'linear' && (place === 'half_pixel' || place === 'pytorch_half_pixel')
  const isCorners = mode === 'linear' && place === 'align_corners'
  if (!isNearest && !isAreas && !isCorners)
    refuse(
      `it resizes by '${mode}', ${place}${mode === 'nearest' ? `, ${nearest}` : ''}; allowed: nearest (asymmetric, floor), linear (half_pixel, align_corners)`,
    )
  const to = whole ? { scale: extent([outH / h, outW / w]) } : { size: extent([outH, outW]) }
  r.makes(isNearest ? upsample(to) : upsample({ ...to, mode: 'bilinear', alignCorners: isCorners }))
}
