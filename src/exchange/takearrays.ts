// Arrays that a file computes from constants: PyTorch's exporters write the masks of shifted windows so. In: the current node. Out: its result as an
// array, if all its inputs are constants and one of them is computed. Invariant: weights of the file alone are never computed with: they stay weights.
// Worked example: ConstantOfShape [56,56], ScatterND of other numbers into its last rows, Reshape and Sub give the pairs of pixels of two regions.
import { elementsOf } from '../../staging/core/box'
import { placesOf } from './folded'
import { ELEMENT } from './onnx'
import { type Constants, numbersOf } from './read'
import { axesOf, positive, type Reading, refuse } from './reading'
import type { Meaning } from './symbols'

/** Elements of all arrays that a file may compute: the masks of Swin have 4 million at 1024x1024 pixels. */
const MOST = 1 << 24
/** As few numbers in one row are sizes. */
const FEW = 64

const WHOLE = ['I64', 'I32']
const stridesOf = (dims: readonly number[]): readonly number[] => dims.map((_, i) => elementsOf(dims.slice(i + 1)))

const zeros = (dims: readonly number[]): Float64Array =>
  elementsOf(dims) <= MOST
    ? new Float64Array(elementsOf(dims))
    : refuse(`it computes ${elementsOf(dims)} constants; allowed: at most ${MOST}`)

/** Computes each element of an array from its place along each axis. */
const filled = (dims: readonly number[], real: boolean, at: (place: readonly number[]) => number): Constants => {
  const numbers = zeros(dims)
  const place = dims.map(() => 0)
  for (let i = 0; i < numbers.length; i++) {
    numbers[i] = at(place)
    for (let a = dims.length - 1; a >= 0 && ++place[a]! === dims[a]; a--) place[a] = 0
  }
  return { dims, numbers, real }
}

/** The elements of an array at these places of each axis. */
const selected = ({ dims, numbers, real }: Constants, places: readonly (readonly number[])[]): Constants => {
  const strides = stridesOf(dims)
  return filled(
    places.map((p) => p.length),
    real,
    (place) => numbers[place.reduce((n, i, axis) => n + places[axis]![i]! * strides[axis]!, 0)]!,
  )
}

// ---------------------------------------------------------------- inputs

const ofInput = (r: Reading, i: number): Constants | undefined => {
  if (!r.has(i)) return undefined
  const s = r.symbol(i)
  if (s.tag === 'array') return s.array
  if (s.tag === 'sizes')
    return s.sizes.includes('batch')
      ? undefined
      : { dims: s.dims ?? [s.sizes.length], numbers: Float64Array.from(s.sizes as readonly number[]), real: s.real === true }
  if (s.tag !== 'weight' || s.weight.transposed || elementsOf(s.weight.dims) > MOST) return undefined
  const numbers = numbersOf(s.weight.tensor)
  return numbers && { dims: s.weight.dims, numbers: Float64Array.from(numbers), real: !WHOLE.includes(s.weight.tensor.type) }
}
const listAt = (r: Reading, i: number): readonly number[] | undefined => {
  const array = ofInput(r, i)
  return array && [...array.numbers]
}

const FROM_SIZES = ['ConstantOfShape', 'Range']
/** Operators whose further inputs are sizes, places and axes. */
const OF_FIRST = ['Cast', 'CumSum', 'Expand', 'Reshape', 'Shape', 'Slice', 'Squeeze', 'Tile', 'Transpose', 'Unsqueeze']
/** Operators of positions that no layer has: they are also computed from constants that are no weights of a module. */
const OF_POSITIONS = ['Cos', 'CumSum', 'Sin', 'Slice', 'Tile']
const isPlain = (s: Meaning): boolean => s.tag === 'weight' && !s.weight.tensor.name.includes('.')
/** Returns true if the inputs are constants, and not weights alone. */
const isOfConstants = (r: Reading, op: string): boolean => {
  const tags = Array.from({ length: r.inputs }, (_, i) => (r.has(i) ? r.symbol(i).tag : undefined))
  const isComputed = (tag: string | undefined): boolean => tag === 'array' || tag === 'sizes'
  const among = OF_FIRST.includes(op) ? tags.slice(0, 1) : tags
  return (
    tags.every((tag) => tag === undefined || tag === 'weight' || isComputed(tag)) &&
    (FROM_SIZES.includes(op) || among.some(isComputed) || (OF_POSITIONS.includes(op) && isPlain(r.symbol(0))))
  )
}

