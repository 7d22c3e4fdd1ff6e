// A training graph over several ranks: each rank has the same graph, for its share of the batch. In: such a graph. Out: its values that are shares,
// and the graph of the whole batch in one process, its source (grad/rewrite/ranks.ts). Invariant: attributes are those of the whole batch
// (the divisor of a mean, the counters of dropout); shapes are a rank's. Worked example, 2 ranks and 8 images: the image is [4,3,H,W] and its origin
// in the whole [8,3,H,W] is 4 at rank 1; a gradient dw is made as a share dw.share, and all_sum makes dw from it.
import {
  bandedFault,
  bandFault,
  bandsOf,
  countsOf,
  isCut,
  type Part,
  type Parts,
  ROW_EXCHANGES,
  rowsFault,
  wholeRows,
} from './bands'
import { elementsOf } from '../core/box'
import { onceFor } from '../core/remember'
import { clipValues } from '../ops/clip'
import { partOf } from '../ops/collective'
import { meanOverSteps, updateKinds } from '../ops/optimizer'
import { attrsListed } from '../ops/op'
import { updatesOperand } from '../ops/scaling'
import { findOp } from '../ops/registry'
import { type Graph, isFed, type Op, type Value, type ValueId } from './graph'

export const COLLECTIVES: readonly string[] = ['all_sum', 'all_moments', 'all_sums', 'sum_parts', 'put_part']
/** The collectives that may run beside compute. */
export const BESIDE: readonly string[] = ['all_sums', 'sum_parts', 'put_part']
/**
 * Returns true for a collective that may run in order, or start early if a plan has compute to run beside it. The plan then waits where its result is
 * read.
 */
export const mayStartEarly = ({ kind, attrs }: Pick<Op, 'kind' | 'attrs'>): boolean =>
  kind === 'all_moments' || (kind === 'all_sums' && attrs['beside'] !== 1)
/** Ops that the graph of one process does not have. */
export const RANK_OPS: readonly string[] = [...COLLECTIVES, 'take_part']
/** Returns true for the input of `put_part` that is an updated part. Only `put_part`, which writes it into the whole, may read it. */
export const putsPart = ({ kind }: Pick<Op, 'kind'>, input: number): boolean => kind === 'put_part' && input === 1
/** Returns the number of ranks that share a graph's batch. */
export const ranksOf = (g: Graph): number => g.ranks ?? 1

/** Returns the number of parts that ranks cut the batch into. Bands of rows cut images instead. */
export const slicesOf = (g: Graph): number => ranksOf(g) / bandsOf(g)

/** Returns the values with images: fed ones, and results image by image. All others are whole on each rank. */
export const sharesOf = onceFor((g: Graph): ReadonlySet<ValueId> => {
  const all = new Set(g.values.filter(isFed).map((v) => v.id))
  for (const op of g.ops)
    op.outs.forEach((v, i) => {
      // The statistics of images, merged over their bands.
      const ofImages = op.kind === 'all_moments' && all.has(op.ins[0]!)
      if (ofImages || findOp(op.kind)?.outs[i]?.role === 'data') all.add(v)
    })
  return all
})

/** Returns the extents of a value in the whole batch. For a part, these are the extents of the whole value. */
export const wholeShape = (g: Graph, v: Value): readonly number[] => {
  if (v.part) return v.part
  const [images, ...others] = wholeRows(v)
  return slicesOf(g) > 1 && sharesOf(g).has(v.id) ? [images! * slicesOf(g), ...others] : wholeRows(v)
}

/** Returns the ranks whose parts of an op's sums make the whole: all ranks; or, if each band has all rows, the ranks of one band. */
export const mergedOver = (g: Graph, op: Op): 'all' | 'shares' => (g.bands && !isCut(g, op) ? 'shares' : 'all')
export const membersOf = (g: Graph, over: Part['over']): number =>
  over === 'all' ? ranksOf(g) : over === 'shares' ? slicesOf(g) : bandsOf(g)

/** Returns the statistics of channels over images, and joins of them. */
export const momentsOf = onceFor((g: Graph): ReadonlySet<ValueId> => {
  const moments = new Set<ValueId>()
  for (const op of g.ops) {
    const joins = op.ins.length > 0 && op.ins.every((v) => moments.has(v))
    op.outs.forEach((v, i) => (joins || findOp(op.kind)?.outs[i]?.merge === 'moments') && moments.add(v))
  }
  return moments
})
export const readsMoments = (g: Graph, op: Op): boolean => op.ins.some((v) => momentsOf(g).has(v))

/** Multiplies the count of a norm, which is the number of elements in its statistics. With local norms, it is the number of a share. */
export const withCounts = (g: Graph, op: Op, times: number): Op =>
  op.attrs['count'] !== undefined && readsMoments(g, op) && !COLLECTIVES.includes(op.kind)
    ? { ...op, attrs: { ...op.attrs, count: op.attrs['count'] * times } }
    : op

