// The gradient pass: forward graph to training graph. Appends losses, the backward pass of each objective, and updates.
// In: an elaborated step. Out: the training graph, in execution order.
// Invariant: each parameter and running statistic is updated once a step, right after the last op that touches
// anything of its update, so gradients do not pile up and nothing reads a weight after its update.
// Worked example, image -> conv(w) -> mse: conv2d, mse, mse_bwd, conv2d_bwd_weights, sgd.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import { GraphBuilder } from '../graph/builder'
import type { Float, Graph, Op, ValueId } from '../graph/graph'
import type { Ref } from '../ops/op'
import { opDef } from '../ops/registry'
import { backward, emitOp, type ParameterGradient } from './backward'
import { lossAttrs, lossEntry } from '../ops/loss'
import { type ElaboratedStep, type Objective, objectivesFault, type Term } from './objective'
import type { Optimizer } from '../ops/optimizer'
import { updateRule } from './optimizer'

export type { Loss } from '../ops/loss'
export type { Detached, ElaboratedStep, Objective, Term } from './objective'
export type { Optimizer } from '../ops/optimizer'

export interface TrainingOptions {
  /** Float type of every value: the machine's. */
  readonly dtype?: Float
  /** How much of a step's statistics enters running means; PyTorch's default is 0.1. */
  readonly normMomentum?: number
}

const outputFault = (forward: Graph, output: ValueId): GraphError | undefined => {
  const v = forward.values[output]
  const legal = 'a value that the forward graph computes'
  if (!v) return { tag: 'NotAnOutput', got: `value ${output}`, legal }
  if (v.role !== 'activation') return { tag: 'NotAnOutput', got: `'${v.name}', a value of role ${v.role},`, legal }
  const late = forward.ops.find((o) => o.phase !== 'forward')
  return late && { tag: 'NotAnOutput', got: `a graph with '${late.kind}' of phase ${late.phase}`, legal: 'a forward graph' }
}

const appendUpdates = (b: GraphBuilder, gradients: readonly ParameterGradient[], optimizer: Optimizer): void => {
  const rule = updateRule(optimizer)
  for (const { param, gradient, op } of gradients) {
    const { name, shape } = b.value(param)
    const states = rule.states.map((s) => b.state(`${name}.${s}`, shape, { dist: 'constant', a: 0 }))
    emitOp(b, op, rule.kind, rule.attrs, [param, gradient, ...states], 'update')
  }
}

/** What operators themselves keep from step to step: running statistics. */
const appendStatistics = (
  b: GraphBuilder,
  forward: readonly Op[],
  states: ReadonlyMap<string, Ref>,
  normMomentum: number,
): void => {
  for (const op of forward)
    opDef(op.kind).update?.({
      attrs: op.attrs,
      ins: op.ins as readonly Ref[],
      outs: op.outs as readonly Ref[],
      normMomentum,
      shape: (r) => b.shape(r),
      state: (name) => states.get(`${op.layer}.${name}`),
      emit: (kind, attrs, ins) => void emitOp(b, op, kind, attrs, ins, 'update'),
    })
}

/** Update ops move up to right after the last other op that touches one of their operands. */
const withEarlyUpdates = (ops: readonly Op[]): readonly Op[] => {
  const lastTouch = new Map<ValueId, number>()
  const computing = ops.filter((o) => o.phase !== 'update')
  computing.forEach((op, i) => [...op.ins, ...op.outs].forEach((v) => lastTouch.set(v, i)))
  const due = new Map<number, Op[]>()
  for (const op of ops) {
    if (op.phase !== 'update') continue
    const after = Math.max(...op.ins.map((v) => lastTouch.get(v) ?? -1))
    due.set(after, [...(due.get(after) ?? []), op])
  }
  return computing.flatMap((op, i) => [op, ...(due.get(i) ?? [])])
}

