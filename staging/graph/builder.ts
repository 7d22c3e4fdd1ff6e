// Graphs under construction: leaves are declared, and ops are appended with a check of their shapes. In: names, shapes, kinds, attributes. Out: an
// immutable Graph in written order, or the first GraphError. Invariant: a Ref is the value's id and never changes; an op that reads an illegal leaf
// fails with the error of the leaf.
import { type Either, isLeft, left, map, right } from 'fp-ts/Either'
import { sameShape } from '../core/box'
import { type GraphError, renderError } from '../core/errors'
import type { AnyAttrs, Ref, Sizes } from '../ops/op'
import { checkOp, type CheckedOp, halfOfOp, outputTypes, checkedValue } from './check'
import {
  type DType,
  type Float,
  type Graph,
  type Init,
  isOfParameters,
  type Op,
  type Phase,
  type Value,
  type ValueId,
  type ValueRole,
} from './graph'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

const DATA_OUTPUT: Readonly<Record<Phase, ValueRole>> = {
  forward: 'activation',
  loss: 'activation',
  backward: 'gradient',
  update: 'gradient',
}
const WHOLE_OUTPUT: Readonly<Record<Phase, ValueRole>> = {
  forward: 'stat',
  loss: 'loss',
  backward: 'gradient',
  update: 'gradient',
}

export interface OpPlace {
  readonly phase?: Phase
  /** Output shapes that do not follow from the inputs. */
  readonly given?: readonly Sizes[]
}

export class GraphBuilder {
  private readonly values: Mutable<Value>[] = []
  private readonly ops: Op[] = []
  private readonly leaves = new Map<string, Value>()
  private readonly faults = new Map<ValueId, GraphError>()
  private shares = false

  constructor(
    readonly name: string,
    readonly dtype: Float = 'f32',
  ) {}

  /** Continues a finished graph, with `dtype` as its float type. */
  static extending(graph: Graph, dtype: Float): GraphBuilder {
    const b = new GraphBuilder(graph.name, dtype)
    for (const v of graph.values) {
      b.values.push({ ...v, dtype: v.dtype === 'i32' || v.dtype === 'u8' ? v.dtype : dtype })
      if (v.role === 'param' || v.role === 'state' || v.role === 'input' || v.role === 'target') b.leaves.set(v.name, v)
    }
    b.ops.push(...graph.ops)
    return b
  }

  input(name: string, shape: Sizes, dtype: DType = this.dtype): Ref {
    return this.leaf({ name, role: 'input', shape, dtype })
  }
  target(name: string, shape: Sizes, dtype: DType = this.dtype): Ref {
    return this.leaf({ name, role: 'target', shape, dtype })
  }
  param(name: string, shape: Sizes, init: Init): Ref {
    return this.leaf({ name, role: 'param', shape, dtype: this.dtype, init })
  }
  state(name: string, shape: Sizes, init: Init): Ref {
    return this.leaf({ name, role: 'state', shape, dtype: this.dtype, init })
  }

  /** Runs `make`. Within it, a declaration of an existing parameter or state returns the existing one, so a network can be used several times. */
  sharing<T>(make: () => T): T {
    const before = this.shares
    this.shares = true
    try {
      return make()
    } finally {
      this.shares = before
    }
  }

  shape(r: Ref): Sizes {
    return this.value(r).shape
  }
  value(r: Ref): Value {
    const v = this.values[r]
    if (!v) throw new Error(`GraphBuilder: there is no value ${r}`)
    return v
  }
  ref(id: ValueId): Ref {
    return this.value(id as Ref).id as Ref
  }
  /** Returns a leaf, or its error. If no op of the graph reads the leaf, no other check reports the error. */
  checked(leaf: Ref): Either<GraphError, Ref> {
    const fault = this.faults.get(leaf)
    return fault ? left(fault) : right(leaf)
  }
  /** The ops so far, in order. */
  get written(): readonly Op[] {
    return this.ops
  }

  /** Appends an op and returns its outputs. Outputs have the name of the layer, with the name of the operand if it is no activation. */
  op(kind: string, attrs: AnyAttrs, ins: readonly Ref[], layer: string, place: OpPlace = {}): Either<GraphError, Ref[]> {
    const faulty = ins.find((r) => this.faults.has(r))
    if (faulty !== undefined) return left(this.faults.get(faulty)!)
    const request = { kind, layer, attrs, ins: ins.map((r) => this.value(r)), given: place.given ?? [] }
    return map((op: CheckedOp) => this.append(op, ins, layer, place.phase ?? 'forward'))(checkOp(request))
  }

  /** Appends an op with one output and returns the output. */
  one(...request: Parameters<GraphBuilder['op']>): Either<GraphError, Ref> {
    return map((outs: readonly Ref[]) => outs[0]!)(this.op(...request))
  }

  /** Records the value that a gradient belongs to, and names the gradient. */
  markGradient(gradient: Ref, of: Ref, name: string): void {
    const v = this.values[gradient]!
    v.gradOf = of
    v.name = name
  }

  /** Makes a value an output of the step, with a name of its own. */
  markOutput(r: Ref, name: string): void {
    const v = this.values[r]!
    v.role = 'output'
    v.name = name
  }

  /** Returns the order with ops of parameters alone first. Between layers, they would separate tiles. */
  private weightsFirst(): readonly number[] {
    const order = [...this.ops.keys()]
    const isFirst = (i: number): boolean => isOfParameters(this.values, this.ops[i]!)
    const first = order.filter(isFirst)
    return first.length === 0 ? order : [...first, ...order.filter((i) => !isFirst(i))]
  }

  /**
   * Returns the graph, with ops in the given order. The default is the written order, with ops of parameters alone first. A faulty leaf that no op
   * read is a broken invariant.
   */
  build(order: readonly number[] = this.weightsFirst()): Graph {
    for (const fault of this.faults.values()) throw new Error(renderError(fault))
    return {
      name: this.name,
      values: this.values.map((v) => ({ ...v })),
      ops: order.map((from, id) => ({ ...this.ops[from]!, id })),
    }
  }

  private leaf(leaf: Omit<Value, 'id'>): Ref {
    const known = this.leaves.get(leaf.name)
    if (this.shares && known?.role === leaf.role && sameShape(known.shape, leaf.shape)) return known.id as Ref
    const v: Value = Object.assign(leaf, { id: this.values.length })
    const checked = known ? left({ tag: 'DuplicateName' as const, name: v.name, role: v.role }) : checkedValue(v)
    if (isLeft(checked)) this.faults.set(v.id, checked.left)
    this.leaves.set(v.name, known ?? v)
    this.values.push(v)
    return v.id as Ref
  }

  private append(c: CheckedOp, ins: readonly Ref[], layer: string, phase: Phase): Ref[] {
    const types = outputTypes(
      c.def,
      halfOfOp(
        c.def,
        ins.map((r) => this.value(r)),
        [],
      ),
      this.dtype,
    )
    const outs = c.outs.map((shape, i) => {
      const o = c.def.outs[i]!
      // All statistics are small and kept, both those of an image (data) and those of the batch (whole).
      const data = o.role === 'data' && o.merge !== 'moments'
      const id = this.values.length
      const role = (data ? DATA_OUTPUT : WHOLE_OUTPUT)[phase]
      const named = (data && phase === 'forward') || phase === 'loss' ? layer : `${layer}.${o.name}`
      this.values.push({ id, name: named, role, shape, dtype: types[i]! })
      return id as Ref
    })
    this.ops.push({ id: this.ops.length, kind: c.def.kind, layer, phase, attrs: c.attrs, ins: [...ins], outs })
    return outs
  }
}
