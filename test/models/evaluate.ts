// One training step of a graph, one kernel after the other on `ref` in double precision: no plan, no tiles, no interpreter.
// In: a training graph (by sgd), the values of its parameters, states, input and target. Out: output, loss and gradients as
// they are made, in PyTorch's order. Invariant: a value is dropped after its last reader: deep networks need little memory.
import { DIMS, elementsOf, type Shape } from '../../staging/core/box'
import type { Graph, Op, Value } from '../../staging/graph/graph'
import { inputDef, type OperandDef } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { wireAttrs } from '../../src/machine/operands'
import { loadNative, type NativeArray } from '../../src/device/native'

export type Numbers = Float32Array | Float64Array | Int32Array
type Held = Float64Array | Int32Array

/** Activations lie channels-last in memory. */
const placeOf = ([, c, h, w]: Shape) => {
  const pixels = h * w
  return (i: number): number => {
    const image = Math.floor(i / (c * pixels))
    return (image * pixels + (i % pixels)) * c + (Math.floor(i / pixels) % c)
  }
}

const isImage = (v: Value): boolean => v.shape.length === DIMS.length && v.role !== 'param' && v.role !== 'state'

const toMemory = (v: Value, numbers: Numbers): Held => {
  const held = v.dtype === 'i32' ? new Int32Array(numbers.length) : new Float64Array(numbers.length)
  const at = isImage(v) ? placeOf(v.shape as unknown as Shape) : (i: number) => i
  for (let i = 0; i < numbers.length; i++) held[at(i)] = numbers[i]!
  return held
}

const fromMemory = (v: Value, held: Held): Held => {
  const at = placeOf(v.shape as unknown as Shape)
  return held.map((_, i) => held[at(i)]!)
}

/** The results of a step: 'output', 'loss', and the gradient of each parameter under the parameter's name. */
export type Seen = (name: string, numbers: Held) => void

class Evaluation {
  private readonly held = new Map<number, Held>()
  private readonly native = loadNative()

  constructor(
    private readonly graph: Graph,
    private readonly start: (v: Value) => Numbers,
  ) {}

  private array(v: Value, def: OperandDef, data: Held): NativeArray {
    return { dims: v.shape, data, dtype: def.dtype === 'i32' ? 'i32' : 'f64' }
  }

  /** An operand of an op: an earlier result, or a leaf. */
  valueOf(id: number): Held {
    const v = this.graph.values[id]!
    const known = this.held.get(id) ?? toMemory(v, this.start(v))
    this.held.set(id, known)
    return known
  }

  run(op: Op): void {
    const def = opDef(op.kind)
    const ins = op.ins.map((id, i) => this.array(this.graph.values[id]!, inputDef(def, i), this.valueOf(id)))
    const outs = op.outs.map((id, i) => {
      const v = this.graph.values[id]!
      // An element that the kernel leaves alone shows.
      const data = new Float64Array(elementsOf(v.shape)).fill(Number.NaN)
      this.held.set(id, data)
      return this.array(v, def.outs[Math.min(i, def.outs.length - 1)]!, data)
    })
    this.native.runKernel({ device: 'ref', kind: op.kind, attrs: wireAttrs(def, op.attrs), ins, outs, step: 1 })
  }

  drop(id: number): void {
    this.held.delete(id)
  }
}

/** The last op that touches each value. */
const lastTouches = (ops: readonly Op[]): ReadonlyMap<number, number> =>
  new Map(ops.flatMap((op, i) => [...op.ins, ...op.outs].map((v) => [v, i] as const)))

/** Gradient -> its parameter's name. */
const gradientNames = ({ ops, values }: Graph): ReadonlyMap<number, string> =>
  new Map(ops.filter((o) => o.kind === 'sgd').map((o) => [o.ins[1]!, values[o.ins[0]!]!.name]))

/** `output`: of a graph without a loss, the value that is shown as one. */
export const evaluate = (graph: Graph, start: (v: Value) => Numbers, seen: Seen, output?: number): void => {
  const ops = graph.ops.filter((o) => o.phase !== 'update')
  const gradients = gradientNames(graph)
  const last = lastTouches(ops)
  const e = new Evaluation(graph, start)
  for (const [i, op] of ops.entries()) {
    e.run(op)
    if (op.phase === 'loss') {
      seen('output', fromMemory(graph.values[op.ins[0]!]!, e.valueOf(op.ins[0]!)))
      seen('loss', e.valueOf(op.outs[0]!))
    }
    if (output !== undefined && op.outs.includes(output)) seen('output', fromMemory(graph.values[output]!, e.valueOf(output)))
    for (const id of op.outs) if (gradients.has(id)) seen(gradients.get(id)!, e.valueOf(id))
    for (const id of [...op.ins, ...op.outs]) if (last.get(id) === i) e.drop(id)
  }
}
