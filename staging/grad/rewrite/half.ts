// Stores the activations of a training graph in 16 bits. In: a training graph, bf16 or f16. Out: the same step, whose layers read and write this
// type. They compute in the graph's float type. Parameters, statistics, sums over tiles, optimizers' numbers and outputs stay floats. Invariant: an
// operator without 16-bit kernels reads and writes through casts. The backward pass reads the values that were rounded for the forward pass. It
// repeats casts to float. In f16, losses stay floats, and grad/scaling.ts scales their gradients. Worked example: [conv2d, lrn, conv2d] becomes
// [conv2d, from_bf16, lrn, to_bf16, conv2d], and the image is fed as bf16.
import { outputTypes } from '../../graph/check'
import { type DType, floatOf, type Graph, type Op, type Value, type ValueId } from '../../graph/graph'
import { castKind } from '../../ops/cast'
import { elementOf } from '../../ops/elements'
import { type Half, inputDef, isHalf } from '../../ops/op'
import { opDef } from '../../ops/registry'

type Stored = 'float' | 'half'

class Casting {
  private readonly values: Value[]
  private readonly ops: Op[] = []
  private readonly casts = new Map<string, ValueId>()
  /** Layers that compute in floats: losses in f16. */
  private readonly inFloats: ReadonlySet<string>

  constructor(
    private readonly g: Graph,
    private readonly half: Half,
  ) {
    this.inFloats = new Set(half === 'f16' ? g.ops.filter((op) => op.phase === 'loss').map((op) => op.layer) : [])
    const layers = new Set(g.ops.flatMap((op) => op.ins.filter((_, i) => this.formRead(op, i) === 'half')))
    this.values = g.values.map((v) => (v.role === 'input' && layers.has(v.id) ? { ...v, dtype: half } : v))
  }

  run(): Graph {
    for (const op of this.g.ops) {
      const ins = op.ins.map((v, i) => this.stored(v, this.formRead(op, i), op))
      const narrow = opDef(op.kind).half !== undefined && !this.inFloats.has(op.layer)
      const types = outputTypes(opDef(op.kind), narrow ? this.half : undefined, floatOf(this.g))
      op.outs.forEach((v, i) => {
        this.values[v] = { ...this.values[v]!, dtype: types[i]! }
      })
      this.append({ ...op, ins })
      for (const v of op.outs) if (this.values[v]!.role === 'output' && isHalf(this.values[v]!.dtype)) this.castOutput(v, op)
    }
    return { name: this.g.name, values: this.values, ops: this.ops }
  }

  /** Returns the form that an op requires of an input; undefined if it reads both forms. */
  private formRead(op: Op, input: number): Stored | undefined {
    const def = opDef(op.kind)
    const o = inputDef(def, input)
    const element = elementOf(def, o)
    if (element === 'either') return this.inFloats.has(op.layer) ? 'float' : 'half'
    return isHalf(element) ? 'half' : element === 'real' && o.role === 'data' ? 'float' : undefined
  }

  /** Casts an output of the step, which must be floats. */
  private castOutput(v: ValueId, { layer, phase }: Op): void {
    const value = this.values[v]!
    this.values[v] = { ...value, name: `${value.name}.${this.half}`, role: 'activation' }
    const id = this.values.length
    this.values.push({ ...value, id, dtype: floatOf(this.g) })
    this.append({ kind: castKind(this.half, 'float', 'value'), layer, phase, attrs: {}, ins: [v], outs: [id] })
    this.casts.set(`${v} float`, id)
  }

  private append(op: Omit<Op, 'id'>): void {
    this.ops.push({ ...op, id: this.ops.length })
  }

  /** Returns the value in the form `as`, with a cast before `reader` if it is stored in the other form. */
  private stored(v: ValueId, as: Stored | undefined, reader: Op): ValueId {
    const value = this.values[v]!
    if (as === undefined || (as === 'half') === isHalf(value.dtype)) return v
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
    const dtype: DType = as === 'half' ? this.half : floatOf(this.g)
    const { init: _, ...kept } = value
    const name = `${value.name}.${as === 'half' ? this.half : as}`
    this.values.push({ ...kept, id, name, role: isGradient ? 'gradient' : 'activation', dtype })
    const kind = castKind(this.half, as, isGradient ? 'gradient' : 'value')
    this.append({ kind, layer, phase, attrs: {}, ins: [value.id], outs: [id] })
    return id
  }
}

export const inHalf =
  (half: Half) =>
  (g: Graph): Graph =>
    new Casting(g, half).run()
