// The gradient pass: forward graph to training graph. Appends target, loss, backward and update ops.
// In: a forward graph, the value to train, loss and optimizer. Out: the training graph, in execution order.
// Invariant: each parameter and running statistic is updated once a step, right after the last op that touches
// anything of its update, so gradients do not pile up and nothing reads a weight after its update.
// Worked example, image -> conv(w) -> mse: conv2d, mse, mse_bwd, conv2d_bwd_weights, sgd.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { GraphError } from '../core/errors'
import { GraphBuilder } from '../graph/builder'
import type { DType, Graph, Op, ValueId } from '../graph/graph'
import type { Ref } from '../ops/op'
import { opDef } from '../ops/registry'
import { backward, emitOp, type ParameterGradient } from './backward'
import { type Loss, lossAttrs, LOSSES, type LossRule } from './loss'
import { type Optimizer, optimizerFault, updateRule } from './optimizer'

export type { Loss } from './loss'
export type { Adam, Optimizer, Sgd } from './optimizer'

export interface TrainingOptions {
  readonly loss: Loss
  readonly optimizer: Optimizer
  /** Float type of every value: the machine's. */
  readonly dtype?: Exclude<DType, 'i32'>
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

const appendLoss = (b: GraphBuilder, output: Ref, rule: LossRule): Either<GraphError, unknown> => {
  const shape = b.shape(output)
  const target = b.target('target', rule.target(shape), rule.targetType ?? b.dtype)
  return b.op(rule.kind, lossAttrs(rule, shape), [output, target], 'loss', { phase: 'loss' })
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
const appendStatistics = (b: GraphBuilder, forward: readonly Op[], states: ReadonlyMap<string, Ref>, normMomentum: number): void => {
  for (const op of forward)
    opDef(op.kind).update?.({
      ins: op.ins as readonly Ref[], outs: op.outs as readonly Ref[], normMomentum,
      shape: (r) => b.shape(r),
      state: (name) => states.get(`${op.layer}.${name}`),
      emit: (kind, attrs, ins) => void emitOp(b, op, kind, attrs, ins, 'update'),
    })
}

/** Update ops move up to right after the last other op that touches one of their operands. */
const withEarlyUpdates = (ops: readonly Op[]): readonly number[] => {
  const lastTouch = new Map<ValueId, number>()
  const computing = [...ops.keys()].filter((i) => ops[i]!.phase !== 'update')
  for (const i of computing) for (const v of [...ops[i]!.ins, ...ops[i]!.outs]) lastTouch.set(v, i)
  const due = new Map<number, number[]>()
  for (const [i, op] of ops.entries()) {
    if (op.phase !== 'update') continue
    const after = Math.max(...op.ins.map((v) => lastTouch.get(v) ?? -1))
    due.set(after, [...(due.get(after) ?? []), i])
  }
  return computing.flatMap((i) => [i, ...(due.get(i) ?? [])])
}

export const training = (forward: Graph, output: ValueId, options: TrainingOptions): Either<GraphError, Graph> => {
  const fault = outputFault(forward, output) ?? optimizerFault(options.optimizer)
  if (fault) return left(fault)
  const rule = LOSSES[options.loss] as LossRule | undefined
  if (!rule) return left({ tag: 'UnknownLoss', got: options.loss, legal: Object.keys(LOSSES) })
  const b = GraphBuilder.extending(forward, options.dtype ?? 'f32')
  const layer = forward.ops.find((o) => o.outs.includes(output))!.layer
  const loss = appendLoss(b, b.ref(output), rule)
  if (isLeft(loss)) return loss
  const gradients = backward(b)
  if (isLeft(gradients)) return gradients
  if (gradients.right.length === 0) return left({ tag: 'NothingToTrain', layer })
  appendUpdates(b, gradients.right, options.optimizer)
  const states = new Map(forward.values.filter((v) => v.role === 'state').map((v) => [v.name, v.id as Ref]))
  appendStatistics(b, forward.ops, states, options.normMomentum ?? 0.1)
  return right(b.build(withEarlyUpdates(b.written)))
}
