// Norms of a concatenation read its parts, so the concatenation is not made. There are three exact passes. A concatenation of concatenations becomes
// one of all their parts. Statistics of a concatenation become the joined statistics of its parts, computed once for all readers. A norm reads the
// parts themselves if only norms read its input. Worked example, the second layer of a dense block: concat(a, b), bn_stats, bn_relu_apply, …,
// concat(ab, c), bn_stats, … becomes bn_stats(b), join_stats(a's, b's), joined_norm(a, b), …, bn_stats(c), join_stats(a's, b's, c's), joined_norm(a,
// b, c).
import type { Op, ValueId } from '../../graph/graph'
import { type PassState, rewriteOps } from './rewrite'

const NORMS = new Set(['bn_stats', 'bn_apply', 'bn_relu_apply'])

/** Returns true if no op needs the concatenation as one value. */
const isOnlyNormalised = (d: PassState, v: ValueId, more: readonly string[] = []): boolean =>
  d.readers(v).every((o) => NORMS.has(o.kind) || more.includes(o.kind))

/** Returns the parts of a concatenation that only norms read; undefined for any other value. */
const partsOf = (d: PassState, v: ValueId): readonly ValueId[] | undefined => {
  const maker = d.maker(v)
  return maker?.kind === 'concat' && isOnlyNormalised(d, v) ? maker.ins : undefined
}

export const flatConcat = rewriteOps('flat-concat', () => (op, d) => {
  if (op.kind !== 'concat') return undefined
  const ins = op.ins.flatMap((v) => {
    const maker = d.maker(v)
    return maker?.kind === 'concat' && isOnlyNormalised(d, v, ['concat']) ? maker.ins : [v]
  })
  return ins.length > op.ins.length ? [{ ...op, ins }] : undefined
})

/** Computes the statistics of each part once, even if several concatenations contain the part. */
export const statsOfConcat = rewriteOps('stats-of-concat', () => {
  const known = new Map<ValueId, ValueId>()
  return (op, d) => {
    if (op.kind !== 'bn_stats') return undefined
    const [joined] = op.ins
    const parts = partsOf(d, joined!)
    if (!parts) {
      known.set(joined!, op.outs[0]!)
      return undefined
    }
    const made: Op[] = []
    const stats = parts.map((part, i) => {
      const own = known.get(part)
      if (own !== undefined) return own
      const layer = `${op.layer}.part${i}`
      const v = d.make({ ...d.values[op.outs[0]!]!, name: `${layer}.stats`, shape: [4, d.values[part]!.shape[1]!] })
      made.push({ ...op, layer, ins: [part], outs: [v] })
      known.set(part, v)
      return v
    })
    const [batch, , height, width] = d.values[joined!]!.shape
    return [...made, { ...op, kind: 'join_stats', attrs: { count: batch! * height! * width! }, ins: stats }]
  }
})

export const normOfConcat = rewriteOps('norm-of-concat', () => (op, d) => {
  if (op.kind !== 'bn_apply' && op.kind !== 'bn_relu_apply') return undefined
  const [x, stats, gamma, beta] = op.ins
  const parts = partsOf(d, x!)
  if (!parts || parts.length < 2) return undefined
  return [{ ...op, kind: 'joined_norm', attrs: { slope: 1, ...op.attrs }, ins: [stats!, gamma!, beta!, ...parts] }]
})
