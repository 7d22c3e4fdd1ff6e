// The backward pass of one objective: each forward op's backward rule, in reverse order, from its losses to its parameters.
// In: a builder that holds forward and losses, an aim. Out: backward ops appended to it, and each parameter's gradient.
// Invariant: a value that several ops read gets one gradient, their contributions summed once, and so does a parameter that
// several ops use; gradients are computed only where a parameter of the aim lies behind (never for the image).
import { type Either, left, right } from 'fp-ts/Either'
import { orThrow } from '../core/certain'
import { type GraphError, renderError } from '../core/errors'
import type { GraphBuilder } from '../graph/builder'
import type { Op } from '../graph/graph'
import type { AnyAttrs, GradContext, Ref, Sizes } from '../ops/op'
import { opDef, opDefs } from '../ops/registry'
import { scaleGradient } from '../ops/scaling'

/** The differentiated values, and the variables. */
export interface Aim {
  readonly losses: ReadonlySet<Op>
  readonly params: ReadonlySet<number>
  /** Returns true if an op takes this input as a constant. */
  readonly isDetached: (op: Op, input: number) => boolean
  /** Follows the name of a value in that of its gradient. */
  readonly suffix: string
  /** The factor of losses' gradients, if they have one. */
  readonly scale: Ref | undefined
}

/** The values whose gradient somebody wants: the aim's parameters and all that is computed from them. */
const trainable = (ops: readonly Op[], aim: Aim): ReadonlySet<number> => {
  const wanted = new Set<number>(aim.params)
  for (const op of ops) if (op.ins.some((v, i) => wanted.has(v) && !aim.isDetached(op, i))) for (const v of op.outs) wanted.add(v)
  return wanted
}

/** Backward rules only emit legal ops: any error is a fault of the op table, not of the user. */
export const emitOp = (
  b: GraphBuilder,
  op: Op,
  kind: string,
  attrs: AnyAttrs,
  ins: readonly Ref[],
  phase: Op['phase'],
  given: readonly Sizes[] = [],
): Ref[] =>
  orThrow((e: GraphError) => `the backward of ${op.kind}: ${renderError(e)}`)(b.op(kind, attrs, ins, op.layer, { phase, given }))

/** The gradients of values that stand side by side along C, in the first channels of one. */
interface Joined {
  readonly of: number[]
  readonly gradient: Ref
}

class Gradients {
  private readonly parts = new Map<number, Ref[]>()
  private joined: Joined[] = []

  constructor(
    private readonly b: GraphBuilder,
    private readonly suffix: string,
  ) {}

  has(v: number): boolean {
    return this.parts.has(v) || this.joined.some((j) => j.of.includes(v))
  }

  /** Waits until somebody asks for one of them; where not all are wanted, those that are have theirs at once. */
  giveJoined(of: readonly number[], gradient: Ref, wanted: (i: number) => boolean, op: Op): void {
    const all = { of: [...of], gradient }
    if (of.every((_, i) => wanted(i))) this.joined.push(all)
    else this.divide(all, 0, op, wanted)
  }

  /** One for these values and perhaps others behind them, which get theirs now. */
  takeJoined(of: readonly number[], op: Op): readonly Ref[] {
    const found = this.joined.find((j) => of.every((v, i) => j.of[i] === v))
    if (!found) return []
    this.divide(found, of.length, op)
    this.joined = this.joined.filter((j) => j !== found)
    return [found.gradient]
  }

  /** Gives the values from place `from` on gradients of their own. */
  private divide(j: Joined, from: number, op: Op, wanted: (i: number) => boolean = () => true): void {
    const channels = (v: number): number => this.b.shape(v as Ref)[1]!
    let at = j.of.slice(0, from).reduce((n, v) => n + channels(v), 0)
    for (const [i, v] of j.of.splice(from).entries()) {
      if (wanted(from + i))
        this.give(v, emitOp(this.b, op, 'slice_channels', { from: at }, [j.gradient], 'backward', [this.b.shape(v as Ref)])[0]!)
      at += channels(v)
    }
  }

