// Weights in parts of rows, for budgets below one weight with its gradient. In: a training graph and the number of parts of each weight. Out: the
// same step, where several parameters of consecutive rows replace such a weight. Each has its own product, gradient, state and update. The graph
// before the split is kept in `inParts`. Invariant: parts are consecutive, so files and initial values are those of the whole.
//
// Worked example, the forward pass in two parts: [linear(x, w) -> y] becomes [linear(x, w0) -> y0, linear(x, w1) -> y1, concat(y0, y1) -> y]. The
// backward pass has, for each part k: slice_channels(dy) -> dyk, linear_bwd_weights(x, dyk) -> dwk, linear_bwd_data(dyk, wk) -> dxk, sgd(wk, dwk).
import { elementsOf, type Range, tileRange } from '../core/box'
import { mapped } from '../core/mapped'
import { clipNorm, clipValues, squareSum } from '../ops/clip'
import { concat, putChannels, sliceChannels, takeChannels } from '../ops/concat'
import { add, gradSum } from '../ops/add'
import { conv2d, conv2dBwdData, conv2dBwdWeights, conv2dRelu } from '../ops/conv2d'
import { convTranspose2d, convTranspose2dBwdData, convTranspose2dBwdWeights } from '../ops/convtranspose2d'
import { linear, linearBwdData, linearBwdWeights } from '../ops/linear'
import { meanOverSteps, updateKinds } from '../ops/optimizer'
import { paramGradSum } from '../ops/paramsum'
import { type AnyAttrs, asShape, inputDef, type OperandDef, outputDef } from '../ops/op'
import { opDef } from '../ops/registry'
import { unscale } from '../ops/scaling'
import {
  dtypeBytes,
  floatOf,
  type Graph,
  isPersistent,
  withFewObjectShapes,
  type Op,
  type Value,
  type ValueId,
  valueBytes,
} from './graph'

/** By name of a weight in parts: the number of parts. */
export type Counts = Readonly<Record<string, number>>

/** Weights are cut at multiples of this number of rows, because kernels are fast for multiples of 16 channels. */
const ROWS = 16

// ---------------------------------------------------------------- operators

interface Product {
  readonly output: 'result' | 'gradient of data' | 'gradient of weight'
  /** The operand whose channels are the rows of the weight: x, or y and its gradient. */
  readonly rowsOf: 'x' | 'y'
}

const productsOf = (rowsOf: Product['rowsOf'], [forward, data, weights]: readonly (readonly { readonly kind: string }[])[]) => [
  ...mapped(forward!, ({ kind }) => [kind, { output: 'result', rowsOf }] as const),
  ...mapped(data!, ({ kind }) => [kind, { output: 'gradient of data', rowsOf }] as const),
  ...mapped(weights!, ({ kind }) => [kind, { output: 'gradient of weight', rowsOf }] as const),
]

const PRODUCTS: ReadonlyMap<string, Product> = new Map<string, Product>([
  ...productsOf('y', [
    [linear, conv2d, conv2dRelu],
    [linearBwdData, conv2dBwdData],
    [linearBwdWeights, conv2dBwdWeights],
  ]),
  ...productsOf('x', [[convTranspose2d], [convTranspose2dBwdData], [convTranspose2dBwdWeights]]),
])

/** Operators that compute each row of a weight, its gradient or its state independently. */
const ROWWISE: ReadonlySet<string> = new Set([
  ...updateKinds,
  ...mapped([meanOverSteps, clipValues, clipNorm, unscale, paramGradSum, squareSum], (d) => d.kind),
])

const productOf = ({ kind, attrs }: Op): Product | undefined => ((attrs['groups'] ?? 1) === 1 ? PRODUCTS.get(kind) : undefined)
const isSquares = ({ kind }: Op): boolean => kind === squareSum.kind

/** Returns the operands of a rowwise operator that have the rows of the weight. The others are single numbers. */
const rowOperands = (op: Op): readonly ValueId[] => {
  const def = opDef(op.kind)
  const hasRows = (o: OperandDef): boolean => o.dims === 'as input 0'
  return [...op.ins.filter((_, i) => hasRows(inputDef(def, i))), ...op.outs.filter((_, i) => hasRows(outputDef(def, i)))]
}

// ---------------------------------------------------------------- families

/** A weight with all values that have its rows: bias, gradients, states. */
export interface Family {
  readonly weight: Value
  readonly members: ReadonlySet<ValueId>
  readonly ops: ReadonlySet<Op>
  /** The most bytes of the weight or its gradient, with scratch, that one operator holds. */
  readonly bytes: number
}

