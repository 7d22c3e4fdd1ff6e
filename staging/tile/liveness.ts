// The values that cross the borders of runs of ops. In: the graph and the runs, in execution order (an op may be in several runs: recompute). Out:
// for each run, the values that it reads from outside, and the values that must be whole after it.
//
// Worked example: runs [conv1, relu1], [conv2], [conv1, relu1] (recompute), [conv2's backward, which reads relu1]: run 0 leaves relu1 for run 1. Its
// relu1 need not last longer, because run 2 recomputes it before run 3 reads it.
import { opDef } from '../ops/registry'
import { type Graph, isFed, isPersistent, isResult, type OpId, type ValueId } from '../graph/graph'

export interface RunLiveness {
  /** Values that the run reads before it computes them. */
  readonly inputs: ReadonlySet<ValueId>
  /** Values computed in the run that a later run reads, or that are results of the step. */
  readonly outputs: ReadonlySet<ValueId>
}

export const liveness = (graph: Graph, runs: readonly (readonly OpId[])[]): readonly RunLiveness[] => {
  const needed = Uint8Array.from(graph.values, (v) => (isResult(v) ? 1 : 0))
  /** By value: the last run, of those seen so far, that computes it. */
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
    out[r] = { inputs: reads, outputs: leaves }
  }
  return out
}

/** Returns true for values that the step computes, as opposed to parameters and fed data. */
export const isComputed = (graph: Graph, v: ValueId): boolean => {
  const value = graph.values[v]!
  return !isPersistent(value) && !isFed(value)
}

/** Returns the values whose bytes the op overwrites. */
export const mutated = (graph: Graph, id: OpId): readonly ValueId[] => {
  const op = graph.ops[id]!
  return (opDef(op.kind).mutates ?? []).flatMap((i) => (op.ins[i] === undefined ? [] : [op.ins[i]!]))
}
