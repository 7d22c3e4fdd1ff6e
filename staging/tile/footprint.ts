// Memory and time of a sequence of ops over whole values, without a layout. In: ops in order (an op may repeat), the values in memory before and the
// values needed after. Out: the peak bytes, workspace included, and the seconds. A value that is made several times is dead from its last read before
// the next time. An op that may run in place reuses the bytes of a dying input. Worked example, values of 4 bytes: conv a->b, relu b->c in place,
// conv c->d, keep d: 4 + 4 at each convolution, so 8.
import { mapped } from '../core/mapped'
import { sameShape } from '../core/box'
import { valueBytes, type Graph, type OpId, type ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import { isComputed } from './liveness'

/** The cost of an op over whole values. */
export interface OpCost {
  readonly seconds: number
  readonly workspaceBytes: number
}

export interface Setting {
  /** Values in memory when the sequence begins. Their bytes count. */
  readonly before: Iterable<ValueId>
  readonly after: ReadonlySet<ValueId>
  /** Returns true if a value's bytes count here; parameters and fed values never do. */
  readonly counts: (v: ValueId) => boolean
}

export interface Footprint {
  readonly peakBytes: number
  readonly seconds: number
}

/** Returns, for each op of the sequence, the values that are dead after it. */
const deadAfter = (graph: Graph, ops: readonly OpId[], after: ReadonlySet<ValueId>): readonly (readonly ValueId[])[] => {
  /** By value, over the ops from the last one back: true if an op reads it before it is made again. Absent: `after` decides. */
  const needed = new Map<ValueId, boolean>()
  const out = new Array<readonly ValueId[]>(ops.length)
  for (let i = ops.length - 1; i >= 0; i--) {
    const { ins, outs } = graph.ops[ops[i]!]!
    const dead: ValueId[] = []
    const check = (v: ValueId): void => {
      if (!(needed.get(v) ?? after.has(v)) && !dead.includes(v)) dead.push(v)
    }
    ins.forEach(check)
    outs.forEach(check)
    for (const v of outs) needed.set(v, false)
    for (const v of ins) needed.set(v, true)
    out[i] = dead
  }
  return out
}

const reusedInput = (
  graph: Graph,
  id: OpId,
  dead: readonly ValueId[],
  live: ReadonlyMap<ValueId, number>,
): ValueId | undefined => {
  const op = graph.ops[id]!
  const { values } = graph
  const fits = (v: ValueId): boolean =>
    dead.includes(v) &&
    live.has(v) &&
    sameShape(values[v]!.shape, values[op.outs[0]!]!.shape) &&
    op.ins.indexOf(v) === op.ins.lastIndexOf(v)
  return mapped(opDef(op.kind).inPlace ?? [], (i) => op.ins[i]!).find(fits)
}

export const footprint = (graph: Graph, ops: readonly OpId[], costs: readonly OpCost[], setting: Setting): Footprint => {
  const counted = (v: ValueId): boolean => isComputed(graph, v) && setting.counts(v)
  const live = new Map<ValueId, number>()
  let now = 0
  const add = (v: ValueId): void => {
    if (live.has(v) || !counted(v)) return
    live.set(v, valueBytes(graph.values[v]!))
    now += live.get(v)!
  }
  const drop = (v: ValueId): void => {
    now -= live.get(v) ?? 0
    live.delete(v)
  }
  for (const v of setting.before) add(v)
  const dead = deadAfter(graph, ops, setting.after)
  let peakBytes = now
  let seconds = 0
  ops.forEach((id, i) => {
    const op = graph.ops[id]!
    const reused = reusedInput(graph, id, dead[i]!, live)
    if (reused !== undefined) drop(reused)
    op.outs.forEach(add)
    peakBytes = Math.max(peakBytes, now + costs[id]!.workspaceBytes)
    seconds += costs[id]!.seconds
    dead[i]!.forEach(drop)
  })
  return { peakBytes, seconds }
}