const mostParts = (weight: Value): number => Math.ceil(weight.shape[0]! / ROWS)

/** Returns the members that an operator adds to a family; undefined if the operator cannot work on parts. */
const addedBy = (op: Op, weight: ValueId, members: ReadonlySet<ValueId>): readonly ValueId[] | undefined => {
  if (ROWWISE.has(op.kind)) return rowOperands(op)
  const product = productOf(op)
  if (!product) return undefined
  const { ins, outs } = op
  if (product.output === 'gradient of weight') return product.rowsOf === 'y' ? outs : outs.slice(0, 1)
  if (ins[1] !== weight || members.has(ins[0]!)) return undefined
  return product.output === 'result' && product.rowsOf === 'y' ? ins.slice(1) : []
}

const bytesIn = (g: Graph, { kind, attrs, ins, outs }: Op, members: ReadonlySet<ValueId>): number => {
  const shapes = (ids: readonly ValueId[]) => mapped(ids, (v) => g.values[v]!.shape)
  const own = [...ins, ...outs].reduce((n, v) => n + (members.has(v) ? valueBytes(g.values[v]!) : 0), 0)
  return own + (opDef(kind).workspace?.(attrs, { ins: shapes(ins), outs: shapes(outs) }, dtypeBytes[floatOf(g)]) ?? 0)
}

const familyOf = (g: Graph, touching: ReadonlyMap<ValueId, readonly Op[]>, weight: Value): Family | undefined => {
  const members = new Set([weight.id])
  const ops = new Set<Op>()
  // The loop visits members that it adds.
  for (const v of members)
    for (const op of touching.get(v) ?? []) {
      const added = addedBy(op, weight.id, members)
      if (!added) return undefined
      for (const m of added) members.add(m)
      ops.add(op)
    }
  if ([...members].some((v) => g.values[v]!.shape[0] !== weight.shape[0])) return undefined
  const products = [...ops].filter((op) => PRODUCTS.has(op.kind))
  if (products.length === 0) return undefined
  return { weight, members, ops, bytes: Math.max(...mapped(products, (op) => bytesIn(g, op, members))) }
}

/** Returns the weights that can be in parts. */
export const familiesOf = (g: Graph): readonly Family[] => {
  const touching = new Map<ValueId, Op[]>()
  for (const op of g.ops)
    for (const v of new Set([...op.ins, ...op.outs])) {
      const known = touching.get(v)
      if (known) known.push(op)
      else touching.set(v, [op])
    }
  return g.values.flatMap((v) =>
    v.role === 'param' && v.shape.length > 1 && mostParts(v) > 1 ? (familyOf(g, touching, v) ?? []) : [],
  )
}

/** Returns numbers of parts with which no operator holds more than `bytes` of a weight, if its rows allow it. */
export const countsWithin = (families: readonly Family[], bytes: number): Counts =>
  Object.fromEntries(
    families.flatMap((f) => {
      const parts = Math.min(mostParts(f.weight), Math.ceil(f.bytes / bytes))
      return parts > 1 ? [[f.weight.name, parts] as const] : []
    }),
  )

// ---------------------------------------------------------------- the split

/** Returns the ranges of rows of a weight's parts. */
const rangesOf = ({ shape }: Value, parts: number): readonly Range[] =>
  Array.from({ length: parts }, (_, i): Range => {
    const [from, to] = tileRange(Math.ceil(shape[0]! / ROWS), parts, i)
    return [from * ROWS, Math.min(shape[0]!, to * ROWS)]
  })

/** A part of a weight: its index and its rows. */
interface At {
  readonly k: number
  readonly rows: Range
  readonly isLast: boolean
}

class Split {
  private readonly values: Value[]
  private readonly ops: Op[] = []
  private readonly parts = new Map<ValueId, readonly ValueId[]>()
  private readonly ranges = new Map<Family, readonly Range[]>()
  private readonly familyOf = new Map<Op, Family>()
  /** By result: the pieces of it so far, one from each part of the weight. */
  private readonly pieces = new Map<ValueId, ValueId[]>()
  private readonly sums = new Map<ValueId, ValueId>()
  /** By value: its channels, which the operators of one part share. */
  private readonly channels = new Map<ValueId, ValueId>()