// ---------------------------------------------------------------- operators

const common = (a: readonly number[], b: readonly number[]): readonly number[] => {
  const rank = Math.max(a.length, b.length)
  const [x, y] = [a, b].map((dims) => [...Array<number>(rank - dims.length).fill(1), ...dims]) as [number[], number[]]
  return x.map((n, i) =>
    n === y[i] || y[i] === 1 ? n : n === 1 ? y[i]! : refuse(`it computes with arrays [${a.join(',')}] and [${b.join(',')}]`),
  )
}

/** An array repeated along its axes of size 1. */
const expanded = (a: Constants, dims: readonly number[]): Constants => {
  const own = [...Array<number>(dims.length - a.dims.length).fill(1), ...a.dims]
  if (own.join() === dims.join()) return { ...a, dims }
  return selected(
    { ...a, dims: own },
    dims.map((n, axis) => Array.from({ length: n }, (_, i) => (own[axis] === 1 ? 0 : i))),
  )
}

const each =
  (f: (...numbers: readonly number[]) => number, isTruth = false) =>
  (r: Reading): Constants | undefined => {
    const given = Array.from({ length: r.inputs }, (_, i) => ofInput(r, i))
    if (!given.every((a) => a !== undefined)) return undefined
    const dims = given.map((a) => a.dims).reduce(common)
    const of = given.map((a) => expanded(a, dims).numbers)
    const numbers = zeros(dims).map((_, i) => f(...of.map((n) => n[i]!)))
    return { dims, numbers, real: !isTruth && given.some((a) => a.real) }
  }

const constantOfShape = (r: Reading): Constants | undefined => {
  const dims = listAt(r, 0)
  const value = r.attribute('value')?.t
  const tensor = value ? r.file.tensor(value, 'constant') : undefined
  const given = tensor?._tag === 'Right' ? tensor.right : undefined
  const number = given ? (numbersOf(given)?.[0] ?? 0) : 0
  return dims && filled(dims, !(given && WHOLE.includes(given.type)), () => number)
}

const range = (r: Reading): Constants | undefined => {
  const [from, to, step] = [0, 1, 2].map((i) => ofInput(r, i))
  if (!from || !to || !step) return undefined
  const [a, b, d] = [from, to, step].map((x) => x.numbers[0]!) as [number, number, number]
  return filled([Math.max(0, Math.ceil((b - a) / d))], from.real, ([i]) => a + i! * d)
}

const slice = (r: Reading): Constants | undefined => {
  const a = ofInput(r, 0)
  const [starts, ends] = [listAt(r, 1), listAt(r, 2)]
  if (!a || !starts || !ends) return undefined
  const axes = listAt(r, 3) ?? starts.map((_, i) => i)
  const steps = listAt(r, 4) ?? starts.map(() => 1)
  const places = a.dims.map((n) => Array.from({ length: n }, (_, i) => i) as readonly number[])
  axes.forEach((axis, i) => {
    const [at] = positive([axis], a.dims.length) as [number]
    places[at] = placesOf(starts[i]!, ends[i]!, steps[i]!, a.dims[at]!)
  })
  return selected(a, places)
}

const transposed = (r: Reading): Constants | undefined => {
  const a = ofInput(r, 0)
  if (!a) return undefined
  const perm = r.ints('perm') ?? a.dims.map((_, i) => a.dims.length - 1 - i)
  const strides = stridesOf(a.dims)
  return filled(
    perm.map((axis) => a.dims[axis]!),
    a.real,
    (place) => a.numbers[place.reduce((n, i, to) => n + i * strides[perm[to]!]!, 0)]!,
  )
}

