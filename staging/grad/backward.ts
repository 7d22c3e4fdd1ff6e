// The backward pass of one objective: the backward rule of each forward op, in reverse order, from its losses to its parameters. In: a builder with
// the forward ops and losses, an aim. Out: backward ops appended to it, and each parameter's gradient. Invariant: a value that several ops read has
// one gradient, the sum of their contributions, which is computed once; so has a parameter that several ops use. Only values that depend on a
// parameter of the aim have gradients, so the image has none.
import { type Either, left, right } from 'fp-ts/Either'
import { orThrow } from '../core/certain'
import { type GraphError, renderError } from '../core/errors'
import type { GraphBuilder } from '../graph/builder'
import type { Op } from '../graph/graph'
import type { AnyAttrs, GradContext, Ref, Sizes } from '../ops/op'
import { opDef, opDefs } from '../ops/registry'
import { scaleGradient } from '../ops/scaling'

/** The losses and the parameters of one backward pass. */
export interface Aim {
  readonly losses: ReadonlySet<Op>
  readonly params: ReadonlySet<number>
  /** Returns true if an op reads this input as a constant. */
  readonly isDetached: (op: Op, input: number) => boolean
  /** Appended to the name of each gradient. */
  readonly suffix: string
  /** The factor of the losses' gradients, if they are scaled. */
  readonly scale: Ref | undefined
}

/** Returns the values that need a gradient: the aim's parameters and all values computed from them. */
const trainable = (ops: readonly Op[], aim: Aim): ReadonlySet<number> => {
  const needed = new Set<number>(aim.params)
  for (const op of ops) if (op.ins.some((v, i) => needed.has(v) && !aim.isDetached(op, i))) for (const v of op.outs) needed.add(v)
  return needed
}

/** Appends an op of a backward rule. Rules only emit legal ops, so any error is a fault of the op table, not of the user. */
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

/** The gradient of several values, concatenated along C: the first channels are those of the first value. */
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

  /** Adds a joined gradient. If all of its values need one, it is divided only when one of them is read. Otherwise it is divided at once. */
  addJoined(of: readonly number[], gradient: Ref, isNeeded: (i: number) => boolean, op: Op): void {
    const all = { of: [...of], gradient }
    if (of.every((_, i) => isNeeded(i))) this.joined.push(all)
    else this.divide(all, 0, op, isNeeded)
  }

  /** Returns the joined gradient of these values, or none. Values behind them in it get gradients of their own. */
  popJoined(of: readonly number[], op: Op): readonly Ref[] {
    const joined = this.joined.find((j) => of.every((v, i) => j.of[i] === v))
    if (!joined) return []
    this.divide(joined, of.length, op)
    this.joined = this.joined.filter((j) => j !== joined)
    return [joined.gradient]
  }

  /** Gives the values from index `from` on gradients of their own. */
  private divide(j: Joined, from: number, op: Op, isNeeded: (i: number) => boolean = () => true): void {
    const channels = (v: number): number => this.b.shape(v as Ref)[1]!
    let at = j.of.slice(0, from).reduce((n, v) => n + channels(v), 0)
    for (const [i, v] of j.of.splice(from).entries()) {
      if (isNeeded(from + i))
        this.add(v, emitOp(this.b, op, 'slice_channels', { from: at }, [j.gradient], 'backward', [this.b.shape(v as Ref)])[0]!)
      at += channels(v)
    }
  }

  add(v: number, gradient: Ref): void {
    this.parts.set(v, [...(this.parts.get(v) ?? []), gradient])
    // A gradient that is passed on unchanged (by `add`) keeps its first name.
    if (this.b.value(gradient).gradOf === undefined) this.b.markGradient(gradient, v as Ref, this.nameOf(v))
  }

  /** Returns the complete gradient of v. */
  totalOf(v: number, op: Op): Ref {
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
  needsGradient: (input: number) => boolean,
  scale: Ref | undefined,
): GradContext => ({
  attrs: op.attrs,
  ins: op.ins as readonly Ref[],
  outs: op.outs as readonly Ref[],
  outputGradient: (i) => gradients.totalOf(op.outs[i]!, op),
  needsGradient,
  shape: (r) => b.shape(r),
  emit: (kind, attrs, ins, outShapes) => emitOp(b, op, kind, attrs, ins, 'backward', outShapes),
  addGradient: (i, gradient) =>
    gradients.add(
      op.ins[i]!,
      scale !== undefined && op.phase === 'loss'
        ? emitOp(b, op, scaleGradient.kind, {}, [gradient, scale], 'backward')[0]!
        : gradient,
    ),
  addJoinedGradient: (from, gradient) => gradients.addJoined(op.ins.slice(from), gradient, (i) => needsGradient(from + i), op),
  earlierJoinedGradient: (from) =>
    op.ins.every((_, i) => i < from || needsGradient(i)) ? gradients.popJoined(op.ins.slice(from), op) : [],
})

export interface ParameterGradient {
  readonly param: Ref
  readonly gradient: Ref
  readonly op: Op
}

/** Returns, for each parameter, the first op that uses it. The backward pass visits this op last, and then the gradient is complete. */
const firstUses = (ops: readonly Op[], aim: Aim): ReadonlyMap<number, Op> => {
  const first = new Map<number, Op>()
  for (const op of ops) for (const v of op.ins) if (aim.params.has(v) && !first.has(v)) first.set(v, op)
  return first
}

/** Appends the backward ops. `ops`: forward ops and losses, producers before readers. */
export const backward = (b: GraphBuilder, ops: readonly Op[], aim: Aim): Either<GraphError, readonly ParameterGradient[]> => {
  const needed = trainable(ops, aim)
  const gradients = new Gradients(b, aim.suffix)
  const first = firstUses(ops, aim)
  const out: ParameterGradient[] = []
  for (const op of [...ops].reverse()) {
    const isNeeded = (i: number): boolean => op.ins[i] !== undefined && needed.has(op.ins[i]!) && !aim.isDetached(op, i)
    const reached = op.phase === 'loss' ? aim.losses.has(op) : op.outs.some((v) => gradients.has(v))
    if (reached && op.ins.some((_, i) => isNeeded(i))) {
      const rule = opDef(op.kind).backward
      if (!rule)
        return left({
          tag: 'NotDifferentiable',
          layer: op.layer,
          kind: op.kind,
          legal: opDefs.filter((d) => d.backward).map((d) => d.kind),
        })
      rule(contextOf(b, op, gradients, isNeeded, aim.scale))
    }
    // Ops are visited last to first. After a parameter's first op, its gradient is complete.
    for (const v of new Set(op.ins))
      if (first.get(v) === op && gradients.has(v)) out.push({ param: v as Ref, gradient: gradients.totalOf(v, op), op })
  }
  return right(out)
}