  constructor(
    private readonly g: Graph,
    families: readonly Family[],
    private readonly counts: Counts,
  ) {
    this.values = [...g.values]
    for (const family of families) {
      const ranges = rangesOf(family.weight, counts[family.weight.name]!)
      this.ranges.set(family, ranges)
      for (const op of family.ops) this.familyOf.set(op, family)
      // A member's parts follow the order of values, so that the same counts give the same graph.
      for (const v of [...family.members].sort((a, b) => a - b)) this.parts.set(v, this.addParts(g.values[v]!, ranges))
    }
    for (const [v, parts] of this.parts)
      parts.forEach((part, k) => {
        const { gradOf } = this.g.values[v]!
        if (gradOf !== undefined) this.values[part] = { ...this.values[part]!, gradOf: this.parts.get(gradOf)?.[k] ?? gradOf }
      })
  }

  run(): Graph {
    const { ops } = this.g
    for (let i = 0; i < ops.length; ) {
      const family = this.familyOf.get(ops[i]!)
      const to = family ? this.runFrom(i, family) : i + 1
      if (family) this.appendRun(ops.slice(i, to), family)
      else this.append(ops[i]!)
      i = to
    }
    return withFewObjectShapes({
      ...this.g,
      values: this.values,
      ops: this.ops,
      inParts: { whole: this.g, counts: this.counts },
    })
  }

  /** Returns the end of the run of a family's operators from `i` on. No operator of a run reads the joined result of another one. */
  private runFrom(i: number, family: Family): number {
    const joined = new Set<ValueId>()
    let to = i
    for (let op = this.g.ops[to]; op && this.familyOf.get(op) === family; op = this.g.ops[++to]) {
      if (op.ins.some((v) => joined.has(v))) break
      for (const v of op.outs) if (!family.members.has(v)) joined.add(v)
    }
    return to
  }

  /** Appends a run part by part, so that a part, its gradient and its update are close together. */
  private appendRun(run: readonly Op[], family: Family): void {
    const ranges = this.ranges.get(family)!
    ranges.forEach((rows, k) => {
      this.channels.clear()
      for (const op of run) this.appendPart(op, { k, rows, isLast: k === ranges.length - 1 })
    })
  }

  private appendPart(op: Op, at: At): void {
    const product = productOf(op)
    if (!product) this.appendRowwise(op, at)
    else if (product.output === 'gradient of weight') this.appendGradientOfWeight(op, product, at)
    else if (product.output === 'result') this.appendResult(op, product, at)
    else this.appendGradientOfData(op, product, at)
  }

  private appendGradientOfWeight(op: Op, { rowsOf }: Product, { k, rows }: At): void {
    const cut = rowsOf === 'y' ? 1 : 0
    const ins = mapped(op.ins, (v, i) => (i === cut ? this.channelsOf(op, v, rows) : v))
    // The gradient of a bias of all channels is computed once.
    const outs = rowsOf === 'y' || k === 0 ? op.outs : op.outs.slice(0, 1)
    this.append({ ...op, ins, outs: mapped(outs, (v) => this.partOf(v, k)) })
  }

  private appendResult(op: Op, { rowsOf }: Product, at: At): void {
    const y = op.outs[0]!
    const ins = mapped(op.ins, (v) => this.partOf(v, at.k))
    if (rowsOf === 'y') {
      const made = this.addChannels(y, at.rows)
      this.append({ ...op, ins, outs: [made] })
      const pieces = [...(this.pieces.get(y) ?? []), made]
      this.pieces.set(y, pieces)
      if (at.isLast) this.append({ ...op, kind: concat.kind, attrs: {}, ins: pieces, outs: [y] })
      return
    }
    ins[0] = this.channelsOf(op, op.ins[0]!, at.rows)
    this.appendSum({ ...op, ins: at.k === 0 ? ins : ins.slice(0, 2) }, y, add.kind, at)
  }

  private appendGradientOfData(op: Op, { rowsOf }: Product, at: At): void {
    const dx = op.outs[0]!
    const [dy, w] = [op.ins[0]!, this.partOf(op.ins[1]!, at.k)]
    if (rowsOf === 'y') {
      this.appendSum({ ...op, ins: [this.channelsOf(op, dy, at.rows), w] }, dx, gradSum.kind, at)
      return
    }
    const made = this.addChannels(dx, at.rows)
    this.append({ ...op, ins: [dy, w], outs: [made] })
    const attrs = { from: at.rows[0], channels: this.g.values[dx]!.shape[1]! }
    this.appendSum({ ...op, kind: putChannels.kind, attrs, ins: [made] }, dx, gradSum.kind, at)
  }