const reshaped = (a: Constants, dims: readonly number[]): Constants =>
  elementsOf(dims) === a.numbers.length
    ? { ...a, dims }
    : refuse(`it reshapes ${a.numbers.length} constants to [${dims.join(',')}]`)

const reshape = (r: Reading): Constants | undefined => {
  const [a, to] = [ofInput(r, 0), listAt(r, 1)]
  if (!a || !to) return undefined
  const kept = to.map((n, i) => (n === 0 && r.int('allowzero', 0) === 0 ? a.dims[i]! : n))
  const known = kept.filter((n) => n !== -1).reduce((n, d) => n * d, 1)
  return reshaped(
    a,
    kept.map((n) => (n === -1 ? a.numbers.length / known : n)),
  )
}

const unsqueeze = (r: Reading): Constants | undefined => {
  const [a, axes] = [ofInput(r, 0), axesOf(r)]
  if (!a || !axes) return undefined
  const dims = [...a.dims]
  for (const axis of positive(axes, dims.length + axes.length)) dims.splice(axis, 0, 1)
  return { ...a, dims }
}

const squeeze = (r: Reading): Constants | undefined => {
  const a = ofInput(r, 0)
  if (!a) return undefined
  const axes = axesOf(r)
  const left = axes ? positive(axes, a.dims.length) : a.dims.flatMap((n, i) => (n === 1 ? [i] : []))
  return reshaped(
    a,
    a.dims.filter((_, i) => !left.includes(i)),
  )
}

const concat = (r: Reading): Constants | undefined => {
  const parts = Array.from({ length: r.inputs }, (_, i) => ofInput(r, i))
  if (!parts.every((p) => p !== undefined)) return undefined
  const { dims, real } = parts[0]!
  const [axis] = positive([r.int('axis', 0)], dims.length) as [number]
  const starts: number[] = [0]
  for (const p of parts) starts.push(starts[starts.length - 1]! + p.dims[axis]!)
  const strides = parts.map((p) => stridesOf(p.dims))
  return filled(
    dims.map((n, i) => (i === axis ? starts[parts.length]! : n)),
    real,
    (place) => {
      const of = parts.findIndex((_, i) => place[axis]! < starts[i + 1]!)
      const offset = place.reduce((n, i, a) => n + (a === axis ? i - starts[of]! : i) * strides[of]![a]!, 0)
      return parts[of]!.numbers[offset]!
    },
  )
}

/** A quotient; of whole numbers, without its fraction. */
const divided = (r: Reading): Constants | undefined => {
  const made = each((a, b) => a! / b!)(r)
  return made && (made.real ? made : { ...made, numbers: made.numbers.map(Math.trunc) })
}

/** An array several times along each axis. */
const tiled = (r: Reading): Constants | undefined => {
  const [a, times] = [ofInput(r, 0), listAt(r, 1)]
  if (!a || !times || times.every((n) => n === 1)) return a
  const dims = [...Array<number>(Math.max(0, times.length - a.dims.length)).fill(1), ...a.dims]
  const size = elementsOf(dims.map((n, axis) => n * (times[axis] ?? 1)))
  if (!(size >= 0 && size <= MOST)) return refuse(`it computes ${size} constants; allowed: at most ${MOST}`)
  return selected(
    { ...a, dims },
    dims.map((n, axis) => Array.from({ length: n * (times[axis] ?? 1) }, (_, i) => i % n)),
  )
}

