// A plan by hand, checked at run time: ranges of layers in tiles, and checkpoints. In: a model's layers, and the requested plan. Out: the
// Prescription for the compiler, or the first error, in the words of words.ts. A range also takes the nameless layers after its last one, as far as
// they can be tiled as it is. A layer that sums over a tiled dimension ends its range with the sums, and the next range may begin with the rest of
// it. The type-level twin is checked.ts; both look for faults in the same order.
import {
  bimap,
  chain,
  type Either,
  left,
  map,
  mapLeft,
  right,
  sequenceArray,
  traverseArray,
  traverseReadonlyArrayWithIndex,
} from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DIMS } from '../../staging/core/box'
import type { PlanError } from '../../staging/core/errors'
import { optionsFor } from '../../staging/core/options'
import { named, numeric, withValues } from '../../staging/core/values'
import type { PrescribedCut, Prescription } from '../../staging/plan/prescription'
import type { LayerReport } from '../analyse'
import { badSize } from '../layers/rule'
import { cannotTile, rangeBackwards, rangesOverlap, sumsInside, tooFine } from './words'

/**
 * A range of layers and its number of tiles along each dimension.
 *
 * @example const range: TileRange = { from: 'conv1', to: 'pool1', H: 4, W: 2 }
 */
export interface TileRange<L extends string = string> {
  /** First layer of the range. @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', H: 4 }] }) */
  readonly from: L
  /** Last layer of the range. @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', H: 4 }] }) */
  readonly to: L
  /** Number of tiles along the batch. Default 1. @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', B: 2 }] }) */
  readonly B?: number | undefined
  /** Number of tiles along the rows. Default 1. @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', H: 4 }] }) */
  readonly H?: number | undefined
  /**
   * Number of tiles along the columns. Default 1.
   *
   * @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', H: 2, W: 2 }] })
   */
  readonly W?: number | undefined
}
const TILES = numeric('a number of tiles')
export const TILE_RANGE = withValues(
  optionsFor<TileRange>()('a tile range', 'from', 'to', 'B', 'H', 'W'),
  { from: named(['names of layers']), to: named(['names of layers']), B: TILES, H: TILES, W: TILES },
  { prefix: 'tiles: ', required: ['from', 'to'] },
)

/**
 * Decisions of a plan that you make yourself: tiles and checkpoints.
 *
 * @example const byHand: PlanByHand = { tiles: [{ from: 'conv1', to: 'pool1', H: 4 }], checkpoints: ['pool1'] }
 */
export interface PlanByHand<L extends string = string> {
  /**
   * Ranges of layers that run tile by tile. Default: the planner decides.
   *
   * @example stage(net, { tiles: [{ from: 'conv1', to: 'pool1', H: 4 }] })
   */
  readonly tiles?: readonly TileRange<L>[] | undefined
  /**
   * Layers whose outputs are kept; outputs between two of them are recomputed. Default: the planner decides.
   *
   * @example stage(net, { checkpoints: ['pool1'] })
   */
  readonly checkpoints?: readonly L[] | undefined
}

const TILED = ['B', 'H', 'W'] as const
type Tiled = (typeof TILED)[number]

/** The place in the options, and the error. */
export interface Fault {
  readonly at: string
  readonly reason: string
}
type Checked<A> = Either<Fault, A>
const refused = (at: string, reason: string): Checked<never> => left({ at, reason })
const unless = (at: string, reason: string | null): Checked<unknown> => (reason === null ? right(at) : refused(at, reason))

export const prescribe = (
  layers: readonly LayerReport[],
  { tiles = [], checkpoints = [] }: PlanByHand,
): Either<PlanError, Prescription> => {
  const names = layers.map((l) => l.name)
  const unknown = [...tiles.flatMap((t) => [t.from, t.to]), ...checkpoints].find((n) => !names.includes(n))
  const after = (name: string): PrescribedCut => ({ at: namelessAfter(layers, names.indexOf(name)) + 1, inside: false })
  const range = (i: number, t: TileRange): Checked<Prescription['ranges'][number]> =>
    mapLeft((f: Fault) => ({ ...f, at: `tiles[${i}].${f.at}` }))(rangeFor(layers, t, tiles[i - 1]))
  return pipe(
    unless('tiles', unknown === undefined ? null : noLayer(unknown, layers)),
    chain(() => traverseReadonlyArrayWithIndex(range)(tiles)),
    bimap(
      (fault) => ({ tag: 'PlanByHandInvalid', ...fault }),
      (ranges) => ({ layers: names, ranges, checkpoints: checkpoints.map(after) }),
    ),
  )
}

