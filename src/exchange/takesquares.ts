// Norms of the channels by the root of the sum of their squares, in the ONNX nodes that `spillway export` writes: products, a sum, numbers, Sqrt and
// Reciprocal. In: the current node. Out: the parts so far, or the layer; false if the node is no part of a norm. Invariant: a factor of 1 makes a
// unitNorm, one of 1 / C and a weight make an rmsNorm. Worked example: Mul x·x, ReduceSum, Add 1e-24, Sqrt, Reciprocal, Mul by x is unitNorm.
import { rmsNorm, unitNorm } from '../../dsl'
import { LEAST_LENGTH } from '../../dsl/layers/layernorm'
import { elementsOf } from '../../staging/core/box'
import { axesOf, near, type Reading, shortest } from './reading'
import type { Meaning } from './symbols'

type Squares = Extract<Meaning, { readonly tag: 'squares' }>

const partOf = (r: Reading, i: number, part: Squares['part']): Squares | undefined => {
  const s = r.has(i) ? r.symbol(i) : undefined
  return s?.tag === 'squares' && s.part === part ? s : undefined
}
const put = (r: Reading, s: Squares | undefined): boolean => {
  if (s !== undefined) r.is(s)
  return s !== undefined
}

/** The sum of the squares of the channels, kept as one channel. */
const summed = (r: Reading): Squares | undefined => {
  const s = r.symbol(0)
  if (s.tag !== 'data' || s.form !== 'image' || axesOf(r)?.join() !== '1' || r.int('keepdims', 1) !== 1) return undefined
  const { kind, ins } = r.steps[s.step]!
  return kind === 'product' && ins.length === 2 && ins[0] === ins[1]
    ? { tag: 'squares', part: 'sum', step: ins[0]!, factor: 1, eps: 0 }
    : undefined
}

/** The same part with a number from the other input. */
const numbered = (r: Reading, to: (s: Squares, n: number) => Squares): Squares | undefined => {
  const [s, n] = [partOf(r, 0, 'sum'), r.scalar(1)]
  return s && n !== undefined ? to(s, n) : undefined
}

/** Channels times the reciprocal of their root. */
const divided = (r: Reading): boolean => {
  const [x, s] = [r.symbol(0), partOf(r, 1, 'reciprocal')]
  if (s === undefined || x.tag !== 'data' || x.form !== 'image' || x.step !== s.step) return false
  if (near(s.factor * r.shape(s.step)[1], 1) && s.factor !== 1) return put(r, { ...s, part: 'mean' })
  if (s.factor !== 1 || !near(s.eps, LEAST_LENGTH ** 2)) return false
  r.is({ tag: 'data', step: r.layer(unitNorm(), s.step), form: 'image' })
  return true
}

/** Normalised channels times a weight. */
const weighted = (r: Reading): boolean => {
  const [s, w] = [partOf(r, 0, 'mean'), r.symbol(1)]
  if (s === undefined || w.tag !== 'weight' || elementsOf(w.weight.dims) !== r.shape(s.step)[1]) return false
  const name = r.named(w.weight)
  r.parameter(`${name}.weight`, w.weight, [elementsOf(w.weight.dims)])
  r.is({ tag: 'data', step: r.layer(rmsNorm(name, { eps: s.eps }), s.step), form: 'image' })
  return true
}

const PARTS: Readonly<Record<string, (r: Reading) => boolean>> = {
  ReduceSum: (r) => put(r, summed(r)),
  Mul: (r) =>
    put(
      r,
      numbered(r, (s, n) => ({ ...s, factor: n })),
    ) ||
    divided(r) ||
    weighted(r),
  Add: (r) =>
    put(
      r,
      numbered(r, (s, n) => ({ ...s, eps: shortest(n) })),
    ),
  Sqrt: (r) => {
    const s = partOf(r, 0, 'sum')
    return put(r, s && { ...s, part: 'root' })
  },
  Reciprocal: (r) => {
    const s = partOf(r, 0, 'root')
    return put(r, s && { ...s, part: 'reciprocal' })
  },
}

/** Takes a node of a norm by the root of a sum of squares. */
export const squaresPart = (r: Reading, opType: string): boolean => Object.hasOwn(PARTS, opType) && PARTS[opType]!(r)
