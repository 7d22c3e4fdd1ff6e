// Partial sums: reads one, adds one to another, and finds out if it is complete.
// In: contents and views. Out: contributions, or the fault of one that is missing, foreign or counted twice.
// Worked example: two tiles of a convolution's backward give {dy: rows [0,4)} and {dy: rows [4,8)}; their sum holds all of dy once.
import { mapped } from '../core/mapped'
import { separate } from 'fp-ts/Array'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { hullBox } from '../core/box'
import type { View } from '../plan/plan'
import type { Content, Contents, SourcePart, Contribution, Way } from './contents'
import type { Facts, OpFacts } from './facts'
import { broken, type VerifyFailed } from './failure'
import { isElementwise } from './reach'
import { contains, disjoint, elementsIn, inBox, type Region, regionText, sameRegion, union, within } from './region'

export interface Taken extends Contribution {
  /** If all elements of the box are final: the box itself as the only source. */
  readonly own: Way | null
  /** If the value is a sum of gradients: the same elements of each summand. Another tile may contain only some of the summands. */
  readonly summands?: readonly Way[]
}

/** The limit on the ways that describe one sum: the first way and the last ones are kept, which are the farthest and the nearest sources. */
const MOST_WAYS = 6
const fewest = (ways: readonly Way[]): readonly Way[] =>
  ways.length <= MOST_WAYS ? ways : [ways[0]!, ...ways.slice(1 - MOST_WAYS)]

export const waysOf = (t: Taken): readonly Way[] => fewest(t.own ? [...t.ways, ...(t.summands ?? []), t.own] : t.ways)

/** Returns the sum of gradients that the value is computed from by linear elementwise ops only, if there is one. */
const sumBehind = (facts: Facts, value: number): OpFacts | undefined => {
  const f = facts.producer[value]
  if (!f || f.gathers) return f
  const { anchor } = f.def
  if (!f.linear || typeof anchor !== 'number') return undefined
  const maps = [f.ins[anchor], f.outs[f.op.outs.indexOf(value)]]
  return maps.every((m) => m && isElementwise(m)) ? sumBehind(facts, f.op.ins[anchor]!) : undefined
}

/** Returns the summands as sources: final elements of a sum contain the same elements of each summand once. */
const summandsOf = (facts: Facts, { value, box }: View): readonly Way[] => {
  const sum = sumBehind(facts, value)
  const isSame = (v: number): boolean => sameRegion([facts.full[v]!], [facts.full[value]!])
  return sum?.op.ins.every(isSame) ? [mapped(sum.op.ins, (source) => ({ source, by: sum.op.id, taken: [box] }))] : []
}

const isComplete = (facts: Facts, way: Way): boolean => way.every((p) => contains(p.taken, facts.full[p.source]!))

/** Marks the written elements as final if the contributions are complete. */
export const settled = (facts: Facts, piece: Contribution, written: Region): Contribution =>
  piece.ways.some((way) => isComplete(facts, way)) ? { ...piece, exact: written, ways: [] } : piece

/** Reads the operand of a linear op: final elements, or a partial sum of the same tile. */
export const take = (facts: Facts, contents: Contents, view: View, by: number, call: number): Either<VerifyFailed, Taken> => {
  const content = contents.contentOf(view)
  const { segment, tile } = facts.plan.calls[call]!
  const local = facts.plan.cells[view.cell]!.scope === 'local'
  const final = content !== undefined && contains(content.exact, view.box)
  const own: Way | null = final ? [{ source: view.value, by, taken: [view.box] }] : null
  const mine = content?.segment === segment && content.tile === tile
  if (local && content && content.ways.length > 0 && inBox(view.box, content.support)) {
    if (mine) return right({ exact: content.exact, ways: content.ways, support: content.support, own })
    if (!final)
      return left(
        broken(
          'twice',
          `it is the partial sum of tile ${content.tile} of segment ${content.segment}`,
          facts.at(call, view.value),
        ),
      )
  }
  const fault = contents.needExact(view, call)
  if (fault) return left(fault)
  return right({ exact: [view.box], ways: [], support: view.box, own, ...(own ? { summands: summandsOf(facts, view) } : {}) })
}

// ---------------------------------------------------------------- adding

