// Partial sums: reading one, adding one to another, and knowing when nothing is missing.
// In: contents and views. Out: pieces, or the fault of a contribution that is missing, foreign or counted twice.
// Worked example: two tiles of a convolution's backward give {dy: rows [0,4)} and {dy: rows [4,8)}; their sum holds all of dy once.
import { type Either, left, right } from 'fp-ts/Either'
import { hullBox } from '../core/box'
import type { View } from '../plan/plan'
import type { Content, Contents, Part, Piece } from './contents'
import type { Facts } from './facts'
import { broken, type VerifyFailed } from './failure'
import { contains, disjoint, elementsIn, inBox, type Region, regionText, sameRegion, union, within } from './region'

export interface Taken extends Piece {
  /** Whether the box was read as final elements rather than as a partial sum. */
  readonly final: boolean
}

const isComplete = (facts: Facts, parts: readonly Part[]): boolean =>
  parts.every((p) => contains(p.taken, facts.full[p.source]!))

/** A piece whose contributions are all in is final wherever it was written. */
export const settled = (facts: Facts, piece: Piece, written: Region): Piece =>
  piece.parts.length > 0 && isComplete(facts, piece.parts) ? { ...piece, exact: written, parts: [] } : piece

/**
 * What an op that is linear in this operand gets: final elements, which then count as a source of their own, or all of
 * a partial sum of the same tile.
 */
export const take = (facts: Facts, contents: Contents, view: View, by: number, call: number): Either<VerifyFailed, Taken> => {
  const content = contents.contentOf(view)
  const { segment, tile } = facts.plan.calls[call]!
  const local = facts.plan.cells[view.cell]!.scope === 'local'
  const partial = content !== undefined && content.parts.length > 0 && local
  if (partial && inBox(view.box, content.support)) {
    if (content.segment !== segment || content.tile !== tile)
      return left(broken('twice', `it is the partial sum of tile ${content.tile} of segment ${content.segment}`, facts.at(call, view.value)))
    return right({ exact: within(content.exact, view.box), parts: content.parts, support: content.support, final: false })
  }
  const fault = contents.needExact(view, call)
  if (fault) return left(fault)
  return right({ exact: [view.box], parts: [{ source: view.value, by, taken: [view.box] }], support: view.box, final: true })
}

const sameSource = (p: Part) => (q: Part): boolean => p.source === q.source && p.by === q.by

/**
 * The sum of two tiles' contributions: of the same sources, of different elements. (With different sources nobody could
 * tell whether one of them already stands for the other.)
 */
export const addParts = (facts: Facts, a: readonly Part[], b: readonly Part[]): Either<string, readonly Part[]> => {
  if (a.length === 0) return right(b)
  const sum = [...a]
  for (const p of b) {
    const i = sum.findIndex(sameSource(p))
    if (i < 0 || a.length !== b.length) return left(`one tile takes it from '${facts.name(p.source)}', another from elsewhere`)
    if (!disjoint(sum[i]!.taken, p.taken)) return left(`the contribution of ${regionText(p.taken)} of '${facts.name(p.source)}' is counted twice`)
    sum[i] = { ...p, taken: union(sum[i]!.taken, p.taken) }
  }
  return right(sum)
}

/** Contributions of the same elements along different paths (a fork's branches) make up one. */
export const mergePaths = (facts: Facts, a: readonly Part[], b: readonly Part[]): Either<string, readonly Part[]> => {
  const sum = [...a]
  for (const p of b) {
    const known = sum.find(sameSource(p))
    if (!known) sum.push(p)
    else if (!sameRegion(known.taken, p.taken))
      return left(`${regionText(known.taken)} of '${facts.name(p.source)}' comes along one path and ${regionText(p.taken)} along another`)
  }
  return right(sum)
}

/** The accumulator after one more contribution. */
export const accumulated = (facts: Facts, y: Content, x: Taken): Either<string, Content> => {
  if (y.exact.length > 0 && y.parts.length === 0) return left('it is complete already, so this contribution is counted twice')
  const sum = addParts(facts, y.parts, x.parts)
  if (sum._tag === 'Left') return sum
  const support = y.parts.length > 0 ? hullBox(y.support, x.support) : x.support
  return right({ ...y, ...settled(facts, { exact: [], parts: sum.right, support }, y.defined) })
}

/** How many elements of each channel statistics were taken over. */
export const momentsCount = (facts: Facts, value: number, content: Piece): number => {
  const perChannel = (region: Region): number => region.reduce((n, b) => n + elementsIn([b]) / (b[1][1] - b[1][0]), 0)
  if (content.parts.length > 0) return content.parts.reduce((n, p) => n + perChannel(p.taken), 0)
  const producer = facts.ops.find((f) => f.op.outs.includes(value))
  const anchor = producer?.def.anchor
  return producer && typeof anchor === 'number' && content.exact.length > 0 ? perChannel([facts.full[producer.op.ins[anchor]!]!]) : 0
}
