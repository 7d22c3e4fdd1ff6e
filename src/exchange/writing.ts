// Writing an op as ONNX nodes: the names of values, as images and flat. In: an op, the graph so far. Out: its nodes.
import type { Graph, Op, Value, ValueId } from '../../staging/graph/graph'
import { type Dims, Nodes } from './nodes'

/** The names that a value has; one of both at least. */
interface Forms {
  image?: string
  flat?: string
}

export const INPUT = 'input'

export const OUTPUT = 'output'

export const imageDims = (v: Value): Dims => ['batch', ...v.shape.slice(1)]

export const flatDims = (v: Value): Dims => ['batch', v.shape[1]!]

export class Inference {
  readonly nodes: Nodes
  private readonly forms = new Map<ValueId, Forms>()
  private readonly named: ReadonlyMap<string, Value>

  constructor(private readonly graph: Graph) {
    const weights = graph.values.filter((v) => v.role === 'param' || v.role === 'state')
    this.named = new Map(weights.map((v) => [v.name, v]))
    this.nodes = new Nodes([INPUT, OUTPUT, ...this.named.keys()])
    for (const v of graph.values)
      if (v.role === 'input') this.forms.set(v.id, { image: INPUT })
      else if (this.named.has(v.name)) this.forms.set(v.id, { image: v.name })
  }

  value(id: ValueId): Value {
    return this.graph.values[id]!
  }
  formsOf(id: ValueId): Forms {
    const forms = this.forms.get(id)
    if (!forms) throw new Error(`'${this.value(id).name}' is read before it is computed`)
    return forms
  }
  is(id: ValueId, forms: Forms): void {
    this.forms.set(id, forms)
  }

  /** A value as [B,C,H,W], or a weight. */
  image(id: ValueId): string {
    const forms = this.formsOf(id)
    forms.image ??= this.nodes.add('Unsqueeze', [forms.flat!, this.nodes.ints(2, 3)], imageDims(this.value(id)))
    return forms.image
  }
  flat(id: ValueId): string {
    const forms = this.formsOf(id)
    forms.flat ??= this.nodes.add('Flatten', [forms.image!], flatDims(this.value(id)), { axis: 1 })
    return forms.flat
  }
  /** Returns true if all of them are flat already. */
  areFlat(ids: readonly ValueId[]): boolean {
    return ids.every((id) => this.formsOf(id).image === undefined)
  }
  /** The statistics of a norm, by its scale. */
  statistic(scale: ValueId, name: string): string {
    const found = `${this.value(scale).name.replace(/[^.]*$/, '')}${name}`
    if (!this.named.has(found)) throw new Error(`there is no '${found}'`)
    return found
  }
}

export type Write = (at: Inference, op: Op) => void

export type Attrs = Readonly<Record<string, number>>

/** The value unchanged: ops for training alone are left out. */
export const nothing: Write = (at, { ins, outs }) => at.is(outs[0]!, at.formsOf(ins[0]!))

/** In any form of its inputs; `make` gets their names. */
export const elementWise =
  (make: (at: Inference, ins: readonly string[], dims: Dims, op: Op) => string, operands = 1): Write =>
  (at, op) => {
    const data = op.ins.slice(0, operands)
    const out = op.outs[0]!
    if (at.areFlat(data))
      at.is(out, {
        flat: make(
          at,
          data.map((i) => at.flat(i)),
          flatDims(at.value(out)),
          op,
        ),
      })
    else
      at.is(out, {
        image: make(
          at,
          data.map((i) => at.image(i)),
          imageDims(at.value(out)),
          op,
        ),
      })
  }

export const unary = (opType: string): Write => elementWise((at, ins, dims) => at.nodes.add(opType, ins, dims))

/** On [B,C,H,W]. */
export const onImage =
  (make: (at: Inference, x: string, dims: Dims, op: Op) => string): Write =>
  (at, op) =>
    at.is(op.outs[0]!, { image: make(at, at.image(op.ins[0]!), imageDims(at.value(op.outs[0]!)), op) })

export const weightsOf = (at: Inference, { ins }: Op): readonly string[] => ins.slice(1).map((i) => at.image(i))
