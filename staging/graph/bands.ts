// A graph of one image whose rows several ranks share: each value is there as rows of the whole, those of this rank. In: such a graph. Out: how
// its ops index what they have; the graph of one process; what is wrong with it.
// Invariant: shapes count a rank's rows; attributes, and the places that kernels are told, are those of the whole.
// Worked example, 10 rows, 2 ranks, a 3x3 convolution: rank 1 makes rows [5,10) of y from rows [4,10) of x, which `take_rows` made of its
// own [5,10) and one of rank 0's; backwards its dx of rows [4,10) is a part, and `sum_rows` adds up all that ranks have of [5,10).
import { type Box, extentOf, type Range, sameRange, tileRange } from '../core/box'
import { hasIn, isPartition, wantsIn } from '../ops/bands'
import { type Access, type AccessMap, attrsListed, inputDef, type OperandDef, touched } from '../ops/op'
import { findOp } from '../ops/registry'
import type { Graph, Op, Value, ValueId } from './graph'

/** Ops by which ranks hand one another rows. */
export const ROW_EXCHANGES: readonly string[] = ['take_rows', 'sum_rows']
/** Into how many bands a graph's images are cut. */
export const bandsOf = (g: Graph): number => g.bands?.of ?? 1

/** The extents of a value of which ranks have rows. */
export const wholeRows = (v: Value): readonly number[] => (v.rows ? [v.shape[0]!, v.shape[1]!, v.rows.of, v.shape[3]!] : v.shape)
/** Where a box of what this rank has begins in the whole. */
export const originIn = (v: Value, box: Box): readonly number[] => box.map((r, d) => r[0] + (d === 2 ? (v.rows?.from ?? 0) : 0))

/** A graph whose values have all their rows. */
export const withWholeRows = (g: Graph): Graph =>
  g.bands ? { ...g, values: g.values.map(({ rows: _, ...v }, i) => ({ ...v, shape: wholeRows(g.values[i]!) })) } : g

/** The operand whose rows an op iterates over, where they are those of an image. */
const anchorOf = (op: Op): { readonly value: ValueId; readonly def: OperandDef } | undefined => {
  const def = findOp(op.kind)
  if (!def) return undefined
  const [value, operand] = def.anchor === 'out' ? [op.outs[0], def.outs[0]] : [op.ins[def.anchor], inputDef(def, def.anchor)]
  return value === undefined || !operand ? undefined : { value, def: operand }
}

const fromOf = (g: Graph, v: ValueId | undefined): number => (v === undefined ? 0 : (g.values[v]?.rows?.from ?? 0))

/** How an op indexes the rows of an operand that are here. */
export const ofBand = (g: Graph, op: Op, value: ValueId, map: AccessMap): AccessMap => {
  const v = g.values[value]!
  const from = fromOf(g, anchorOf(op)?.value)
  const at = v.rows?.from ?? 0
  const { H } = map
  if (!g.bands || H.tag === 'same' || H.tag === 'inside' || H.tag === 'all' || H.tag === 'reduce' || H.tag === 'shifted')
    return map
  return { ...map, H: { tag: 'shifted', access: H, from, at, whole: wholeRows(v)[2]! } }
}

// ---------------------------------------------------------------- the graph of one process

/** Exchanges among all ranks, and of rows: each has made one value of another, of which the first was there before. */
const isExchange = (kind: string): boolean => kind.startsWith('all_') || ROW_EXCHANGES.includes(kind)

export const uncut = (g: Graph): Graph => {
  const { ranks: _, bands: _1, ...whole } = withWholeRows(g)
  const first = new Map<ValueId, ValueId>()
  for (const op of g.ops) {
    if (!isExchange(op.kind)) continue
    const [x, y] = [op.ins[0]!, op.outs[0]!]
    first.set(Math.max(x, y), Math.min(x, y))
  }
  const own = (v: ValueId): ValueId => {
    const next = first.get(v)
    return next === undefined ? v : own(next)
  }
  return {
    ...whole,
    values: whole.values.filter((v) => !first.has(v.id)),
    ops: whole.ops
      .filter((op) => !isExchange(op.kind))
      .map((op, id) => ({ ...op, id, ins: op.ins.map(own), outs: op.outs.map(own) })),
  }
}

// ---------------------------------------------------------------- what is wrong

const rangeOf = (v: Value): Range => {
  const from = v.rows?.from ?? 0
  return [from, from + (v.shape[2] ?? 1)]
}
const text = ([from, to]: Range): string => `[${from},${to})`
const holds = (outer: Range, inner: Range): boolean => outer[0] <= inner[0] && inner[1] <= outer[1]

/** A part of a sum, or of moments, that no rank but this has. */
type Parts = Map<ValueId, 'sum' | 'moments'>

const exchangeFault = (g: Graph, op: Op, parts: Parts): string | undefined => {
  const { at, of } = g.bands!
  const [x, y] = [g.values[op.ins[0]!]!, g.values[op.outs[0]!]!]
  if (!ROW_EXCHANGES.includes(op.kind)) {
    if (op.attrs['ranks'] !== of) return `is of ${op.attrs['ranks']} ranks; legal is ${of}`
    return parts.get(x.id) === (op.kind === 'all_moments' ? 'moments' : 'sum') ? undefined : 'reads what no rank has a share of'
  }
  const [has, wants] = [hasIn(op.attrs), wantsIn(op.attrs)]
  if (op.attrs['bands'] !== of || op.attrs['band'] !== at)
    return `is of band ${op.attrs['band']} of ${op.attrs['bands']}; legal is ${at} of ${of}`
  if (!sameRange(has[at]!, rangeOf(x)))
    return `takes rows ${text(has[at]!)} of '${x.name}', of which this rank has ${text(rangeOf(x))}`
  if (!sameRange(wants[at]!, rangeOf(y))) return `makes rows ${text(wants[at]!)} of '${y.name}', which has ${text(rangeOf(y))}`
  const part = parts.get(x.id)
  if (op.kind === 'sum_rows') return part === 'sum' ? undefined : `adds up '${x.name}', of which no rank has a part`
  return part === undefined || isPartition(has) ? undefined : `takes a part, '${x.name}', as if it were whole`
}

