// Rotary positions, from ONNX nodes: x times cosines plus exchanged pairs of x times sines, both tables of numbers. In: the current node. Out: the parts
// so far, or the layer `rotary` with the angles that the tables have; false if the node is no part. Invariant: each number of the tables is compared
// with the layer's. Worked example: rows of a table with the cosines 1, cos 1 and cos 2 have a step of 1.
import { affine, channelShuffle, type Rotary, rotary } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { rotation } from '../../staging/ops/rotate'
import { channelsOf } from './channels'
import { type Constants, numbersOf } from './read'
import { type Reading, refuse } from './reading'
import type { Axis, Meaning, View, Weight } from './symbols'
import type { Step } from './ways'
import { isRow, joined, meaningOf, sizeOf, viewOf } from './views'

type Rotated = Extract<Meaning, { readonly tag: 'rotated' }>

const viewIn = (r: Reading, s: Meaning): View | undefined =>
  s.tag === 'view' || s.tag === 'data' ? viewOf(s, (step) => r.shape(step)) : undefined
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
const put = (r: Reading, view: View): true => {
  r.is(meaningOf(view, r.shape(view.step)))
  return true
}

// ---------------------------------------------------------------- pairs of channels

/** The negative second channels and the first channels of pairs, joined along a new last axis: exchanged pairs. */
export const exchangedPairs = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const [second, first] = symbols.map((s) => (s.tag === 'view' ? s.view : undefined))
  if (symbols.length !== 2 || !second || !first || second.step !== first.step || !same(second.axes, first.axes)) return false
  const [channels, one] = first.axes.slice(-2)
  const [atom, ...more] = channels ?? []
  const stride = (atom?.stride ?? 0) / 2
  const arePairs = atom?.dim === 'C' && more.length === 0 && one?.length === 0 && second.from === first.from + stride
  if (!arePairs || second.factor !== -first.factor) return false
  const axes = [...first.axes.slice(0, -2), [{ ...atom, stride, size: 2 * atom.size }]]
  r.is({ tag: 'rotated', part: 'pairs', view: { ...first, axes } })
  return true
}

/** Exchanged pairs with each pair in the axis of the channels. */
export const reshapedPairs = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'rotated') return false
  const sizes = s.view.axes.map(sizeOf)
  const asked = r.numbers(1)?.map((d, i) => (d === 'batch' ? 1 : d === 0 ? sizes[i]! : d)) ?? []
  const isSame = asked.length === sizes.length && asked.every((d, i) => d === sizes[i] || d === -1)
  if (s.part !== 'pairs' || !isSame) return refuse('it reshapes exchanged pairs of channels; allowed: channels of a head again')
  r.is(s)
  return true
}

/** The numbers of a table [pixels, channels]; undefined for other values, and for trained ones. */
const tableOf = (s: Meaning, view: View): Weight | undefined => {
  const sizes = view.axes.slice(-2).map(sizeOf)
  if (s.tag !== 'weight' || s.weight.transposed || sizes.some((n) => n < 2)) return undefined
  const { dims } = s.weight
  return dims.length >= 2 && dims.slice(-2).join() === sizes.join() && elementsOf(dims) === sizes[0]! * sizes[1]!
    ? s.weight
    : undefined
}

/** Channels or exchanged pairs of them, times a table. Returns false for other products. */
export const rotaryProduct = (r: Reading): boolean => {
  for (const [at, other] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const s = r.symbol(at)
    const view = s.tag === 'rotated' && s.part === 'pairs' ? s.view : viewIn(r, s)
    const table = view && tableOf(r.symbol(other), view)
    if (!view || !table) continue
    r.is({ tag: 'rotated', part: s.tag === 'rotated' ? 'sines' : 'cosines', view, table })
    return true
  }
  return false
}

// ---------------------------------------------------------------- angles

type Angles = Omit<Parameters<typeof rotation>[0], 'head'>

/** An angle that differs from this one by whole turns, the nearest to another angle. */
const unwound = (angle: number, near: number): number => angle + 2 * Math.PI * Math.round((near - angle) / (2 * Math.PI))
const rounded = (n: number, digits: number): number => Number(n.toPrecision(digits))

