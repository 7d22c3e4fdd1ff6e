// Checks the graph alone: ids are indices, one producer for each value, producers before readers, shapes by the op table's rules, gradients with the
// shapes of their values.
import { mapped } from '../core/mapped'
import { isLeft } from 'fp-ts/Either'
import { type Element, elementOf } from '../ops/elements'
import { attrsCodec, HALVES, inputDef, isHalf, type OpDef, outputDef, shapeText } from '../ops/op'
import { findOp } from '../ops/registry'
import { type DType, floatOf, type Graph, isFed, isLaid, isPersistent, type Op, type Value } from '../graph/graph'
import { inWholeShapes, ranksFault } from '../graph/ranks'
import { broken, eachFault, type Fault, firstFault } from './failure'

const bad = (reason: string, value?: string): Fault => broken('graph', reason, value === undefined ? {} : { value })
const text = (op: Op): string => `op ${op.id} (${op.kind} of layer '${op.layer}')`

const soundValue =
  (graph: Graph) =>
  (v: Value, i: number): Fault => {
    if (v.id !== i) return bad(`value ${i} has id ${v.id}; the id must be its index`, v.name)
    if (v.shape.length < 1 || v.shape.length > 4 || !v.shape.every((d) => Number.isSafeInteger(d) && d > 0))
      return bad(`shape ${shapeText(v.shape)} must have one to four positive extents`, v.name)
    if (v.gradOf === undefined) return undefined
    const of = graph.values[v.gradOf]
    if (v.role !== 'gradient' || !of) return bad('only gradients are the gradient of a value of the graph', v.name)
    if (shapeText(of.shape) !== shapeText(v.shape))
      return bad(`a gradient of '${of.name}' has shape ${shapeText(of.shape)}`, v.name)
    return undefined
  }

const counts = (op: Op, def: OpDef): Fault => {
  const fits = (n: number, defs: readonly { readonly optional?: boolean }[], open: boolean): boolean =>
    n >= defs.filter((d) => !d.optional).length && (open || n <= defs.length)
  return fits(op.ins.length, def.ins, def.variadic === true) &&
    fits(op.outs.length, def.outs, def.paired === true) &&
    (!def.paired || op.ins.length === op.outs.length)
    ? undefined
    : bad(`${text(op)} has ${op.ins.length} inputs and ${op.outs.length} outputs, which the op table does not allow`)
}

const soundOp =
  (graph: Graph, producer: Map<number, number>) =>
  (op: Op, i: number): Fault => {
    if (op.id !== i) return bad(`op ${i} has id ${op.id}; the id must be its index`)
    const def = findOp(op.kind)
    if (!def) return bad(`${text(op)} is not in the op table`)
    if (!attrsCodec(def).is(op.attrs)) return bad(`${text(op)} has attributes that the op table does not allow`)
    const miscounted = counts(op, def)
    if (miscounted) return miscounted
    for (const v of op.ins) {
      const value = graph.values[v]
      if (!value) return bad(`${text(op)} reads value ${v}, which does not exist`)
      if (!isPersistent(value) && !isFed(value) && !producer.has(v))
        return bad(`${text(op)} reads it before an op computes it`, value.name)
    }
    for (const v of op.outs) {
      const value = graph.values[v]
      if (!value) return bad(`${text(op)} computes value ${v}, which does not exist`)
      if (isPersistent(value) || isFed(value))
        return bad(`${text(op)} computes a ${value.role}; a ${value.role} can only be updated`, value.name)
      if (producer.has(v)) return bad(`${text(op)} computes the value of op ${producer.get(v)} again`, value.name)
      producer.set(v, i)
    }
    return typed(graph, op, def) ?? shaped(graph, op, def)
  }

/** Checks the types of an op's operands: of those that may be 16-bit, all have one type. */
const typed = (graph: Graph, op: Op, def: OpDef): Fault => {
  const operands = mapped(
    [
      ...mapped(op.ins, (v, i) => ({ v, element: elementOf(def, inputDef(def, i)) })),
      ...mapped(op.outs, (v, i) => ({ v, element: elementOf(def, outputDef(def, i)) })),
    ],
    ({ v, element }) => ({ value: graph.values[v]!, element }),
  )
  const float = floatOf(graph)
  const stored = operands.find(({ element }) => element === 'either' || element === 'laid')?.value.dtype
  const either = stored !== undefined && isHalf(stored) ? stored : float
  const legal: Readonly<Record<Element, readonly DType[]>> = {
    real: [float],
    i32: ['i32'],
    either: [either],
    bf16: ['bf16'],
    f16: ['f16'],
    u8: ['u8'],
    any: ['i32', ...HALVES, float],
    weight: [float],
    laid: [either],
  }
  const typesOf = ({ value, element }: (typeof operands)[number]): readonly DType[] =>
    legal[element === 'weight' && isLaid(value) ? 'laid' : element]
  const odd = operands.find((o) => !typesOf(o).includes(o.value.dtype))
  return odd && bad(`${text(op)} takes it as ${odd.value.dtype}; allowed: ${typesOf(odd).join(' or ')}`, odd.value.name)
}

const shaped = (graph: Graph, op: Op, def: OpDef): Fault => {
  const shapes = (ids: readonly number[]) => mapped(ids, (v) => graph.values[v]!.shape)
  const outs = shapes(op.outs)
  const rule = def.shape(op.attrs as never, shapes(op.ins), outs)
  if (isLeft(rule)) return bad(`${text(op)}: ${rule.left}`)
  return outs.every((s, i) => shapeText(s) === shapeText(rule.right[i] ?? []))
    ? undefined
    : bad(`${text(op)} computes ${mapped(rule.right, shapeText).join(' ')}, not ${mapped(outs, shapeText).join(' ')}`)
}

/** Checks that an update reads the gradient of the weight that it overwrites. */
const ownGradient =
  (graph: Graph) =>
  (op: Op): Fault => {
    const def = findOp(op.kind)!
    const mutated = def.mutates ?? []
    const weight = mapped(mutated, (i) => op.ins[i]).find((v) => v !== undefined && graph.values[v]!.role === 'param')
    const gradients = op.ins
      .filter((_, i) => inputDef(def, i).dims === 'as input 0')
      .map((v) => graph.values[v]!)
      .filter((v) => v.role === 'gradient')
    if (weight === undefined || gradients.every((g) => g.gradOf === weight)) return undefined
    return bad(`${text(op)} updates '${graph.values[weight]!.name}' with the gradient of another value`, gradients[0]!.name)
  }

/** Checks that no op reads one rank's share of a sum in place of the sum over all ranks. */
const soundRanks = (graph: Graph): Fault => {
  const fault = ranksFault(graph)
  return fault === undefined ? undefined : bad(fault)
}

/** Checks the graph with shapes of the whole batch, for which the op table states its rules. */
export const soundGraph = (shared: Graph): Fault => {
  const graph = inWholeShapes(shared)
  const producer = new Map<number, number>()
  return firstFault([
    () => eachFault(graph.values, soundValue(graph)),
    () => eachFault(graph.ops, soundOp(graph, producer)),
    () => eachFault(graph.ops, ownGradient(graph)),
    () => soundRanks(shared),
    () =>
      eachFault(graph.values, (v) =>
        isPersistent(v) || isFed(v) || producer.has(v.id) ? undefined : bad('no op computes it', v.name),
      ),
  ])
}
