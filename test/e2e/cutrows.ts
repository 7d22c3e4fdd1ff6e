// One process that cuts the rows of every value into one band for each rank, op by op, and its images into shares: the peer of bands. In: a training
// graph, the number of bands. Out: its segments. Worked example, 2 bands: [conv2d in 2 tiles along H | bn_stats in 2 | … | linear, whole | sgd].
import type * as E from 'fp-ts/Either'
import type { Graph, Op } from '../../staging/graph/graph'
import { opDef } from '../../staging/ops/registry'
import { type Grid, type Segment, UNTILED } from '../../staging/plan/plan'
import { tileableDims } from '../../staging/tile/ft'
import { isForward, segmentsOf } from '../../staging/tile/segments'
import type { TileError } from '../../staging/tile/slices'

export const alongRows = (graph: Graph, bands: number, shares = 1): E.Either<TileError, readonly Segment[]> => {
  const heightOf = (op: Op): number => {
    const { anchor } = opDef(op.kind)
    const value = anchor === 'out' ? op.outs[0] : op.ins[anchor]
    return value === undefined ? 1 : (graph.values[value]!.shape[2] ?? 1)
  }
  const gridOf = (op: Op): Grid => {
    const dims = tileableDims(graph, op)
    const own = { B: dims.has('B') ? shares : 1, H: dims.has('H') && heightOf(op) >= bands ? bands : 1, W: 1 }
    return own.B * own.H > 1 ? own : UNTILED
  }
  const runs = graph.ops.map((op, group) => ({
    phase: isForward(op) ? ('forward' as const) : op.phase === 'update' ? ('update' as const) : ('backward' as const),
    group,
    grid: gridOf(op),
    ops: [op.id],
  }))
  return segmentsOf(graph, runs)
}
