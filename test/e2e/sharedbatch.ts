// One process whose plan has one tile along the batch for each rank: the peer of ranks. In: a training graph, the number of ranks. Out: its groups.
// Worked example: [conv bn_stats | bn_apply relu pool | loss] of 8 images in 2 tiles of 4.
import type { Graph, OpId, ValueId } from '../../staging/graph/graph'
import { UNTILED } from '../../staging/plan/plan'
import { tileableDims } from '../../staging/tile/ft'
import { forwardOps, type Group, summed } from '../../staging/tile/segments'

export const alongBatch = (graph: Graph, tiles: number): readonly Group[] => {
  const groups: { ops: OpId[]; readonly tiled: boolean; readonly sums: Set<ValueId> }[] = []
  for (const op of forwardOps(graph)) {
    const tiled = tileableDims(graph, op).has('B')
    const last = groups.at(-1)
    const own =
      last && last.tiled === tiled && !op.ins.some((v) => last.sums.has(v)) ? last : { ops: [], tiled, sums: new Set<ValueId>() }
    if (own !== last) groups.push(own)
    own.ops.push(op.id)
    for (const v of summed(graph, op.id)) own.sums.add(v)
  }
  return groups.map(({ ops, tiled }) => ({ ops, grid: tiled ? { B: tiles, H: 1, W: 1 } : UNTILED }))
}