/** The angles of tables of sines and cosines; undefined if the tables have others. */
const anglesIn = (cosines: readonly number[], sines: readonly number[], head: number): Angles | undefined => {
  const [tokens, quarter] = [cosines.length / head, head / 4]
  const at = (token: number, pair: number): number => {
    const i = token * head + 2 * pair
    return token < tokens ? Math.atan2(sines[i]!, cosines[i]!) : 0
  }
  /** The largest difference, in units of the precision of single numbers. */
  const errorOf = (a: Angles): number =>
    cosines.reduce((most, cosine, i) => {
      const angle = rotation({ ...a, head }, Math.floor(i / head), Math.floor((i % head) / 2))
      const error = Math.max(Math.abs(Math.cos(angle) - cosine), Math.abs(Math.sin(angle) - sines[i]!))
      return Math.max(most, error / (1e-6 * (4 + Math.abs(angle))))
    }, 0)
  const near = (a: number, b: number): boolean => Math.abs(a - b) < 1e-6
  for (let skip = 0; skip < Math.min(tokens, MOST_SKIPPED); skip++) {
    const columns = Array.from({ length: tokens - skip }, (_, i) => at(skip + i, 0)).findIndex(
      (angle) => !near(angle, at(skip, 0)),
    )
    const width = columns < 0 ? tokens - skip : columns
    if ((tokens - skip) % width !== 0) continue
    // The slowest pair turns by less than a whole turn. Its angles determine the number of whole turns of the fastest one.
    const slowest = quarter - 1
    const turned = (pair: number, token: number, from: number): number => at(token, pair) - at(from, pair)
    const base =
      quarter === 1
        ? 10000
        : (turned(quarter + slowest, skip + 1, skip) / turned(quarter + slowest - 1, skip + 1, skip)) ** -quarter
    const faster = base ** (slowest / quarter)
    /** The step between neighbours, from the first and the last of a row or of a column. */
    const stepOf = (half: number, distance: number, count: number): number => {
      const token = skip + distance
      const near = unwound(turned(half, token, skip), turned(half + slowest, token, skip) * faster)
      return unwound(turned(half, skip + distance * count, skip), near * count) / count
    }
    const rows = (tokens - skip) / width
    const across = stepOf(quarter, 1, width - 1)
    const down = rows === 1 ? across : stepOf(0, width, rows - 1)
    const first = unwound(at(skip, quarter), at(skip, quarter + slowest) * faster) / across
    if (![first, base, down, across].every(Number.isFinite) || base <= 0) continue
    let found: Angles = { skip, columns: width, stepH: down, stepW: across, first, base }
    if (errorOf(found) > 1) continue
    // The shortest number that is about as near, for each in turn.
    for (const name of ['base', 'first', 'stepH', 'stepW'] as const) {
      const most = Math.max(2 * errorOf(found), NEGLIGIBLE)
      const tried = DIGITS.map((digits): Angles => ({ ...found, [name]: rounded(found[name], digits) }))
      found = tried.find((angles) => errorOf(angles) <= most) ?? found
    }
    return found
  }
  return undefined
}
/** An error that rounding to single numbers also makes. */
const NEGLIGIBLE = 0.02
/** Numbers of digits of angles that are tried. */
const DIGITS = Array.from({ length: 15 }, (_, i) => i + 1)
/** Class tokens and registers before the pixels. */
const MOST_SKIPPED = 32

/** The sum of both products: the layer. Returns false for other sums. */
export const rotarySum = (r: Reading): boolean => {
  const parts = [r.symbol(0), r.symbol(1)].filter((s): s is Rotated => s.tag === 'rotated')
  const [cosines, sines] = ['cosines', 'sines'].map((part) => parts.find((s) => s.part === part))
  if (parts.length === 0) return false
  if (!cosines?.table || !sines?.table || !same(cosines.view, sines.view))
    return refuse('it adds a part of rotated channels; allowed: channels times cosines, and their exchanged pairs times sines')
  const { view } = cosines
  const own = r.compact(view)
  const [tokens, channels] = own.axes.slice(-2) as [Axis, Axis]
  const head = sizeOf(channels)
  const isHead = channels.length === 1 && channels[0]!.dim === 'C' && channels[0]!.stride === 1 && head % 4 === 0
  const [numbers, others] = [cosines.table, sines.table].map((w) => numbersOf(w.tensor))
  const angles = isHead && isRow(tokens, r.shape(own.step)) && numbers && others ? anglesIn(numbers, others, head) : undefined
  if (angles === undefined)
    return refuse(
      'its tables are not cosines and sines of rows and columns; allowed: angles (place + first)·step·base^(−j/n) of all pixels',
    )
  return put(r, { ...own, step: rotaryBehind(r, own.step, head, angles) })
}

const rotaryBehind = (r: Reading, step: number, head: number, { skip, columns, stepH, stepW, first, base }: Angles): number =>
  r.layer(
    rotary(head, {
      ...(skip === 0 ? {} : { skip }),
      ...(skip === 0 && columns === r.shape(step)[3] ? {} : { columns }),
      step: stepH === stepW ? stepH : [stepH, stepW],
      first,
      base,
    }),
    step,
  )

