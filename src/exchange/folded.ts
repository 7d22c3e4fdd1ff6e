// Numbers that a file computes from sizes and constants: PyTorch's exporters write the padding of 'same' convolutions, sizes of resized images and
// ends of slices so. In: the current node. Out: its result as numbers, if all its inputs are few numbers. Invariant: nothing is computed with a
// batch of several images, which stays open. Worked example: Shape, Gather 2, Div 2, Ceil of an image of 225 rows is 112.
import { elementsOf } from '../../staging/core/box'
import { ELEMENT } from './onnx'
import { numbersOf } from './read'
import { axesOf, positive, type Reading, refuse } from './reading'
import type { Sizes, Weight } from './symbols'

type Size = number | 'batch'
type Numbers = Omit<Sizes, 'tag'>

/** More numbers are weights. */
const MOST = 64

const WHOLE = ['I64', 'I32']
const few = (w: Weight): boolean => elementsOf(w.dims) <= MOST

const numbersIn = (w: Weight): Numbers | undefined => {
  const sizes = few(w) && !w.transposed ? numbersOf(w.tensor) : undefined
  return sizes && { sizes, dims: w.dims, real: !WHOLE.includes(w.tensor.type) }
}

/** PyTorch's names of weights have dots. One number becomes a constant of a layer. */
const isTrained = ({ tensor, dims }: Weight): boolean =>
  elementsOf(dims) > 1 && !WHOLE.includes(tensor.type) && /^[\w-]+(\.[\w-]+)+$/.test(tensor.name) && !tensor.isFixed

/** An input as numbers; real constants count only if `real`. */
const input = (r: Reading, i: number, real: boolean): Numbers | undefined => {
  if (!r.has(i)) return undefined
  const s = r.symbol(i)
  if (s.tag === 'sizes') return s
  if (s.tag === 'weight' && isTrained(s.weight)) return undefined
  return s.tag === 'weight' && (real || WHOLE.includes(s.weight.tensor.type)) ? numbersIn(s.weight) : undefined
}

const dimsOf = ({ sizes, dims }: Numbers): readonly number[] => dims ?? [sizes.length]

const whole = (n: Size): number => (typeof n === 'number' ? n : refuse('it computes with the size of the batch'))

/** Computes element by element; one number stands for all. */
const each =
  (f: (a: number, b: number, real: boolean) => number) =>
  (a: Numbers, b: Numbers = a): Numbers => {
    const real = a.real === true || b.real === true
    const [long, short] = a.sizes.length >= b.sizes.length ? [a, b] : [b, a]
    if (short.sizes.length !== 1 && short.sizes.length !== long.sizes.length)
      refuse(`it computes with ${long.sizes.length} and ${short.sizes.length} numbers`)
    const at = (n: Numbers, i: number): number => whole(n.sizes[n.sizes.length === 1 ? 0 : i]!)
    return { sizes: long.sizes.map((_, i) => f(at(a, i), at(b, i), real)), dims: dimsOf(long), real }
  }
const one = (f: (a: number) => number) => each((a) => f(a))

const ARITHMETIC: Readonly<Record<string, (a: Numbers, b?: Numbers) => Numbers>> = {
  Add: each((a, b) => a + b),
  Sub: each((a, b) => a - b),
  Mul: each((a, b) => a * b),
  Div: each((a, b, real) => (real ? a / b : Math.trunc(a / b))),
  Max: each((a, b) => Math.max(a, b)),
  Min: each((a, b) => Math.min(a, b)),
  Ceil: one(Math.ceil),
  Floor: one(Math.floor),
  Neg: one((a) => -a),
  Sqrt: one(Math.sqrt),
  Mod: each((a, b) => a - b * Math.floor(a / b)),
  Pow: each(Math.pow),
  Reciprocal: one((a) => 1 / a),
  Equal: each((a, b) => Number(a === b)),
}

