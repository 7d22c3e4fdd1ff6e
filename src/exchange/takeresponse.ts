// Global response normalisation, from ONNX nodes: ConvNeXt V2 writes it as norms over the image, their mean over the channels, a ratio, products and
// sums. In: the current node. Out: the parts so far, or the layer; false if the node is no part of it.
import { globalResponseNorm } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { axesOf, positive, type Reading, refuse, shortest } from './reading'
import type { Meaning } from './symbols'
import { isLast } from './views'

type Response = Extract<Meaning, { readonly tag: 'response' }>

/** √Σx² over the image, for each channel. */
export const norms = (r: Reading): void => {
  const { step, form } = r.data(0)
  const axes = positive(axesOf(r) ?? refuse('its axes are computed'), 4).join()
  if (
    form === 'flat' ||
    axes !== (form === 'image' ? '2,3' : '1,2') ||
    (form !== 'image' && form !== 'last') ||
    r.int('keepdims', 1) !== 1
  )
    refuse(`it reduces axes ${axes}; allowed: height and width, kept`)
  r.is({ tag: 'response', part: 'norms', step, form })
}

const is = (s: Meaning, part: Response['part']): s is Response => s.tag === 'response' && s.part === part

/** The mean of the norms over the channels. */
export const meanNorm = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (!is(s, 'norms')) return false
  const axes = positive(axesOf(r) ?? [], 4).join()
  if (axes !== (isLast(s.form) ? '3' : '1') || r.int('keepdims', 1) !== 1)
    refuse(`it reduces axes ${axes}; allowed: the channels, kept`)
  r.is({ ...s, part: 'mean' })
  return true
}

export const normRatio = (r: Reading): boolean => {
  const [s, mean] = [r.symbol(0), r.symbol(1)]
  if (!is(s, 'norms') || !is(mean, 'mean') || mean.eps === undefined || s.step !== mean.step) return false
  r.is({ ...mean, part: 'ratio' })
  return true
}

/** The other input of a node with a part as input. */
const pair = (r: Reading): readonly [Response, Meaning] | undefined => {
  const [a, b] = [r.symbol(0), r.symbol(1)]
  return a.tag === 'response' ? [a, b] : b.tag === 'response' ? [b, a] : undefined
}

export const responseProduct = (r: Reading): boolean => {
  const [s, other] = pair(r) ?? []
  if (s === undefined || other === undefined) return false
  const isSource = other.tag === 'data' && other.step === s.step
  const one = (r.scalar(0) ?? r.scalar(1)) === 1
  if (s.part === 'ratio' && isSource && s.weight === undefined) r.is({ ...s, part: 'product' })
  else if (s.part === 'factor' && isSource) r.is({ ...s, part: 'scaled' })
  else if (s.part === 'product' && one) r.is(s)
  else if ((s.part === 'product' || s.part === 'ratio') && other.tag === 'weight' && s.weight === undefined)
    r.is({ ...s, weight: other.weight })
  else return false
  return true
}

const layer = (r: Reading, { step, form, eps, weight, bias }: Response): void => {
  const channels = r.shape(step)[1]
  if ([weight, bias].some((w) => elementsOf(w!.dims) !== channels)) refuse('its weights are not one number per channel')
  const name = r.named(weight, bias)
  r.parameter(`${name}.weight`, weight!, [channels])
  r.parameter(`${name}.bias`, bias!, [channels])
  r.is({ tag: 'data', step: r.layer(globalResponseNorm(name, { eps: eps! }), step), form })
}

export const responseSum = (r: Reading): boolean => {
  const [s, other] = pair(r) ?? []
  if (s === undefined || other === undefined) return false
  const scalar = r.scalar(0) ?? r.scalar(1)
  if (s.part === 'mean' && scalar !== undefined) r.is({ ...s, eps: shortest(scalar) })
  else if (s.part === 'ratio' && s.weight && scalar === 1) r.is({ ...s, part: 'factor' })
  else if (s.part === 'scaled' && other.tag === 'weight') layer(r, { ...s, bias: other.weight })
  else if (s.part === 'product' && other.tag === 'weight' && s.bias === undefined) r.is({ ...s, bias: other.weight })
  else if (s.part === 'product' && other.tag === 'data' && other.step === s.step && s.weight && s.bias) layer(r, s)
  else return false
  return true
}
