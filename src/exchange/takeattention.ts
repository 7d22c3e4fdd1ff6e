// Attention, from ONNX nodes: products of queries and keys, their scale and bias, softmax, and the product with values. In: the current node. Out: the
// scores so far, or the layer `attention` behind the layer that computes all queries, keys and values. Invariant: the places of heads, tokens and
// groups are read from the views; arrangements without an option of the layer are refused.
import * as E from 'fp-ts/Either'
import { attention as attentionOf, maxPool, sliceChannels, upsample } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { distances, distancesBehindToken, MOST_HEAD_CHANNELS, tableOf } from '../../staging/ops/attention'
import { sidesOf } from './writeattention'
import { numbersOf } from './read'
import { near, type Reading, refuse, shortest } from './reading'
import type { Atom, Axis, Meaning, Scores, View, Weight } from './symbols'
import { equalHeads } from './takeheads'
import { distancesOf, type Network, networkWeights } from './takenetwork'
import { matrixProduct, productByEquation, scoresAsView, settleScores, turned } from './takematrices'
import { isRow, meaningOf, reshaped, sizeOf, viewOf } from './views'

/** PyTorch's mask between pixels of opposite borders. */
const LEAST_MASK = -100

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
const viewAt = (r: Reading, i: number): View | undefined => viewOf(r.symbol(i), (step) => r.shape(step))

/** The sizes of heads and channels, without the tokens. */
const headSizes = ({ axes }: View): readonly number[] => [...axes.slice(0, -2), axes[axes.length - 1]!].map(sizeOf)

/** All pixels of all heads of a value, in order; one head may stand for all. */
const isWhole = (r: Reading, { step, axes }: View): boolean =>
  isRow(axes[axes.length - 2], r.shape(step)) && [...axes.slice(0, -2), axes[axes.length - 1]!].flat().every((a) => a.dim === 'C')

/** Returns true if queries attend to all pixels of another value, or to those of one head for all. */
const areApart = (r: Reading, q: View, k: View): boolean => {
  const [own, other] = [headSizes(q), headSizes(k)]
  const fits = own.length === other.length && own.every((n, i) => n === other[i] || (other[i] === 1 && i < own.length - 1))
  return fits && isWhole(r, q) && isWhole(r, k)
}

const putView = (r: Reading, view: View): void => r.is(meaningOf(view, r.shape(view.step)))

/** Queries times keys, both as [..., tokens, channels]; other values as matrices. */
const scored = (r: Reading, q: View, k: View): void => {
  const areTokensChannels = q.axes[q.axes.length - 2]!.some((a) => a.dim === 'C')
  if (areTokensChannels || (!same(q.axes, k.axes) && !areApart(r, q, k))) putView(r, matrixProduct(r, q, turned(k)))
  else r.is({ tag: 'scores', scores: { q, k, factor: q.factor * k.factor, soft: false } })
}

/** Returns true for shares that only products of matrices multiply by values. */
const areMatrices = (r: Reading, { q, k, soft, bias, mask }: Scores, v: View): boolean => {
  const [head, wide] = [q, v].map(({ axes }) => sizeOf(axes[axes.length - 1]!)) as [number, number]
  const isWithout = wide < head || Math.max(head, wide) > MOST_HEAD_CHANNELS
  return !soft || (isWithout && !bias && !mask && areApart(r, q, k))
}

/** A product of two computed values; false if one is none. */
export const attentionProduct = (r: Reading): boolean => {
  const [a, second] = [r.symbol(0), r.symbol(1)]
  if (second.tag === 'scores') return attendedTurned(r, second.scores)
  const b = viewAt(r, 1)
  if (b === undefined) return false
  if (a.tag === 'scores') {
    if (a.scores.turned || areMatrices(r, a.scores, b)) {
      putView(r, matrixProduct(r, scoresAsView(r, a.scores), b))
      return true
    }
    attended(r, a.scores, b)
    return true
  }
  const q = viewAt(r, 0)
  if (q === undefined) return false
  scored(r, q, turned(b))
  return true
}

/** torchvision's MaxViT writes both products as Einsum. */
export const einsum = (r: Reading): void => {
  if (lookedUpTable(r, r.text('equation', '').replace(/\s/g, ''))) return
  const [ins = '', out = ''] = r.text('equation', '').replace(/\s/g, '').split('->')
  const [a = '', b = ''] = ins.split(',')
  const batch = a.slice(0, -2)
  const [i, d] = [...a.slice(-2)]
  const j = [...b.slice(-2)].find((letter) => letter !== d)
  const s = r.symbol(0)
  const [q, v] = [viewAt(r, 0), viewAt(r, 1)]
  const isOut = out === `${batch}${i}${j}`
  const product = q === undefined || v === undefined ? undefined : productByEquation(r, `${a},${b}->${out}`, q, v)
  if (product !== undefined) putView(r, product)
  else if (isOut && v !== undefined && s.tag === 'scores' && b === `${batch}${d}${j}`) attended(r, s.scores, v)
  else if (isOut && v !== undefined && q !== undefined && b === `${batch}${j}${d}`) scored(r, q, v)
  else refuse(`its equation is '${r.text('equation', '')}'; allowed: products of queries and keys, and of scores and values`)
}