const sameSource =
  (p: SourcePart) =>
  (q: SourcePart): boolean =>
    p.source === q.source && p.by === q.by
const sameSources = (a: Way, b: Way): boolean => a.length === b.length && a.every((p) => b.some(sameSource(p)))

/** The reason why two ways cannot be joined. A double count is a fault; with different sources, another pair of ways may still fit. */
interface Apart {
  readonly reason: string
  readonly twice: boolean
}
const apart = (reason: string, twice = false): Either<Apart, Way> => left({ reason, twice })

/** Joins each way of `a` with each of `b`. Returns the ways that succeed, or a reason if none does. */
const combined = (
  a: readonly Way[],
  b: readonly Way[],
  join: (x: Way, y: Way) => Either<Apart, Way>,
): Either<string, readonly Way[]> => {
  const { left: reasons, right: ways } = separate(a.flatMap((x) => mapped(b, (y) => join(x, y))))
  return ways.length > 0 ? right(fewest(ways)) : left((reasons.find((r) => r.twice) ?? reasons[0]!).reason)
}

/**
 * Adds the contributions of two tiles: different elements of the same sources. (With different sources, one could already
 * contain the other.)
 */
const addTiles =
  (facts: Facts) =>
  (a: Way, b: Way): Either<Apart, Way> => {
    if (!sameSources(a, b))
      return apart(`one tile reads it from '${facts.name(a[0]!.source)}', another from '${facts.name(b[0]!.source)}'`)
    const sum: SourcePart[] = []
    for (const p of a) {
      const q = b.find(sameSource(p))!
      if (!disjoint(p.taken, q.taken))
        return apart(`the contribution of ${regionText(q.taken)} of '${facts.name(p.source)}' is counted twice`, true)
      sum.push({ ...p, taken: union(p.taken, q.taken) })
    }
    return right(sum)
  }

/** Joins contributions of the same elements along different paths (the branches of a fork). */
const mergePaths =
  (facts: Facts) =>
  (a: Way, b: Way): Either<Apart, Way> => {
    const sum = [...a]
    for (const p of b) {
      const known = sum.find(sameSource(p))
      if (!known) sum.push(p)
      else if (!sameRegion(known.taken, p.taken))
        return apart(
          `${regionText(known.taken)} of '${facts.name(p.source)}' arrives by one path and ${regionText(p.taken)} by another`,
        )
    }
    return right(sum)
  }

export const merged = (facts: Facts, got: readonly Taken[]): Either<string, readonly Way[]> => {
  let ways = waysOf(got[0]!)
  for (const t of got.slice(1)) {
    const more = combined(ways, waysOf(t), mergePaths(facts))
    if (isLeft(more)) return more
    ways = more.right
  }
  return right(ways)
}

/** Returns the accumulator's contents after one more contribution. */
export const summed = (facts: Facts, y: Content, x: Taken): Either<string, Content> => {
  if (y.exact.length > 0 && y.ways.length === 0) return left('it is already complete, so this contribution is counted twice')
  const ways = y.ways.length === 0 ? right(waysOf(x)) : combined(y.ways, waysOf(x), addTiles(facts))
  if (isLeft(ways)) return ways
  const support = y.ways.length > 0 ? hullBox(y.support, x.support) : x.support
  return right({ ...y, ...settled(facts, { exact: [], ways: ways.right, support }, y.defined) })
}

/** Returns the number of elements that each statistic in the view summarises (of its own image, if each image has its own statistics). */
export const momentsCount = (facts: Facts, view: View, content: Contribution): number => {
  const producer = facts.producer[view.value]
  const anchor = producer?.def.anchor
  if (!producer || typeof anchor !== 'number') return 0
  const [way] = content.ways
  const all: Region = content.exact.length > 0 ? [facts.full[producer.op.ins[anchor]!]!] : []
  const taken = way ? way.flatMap((p) => p.taken) : all
  const ofImages = producer.outs[producer.op.outs.indexOf(view.value)] !== null
  const [images] = view.box
  const counted = ofImages ? taken.flatMap((b) => within([b], [images, b[1], b[2], b[3]])) : taken
  return elementsIn(counted) / (elementsIn([view.box]) / 4)
}
