// Arrays that a program of torch.export computes from constants alone: torchvision writes the masks of shifted windows so, in place. In: the current
// node. Out: its result as numbers in strided memory; false if it reads other values. Invariant: weights alone are never computed with. A view shares
// the memory of its array, so that a change in place is visible in both. Worked example: new_zeros, slice and fill_ give the regions of a rolled image.
import { elementsOf } from '../../staging/core/box'
import { fault, type Lowering } from './lowering'
import { numbersOf } from './read'
import { broadcast, dense, eachPlace, numbersIn, type Strided } from './strided'

/** Elements of one array. */
const MOST = 1 << 24

const filled = (sizes: readonly number[], n: number): Strided =>
  elementsOf(sizes) <= MOST
    ? { memory: new Float64Array(elementsOf(sizes)).fill(n), sizes, strides: dense(sizes), offset: 0 }
    : fault(`it computes ${elementsOf(sizes)} constants; allowed: at most ${MOST}`)

// ---------------------------------------------------------------- arguments

/** A tensor of the program that is known: a computed array, or one number of the file. */
const known = (l: Lowering, name: string): Strided | undefined => {
  const computed = l.arrays.get(name)
  const held = computed === undefined ? l.program.tensors.get(l.nameOf(name)) : undefined
  const numbers = held !== undefined && elementsOf(held.dims) === 1 ? numbersOf(held) : undefined
  return computed ?? (numbers && { ...filled(held!.dims, numbers[0]!) })
}
const self = (l: Lowering): Strided => known(l, l.names('self')[0]!)!
/** A tensor or a number. */
const operand = (l: Lowering, name: string): Strided => known(l, l.names(name)[0] ?? '') ?? filled([], l.number(name, 0))

// ---------------------------------------------------------------- operators

type Compute = (l: Lowering) => Strided
const full =
  (n?: number): Compute =>
  (l) =>
    filled(l.result(), n ?? l.number('fill_value', 0))

const each =
  (f: (a: number, b: number) => number, other = 'other'): Compute =>
  (l) => {
    const [a, b] = [self(l), operand(l, other)].map((x) => numbersIn(broadcast(x, l.result()))) as [Float64Array, Float64Array]
    return { ...filled(l.result(), 0), memory: a.map((x, i) => f(x, b[i]!)) }
  }

const unary =
  (f: (a: number) => number): Compute =>
  (l) => ({ ...filled(l.result(), 0), memory: numbersIn(self(l)).map((x) => f(x)) })

/** A quotient, rounded if the operator says so. */
const divided: Compute = (l) => {
  const mode = l.text('rounding_mode', '')
  return each((a, b) => (mode === 'floor' ? Math.floor(a / b) : mode === 'trunc' ? Math.trunc(a / b) : a / b))(l)
}

const power: Compute = (l) => {
  const [base, exponent] = [operand(l, 'self'), operand(l, 'exponent')].map((x) => numbersIn(broadcast(x, l.result())))
  return { ...filled(l.result(), 0), memory: base!.map((x, i) => x ** exponent![i]!) }
}

const converted: Compute = (l) => {
  const type = l.program.values.get(l.output())?.type
  return unary((a) => (type === 'BOOL' ? Number(a !== 0) : type === 'F32' ? a : Math.trunc(a)))(l)
}

/** Sums of all elements up to each place of an axis. */
const accumulated: Compute = (l) => {
  const a = copy(self(l))
  const axis = l.axis('dim', a.sizes.length, 0)
  const [stride, extent] = [a.strides[axis]!, a.sizes[axis]!]
  for (let i = 0; i < a.memory.length; i++) if (Math.floor(i / stride) % extent > 0) a.memory[i]! += a.memory[i - stride]!
  return a
}

/** An array several times along each axis. */
const repeated: Compute = (l) => {
  const a = self(l)
  const to = filled(l.result(), 0)
  const own = [...Array<number>(to.sizes.length - a.sizes.length).fill(1), ...a.sizes]
  const strides = [...Array<number>(to.sizes.length - a.sizes.length).fill(0), ...a.strides]
  eachPlace(to, (place, i) => {
    const from = own.reduce(
      (n, size, axis) => n + ((Math.floor(i / to.strides[axis]!) % to.sizes[axis]!) % size) * strides[axis]!,
      a.offset,
    )
    to.memory[place] = a.memory[from]!
  })
  return to
}

const sequence: Compute = (l) => {
  const [start, step] = [l.number('start', 0), l.number('step', 1)]
  const array = filled(l.result(), 0)
  return { ...array, memory: array.memory.map((_, i) => start + i * step) }
}

/** Arrays one after the other, along an axis or along a new one. */
const concatenated =
  (isNew: boolean): Compute =>
  (l) => {
    const to = filled(l.result(), 0)
    const axis = l.axis('dim', to.sizes.length, 0)
    let at = 0
    for (const name of l.names('tensors')) {
      const given = l.arrays.get(name)!
      const part = isNew ? { ...given, sizes: to.sizes.map((n, i) => (i === axis ? 1 : n)) } : given
      const numbers = numbersIn(given)
      const place = { sizes: part.sizes, strides: to.strides, offset: at * to.strides[axis]! }
      eachPlace(place, (p, i) => (to.memory[p] = numbers[i]!))
      at += part.sizes[axis]!
    }
    return to
  }

const maskedFill: Compute = (l) => {
  const [a, mask, value] = [self(l), operand(l, 'mask'), operand(l, 'value')].map((x) => numbersIn(broadcast(x, l.result())))
  return { ...filled(l.result(), 0), memory: a!.map((x, i) => (mask![i] === 0 ? x : value![i]!)) }
}