const noLayer = (name: string, layers: readonly LayerReport[]): string =>
  `there is no layer '${name}'; allowed: ${layers.flatMap((l) => (l.named ? [`'${l.name}'`] : [])).join(', ')}`

/** The place of the last nameless layer that follows this one and can be tiled along the same dimensions. */
const namelessAfter = (layers: readonly LayerReport[], at: number, tiled: readonly Tiled[] = []): number => {
  const next = layers.findIndex((l, i) => i > at && (l.named || tiled.some((d) => !l.ft.includes(d))))
  return next < 0 ? layers.length - 1 : next - 1
}

const countsOf = (t: TileRange): readonly (readonly [Tiled, number])[] => TILED.map((d) => [d, t[d] ?? 1])
const tiledIn = (t: TileRange): readonly Tiled[] => countsOf(t).flatMap(([d, n]) => (n > 1 ? [d] : []))
/** Returns true if a layer sums over a dimension along which the range has tiles. */
const sumsIn = (l: LayerReport, t: TileRange): boolean => countsOf(t).some(([d, n]) => n > 1 && l.sums.includes(d))

const rangeFor = (
  layers: readonly LayerReport[],
  t: TileRange,
  before: TileRange | undefined,
): Checked<Prescription['ranges'][number]> => {
  const at = (name: string): number => layers.findIndex((l) => l.name === name)
  const [first, last] = [at(t.from), at(t.to)]
  /** A layer that sums may begin the next range, too. */
  const free = before ? at(before.to) + (sumsIn(layers[at(before.to)]!, before) ? 0 : 1) : 0
  const endsInside = sumsIn(layers[last]!, t)
  const end = endsInside ? last : namelessAfter(layers, last, tiledIn(t))
  return pipe(
    countsOf(t),
    traverseArray(([d, n]) => unless(d, badSize([`number of tiles along ${d}`, n, 1]))),
    chain(() => unless('from', before && first < free ? rangesOverlap(t.from, before.to) : null)),
    chain(() => unless('to', last < first ? rangeBackwards(t.from, t.to) : null)),
    chain(() => inTiles(layers.slice(first, end + 1), t)),
    map(() => ({
      begin: { at: first, inside: sumsIn(layers[first]!, t) },
      end: endsInside ? { at: last, inside: true } : { at: end + 1, inside: false },
      grid: { B: t.B ?? 1, H: t.H ?? 1, W: t.W ?? 1 },
    })),
  )
}

/** Checks that every layer of a range can be tiled so. */
const inTiles = (range: readonly LayerReport[], t: TileRange): Checked<unknown> => {
  const isEnd = (i: number): boolean => range.length > 1 && (i === 0 || i === range.length - 1)
  const along = ([d, n]: readonly [Tiled, number]): readonly Checked<unknown>[] =>
    n === 1 ? [] : range.map((l, i) => unless(d, layerFault(l, d, n, isEnd(i))))
  return sequenceArray(countsOf(t).flatMap(along))
}

const layerFault = (l: LayerReport, d: Tiled, n: number, isEnd: boolean): string | null => {
  const sums = l.sums.includes(d)
  if (sums && !isEnd) return sumsInside(l.called, l.kind, d)
  if (!sums && !l.ft.includes(d)) return cannotTile(l.called, l.kind, d, legalText(l))
  const extent = (l.sums.length > 0 ? l.input : l.output)[DIMS.indexOf(d)]!
  return n > extent ? tooFine(l.called, l.kind, `${n}`, d, `${extent}`) : null
}

const legalText = (l: LayerReport): string => {
  const legal = TILED.filter((d) => l.ft.includes(d))
  return legal.length === 0 ? 'none of B, H, W' : legal.join(', ')
}
