// From decisions about stages to runs of ops. In: the training graph cut into stages, and actions (pass over a stage, run it and keep something, run
// its backward). Out: runs with all inputs of each backward op. A missing forward value is recomputed directly before its first reader, from present
// values. Worked example, stage [conv norm relu] that keeps only conv's output: its backward is [norm relu | relu's gradient, …].
import { mapped } from '../core/mapped'
import { type Graph, isResult, type Op, type OpId, type ValueId } from '../graph/graph'
import { type SegmentPhase, UNTILED } from '../plan/plan'
import { splitAt } from '../tile/cuts'
import { ForwardMap, forwardOps, isForward, type Run } from '../tile/segments'
import type { Action } from './chaindp'

export interface Stage {
  readonly forward: readonly OpId[]
  readonly backward: readonly OpId[]
}

/**
 * The ops of the step by stage: stage i is between cuts i-1 and i of the forward pass, with its gradients. A backward op belongs to the values whose
 * gradients it reads. So an op that makes gradients of earlier stages does not pull their ops into its own stage.
 */
export const stagesAt = (graph: Graph, cuts: readonly number[]): readonly Stage[] => {
  const ids = mapped(forwardOps(graph), (o) => o.id)
  const groups = mapped(splitAt(ids, cuts), (ops) => ({ ops, grid: UNTILED }))
  const map = new ForwardMap(graph, groups)
  const backward: OpId[][] = mapped(groups, () => [])
  let stage = groups.length - 1
  for (const op of graph.ops) {
    if (isForward(op)) continue
    stage = Math.min(stage, (op.phase === 'update' ? null : map.reach(op))?.[1] ?? stage)
    backward[stage]!.push(op.id)
  }
  return mapped(groups, (g, i) => ({ forward: g.ops, backward: backward[i]! }))
}

/** Small, and expensive to recompute: statistics and losses are computed once in a step and stay. */
const staysForGood = (graph: Graph, v: ValueId): boolean => {
  const value = graph.values[v]!
  return value.role === 'stat' || isResult(value)
}

export const makersOf = (graph: Graph): ReadonlyMap<ValueId, Op> =>
  new Map(forwardOps(graph).flatMap((op) => mapped(op.outs, (v) => [v, op] as const)))

/** Forward ops that run when a stage runs again: all except those whose results stay. */
export const againOps = (graph: Graph, ops: readonly OpId[]): readonly OpId[] =>
  ops.filter((id) => !graph.ops[id]!.outs.every((v) => staysForGood(graph, v)))

/** A set of values that only grows. */
export interface GrowingSet {
  readonly has: (v: ValueId) => boolean
  readonly add: (v: ValueId) => void
}

/** `ops`, each after the makers of its forward inputs that are not in `there`. Adds their results to `there`. */
export const withReruns = (graph: Graph, makers: ReadonlyMap<ValueId, Op>, ops: readonly OpId[], there: GrowingSet): OpId[] => {
  const out: OpId[] = []
  const again = new Set<OpId>()
  const visit = (v: ValueId): void => {
    const maker = there.has(v) ? undefined : makers.get(v)
    if (!maker || again.has(maker.id)) return
    again.add(maker.id)
    for (const w of maker.ins) visit(w)
  }
  for (const id of ops) {
    for (const v of graph.ops[id]!.ins) visit(v)
    if (again.size > 0) {
      for (const made of again) for (const v of graph.ops[made]!.outs) there.add(v)
      out.push(...[...again].sort((a, b) => a - b))
      again.clear()
    }
    out.push(id)
  }
  return out
}

