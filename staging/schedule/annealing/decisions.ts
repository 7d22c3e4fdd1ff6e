// The decisions of a plan: recomputation and tile size of each loop, and the room for prefetching. In: a problem. Out: decisions. They are
// immutable: a move shares all that it does not change.
// Worked example, two loops that read relu1's output: the bit of relu1 in the second loop means that this loop runs relu1 again.
import { mapped } from '../../core/mapped'
import type { Problem } from './problem'

export interface Decisions {
  /** For each loop one bit for each op of other loops. 1: the loop recomputes the op in its tiles. 0: it finds the results. */
  readonly repeats: readonly Uint8Array[]
  /** For each loop the largest working set of a tile. */
  readonly tileBytes: Float64Array
  /** The share of the budget that stays free for prefetching. */
  readonly prefetchRoom: number
}

/** No recomputation. */
export const keepAll = (p: Problem, tileBytes: number, prefetchRoom: number): Decisions => ({
  repeats: mapped(p.loops, () => new Uint8Array(p.graph.ops.length)),
  tileBytes: new Float64Array(p.loops.length).fill(tileBytes),
  prefetchRoom,
})
