// A step with laid-out weights of convolutions (ops/layout.ts). In: a graph, and some of its parameters. Out: the same step, which lays them out
// first of all; and back. Invariant: the computation is the same, so it has the fingerprint of the staged step: values keep their ids, laid weights
// follow them, and ops move by the number of layouts. Worked example, ops [conv(x, w), …, conv_bwd_data(dy, w), …, sgd(w, dw)]: [lay_out(w), conv(x,
// laid), …, conv_bwd_data(dy, laid), …, sgd(w, dw)].
import { isHalf, type OpDef } from '../ops/op'
import { opDef } from '../ops/registry'
import { halfOfOp } from './check'
import { type DType, floatOf, type Graph, type Op, type Value, type ValueId } from './graph'

const LAY_OUT = 'lay_out'

/** The input of an operator that may come laid out. */
const laidInputs = new WeakMap<OpDef, number>()
const laidInput = (def: OpDef): number => {
  const known = laidInputs.get(def) ?? def.ins.findIndex((o) => o.laid === 'may')
  laidInputs.set(def, known)
  return known
}

/** The weight that an op would read laid out, and its type then: an op on halves reads halves. */
const readLaid = (g: Graph, op: Op): { readonly weight: Value; readonly dtype: DType } | undefined => {
  const def = opDef(op.kind)
  const at = laidInput(def)
  const weight = at < 0 ? undefined : g.values[op.ins[at]!]!
  if (weight?.role !== 'param') return undefined
  const values = (ids: readonly ValueId[]): readonly Value[] => ids.map((v) => g.values[v]!)
  return { weight, dtype: halfOfOp(def, values(op.ins), values(op.outs)) ?? floatOf(g) }
}

/** Floats of one channel, or of one place, lie alike in either order. */
const makesADifference = ({ shape: [, channels, rows, columns] }: Value, dtype: DType): boolean =>
  isHalf(dtype) || (channels! > 1 && rows! * columns! > 1)

/** The weights whose readers would profit from a layout, and these ops. */
export const readers = (g: Graph): ReadonlyMap<ValueId, readonly Op[]> => {
  const found = new Map<ValueId, Op[]>()
  for (const op of g.ops) {
    const read = readLaid(g, op)
    if (!read || !makesADifference(read.weight, read.dtype)) continue
    const others = found.get(read.weight.id) ?? []
    others.push(op)
    found.set(read.weight.id, others)
  }
  return found
}

/** The graph that lays out these weights, once for each type of their readers. */
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
    if (!read || !weights.has(read.weight.id) || !makesADifference(read.weight, read.dtype)) return op
    const at = laidInput(opDef(op.kind))
    const into = laid(read.weight, read.dtype)
    return { ...op, ins: op.ins.map((v, i) => (i === at ? into : v)) }
  })
  return { ...g, values, ops: [...made, ...ops].map((op, id) => ({ ...op, id })) }
}

/** How many ops lay weights out, before all others. */
export const layingOps = (g: Graph): number => g.ops.filter((op) => op.kind === LAY_OUT).length

/** The step as it was staged, with whole weights that nobody lays out. */
export const asStaged = (split: Graph): Graph => {
  const g = split.inParts?.whole ?? split
  const weightOf = new Map(g.ops.flatMap((op) => (op.kind === LAY_OUT ? [[op.outs[0]!, op.ins[0]!] as const] : [])))
  if (weightOf.size === 0) return g
  const kept = g.values.filter((v) => !weightOf.has(v.id))
  const now = new Map(kept.map((v, i) => [v.id, i]))
  const id = (v: ValueId): ValueId => now.get(weightOf.get(v) ?? v)!
  const staged = g.ops.filter((op) => op.kind !== LAY_OUT)
  const opNow = new Map(staged.map((op, i) => [op.id, i]))
  return {
    ...g,
    values: kept.map((v, i) => ({ ...v, id: i, ...(v.gradOf === undefined ? {} : { gradOf: id(v.gradOf) }) })),
    ops: staged.map((op, i) => ({ ...op, id: i, ins: op.ins.map(id), outs: op.outs.map(id) })),
    ...(g.alone ? { alone: g.alone.flatMap((op) => opNow.get(op) ?? []) } : {}),
  }
}