// ---------------------------------------------------------------- scale and bias

/** A view or scores times a number; false for others. */
export const scaledScores = (r: Reading, i: number, factor: number | undefined): boolean => {
  const s = r.symbol(i)
  if (factor === undefined || (s.tag !== 'view' && s.tag !== 'scores')) return false
  if (s.tag === 'scores' && s.scores.soft) return refuse('it multiplies a softmax by a number; allowed: scores before it')
  r.is(
    s.tag === 'view'
      ? { tag: 'view', view: { ...s.view, factor: s.view.factor * factor } }
      : { tag: 'scores', scores: { ...s.scores, factor: s.scores.factor * factor } },
  )
  return true
}

/** The largest logarithm of a factor in Swin V2. */
const MOST_EXPONENT = Math.log(100)

/** Trained numbers of at most a constant, and their exponentials: factors of cosines. Returns false for other nodes. */
export const exponentsPart = (r: Reading, op: string): boolean => {
  const s = r.has(0) ? r.symbol(0) : undefined
  if (s?.tag === 'exponents') {
    const isKept = ['Reshape', 'Unsqueeze', 'Squeeze', 'Identity'].includes(op)
    if (isKept) r.is(s)
    if (op === 'Exp' && !s.areRaised) r.is({ ...s, areRaised: true })
    return isKept || (op === 'Exp' && !s.areRaised)
  }
  if (s?.tag !== 'weight' || elementsOf(s.weight.dims) === 1 || (op !== 'Clip' && op !== 'Min')) return false
  const most = op === 'Min' ? r.scalar(1) : r.has(2) && !r.has(1) ? r.scalar(2) : undefined
  if (most === undefined) return false
  r.is({ tag: 'exponents', weight: s.weight, most, areRaised: false })
  return true
}

/** The logarithms of stored factors of heads: exporters compute the factors. */
const exponentsOf = (weight: Weight): Extract<Meaning, { tag: 'exponents' }> | undefined => {
  const numbers = numbersOf(weight.tensor)
  if (!numbers?.every((n) => n > 0 && n <= 100 * (1 + 1e-6))) return undefined
  const bytes = new Uint8Array(Float32Array.from(numbers, Math.log).buffer)
  const tensor = { name: weight.tensor.name, type: 'F32' as const, dims: weight.dims, read: () => E.right(bytes) }
  return { tag: 'exponents', weight: { tensor, dims: weight.dims, transposed: false }, most: MOST_EXPONENT, areRaised: true }
}

/** Cosines of queries and keys times a factor of each head. Returns false for other products. */
export const factoredScores = (r: Reading): boolean => {
  const symbols = [r.symbol(0), r.symbol(1)]
  const s = symbols.find((x) => x.tag === 'scores')
  const other = symbols.find((x) => x.tag !== 'scores')
  if (s?.tag !== 'scores' || s.scores.soft || s.scores.factors || s.scores.bias || s.scores.factor !== 1) return false
  const areUnits = [s.scores.q, s.scores.k].every(({ step }) => r.units.has(step))
  const heads = elementsOf(
    s.scores.q.axes
      .slice(0, -2)
      .flat()
      .filter((a) => a.dim === 'C')
      .map((a) => a.size),
  )
  const given =
    other?.tag === 'weight' && elementsOf(other.weight.dims) === heads && heads > 1 ? exponentsOf(other.weight) : other
  if (!areUnits || given?.tag !== 'exponents' || !given.areRaised || elementsOf(given.weight.dims) !== heads) return false
  r.is({ tag: 'scores', scores: { ...s.scores, factors: { weight: given.weight, most: given.most } } })
  return true
}

/** Sizes of scores: those of groups and heads, and the numbers of queries and keys. */
export const scoreSizes = ({ q, k, turned }: Scores): readonly number[] => {
  const tokens = [q, k].map(({ axes }) => sizeOf(axes[axes.length - 2]!))
  return [...q.axes.slice(0, -2).map(sizeOf), ...(turned ? tokens.reverse() : tokens)]
}

/** Scores with their groups and heads in other axes. False if they become another value. */
export const reshapedScores = (r: Reading, scores: Scores): boolean => {
  const now = scoreSizes(scores)
  const asked = r.numbers(1)?.map((d, i) => (d === 'batch' ? 1 : d === 0 ? now[i]! : d)) ?? refuse('its shape is computed')
  const known = asked.filter((d) => d !== -1).reduce((n, d) => n * d, 1)
  const sizes = asked.map((d) => (d === -1 ? elementsOf(now) / known : d))
  const batch = reshaped(scores.q.axes.slice(0, -2), sizes.slice(0, -2))
  if (batch === undefined || !same(sizes.slice(-2), now.slice(-2))) {
    settleScores(r, 0)
    return false
  }
  const placed = (v: View): View => ({ ...v, axes: [...batch, ...v.axes.slice(-2)] })
  r.is({ tag: 'scores', scores: { ...scores, q: placed(scores.q), k: placed(scores.k) } })
  return true
}

