// Text of graphs, ops and values for people and golden dumps, one line for each: stable under refactors, changed by any change of meaning. Worked
// example: `3 backward conv1: conv2d_bwd_weights(%0 image, %9 conv1.grad) {strideH=1 ...} -> %10 conv1.weight.grad [64,3,3,3]`.
import { type AnyAttrs, shapeText } from '../ops/op'
import type { Graph, Op, Value } from './graph'

/** Returns `{strideH: 2, groups: 1}` as `strideH=2 groups=1`. */
export const attrsText = (attrs: AnyAttrs): string =>
  Object.entries(attrs)
    .map(([k, v]) => `${k}=${v}`)
    .join(' ')

export const valueText = (v: Value): string => {
  const start = v.init ? ` ${v.init.dist}(${v.init.a})` : ''
  return `%${v.id} ${v.role} ${v.name} ${shapeText(v.shape)} ${v.dtype}${start}`
}

export const opText = (g: Graph, op: Op): string => {
  const read = (id: number): string => `%${id} ${g.values[id]!.name}`
  const made = (id: number): string => `${read(id)} ${shapeText(g.values[id]!.shape)}`
  const attrs = attrsText(op.attrs)
  const outs = op.outs.length === 0 ? '' : ` -> ${op.outs.map(made).join(', ')}`
  return `${op.id} ${op.phase} ${op.layer}: ${op.kind}(${op.ins.map(read).join(', ')})${attrs === '' ? '' : ` {${attrs}}`}${outs}`
}

/** Returns the leaves, then the ops in execution order. */
export const graphText = (g: Graph): string => {
  const made = new Set(g.ops.flatMap((o) => o.outs))
  const leaves = g.values.filter((v) => !made.has(v.id))
  return [`graph ${g.name}`, ...leaves.map(valueText), ...g.ops.map((o) => opText(g, o))].join('\n')
}
