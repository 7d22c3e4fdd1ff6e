// Facts of the graph and the op table for the checks, looked up once. In: a plan whose graph is sound. Out: for each value its full box and element
// size; for each op its access maps, and true if it is linear in its anchor.
import { mapped } from '../core/mapped'
import { asShape, type AccessMap, inputDef, type OpDef, type OperandDef, outputDef, pointwise } from '../ops/op'
import { opDef } from '../ops/registry'
import { type Box, fullBox } from '../core/box'
import { ofBand } from '../graph/bands'
import { dtypeBytes, type Graph, type Op, type Value } from '../graph/graph'
import type { Call, Plan } from '../plan/plan'
import type { Where } from './failure'

export interface OpFacts {
  readonly op: Op
  readonly def: OpDef
  /** The access map of each operand; null for operands that are read whole. */
  readonly ins: readonly (AccessMap | null)[]
  readonly outs: readonly (AccessMap | null)[]
  /**
   * True for a backward op whose only gradient operand is its anchor. It is linear in that gradient, so it may read partial
   * gradients. Batch norm's bn_bwd_data also reads Σdy and is not linear in dy alone.
   */
  readonly linear: boolean
  /** True for an op that sums operands with boxes of their own (grad_sum): it is linear in all of them. */
  readonly gathers: boolean
}

export interface Facts {
  readonly plan: Plan
  readonly full: readonly Box[]
  readonly elementBytes: readonly number[]
  readonly ops: readonly OpFacts[]
  /** For each segment the ops of its body. */
  readonly bodies: readonly ReadonlySet<number>[]
  /** For each value the way to merge the partial results of tiles. */
  readonly merge: readonly ('sum' | 'moments')[]
  /** For each value the op that computes it, if there is one. */
  readonly producer: readonly (OpFacts | undefined)[]
  readonly name: (value: number) => string
  readonly at: (call: number, value?: number) => Where
}

const accessOf = (op: Op, graph: Graph, def: OperandDef, value: number): AccessMap | null => {
  if (def.role === 'whole') return opDef(op.kind).byRows && def.dims === 'as input 0' ? pointwise : null
  const shapes = { ins: mapped(op.ins, (v) => graph.values[v]!.shape), outs: mapped(op.outs, (v) => graph.values[v]!.shape) }
  return ofBand(graph, op, value, def.access ? def.access(op.attrs as never, shapes) : pointwise)
}

const opFacts = (op: Op, graph: Graph): OpFacts => {
  const def = opDef(op.kind)
  const isGradient = (v: number): boolean => graph.values[v]!.role === 'gradient'
  const ins = mapped(op.ins, (v, i) => accessOf(op, graph, inputDef(def, i), v))
  const { anchor } = def
  return {
    op,
    def,
    ins,
    outs: mapped(op.outs, (v, i) => accessOf(op, graph, outputDef(def, i), v)),
    linear: anchor !== 'out' && isGradient(op.ins[anchor]!) && op.ins.every((v, i) => i === anchor || !isGradient(v)),
    gathers: ins.some((a) => a !== null && a.B.tag === 'inside'),
  }
}

/** Returns the start index of each list in the concatenation of all, and the total length. */
export const startsOf = <A>(all: readonly A[], length: (a: A) => number): Int32Array => {
  const starts = new Int32Array(all.length + 1)
  all.forEach((a, i) => {
    starts[i + 1] = starts[i]! + length(a)
  })
  return starts
}

export const fullBoxOf = (v: Value): Box => fullBox(asShape(v.shape))

export const factsOf = (plan: Plan): Facts => {
  const { graph } = plan
  const name = (v: number): string => graph.values[v]!.name
  const ops = mapped(graph.ops, (op) => opFacts(op, graph))
  const merge = mapped(graph.values, (): 'sum' | 'moments' => 'sum')
  const producer: (OpFacts | undefined)[] = mapped(graph.values, () => undefined)
  for (const f of ops)
    f.op.outs.forEach((v, i) => {
      merge[v] = outputDef(f.def, i).merge ?? 'sum'
      producer[v] = f
    })
  return {
    plan,
    name,
    ops,
    merge,
    producer,
    bodies: mapped(plan.segments, (s) => new Set(mapped(s.body, (step) => step.op))),
    full: mapped(graph.values, fullBoxOf),
    elementBytes: mapped(graph.values, (v) => dtypeBytes[v.dtype]),
    at: (call, value) => {
      const c: Call | undefined = plan.calls[call]
      return { ...(c ? { segment: c.segment, tile: c.tile } : {}), call, ...(value === undefined ? {} : { value: name(value) }) }
    },
  }
}
