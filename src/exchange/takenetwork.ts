// Scores of distances that a small network computes from constant coordinates: Swin V2's continuous positions. In: the current node. Out: the parts so
// far, which `attention` reads as an option; false if the node is no part of such a network. Worked example: Gemm of a table [1,15,15,2], Relu, Gemm,
// Gather at constant places, Sigmoid and Mul by 16 are one option of the layer.
import { elementsOf } from '../../staging/core/box'
import { coordinate } from '../../staging/ops/distancescores'
import { numbersOf } from './read'
import { type Reading, refuse } from './reading'
import type { Meaning, Weight } from './symbols'

export type Network = Extract<Meaning, { readonly tag: 'network' }>

const COORDINATES = 2

const put = (r: Reading, s: Network | undefined): boolean => {
  if (s !== undefined) r.is(s)
  return s !== undefined
}
const turned = (w: Weight): Weight => ({ ...w, dims: [w.dims[1]!, w.dims[0]!], transposed: !w.transposed })

/** Coordinates of two columns that the file stores. */
const coordinatesOf = (s: Meaning): Weight | undefined =>
  s.tag === 'weight' &&
  !s.weight.transposed &&
  s.weight.dims.length >= 2 &&
  s.weight.dims[s.weight.dims.length - 1] === COORDINATES
    ? s.weight
    : undefined

/** The product with a matrix: the first layer of coordinates, or the second one. */
const layered = (r: Reading, weight: Weight | undefined, bias: Weight | undefined): Network | undefined => {
  const s = r.symbol(0)
  if (weight?.dims.length !== 2) return undefined
  if (s.tag === 'network') return s.part === 'rectified' ? { ...s, part: 'scores', second: { weight, bias } } : undefined
  const coordinates = coordinatesOf(s)
  return coordinates === undefined || weight.dims[1] !== COORDINATES
    ? undefined
    : { tag: 'network', part: 'hidden', coordinates, first: { weight, bias } }
}

const weightAt = (r: Reading, i: number): Weight | undefined => {
  const s = r.has(i) ? r.symbol(i) : undefined
  return s?.tag === 'weight' ? s.weight : undefined
}

const gemm = (r: Reading): Network | undefined => {
  const weight = weightAt(r, 1)
  return layered(r, weight && (r.int('transB', 0) === 1 ? weight : turned(weight)), weightAt(r, 2))
}
const product = (r: Reading): Network | undefined => {
  const weight = weightAt(r, 1)
  return layered(r, weight?.dims.length === 2 ? turned(weight) : undefined, undefined)
}

const added = (r: Reading, s: Network, other: number): Network | undefined => {
  const bias = weightAt(r, other)
  if (bias?.dims.length !== 1) return undefined
  if (s.part === 'hidden' && !s.first.bias) return { ...s, first: { ...s.first, bias } }
  return s.part === 'scores' && !s.second!.bias && !s.isBounded ? { ...s, second: { ...s.second!, bias } } : undefined
}

/** Nodes that keep the numbers: their order is checked at the end. */
const KEEPING = ['Cast', 'Dropout', 'Identity', 'Reshape', 'Squeeze', 'Unsqueeze']

const partOf = (r: Reading, op: string): Network | undefined => {
  const s = [0, 1].map((i) => (r.has(i) ? r.symbol(i) : undefined))
  const at = s.findIndex((x) => x?.tag === 'network')
  const own = s[at]
  if (op === 'Gemm') return gemm(r)
  if (op === 'MatMul') return product(r)
  if (own?.tag !== 'network') return undefined
  if (op === 'Add') return added(r, own, 1 - at)
  if (op === 'Relu') return own.part === 'hidden' ? { ...own, part: 'rectified' } : undefined
  if (op === 'Sigmoid') return own.part === 'scores' && !own.isBounded ? { ...own, isBounded: true, bound: 1 } : undefined
  if (op === 'Mul') {
    const factor = r.scalar(1 - at)
    return factor !== undefined && own.isBounded ? { ...own, bound: own.bound! * factor } : undefined
  }
  if (op === 'Gather' && at === 0 && r.int('axis', 0) === 0 && own.index === undefined) {
    const places = s[1]
    const index =
      places?.tag === 'weight' ? numbersOf(places.weight.tensor) : places?.tag === 'sizes' ? places.sizes.map(Number) : undefined
    return index && { ...own, index }
  }
  if (op === 'Transpose') {
    const perm = r.ints('perm')?.join()
    return perm === '2,0,1' || perm === '1,0' ? { ...own, headsFirst: true } : undefined
  }
  return KEEPING.includes(op) && at === 0 ? own : undefined
}