const cast = (r: Reading, a: Numbers): Numbers => {
  const to = r.int('to', 0)
  const real = to !== ELEMENT.INT64 && to !== ELEMENT.INT32
  return { ...a, sizes: real ? a.sizes : a.sizes.map((n) => (n === 'batch' ? n : Math.trunc(n))), real }
}

const clip = (r: Reading, a: Numbers): Numbers => {
  const [low, high] = [input(r, 1, true)?.sizes[0], input(r, 2, true)?.sizes[0]]
  return one((n) => Math.min(Math.max(n, whole(low ?? -Infinity)), whole(high ?? Infinity)))(a)
}

/** Rows of equal length, for matrices. */
const rows = (a: Numbers): readonly (readonly Size[])[] => {
  const [, width = 1] = dimsOf(a)
  return Array.from({ length: a.sizes.length / width }, (_, i) => a.sizes.slice(i * width, (i + 1) * width))
}

const reshaped = (r: Reading, a: Numbers): Numbers => {
  const to = input(r, 1, false)?.sizes.map(whole) ?? refuse('its shape is computed')
  const known = to.filter((d) => d !== -1).reduce((n, d) => n * d, 1)
  const dims = to.map((d) => (d === -1 ? a.sizes.length / known : d))
  return elementsOf(dims) === a.sizes.length
    ? { ...a, dims }
    : refuse(`it reshapes ${a.sizes.length} numbers to [${to.join(',')}]`)
}

const transposed = (a: Numbers): Numbers | undefined => {
  const [height = 1, width = 1, ...more] = dimsOf(a)
  if (more.length > 0) return undefined
  const lines = rows(a)
  return { ...a, sizes: Array.from({ length: width }, (_, j) => lines.map((l) => l[j]!)).flat(), dims: [width, height] }
}

/** Places from, from + step, … before `to`, as in Python. */
export const placesOf = (from: number, to: number, step: number, extent: number): readonly number[] => {
  const within = (n: number, low: number, high: number): number => Math.min(Math.max(n < 0 ? n + extent : n, low), high)
  const [first, end] =
    step > 0 ? [within(from, 0, extent), within(to, 0, extent)] : [within(from, -1, extent - 1), within(to, -1, extent - 1)]
  const places: number[] = []
  for (let i = first; step > 0 ? i < end : i > end; i += step) places.push(i)
  return places
}

const sliced = (r: Reading, a: Numbers): Numbers | undefined => {
  if (dimsOf(a).length > 2 || ![undefined, 0].includes(r.has(3) ? Number(input(r, 3, false)?.sizes[0]) : r.ints('axes')?.[0]))
    return undefined
  const part = (i: number, attribute: string, usual: number): number =>
    Number(input(r, i, false)?.sizes[0] ?? r.ints(attribute)?.[0] ?? usual)
  const [from, to, axis, step] = [part(1, 'starts', 0), part(2, 'ends', 0), part(3, 'axes', 0), part(4, 'steps', 1)]
  if (axis !== 0 || step === 0) refuse(`it slices numbers along axis ${axis} in steps of ${step}; allowed: axis 0`)
  const lines = dimsOf(a).length === 2 ? rows(a) : a.sizes.map((n) => [n])
  const kept = placesOf(from, to, step, lines.length).map((i) => lines[i]!)
  return { ...a, sizes: kept.flat(), dims: [kept.length, ...dimsOf(a).slice(1)] }
}

const gathered = (r: Reading, a: Numbers): Numbers => {
  const at = input(r, 1, false)?.sizes.map(whole) ?? refuse('its places are computed')
  return {
    ...a,
    sizes: at.map((i) => a.sizes[i < 0 ? i + a.sizes.length : i] ?? refuse('this size does not exist')),
    dims: [at.length],
  }
}

