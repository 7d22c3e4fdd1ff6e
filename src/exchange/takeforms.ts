// Reshaping, transposing, joining, and computed sizes, from ONNX nodes. In: the current node. Out: the same value in another form, or sizes.
// Invariant: a node with another result than a layer's is refused.
import * as E from 'fp-ts/Either'
import { affine, channelShuffle, flatten, globalAvgPool, groupNorm } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { TENSOR_BYTES } from '../files/safetensors'
import { numbersOf } from './read'
import { axesOf, FileFault, LOOKED_AT, positive, type Reading, refuse } from './reading'
import type { Form, Meaning, Weight } from './symbols'
import { gatheredTable, reshapedScores, turnedScores } from './takeattention'
import { averagedWindows, selectedMeans, turnedWindows } from './takemeans'
import { branchSum, stackedBranches } from './takebranches'
import { joinBands } from './takerolls'
import { aligned, joinTokens } from './taketokens'
import { summed, turned } from './takeproducts'
import { meanNorm } from './takeresponse'
import { sameSpread } from './elements'
import { exchangedPairs, reshapedPairs } from './takerotary'
import { gatherView, joinViews, reshapeView, squeezeView, transposeView, unsqueezeView } from './takeviews'
import { axesOfForm, isLast, meaningOf, sizeOf } from './views'

export const sizesOf = (r: Reading, step: number, form: Form): readonly (number | 'batch')[] => {
  const [, c, h, w] = r.shape(step)
  if (form === 'image') return ['batch', c, h, w]
  const [, ...sizes] = axesOfForm(form, r.shape(step)).map(sizeOf)
  return [form === 'flat' || form === 'last' ? 'batch' : sizeOf(axesOfForm(form, r.shape(step))[0]!), ...sizes]
}

/** The sizes that a Reshape asks for, zeros and −1 worked out. */
const asked = (r: Reading, now: readonly (number | 'batch')[]): readonly (number | 'batch')[] | undefined => {
  const wanted = r.numbers(1) ?? refuse('its shape is computed in an unsupported way; allowed: constants and sizes of values')
  if (r.int('allowzero', 0) !== 0 && wanted.includes(0)) refuse('its shape has a literal 0; allowed: sizes')
  const kept = wanted.map((d, i) => (d === 0 ? (now[i] ?? 0) : d))
  // A batch that was fixed when the model was written stays open.
  const open = kept.map((d, i) => (i === 0 && typeof d === 'number' && d > 0 ? ('batch' as const) : d))
  const isOpen = open[0] === 'batch'
  const sizes = (list: readonly (number | 'batch')[]) =>
    list.filter((d): d is number => typeof d === 'number' && d > 0).reduce((n, d) => n * d, 1)
  const total = sizes(now)
  if (open[0] === -1 && sizes(open) === total) return open.map((d, i) => (i === 0 ? 'batch' : d))
  return isOpen ? open.map((d) => (d === -1 ? total / sizes(open) : d)) : undefined
}

export const flattened = (r: Reading, step: number): void => {
  const [, , h, w] = r.shape(step)
  r.is({ tag: 'data', step: h === 1 && w === 1 ? step : r.layer(flatten(), step), form: 'flat' })
}

const reshapeData = (r: Reading, step: number, form: Form): unknown => {
  if (form === 'image' && r.numbers(1)?.join() === '-1') return r.is({ tag: 'line', step })
  const to = asked(r, sizesOf(r, step, form)) ?? []
  const [, c, h, w] = r.shape(step)
  const is = (...sizes: readonly number[]): boolean => to.length === sizes.length + 1 && sizes.every((n, i) => n === to[i + 1])
  if (form === 'image' && is(c, h, w)) return r.is({ tag: 'data', step, form })
  if (form === 'flat' && is(c, 1, 1)) return r.is({ tag: 'data', step, form: 'image' })
  if (form === 'flat' && is(c)) return r.is({ tag: 'data', step, form })
  if (form === 'image' && is(c * h * w)) return flattened(r, step)
  const [, groups, inner] = to
  if (
    form === 'image' &&
    typeof groups === 'number' &&
    typeof inner === 'number' &&
    groups * inner === c &&
    is(groups, inner, h, w)
  )
    return r.is({ tag: 'grouped', step, groups, shuffled: false })
  if (form === 'image' && to.length === 3 && typeof groups === 'number' && c % groups === 0 && inner === (c / groups) * h * w)
    return r.is({ tag: 'rows', step, groups })
  if (reshapeView(r)) return undefined
  refuse(
    `it reshapes [B,${sizesOf(r, step, form).slice(1).join(',')}] to [${(r.numbers(1) ?? []).join(',')}]; allowed: [B,-1], [B,C,1,1], ` +
      'and parts of channels, rows and columns for attention',
  )
}

