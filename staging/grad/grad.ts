// The gradient pass, from the forward graph to the training graph. Appends losses, the backward pass of each objective, and updates. In: an
// elaborated step. Out: the training graph, in execution order. Invariant: each parameter and running statistic is updated once a step, directly
// after the last op that touches an operand of its update. So the number of live gradients is small, and no op reads a weight after its update. Worked
// example, image -> conv(w) -> mse: conv2d, mse, mse_bwd, conv2d_bwd_weights, sgd.
import { chain, type Either, filterOrElse, left, map, right, traverseArray, traverseReadonlyArrayWithIndex } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../core/errors'
import { GraphBuilder } from '../graph/builder'
import type { Float, Graph, Op, ValueId } from '../graph/graph'
import type { Ref } from '../ops/op'
import type { Updates } from '../ops/updates'
import { opDef } from '../ops/registry'
import { backward, emitOp, type ParameterGradient } from './backward'
import { lossCalls, lossEntry } from '../ops/losscalls'
import type { LossCall } from '../ops/losses'
import { checkedObjectives, type ElaboratedStep, type Objective, type Term } from './objective'
import { updateRule } from './optimizer'
import { type Scaling, scalingOf, unscaled } from './scaling'
import { summedSquares, withGradient } from './squares'

export type { Loss } from '../ops/losses'
export type { Detached, ElaboratedStep, Objective, Term } from './objective'
export type { Optimizer } from '../ops/optimizer'

export interface TrainingOptions {
  /** The float type of all values, which the machine sets. */
  readonly dtype?: Float
  /** The weight of a step's statistics in running means. PyTorch's default is 0.1. */
  readonly normMomentum?: number
  /** True: losses are scaled, for activations in f16. */
  readonly scaled?: boolean
}

const checkedOutput = (forward: Graph, output: ValueId): Either<GraphError, ValueId> => {
  const wrong = (got: string, legal = 'a value that the forward graph computes'): Either<GraphError, never> =>
    left({ tag: 'NotAnOutput', got, legal })
  const v = forward.values[output]
  if (!v) return wrong(`value ${output}`)
  if (v.role !== 'activation' && v.role !== 'output') return wrong(`'${v.name}', a value of role ${v.role},`)
  const late = forward.ops.find((o) => o.phase !== 'forward')
  return late ? wrong(`a graph with '${late.kind}' of phase ${late.phase}`, 'a forward graph') : right(output)
}

/** The name of an accumulated gradient until its mean is taken, as in PyTorch. */
const SUM = 'grad'

/** Returns the means of gradients over steps. */
const overSteps = (
  b: GraphBuilder,
  gradients: readonly ParameterGradient[],
  { accumulate = 1 }: Updates,
): readonly ParameterGradient[] => {
  const mean = ({ param, gradient, op }: ParameterGradient): ParameterGradient => {
    const { name, shape } = b.value(param)
    const sum = b.state(`${name}.${SUM}`, shape, { dist: 'constant', a: 0 })
    const taken = emitOp(b, op, 'mean_over_steps', { every: accumulate }, [sum, gradient], 'update')[0]!
    b.markGradient(taken, param, b.value(gradient).name)
    return { param, gradient: taken, op }
  }
  return accumulate === 1 ? gradients : gradients.map(mean)
}

/** Returns gradients clipped by value, then by their common norm. */
const clipped = (
  b: GraphBuilder,
  gradients: readonly ParameterGradient[],
  { clipValue, clipNorm }: Updates,
): readonly ParameterGradient[] => {
  const within =
    clipValue === undefined ? gradients : gradients.map((g) => withGradient(b, g, 'clip_values', { limit: clipValue }, []))
  if (clipNorm === undefined) return within
  const squares = summedSquares(b, within)
  return within.map((g) => withGradient(b, g, 'clip_norm', { most: clipNorm }, squares))
}

/**
 * Appends the updates of an objective. With scaled losses, `before` and the result are the value that is 0 if a gradient of the objectives so far is
 * not finite.
 */
const appendUpdates = (
  b: GraphBuilder,
  gradients: readonly ParameterGradient[],
  { params, updates }: Objective,
  scaling: Scaling | undefined,
  before: readonly Ref[],
): readonly Ref[] => {
  const means = overSteps(b, gradients, updates)
  const judged = scaling && unscaled(b, means, scaling, updates.accumulate ?? 1, before)
  const number = judged ? [judged.updates] : []
  for (const { param, gradient, op } of clipped(b, judged?.gradients ?? means, updates)) {
    const rule = updateRule(params.get(param)!, updates, judged !== undefined)
    const { name, shape } = b.value(param)
    const states = rule.states.map((s) => b.state(`${name}.${s}`, shape, { dist: 'constant', a: 0 }))
    emitOp(b, op, rule.kind, rule.attrs, [param, gradient, ...number, ...states], 'update')
  }
  return judged ? [judged.finite] : []
}