/** Returns the graph with the shapes, and the counts of norms, of the whole batch. The rules of the op table are about these. */
export const inWholeShapes = (g: Graph): Graph =>
  ranksOf(g) > 1
    ? {
        ...g,
        values: g.values.map((v) => ({ ...v, shape: wholeShape(g, v) })),
        ...(g.norms === 'local' ? { ops: g.ops.map((op) => withCounts(g, op, ranksOf(g))) } : {}),
      }
    : g

/** Returns the names of values that differ between ranks: running statistics of local norms, and parts. */
export const ownOfRank = (g: Graph): ReadonlySet<string> => {
  const own = new Set(g.norms === 'local' ? momentsOf(g) : [])
  for (const op of g.ops)
    if (op.phase === 'update' && op.ins.some((v) => own.has(v)))
      for (const i of findOp(op.kind)?.mutates ?? []) if (op.ins[i] !== undefined) own.add(op.ins[i])
  for (const v of g.values) if (v.part) own.add(v.id)
  return new Set([...own].map((v) => g.values[v]!.name))
}

/** Returns a function from an exchanged value, or a taken part, to the first value of its chain. Each is made from one other value. */
const originalsIn = (g: Graph): ((v: ValueId) => ValueId) => {
  const first = new Map<ValueId, ValueId>()
  for (const { kind, ins, outs } of g.ops)
    if (RANK_OPS.includes(kind) || ROW_EXCHANGES.includes(kind))
      outs.forEach((y, i) => first.set(Math.max(ins[i]!, y), Math.min(ins[i]!, y)))
  const own = (v: ValueId): ValueId => {
    const next = first.get(v)
    return next === undefined ? v : own(next)
  }
  return own
}

/** Returns the graph of one process, with whole weights. */
export const asOne = (g: Graph): Graph => {
  if (g.inParts) return g.inParts.whole
  if (ranksOf(g) === 1) return g
  const { ranks: _1, norms: _2, shard: _3, bands: _4, alone, ...whole } = inWholeShapes(g)
  const same = originalsIn(g)
  const own = alone ? alone.map((id) => whole.ops[id]!) : whole.ops.filter((op) => !RANK_OPS.includes(op.kind))
  return {
    ...whole,
    values: whole.values.filter((v) => same(v.id) === v.id).map(({ part: _5, rows: _6, ...v }) => v),
    ops: own
      .filter((op) => !ROW_EXCHANGES.includes(op.kind))
      .map((op, id) => ({ ...op, id, ins: op.ins.map(same), outs: op.outs.map(same) })),
  }
}

/** Checks moments over bands, which may have different numbers of rows. */
const countsFault = (g: Graph, op: Op, maker: Op | undefined, over: Part['over']): string | undefined => {
  if (op.kind !== 'all_moments' || over === 'shares' || !maker || !isCut(g, maker)) return undefined
  const each = countsOf(g, maker, op.ins[0]!)
  const due = Array.from({ length: membersOf(g, over) }, (_, r) => each[r % each.length]!)
  const given = attrsListed('of', op.attrs)
  return due.length === given.length && due.every((n, r) => given[r] === n)
    ? undefined
    : `merges moments of ${given.join(', ')} elements; allowed: ${due.join(', ')}`
}

const collectiveFault = (g: Graph, op: Op, parts: Parts, makers: ReadonlyMap<ValueId, Op>): string | undefined => {
  const { kind, ins } = op
  const given = op.attrs['ranks']
  const of = (due: number): string | undefined => (given === due ? undefined : `is for ${given} ranks; allowed: ${due}`)
  if (kind === 'put_part') return of(ranksOf(g))
  for (const v of ins) {
    const part = parts.get(v)
    const merges = kind === 'all_moments' ? 'moments' : 'sum'
    const isOfImages = kind === 'all_moments' && g.values[v]!.shape.length === 4
    if (part?.merge !== merges || (part.over === 'bands') !== isOfImages) return 'reads a value that no rank has a share of'
    const fault = of(kind === 'sum_parts' ? ranksOf(g) : membersOf(g, part.over)) ?? countsFault(g, op, makers.get(v), part.over)
    if (fault !== undefined) return fault
    if (kind === 'sum_parts' && part.over !== 'all') return 'computes parts of a value that only some ranks have a share of'
  }
  return undefined
}

