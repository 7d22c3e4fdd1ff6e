// Adaptive average pools whose windows differ in size, from ONNX nodes: products with matrices of means, and the form of PyTorch's newer exporter. It
// gathers the places of each window, masks those beyond its end, adds them one by one and divides by their number. In: the current node. Out: the layer,
// or the windows so far; false if the node is no part of a pool. Invariant: each place of a window is added exactly once.
import { adaptiveAvgPool } from '../../dsl'
import { meansOf } from './writesizes'
import { numbersOf } from './read'
import { axesOf, near, positive, type Reading, refuse } from './reading'
import type { Meaning, Weight } from './symbols'

/** Columns and then rows are pooled in one layer. */
const pooled = (r: Reading, step: number, size: readonly [number, number]): void => {
  const { layer, ins } = r.steps[step]!
  const isHalf = layer?.kind === 'adaptiveAvgPool' && r.shape(ins[0]!)[2] === r.shape(step)[2]
  r.is({ tag: 'data', step: r.layer(adaptiveAvgPool(r.named(), size), isHalf ? ins[0]! : step), form: 'image' })
}

const isMeans = (w: Weight, from: number, to: number, turned: boolean): boolean => {
  const [rows, columns] = turned ? [to, from] : [from, to]
  if (w.transposed || w.dims.join() !== [rows, columns].join() || from === to) return false
  const means = meansOf(from, to)
  return (
    numbersOf(w.tensor)?.every((n, i) => {
      const mean = means[turned ? (i % from) * to + Math.floor(i / from) : i]!
      return mean === 0 ? n === 0 : near(n, mean)
    }) === true
  )
}

/** An image times a matrix of means, or the other way round. */
export const meansProduct = (r: Reading): boolean => {
  const [a, b] = [r.symbol(0), r.symbol(1)]
  const [data, weight] = a.tag === 'weight' ? [b, a.weight] : [a, b.tag === 'weight' ? b.weight : undefined]
  if (weight === undefined || data.tag !== 'data' || data.form !== 'image' || weight.dims.length !== 2) return false
  const [, , h, w] = r.shape(data.step)
  const [rows, columns] = weight.dims as [number, number]
  if (a.tag === 'weight' && isMeans(weight, h, rows, true)) pooled(r, data.step, [rows, w])
  else if (b.tag === 'weight' && isMeans(weight, w, columns, false)) pooled(r, data.step, [h, columns])
  else return false
  return true
}

// ---------------------------------------------------------------- gathered places

type Windows = Extract<Meaning, { readonly tag: 'windows' }>
const windows = (r: Reading, i = 0): Windows | undefined => {
  const s = r.has(i) ? r.symbol(i) : undefined
  return s?.tag === 'windows' ? s : undefined
}

/** Rows and columns before batch and channels, and back. */
export const turnedWindows = (r: Reading): boolean => {
  const s = r.symbol(0)
  const perm = r.ints('perm')?.join()
  if (s.tag === 'data' && s.form === 'image' && perm === '2,3,0,1')
    r.is({ tag: 'windows', step: s.step, part: 'turned', taken: [] })
  else if (s.tag === 'windows' && s.part === 'gathered' && perm === '4,5,0,1,2,3') r.is({ ...s, part: 'all' })
  else return false
  return true
}

const start = (i: number, from: number, to: number): number => Math.floor((i * from) / to)

/** The places [rows, places, columns, places, 2] of all windows, those beyond the image at its end. */
export const gatheredWindows = (r: Reading): boolean => {
  const s = windows(r)
  if (s?.part !== 'turned' || !r.has(1)) return false
  const at = r.weight(1)
  const [, , h, w] = r.shape(s.step)
  const [n = 0, k = 0, m = 0, l = 0, two] = at.dims
  const given = at.dims.length === 5 && two === 2 ? numbersOf(at.tensor) : undefined
  const fits = given?.every((place, i) => {
    const [axis, b, j, a, o] = [
      i % 2,
      Math.floor(i / 2) % l,
      Math.floor(i / 2 / l) % m,
      Math.floor(i / 2 / l / m) % k,
      Math.floor(i / 2 / l / m / k),
    ]
    const [due, end] = axis === 0 ? [start(o, h, n) + a, h] : [start(j, w, m) + b, w]
    return place === Math.min(due, end - 1)
  })
  if (!fits) refuse('it gathers other places than the windows of an adaptive average')
  r.is({ ...s, part: 'gathered', counts: [n, m], places: [k, l] })
  return true
}