/** Appends the updates of running statistics. If several ops of a layer have one, the last of them has the layer's statistics. */
const appendStatistics = (
  b: GraphBuilder,
  forward: readonly Op[],
  states: ReadonlyMap<string, Ref>,
  normMomentum: number,
  finite: readonly Ref[],
): void => {
  const updating = forward.filter((op) => opDef(op.kind).update)
  const replaced = (op: Op): boolean => updating.some((o) => o.layer === op.layer && o.ins.includes(op.outs[0]!))
  for (const op of updating.filter((op) => !replaced(op)))
    opDef(op.kind).update?.({
      attrs: op.attrs,
      ins: op.ins as readonly Ref[],
      outs: op.outs as readonly Ref[],
      normMomentum,
      shape: (r) => b.shape(r),
      state: (name) => states.get(`${op.layer}.${name}`),
      emit: (kind, attrs, ins) => void emitOp(b, op, kind, attrs, [...ins, ...finite], 'update'),
    })
}

/** Moves each update op directly behind the last other op that touches one of its operands, and behind the update ops that make its operands. */
const withEarlyUpdates = (ops: readonly Op[]): readonly Op[] => {
  const lastTouch = new Map<ValueId, number>()
  const computing = ops.filter((o) => o.phase !== 'update')
  computing.forEach((op, i) => [...op.ins, ...op.outs].forEach((v) => lastTouch.set(v, i)))
  const due = new Map<number, Op[]>()
  for (const op of ops) {
    if (op.phase !== 'update') continue
    const after = Math.max(...op.ins.map((v) => lastTouch.get(v) ?? -1))
    for (const v of op.outs) lastTouch.set(v, after)
    due.set(after, [...(due.get(after) ?? []), op])
  }
  return computing.flatMap((op, i) => [op, ...(due.get(i) ?? [])])
}

/** Returns the ops that count targets or pixels of masks, and the ops of their operands. They depend on fed data only. */
const countsIn = (b: GraphBuilder, ops: readonly Op[], forward: number): ReadonlySet<Op> => {
  const maker = new Map<ValueId, Op>(ops.flatMap((op) => op.outs.map((v) => [v, op] as const)))
  const isFed = ({ role }: { readonly role: string }): boolean => role === 'input' || role === 'target'
  // In the order of the ops, not by recursion: networks are deeper than the stack.
  const ofData = new Set<Op>()
  for (const op of ops)
    if (op.ins.every((v) => (maker.has(v) ? ofData.has(maker.get(v)!) : isFed(b.value(v as Ref))))) ofData.add(op)
  const counts = new Set<Op>()
  const add = (op: Op): void => {
    if (counts.has(op)) return
    counts.add(op)
    for (const v of op.ins) if (maker.has(v)) add(maker.get(v)!)
  }
  for (const op of ops.slice(forward)) if (opDef(op.kind).outs[0]?.role === 'whole' && ofData.has(op)) add(op)
  return counts
}

/**
 * Moves each loss, with its own inputs, directly behind its operands. The backward pass visits ops in reverse, so it computes the loss's gradient
 * directly before the first reader. Counts of targets and of masks are first: no loop is tiled across a count, so a count would separate a loss from
 * its operands.
 */
const withEarlyLosses = (b: GraphBuilder, forward: number): readonly Op[] => {
  const ops = [...b.written]
  const maker = new Map<ValueId, number>()
  for (const [i, op] of ops.slice(0, forward).entries()) for (const v of op.outs) maker.set(v, i)
  const compared = new Map<string, number>()
  for (const { layer, ins } of ops.slice(forward))
    compared.set(layer, Math.max(compared.get(layer) ?? -1, ...ins.map((v) => maker.get(v) ?? -1)))
  const counts = countsIn(b, ops, forward)
  const place = (op: Op, i: number): number => (counts.has(op) ? -1 : i < forward ? i : compared.get(op.layer)! + 0.5)
  return ops
    .map((op, i) => ({ op, at: place(op, i) }))
    .sort((a, b) => a.at - b.at)
    .map(({ op }) => op)
}

/** Appends the calls of a loss, one after the other, and returns the last, which is the loss. */
const appendCalls = (
  b: GraphBuilder,
  layer: string,
  calls: readonly LossCall[],
  given: { readonly output: Ref; readonly target: readonly Ref[]; readonly mask: readonly Ref[] },
): Either<GraphError, Op> => {
  const made: Ref[] = []
  const read = (r: LossCall['reads'][number]): readonly Ref[] =>
    typeof r === 'number' ? [made[r]!] : r === 'output' ? [given.output] : given[r]
  return pipe(
    calls,
    traverseReadonlyArrayWithIndex((i, { op, attrs, reads }) =>
      pipe(
        b.op(op, attrs, reads.flatMap(read), layer, i + 1 < calls.length ? {} : { phase: 'loss' }),
        map(([first]) => made.push(first!)),
      ),
    ),
    map(() => b.written.at(-1)!),
  )
}

