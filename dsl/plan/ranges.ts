// FT dimensions of runs of layers, as types and at run time: any range, and the maximal segments (paper 3, Listings 2, 3). In: a model; names of
// layers. Out: a LayerRange, or the list of maximal segments. A layer that sums over its image (batch norm in training, global pooling) ends its
// segment; its use of the sums begins the next. Worked example: conv1 bn1 relu conv2 fc: segments conv1..bn1, bn1..conv2 (B, H, W) and fc..fc (B).
import type { LayerReport } from '../analyse'
import type { AddLimbs } from '../numbers/limbs'
import type { FromLow } from '../numbers/naturals'
import type { LayerNames, Model } from '../model'
import { type Dim, DIMS, type Shape } from '../../staging/core/box'
import type { AnySite, FirstOf, Linked, Nested, RestOf, SitesOf } from './sites'

// ---------------------------------------------------------------- a range of layers

/**
 * Facts of a range of layers: the dimensions along which it can be tiled, and its parameters.
 *
 * @example const range: LayerRange<'conv1', 'pool1', Dim, number> = rangeOf(net, 'conv1', 'pool1')
 */
export interface LayerRange<From extends string, To extends string, Ft extends Dim, Parameters extends number>
  extends FtSegment<From, To, Ft> {
  readonly parameters: Parameters
}

export type SitesOfModel<M extends Model> = SitesOf<M['net'], M['input']>

/** The sites from one name to another, the last first; never when they do not stand in this order. */
type Between<Sites, From extends string, To extends string> = Sites extends null
  ? never
  : FirstOf<Sites> extends { called: From }
    ? UpTo<Sites, To>
    : FirstOf<Sites> extends null
      ? Nested<Between<RestOf<Sites>, From, To>>
      : Between<RestOf<Sites>, From, To>
type UpTo<Sites, To extends string, Before = null> = Sites extends null
  ? never
  : FirstOf<Sites> extends { called: To }
    ? Linked<FirstOf<Sites>, Before>
    : FirstOf<Sites> extends null
      ? Nested<UpTo<RestOf<Sites>, To, Linked<null, Before>>>
      : UpTo<RestOf<Sites>, To, Linked<FirstOf<Sites>, Before>>

export type FtOfSites<Sites, Ft extends Dim = Dim> = Sites extends null
  ? Ft
  : FirstOf<Sites> extends infer X extends AnySite
    ? FtOfSites<RestOf<Sites>, Ft & X['ft']>
    : Nested<FtOfSites<RestOf<Sites>, Ft>>
type ParametersOfSites<Sites, Sum = null> = Sites extends null
  ? Sum
  : FirstOf<Sites> extends infer X extends AnySite
    ? ParametersOfSites<RestOf<Sites>, AddLimbs<Sum, X['parameters']>>
    : Nested<ParametersOfSites<RestOf<Sites>, Sum>>

/**
 * The facts of a range of layers, as a type.
 *
 * @example type Range = RangeOf<typeof net, 'conv1', 'pool2'>
 */
export type RangeOf<M extends Model, From extends string, To extends string> =
  Between<SitesOfModel<M>, From, To> extends infer R
    ? [R] extends [never]
      ? never
      : LayerRange<From, To, FtOfSites<R>, FromLow<ParametersOfSites<R>>>
    : never

/**
 * Returns the facts of a range of layers: the dimensions along which it can be tiled, and its number of
 * parameters.
 *
 * @param m The model.
 * @param from Name of the first layer.
 * @param to Name of the last layer.
 * @example rangeOf(net, 'conv1', 'pool2').ft
 */
export const rangeOf = <M extends Model, From extends LayerNames<M>, To extends LayerNames<M>>(
  m: M,
  from: From,
  to: To,
): RangeOf<M, From, To> => {
  const at = (name: string): number => m.layers.findIndex((l) => l.name === name)
  const [a, b] = [at(from), at(to)]
  if (a < 0 || b < a)
    throw new Error(`no layers from '${from}' to '${to}'; allowed: ${m.layers.map((l) => `'${l.name}'`).join(', ')}`)
  const layers = m.layers.slice(a, b + 1)
  const ft = DIMS.filter((d) => layers.every((l) => l.ft.includes(d)))
  return { from, to, ft, parameters: layers.reduce((n, l) => n + l.parameters, 0) } as never
}

// ---------------------------------------------------------------- maximal segments

/**
 * A range of layers and the dimensions along which it can be tiled.
 *
 * @example const canTileRows = (s: FtSegment<string, string, Dim>) => s.ft.includes('H')
 */
export interface FtSegment<From, To, Ft extends Dim> {
  readonly from: From
  readonly to: To
  /** Dimensions along which every layer of the range can be tiled. */
  readonly ft: readonly Ft[]
}

