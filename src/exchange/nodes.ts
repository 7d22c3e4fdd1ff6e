// ONNX nodes under construction. In: operators with their inputs, attributes and result shapes. Out: nodes in order, and every value's shape.
// Invariant: no two names are equal, weights' included; a shape's first size is the batch, which stays open.
import { type AttributeProto, ATTRIBUTE, ELEMENT, type NodeProto, type TensorProto, type ValueInfoProto } from './onnx'

/** 'batch' is any size. */
export type Dims = readonly (number | 'batch')[]
export type Attributes = Readonly<Record<string, number | string | readonly number[] | { readonly float: number }>>

export const attribute = ([name, value]: readonly [string, Attributes[string]]): AttributeProto => {
  if (typeof value === 'string') return { name, type: ATTRIBUTE.STRING, s: Buffer.from(value) }
  if (typeof value === 'number') return { name, type: ATTRIBUTE.INT, i: value }
  return 'float' in value ? { name, type: ATTRIBUTE.FLOAT, f: value.float } : { name, type: ATTRIBUTE.INTS, ints: value }
}

export const valueInfo = (name: string, dims: Dims, elemType: number = ELEMENT.FLOAT): ValueInfoProto => ({
  name,
  type: {
    tensorType: {
      elemType,
      shape: { dim: dims.map((d) => (d === 'batch' ? { dimParam: d } : { dimValue: d })) },
    },
  },
})

export const int64s = (ns: readonly number[]): TensorProto => ({
  dims: [ns.length],
  dataType: ELEMENT.INT64,
  rawData: new Uint8Array(BigInt64Array.from(ns, BigInt).buffer),
})
export const floats = (ns: readonly number[], dims: readonly number[]): TensorProto => ({
  dims,
  dataType: ELEMENT.FLOAT,
  rawData: new Uint8Array(Float32Array.from(ns).buffer),
})

export class Nodes {
  readonly list: NodeProto[] = []
  readonly values: ValueInfoProto[] = []
  private readonly taken: Set<string>
  private layer = ''

  constructor(taken: Iterable<string>) {
    this.taken = new Set(taken)
  }

  /** The layer whose nodes follow. */
  at(layer: string): void {
    this.layer = layer
  }

  private unused(name: string): string {
    let free = name
    for (let i = 2; this.taken.has(free); i++) free = `${name}/${i}`
    this.taken.add(free)
    return free
  }

  /** The result of a node with one output; its name is the layer's. */
  add(opType: string, input: readonly string[], dims: Dims, attributes: Attributes = {}): string {
    const name = this.unused(this.layer)
    const output = this.unused(`${this.layer}:out`)
    this.list.push({ name, opType, input, output: [output], attribute: Object.entries(attributes).map(attribute) })
    this.values.push(valueInfo(output, dims))
    return output
  }

  private constant(value: TensorProto): string {
    const name = this.unused(`${this.layer}:constant`)
    this.list.push({ name, opType: 'Constant', output: [name], attribute: [{ name: 'value', type: ATTRIBUTE.TENSOR, t: value }] })
    return name
  }
  ints(...ns: readonly number[]): string {
    return this.constant(int64s(ns))
  }
  scalar(n: number): string {
    return this.constant(floats([n], []))
  }
  /** A number for each channel of an image, or one for all. */
  channels(ns: readonly number[]): string {
    return ns.length === 1 ? this.scalar(ns[0]!) : this.constant(floats(ns, [ns.length, 1, 1]))
  }
  /** A matrix with this number of rows. */
  matrix(ns: readonly number[], rows: number): string {
    return this.tensor(ns, [rows, ns.length / rows])
  }
  tensor(ns: readonly number[], dims: readonly number[]): string {
    return this.constant(floats(ns, dims))
  }
  /** One place of an axis. */
  index(n: number): string {
    return this.constant({ ...int64s([n]), dims: [] })
  }
  /** A number of equal values. */
  filled(count: number, n: number): string {
    return this.constant(floats(Array<number>(count).fill(n), [count]))
  }

  /** The last node's output by another name. */
  rename(from: string, to: string): boolean {
    const last = this.list[this.list.length - 1]
    if (last?.output?.[0] !== from) return false
    this.list[this.list.length - 1] = { ...last, output: [to] }
    this.values.pop()
    return true
  }
}
