// The backward pass: each forward op's backward rule, in reverse order, from the loss to the parameters.
// In: a builder that holds forward and loss. Out: backward ops appended to it, and each parameter's gradient.
// Invariant: a value that several ops read gets one gradient, their contributions summed once by one `grad_sum`;
// gradients are computed only where a parameter lies behind (never for the image).
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { type GraphError, renderError } from '../core/errors'
import type { GraphBuilder } from '../graph/builder'
import type { Op } from '../graph/graph'
import type { AnyAttrs, GradContext, Ref } from '../ops/op'
import { opDef, opDefs } from '../ops/registry'

type Shape = readonly number[]

/** The values whose gradient somebody wants: parameters and all that is computed from them. */
const trainable = (b: GraphBuilder, ops: readonly Op[]): ReadonlySet<number> => {
  const wanted = new Set<number>()
  const wants = (v: number): boolean => wanted.has(v) || b.value(v as Ref).role === 'param'
  for (const op of ops) if (op.ins.some(wants)) for (const v of op.outs) wanted.add(v)
  for (const op of ops) for (const v of op.ins) if (wants(v)) wanted.add(v)
  return wanted
}

/** Backward rules only emit what the shape rules allow: anything else is a fault of the op table, not of the user. */
export const emitOp = (
  b: GraphBuilder, op: Op, kind: string, attrs: AnyAttrs, ins: readonly Ref[], phase: Op['phase'], given: readonly Shape[] = [],
): Ref[] => {
  const outs = b.op(kind, attrs, ins, op.layer, { phase, given })
  if (isLeft(outs)) throw new Error(`the backward of ${op.kind}: ${renderError(outs.left)}`)
  return outs.right
}

class Gradients {
  private readonly parts = new Map<number, { readonly gradient: Ref; readonly layer: string }[]>()

  constructor(private readonly b: GraphBuilder) {}

  has(v: number): boolean { return this.parts.has(v) }
  layersOf(v: number): readonly string[] { return (this.parts.get(v) ?? []).map((p) => p.layer) }

  give(v: number, gradient: Ref, layer: string): void {
    const parts = this.parts.get(v) ?? []
    parts.push({ gradient, layer })
    this.parts.set(v, parts)
    // A gradient that is passed on unchanged (by `add`) keeps the name that it had first.
    if (this.b.value(gradient).gradOf === undefined) this.b.markGradient(gradient, v as Ref, `${this.b.value(v as Ref).name}.grad`)
  }

  /** The gradient of v, complete. */
  of(v: number, op: Op): Ref {
    const parts = this.parts.get(v)
    if (!parts) throw new Error(`layer '${op.layer}': the gradient of value ${v} was never given`)
    if (parts.length === 1) return parts[0]!.gradient
    const name = `${this.b.value(v as Ref).name}.grad`
    for (const [i, p] of parts.entries())
      if (this.b.value(p.gradient).gradOf === v) this.b.markGradient(p.gradient, v as Ref, `${name}.${i}`)
    const sum = emitOp(this.b, op, 'grad_sum', {}, parts.map((p) => p.gradient), 'backward')[0]!
    this.b.markGradient(sum, v as Ref, name)
    this.parts.set(v, [{ gradient: sum, layer: op.layer }])
    return sum
  }
}

const contextOf = (b: GraphBuilder, op: Op, gradients: Gradients, wanted: ReadonlySet<number>): GradContext => ({
  attrs: op.attrs,
  ins: op.ins as readonly Ref[],
  outs: op.outs as readonly Ref[],
  dOut: (i) => gradients.of(op.outs[i]!, op),
  wants: (i) => op.ins[i] !== undefined && wanted.has(op.ins[i]!),
  shape: (r) => b.shape(r),
  emit: (kind, attrs, ins, outShapes) => emitOp(b, op, kind, attrs, ins, 'backward', outShapes),
  give: (i, gradient) => gradients.give(op.ins[i]!, gradient, op.layer),
})

export interface ParameterGradient { readonly param: Ref; readonly gradient: Ref; readonly op: Op }

export const backward = (b: GraphBuilder): Either<GraphError, readonly ParameterGradient[]> => {
  const ops = [...b.written]
  const wanted = trainable(b, ops)
  const gradients = new Gradients(b)
  const found: ParameterGradient[] = []
  for (const op of [...ops].reverse()) {
    if (op.phase !== 'loss' && !op.outs.some((v) => gradients.has(v))) continue
    if (!op.ins.some((v) => wanted.has(v))) continue
    const rule = opDef(op.kind).backward
    if (!rule)
      return left({ tag: 'NotDifferentiable', layer: op.layer, kind: op.kind, legal: opDefs.filter((d) => d.backward).map((d) => d.kind) })
    rule(contextOf(b, op, gradients, wanted))
    for (const v of op.ins.filter((i) => b.value(i as Ref).role === 'param' && gradients.has(i))) {
      if (gradients.layersOf(v).length > 1)
        return left({ tag: 'SharedParameter', name: b.value(v as Ref).name, layers: [...gradients.layersOf(v)].reverse() })
      found.push({ param: v as Ref, gradient: gradients.of(v, op), op })
    }
  }
  return right(found)
}
