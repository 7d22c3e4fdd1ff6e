// What each kind of call costs, as the planner's machine said: recorded in plan files, so that the segments unroll into
// the same calls and the same scratch cells wherever the file is read.
// Invariant: calls of one operator with the same attributes and shapes cost the same.
import { type Box, shapeOf } from '../core/box'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { AnyAttrs, CallShapes } from '../ops/op'
import type { Call, Plan, View } from './plan'

export type Costs = Pick<Machine, 'seconds' | 'workspace'>
/** Seconds and scratch bytes, by the key of the call. */
export type RecordedCosts = Readonly<Record<string, readonly [seconds: number, workspaceBytes: number]>>

const keyOf = (kind: string, attrs: AnyAttrs, s: CallShapes): string =>
  `${kind}|${Object.values(attrs).join()}|${s.ins.join(';')}|${s.outs.join(';')}`

/** The shapes by which a call's costs are asked: plumbing moves boxes, ops see other than rank-4 values in their own shape. */
const shapesOf = (graph: Graph, c: Call): CallShapes => {
  const boxed = (box: Box): readonly number[] => shapeOf(box)
  const shape = (v: View): readonly number[] => {
    const natural = graph.values[v.value]!.shape
    return c.op < 0 || natural.length === 4 ? boxed(v.box) : natural
  }
  return { ins: c.ins.map(shape), outs: c.outs.map(shape) }
}

export const costsOf = (plan: Plan): RecordedCosts => {
  const costs: Record<string, readonly [number, number]> = {}
  for (const c of plan.calls) costs[keyOf(c.kind, c.attrs, shapesOf(plan.graph, c))] = [c.seconds, c.workspace?.bytes ?? 0]
  return costs
}

/** A machine that knows only what was recorded. */
export const replayed = (costs: RecordedCosts): Costs => {
  const known = new Map(Object.entries(costs))
  const cost = (kind: string, attrs: AnyAttrs, s: CallShapes): readonly [number, number] => {
    const found = known.get(keyOf(kind, attrs, s))
    if (!found) throw new Error(`no cost is recorded for ${kind} of ${s.ins.join(' ')} to ${s.outs.join(' ')}`)
    return found
  }
  return { seconds: (kind, attrs, s) => cost(kind, attrs, s)[0], workspace: (kind, attrs, s) => cost(kind, attrs, s)[1] }
}