/** The numbers that are added to the scores of each group, the same for all heads; undefined for others. */
const maskOf = (scores: Scores, s: Meaning): ArrayLike<number> | undefined => {
  const [dims, numbers] =
    s.tag === 'array'
      ? [s.array.dims, s.array.numbers]
      : s.tag === 'weight' && !s.weight.transposed
        ? [s.weight.dims, numbersOf(s.weight.tensor)]
        : [[], undefined]
  const sizes = scoreSizes(scores)
  const own = [...Array<number>(Math.max(0, sizes.length - dims.length)).fill(1), ...dims]
  const isHeads = (i: number): boolean => scores.q.axes[i]!.some((a) => a.dim === 'C')
  const fits =
    own.length === sizes.length && own.every((n, i) => n === (i < sizes.length - 2 && isHeads(i) ? 1 : sizes[i])) && numbers
  const groups = scores.q.axes.slice(0, -2).flat()
  const isInOrder =
    groups
      .filter((a) => a.dim !== 'C')
      .map((a) => a.dim)
      .join() === 'H,W'
  return fits && isInOrder && sizes.slice(0, -2).some((n, i) => n > 1 && !isHeads(i)) ? numbers : undefined
}

const BIASES: readonly string[] = ['network', 'reversed', 'table', 'weight']

/** Scores plus a table's numbers, or plus a mask; false for other sums. */
export const biasedScores = (r: Reading): boolean => {
  const symbols = [r.symbol(0), r.symbol(1)]
  const s = symbols.find((x) => x.tag === 'scores')
  const bias = symbols.find((x) => x.tag !== 'scores')
  if (s?.tag !== 'scores' || bias === undefined) return false
  const mask = s.scores.mask || s.scores.soft ? undefined : maskOf(s.scores, bias)
  if (mask !== undefined) {
    r.is({ tag: 'scores', scores: { ...s.scores, mask } })
    return true
  }
  if (s.scores.bias || s.scores.soft || !BIASES.includes(bias.tag))
    return refuse('it adds to scores; allowed: one bias of relative positions, before the softmax')
  r.is({ tag: 'scores', scores: { ...s.scores, bias: bias as NonNullable<Scores['bias']> } })
  return true
}

const wholeNumbers = (numbers: readonly number[], dims: readonly number[]): Weight => {
  const bytes = new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer)
  return { tensor: { name: '', type: 'I64', dims, read: () => E.right(bytes) }, dims, transposed: false }
}
/** A few places are folded numbers. */
const asWeight = (s: Meaning): Meaning =>
  s.tag === 'sizes'
    ? {
        tag: 'weight',
        weight: wholeNumbers(
          s.sizes.map((n) => (n === 'batch' ? -1 : n)),
          s.dims ?? [s.sizes.length],
        ),
      }
    : s

/** Rows of a table that is itself taken from another one: a mirrored table, as `spillway export` writes it. */
const gatheredAgain = (r: Reading): boolean => {
  const [s, places] = [r.symbol(0), r.has(1) ? asWeight(r.symbol(1)) : undefined]
  if (s.tag !== 'table' || s.headsFirst || r.int('axis', 0) !== 0 || places?.tag !== 'weight') return false
  const [before, rows] = [s.index, places.weight].map((w) => numbersOf(w.tensor))
  if (before === undefined || rows === undefined) return false
  r.is({
    ...s,
    index: wholeNumbers(
      rows.map((i) => before[i] ?? -1),
      places.weight.dims,
    ),
  })
  return true
}

/** Numbers of a table at constant places: Swin's relative positions. */
export const gatheredTable = (r: Reading): boolean => {
  if (gatheredAgain(r)) return true
  const table = r.symbol(0)
  const index = r.has(1) ? asWeight(r.symbol(1)) : undefined
  if (table.tag !== 'weight' || table.weight.dims.length !== 2 || index?.tag !== 'weight') return false
  const hasRowsOfHeads = r.int('axis', 0) === 1
  r.is({ tag: 'table', table: table.weight, index: index.weight, headsFirst: hasRowsOfHeads, hasRowsOfHeads })
  return true
}

/** A softmax with queries and keys exchanged. */
export const turnedScores = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'scores') return false
  const rank = s.scores.q.axes.length
  const perm = Array.from({ length: rank }, (_, i) => (i < rank - 2 ? i : 2 * rank - 3 - i))
  if (!s.scores.soft || r.ints('perm')?.join() !== perm.join()) {
    settleScores(r, 0)
    return false
  }
  r.is({ tag: 'scores', scores: { ...s.scores, turned: !s.scores.turned } })
  return true
}