/** Removes ops whose results are not read before they are recomputed or the step ends. */
export const withoutDead = <R extends { readonly ops: readonly OpId[] }>(graph: Graph, runs: readonly R[]): readonly R[] => {
  const needed = new Set(mapped(graph.values.filter(isResult), (v) => v.id))
  const out: R[] = []
  for (const run of [...runs].reverse()) {
    const ops: OpId[] = []
    for (const id of [...run.ops].reverse()) {
      const op = graph.ops[id]!
      if (op.outs.length && !op.outs.some((v) => needed.has(v))) continue
      for (const v of op.outs) needed.delete(v)
      for (const v of op.ins) needed.add(v)
      ops.push(id)
    }
    if (ops.length) out.push({ ...run, ops: ops.reverse() })
  }
  return out.reverse()
}

class Emitter {
  readonly runs: Run[] = []
  private readonly makers: ReadonlyMap<ValueId, Op>
  private readonly there = new Set<ValueId>()
  private readonly ran = new Set<number>()

  constructor(
    private readonly graph: Graph,
    private readonly stages: readonly Stage[],
  ) {
    this.makers = makersOf(graph)
  }

  /** Adjacent runs of one phase are joined. Backward runs stay separate, so that values may be swapped out between them. */
  private emit(phase: SegmentPhase, stage: number, ops: readonly OpId[]): void {
    const last = this.runs[this.runs.length - 1]
    if (last?.phase === phase && phase !== 'backward') last.ops.push(...ops)
    else if (ops.length) this.runs.push({ phase, group: stage, grid: UNTILED, ops: [...ops] })
  }

  private forget(stage: number, keep?: ReadonlySet<ValueId>): void {
    for (const id of this.stages[stage]!.forward)
      for (const v of this.graph.ops[id]!.outs) if (!keep?.has(v) && !staysForGood(this.graph, v)) this.there.delete(v)
  }

  forward(stage: number, keep: ReadonlySet<ValueId>): void {
    const { forward } = this.stages[stage]!
    const first = !this.ran.has(stage)
    this.emit(first ? 'forward' : 'recompute', stage, first ? forward : againOps(this.graph, forward))
    this.ran.add(stage)
    for (const id of forward) for (const v of this.graph.ops[id]!.outs) this.there.add(v)
    this.forget(stage, keep)
  }

  backward(stage: number): void {
    this.emit('backward', stage, withReruns(this.graph, this.makers, this.stages[stage]!.backward, this.there))
    this.forget(stage)
  }

  finish(): readonly Run[] {
    return withoutDead(this.graph, this.runs)
  }
}

/** The kept values of a stage: its outputs for the next stage, and the values of its option for its own backward. */
export interface Keeping {
  readonly outputs: ReadonlySet<ValueId>
  readonly options: readonly ReadonlySet<ValueId>[]
}

export const runsOf = (
  graph: Graph,
  stages: readonly Stage[],
  keeping: readonly Keeping[],
  actions: readonly Action[],
): readonly Run[] => {
  const emitter = new Emitter(graph, stages)
  for (const a of actions)
    if (a.tag === 'pass') emitter.forward(a.stage, keeping[a.stage]!.outputs)
    else if (a.tag === 'forward') emitter.forward(a.stage, keeping[a.stage]!.options[a.option]!)
    else emitter.backward(a.stage)
  return emitter.finish()
}

/** One forward pass that keeps these values and the outputs of stages. The backward recomputes all others when it needs them. */
export const keepingOnly = (graph: Graph, stages: readonly Stage[], kept: ReadonlySet<ValueId>): readonly Run[] => {
  const emitter = new Emitter(graph, stages)
  const later = stages.flatMap((s, i) => outputsOf(graph, stages, s, i))
  const stays = new Set([...kept, ...later])
  for (const i of stages.keys()) emitter.forward(i, stays)
  for (const i of [...stages.keys()].reverse()) emitter.backward(i)
  return emitter.finish()
}

const outputsOf = (graph: Graph, stages: readonly Stage[], stage: Stage, i: number): readonly ValueId[] => {
  const read = new Set(stages[i + 1]?.forward.flatMap((id) => graph.ops[id]!.ins))
  return stage.forward.flatMap((id) => graph.ops[id]!.outs).filter((v) => read.has(v))
}
