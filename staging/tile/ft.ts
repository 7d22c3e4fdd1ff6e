// FT-compatible dimensions and maximal segments (paper 3, Listings 2 and 3). In: the training graph. Out: for each forward op the dimensions along
// which it can be tiled, and the maximal runs of ops that can be tiled together along H or W. A run also ends before an op that reads a sum over the
// run's tiles (statistics, pooled means), because a sum is complete only after the loop over tiles.
import { dimIndex } from '../core/box'
import { onceForPair } from '../core/remember'
import type { Graph, Op, ValueId } from '../graph/graph'
import { sigmaDelta } from '../ops/op'
import { opDef } from '../ops/registry'
import { forwardOps, readsNoImages } from './segments'
import { operandsOf, TILED_DIMS, type TiledDim } from './slices'

/** Returns the dimensions along which tiles of this op need only slices of its inputs. */
export const tileableDims = onceForPair((graph: Graph, op: Op): ReadonlySet<TiledDim> => {
  const { ins, outs } = operandsOf(graph, op)
  const extent = (v: ValueId, d: TiledDim): number => graph.values[v]!.shape[dimIndex[d]] ?? 1
  if (readsNoImages(op)) return new Set()
  const anchor = opDef(op.kind).anchor
  const anchored = anchor === 'out' ? op.outs[0]! : op.ins[anchor]!
  return new Set(
    TILED_DIMS.filter((d) => {
      if (op.phase === 'update' || extent(anchored, d) <= 1) return false
      const fits = (o: (typeof ins)[number], isOut: boolean): boolean => {
        if (!o.access) return o.def.role !== 'data'
        const { tag } = o.access[d]
        return sigmaDelta(o.access[d]) !== undefined || (tag === 'reduce' && isOut) || (tag === 'all' && extent(o.value, d) <= 1)
      }
      return ins.every((o) => fits(o, false)) && outs.every((o) => fits(o, true))
    }),
  )
})

export interface FtRun {
  readonly ops: readonly Op[]
  readonly dims: ReadonlySet<TiledDim>
}

const spatial = (dims: ReadonlySet<TiledDim>): boolean => dims.has('H') || dims.has('W')

export const maximalRuns = (graph: Graph): readonly FtRun[] => {
  const runs: { ops: Op[]; dims: ReadonlySet<TiledDim>; sums: Set<ValueId> }[] = []
  for (const op of forwardOps(graph)) {
    const dims = tileableDims(graph, op)
    const cur = runs[runs.length - 1]
    const both = new Set([...dims].filter((d) => cur?.dims.has(d)))
    const joins =
      cur &&
      spatial(both) === spatial(dims) &&
      spatial(cur.dims) === spatial(dims) &&
      (!spatial(dims) || !op.ins.some((v) => cur.sums.has(v)))
    const sums = operandsOf(graph, op).outs.flatMap((o) => (o.def.merge ? [o.value] : []))
    if (cur && joins) {
      cur.ops.push(op)
      cur.dims = both
      sums.forEach((v) => cur.sums.add(v))
    } else runs.push({ ops: [op], dims, sums: new Set(sums) })
  }
  return runs
}