export const softScores = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'scores') return false
  if (s.scores.soft) refuse('it takes a softmax of a softmax; allowed: one')
  const axis = r.int('axis', -1)
  if (axis !== -1 && axis !== s.scores.q.axes.length - 1) {
    settleScores(r, 0)
    return false
  }
  r.is({ tag: 'scores', scores: { ...s.scores, soft: true } })
  return true
}

// ---------------------------------------------------------------- the layer

interface Arrangement {
  readonly heads: number
  readonly headFirst: boolean
  readonly window: readonly [number, number]
  readonly grid: boolean
}

/** Tokens along one dimension: their number and their distance. */
const along = (axis: Axis, dim: 'H' | 'W'): Atom => axis.find((a) => a.dim === dim) ?? { dim, stride: 1, size: 1 }

const arranged = (r: Reading, step: number, { axes }: View, headFirst: boolean): Arrangement => {
  const [, , h, w] = r.shape(step)
  const [batch, tokens, channels] = [axes.slice(0, -2).flat(), axes[axes.length - 2]!, axes[axes.length - 1]!]
  const heads = batch.filter((a) => a.dim === 'C')
  const names = tokens.map((a) => a.dim).join()
  if (heads.length > 1 || channels.some((a) => a.dim !== 'C' || a.stride !== 1) || !['', 'H', 'W', 'H,W'].includes(names))
    return refuse('its queries are not [..., tokens, channels of a head], with rows before columns in the tokens')
  const [rows, columns] = [along(tokens, 'H'), along(tokens, 'W')]
  const isWhole = rows.size === h && columns.size === w
  const isWindow = rows.stride === 1 && columns.stride === 1
  const isGrid = [rows.stride * rows.size === h, columns.stride * columns.size === w].every(Boolean)
  if (!isWhole && !isWindow && !isGrid)
    return refuse(`its tokens are every ${rows.stride}th row; allowed: windows, or a grid over the image`)
  return { heads: heads[0]?.size ?? 1, headFirst, window: [rows.size, columns.size], grid: !isWhole && !isWindow }
}

/** The same view of the value that a slice of channels comes from. */
const lifted = (r: Reading, v: View): View => {
  const { layer, ins } = r.steps[v.step]!
  return layer?.kind === 'sliceChannels'
    ? lifted(r, { ...v, step: ins[0]!, from: v.from + (layer as unknown as { readonly from: number }).from })
    : v
}

/** The value that has all queries, keys and values, and the order of its channels. */
const source = (
  r: Reading,
  own: readonly View[],
  heads: number,
  head: number,
): { readonly step: number; readonly headFirst: boolean } => {
  const channels = heads * head
  const parts = own.map((x) => lifted(r, x))
  const stride =
    parts[0]!.axes
      .slice(0, -2)
      .flat()
      .find((a) => a.dim === 'C')?.stride ?? head
  const [first] = parts as [View, View, View]
  const isOne = parts.every((v) => v.step === first.step) && r.shape(first.step)[1] === 3 * channels
  const from = (i: number): number => parts[i]!.from
  if (isOne && stride === head && from(0) === 0 && from(1) === channels && from(2) === 2 * channels)
    return { step: first.step, headFirst: false }
  if (isOne && (stride === 3 * head || heads === 1) && from(0) === 0 && from(1) === head && from(2) === 2 * head)
    return { step: first.step, headFirst: true }
  // One value each; that of several with more channels is a part of it.
  const [b, , h, w] = r.shape(own[0]!.step)
  const apart = own.map((v) => r.compact({ ...v, factor: 1 }))
  if (apart.some((v) => (heads > 1 && headsOf(v)?.stride !== head) || r.shape(v.step)[1] !== channels))
    return refuse('its queries, keys and values are not one value, or one each, in the order of heads')
  const steps = apart.map((v) => v.step)
  return { step: r.joined(steps, () => [b, 3 * channels, h, w]), headFirst: false }
}

/** The name of the layer that makes a value. */
const nameOf = (r: Reading, step: number): string => {
  const { layer, ins } = r.steps[step]!
  if (layer?.kind === 'identity') return nameOf(r, ins[0]!)
  return layer !== undefined && 'name' in layer ? String(layer.name) : ''
}

/** The shift of the windows: the image is rolled, and a mask separates pixels of opposite borders. */
const shiftOf = (
  r: Reading,
  step: number,
  window: readonly [number, number],
  grid: boolean,
  mask: ArrayLike<number> | undefined,
): readonly [number, number] => {
  const [, , h, w] = r.shape(step)
  const [down, across] = r.rollOf(step)
  const shift = [(h - down) % h, (w - across) % w] as const
  const isShifted = shift.some((n) => n > 0)
  if (!isShifted && mask === undefined) return [0, 0]
  if (!isShifted || mask === undefined || grid)
    return refuse(
      isShifted
        ? 'it attends in a rolled image without a mask; allowed: a mask that separates pixels of opposite borders'
        : 'it adds a mask to scores; allowed: the masks of shifted windows',
    )
  const sides = sidesOf({ windowH: window[0], windowW: window[1], shiftH: shift[0], shiftW: shift[1] }, h, w)
  const isMask = sides.length === mask.length && sides.every((n, i) => (n === 0 ? mask[i] === 0 : mask[i]! <= LEAST_MASK))
  return isMask ? shift : refuse('its mask is not that of shifted windows; allowed: 0, and -100 or less between opposite borders')
}

