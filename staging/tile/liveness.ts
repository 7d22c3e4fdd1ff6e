// Which values outlive which run of ops. In: the graph and the runs, in execution order (an op may run in several:
// recompute). Out: for each run, the values it takes from outside and those it must leave behind whole.
//
// Worked example: runs [conv1, relu1], [conv2], [conv1, relu1] (recompute), [conv2's backward, which reads relu1]:
// run 0 leaves relu1 for run 1; run 1 leaves nothing of it, since run 2 makes it again before run 3 reads it.
import { opDef } from '../ops/registry'
import { type Graph, isFed, isPersistent, isResult, type OpId, type ValueId } from '../graph/graph'

export interface RunLiveness {
  /** Values read that the run does not compute itself before reading them. */
  readonly reads: ReadonlySet<ValueId>
  /** Values computed in the run that a later run, or the end of the step, reads. */
  readonly leaves: ReadonlySet<ValueId>
}

export const liveness = (graph: Graph, runs: readonly (readonly OpId[])[]): readonly RunLiveness[] => {
  const needed = Uint8Array.from(graph.values, (v) => (isResult(v) ? 1 : 0))
  /** The last run looked at that makes it. */
  const makes = new Int32Array(graph.values.length).fill(runs.length)
  const out: RunLiveness[] = new Array(runs.length)
  for (let r = runs.length - 1; r >= 0; r--) {
    const reads = new Set<ValueId>()
    const leaves = new Set<ValueId>()
    for (const id of runs[r]!) {
      const op = graph.ops[id]!
      for (const v of op.ins) if (makes[v] !== r) reads.add(v)
      for (const v of op.outs) {
        if (makes[v] === r) continue
        makes[v] = r
        if (needed[v] === 1) leaves.add(v)
        needed[v] = 0
      }
    }
    for (const v of reads) needed[v] = 1
    out[r] = { reads, leaves }
  }
  return out
}

/** Values that the step computes and holds in memory of its own, as opposed to parameters and fed data. */
export const isComputed = (graph: Graph, v: ValueId): boolean => {
  const value = graph.values[v]!
  return !isPersistent(value) && !isFed(value)
}

/** Values whose bytes the op overwrites. */
export const mutated = (graph: Graph, id: OpId): readonly ValueId[] => {
  const op = graph.ops[id]!
  return (opDef(op.kind).mutates ?? []).flatMap((i) => (op.ins[i] === undefined ? [] : [op.ins[i]!]))
}