const accessed = (g: Graph, op: Op, def: OperandDef): Access | undefined => {
  const shapes = { ins: op.ins.map((v) => wholeRows(g.values[v]!)), outs: op.outs.map((v) => wholeRows(g.values[v]!)) }
  return def.role === 'data' ? def.access?.(op.attrs as never, shapes).H : undefined
}

/** Whether each rank makes the rows that are its own, and no others: windows that do not overlap, of a height that bands divide. */
const madeApart = (g: Graph, H: Access, anchor: Value, made: Value): boolean => {
  const [over, own] = [anchor, made].map((v) => bandsIn(wholeRows(v)[2]!, bandsOf(g)))
  if (!over || !own) return false
  return over.every((r, i) => sameRange(touched(H, r, wholeRows(made)[2]!), own[i]!))
}

/** An op that runs on this rank's rows, or on all of them. */
const opFault = (g: Graph, op: Op, parts: Parts): string | undefined => {
  const def = findOp(op.kind)
  const anchor = anchorOf(op)
  if (!def || !anchor) return undefined
  const value = (v: ValueId): Value => g.values[v]!
  const isCut = value(anchor.value).rows !== undefined
  const iteration: Range = anchor.def.role === 'data' ? rangeOf(value(anchor.value)) : [0, 1]
  const part = op.ins.find((v) => parts.has(v))
  if (part !== undefined) return `reads a part, '${value(part).name}', as if it were whole`
  for (const [i, v] of op.ins.entries()) {
    const H = accessed(g, op, inputDef(def, i))
    if (!H) continue
    const here = rangeOf(value(v))
    const exactly = H.tag === 'same' || H.tag === 'inside'
    const need: Range = exactly ? iteration : touched(H, iteration, wholeRows(value(v))[2]!)
    if (exactly ? !sameRange(here, need) : !holds(here, need))
      return `needs rows ${text(need)} of '${value(v).name}' and has ${text(here)}`
  }
  for (const [i, v] of op.outs.entries()) {
    const o = def.outs[i]!
    const H = accessed(g, op, o)
    if (isCut && o.role === 'whole' && o.merge) parts.set(v, o.merge)
    if (!H) continue
    const here = rangeOf(value(v))
    const exactly = H.tag === 'same' || H.tag === 'inside'
    const made: Range = exactly ? iteration : touched(H, iteration, wholeRows(value(v))[2]!)
    if (!sameRange(here, made)) return `makes rows ${text(made)} of '${value(v).name}', which has ${text(here)}`
    if (isCut && !exactly && !madeApart(g, H, value(anchor.value), value(v))) parts.set(v, o.merge ?? 'sum')
  }
  return undefined
}

/** Of moments, how many elements each rank's are of. */
const countsFault = (g: Graph, op: Op, maker: Op | undefined): string | undefined => {
  const x = maker && anchorOf(maker)
  const v = x && g.values[x.value]!
  if (op.kind !== 'all_moments' || !v?.rows) return undefined
  const row = (v.shape[0]! * v.shape[1]! * v.shape[3]!) / (g.values[op.ins[0]!]!.shape.reduce((n, d) => n * d, 1) / 4)
  const due = bandsIn(v.rows.of, bandsOf(g))!.map((r) => extentOf(r) * row)
  const given = attrsListed('of', op.attrs)
  return due.every((n, r) => given[r] === n)
    ? undefined
    : `merges moments of ${given.join(', ')} elements; legal are ${due.join(', ')}`
}

/** The rows of each band of a value so high; undefined where there are not as many: every rank has all of it. */
export const bandsIn = (height: number, bands: number): readonly Range[] | undefined =>
  height >= bands ? Array.from({ length: bands }, (_, i) => tileRange(height, bands, i)) : undefined

/** In words: rows that are not there, a part that is read as if it were whole. */
export const bandsFault = (g: Graph): string | undefined => {
  const { at, of } = g.bands!
  if (g.ranks !== of || at >= of)
    return `it is band ${at} of ${of} of a graph of ${g.ranks ?? 1} ranks; legal are as many bands as ranks`
  const parts: Parts = new Map()
  const makers = new Map<ValueId, Op>()
  const odd = g.values.find((v) => v.rows && (v.shape.length !== 4 || v.rows.from + v.shape[2]! > v.rows.of))
  if (odd) return `'${odd.name}' has rows beyond those that there are`
  for (const op of g.ops) {
    const fault = isExchange(op.kind)
      ? (exchangeFault(g, op, parts) ?? countsFault(g, op, makers.get(op.ins[0]!)))
      : opFault(g, op, parts)
    if (fault !== undefined) return `${op.kind} of '${op.layer}' ${fault}`
    for (const v of op.outs) makers.set(v, op)
  }
  return undefined
}