/** The first channels of a view's heads and their distance; undefined if its heads have another order. */
const headsOf = ({
  axes,
  from,
}: View): { readonly count: number; readonly stride: number; readonly from: number } | undefined => {
  const [heads, ...more] = axes.slice(0, -2).flat()
  const channels = axes[axes.length - 1]!
  if (more.length > 0 || channels.length > 1 || (channels[0]?.stride ?? 1) !== 1) return undefined
  return { count: heads?.size ?? 1, stride: heads?.stride ?? sizeOf(channels), from }
}

/** All of the channels of a view, or that part of them. */
const partOf = (r: Reading, { step }: View, from: number, count: number): number =>
  r.shape(step)[1] === count
    ? step
    : r.once(`channels ${from} to ${from + count}`, step, () => r.layer(sliceChannels(from, count), step))

/** The value with keys and values as channels, and their order. */
const pairsOf = (
  r: Reading,
  k: View,
  v: View,
  heads: number,
  head: number,
): { readonly step: number; readonly headFirst: boolean } => {
  const [keys, values] = [headsOf(k), headsOf(v)]
  if (keys === undefined || values === undefined) return refuse('the channels of its keys have another order than heads')
  const isOne = k.step === v.step && r.shape(k.step)[1] === 2 * heads * head && keys.count === heads && keys.from === 0
  if (isOne && keys.stride === head && values.from === heads * head) return { step: k.step, headFirst: false }
  if (isOne && keys.stride === 2 * head && values.from === head) return { step: k.step, headFirst: true }
  if (keys.stride !== head || (keys.count !== heads && keys.count !== 1))
    return refuse('its keys and values are not one value, or one each, in the order of heads')
  // One head of keys and values serves all queries: a copy for each.
  const copies = Array<number>(heads / keys.count)
  const steps = [k, v].flatMap((x) => copies.fill(partOf(r, x, x.from, keys.count * head)).slice())
  const [b, , h, w] = r.shape(k.step)
  return { step: r.joined(steps, () => [b, 2 * heads * head, h, w]), headFirst: false }
}

/** Attention to the pixels of another value. */
const attendedApart = (r: Reading, [q, k, v]: readonly [View, View, View], head: number, factor: number): View => {
  const heads = headsOf(q) ?? refuse('the channels of its queries have another order than heads')
  if (heads.stride !== head) refuse('the channels of its queries are not those of heads in a row')
  const queries = partOf(r, q, q.from, heads.count * head)
  const { step, headFirst } = pairsOf(r, k, v, heads.count, head)
  const options = {
    heads: heads.count,
    ...(headFirst ? { headFirst } : {}),
    ...(near(factor, 1 / Math.sqrt(head)) ? {} : { scale: factor }),
  }
  const made = r.paired('attended', [queries, step], options, r.shape(queries))
  return { step: made, axes: q.axes, from: 0, factor: 1 }
}

/** The axes of a view with heads one after the other. */
const headsApart = ({ axes }: View, head: number): readonly Axis[] =>
  axes.map((axis, i) => (i >= axes.length - 2 ? axis : axis.map((a) => (a.dim === 'C' ? { ...a, stride: head } : a))))

/** Scores times values: the layer, and its result in the arrangement of the values. */
const attended = (r: Reading, scores: Scores, v: View): void => {
  const made = attention(r, scores, v)
  r.is(meaningOf(made, r.shape(made.step)))
}

/** Values times transposed scores, both with channels before tokens. */
const attendedTurned = (r: Reading, scores: Scores): boolean => {
  const v = viewAt(r, 0)
  if (v === undefined) return false
  if (!scores.turned || areMatrices(r, scores, turned(v))) {
    putView(r, matrixProduct(r, v, scoresAsView(r, scores)))
    return true
  }
  const made = turned(attention(r, scores, turned(v)))
  r.is(meaningOf(made, r.shape(made.step)))
  return true
}

/** Queries of every nth row and column of the keys' image: n; otherwise 1. */
const strideOf = (r: Reading, q: View, k: View): number => {
  const [[, , h, w], [, , height, width]] = [r.shape(q.step), r.shape(k.step)]
  const n = Math.ceil(height / h)
  return areApart(r, q, k) && Math.ceil(height / n) === h && Math.ceil(width / n) === w ? n : 1
}