/** Places beyond a window's end become 0. */
export const maskedWindows = (r: Reading): boolean => {
  const s = windows(r, 2)
  if (s?.part !== 'all' || r.scalar(1) !== 0) return false
  r.is(s)
  return true
}

/** One place of each window: first its row, then its column. */
export const selectedMeans = (r: Reading): boolean => {
  const s = windows(r)
  const place = r.scalar(1)
  if (s === undefined || place === undefined) return false
  const axis = r.int('axis', 0)
  if (s.part === 'all' && axis === 3) r.is({ ...s, part: 'row', taken: [`${place}`] })
  else if (s.part === 'row' && axis === 4) r.is({ ...s, part: 'sum', taken: [`${s.taken[0]},${place}`] })
  else return false
  return true
}

export const addedMeans = (r: Reading): boolean => {
  const [a, b] = [windows(r, 0), windows(r, 1)]
  if (a?.part !== 'sum' || b?.part !== 'sum' || a.step !== b.step || a.counts?.join() !== b.counts?.join()) return false
  r.is({ ...a, taken: [...a.taken, ...b.taken] })
  return true
}

const length = (i: number, from: number, to: number): number => Math.ceil(((i + 1) * from) / to) - start(i, from, to)

/** The mean over windows of one size. */
export const averagedWindows = (r: Reading): boolean => {
  const s = windows(r)
  if (s?.part !== 'all') return false
  const [n, m] = s.counts!
  const [k, l] = s.places!
  const [, , h, w] = r.shape(s.step)
  const axes = positive(axesOf(r) ?? [], 6).join()
  const isEven = [n, m].every((count, i) => {
    const [from, places] = [[h, w][i]!, [k, l][i]!]
    return Array.from({ length: count }, (_, o) => length(o, from, count)).every((size) => size === places)
  })
  if (axes !== '3,5' || !isEven)
    refuse('it averages windows that differ in size; allowed: sums of all places, divided by their number')
  pooled(r, s.step, [n, m])
  return true
}

/** The sum of all places, divided by the number in each window. */
export const dividedMeans = (r: Reading): boolean => {
  const s = windows(r)
  const by = r.has(1) ? r.symbol(1) : undefined
  if (s?.part !== 'sum' || by === undefined) return false
  const [n, m] = s.counts!
  const [k, l] = s.places!
  const [, , h, w] = r.shape(s.step)
  const [numbers, dims = []] =
    by.tag === 'weight' ? [numbersOf(by.weight.tensor), by.weight.dims] : by.tag === 'sizes' ? [by.sizes, by.dims] : []
  // One number for all rows or columns stands for each of them.
  const [down = 1, across = 1] = [1, 1, ...dims].slice(-2)
  const at = (i: number, j: number): number => (down === 1 ? 0 : i) * across + (across === 1 ? 0 : j)
  const isCounts =
    [1, n].includes(down) &&
    [1, m].includes(across) &&
    Array.from({ length: n * m }, (_, o) => [Math.floor(o / m), o % m] as const).every(
      ([i, j]) => numbers?.[at(i, j)] === length(i, h, n) * length(j, w, m),
    )
  if (!isCounts || s.taken.length !== k * l || new Set(s.taken).size !== k * l)
    refuse('it divides a sum of gathered places; allowed: all places of the windows of an adaptive average, by their number')
  pooled(r, s.step, [n, m])
  return true
}