// ---------------------------------------------------------------- tokens in front of the pixels

/** The value and the first token of a part of its tokens. */
const partOf = (r: Reading, step: number): { readonly step: number; readonly from: number } | undefined => {
  const before = (at: number, kind: string): number => (r.steps[at]?.layer?.kind === kind ? r.steps[at]!.ins[0]! : -1)
  const slice = before(step, 'turnPixels')
  const source = before(before(slice, 'sliceChannels'), 'turnPixels')
  return source < 0 ? undefined : { step: source, from: (r.steps[slice]!.layer as unknown as { readonly from: number }).from }
}

/** Tokens of a value, then its other tokens with rotary positions: the layer for all of them. Undefined for other values. */
export const rotaryOfRest = (r: Reading, first: number, rest: number): number | undefined => {
  const { layer, ins } = r.steps[rest]!
  if (layer?.kind !== 'rotary') return undefined
  const [kept, rotated] = [partOf(r, first), partOf(r, ins[0]!)]
  const count = r.shape(first)[3]
  const isWhole = kept?.from === 0 && rotated?.from === count && kept.step === rotated.step
  if (!isWhole || r.shape(kept.step)[3] !== count + r.shape(rest)[3]) return undefined
  const { head, skip, columns, step, first: origin, base } = layer as Rotary
  const width = columns === 0 ? r.shape(rest)[3] : columns
  const angles: Angles = { skip: count, columns: width, stepH: step[0], stepW: step[1], first: origin, base }
  return skip === 0 ? rotaryBehind(r, kept.step, head, angles) : undefined
}

/** Pixels of a row of a view, as a value of their own. */
export const tokensOf = (r: Reading, view: View, axis: number, from: number, count: number): View => {
  const own = r.compact(view)
  const shape = r.shape(own.step)
  if (shape[2] !== 1 || !isRow(own.axes[axis], shape))
    return refuse(`it takes a part of axis ${axis}, which is not of channels or of pixels in a row; allowed: these`)
  const step = r.partOfRow(own.step, from, count)
  const row = joined([{ dim: 'W', stride: 1, size: count }])
  return { ...own, step, axes: own.axes.map((a, i) => (i === axis ? row : a)) }
}

// ---------------------------------------------------------------- sines and cosines of places

/** The latest value with these numbers of rows and columns. */
const besideOf = (r: Reading, height: number, width: number): number => {
  const isBeside = ({ kind, shape: [, , h, w] }: Step): boolean => kind !== 'input' && h === height && w === width
  const at = r.steps.map(isBeside).lastIndexOf(true)
  return at < 0 ? refuse(`it computes with ${height}x${width} constants; allowed: as many as an earlier value has pixels`) : at
}

/** Constants that are sines and cosines of rows and columns, as an image: rotations of pairs (0, 1). XCiT and EdgeNeXt convolve them. */
export const imageOfPlaces = (r: Reading, { dims, numbers }: Constants): number => {
  const [images, c, h, w] = dims as readonly [number, number, number, number]
  const [pixels, size] = [h * w, c * h * w]
  const isOne = dims.length === 4 && numbers.every((n, i) => n === numbers[i % size])
  const at = (token: number, channel: number): number => numbers[channel * pixels + token]!
  const table = (f: (token: number, pair: number) => number): readonly number[] =>
    Array.from({ length: size }, (_, i) => f(Math.floor(i / c), Math.floor((i % c) / 2)))
  const [cosines, sines] = [table((t, pair) => at(t, 2 * pair + 1)), table((t, pair) => -at(t, 2 * pair))]
  const angles = isOne && images > 0 && c % 4 === 0 ? anglesIn(cosines, sines, c) : undefined
  if (angles === undefined)
    return refuse(
      `it convolves constants [${dims.join(',')}]; allowed: sines and cosines of (place + first)·step·base^(−j/n), in pairs`,
    )
  const beside = besideOf(r, h, w)
  const [b, own] = r.shape(beside)
  const copies = Math.ceil(c / 2 / own)
  const wide = copies === 1 ? beside : r.joined(Array<number>(copies).fill(beside), () => [b, copies * own, h, w])
  const half = (n: number): number => r.layer(affine(0, n), channelsOf(r, wide, 0, c / 2))
  const pairs = r.layer(
    channelShuffle(2),
    r.joined([half(0), half(1)], () => [b, c, h, w]),
  )
  return rotaryBehind(r, pairs, c, angles)
}
