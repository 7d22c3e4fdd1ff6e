// Layers that multiply their input by a weight: one description gives the forward operator, the gradient of x, and that of the weight and the bias.
// In: the access to x, the shape rule, the number of uses of a weight. Out: three entries of the op table. Invariant: the weight's gradient is
// emitted first, so that x can be freed before the equally large dx arrives.
import {
  type AccessMap,
  type AttrsOf,
  type CallShapes,
  defineOp,
  type Fields,
  type GradContext,
  type AnyAttrs,
  type OpDef,
  type OperandDef,
  type Ref,
  type Shapes,
  type Sizes,
} from './op'
import { checked, elements, expectShape, invertsForward } from './rules'

type Access<F extends Fields> = (a: AttrsOf<F>, s: CallShapes) => AccessMap

export interface Product<F extends Fields> {
  readonly kind: string
  /** Wire numbers of the operators in order: forward, bwd_data, bwd_weights. */
  readonly wires: readonly [number, number, number]
  readonly what: readonly [string, string, string]
  readonly fields: F
  readonly reclaimed?: boolean
  /** The access map of x for iterations over y. The weight is the operand `weight`. */
  readonly image: (weight: (s: CallShapes) => Sizes) => Access<F>
  /** The access map of y in the forward op, and of dy in the gradient of x. */
  readonly own: Access<F>
  readonly gradient: Access<F>
  /** Returns y's shape from x and the weight. */
  readonly apply: (a: AttrsOf<F>, x: Sizes, w: Sizes) => Shapes
  readonly biases: (a: AttrsOf<F>, w: Sizes) => number
  readonly multiplyAdds: (x: Sizes | undefined, w: Sizes | undefined, y: Sizes | undefined) => number
  /** Number of copies of the weight's gradient in scratch: one for each of up to eight threads, and one in the kernel's layout. */
  readonly copies: number
  /** True if the weight may be laid out (layout.ts). */
  readonly laid?: boolean
}

/** Emits the gradients of x, weight and bias from dy. */
export const productGradients = <F extends Fields>(kind: string, g: GradContext<F>, attrs: AnyAttrs, dy: Ref): void => {
  const [x, w, b] = g.ins
  if (g.needsGradient(1)) {
    const shapes = [g.shape(w!), ...(b === undefined ? [] : [g.shape(b)])]
    const [dw, db] = g.emit(`${kind}_bwd_weights`, attrs, [x!, dy], shapes)
    g.addGradient(1, dw!)
    if (db !== undefined) g.addGradient(2, db)
  }
  if (g.needsGradient(0)) g.addGradient(0, g.emit(`${kind}_bwd_data`, attrs, [dy, w!], [g.shape(x!)])[0]!)
}

/** Scratch bytes of one reordered copy of the weight. */
export const weightCopy = (_: AnyAttrs, s: CallShapes, bytes: number): number => elements(s.ins[1]) * bytes

export const product = <const F extends Fields>(p: Product<F>): readonly [OpDef, OpDef, OpDef] => {
  const common = { half: 'may', fields: p.fields, dense: true } as const
  const whole = (name: string): OperandDef<F> => ({ name, role: 'whole' })
  const weight: OperandDef<F> = { ...whole('w'), ...(p.laid && { laid: 'may' }) }
  const biasFits = (a: AttrsOf<F>, w: Sizes, b: Sizes | undefined) => (): string | undefined =>
    b && expectShape('the bias', b, [p.biases(a, w)])()
  const forward = defineOp<F>({
    ...common,
    ...(p.reclaimed && { reclaimed: true }),
    kind: p.kind,
    wire: p.wires[0],
    anchor: 'out',
    what: p.what[0],
    ins: [{ name: 'x', role: 'data', access: p.image((s) => s.ins[1]!) }, weight, { ...whole('b'), optional: true }],
    outs: [{ name: 'y', role: 'data', access: p.own }],
    shape: (a, [x, w, b]) => checked([biasFits(a, w!, b)], () => p.apply(a, x!, w!)),
    backward: (g) => productGradients(p.kind, g, g.attrs, g.outputGradient(0)),
    flops: (_, s) => 2 * p.multiplyAdds(s.ins[0], s.ins[1], s.outs[0]) + (s.ins[2] ? elements(s.outs[0]) : 0),
    workspace: weightCopy,
  })
  const bwdData = defineOp<F>({
    ...common,
    kind: `${p.kind}_bwd_data`,
    wire: p.wires[1],
    anchor: 0,
    what: p.what[1],
    ins: [{ name: 'dy', role: 'data', access: p.gradient }, weight],
    outs: [{ name: 'dx', role: 'data', access: p.image((s) => s.ins[1]!) }],
    outputsGiven: true,
    shape: (a, [dy, w], given) => invertsForward(() => p.apply(a, given[0]!, w!), dy!, given),
    flops: (_, s) => 2 * p.multiplyAdds(s.outs[0], s.ins[1], s.ins[0]),
    workspace: weightCopy,
  })
  const bwdWeights = defineOp<F>({
    ...common,
    kind: `${p.kind}_bwd_weights`,
    wire: p.wires[2],
    anchor: 1,
    what: p.what[2],
    ins: [
      { name: 'x', role: 'data', access: p.image((s) => s.outs[0]!) },
      { name: 'dy', role: 'data', access: p.gradient },
    ],
    outs: [
      { ...whole('dw'), merge: 'sum' },
      { ...whole('db'), optional: true, merge: 'sum' },
    ],
    outputsGiven: true,
    shape: (a, [x, dy], given) =>
      checked([biasFits(a, given[0]!, given[1])], () => invertsForward(() => p.apply(a, x!, given[0]!), dy!, given)),
    flops: (_, s) => 2 * p.multiplyAdds(s.ins[0], s.outs[0], s.ins[1]) + (s.outs[1] ? elements(s.ins[1]) : 0),
    workspace: (_, s, bytes) => p.copies * elements(s.outs[0]) * bytes,
  })
  return [forward, bwdData, bwdWeights]
}