/** Each loss right after what it compares: its gradient then begins where the backward pass needs it, not before. */
const withEarlyLosses = (ops: readonly Op[]): readonly Op[] => {
  const maker = new Map<ValueId, number>()
  ops.forEach((op, i) => op.outs.forEach((v) => maker.set(v, i)))
  const place = (op: Op, i: number): number =>
    op.phase === 'loss' ? Math.max(...op.ins.map((v) => maker.get(v) ?? -1)) + 0.5 : i
  return ops
    .map((op, i) => ({ op, at: place(op, i) }))
    .sort((a, b) => a.at - b.at)
    .map(({ op }) => op)
}

const appendTerm = (b: GraphBuilder, forward: Graph, term: Term): Either<GraphError, Op> => {
  const fault = outputFault(forward, term.of)
  if (fault) return left(fault)
  const entry = lossEntry(term.loss)
  if (isLeft(entry)) return entry
  const of = b.ref(term.of)
  const [target, constant] = 'constant' in term.to ? ([[], term.to.constant] as const) : ([[b.ref(term.to.value)], 0] as const)
  const outs = b.op(
    entry.right.op,
    lossAttrs(term.loss, entry.right, b.shape(of), term.weight, constant),
    [of, ...target],
    term.name,
    { phase: 'loss' },
  )
  return isLeft(outs) ? outs : right(b.written[b.written.length - 1]!)
}

/** The losses of each objective, in order. */
const appendLosses = (
  b: GraphBuilder,
  forward: Graph,
  objectives: readonly Objective[],
): Either<GraphError, readonly ReadonlyMap<Op, Term>[]> => {
  const losses: Map<Op, Term>[] = []
  for (const o of objectives) {
    const own = new Map<Op, Term>()
    for (const term of o.terms) {
      const op = appendTerm(b, forward, term)
      if (isLeft(op)) return op
      own.set(op.right, term)
    }
    losses.push(own)
  }
  return right(losses)
}

const finish = (
  b: GraphBuilder,
  { graph: forward, objectives, detached }: ElaboratedStep,
  options: TrainingOptions,
): Either<GraphError, Graph> => {
  const losses = appendLosses(b, forward, objectives)
  if (isLeft(losses)) return losses
  const ops = withEarlyLosses([...b.written])
  const cuts = new Set(detached.map((d) => `${d.reader} ${d.input}`))
  const isDetached = (op: Op, i: number): boolean => {
    if (op.phase !== 'loss') return cuts.has(`${op.outs[0]} ${op.ins[i]}`)
    const to = losses.right.map((own) => own.get(op)).find((t) => t !== undefined)?.to
    return i === 1 && to !== undefined && 'detached' in to && to.detached
  }
  const found: ParameterGradient[][] = []
  for (const [k, o] of objectives.entries()) {
    const suffix = objectives.length === 1 ? '' : `.${o.name}`
    const gradients = backward(b, ops, { losses: new Set(losses.right[k]!.keys()), params: o.params, isDetached, suffix })
    if (isLeft(gradients)) return gradients
    if (gradients.right.length === 0)
      return left({ tag: 'NothingToTrain', layer: forward.ops.find((op) => op.outs.includes(o.terms[0]!.of))!.layer })
    found.push([...gradients.right])
  }
  objectives.forEach((o, k) => appendUpdates(b, found[k]!, o.optimizer))
  const states = new Map(forward.values.filter((v) => v.role === 'state').map((v) => [v.name, v.id as Ref]))
  appendStatistics(b, forward.ops, states, options.normMomentum ?? 0.1)
  const later = b.written.slice(ops.length)
  const position = new Map(b.written.map((op, i) => [op, i]))
  return right(b.build(withEarlyUpdates([...ops, ...later]).map((op) => position.get(op)!)))
}

/** What a loss compares with is a value of the forward graph, fed or computed. */
export const training = (step: ElaboratedStep, options: TrainingOptions = {}): Either<GraphError, Graph> => {
  const fault = objectivesFault(step.graph, step.objectives)
  return fault ? left(fault) : finish(GraphBuilder.extending(step.graph, options.dtype ?? 'f32'), step, options)
}