const filled = (r: Reading, a: Numbers): Numbers | undefined => {
  const dims = a.sizes.map(whole)
  if (elementsOf(dims) > MOST || dims.length > 1) return undefined
  const value = r.attribute('value')?.t
  const tensor = value ? r.file.tensor(value, 'constant') : undefined
  const number = tensor?._tag === 'Right' ? numbersOf(tensor.right)?.[0] : undefined
  return { sizes: Array<number>(elementsOf(dims)).fill(number ?? 0), dims, real: tensor === undefined }
}

const FORMS: Readonly<Record<string, (r: Reading, a: Numbers) => Numbers | undefined>> = {
  Cast: cast,
  ConstantOfShape: filled,
  Gather: gathered,
  Reshape: reshaped,
  Shape: (_, a) => ({ sizes: dimsOf(a), dims: [dimsOf(a).length] }),
  Slice: sliced,
  Squeeze: (_, a) => ({ ...a, dims: dimsOf(a).filter((d) => d !== 1) }),
  Transpose: (_, a) => transposed(a),
  Unsqueeze: (r, a) => {
    const dims = [...dimsOf(a)]
    if (a.sizes.length === 1) return { ...a, dims: [1] }
    for (const axis of positive(axesOf(r) ?? [0], dims.length + 1)) dims.splice(axis, 0, 1)
    return { ...a, dims }
  },
}

const joined = (r: Reading): Numbers | undefined => {
  const parts = Array.from({ length: r.inputs }, (_, i) => input(r, i, true))
  if (!parts.every((p) => p !== undefined) || r.int('axis', 0) !== 0) return undefined
  const sizes = parts.flatMap((p) => p.sizes)
  const [, ...inner] = dimsOf(parts[0]!)
  return { sizes, dims: [sizes.length / elementsOf(inner), ...inner], real: parts.some((p) => p.real === true) }
}

/** For each place, a number of one list or of the other. */
const chosen = (r: Reading): Numbers | undefined => {
  const [condition, a, b] = [0, 1, 2].map((i) => input(r, i, true))
  if (!condition || !a || !b) return undefined
  const at = ({ sizes }: Numbers, i: number): Size => sizes[sizes.length === 1 ? 0 : i]!
  return { ...a, sizes: condition.sizes.map((c, i) => (c === 1 ? at(a, i) : at(b, i))), dims: dimsOf(condition) }
}

/** A file of one image computes with its batch of 1. */
const ofOneImage = (r: Reading, a: Numbers | undefined): Numbers | undefined =>
  a && r.isOfOneImage ? { ...a, sizes: a.sizes.map((n) => (n === 'batch' ? 1 : n)) } : a

/** Returns true for lists of one form, or a number and a list: others are arrays that are repeated along some axes. */
const areAlike = (a: Numbers, b: Numbers): boolean =>
  [a, b].some(({ sizes }) => sizes.length === 1) || dimsOf(a).join() === dimsOf(b).join()

const result = (r: Reading, op: string): Numbers | undefined => {
  if (op === 'Concat') return joined(r)
  if (op === 'Where') return chosen(r)
  const arithmetic = ARITHMETIC[op] ?? (op === 'Clip' ? (a: Numbers) => clip(r, a) : undefined)
  const form = FORMS[op]
  const a = input(r, 0, arithmetic !== undefined)
  if (a === undefined) return undefined
  if (arithmetic === undefined) return form?.(r, a)
  const b = r.has(1) ? ofOneImage(r, input(r, 1, true)) : undefined
  if (r.has(1) && (b === undefined || !areAlike(a, b))) return undefined
  return arithmetic(ofOneImage(r, a)!, b)
}

/** Returns true if the node computes a few numbers from others. */
export const isFolded = (r: Reading, op: string): boolean => {
  const numbers = result(r, op)
  if (numbers === undefined) return false
  r.is({ tag: 'sizes', ...numbers })
  return true
}
/** The operators that only numbers have. */
export const OF_NUMBERS = ['Ceil', 'ConstantOfShape', 'Equal', 'Floor', 'Max', 'Min', 'Mod', 'Pow', 'Reciprocal', 'Sqrt', 'Where']
