// Stores the activations of a training graph as bf16. In: a training graph. Out: the same step, whose layers read and write bf16 and compute in the
// graph's float type; parameters, statistics, sums over tiles, losses, optimizers' numbers and outputs stay floats. Invariant: an operator without
// bf16 is fed and read through casts. Values rounded for the forward pass serve the backward pass too; casts to float are made again there rather
// than kept. No loss scaling: bf16 has the exponents of fp32. Worked example: [conv2d, lrn, conv2d] becomes [conv2d, from_bf16, lrn, to_bf16,
// conv2d], the image is fed as bf16.
import { outputTypes } from '../../graph/check'
import { type DType, floatOf, type Graph, type Op, type Value, type ValueId } from '../../graph/graph'
import { elementOf } from '../../ops/elements'
import { inputDef } from '../../ops/op'
import { opDef } from '../../ops/registry'

type Stored = 'float' | 'bf16'

/** How an op wants its input stored; undefined where it takes it as it is. */
const wanted = (op: Op, input: number): Stored | undefined => {
  const def = opDef(op.kind)
  const o = inputDef(def, input)
  const element = elementOf(def, o)
  return element === 'either' || element === 'bf16' ? 'bf16' : element === 'real' && o.role === 'data' ? 'float' : undefined
}

class Casting {
  private readonly values: Value[]
  private readonly ops: Op[] = []
  private readonly casts = new Map<string, ValueId>()

  constructor(private readonly g: Graph) {
    const layers = new Set(g.ops.flatMap((op) => op.ins.filter((_, i) => wanted(op, i) === 'bf16')))
    this.values = g.values.map((v) => (v.role === 'input' && layers.has(v.id) ? { ...v, dtype: 'bf16' } : v))
  }

  run(): Graph {
    for (const op of this.g.ops) {
      const ins = op.ins.map((v, i) => this.stored(v, wanted(op, i), op))
      const types = outputTypes(opDef(op.kind), opDef(op.kind).bf16 !== undefined, floatOf(this.g))
      op.outs.forEach((v, i) => {
        this.values[v] = { ...this.values[v]!, dtype: types[i]! }
      })
      this.append({ ...op, ins })
      for (const v of op.outs) if (this.values[v]!.role === 'output' && this.values[v]!.dtype === 'bf16') this.handOut(v, op)
    }
    return { name: this.g.name, values: this.values, ops: this.ops }
  }

  /** Outputs of the step are floats. */
  private handOut(v: ValueId, { layer, phase }: Op): void {
    const value = this.values[v]!
    this.values[v] = { ...value, name: `${value.name}.bf16`, role: 'activation' }
    const id = this.values.length
    this.values.push({ ...value, id, dtype: floatOf(this.g) })
    this.append({ kind: 'from_bf16', layer, phase, attrs: {}, ins: [v], outs: [id] })
    this.casts.set(`${v} float`, id)
  }

  private append(op: Omit<Op, 'id'>): void {
    this.ops.push({ ...op, id: this.ops.length })
  }

  /** The value as `reader` wants it, cast before it where it is stored otherwise. */
  private stored(v: ValueId, as: Stored | undefined, reader: Op): ValueId {
    const value = this.values[v]!
    if (as === undefined || (as === 'bf16') === (value.dtype === 'bf16')) return v
    const backward = reader.phase === 'backward'
    const key = `${v} ${as === 'float' && backward ? 'again' : as}`
    const known = this.casts.get(key)
    if (known !== undefined) return known
    const cast = this.cast(value, as, reader.layer, backward ? 'backward' : 'forward')
    this.casts.set(key, cast)
    return cast
  }

  private cast(value: Value, as: Stored, layer: string, phase: Op['phase']): ValueId {
    const id = this.values.length
    const isGradient = value.role === 'gradient'
    const dtype: DType = as === 'bf16' ? 'bf16' : floatOf(this.g)
    const { init: _, ...kept } = value
    this.values.push({ ...kept, id, name: `${value.name}.${as}`, role: isGradient ? 'gradient' : 'activation', dtype })
    const kind = `${as === 'bf16' ? 'to_bf16' : 'from_bf16'}${isGradient ? '_grad' : ''}`
    this.append({ kind, layer, phase, attrs: {}, ins: [value.id], outs: [id] })
    return id
  }
}

export const inBf16 = (g: Graph): Graph => new Casting(g).run()
