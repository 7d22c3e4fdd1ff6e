// A step with laid-out weights of convolutions (ops/layout.ts). In: a graph, and some of its parameters. Out: the same step, whose first ops lay them
// out; and the reverse. Invariant: the computation is the same, so it has the fingerprint of the staged step. Values keep their ids, laid weights
// follow them, and the ids of ops grow by the number of layouts. Worked example, ops [conv(x, w), …, conv_bwd_data(dy, w), …, sgd(w, dw)]:
// [lay_out(w), conv(x, laid), …, conv_bwd_data(dy, laid), …, sgd(w, dw)].
import { isHalf, type OpDef } from '../ops/op'
import { opDef } from '../ops/registry'
import { halfOfOp } from './check'
import { copiesIn } from './copied'
import { type DType, floatOf, type Graph, type Op, type Value, type ValueId } from './graph'

const LAY_OUT = 'lay_out'

/** The input of an operator that may be a laid-out weight. */
const laidInputs = new WeakMap<OpDef, number>()
const laidInput = (def: OpDef): number => {
  const known = laidInputs.get(def) ?? def.ins.findIndex((o) => o.laid === 'may')
  laidInputs.set(def, known)
  return known
}

/** Returns the weight that an op can read laid out, with its type in that form: an op on halves reads halves. */
const readLaid = (g: Graph, op: Op): { readonly weight: Value; readonly dtype: DType } | undefined => {
  const def = opDef(op.kind)
  const at = laidInput(def)
  const weight = at < 0 ? undefined : g.values[op.ins[at]!]!
  if (weight?.role !== 'param') return undefined
  const values = (ids: readonly ValueId[]): readonly Value[] => ids.map((v) => g.values[v]!)
  return { weight, dtype: halfOfOp(def, values(op.ins), values(op.outs)) ?? floatOf(g) }
}

/** Returns true if a layout changes the bytes. Floats of one channel, or of one pixel, have the same order in both layouts. */
const changesBytes = ({ shape: [, channels, rows, columns] }: Value, dtype: DType): boolean =>
  isHalf(dtype) || (channels! > 1 && rows! * columns! > 1)

/** Returns the weights whose readers benefit from a layout, with these readers. */
export const readers = (g: Graph): ReadonlyMap<ValueId, readonly Op[]> => {
  const out = new Map<ValueId, Op[]>()
  for (const op of g.ops) {
    const read = readLaid(g, op)
    if (!read || !changesBytes(read.weight, read.dtype)) continue
    const others = out.get(read.weight.id) ?? []
    others.push(op)
    out.set(read.weight.id, others)
  }
  return out
}

/** Returns the graph that lays out these weights, once for each type of their readers. */
export const laidOut = (g: Graph, weights: ReadonlySet<ValueId>): Graph => {
  const values = [...g.values]
  const made: Op[] = []
  const known = new Map<string, ValueId>()
  const layer = new Map(g.ops.flatMap((op) => op.ins.map((v) => [v, op.layer] as const)).reverse())
  const laid = ({ id: w, name, shape }: Value, dtype: DType): ValueId => {
    const key = `${w} ${dtype}`
    const before = known.get(key)
    if (before !== undefined) return before
    const id = values.length
    values.push({ id, name: `${name}.laid`, role: 'stat', shape, dtype })
    made.push({ id: made.length, kind: LAY_OUT, layer: layer.get(w)!, phase: 'forward', attrs: {}, ins: [w], outs: [id] })
    known.set(key, id)
    return id
  }
  const ops = g.ops.map((op): Op => {
    const read = readLaid(g, op)
    if (!read || !weights.has(read.weight.id) || !changesBytes(read.weight, read.dtype)) return op
    const at = laidInput(opDef(op.kind))
    const into = laid(read.weight, read.dtype)
    return { ...op, ins: op.ins.map((v, i) => (i === at ? into : v)) }
  })
  return { ...g, values, ops: [...made, ...ops].map((op, id) => ({ ...op, id })) }
}

/** Returns the number of ops that lay weights out. They are before all others. */
export const layoutCount = (g: Graph): number => g.ops.filter((op) => op.kind === LAY_OUT).length

/** Returns the step as it was staged, with whole weights that are not laid out, and without copies of its inputs. */
export const asStaged = (split: Graph): Graph => {
  const g = split.inParts?.whole ?? split
  const sourceOf = new Map(copiesIn(g))
  for (const op of g.ops) if (op.kind === LAY_OUT) sourceOf.set(op.outs[0]!, op.ins[0]!)
  if (sourceOf.size === 0) return g
  const kept = g.values.filter((v) => !sourceOf.has(v.id))
  const now = new Map(kept.map((v, i) => [v.id, i]))
  const id = (v: ValueId): ValueId => now.get(sourceOf.get(v) ?? v)!
  const staged = g.ops.filter((op) => !sourceOf.has(op.outs[0]!))
  const opNow = new Map(staged.map((op, i) => [op.id, i]))
  return {
    ...g,
    values: kept.map((v, i) => ({ ...v, id: i, ...(v.gradOf === undefined ? {} : { gradOf: id(v.gradOf) }) })),
    ops: staged.map((op, i) => ({ ...op, id: i, ins: op.ins.map(id), outs: op.outs.map(id) })),
    ...(g.alone ? { alone: g.alone.flatMap((op) => opNow.get(op) ?? []) } : {}),
  }
}