/** Sums of all elements up to each place of an axis. */
const accumulated = (r: Reading): Constants | undefined => {
  const [a, at] = [ofInput(r, 0), listAt(r, 1)]
  if (!a || !at || r.int('exclusive', 0) !== 0 || r.int('reverse', 0) !== 0) return undefined
  const [axis] = positive([at[0]!], a.dims.length) as [number]
  const [stride, extent] = [stridesOf(a.dims)[axis]!, a.dims[axis]!]
  const numbers = Float64Array.from(a.numbers)
  for (let i = 0; i < numbers.length; i++) if (Math.floor(i / stride) % extent > 0) numbers[i]! += numbers[i - stride]!
  return { ...a, numbers }
}

/** An array with other elements, or other blocks of elements, at some places. */
const scattered = (r: Reading): Constants | undefined => {
  const [a, at, updates] = [0, 1, 2].map((i) => ofInput(r, i))
  if (!a || !at || !updates) return undefined
  if (r.text('reduction', 'none') !== 'none') refuse(`its reduction is ${r.text('reduction', 'none')}; allowed: none`)
  const depth = at.dims[at.dims.length - 1]!
  const strides = stridesOf(a.dims)
  const block = elementsOf(a.dims.slice(depth))
  const numbers = Float64Array.from(a.numbers)
  for (let i = 0; i < at.numbers.length / depth; i++) {
    const place = Array.from({ length: depth }, (_, axis) => at.numbers[i * depth + axis]!)
    const first = place.reduce((n, p, axis) => n + (p < 0 ? p + a.dims[axis]! : p) * strides[axis]!, 0)
    for (let j = 0; j < block; j++) numbers[first + j] = updates.numbers[i * block + j]!
  }
  return { ...a, numbers }
}

const OPERATORS: Readonly<Record<string, (r: Reading) => Constants | undefined>> = {
  Add: each((a, b) => a! + b!),
  Cast: (r) => {
    const a = ofInput(r, 0)
    const isWhole = r.int('to', 0) === ELEMENT.INT64 || r.int('to', 0) === ELEMENT.INT32
    return a && (isWhole ? { ...a, numbers: a.numbers.map(Math.trunc), real: false } : { ...a, real: true })
  },
  Concat: concat,
  ConstantOfShape: constantOfShape,
  Cos: each((a) => Math.cos(a!)),
  CumSum: accumulated,
  Div: divided,
  Equal: each((a, b) => Number(a === b), true),
  Expand: (r) => {
    const [a, to] = [ofInput(r, 0), listAt(r, 1)]
    return a && to && expanded(a, common(a.dims, to))
  },
  Floor: each((a) => Math.floor(a!)),
  Mul: each((a, b) => a! * b!),
  Not: each((a) => Number(a === 0), true),
  Pow: each((a, b) => a! ** b!),
  Range: range,
  Reshape: reshape,
  ScatterND: scattered,
  Shape: (r) => {
    const a = ofInput(r, 0)
    return a && { dims: [a.dims.length], numbers: Float64Array.from(a.dims), real: false }
  },
  Sin: each((a) => Math.sin(a!)),
  Slice: slice,
  Squeeze: squeeze,
  Sub: each((a, b) => a! - b!),
  Tile: tiled,
  Transpose: transposed,
  Unsqueeze: unsqueeze,
  Where: each((condition, a, b) => (condition !== 0 ? a! : b!)),
}
/** The operators that only arrays of constants have. */
export const OF_ARRAYS = ['Cos', 'CumSum', 'Not', 'Range', 'ScatterND', 'Sin']

/** Returns true if the node computes an array from constants. */
export const isArray = (r: Reading, op: string): boolean => {
  if (!Object.hasOwn(OPERATORS, op) || !isOfConstants(r, op)) return false
  const array = OPERATORS[op]!(r)
  if (array === undefined) return false
  const { dims, numbers, real } = array
  r.computed += numbers.length
  if (r.computed > MOST) refuse(`with it, the file computes ${r.computed} constants; allowed: at most ${MOST}`)
  if (dims.length <= 1 && numbers.length <= FEW) r.is({ tag: 'sizes', sizes: [...numbers], dims, real })
  else r.is({ tag: 'array', array })
  return true
}