/** Attention of every nth row and column: queries are repeated for all pixels, and the results of the others are left out. */
const attentionOfSome = (r: Reading, scores: Scores, v: View, stride: number): View => {
  const { q, k } = scores
  const [[, , h, w], [, , height, width]] = [r.shape(q.step), r.shape(k.step)]
  const isKept = (from: number, to: number) => (_: unknown, i: number) => Math.floor((i * stride * from) / to) === i
  if (!Array.from({ length: h }).every(isKept(h, height)) || !Array.from({ length: w }).every(isKept(w, width)))
    return refuse(
      `its queries are every ${stride}th row and column of ${height}x${width}; allowed: distances that divide the image`,
    )
  const step = r.layer(upsample({ size: [height, width] }), q.step)
  const rows = k.axes[k.axes.length - 2]!
  const all: View = { ...q, step, axes: [...q.axes.slice(0, -2), rows, q.axes[q.axes.length - 1]!] }
  const made = attention(r, { ...scores, q: all, stride }, v)
  const axes = made.axes.map((axis, i) => (i === made.axes.length - 2 ? q.axes[i]! : axis))
  return { ...made, step: r.layer(maxPool(1, { stride }), made.step), axes }
}

/** Scores of cosines with the queries and keys before their norms. */
const beforeNorms = (r: Reading, scores: Scores): Scores => {
  const [q, k] = [scores.q, scores.k].map((view) => r.units.get(view.step))
  return scores.factors === undefined || q === undefined || k === undefined ? scores : { ...scores, q, k }
}

const attention = (r: Reading, given: Scores, v: View): View => {
  const scores = beforeNorms(r, given)
  const { q, k, factor, bias, mask, soft, factors } = scores
  const [head, wide] = [q, v].map(({ axes }) => sizeOf(axes[axes.length - 1]!)) as [number, number]
  const stride = bias === undefined || mask !== undefined || !soft ? 1 : strideOf(r, q, k)
  if (stride > 1) return attentionOfSome(r, scores, v, stride)
  if (head !== wide && soft && v.factor === 1) {
    const [narrowQ, narrowK, values] = equalHeads(r, [q, k, v])
    const made = attention(r, { ...scores, q: narrowQ, k: narrowK }, values)
    return { ...made, axes: headsApart(v, wide) }
  }
  if (!soft) refuse('it multiplies scores without a softmax; allowed: softmax over the keys')
  if (!same(k.axes, v.axes)) refuse('its values have another arrangement than its keys; allowed: the same')
  if (v.factor !== 1) refuse('its values are scaled; allowed: scaled queries, keys or scores')
  const parts = [q, k, v].map((x) => lifted(r, x))
  const [queries, keys, values] = parts as [View, View, View]
  const isPair = keys.step === values.step && queries.step !== keys.step && !bias && !mask
  if ((isPair || !same(q.axes, k.axes)) && areApart(r, q, k)) {
    if (factors) refuse('it takes cosines with keys of other pixels; allowed: keys of the same pixels')
    if (bias || mask) refuse('it adds to the scores of keys of other pixels; allowed: no bias')
    return attendedApart(r, [queries, keys, values], head, factor)
  }
  const { heads } = arranged(r, parts[0]!.step, q, false)
  const { step, headFirst } = source(r, [q, k, v], heads, head)
  const { window, grid } = arranged(r, step, q, headFirst)
  const [, , h, w] = r.shape(step)
  const isWhole = window[0] === h && window[1] === w
  const own =
    bias?.tag === 'table'
      ? /^([\w.-]+)\.(?:relative_position_bias_table|attention_biases)$/.exec(bias.table.tensor.name)?.[1]
      : bias?.tag === 'reversed'
        ? /^([\w.-]+)\.relative_position_bias_table$/.exec(bias.table.tensor.name)?.[1]
        : /^([\w.-]+)\.logit_scale$/.exec(factors?.weight.tensor.name ?? '')?.[1]
  const isOfAbsolute = bias?.tag === 'table' && (bias.hasRowsOfHeads === true || bias.table.dims[0] === window[0] * window[1])
  const isMirrored = (scores.stride ?? 1) > 1 || isOfAbsolute
  const beside = /^([\w.-]+)\.qkv(?:\.bias)?$/.exec(nameOf(r, step))?.[1]
  const network = bias?.tag === 'network' ? bias : undefined
  const behind = isMirrored || network ? undefined : pixelsBehindToken(bias, window)
  const name = (own ?? beside) === undefined ? r.named() : r.unused((own ?? beside)!)
  const weights = network && networkWeights(network, name, heads)
  const shift = shiftOf(r, step, window, grid, mask)
  const layer = attentionOf(name, heads, {
    ...(isWhole ? {} : { window: window[0] === window[1] ? window[0] : window, grid }),
    ...(shift.every((n) => n === 0) ? {} : { shift: shift[0] === shift[1] ? shift[0] : shift }),
    relative: network
      ? {
          ...networkOptions(network, window),
          hidden: weights!.hidden,
          ...layersOf(weights!.names),
          ...(weights!.own.length > 3 ? { bias: true } : {}),
        }
      : bias?.tag === 'reversed'
        ? 'reversed'
        : isMirrored
          ? 'mirrored'
          : behind
            ? { behindToken: behind[0] === behind[1] ? behind[0] : behind }
            : bias !== undefined,
    headFirst,
    ...(factors ? { cosine: shortest(factors.most) } : {}),
    ...(near(factor, factors ? 1 : 1 / Math.sqrt(head)) ? {} : { scale: factor }),
  })
  if (factors) r.parameter(`${name}.logit_scale`, factors.weight, [heads, 1, 1])
  for (const [of, weight, shape] of weights?.own ?? []) r.parameter(`${name}.${of}`, weight, shape)
  if (bias?.tag === 'reversed') reversedPositions(r, name, bias, heads, window)
  else if (bias !== undefined && bias.tag !== 'network') {
    if (behind) positionsBehindToken(r, name, bias, heads, behind)
    else if (isMirrored) mirroredPositions(r, name, bias, heads, window, scores.stride ?? 1)
    else relativePositions(r, name, bias, heads, window)
  }
  const made = r.layer(layer, step)
  return { step: made, axes: headsApart(q, head), from: 0, factor: 1 }
}