  give(v: number, gradient: Ref): void {
    this.parts.set(v, [...(this.parts.get(v) ?? []), gradient])
    // A gradient that is passed on unchanged (by `add`) keeps the name that it had first.
    if (this.b.value(gradient).gradOf === undefined) this.b.markGradient(gradient, v as Ref, this.nameOf(v))
  }

  /** The gradient of v, complete. */
  of(v: number, op: Op): Ref {
    for (const j of this.joined) if (j.of.includes(v)) this.divide(j, j.of.indexOf(v), op)
    const parts = this.parts.get(v)
    if (!parts) throw new Error(`layer '${op.layer}': the gradient of value ${v} is missing`)
    if (parts.length === 1) return parts[0]!
    for (const [i, p] of parts.entries())
      if (this.b.value(p).gradOf === v) this.b.markGradient(p, v as Ref, `${this.nameOf(v)}.${i}`)
    const kind = this.b.value(v as Ref).role === 'param' ? 'param_grad_sum' : 'grad_sum'
    const sum = emitOp(this.b, op, kind, {}, parts, 'backward')[0]!
    this.b.markGradient(sum, v as Ref, this.nameOf(v))
    this.parts.set(v, [sum])
    return sum
  }

  private nameOf(v: number): string {
    return `${this.b.value(v as Ref).name}.grad${this.suffix}`
  }
}

const contextOf = (
  b: GraphBuilder,
  op: Op,
  gradients: Gradients,
  wanted: (input: number) => boolean,
  scale: Ref | undefined,
): GradContext => ({
  attrs: op.attrs,
  ins: op.ins as readonly Ref[],
  outs: op.outs as readonly Ref[],
  dOut: (i) => gradients.of(op.outs[i]!, op),
  wants: wanted,
  shape: (r) => b.shape(r),
  emit: (kind, attrs, ins, outShapes) => emitOp(b, op, kind, attrs, ins, 'backward', outShapes),
  give: (i, gradient) =>
    gradients.give(
      op.ins[i]!,
      scale !== undefined && op.phase === 'loss'
        ? emitOp(b, op, scaleGradient.kind, {}, [gradient, scale], 'backward')[0]!
        : gradient,
    ),
  giveJoined: (from, gradient) => gradients.giveJoined(op.ins.slice(from), gradient, (i) => wanted(from + i), op),
  takeJoined: (from) => (op.ins.every((_, i) => i < from || wanted(i)) ? gradients.takeJoined(op.ins.slice(from), op) : []),
})

export interface ParameterGradient {
  readonly param: Ref
  readonly gradient: Ref
  readonly op: Op
}

/** For each parameter the first op that uses it: in the backward pass the last, when its gradient is complete. */
const firstUses = (ops: readonly Op[], aim: Aim): ReadonlyMap<number, Op> => {
  const first = new Map<number, Op>()
  for (const op of ops) for (const v of op.ins) if (aim.params.has(v) && !first.has(v)) first.set(v, op)
  return first
}

/** `ops`: forward ops and losses, producers before readers. */
export const backward = (b: GraphBuilder, ops: readonly Op[], aim: Aim): Either<GraphError, readonly ParameterGradient[]> => {
  const wanted = trainable(ops, aim)
  const gradients = new Gradients(b, aim.suffix)
  const first = firstUses(ops, aim)
  const found: ParameterGradient[] = []
  for (const op of [...ops].reverse()) {
    const wants = (i: number): boolean => op.ins[i] !== undefined && wanted.has(op.ins[i]!) && !aim.isDetached(op, i)
    const reached = op.phase === 'loss' ? aim.losses.has(op) : op.outs.some((v) => gradients.has(v))
    if (reached && op.ins.some((_, i) => wants(i))) {
      const rule = opDef(op.kind).backward
      if (!rule)
        return left({
          tag: 'NotDifferentiable',
          layer: op.layer,
          kind: op.kind,
          legal: opDefs.filter((d) => d.backward).map((d) => d.kind),
        })
      rule(contextOf(b, op, gradients, wants, aim.scale))
    }
    // Ops are visited last to first: behind a parameter's first op, its gradient is complete.
    for (const v of new Set(op.ins))
      if (first.get(v) === op && gradients.has(v)) found.push({ param: v as Ref, gradient: gradients.of(v, op), op })
  }
  return right(found)
}