const reshaped = (w: Weight, dims: readonly number[]): Weight => {
  const isKept = !w.transposed || dims[0] === w.dims[0]
  if (!isKept || elementsOf(dims) !== elementsOf(w.dims)) refuse(`it reshapes [${w.dims.join(',')}] to [${dims.join(',')}]`)
  return { ...w, dims }
}

/** Groups of channels as channels again: a shuffle if they were exchanged. */
const ungrouped = (r: Reading, { step, groups, shuffled }: Extract<Meaning, { tag: 'grouped' }>): unknown => {
  const [, c, h, w] = r.shape(step)
  const inner = c / groups
  const to = asked(r, ['batch', ...(shuffled ? [inner, groups] : [groups, inner]), h, w])
  if (to?.slice(1).join() !== [c, h, w].join())
    return reshapeView(r) || refuse(`it reshapes groups of channels to [${r.numbers(1)?.join(',')}]; allowed: the original image`)
  r.is({ tag: 'data', step: shuffled ? r.layer(channelShuffle(groups), step) : step, form: 'image' })
}

export const reshape = (r: Reading): unknown => {
  if (reshapedPairs(r) || sameSpread(r)) return undefined
  const s = r.symbol(0)
  if (s.tag === 'weight') {
    const to = r.numbers(1) ?? refuse('its shape is computed')
    const known = to.filter((d): d is number => d !== -1 && d !== 'batch').reduce((n, d) => n * d, 1)
    return r.is({
      tag: 'weight',
      weight: reshaped(
        s.weight,
        to.map((d) => (d === -1 ? elementsOf(s.weight.dims) / known : Number(d))),
      ),
    })
  }
  if (s.tag === 'rows') {
    const [, c, h, w] = r.shape(s.step)
    if (s.eps === undefined && reshapeView(r)) return undefined
    const to = asked(r, ['batch', s.groups, (c / s.groups) * h * w])
    if (s.eps === undefined || to?.slice(1).join() !== [c, h, w].join())
      return refuse(`it reshapes groups to [${r.numbers(1)?.join(',')}]; allowed: the original image, normalised`)
    return r.is({
      tag: 'data',
      step: r.layer(groupNorm(r.named(), s.groups, { affine: false, eps: s.eps }), s.step),
      form: 'image',
    })
  }
  if (s.tag === 'grouped') return ungrouped(r, s)
  if (s.tag === 'table' || s.tag === 'reversed') return r.is(s)
  if (s.tag === 'scores' && reshapedScores(r, s.scores)) return undefined
  if (r.symbol(0).tag === 'view')
    return reshapeView(r) || refuse(`it reshapes to [${r.numbers(1)?.join(',')}]; allowed: parts of channels, rows and columns`)
  const { step, form } = r.data(0)
  reshapeData(r, step, form)
}

export const squeeze = (r: Reading): unknown => {
  const s = r.symbol(0)
  if (s.tag === 'weight')
    return r.is({
      tag: 'weight',
      weight: reshaped(
        s.weight,
        s.weight.dims.filter((d, i) => !(axesOf(r) ? positive(axesOf(r)!, s.weight.dims.length).includes(i) : d === 1)),
      ),
    })
  if (s.tag === 'view' || (s.tag === 'data' && s.form !== 'image')) return squeezeView(r)
  const { step, form } = r.data(0)
  const [, , h, w] = r.shape(step)
  const axes = positive(axesOf(r) ?? [2, 3], 4)
  if (form !== 'image' || axes.join() !== '2,3' || h !== 1 || w !== 1) refuse('allowed: height and width of one pixel')
  r.is({ tag: 'data', step, form: 'flat' })
}

export const unsqueeze = (r: Reading): unknown => {
  if (sameSpread(r)) return undefined
  const s = r.symbol(0)
  const axes = axesOf(r) ?? refuse('its axes are computed')
  if (s.tag === 'weight') {
    const dims = [...s.weight.dims]
    for (const a of positive(axes, dims.length + axes.length)) dims.splice(a, 0, 1)
    return r.is({ tag: 'weight', weight: reshaped(s.weight, dims) })
  }
  if (s.tag === 'table' || s.tag === 'reversed') return r.is(s)
  if (s.tag === 'view' || s.tag === 'rows') return unsqueezeView(r, axes)
  const { step, form } = r.data(0)
  if (axes.join() === '0') return r.is({ tag: 'stack', steps: [step], form })
  return unsqueezeView(r, axes)
}