/** Returns true for a part of a network of distances. */
export const networkPart = (r: Reading, op: string): boolean => put(r, partOf(r, op))

// ---------------------------------------------------------------- its option

/** Factors of coordinates: those of Swin V2, and of its variants. */
const FACTORS = [1 / Math.log(8), 1]
const MOST_STEPS = 128
/** Single precision of stored coordinates. */
const CLOSE = 1e-5

const isClose = (a: number, b: number): boolean => Math.abs(a - b) <= CLOSE * Math.max(1, Math.abs(b))

/** A number that is 8 divided by a whole number, as Swin V2 has it, if it is near one. */
const rounded = (reach: number): number => {
  const steps = Array.from({ length: MOST_STEPS }, (_, i) => 8 / (i + 1))
  return steps.find((n) => Math.abs(n - reach) <= CLOSE * n) ?? reach
}

export interface Distances {
  readonly reach: readonly [number, number]
  readonly factor: number
}

/** The factors of the distances of all pairs of pixels of a window. Refuses coordinates of another form. */
export const distancesOf = (s: Network, [height, width]: readonly [number, number]): Distances => {
  const numbers = numbersOf(s.coordinates.tensor) ?? refuse('the coordinates of its network are no floats')
  const count = height * width
  const places = s.index ?? Array.from({ length: count * count }, (_, i) => i)
  if (places.length !== count * count || (s.index === undefined && numbers.length !== COORDINATES * places.length))
    return refuse(`it adds scores of ${places.length} pairs to those of ${count * count}`)
  const pairs = places.map((place, i) => {
    const [q, k] = [Math.floor(i / count), i % count]
    const apart = [Math.floor(q / width) - Math.floor(k / width), (q % width) - (k % width)] as const
    return { apart, at: [numbers[COORDINATES * place]!, numbers[COORDINATES * place + 1]!] as const }
  })
  const reachOf = (axis: 0 | 1, factor: number): number | undefined => {
    const one = pairs.find(({ apart }) => apart[axis] === 1)
    const reach = one === undefined ? 1 : rounded(Math.expm1(one.at[axis] / factor))
    const fits = pairs.every(({ apart, at }) => isClose(at[axis], coordinate(apart[axis], reach, factor)))
    return reach > 0 && fits ? reach : undefined
  }
  for (const factor of FACTORS) {
    const [h, w] = [reachOf(0, factor), reachOf(1, factor)]
    if (h !== undefined && w !== undefined) return { reach: [h, w], factor }
  }
  return refuse('the coordinates of its network are not sign(d)·log(1 + reach·|d|)·factor of distances d; allowed: these')
}

/** The weights of the network with their sizes, and the names of its layers within a module. */
export const networkWeights = (
  s: Network,
  module: string,
  heads: number,
): {
  readonly names: readonly [string, string]
  readonly hidden: number
  readonly own: readonly (readonly [string, Weight, readonly number[]])[]
} => {
  const { first, second } = s
  if (s.part !== 'scores' || second === undefined || s.headsFirst !== true || first.bias === undefined)
    return refuse('it adds a part of a network of distances; allowed: two layers with a bias of the first, and the heads first')
  const [hidden] = first.weight.dims as [number]
  if (second.weight.dims.join() !== [heads, hidden].join() || elementsOf(first.bias.dims) !== hidden)
    return refuse(`the second layer of its network is [${second.weight.dims.join(',')}]; allowed: [${heads},${hidden}]`)
  const named = [first, second].map(({ weight }) => /^(.*)\.weight$/.exec(weight.tensor.name)?.[1])
  const isWithin = named.every((name) => name?.startsWith(`${module}.`))
  const names = (isWithin ? named.map((name) => name!.slice(module.length + 1)) : ['cpb_mlp.0', 'cpb_mlp.2']) as [string, string]
  return {
    names,
    hidden,
    own: [
      [`${names[0]}.weight`, first.weight, [hidden, COORDINATES]],
      [`${names[0]}.bias`, first.bias, [hidden]],
      [`${names[1]}.weight`, second.weight, [heads, hidden]],
      ...(second.bias ? [[`${names[1]}.bias`, second.bias, [heads]] as const] : []),
    ],
  }
}