  /** Appends an operator that makes a summand of `total`, and the sum so far. */
  private appendSum(op: Op, total: ValueId, kind: string, { k, isLast }: At): void {
    const made = this.addSummand(total)
    this.append({ ...op, outs: [made] })
    if (k === 0) {
      this.sums.set(total, made)
      return
    }
    const out = isLast ? total : this.addSummand(total)
    this.append({ ...op, kind, attrs: {}, ins: [this.sums.get(total)!, made], outs: [out] })
    this.sums.set(total, out)
  }

  private appendRowwise(op: Op, { k, isLast }: At): void {
    const ins = mapped(op.ins, (v) => this.partOf(v, k))
    if (!isSquares(op)) {
      this.append({ ...op, ins, outs: mapped(op.outs, (v) => this.partOf(v, k)) })
      return
    }
    const total = op.outs[0]!
    const out = isLast ? total : this.addSummand(total)
    this.append({ ...op, ins: k === 0 ? ins : [ins[0]!, this.sums.get(total)!], outs: [out] })
    this.sums.set(total, out)
  }

  // ---------------------------------------------------------------- values

  private partOf(v: ValueId, k: number): ValueId {
    return this.parts.get(v)?.[k] ?? v
  }

  /** Makes the parts of a value. The first part has the id of the value. */
  private addParts(v: Value, ranges: readonly Range[]): readonly ValueId[] {
    const rowElements = elementsOf(v.shape) / v.shape[0]!
    return mapped(ranges, ([from, to], k) => {
      const id = k === 0 ? v.id : this.values.length
      const cut = isPersistent(v) ? { cut: { of: v.name, first: from * rowElements } } : {}
      this.values[id] = { ...v, id, name: `${v.name}[${from}:${to}]`, shape: [to - from, ...v.shape.slice(1)], ...cut }
      return id
    })
  }

  /** Makes a summand of a value. */
  private addSummand(v: ValueId): ValueId {
    const value = this.g.values[v]!
    return this.values.push({ ...value, id: this.values.length, name: `${value.name}.part` }) - 1
  }

  /** Makes a value for some channels of a value. */
  private addChannels(v: ValueId, [from, to]: Range): ValueId {
    const { name, role, shape, dtype } = this.g.values[v]!
    const [b, , h, w] = asShape(shape)
    return (
      this.values.push({
        id: this.values.length,
        name: `${name}[${from}:${to}]`,
        role: role === 'gradient' ? role : 'activation',
        shape: [b, to - from, h, w],
        dtype,
      }) - 1
    )
  }

  /** Returns some channels of x or of a gradient. They are cut once for all operators of a part. */
  private channelsOf(op: Op, v: ValueId, [from, to]: Range): ValueId {
    const known = this.channels.get(v)
    if (known !== undefined) return known
    const made = this.addChannels(v, [from, to])
    const isGradient = this.g.values[v]!.role === 'gradient'
    const attrs: AnyAttrs = isGradient ? { from } : { from, count: to - from }
    this.append({ ...op, kind: (isGradient ? sliceChannels : takeChannels).kind, attrs, ins: [v], outs: [made] })
    this.channels.set(v, made)
    return made
  }

  private append(op: Op): void {
    this.ops.push({ ...op, id: this.ops.length })
  }
}

/** Returns the step with these weights in parts; undefined if a weight cannot have its number of parts. */
export const weightsInParts = (g: Graph, counts: Counts, families = familiesOf(g)): Graph | undefined => {
  const chosen = families.filter((f) => counts[f.weight.name] !== undefined)
  const fits = ({ weight }: Family): boolean => counts[weight.name]! > 1 && counts[weight.name]! <= mostParts(weight)
  return chosen.length === Object.keys(counts).length && chosen.length > 0 && chosen.every(fits)
    ? new Split(g, chosen, counts).run()
    : undefined
}

/** Returns the parts of parameters and states, in order, by name of the whole. */
export const cutsIn = (g: Graph): ReadonlyMap<string, readonly Value[]> => {
  const cuts = new Map<string, Value[]>()
  for (const v of g.values) if (v.cut) cuts.set(v.cut.of, [...(cuts.get(v.cut.of) ?? []), v])
  for (const parts of cuts.values()) parts.sort((a, b) => a.cut!.first - b.cut!.first)
  return cuts
}