/** A weight with its axes in another order; it is read when it is needed. */
const permuted = (w: Weight, perm: readonly number[]): Weight => {
  if (w.transposed || perm.length !== w.dims.length) refuse(`its perm is [${perm.join(',')}] of [${w.dims.join(',')}]`)
  const dims = perm.map((a) => w.dims[a]!)
  const strides = w.dims.map((_, i) => elementsOf(w.dims.slice(i + 1)))
  const width = TENSOR_BYTES[w.tensor.type]
  const from = (to: number): number => {
    let [rest, at] = [to, 0]
    for (let i = dims.length; i-- > 0; rest = Math.floor(rest / dims[i]!)) at += (rest % dims[i]!) * strides[perm[i]!]!
    return at
  }
  const moved = (bytes: Uint8Array): Uint8Array => {
    const out = new Uint8Array(bytes.length)
    for (let i = 0; i < bytes.length / width; i++) out.set(bytes.subarray(from(i) * width, (from(i) + 1) * width), i * width)
    return out
  }
  const { tensor } = w
  return { tensor: { ...tensor, dims, read: () => E.map(moved)(tensor.read()) }, dims, transposed: false }
}

export const transpose = (r: Reading): unknown => {
  const s = r.symbol(0)
  if (turnedWindows(r) || turnedScores(r)) return undefined
  const perm = r.ints('perm')?.join() ?? ''
  if (s.tag === 'weight') {
    if (s.weight.dims.length === 2 && (perm === '1,0' || perm === '')) return r.is({ tag: 'weight', weight: turned(s.weight) })
    return r.is({ tag: 'weight', weight: permuted(s.weight, r.ints('perm') ?? []) })
  }
  if (s.tag === 'grouped' && perm === '0,2,1,3,4') return r.is({ ...s, shuffled: !s.shuffled })
  if (s.tag === 'table' && (perm === '2,0,1' || perm === '1,0')) return r.is({ ...s, headsFirst: !s.headsFirst })
  return transposeView(r) || refuse(`its perm is [${perm}]; allowed: transposed activations`)
}

/** Stacked images as one stack. */
const restacked = (r: Reading, stacks: readonly Extract<Meaning, { tag: 'stack' }>[]): void => {
  const { form } = stacks[0]!
  if (r.int('axis', 0) !== 0 || stacks.some((s) => s.form !== form)) refuse('it concatenates stacked images; allowed: axis 0')
  r.is({ tag: 'stack', steps: stacks.flatMap((s) => s.steps), form })
}

/** Returns true for a constant without elements. Encoders without a first stage join one. */
const isEmpty = (s: Meaning): boolean =>
  (s.tag === 'weight' && s.weight.dims.includes(0)) || (s.tag === 'array' && s.array.dims.includes(0))

/** Vectors of weights as one: a bias of several parts. */
const joinedWeights = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const weights = symbols.flatMap((s) => (s.tag === 'weight' && s.weight.dims.length === 1 ? [s.weight] : []))
  if (weights.length < 2 || weights.length !== symbols.length) return false
  r.is({ tag: 'weights', weights })
  return true
}

export const join = (r: Reading): unknown => {
  const places = Array.from({ length: r.inputs }, (_, i) => i).filter((i) => !isEmpty(r.symbol(i)))
  const symbols = places.map((i) => r.symbol(i))
  const stacks = symbols.filter((s) => s.tag === 'stack')
  if (stacks.length > 0 && stacks.length === symbols.length) return restacked(r, stacks)
  if (joinedWeights(r, symbols) || exchangedPairs(r, symbols) || joinViews(r, symbols)) return undefined
  if (stackedBranches(r, symbols) || joinBands(r, symbols)) return undefined
  // Tokens without the class token are a value of their own.
  if (
    joinTokens(
      r,
      places.map((i) => (r.symbol(i).tag === 'band' ? r.settled(i) : r.symbol(i))),
    )
  )
    return undefined
  const parts = aligned(
    r,
    places.map((i) => r.data(i)),
  )
  const { form } = parts[0] ?? refuse('it has no inputs')
  const rank = axesOfForm(form, r.shape(parts[0]!.step)).length
  const [axis] = positive([r.int('axis', 1)], rank)
  if (parts.some((p) => p.form !== form) || axis !== (isLast(form) ? rank - 1 : 1))
    refuse(`it concatenates along axis ${axis}; allowed: channels`)
  const [first, ...others] = parts.map((p) => r.shape(p.step))
  const odd = others.find((s) => s[2] !== first![2] || s[3] !== first![3])
  if (odd) refuse(`it concatenates [${first!.slice(1).join(',')}] and [${odd.slice(1).join(',')}]; only the channels may differ`)
  if (parts.length === 1) return r.is({ tag: 'data', step: parts[0]!.step, form })
  const ins = parts.map((p) => p.step)
  const step = r.joined(ins, (list) => [LOOKED_AT, list.reduce((n, i) => n + r.shape(i)[1], 0), first![2], first![3]])
  r.alsoJoined(ins, step)
  r.is({ tag: 'data', step, form })
}