/** Returns the error of a graph over ranks: a share that is read as the sum, or a sum of a value without shares. */
export const ranksFault = (g: Graph): string | undefined => {
  const parts: Parts = new Map()
  const makers = new Map<ValueId, Op>()
  const ofOp = (op: Op): string | undefined => {
    if (ROW_EXCHANGES.includes(op.kind)) return rowsFault(g, op, parts)
    if (COLLECTIVES.includes(op.kind)) return collectiveFault(g, op, parts, makers)
    const share = op.ins.find((v) => parts.has(v))
    // With local norms, a norm reads the sums of its own share.
    const isOwn = g.norms === 'local' && readsMoments(g, op)
    if (!isOwn && share !== undefined)
      return `reads the ${parts.get(share)!.over === 'bands' ? 'part' : 'share'} '${g.values[share]?.name}' as the whole value`
    const over = mergedOver(g, op)
    if (membersOf(g, over) > 1)
      op.outs.forEach((v, i) => {
        const out = findOp(op.kind)?.outs[i]
        if (out?.role === 'whole' && out.merge && !(g.norms === 'local' && out.merge === 'moments'))
          parts.set(v, { merge: out.merge, over })
      })
    return g.bands && bandFault(g, op, parts)
  }
  const banded = bandedFault(g)
  if (banded !== undefined) return banded
  for (const op of g.ops) {
    const fault = ofOp(op)
    if (fault !== undefined) return `${op.kind} of '${op.layer}' ${fault}`
    for (const v of op.outs) makers.set(v, op)
  }
  return partsFault(g) ?? orderFault(g)
}

/** Ops that work element by element, on a part as on the whole. */
const PARTWISE: readonly string[] = [...updateKinds, meanOverSteps.kind, clipValues.kind]
export const isUpdate: (kind: string) => boolean = (
  (kinds) => (kind: string) =>
    kinds.has(kind)
)(new Set(updateKinds))

/** Checks that no part is read as a whole, and that a part of a weight that is taken and updated is written back. */
const partsFault = (g: Graph): string | undefined => {
  const ranks = ranksOf(g)
  const isPart = (v: ValueId): boolean => g.values[v]?.part !== undefined
  const name = (v: ValueId | undefined): string => `'${g.values[v ?? -1]?.name}'`
  for (const v of g.values) {
    if (!v.part) continue
    if (ranks === 1) return `'${v.name}' is a part, but there is one process`
    if (!['state', 'gradient', 'stat'].includes(v.role))
      return `'${v.name}' of role ${v.role} is a part; allowed roles: state, gradient, stat`
    const due = partOf(elementsOf(v.part), ranks)
    if (v.shape.length !== 1 || v.shape[0] !== due)
      return `the part '${v.name}' has ${v.shape.join('x')} elements; allowed: ${due}`
  }
  /** By part of a weight: the weight, and the steps so far (updated, written back). */
  const taken = new Map<ValueId, { readonly weight: ValueId; updated: boolean; put: boolean }>()
  for (const op of g.ops) {
    const { kind, layer, ins, outs } = op
    const at = `${kind} of '${layer}'`
    const whole = [...ins, ...outs].find((v, i) => !isPart(v) && findOp(kind)?.ins[i]?.name !== updatesOperand.name)
    const part = [...ins, ...outs].find(isPart)
    if (kind === 'take_part' || kind === 'sum_parts') {
      if (kind === 'take_part' && op.attrs['ranks'] !== ranks) return `${at} is for ${op.attrs['ranks']} ranks; allowed: ${ranks}`
      if (ins.some(isPart) || !outs.every(isPart)) return `${at} does not split a whole value`
      if (g.values[ins[0]!]?.role === 'param') taken.set(outs[0]!, { weight: ins[0]!, updated: false, put: false })
    } else if (kind === 'put_part') {
      const own = taken.get(ins[1]!)
      if (own?.weight !== ins[0] || !own!.updated || own!.put)
        return `${at} writes ${name(ins[1])} into ${name(ins[0])}, but it is not an updated part of it`
      own!.put = true
    } else if (part !== undefined) {
      if (!PARTWISE.includes(kind) || whole !== undefined) return `${at} reads the part ${name(part)} as the whole value`
      if (!isUpdate(kind)) continue
      const own = taken.get(ins[0]!)
      if (!own || own.updated || g.values[ins[1]!]?.gradOf !== own.weight)
        return `${at} updates ${name(ins[0])}, which is not a part of the weight of its gradient`
      own.updated = true
    }
  }
  const lost = [...taken].find(([, own]) => !own.put)
  return lost && `the part ${name(lost[0])} is not written back`
}

/** Checks that the order of one process has each of its operators once. */
const orderFault = ({ ops, alone }: Graph): string | undefined => {
  if (!alone) return undefined
  const own = ops.filter((op) => !RANK_OPS.includes(op.kind)).map((op) => op.id)
  const named = new Set(alone)
  return named.size === alone.length && alone.length === own.length && own.every((id) => named.has(id))
    ? undefined
    : `the order for one process has ${named.size} of ${own.length} operators`
}
