// A graph whose images are divided by rows among ranks: each rank has its rows of each value. In: such a graph. Out: the indexing of its ops; its
// errors. With shares of a batch (graph/ranks.ts) ranks are a grid. The ranks of a share follow each other: rank 5 of 8 with 4 bands has band 1 of
// share 1. Invariant: shapes count a rank's rows; attributes, and the positions that kernels receive, are those of the whole. Worked example, 10
// rows, 2 ranks, a 3x3 convolution: rank 1 makes rows [5,10) of y from rows [4,10) of x, which `take_rows` made of its own [5,10) and one row of rank
// 0. Backwards, its dx of rows [4,10) is a part, and `sum_rows` adds all ranks' parts of [5,10).
import { type Box, elementsOf, extentOf, type Range, sameRange, tileRange } from '../core/box'
import { hasIn, isPartition, wantsIn } from '../ops/bands'
import { type Access, type AccessMap, inputDef, type OperandDef, touched } from '../ops/op'
import { findOp } from '../ops/registry'
import type { Graph, Op, Value, ValueId } from './graph'

/** Ops for exchanges of rows between ranks. */
export const ROW_EXCHANGES: readonly string[] = ['take_rows', 'sum_rows']
/** Returns the number of bands that a graph's images are cut into. */
export const bandsOf = (g: Graph): number => g.bands?.of ?? 1

/** Returns the extents of the whole value, with the rows of all ranks. */
export const wholeRows = (v: Value): readonly number[] => (v.rows ? [v.shape[0]!, v.shape[1]!, v.rows.of, v.shape[3]!] : v.shape)
/** Returns the position, in the whole value, of a box of this rank. */
export const originIn = (v: Value, box: Box): readonly number[] => box.map((r, d) => r[0] + (d === 2 ? (v.rows?.from ?? 0) : 0))

/** Returns the graph with values that have all their rows. */
export const withWholeRows = (g: Graph): Graph =>
  g.bands ? { ...g, values: g.values.map(({ rows: _, ...v }, i) => ({ ...v, shape: wholeRows(g.values[i]!) })) } : g

/** Returns the operand whose rows an op iterates over. */
const anchorOf = (op: Op): { readonly value: ValueId; readonly def: OperandDef } | undefined => {
  const def = findOp(op.kind)
  if (!def) return undefined
  const [value, operand] = def.anchor === 'out' ? [op.outs[0], def.outs[0]] : [op.ins[def.anchor], inputDef(def, def.anchor)]
  return value === undefined || !operand ? undefined : { value, def: operand }
}

const fromOf = (g: Graph, v: ValueId | undefined): number => (v === undefined ? 0 : (g.values[v]?.rows?.from ?? 0))

/** Returns the access of an op to this rank's rows of an operand. */
export const ofBand = (g: Graph, op: Op, value: ValueId, map: AccessMap): AccessMap => {
  const v = g.values[value]!
  const from = fromOf(g, anchorOf(op)?.value)
  const at = v.rows?.from ?? 0
  const { H } = map
  if (!g.bands || H.tag === 'same' || H.tag === 'inside' || H.tag === 'all' || H.tag === 'reduce' || H.tag === 'shifted')
    return map
  return { ...map, H: { tag: 'shifted', access: H, from, at, whole: wholeRows(v)[2]! } }
}

/** Returns true if an op runs on this rank's rows only, not on all rows. */
export const isCut = (g: Graph, op: Op): boolean => {
  const anchor = g.bands && anchorOf(op)
  return anchor !== undefined && g.values[anchor.value]?.rows !== undefined
}

/** Returns the number of elements in the moments of each band. */
export const countsOf = (g: Graph, op: Op, moments: ValueId): readonly number[] => {
  const v = g.values[anchorOf(op)!.value]!
  const row = (v.shape[0]! * v.shape[1]! * v.shape[3]!) / (elementsOf(g.values[moments]!.shape) / 4)
  return bandsIn(v.rows!.of, bandsOf(g))!.map((r) => extentOf(r) * row)
}

// ---------------------------------------------------------------- what is wrong

const rangeOf = (v: Value): Range => {
  const from = v.rows?.from ?? 0
  return [from, from + (v.shape[2] ?? 1)]
}
const text = ([from, to]: Range): string => `[${from},${to})`
const contains = (outer: Range, inner: Range): boolean => outer[0] <= inner[0] && inner[1] <= outer[1]

/** A part of a sum, or of moments, that only this rank has. */
export interface Part {
  readonly merge: 'sum' | 'moments'
  /** The ranks whose parts make the whole: all ranks, the ranks of other shares with the same band, or the other bands of the same images. */
  readonly over: 'all' | 'shares' | 'bands'
}
export type Parts = Map<ValueId, Part>