/** The sum of stacked images (PyTorch's stack and sum), or over all pixels. */
export const axisSum = (r: Reading): unknown => {
  if (branchSum(r)) return undefined
  const s = r.symbol(0)
  if (s.tag === 'data') return pooledPixels(r, true)
  if (s.tag !== 'stack' || axesOf(r)?.join() !== '0' || r.int('keepdims', 1) !== 0)
    return refuse('allowed: the sum along the first dimension of stacked images')
  summed(
    r,
    s.steps.map((step) => ({ step, form: s.form })),
  )
}

export const globalAverage = (r: Reading): void => {
  if (meanNorm(r) || averagedWindows(r)) return
  pooledPixels(r, false)
}

/** The mean or the sum over all pixels. */
const pooledPixels = (r: Reading, isSum: boolean): void => {
  const { step, form } = r.data(0)
  const all = axesOfForm(form, r.shape(step))
  const axes = positive(axesOf(r) ?? refuse('its axes are computed'), all.length)
  const channels = form === 'image' || form === 'flat' ? 1 : all.length - 1
  const isOfPixels = all.every((a, i) => (axes.includes(i) ? i > 0 && i !== channels : i === channels || a.length === 0))
  if (form === 'flat' || !isOfPixels) refuse(`it reduces axes ${axes.join()}; allowed: height and width`)
  const [, , h, w] = r.shape(step)
  const mean = r.layer(globalAvgPool(), step)
  const pooled = isSum ? r.layer(affine(h * w), mean) : mean
  const left = all.flatMap((a, i) => (i === channels ? [a] : r.int('keepdims', 1) === 1 || !axes.includes(i) ? [[]] : []))
  r.is(meaningOf({ step: pooled, axes: left, from: 0, factor: 1 }, r.shape(pooled)))
}

export const constant = (r: Reading): unknown => {
  const value = r.attribute('value')?.t ?? undefined
  const ints =
    r.attribute('value_ints')?.ints ?? (r.attribute('value_int')?.i === undefined ? undefined : [r.attribute('value_int')!.i!])
  const floats =
    r.attribute('value_floats')?.floats ??
    (r.attribute('value_float')?.f === undefined ? undefined : [r.attribute('value_float')!.f!])
  if (value === undefined) {
    if (ints) return r.is({ tag: 'sizes', sizes: ints.map((n) => Number(n)) })
    if (!floats) return refuse('it contains no numbers')
    const bytes = new Uint8Array(Float32Array.from(floats).buffer)
    const dims = r.attribute('value_floats') ? [floats.length] : []
    return r.is({
      tag: 'weight',
      weight: { tensor: { name: '', type: 'F32', dims, read: () => E.right(bytes) }, dims, transposed: false },
    })
  }
  const tensor = r.file.tensor(value, `constant`)
  if (E.isLeft(tensor)) throw new FileFault(tensor.left)
  r.is({ tag: 'weight', weight: { tensor: tensor.right, dims: tensor.right.dims, transposed: false } })
}

/** PyTorch's newer exporter writes a pooled image, flat and back, as places in a row of numbers. */
export const gather = (r: Reading): unknown => {
  const s = r.symbol(0)
  if ((s.tag === 'weight' || s.tag === 'table') && r.int('axis', 0) <= 1 && gatheredTable(r)) return undefined
  if (selectedMeans(r)) return undefined
  if (s.tag !== 'line')
    return gatherView(r) || refuse('allowed: a size of a value, a part of the channels, or one pixel of a row')
  const [, c, h, w] = r.shape(s.step)
  const at = r.weight(1)
  const places = elementsOf(at.dims) === c * h * w && at.dims.join() === [1, c, h, w].join() ? numbersOf(at.tensor) : undefined
  if (!places?.every((n, i) => n === i)) return refuse('it takes elements of an image in another order; allowed: all, in order')
  r.is({ tag: 'data', step: s.step, form: 'image' })
}