// ---------------------------------------------------------------- relative positions

/** The coordinates of a network of distances, as options of the layer. */
const networkOptions = (s: Network, window: readonly [number, number]) => {
  const { reach, factor } = distancesOf(s, window)
  return {
    ...(reach.every((n) => n === 1) ? {} : { reach: reach[0] === reach[1] ? reach[0] : reach }),
    ...(factor === 1 ? {} : { factor }),
    ...(s.bound === undefined ? {} : { bound: s.bound }),
  }
}
const layersOf = (names: readonly [string, string]) => (names.join() === 'cpb_mlp.0,cpb_mlp.2' ? {} : { layers: names })

/** The rows and columns of pixels behind a class token whose distances a bias has; undefined for another bias. */
const pixelsBehindToken = (
  bias: Scores['bias'],
  [rows, count]: readonly [number, number],
): readonly [number, number] | undefined => {
  if (rows !== 1 || count < 2 || (bias?.tag !== 'table' && bias?.tag !== 'weight')) return undefined
  const sizes = Array.from({ length: count - 1 }, (_, i) => i + 1).filter((h) => (count - 1) % h === 0)
  const index = bias.tag === 'table' ? numbersOf(bias.index.tensor) : undefined
  const values = bias.tag === 'weight' ? numbersOf(bias.weight.tensor) : undefined
  return sizes
    .map((h) => [h, (count - 1) / h] as const)
    .find((size) => {
      const places = distancesBehindToken(size)
      if (index !== undefined) return index.length === places.length && places.every((p, i) => p === index[i])
      return size[0] === size[1] && values !== undefined && tableOfPairs(places, values) !== undefined
    })
}

/** A table [distances, heads] from the numbers of all pairs of each head; undefined if they are not those of a table. */
const tableOfPairs = (places: readonly number[], values: ArrayLike<number>): Float32Array | undefined => {
  const heads = values.length / places.length
  if (!Number.isInteger(heads)) return undefined
  const table = new Float32Array((Math.max(...places) + 1) * heads)
  for (let h = 0; h < heads; h++) places.forEach((p, i) => (table[p * heads + h] = values[h * places.length + i]!))
  for (let h = 0; h < heads; h++)
    if (places.some((p, i) => table[p * heads + h] !== Math.fround(values[h * places.length + i]!))) return undefined
  return table
}

const positionsBehindToken = (
  r: Reading,
  name: string,
  bias: Extract<Meaning, { tag: 'weight' | 'table' }>,
  heads: number,
  size: readonly [number, number],
): void => {
  const dims = tableOf({ heads, windowH: 1, windowW: size[0] * size[1] + 1, across: size[1] })
  const parameter = `${name}.relative_position_bias_table`
  if (bias.tag === 'table') {
    r.parameter(parameter, bias.table, dims)
    return
  }
  const table = tableOfPairs(distancesBehindToken(size), numbersOf(bias.weight.tensor)!)!
  const bytes = new Uint8Array(table.buffer)
  const tensor = { name: bias.weight.tensor.name, type: 'F32' as const, dims, read: () => E.right(bytes) }
  r.parameter(parameter, { tensor, dims, transposed: false }, dims)
}

/** Ones at the distances from keys to queries of one axis, [queries, keys, distances]: the number of queries. */
const lookedUp = (s: Meaning): number | undefined => {
  const [n = 0, keys, distances] = s.tag === 'weight' ? s.weight.dims : []
  const numbers = s.tag === 'weight' && keys === n && distances === 2 * n - 1 ? numbersOf(s.weight.tensor) : undefined
  const isOne = (i: number): boolean => {
    const [place, at] = [i % (2 * n - 1), Math.floor(i / (2 * n - 1))]
    return place === (at % n) - Math.floor(at / n) + n - 1
  }
  return numbers?.every((v, i) => v === Number(isOne(i))) ? n : undefined
}

