// The repeated computations of a step. In: its calls. Out: for each call, true if an earlier segment has run its op. Worked example, checkpointing:
// segment 0 runs conv1 and relu1, segment 1 both again: the calls of segment 1 are repeated.
import type { Call } from './plan'

export const repeatedCalls = ({ calls }: { readonly calls: readonly Call[] }): readonly boolean[] => {
  const firstSegment = new Map<number, number>()
  return calls.map((c) => {
    if (c.op < 0) return false
    const first = firstSegment.get(c.op)
    if (first === undefined) firstSegment.set(c.op, c.segment)
    return first !== undefined && first !== c.segment
  })
}
