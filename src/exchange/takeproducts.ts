// Sums and products, from ONNX nodes: with weights, of branches, and as parts of functions that ONNX writes as several nodes. In: a node that
// is being read. Out: its layer, or where ways meet. Worked example: x * Sigmoid(x) is silu; MatMul and Add of a constant a linear layer.
import {
  type Affine,
  affine,
  bias,
  gelu,
  geluTanh,
  globalAvgPool,
  hardSigmoid,
  hardSwish,
  layerScale,
  linear,
  mish,
  pixelLinear,
  position,
  silu,
  upsample,
} from '../../dsl'
import type { Net, Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import { GELU_CUBIC, GELU_SCALE } from './onnx'
import { numbersOf } from './read'
import { isOfModule, isTrainedNumber, near, type Reading, refuse, shortest } from './reading'
import { channelsOf } from './channels'
import { productOfViews, quotientOfViews, scaledBySpread, scaledGroups, unitQuotient } from './elements'
import { attentionProduct, biasedScores, factoredScores, scaledScores } from './takeattention'
import { branchProduct } from './takebranches'
import { settleHeads } from './takematrices'
import { normRatio, responseProduct, responseSum } from './takeresponse'
import { addedMeans, dividedMeans, meansProduct } from './takemeans'
import { rotaryProduct, rotarySum } from './takerotary'
import { aligned, parameterName, positions, tokenOf, tokensRead } from './taketokens'
import type { Form, Meaning, Weight } from './symbols'

type Value = Pick<Extract<Meaning, { readonly tag: 'data' }>, 'step' | 'form'>
const NEUTRAL = 1

export const turned = (w: Weight): Weight => ({ ...w, dims: [w.dims[1]!, w.dims[0]!], transposed: !w.transposed })

const dense = (r: Reading, weight: Weight, bias: Weight | undefined): void => {
  settleHeads(r, 0)
  tokensRead(r, 0)
  const { step, form } = r.data(0)
  if (form === 'image') refuse('it multiplies the rows of an image; allowed: [B,C], and channels last')
  const [out, c] = weight.dims as [number, number]
  if (weight.dims.length !== 2 || c !== r.shape(step)[1])
    refuse(`its weight is [${weight.dims.join(',')}], its input has ${r.shape(step)[1]} channels`)
  const name = r.named(weight, bias)
  r.parameter(`${name}.weight`, weight, [out, c])
  if (bias) r.parameter(`${name}.bias`, bias, [out])
  const make = form === 'flat' ? linear : pixelLinear
  r.is({ tag: 'data', step: r.layer(make(name, out, { bias: bias !== undefined }), step), form })
}

export const gemm = (r: Reading): void => {
  if (r.int('transA', 0) !== 0 || r.float('alpha', 1) !== NEUTRAL || (r.has(2) && r.float('beta', 1) !== NEUTRAL))
    refuse('it has transA, alpha or beta; allowed: A·B + C, A·Bᵀ + C')
  const weight = r.weight(1)
  const bias = r.has(2) ? r.symbol(2) : undefined
  const isWhole = bias !== undefined && bias.tag !== 'weights' && bias.tag !== 'blanked'
  dense(r, r.int('transB', 0) === 1 ? weight : turned(weight), isWhole ? r.weight(2) : undefined)
  if (bias?.tag === 'weights') biasOfParts(r, bias.weights)
  if (bias?.tag === 'blanked') biasWithout(r, bias)
}

/** A bias that several weights are parts of. Buffers of zeros are none: BEiT's keys have them. */
const biasOfParts = (r: Reading, weights: readonly Weight[]): unknown => {
  const s = r.symbolOf(r.outputName)
  if (s.tag !== 'data') return refuse('it adds a bias of several parts')
  const [b, c, h, w] = r.shape(s.step)
  if (weights.reduce((n, { dims }) => n + dims[0]!, 0) !== c) refuse(`its bias has other parts than its ${c} channels`)
  let from = 0
  const parts = weights.map((weight) => {
    const [count] = weight.dims as [number]
    const own = channelsOf(r, s.step, from, count)
    from += count
    const isZero = weight.tensor.isFixed && numbersOf(weight.tensor)?.every((n) => n === 0)
    return isZero ? own : r.layer(bias(trained(r, weight, [count])), own)
  })
  return r.bind(r.outputName, { ...s, step: r.joined(parts, () => [b, c, h, w]) })
}

/** A bias that some channels do not have: keys of Swin V2. */
const biasWithout = (r: Reading, { weight, from, to }: Extract<Meaning, { tag: 'blanked' }>): unknown => {
  const s = r.symbolOf(r.outputName)
  if (s.tag !== 'data') return refuse('it adds a bias with zeros in places')
  const name = r.beside(weight.tensor.name)
  r.parameter(name, weight, [r.shape(s.step)[1]])
  return r.bind(r.outputName, { ...s, step: r.layer(bias(name, { without: [from, to] }), s.step) })
}

/** Returns true for one number for each channel, in any form before images. */
export const isPerChannel = (w: Weight, c: number, form: Form): boolean => {
  const at = form === 'image' ? -3 : -1
  return elementsOf(w.dims) === c && (w.dims.length + at >= 0 ? w.dims[w.dims.length + at] === c : c === 1)
}

// ---------------------------------------------------------------- constants

const isAffine = (l: Net | undefined): l is Affine => l?.kind === 'affine'

/** factor·x + shift behind a step; two in a row are one. */
const affineBehind = (r: Reading, step: number, factor: number, shift: number): number => {
  const { layer, ins } = r.steps[step]!
  if (!isAffine(layer)) return r.layer(affine(shortest(factor), shortest(shift)), step)
  return affineBehind(r, ins[0]!, layer.factor * factor, layer.shift * factor + shift)
}

/** The number that is the other input of a sum, with its sign. */
const shifted = (r: Reading, data: number, sign: 1 | -1): unknown => {
  const constant = r.constant(1 - data)
  if (r.settled(data).tag === 'view') return r.makes(affine(1, shortest(sign * constant)), data)
  const { step, form } = r.data(data)
  r.is({ tag: 'data', step: affineBehind(r, step, 1, sign * constant), form })
}

const isLayer = (r: Reading, step: number, kind: string): boolean => r.steps[step]?.layer?.kind === kind

/** The step x of min(max(x + 3, 0), 6). */
const rectifiedFrom = (r: Reading, step: number): number | undefined => {
  const [before] = r.steps[step]!.ins
  const { layer, ins } = r.steps[before ?? 0]!
  return isLayer(r, step, 'relu6') && isAffine(layer) && layer.factor === 1 && layer.shift === 3 ? ins[0] : undefined
}

/** A sixth of min(max(x + 3, 0), 6), or of x times it. */
const sixth = (r: Reading, step: number): number | undefined => {
  const x = rectifiedFrom(r, step)
  if (x !== undefined) return r.layer(hardSigmoid(), x)
  const { kind, ins } = r.steps[step]!
  const of = kind === 'product' ? ins.find((i, n) => rectifiedFrom(r, i) === ins[1 - n]) : undefined
  return of === undefined ? undefined : r.layer(hardSwish(), rectifiedFrom(r, of)!)
}

const multiplied = (r: Reading, data: number, factor: number): void => {
  const { step, form } = r.data(data)
  const known = near(factor, 1 / 6) ? sixth(r, step) : undefined
  r.is({ tag: 'data', step: known ?? affineBehind(r, step, factor, 0), form })
}

/** A value minus another, or minus a number. */
export const difference = (r: Reading): unknown => {
  const [a, b] = [r.symbol(0), r.symbol(1)]
  if (a.tag === 'data' && r.scalar(1) !== undefined) return shifted(r, 0, -1)
  if (a.tag === 'odd' || b.tag === 'odd') return r.odd('it is not a part of a known function')
  const { step, form } = r.data(1)
  const isConstant = r.scalar(0) !== undefined
  const less = affineBehind(r, step, -1, isConstant ? r.constant(0) : 0)
  return isConstant ? r.is({ tag: 'data', step: less, form }) : summed(r, [r.data(0), { step: less, form }])
}

export const quotient = (r: Reading): unknown => {
  if (unitQuotient(r) || normRatio(r) || dividedMeans(r)) return undefined
  const divisor = r.scalar(1)
  if (divisor !== undefined && divisor !== 0 && scaledScores(r, 0, 1 / divisor)) return undefined
  if (divisor === undefined && quotientOfViews(r)) return undefined
  if (r.symbol(0).tag !== 'data' || divisor === undefined || divisor === 0) return r.odd('it is not a part of a known function')
  multiplied(r, 0, 1 / r.constant(1))
}

// ---------------------------------------------------------------- weights

/** Declares a parameter that has its name in the file. */
const trained = (r: Reading, w: Weight, shape: readonly number[]): string => {
  const name = parameterName(r, w)
  r.parameter(name, w, shape)
  return name
}

/** The bias of a product that had none; the scale and shift of a norm of groups. */
const addWeight = (r: Reading, data: number, w: Weight): unknown => {
  const { step, form } = r.data(data)
  const token = tokenOf(r, w, r.shape(step))
  if (token !== undefined)
    return summed(r, [
      { step: token, form },
      { step, form },
    ])
  const s = r.steps[step]!
  const layer = s.layer as (Net & Readonly<Record<string, unknown>>) | undefined
  const c = s.shape[1]
  if (isTrainedNumber(w) && c > 1)
    return r.is({ tag: 'data', step: r.layer(bias(trained(r, w, [1]), { shared: true }), step), form })
  if (elementsOf(w.dims) === 1 && c > 1) return shifted(r, data, 1)
  if (!isPerChannel(w, c, form))
    return positions(r, data, w) || r.odd('it adds a constant that is not one number per channel or element')
  if (layer && ['linear', 'pixelLinear', 'conv2d', 'convTranspose2d'].includes(layer.kind) && layer['bias'] === false) {
    // The bias may know the name that the product's own weight has lost.
    const old = layer['name'] as string
    const weight = r.parameters.find((p) => p.name === `${old}.weight`)!
    r.forget(old)
    const name = r.named(weight, w)
    r.parameter(`${name}.weight`, weight, weight.shape)
    r.parameter(`${name}.bias`, w, [c])
    return r.is({ tag: 'data', step: r.replace(step, { ...layer, name, bias: true } as Net, s.ins[0]!), form })
  }
  const before = layer?.kind === 'layerScale' ? r.steps[s.ins[0]!] : undefined
  const norm = before?.layer as (Net & Readonly<Record<string, unknown>>) | undefined
  if (norm && ['groupNorm', 'instanceNorm'].includes(norm.kind) && norm['affine'] === false) {
    const old = layer!['name'] as string
    const scale = r.parameters.find((p) => p.name === old)!
    r.forget(old)
    r.forget(norm['name'] as string)
    const name = r.named(scale, w)
    r.parameter(`${name}.weight`, scale, [c])
    r.parameter(`${name}.bias`, w, [c])
    r.steps[step] = { ...s, kind: 'input', ins: [] }
    return r.is({ tag: 'data', step: r.replace(s.ins[0]!, { ...norm, name, affine: true } as Net, before!.ins[0]!), form })
  }
  if (elementsOf(w.dims) === 1) return shifted(r, data, 1)
  return r.is({ tag: 'data', step: r.layer(bias(trained(r, w, [c])), step), form })
}

export const sum = (r: Reading): unknown => {
  if (r.inputs !== 2) return sumOfMany(r)
  if (rotarySum(r) || biasedScores(r) || responseSum(r) || addedMeans(r)) return undefined
  const [a, b] = [r.settled(0), r.settled(1)]
  for (const [data, constant, at] of [
    [a, b, 0],
    [b, a, 1],
  ] as const) {
    if (constant.tag === 'sizes' && data.tag === 'data') return shifted(r, at, 1)
    if (constant.tag === 'weight' && data.tag === 'view' && r.scalar(1 - at) !== undefined) return shifted(r, at, 1)
    if (constant.tag === 'weight') return data.tag === 'data' ? addWeight(r, at, constant.weight) : r.odd('it adds a constant')
  }
  sumOfMany(r)
}

export const sumOfMany = (r: Reading): void => {
  if (r.inputs === 0) refuse('it has no inputs')
  summed(
    r,
    Array.from({ length: r.inputs }, (_, i) => r.data(i)),
  )
}

/** A value [B,C,1,1] beside an image, repeated over its pixels: GCNet's context. */
const repeated = (r: Reading, terms: readonly Value[]): readonly Value[] => {
  const large = terms.map((t) => r.shape(t.step)).find(([, , h, w]) => h * w > 1)
  if (large === undefined || terms.some((t) => t.form !== 'image')) return terms
  const [, channels, ...size] = large
  return terms.map((t) => {
    const [, c, h, w] = r.shape(t.step)
    return c === channels && h * w === 1 ? { ...t, step: r.layer(upsample({ size }), t.step) } : t
  })
}

/** The sum of values of one shape, or of images and numbers for each channel. */
export const summed = (r: Reading, given: readonly { readonly step: number; readonly form: Form }[]): void => {
  const terms = repeated(r, aligned(r, given))
  const first = terms[0]!
  const odd = terms.find((t) => t.form !== first.form || r.shape(t.step).join() !== r.shape(first.step).join())
  if (odd)
    refuse(
      `it adds [${r.shape(first.step).slice(1).join(',')}] and [${r.shape(odd.step).slice(1).join(',')}]; the sizes must be equal`,
    )
  const step = terms.slice(1).reduce((s, t) => r.meeting('sum', [s, t.step], r.shape(s)), first.step)
  r.is({ tag: 'data', step, form: first.form })
}

/** The factors of a product of products; values by name. */
const factorsOf = (r: Reading, value: string, depth = 0): readonly string[] => {
  const maker = r.maker(value)
  return maker?.opType === 'Mul' && depth < 2 ? (maker.input ?? []).flatMap((i) => factorsOf(r, i, depth + 1)) : [value]
}

/** x · ½ · (1 + erf(x / √2)), in any order. */
const isErfOf = (r: Reading, value: string, x: string): boolean => {
  const adds = r.maker(value)
  if (adds?.opType !== 'Add') return false
  const [one, erf] = [adds.input ?? [], [...(adds.input ?? [])].reverse()].map(([a, b]) =>
    r.scalarNamed(b ?? '') === 1 ? a : undefined,
  )
  const made = r.maker(one ?? erf ?? '')
  const inner = made?.opType === 'Erf' ? r.maker(made.input?.[0] ?? '') : undefined
  const [a = '', b = ''] = inner?.input ?? []
  if (inner?.opType === 'Div') return a === x && near(r.scalarNamed(b) ?? 0, Math.SQRT2)
  if (inner?.opType !== 'Mul') return false
  return (a === x && near(r.scalarNamed(b) ?? 0, Math.SQRT1_2)) || (b === x && near(r.scalarNamed(a) ?? 0, Math.SQRT1_2))
}

/** The other input of a node that adds or multiplies by a number. */
const besideNumber = (r: Reading, value: string, op: 'Add' | 'Mul', number: number): string | undefined => {
  const made = r.maker(value)
  const [a = '', b = ''] = made?.input ?? []
  if (made?.opType !== op) return undefined
  return near(r.scalarNamed(a) ?? NaN, number) ? b : near(r.scalarNamed(b) ?? NaN, number) ? a : undefined
}

/** x³, as a product or a power. */
const isCubeOf = (r: Reading, value: string, x: string): boolean => {
  const made = r.maker(value)
  const [a = '', b = ''] = made?.input ?? []
  if (made?.opType === 'Pow') return a === x && r.scalarNamed(b) === 3
  const square = r.maker(a === x ? b : a)
  return made?.opType === 'Mul' && (a === x || b === x) && square?.opType === 'Mul' && square.input!.every((i) => i === x)
}

/** 1 + tanh(scale · (x + cubic · x³)), in any order. */
const isTanhOf = (r: Reading, value: string, x: string): boolean => {
  const tanh = r.maker(besideNumber(r, value, 'Add', 1) ?? '')
  const sum = tanh?.opType === 'Tanh' ? r.maker(besideNumber(r, tanh.input?.[0] ?? '', 'Mul', GELU_SCALE) ?? '') : undefined
  if (sum?.opType !== 'Add') return false
  const [a = '', b = ''] = sum.input ?? []
  return isCubeOf(r, besideNumber(r, a === x ? b : a, 'Mul', GELU_CUBIC) ?? '', x) && (a === x || b === x)
}

/** x of a GELU, and its form. */
const geluOf = (r: Reading): { readonly x: string; readonly layer: Net } | undefined => {
  const factors = [r.inputName(0), r.inputName(1)].flatMap((v) => factorsOf(r, v, 1))
  if (factors.length !== 3) return undefined
  const half = factors.find((f) => near(r.scalarNamed(f) ?? 0, 0.5))
  const [a, b] = factors.filter((f) => f !== half)
  if (half === undefined || a === undefined || b === undefined) return undefined
  for (const [share, x] of [
    [a, b],
    [b, a],
  ] as const) {
    if (isErfOf(r, share, x)) return { x, layer: gelu() }
    if (isTanhOf(r, share, x)) return { x, layer: geluTanh() }
  }
  return undefined
}

/** x · sigmoid(x), x · hardSigmoid(x), x · tanh(softplus(x)). */
const gated = (r: Reading, x: number, gate: number): number | undefined => {
  const [before = gate] = r.steps[gate]!.ins
  if (isLayer(r, gate, 'tanh') && isLayer(r, before, 'softplus') && r.steps[before]!.ins[0] === x) return r.layer(mish(), x)
  if (before !== x) return undefined
  return isLayer(r, gate, 'sigmoid') ? r.layer(silu(), x) : isLayer(r, gate, 'hardSigmoid') ? r.layer(hardSwish(), x) : undefined
}

/** Returns true for one number for each channel, and one for each pixel. */
const isOuter = ([, c, h, w]: Shape, [, one, rows, columns]: Shape): boolean =>
  c > 1 && h * w === 1 && one === 1 && rows * columns > 1

/** The product of two values. Numbers of channels are repeated over the pixels before a product with numbers of pixels: FocalNet's context. */
const multipliedBy = (r: Reading, x: number, y: number): number => {
  const [a, b] = [r.shape(x), r.shape(y)]
  if (isOuter(b, a)) return multipliedBy(r, y, x)
  const whole = isOuter(a, b) ? r.layer(upsample({ scale: [b[2], b[3]] }), x) : x
  return r.meeting('product', [whole, y], elementsOf(r.shape(whole)) >= elementsOf(b) ? r.shape(whole) : b)
}

const behind = (r: Reading, x: string, layer: Net): unknown => {
  const s = r.symbolOf(x)
  if (s.tag !== 'data') return r.odd('it is not an activation of an image')
  r.is({ tag: 'data', step: r.layer(layer, s.step), form: s.form })
}

export const product = (r: Reading): unknown => {
  if (
    rotaryProduct(r) ||
    scaledBySpread(r, (weight) => parameterName(r, weight)) ||
    responseProduct(r) ||
    branchProduct(r) ||
    factoredScores(r) ||
    scaledScores(r, 0, r.scalar(1)) ||
    scaledScores(r, 1, r.scalar(0))
  )
    return undefined
  const curved = geluOf(r)
  if (curved !== undefined) return behind(r, curved.x, curved.layer)
  const [a, b] = [r.settled(0), r.settled(1)]
  const [data, weight] = a.tag === 'weight' ? [1, a.weight] : [0, b.tag === 'weight' ? b.weight : undefined]
  if (weight === undefined) {
    if (a.tag === 'odd' || b.tag === 'odd') return r.odd('it is not a part of a known function')
    if (a.tag === 'sizes' || b.tag === 'sizes')
      return multiplied(
        r,
        a.tag === 'sizes' ? 1 : 0,
        r.scalar(a.tag === 'sizes' ? 0 : 1) ?? refuse('it multiplies by several sizes'),
      )
    if (productOfViews(r)) return undefined
    const [x, y] = aligned(r, [r.data(0), r.data(1)]) as [Value, Value]
    const own = gated(r, x.step, y.step) ?? gated(r, y.step, x.step)
    if (own !== undefined) return r.is({ tag: 'data', step: own, form: x.form })
    if (x.form !== y.form) refuse('it multiplies [B,C] by an image; allowed: factors [B,C,1,1]')
    return r.is({ tag: 'data', step: multipliedBy(r, x.step, y.step), form: x.form })
  }
  const s = data === 0 ? a : b
  if (s.tag === 'data' && isTrainedNumber(weight)) {
    const step = r.layer(layerScale(trained(r, weight, [1]), 1, { shape: 'one' }), s.step)
    return r.is({ tag: 'data', step, form: s.form })
  }
  if (scaledGroups(r, data, weight, () => parameterName(r, weight))) return undefined
  if (s.tag === 'data' && elementsOf(weight.dims) === 1) return multiplied(r, data, r.constant(1 - data))
  if (s.tag !== 'data' || !isPerChannel(weight, r.shape(s.step)[1], s.form))
    return r.odd('it multiplies by a constant that is not one number per channel')
  const c = r.shape(s.step)[1]
  const isVector = weight.tensor.dims.length === 1
  const name = trained(r, weight, isVector ? [c] : [c, 1, 1])
  const layer = isVector ? layerScale(name, 1, { shape: 'channels' }) : layerScale(name)
  r.is({ tag: 'data', step: r.layer(layer, s.step), form: s.form })
}

/**
 * Imports channels times a trained matrix outside linear layers, such as SwiftFormer's `w_g`. The matrix becomes the position embedding of zeros,
 * which keeps its name and its shape [C,N]. The product becomes a contraction. Returns false for other weights.
 */
const trainedMatrix = (r: Reading, weight: Weight): boolean => {
  const s = r.settled(0)
  const isNamed = r.file.isSized || isOfModule(weight)
  const isOwn = isNamed && !/\.weight$/.test(weight.tensor.name) && weight.tensor.dims.join() === weight.dims.join()
  if (s.tag !== 'data' || s.form === 'image' || weight.dims.length !== 2 || weight.transposed || !isOwn) return false
  const [b, c, h, w] = r.shape(s.step)
  const [rows, columns] = weight.dims as [number, number]
  if (rows !== c) return false
  const zeros = [globalAvgPool(), affine(0), ...(columns === 1 ? [] : [upsample({ size: [1, columns] })])]
  const blank = zeros.reduce((at, l) => r.layer(l, at), s.step)
  const matrix = r.layer(position(trained(r, weight, [rows, columns]), { shape: 'matrix' }), blank)
  r.is({ ...s, step: r.paired('contracted', [matrix, s.step], { over: 'channels' }, [b, columns, h, w]) })
  return true
}

export const matMul = (r: Reading): void => {
  if (meansProduct(r) || (r.symbol(1).tag !== 'weight' && attentionProduct(r))) return
  const weight = r.weight(1)
  if (trainedMatrix(r, weight)) return
  if (weight.dims.length !== 2) refuse(`its weight is [${weight.dims.join(',')}]; it must have two dimensions`)
  dense(r, turned(weight), undefined)
}