/** Checks an op that exchanges or sums rows. */
export const rowsFault = (g: Graph, op: Op, parts: Parts): string | undefined => {
  if (!g.bands) return 'needs bands, but the graph has none'
  const { at, of } = g.bands
  const [x, y] = [g.values[op.ins[0]!]!, g.values[op.outs[0]!]!]
  const [has, wants] = [hasIn(op.attrs), wantsIn(op.attrs)]
  if (op.attrs['bands'] !== of || op.attrs['band'] !== at)
    return `belongs to band ${op.attrs['band']} of ${op.attrs['bands']}; allowed: ${at} of ${of}`
  if (!sameRange(has[at]!, rangeOf(x)))
    return `reads rows ${text(has[at]!)} of '${x.name}', but this rank has ${text(rangeOf(x))}`
  if (!sameRange(wants[at]!, rangeOf(y))) return `computes rows ${text(wants[at]!)} of '${y.name}', which has ${text(rangeOf(y))}`
  const part = parts.get(x.id)
  if (part && part.over !== 'bands') return `reads rows of a share, '${x.name}'`
  if (op.kind === 'sum_rows') return part?.merge === 'sum' ? undefined : `adds up '${x.name}', but no rank has a part of it`
  return part === undefined || isPartition(has) ? undefined : `reads the part '${x.name}' as the whole value`
}

const accessed = (g: Graph, op: Op, def: OperandDef): Access | undefined => {
  const shapes = { ins: op.ins.map((v) => wholeRows(g.values[v]!)), outs: op.outs.map((v) => wholeRows(g.values[v]!)) }
  return def.role === 'data' ? def.access?.(op.attrs as never, shapes).H : undefined
}

/** Returns true if each rank makes exactly its own rows: windows do not overlap, and bands divide their height. */
const makesOwnRows = (g: Graph, H: Access, anchor: Value, made: Value): boolean => {
  const [over, own] = [anchor, made].map((v) => bandsIn(wholeRows(v)[2]!, bandsOf(g)))
  if (!over || !own) return false
  return over.every((r, i) => sameRange(touched(H, r, wholeRows(made)[2]!), own[i]!))
}

/** Checks an op that runs on this rank's rows, or on all rows. Adds results that are parts to `parts`. */
export const bandFault = (g: Graph, op: Op, parts: Parts): string | undefined => {
  const def = findOp(op.kind)
  const anchor = anchorOf(op)
  if (!def || !anchor) return undefined
  const value = (v: ValueId): Value => g.values[v]!
  const iteration: Range = anchor.def.role === 'data' ? rangeOf(value(anchor.value)) : [0, 1]
  for (const [i, v] of op.ins.entries()) {
    const H = accessed(g, op, inputDef(def, i))
    if (!H) continue
    const here = rangeOf(value(v))
    const exactly = H.tag === 'same' || H.tag === 'inside'
    const need: Range = exactly ? iteration : touched(H, iteration, wholeRows(value(v))[2]!)
    if (exactly ? !sameRange(here, need) : !contains(here, need))
      return `needs rows ${text(need)} of '${value(v).name}', but has ${text(here)}`
  }
  for (const [i, v] of op.outs.entries()) {
    const o = def.outs[i]!
    const H = accessed(g, op, o)
    if (!H) continue
    const here = rangeOf(value(v))
    const exactly = H.tag === 'same' || H.tag === 'inside'
    const made: Range = exactly ? iteration : touched(H, iteration, wholeRows(value(v))[2]!)
    if (!sameRange(here, made)) return `computes rows ${text(made)} of '${value(v).name}', which has ${text(here)}`
    if (isCut(g, op) && !exactly && !makesOwnRows(g, H, value(anchor.value), value(v)))
      parts.set(v, { merge: o.merge ?? 'sum', over: 'bands' })
  }
  return undefined
}

/** Returns the rows of each band of a value with this height; undefined if it has fewer rows than bands, so that each rank has all of it. */
export const bandsIn = (height: number, bands: number): readonly Range[] | undefined =>
  height >= bands ? Array.from({ length: bands }, (_, i) => tileRange(height, bands, i)) : undefined

/** Checks the bands of a graph and the rows of its values. */
export const bandedFault = (g: Graph): string | undefined => {
  const { bands, ranks = 1 } = g
  if (bands && (ranks % bands.of !== 0 || bands.at >= bands.of))
    return `it is band ${bands.at} of ${bands.of} in a graph of ${ranks} ranks; the number of bands must divide the ranks`
  const odd = g.values.find((v) => v.rows && (!bands || v.shape.length !== 4 || v.rows.from + v.shape[2]! > v.rows.of))
  return odd && `'${odd.name}' has rows beyond its height`
}
