// The op table's facts of a layer, from its ops. In: a node, its rule, an input shape. Out: its output's shape, the dimensions along which it is
// FT-compatible, those over which it sums, true if it writes over its input; or an error. Worked example: batch norm is bn_stats, which sums over B,
// H and W, and bn_apply: FT in C, sums in B, H and W.
import { type Either, getOrElse, isRight, left, map } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DIMS, sameShape } from '../../staging/core/box'
import type { GraphError } from '../../staging/core/errors'
import { GraphBuilder } from '../../staging/graph/builder'
import type { Op } from '../../staging/graph/graph'
import { inputDef, type OpDef, type OperandDef, type Ref, sigmaDelta } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import type { Dim, Layer, Shape } from '../net'
import type { LayerRule, Mode, ParamSpec } from './rule'

export interface Derived {
  readonly output: Shape
  readonly ft: readonly Dim[]
  readonly sums: readonly Dim[]
  readonly inPlace: boolean
  readonly params: readonly ParamSpec[]
}

interface Tried {
  readonly graph: GraphBuilder
  readonly output: Ref
  readonly params: readonly ParamSpec[]
}

const tried = (l: Layer, rule: LayerRule, input: Shape, called: string, mode: Mode): Either<GraphError, Tried> => {
  const graph = new GraphBuilder(called)
  const params = rule.params?.(l, input) ?? []
  const site = { graph, layer: called, weights: called, input, params, randomKey: () => 0, mode }
  return pipe(
    rule.elaborate(l, graph.input('input', input, rule.takes), site),
    map((output) => ({ graph, output, params })),
  )
}

// ---------------------------------------------------------------- operands of an op

interface Operand {
  readonly def: OperandDef
  readonly shape: readonly number[]
  readonly written: boolean
  readonly tag: (d: Dim) => string
  readonly compatible: (d: Dim) => boolean
}

const operandsOf = (graph: GraphBuilder, op: Op): readonly Operand[] => {
  const def = opDef(op.kind)
  const shapes = { ins: op.ins.map((v) => graph.shape(v as Ref)), outs: op.outs.map((v) => graph.shape(v as Ref)) }
  const operand = (o: OperandDef, shape: readonly number[], written: boolean): Operand => {
    const access = o.role === 'data' ? o.access!(op.attrs, shapes) : undefined
    // Statistics of a channel are made of all its pixels in all images.
    const compatible = (d: Dim): boolean => (access ? sigmaDelta(access[d]) !== undefined : o.merge === undefined || d === 'C')
    return { def: o, shape, written, tag: (d) => access?.[d].tag ?? 'whole', compatible }
  }
  return [
    ...shapes.ins.map((s, i) => operand(inputDef(def, i), s, false)),
    ...shapes.outs.map((s, i) => operand(def.outs[i]!, s, true)),
  ]
}

const sumsOver = (o: Operand, d: Dim): boolean =>
  o.written && o.def.merge !== undefined && (o.def.role === 'data' ? o.tag(d) === 'reduce' : d !== 'C')

/** Returns true if tiles along `d` can add into the op's sums. */
const addsUp = (o: Operand, d: Dim): boolean =>
  o.compatible(d) || sumsOver(o, d) || (o.tag(d) === 'all' && (o.shape[DIMS.indexOf(d)] ?? 1) <= 1)

/** Returns true if it may overwrite its input, and its gradient does not need that input. */
const overwrites = (def: OpDef, op: Op, graph: GraphBuilder): boolean => {
  if (!def.inPlace?.includes(0)) return false
  let reads = false
  def.backward?.({
    attrs: op.attrs,
    ins: op.ins.map((v) => v as Ref),
    outs: op.outs.map((v) => v as Ref),
    outputGradient: () => -1 as Ref,
    needsGradient: () => true,
    shape: (r) => graph.shape(r),
    emit: (kind, _, ins) => {
      reads ||= ins.includes(op.ins[0] as Ref)
      return opDef(kind).outs.map(() => -1 as Ref)
    },
    addGradient: () => {},
    addJoinedGradient: () => {},
    earlierJoinedGradient: () => [],
  })
  return !reads
}

// ---------------------------------------------------------------- a layer

/** The facts of a layer at a larger image, if it changes nothing at this one, or if one pixel tells too little. */
const telling = (l: Layer, rule: LayerRule, input: Shape, called: string, mode: Mode, made: Tried): Tried => {
  const [b, c, h, w] = input
  if (made.graph.written.length > 0 && h * w > 1) return made
  const larger: Shape = [b, c, 2 * h, 2 * w]
  return rule.fault?.(l, larger, mode) ? made : getOrElse(() => made)(tried(l, rule, larger, called, mode))
}

const derivedAnew = (l: Layer, rule: LayerRule, input: Shape, called: string, mode: Mode): Either<GraphError, Derived> => {
  const reason = rule.fault?.(l, input, mode) ?? null
  if (reason !== null) return left({ tag: 'ShapeInvalid', layer: called, kind: l.kind, reason })
  return pipe(
    tried(l, rule, input, called, mode),
    map((made) => factsOf(l, rule, made, telling(l, rule, input, called, mode, made))),
  )
}

/** The facts of the result, and of the larger one. */
const factsOf = (l: Layer, rule: LayerRule, made: Tried, { graph }: Tried): Derived => {
  const ops = graph.written.map((op) => operandsOf(graph, op))
  const ft = DIMS.filter((d) => ops.every((operands) => operands.every((o) => o.compatible(d))))
  const summed = (d: Dim): boolean =>
    ops.some((operands) => operands.some((o) => sumsOver(o, d))) && ops.every((operands) => operands.every((o) => addsUp(o, d)))
  return {
    output: made.graph.shape(made.output) as unknown as Shape,
    ft,
    sums: DIMS.filter((d) => !ft.includes(d) && summed(d)),
    inPlace: ops.length > 0 ? graph.written.every((op) => overwrites(opDef(op.kind), op, graph)) : rule.isNothing?.(l) === true,
    params: made.params,
  }
}

/** The result of a layer at its last shape: a model is analysed at construction, and again at staging. */
const last = new WeakMap<Layer, { readonly input: Shape; readonly mode: Mode; readonly came: Either<GraphError, Derived> }>()

export const derived = (l: Layer, rule: LayerRule, input: Shape, called: string, mode: Mode): Either<GraphError, Derived> => {
  const known = last.get(l)
  if (known && isRight(known.came) && known.mode === mode && sameShape(known.input, input)) return known.came
  const came = derivedAnew(l, rule, input, called, mode)
  last.set(l, { input, mode, came })
  return came
}
