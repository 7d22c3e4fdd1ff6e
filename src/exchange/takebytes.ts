// Bytes that become numbers, from ONNX nodes: Cast to float, then subtractions, additions, products or quotients, by one number for all channels or
// one for each. In: the current node. Out: the mean and the deviation so far, for the layer that a reader makes of them. Worked example: Cast, Div
// 255, Sub 0.5, Div 0.25 is fromBytes({ mean: 0.5, std: 0.25 }).
import { elementsOf } from '../../staging/core/box'
import { ELEMENT } from './onnx'
import { numbersOf } from './read'
import { type Reading, refuse, shortest } from './reading'
import type { Meaning, Weight } from './symbols'
import { isPerChannel } from './takeproducts'

type Pixels = Extract<Meaning, { readonly tag: 'pixels' }>

/** Bytes as floats are the result if nothing is subtracted and the divisor is 1. */
export const castBytes = (r: Reading, step: number): void =>
  r.int('to', 0) === ELEMENT.FLOAT
    ? r.is({ tag: 'pixels', step, mean: [0], std: [1 / 255] })
    : refuse(`it converts bytes to element type ${r.int('to', 0)}; allowed: float`)

const numbersIn = (w: Weight, channels: number): readonly number[] | undefined =>
  elementsOf(w.dims) === 1 || isPerChannel(w, channels, 'image') ? numbersOf(w.tensor)?.map(shortest) : undefined

const each = (a: readonly number[], b: readonly number[], f: (a: number, b: number) => number): readonly number[] =>
  Array.from({ length: Math.max(a.length, b.length) }, (_, i) => f(a[a.length === 1 ? 0 : i]!, b[b.length === 1 ? 0 : i]!))

/** Files hold 1/255 and 1/127.5 as floats. */
const inverse = (x: number): number => {
  const halves = Math.round(2 / x) / 2
  return Math.abs(x * halves - 1) < 1e-6 ? halves : 1 / x
}

/** The change of y = (x/255 − mean)/std by one more node. */
const NEXT: Readonly<Record<string, (p: Pixels, n: readonly number[]) => Pick<Pixels, 'mean' | 'std'>>> = {
  Div: ({ mean, std }, n) => ({ mean, std: each(std, n, (s, x) => s * x) }),
  Mul: ({ mean, std }, n) => ({ mean, std: each(std, n, (s, x) => s * inverse(x)) }),
  Sub: ({ mean, std }, n) => ({
    mean: each(
      mean,
      each(std, n, (s, x) => s * x),
      (m, x) => m + x,
    ),
    std,
  }),
  Add: ({ mean, std }, n) => ({
    mean: each(
      mean,
      each(std, n, (s, x) => s * x),
      (m, x) => m - x,
    ),
    std,
  }),
}
const EITHER_WAY = ['Mul', 'Add']

/** Returns true if a node is one more of those; others read the layer's result. */
export const ofBytes = (r: Reading, op: keyof typeof NEXT): boolean => {
  const [a, b] = r.inputs === 2 && r.has(0) && r.has(1) ? [r.symbol(0), r.symbol(1)] : []
  const [pixels, weight] = b?.tag === 'pixels' && EITHER_WAY.includes(op) ? [b, a] : [a, b]
  if (pixels?.tag !== 'pixels' || weight?.tag !== 'weight') return false
  const numbers = numbersIn(weight.weight, r.shape(pixels.step)[1])
  if (numbers === undefined) return false
  const next = NEXT[op]!(pixels, numbers)
  if (!next.std.every((s) => s > 0 && Number.isFinite(s)))
    refuse(`it scales bytes by [${numbers.join(', ')}]; allowed: numbers above 0`)
  r.is({ tag: 'pixels', step: pixels.step, ...next })
  return true
}
