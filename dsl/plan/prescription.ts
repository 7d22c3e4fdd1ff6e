// A plan by hand, checked at run time: ranges of layers in tiles, and checkpoints. In: a model's layers and what was asked
// for. Out: the Prescription that the compiler carries out, or the first thing that is wrong, in the words of words.ts.
// A range also takes the nameless layers after its last one, as far as they can be tiled as it is. A layer that sums over a tiled dimension ends its range
// with the sums, and the next range may begin with it: with what is made of them.
// The type-level twin is checked.ts; both look for faults in the same order.
import { type Either, left, right } from 'fp-ts/Either'
import { DIMS } from '../../staging/core/box'
import type { PlanError } from '../../staging/core/errors'
import type { PrescribedCut, Prescription } from '../../staging/plan/prescription'
import type { LayerReport } from '../analyse'
import { badSize } from '../layers/rule'
import { cannotTile, rangeBackwards, rangesOverlap, sumsInside, tooFine } from './words'

/** Layers `from` to `to` run in so many tiles along each dimension; 1 unless given. */
export interface TileRange<L extends string = string> {
  readonly from: L
  readonly to: L
  readonly B?: number
  readonly H?: number
  readonly W?: number
}
export interface PlanByHand<L extends string = string> {
  readonly tiles?: readonly TileRange<L>[]
  /** Layers whose outputs stay: what lies between two of them is dropped and computed again for the backward pass. */
  readonly checkpoints?: readonly L[]
}

const TILED = ['B', 'H', 'W'] as const
type Tiled = (typeof TILED)[number]
type Refused = Either<PlanError, Prescription>

/** Where in the options, and what. */
export interface Fault {
  readonly at: string
  readonly reason: string
}
const refused = ({ at, reason }: Fault): Refused => left({ tag: 'PlanByHandInvalid', at, reason })

export const prescribe = (layers: readonly LayerReport[], { tiles = [], checkpoints = [] }: PlanByHand): Refused => {
  const names = layers.map((l) => l.name)
  const unknown = [...tiles.flatMap((t) => [t.from, t.to]), ...checkpoints].find((n) => !names.includes(n))
  if (unknown !== undefined) return refused({ at: 'tiles', reason: noLayer(unknown, layers) })
  const ranges: Prescription['ranges'][number][] = []
  for (const [i, t] of tiles.entries()) {
    const range = rangeFor(layers, t, tiles[i - 1])
    if ('reason' in range) return refused({ ...range, at: `tiles[${i}].${range.at}` })
    ranges.push(range)
  }
  const after = (name: string): PrescribedCut => ({ at: namelessAfter(layers, names.indexOf(name)) + 1, inside: false })
  return right({ layers: names, ranges, checkpoints: checkpoints.map(after) })
}

const noLayer = (name: string, layers: readonly LayerReport[]): string =>
  `there is no layer '${name}'; there are ${layers.flatMap((l) => (l.named ? [`'${l.name}'`] : [])).join(', ')}`

/** The place of the last nameless layer that follows this one and can be tiled along the same dimensions. */
const namelessAfter = (layers: readonly LayerReport[], at: number, tiled: readonly Tiled[] = []): number => {
  const next = layers.findIndex((l, i) => i > at && (l.named || tiled.some((d) => !l.ft.includes(d))))
  return next < 0 ? layers.length - 1 : next - 1
}

const countsOf = (t: TileRange): readonly (readonly [Tiled, number])[] => TILED.map((d) => [d, t[d] ?? 1])
const tiledIn = (t: TileRange): readonly Tiled[] => countsOf(t).flatMap(([d, n]) => (n > 1 ? [d] : []))
/** Whether a layer sums over a dimension along which the range has tiles. */
const sumsIn = (l: LayerReport, t: TileRange): boolean => countsOf(t).some(([d, n]) => n > 1 && l.sums.includes(d))

const rangeFor = (
  layers: readonly LayerReport[],
  t: TileRange,
  before: TileRange | undefined,
): Prescription['ranges'][number] | Fault => {
  for (const [d, n] of countsOf(t)) {
    const bad = badSize([`number of tiles along ${d}`, n, 1])
    if (bad !== null) return { at: d, reason: bad }
  }
  const at = (name: string): number => layers.findIndex((l) => l.name === name)
  const [first, last] = [at(t.from), at(t.to)]
  if (before) {
    const shared = sumsIn(layers[at(before.to)]!, before)
    if (first < at(before.to) + (shared ? 0 : 1)) return { at: 'from', reason: rangesOverlap(t.from, before.to) }
  }
  if (last < first) return { at: 'to', reason: rangeBackwards(t.from, t.to) }
  const endsInside = sumsIn(layers[last]!, t)
  const end = endsInside ? last : namelessAfter(layers, last, tiledIn(t))
  return (
    tileFault(layers.slice(first, end + 1), t) ?? {
      begin: { at: first, inside: sumsIn(layers[first]!, t) },
      end: endsInside ? { at: last, inside: true } : { at: end + 1, inside: false },
      grid: { B: t.B ?? 1, H: t.H ?? 1, W: t.W ?? 1 },
    }
  )
}

/** Whether every layer of a range can be tiled so. */
const tileFault = (range: readonly LayerReport[], t: TileRange): Fault | null => {
  for (const [d, n] of countsOf(t)) {
    if (n === 1) continue
    for (const [i, l] of range.entries()) {
      const isEnd = range.length > 1 && (i === 0 || i === range.length - 1)
      const reason = layerFault(l, d, n, isEnd)
      if (reason !== null) return { at: d, reason }
    }
  }
  return null
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
