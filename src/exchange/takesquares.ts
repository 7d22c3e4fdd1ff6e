// Norms of the channels by the root of the sum or the mean of their squares, as `spillway export` and PyTorch write them. Their nodes are squares, a
// sum or a mean, numbers, Sqrt, and Reciprocal or a quotient. In: the current node. Out: the parts so far, or the layer; false if the node is no part
// of a norm. Invariant: a factor of 1 makes a unitNorm, one of 1 / C and a weight make an rmsNorm.
// Worked example: Mul x·x, ReduceSum, Add 1e-24, Sqrt, Reciprocal, Mul by x is unitNorm.
import { rmsNorm, unitNorm } from '../../dsl'
import { LEAST_LENGTH } from '../../dsl/layers/layernorm'
import { elementsOf } from '../../staging/core/box'
import { axesOf, near, positive, type Reading, shortest } from './reading'
import type { Meaning } from './symbols'
import { axesOfForm, isLast } from './views'

type Squares = Extract<Meaning, { readonly tag: 'squares' }>

const partOf = (r: Reading, i: number, part: Squares['part']): Squares | undefined => {
  const s = r.has(i) ? r.symbol(i) : undefined
  return s?.tag === 'squares' && s.part === part ? s : undefined
}
const put = (r: Reading, s: Squares | undefined): boolean => {
  if (s !== undefined) r.is(s)
  return s !== undefined
}

/** The sum or the mean of the squares of the channels, kept as one channel. */
const summed = (r: Reading, isMean: boolean): Squares | undefined => {
  const s = r.symbol(0)
  if (s.tag !== 'data' || r.int('keepdims', 1) !== 1) return undefined
  const rank = axesOfForm(s.form, r.shape(s.step)).length
  const [axis, ...others] = positive(axesOf(r) ?? [], rank)
  if (others.length > 0 || axis !== (isLast(s.form) ? rank - 1 : 1)) return undefined
  const { kind, ins } = r.steps[s.step]!
  const factor = isMean ? 1 / r.shape(s.step)[1] : 1
  return kind === 'product' && ins.length === 2 && ins[0] === ins[1]
    ? { tag: 'squares', part: 'sum', step: ins[0]!, form: s.form, factor, eps: 0 }
    : undefined
}

/** The same part with a number from the other input. */
const numbered = (r: Reading, to: (s: Squares, n: number) => Squares): Squares | undefined => {
  const [s, n] = [partOf(r, 0, 'sum'), r.scalar(1)]
  return s?.eps === 0 && n !== undefined ? to(s, n) : undefined
}

/** Channels times the reciprocal of their root, in any order, or divided by the root. */
const divided = (r: Reading, by: 'reciprocal' | 'root'): boolean => {
  const second = partOf(r, 1, by)
  const s = second ?? (by === 'reciprocal' ? partOf(r, 0, by) : undefined)
  const x = s === undefined ? undefined : r.symbol(second === undefined ? 1 : 0)
  if (s === undefined || x?.tag !== 'data' || x.form !== s.form || x.step !== s.step) return false
  if (near(s.factor * r.shape(s.step)[1], 1) && s.factor !== 1) return put(r, { ...s, part: 'mean' })
  if (s.factor !== 1 || !near(s.eps, LEAST_LENGTH ** 2)) return false
  r.is({ tag: 'data', step: r.layer(unitNorm(), s.step), form: s.form })
  return true
}

/** Normalised channels times a weight. */
const weighted = (r: Reading): boolean => {
  const first = partOf(r, 0, 'mean')
  const [s, w] = first === undefined ? [partOf(r, 1, 'mean'), r.symbol(0)] : [first, r.symbol(1)]
  if (s === undefined || w.tag !== 'weight' || elementsOf(w.weight.dims) !== r.shape(s.step)[1]) return false
  const name = r.named(w.weight)
  r.parameter(`${name}.weight`, w.weight, [elementsOf(w.weight.dims)])
  r.is({ tag: 'data', step: r.layer(rmsNorm(name, { eps: s.eps }), s.step), form: s.form })
  return true
}

const PARTS: Readonly<Record<string, (r: Reading) => boolean>> = {
  ReduceSum: (r) => put(r, summed(r, false)),
  ReduceMean: (r) => put(r, summed(r, true)),
  Div: (r) => divided(r, 'root'),
  Mul: (r) =>
    put(
      r,
      numbered(r, (s, n) => ({ ...s, factor: s.factor * n })),
    ) ||
    divided(r, 'reciprocal') ||
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