/** The result of a change in place is the changed array. */
const assigned =
  (name: string): Compute =>
  (l) => {
    const to = self(l)
    if (l.copied.has(to.memory))
      return fault('it changes an array that was reshaped to a copy; use the operator that is not in place')
    const from = numbersIn(broadcast(operand(l, name), to.sizes))
    eachPlace(to, (place, i) => (to.memory[place] = from[i]!))
    return to
  }

const sliced: Compute = (l) => {
  const a = self(l)
  const axis = l.axis('dim', a.sizes.length, 0)
  const extent = a.sizes[axis]!
  const [start, step] = [l.number('start', 0), l.number('step', 1)]
  const from = Math.min(Math.max(start < 0 ? start + extent : start, 0), extent)
  const strides = a.strides.map((s, i) => (i === axis ? s * step : s))
  return { ...a, sizes: l.result(), strides, offset: a.offset + from * a.strides[axis]! }
}

const selected: Compute = (l) => {
  const a = self(l)
  const axis = l.axis('dim', a.sizes.length, 0)
  const at = l.axis('index', a.sizes[axis]!, 0)
  const without = (list: readonly number[]): readonly number[] => list.filter((_, i) => i !== axis)
  return { ...a, sizes: without(a.sizes), strides: without(a.strides), offset: a.offset + at * a.strides[axis]! }
}

const permuted = (a: Strided, order: readonly number[]): Strided => ({
  ...a,
  sizes: order.map((i) => a.sizes[i]!),
  strides: order.map((i) => a.strides[i]!),
})
const permute: Compute = (l) => {
  const a = self(l)
  return permuted(
    a,
    (l.list('dims') ?? []).map((i) => (i < 0 ? i + a.sizes.length : i)),
  )
}
const exchange: Compute = (l) => {
  const a = self(l)
  const [x, y] = [l.axis('dim0', a.sizes.length, 0), l.axis('dim1', a.sizes.length, 1)]
  return permuted(
    a,
    a.sizes.map((_, i) => (i === x ? y : i === y ? x : i)),
  )
}

/** An axis of size 1 more or less changes no places. */
const unsqueeze: Compute = (l) => {
  const a = self(l)
  const axis = l.axis('dim', a.sizes.length + 1, 0)
  return { ...a, sizes: l.result(), strides: [...a.strides.slice(0, axis), 0, ...a.strides.slice(axis)] }
}

const copy = (a: Strided): Strided => ({ memory: numbersIn(a), sizes: a.sizes, strides: dense(a.sizes), offset: 0 })

/** A copy, unless the array is in C order. PyTorch may share the memory of others, too: neither array may change after it. */
const reshape: Compute = (l) => {
  const a = self(l)
  const isDense = a.sizes.every((n, i) => n === 1 || a.strides[i] === dense(a.sizes)[i])
  const { memory, offset } = isDense ? a : copy(a)
  if (!isDense) for (const held of [a.memory, memory]) l.copied.add(held)
  return { memory, sizes: l.result(), strides: dense(l.result()), offset }
}

const CREATED: Readonly<Record<string, Compute>> = {
  arange: sequence,
  full: full(),
  new_full: full(),
  new_ones: full(1),
  new_zeros: full(0),
  ones: full(1),
  zeros: full(0),
}
const COMPUTED: Readonly<Record<string, Compute>> = {
  add: each((a, b) => a + b),
  alias: self,
  bitwise_not: unary((a) => Number(a === 0)),
  cat: concatenated(false),
  clone: (l) => copy(self(l)),
  contiguous: reshape,
  copy: assigned('src'),
  cos: unary(Math.cos),
  cumsum: accumulated,
  detach: self,
  div: divided,
  eq: each((a, b) => Number(a === b)),
  expand: (l) => broadcast(self(l), l.result()),
  fill: assigned('value'),
  flatten: reshape,
  masked_fill: maskedFill,
  mul: each((a, b) => a * b),
  ne: each((a, b) => Number(a !== b)),
  permute,
  pow: power,
  repeat: repeated,
  reshape,
  select: selected,
  sin: unary(Math.sin),
  slice: sliced,
  stack: concatenated(true),
  sub: each((a, b) => a - b),
  to: converted,
  transpose: exchange,
  unsqueeze,
  view: reshape,
}
/** Operators that change their first argument, beside those named by an underscore. */
const IN_PLACE = ['copy', 'fill']

/** Returns true if the node is computed from constants. */
export const isArrayNode = (l: Lowering, name: string, inPlace: boolean): boolean => {
  if (Object.hasOwn(CREATED, name) && l.outputs.length === 1) {
    l.arrays.set(l.output(), CREATED[name]!(l))
    return true
  }
  const given = ['self', 'tensors', 'exponent'].flatMap((a) => l.names(a))
  if (!Object.hasOwn(COMPUTED, name) || given.length === 0 || !given.every((v) => l.arrays.has(v))) return false
  if (l.number('alpha', 1) !== 1) return fault('it has an alpha; allowed: 1')
  const others = ['other', 'mask', 'value', 'src'].flatMap((a) => l.names(a))
  if (others.some((v) => known(l, v) === undefined))
    return fault('it computes with a constant array and a value of the image; allowed: masks of shifted windows')
  if (inPlace !== IN_PLACE.includes(name)) return fault('it changes an array in place; allowed: fill, copy')
  l.arrays.set(l.output(), COMPUTED[name]!(l))
  return true
}
