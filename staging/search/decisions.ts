// The decisions of a plan: loops, and for each its recomputation, tile size and reserve for prefetching; and the place of large parameters. In: a
// problem. Out: decisions. They are immutable: a move shares all that it does not change.
// Worked example, two loops that read relu1's output: the bit of relu1 in the second loop means that this loop recomputes relu1.
import { mapped } from '../core/mapped'
import type { Problem } from './problem'

export interface Decisions {
  /** For the first atom of each loop the atom after its last one, for others 0. The numbers below stand at the first atom of a loop. */
  readonly ends: Int32Array
  /** For each loop one bit for each op of other loops. 1: the loop recomputes the op in its tiles. 0: it reads the results. */
  readonly repeats: readonly Uint8Array[]
  /** For each loop the largest working set of a tile. */
  readonly tileBytes: Float64Array
  /** For each loop the share of the budget that stays free for prefetching. */
  readonly reserves: Float64Array
  /** 1 for each unit of parameters that lives in the lower tier. */
  readonly away: Uint8Array
}

/** The loops with these ends, without recomputation. */
export const keepAll = (p: Problem, loops: readonly number[], away: 0 | 1, tileBytes: number, space: number): Decisions => {
  const ends = new Int32Array(p.atoms)
  loops.forEach((to, k) => {
    ends[k === 0 ? 0 : loops[k - 1]!] = to
  })
  const none = new Uint8Array(p.graph.ops.length)
  return {
    ends,
    repeats: mapped([...ends], () => none),
    tileBytes: new Float64Array(p.atoms).fill(tileBytes),
    reserves: new Float64Array(p.atoms).fill(space),
    away: new Uint8Array(p.units.length).fill(away),
  }
}