const appendTerm =
  (b: GraphBuilder, forward: Graph) =>
  ({ loss, of, to, weight, name, mask }: Term): Either<GraphError, readonly Op[]> =>
    pipe(
      checkedOutput(forward, of),
      chain(() => lossEntry(loss)),
      chain(() => {
        const output = b.ref(of)
        const [target, constant] = 'constant' in to ? [[], to.constant] : [[b.ref(to.value)], 0]
        const given = { output, target, mask: mask === undefined ? [] : [b.ref(mask)] }
        return pipe(
          lossCalls(loss, { output: b.shape(output), isMasked: mask !== undefined }, weight, constant),
          traverseArray((part) => appendCalls(b, `${name}${part.name}`, part.calls, given)),
        )
      }),
    )

/** Appends the losses of each objective, in order. */
const appendLosses = (
  b: GraphBuilder,
  forward: Graph,
  objectives: readonly Objective[],
): Either<GraphError, readonly ReadonlyMap<Op, Term>[]> =>
  pipe(
    objectives,
    traverseArray(({ terms }) =>
      pipe(
        terms,
        traverseArray(appendTerm(b, forward)),
        map((ops) => new Map(ops.flatMap((own, i) => own.map((op) => [op, terms[i]!] as const)))),
      ),
    ),
  )

const finish = (
  b: GraphBuilder,
  { graph: forward, objectives, detached }: ElaboratedStep,
  options: TrainingOptions,
): Either<GraphError, Graph> => {
  const cuts = new Set(detached.map((d) => `${d.reader} ${d.input}`))
  return pipe(
    appendLosses(b, forward, objectives),
    chain((losses) => {
      const ops = withEarlyLosses(b, forward.ops.length)
      const terms = new Map(losses.flatMap((own) => [...own]))
      const isDetached = (op: Op, i: number): boolean => {
        const to = terms.get(op)?.to
        return to ? i === 1 && 'detached' in to && to.detached : cuts.has(`${op.outs[0]} ${op.ins[i]}`)
      }
      const suffixOf = (o: Objective): string => (objectives.length === 1 ? '' : `.${o.name}`)
      const scalings = options.scaled ? objectives.map((o) => scalingOf(b, suffixOf(o))) : []
      const gradients = (k: number, o: Objective): Either<GraphError, readonly ParameterGradient[]> =>
        pipe(
          backward(b, ops, {
            losses: new Set(losses[k]!.keys()),
            params: new Set(o.params.keys()),
            isDetached,
            suffix: suffixOf(o),
            scale: scalings[k]?.scale,
          }),
          filterOrElse(
            (gradients) => gradients.length > 0,
            (): GraphError => ({
              tag: 'NothingToTrain',
              layer: forward.ops.find((op) => op.outs.includes(o.terms[0]!.of))!.layer,
            }),
          ),
        )
      return pipe(
        objectives,
        traverseReadonlyArrayWithIndex(gradients),
        map((all) =>
          ordered(b, ops, forward, objectives, { gradients: all, scalings, normMomentum: options.normMomentum ?? 0.1 }),
        ),
      )
    }),
  )
}

/** The gradients of each objective, and its loss scale, if it has one. */
interface Differentiated {
  readonly gradients: readonly (readonly ParameterGradient[])[]
  readonly scalings: readonly Scaling[]
  readonly normMomentum: number
}

/** Appends the updates and returns the graph in its order. */
const ordered = (
  b: GraphBuilder,
  ops: readonly Op[],
  forward: Graph,
  objectives: readonly Objective[],
  { gradients, scalings, normMomentum }: Differentiated,
): Graph => {
  let finite: readonly Ref[] = []
  for (const [k, o] of objectives.entries()) finite = appendUpdates(b, gradients[k]!, o, scalings[k], finite)
  const states = new Map(forward.values.filter((v) => v.role === 'state').map((v) => [v.name, v.id as Ref]))
  appendStatistics(b, forward.ops, states, normMomentum, finite)
  const later = b.written.slice(ops.length)
  return inOrder(b, withEarlyUpdates([...ops, ...later]))
}

/** Builds the graph with its ops in this order. */
const inOrder = (b: GraphBuilder, ops: readonly Op[]): Graph => {
  const position = new Map(b.written.map((op, i) => [op, i]))
  return b.build(ops.map((op) => position.get(op)!))
}

/** Returns a forward graph with its losses and no backward pass, for metrics on data without training. */
export const measuring = (
  { graph, objectives }: ElaboratedStep,
  { dtype = 'f32' }: TrainingOptions = {},
): Either<GraphError, Graph> => {
  const b = GraphBuilder.extending(graph, dtype)
  return pipe(
    appendLosses(b, graph, objectives),
    map(() => inOrder(b, withEarlyLosses(b, graph.ops.length))),
  )
}

/** Returns the training graph of a step. The target of a loss is a value of the forward graph, fed or computed. */
export const training = (step: ElaboratedStep, options: TrainingOptions = {}): Either<GraphError, Graph> =>
  pipe(
    checkedObjectives(step.graph, step.objectives),
    chain(() => finish(GraphBuilder.extending(step.graph, options.dtype ?? 'f32'), step, options)),
  )