/** The products of TensorFlow's MaxViT of a table and places: rows first, then columns. Returns false for others. */
const lookedUpTable = (r: Reading, equation: string): boolean => {
  const [s, n] = [r.symbol(0), lookedUp(r.symbol(1))]
  if (n === undefined) return false
  if (equation === 'nhw,ixh->nixw' && s.tag === 'weight' && s.weight.dims.length === 3)
    r.is({ tag: 'reversed', table: s.weight, size: [n, 0], isWhole: false })
  else if (equation === 'nixw,jyw->nijxy' && s.tag === 'reversed' && !s.isWhole)
    r.is({ ...s, size: [s.size[0], n], isWhole: true })
  else return false
  return true
}

const reversedPositions = (
  r: Reading,
  name: string,
  { table, size, isWhole }: Extract<Meaning, { tag: 'reversed' }>,
  heads: number,
  window: readonly [number, number],
): void => {
  if (!isWhole || size.join() !== window.join()) refuse(`it adds ${WHAT}`)
  r.parameter(`${name}.relative_position_bias_table`, table, [heads, 2 * window[0] - 1, 2 * window[1] - 1])
}

const WHAT = 'a bias of scores that is not a number for each head and distance of two pixels'

/** A table from a matrix of all pairs, which exporters compute from it. */
const tableFrom = (weight: Weight, heads: number, window: readonly [number, number]): Weight => {
  const places = distances(window)
  const dims = tableOf({ heads, windowH: window[0], windowW: window[1] })
  if (elementsOf(weight.dims) !== heads * places.length || weight.dims.slice(-2).some((d) => d * d !== places.length))
    refuse(`it adds ${WHAT}: [${weight.dims.join(',')}]`)
  const values = numbersOf(weight.tensor) ?? refuse('its bias has no floats')
  const table = new Float32Array(elementsOf(dims))
  for (let h = 0; h < heads; h++) places.forEach((p, i) => (table[p * heads + h] = values[h * places.length + i]!))
  for (let h = 0; h < heads; h++)
    if (places.some((p, i) => table[p * heads + h] !== values[h * places.length + i])) refuse(`it adds ${WHAT}`)
  const bytes = new Uint8Array(table.buffer)
  return { tensor: { name: weight.tensor.name, type: 'F32', dims, read: () => E.right(bytes) }, dims, transposed: false }
}

/** A number for each head and each absolute distance of rows and of columns; queries are every nth row and column. */
const mirroredPositions = (
  r: Reading,
  name: string,
  bias: Extract<Meaning, { tag: 'weight' | 'table' }>,
  heads: number,
  [height, width]: readonly [number, number],
  stride: number,
): void => {
  const every = (n: number): readonly number[] => Array.from({ length: Math.ceil(n / stride) }, (_, i) => i * stride)
  const all = (n: number): readonly number[] => Array.from({ length: n }, (_, i) => i)
  const places = every(height).flatMap((y) =>
    every(width).flatMap((x) => all(height).flatMap((v) => all(width).map((u) => Math.abs(y - v) * width + Math.abs(x - u)))),
  )
  const size = height * width
  const parameter = `${name}.attention_biases`
  if (bias.tag === 'table') {
    const given = numbersOf(bias.index.tensor)
    if (!bias.headsFirst || given?.length !== places.length || places.some((p, i) => p !== given[i])) refuse(`it adds ${WHAT}`)
    const { table } = bias
    // PyTorch's newer exporter stores the table with a column for each head.
    const rows = bias.hasRowsOfHeads ? table : { ...table, dims: [heads, size], transposed: !table.transposed }
    r.parameter(parameter, rows, [heads, size])
    return
  }
  const { tensor } = bias.weight
  const values = elementsOf(bias.weight.dims) === heads * places.length ? numbersOf(tensor) : undefined
  // The first query has all distances.
  const table = Float32Array.from(
    { length: heads * size },
    (_, i) => values?.[Math.floor(i / size) * places.length + (i % size)] ?? NaN,
  )
  const fits = (i: number): boolean =>
    places.every((p, j) => table[i * size + p] === Math.fround(values?.[i * places.length + j] ?? NaN))
  if (!all(heads).every(fits)) refuse(`it adds ${WHAT}`)
  const bytes = new Uint8Array(table.buffer)
  const dims = [heads, size]
  const made = { name: tensor.name, type: 'F32' as const, dims, read: () => E.right(bytes) }
  r.parameter(parameter, { tensor: made, dims, transposed: false }, dims)
}

const relativePositions = (
  r: Reading,
  name: string,
  bias: Extract<Meaning, { tag: 'weight' | 'table' }>,
  heads: number,
  window: readonly [number, number],
): void => {
  const shape = tableOf({ heads, windowH: window[0], windowW: window[1] })
  const parameter = `${name}.relative_position_bias_table`
  if (bias.tag === 'weight') {
    r.parameter(parameter, tableFrom(bias.weight, heads, window), shape)
    return
  }
  const places = distances(window)
  const given = numbersOf(bias.index.tensor)
  if (!bias.headsFirst || given?.length !== places.length || places.some((p, i) => p !== given[i])) refuse(`it adds ${WHAT}`)
  r.parameter(parameter, bias.table, shape)
}