/** Dimensions of more than one row, along which tiles of this shape exist at all. */
type Extended<S extends Shape> = (S[0] extends 1 ? never : 'B') | (S[2] extends 1 ? never : 'H') | (S[3] extends 1 ? never : 'W')
type Tileable<X extends AnySite> = (X['ft'] | X['sums']) & Extended<[X['sums']] extends [never] ? X['out'] : X['in']>
type IsSpatial<Ft> = [Ft & ('H' | 'W')] extends [never] ? false : true
type SumsOverTiles<X extends AnySite> = IsSpatial<X['sums'] & Tileable<X>>

/** The segment that is open after some layers, and those that the last layer closed; From is null when none is open. */
interface Open<From extends string | null, To extends string, Ft extends Dim, Closed extends readonly unknown[] = []> {
  from: From
  to: To
  ft: Ft
  closed: Closed
}
/** One step of the fold, apart from its recursion: TypeScript counts recursive calls, and a network has hundreds of layers. */
type Join<From extends string | null, To extends string, Ft extends Dim, X extends AnySite> = From extends string
  ? [IsSpatial<Ft & Tileable<X>>, IsSpatial<Ft>] extends [IsSpatial<Tileable<X>>, IsSpatial<Tileable<X>>]
    ? EndAtSums<X, From, Ft & Tileable<X>, []>
    : EndAtSums<X, X['called'], Tileable<X>, [FtSegment<From, To, Ft>]>
  : EndAtSums<X, X['called'], Tileable<X>, []>
/** A layer that sums ends the segment, and begins the next when its output is an image again. */
type EndAtSums<X extends AnySite, From extends string, Ft extends Dim, Closed extends readonly unknown[]> =
  SumsOverTiles<X> extends true
    ? IsSpatial<Extended<X['out']>> extends true
      ? Open<X['called'], X['called'], Tileable<X>, [...Closed, FtSegment<From, X['called'], Ft>]>
      : Open<null, '', never, [...Closed, FtSegment<From, X['called'], Ft>]>
    : Open<From, X['called'], Ft, Closed>
type SegmentsOver<
  Sites,
  From extends string | null = null,
  To extends string = '',
  Ft extends Dim = never,
  Acc extends readonly unknown[] = [],
> = Sites extends null
  ? From extends string
    ? [...Acc, FtSegment<From, To, Ft>]
    : Acc
  : FirstOf<Sites> extends infer X extends AnySite
    ? X['kind'] extends 'identity'
      ? SegmentsOver<RestOf<Sites>, From, To, Ft, Acc>
      : Join<From, To, Ft, X> extends Open<infer From2, infer To2, infer Ft2, infer Closed>
        ? SegmentsOver<RestOf<Sites>, From2, To2, Ft2, Closed extends readonly [] ? Acc : [...Acc, ...Closed]>
        : never
    : Nested<SegmentsOver<RestOf<Sites>, From, To, Ft, Acc>>

/**
 * The longest ranges of layers that can be tiled, as a type.
 *
 * @example type Segments = SegmentsOf<typeof net>
 */
export type SegmentsOf<M extends Model> = SegmentsOver<SitesOfModel<M>>

const TILED: readonly Dim[] = ['B', 'H', 'W']
const isSpatial = (ft: readonly Dim[]): boolean => ft.includes('H') || ft.includes('W')
const extended = (s: Shape): readonly Dim[] => TILED.filter((d) => s[DIMS.indexOf(d)]! > 1)
const tileable = (l: LayerReport): readonly Dim[] =>
  extended(l.sums.length === 0 ? l.output : l.input).filter((d) => l.ft.includes(d) || l.sums.includes(d))

/** A maximal segment by the places of its first and last layer; a layer that sums stands in two. */
export type SegmentPlaces = FtSegment<number, number, Dim>

export const segmentPlaces = (layers: readonly LayerReport[]): readonly SegmentPlaces[] => {
  const found: SegmentPlaces[] = []
  let open: Omit<SegmentPlaces, 'to'> | null = null
  let last = 0
  for (const [i, l] of layers.entries()) {
    if (l.kind === 'identity') continue
    const dims = tileable(l)
    const both: readonly Dim[] = open ? open.ft.filter((d) => dims.includes(d)) : []
    const joins: boolean = open !== null && isSpatial(both) === isSpatial(dims) && isSpatial(open.ft) === isSpatial(dims)
    if (open && !joins) found.push({ ...open, to: last })
    open = { from: joins ? open!.from : i, ft: joins ? both : dims }
    last = i
    if (isSpatial(dims.filter((d) => l.sums.includes(d)))) {
      found.push({ ...open, to: i })
      open = isSpatial(extended(l.output)) ? { from: i, ft: dims } : null
    }
  }
  if (open) found.push({ ...open, to: last })
  return found
}

/**
 * Returns the longest ranges of layers that can be tiled, and the ranges between them.
 *
 * @param m The model.
 * @example segmentsOf(net)[0].ft
 */
export const segmentsOf = <M extends Model>(m: M): SegmentsOf<M> => {
  const called = (i: number): string => m.layers[i]!.called
  return segmentPlaces(m.layers).map((s) => ({ from: called(s.from), to: called(s.to), ft: s.ft })) as never
}
