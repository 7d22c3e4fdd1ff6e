// Rows and columns of a value, from ONNX nodes: rolled images, as two slices that change places, and every second row and column, as four values. In:
// the current node. Out: a part of the value, the rolled value, or layers; false if the node is none of these. Worked example: the rows 3 to 55 and
// then the rows 0 to 2 of 56 are the image rolled by -3 rows. A roll has no layer: attention between it and its inverse has shifted windows.
import { channelShuffle, maxPool, pixelUnshuffle, sliceChannels } from '../../dsl'
import { placesOf } from './folded'
import { positive, type Reading, refuse } from './reading'
import type { Axis, Form, Meaning } from './symbols'
import { axesOfForm, sizeOf } from './views'

type Band = Extract<Meaning, { readonly tag: 'band' }>
type Every = Extract<Meaning, { readonly tag: 'every' }>

/** The dimension of the image that is the whole of an axis. */
const dimOf = (axis: Axis | undefined): 'H' | 'W' | undefined => {
  const [atom, ...others] = axis ?? []
  return others.length === 0 && atom?.stride === 1 && atom.dim !== 'C' ? atom.dim : undefined
}

interface Cut {
  readonly dim: 'H' | 'W'
  readonly places: readonly number[]
  readonly step: number
}

/** The rows or columns that a Slice of a value takes; undefined if it takes others, too, or all of them. */
const cutOf = (r: Reading, step: number, form: Form): Cut | undefined => {
  const axes = axesOfForm(form, r.shape(step))
  const listed = (i: number, name: string): readonly number[] | undefined => (r.has(i) ? r.numbers(i)?.map(Number) : r.ints(name))
  const [starts, ends] = [listed(1, 'starts'), listed(2, 'ends')]
  const at = listed(3, 'axes') ?? starts?.map((_, i) => i)
  if (starts?.length !== 1 || ends?.length !== 1 || at === undefined) return undefined
  const [axis] = positive(at, axes.length) as [number]
  const dim = dimOf(axes[axis])
  const by = listed(4, 'steps')?.[0] ?? 1
  if (dim === undefined || by < 1) return undefined
  const extent = sizeOf(axes[axis]!)
  const places = placesOf(starts[0]!, ends[0]!, by, extent)
  return places.length === 0 || places.length === extent ? undefined : { dim, places, step: by }
}

/** Blocks of n x n pixels as channels: those of the first pixel, then those of the next in its row, and so on. */
export const blocksOfPixels = (r: Reading, step: number, n: number): number =>
  r.once(`blocks of ${n}`, step, () => r.layer(channelShuffle(r.shape(step)[1]), r.layer(pixelUnshuffle(n), step)))

/** The channels of one pixel of each block. */
export const pixelOfBlocks = (r: Reading, step: number, n: number, [row, column]: readonly [number, number]): number => {
  const [, c] = r.shape(step)
  return r.layer(sliceChannels((row * n + column) * c, c), blocksOfPixels(r, step, n))
}

/** Every nth row and every mth column: blocks of pixels as channels, and a part of them. */
const pixelsOf = (r: Reading, { step, form }: Every, rows: Cut, columns: Cut): void => {
  const [, , h, w] = r.shape(step)
  const n = rows.step
  const [top, left] = [rows.places[0]!, columns.places[0]!]
  if (columns.step === n && top + left === 0 && ['image', 'last'].includes(form) && (h % n !== 0 || w % n !== 0)) {
    r.is({ tag: 'data', step: r.layer(maxPool(1, { stride: n }), step), form })
    return
  }
  if (columns.step !== n || h % n !== 0 || w % n !== 0 || top >= n || left >= n || !['image', 'last'].includes(form))
    refuse(`it takes every ${rows.step}th row and every ${columns.step}th column; allowed: equal distances that divide the image`)
  r.is({ tag: 'data', step: pixelOfBlocks(r, step, n, [top, left]), form })
}

/** A Slice of rows or columns. */
export const sliceRows = (r: Reading): boolean => {
  const s = r.symbol(0)
  if (s.tag !== 'data' && s.tag !== 'every') return false
  const cut = cutOf(r, s.step, s.form)
  if (cut === undefined) return false
  const [from] = cut.places as [number]
  if (s.tag === 'every') {
    if (s.dim === cut.dim)
      refuse('it takes a part of every nth row or column; allowed: rows, then columns, or the other way round')
    const other: Cut = { dim: s.dim, places: [s.from], step: s.distance }
    if (s.dim === 'H') pixelsOf(r, s, other, cut)
    else pixelsOf(r, s, cut, other)
  } else if (cut.step > 1) r.is({ tag: 'every', step: s.step, form: s.form, dim: cut.dim, from, distance: cut.step })
  else r.is({ tag: 'band', step: s.step, form: s.form, dim: cut.dim, from, count: cut.places.length })
  return true
}

/** A Concat of the last rows or columns and the others. */
export const joinBands = (r: Reading, symbols: readonly Meaning[]): boolean => {
  const bands = symbols.filter((s): s is Band => s.tag === 'band')
  const [a, b] = bands
  if (a === undefined || b === undefined || symbols.length !== 2) return false
  const axes = axesOfForm(a.form, r.shape(a.step))
  const [axis] = positive([r.int('axis', 0)], axes.length) as [number]
  const isRoll =
    a.step === b.step && a.form === b.form && a.dim === b.dim && dimOf(axes[axis]) === a.dim && b.from === 0 && a.from === b.count
  if (!isRoll || a.from + a.count !== sizeOf(axes[axis]!))
    return refuse('it concatenates rows or columns; allowed: the last ones before the others, as torch.roll does')
  const step = r.rolled(a.step, a.dim === 'H' ? [-a.from, 0] : [0, -a.from])
  r.is({ tag: 'data', step, form: a.form })
  return true
}
