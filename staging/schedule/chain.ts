// The training graph as a chain of stages with times and sizes, for the programme of chaindp.ts. In: the graph and a machine. Out: stages (cut at
// single crossing values), sizes in bytes, and the kept values of each option of a stage. Options differ in the values that they drop until the
// backward recomputes them: none, then the cheapest to recompute per byte, up to all but the stage's output. Worked example, conv norm relu conv:
// keep all; drop the relu; drop the convs too.
import { mapped } from '../core/mapped'
import { valueBytes, type Graph, type OpId, type ValueId } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { checkpointCuts } from '../tile/cuts'
import { type Footprint, footprint, type OpCost } from '../tile/footprint'
import type { ChainStage, StageOption } from './chaindp'
import { inCoreCalls } from './incore'
import { onceFor } from './remember'
import { againOps, type Keeping, makersOf, type Stage, stagesAt, withReruns } from './rerun'

export interface Chain {
  readonly graph: Graph
  readonly stages: readonly Stage[]
  readonly keeping: readonly Keeping[]
  /** Sizes in bytes. */
  readonly sizes: readonly ChainStage[]
}

/** If there are more stages, neighbours are joined: the programme takes the cube of their number. */
const MOST_STAGES = 128
const MOST_DROPS = 5

export const opCosts = onceFor((graph, machine): readonly OpCost[] => {
  const costs: OpCost[] = mapped(graph.ops, () => ({ seconds: 0, workspaceBytes: 0 }))
  for (const c of inCoreCalls(graph, machine).calls) costs[c.op] = { seconds: c.seconds, workspaceBytes: c.workspace?.bytes ?? 0 }
  return costs
})

const NOTHING: ReadonlySet<ValueId> = new Set()

class Measurer {
  private readonly makers
  private readonly readBackward: ReadonlySet<ValueId>
  /** The last stage with a forward op that reads a value. */
  private readonly lastRead: ReadonlyMap<ValueId, number>
  /** Before each stage: the earlier values that it or later ones read. */
  private readonly crossing: readonly ReadonlySet<ValueId>[]
  private readonly gradients: readonly ReadonlySet<ValueId>[]

  constructor(
    readonly graph: Graph,
    readonly costs: readonly OpCost[],
    readonly stages: readonly Stage[],
  ) {
    this.makers = makersOf(graph)
    this.readBackward = new Set(stages.flatMap((s) => s.backward).flatMap((id) => graph.ops[id]!.ins))
    this.lastRead = new Map(
      stages.flatMap((s, i) => s.forward.flatMap((id) => mapped(graph.ops[id]!.ins, (v) => [v, i] as const))),
    )
    const outputs = mapped(stages, (_, i) => this.outputs(i))
    this.crossing = mapped(
      stages,
      (_, i) => new Set(outputs.slice(0, i).flatMap((made) => [...made].filter((v) => this.lastRead.get(v)! >= i))),
    )
    this.gradients = gradientsInto(graph, stages)
  }

  private bytes(vs: Iterable<ValueId>): number {
    return [...vs].reduce((n, v) => n + valueBytes(this.graph.values[v]!), 0)
  }

  private activations(ops: readonly OpId[]): readonly ValueId[] {
    return ops.flatMap((id) => this.graph.ops[id]!.outs).filter((v) => this.graph.values[v]!.role === 'activation')
  }

  /** The values of this stage that later stages read. */
  outputs(i: number): ReadonlySet<ValueId> {
    return new Set(this.activations(this.stages[i]!.forward).filter((v) => (this.lastRead.get(v) ?? -1) > i))
  }

  /** Seconds to recompute a value from values that the backward reads, too. */
  private againSeconds(v: ValueId, inside: ReadonlySet<ValueId>): number {
    const op = this.makers.get(v)!
    const unread = op.ins.filter((u) => inside.has(u) && !this.readBackward.has(u))
    return this.costs[op.id]!.seconds + unread.reduce((n, u) => n + this.againSeconds(u, inside), 0)
  }

  /** The kept values of each option, the largest set first. */
  keeping(i: number): Keeping {
    const outputs = this.outputs(i)
    const made = this.activations(this.stages[i]!.forward)
    const inside = new Set(made)
    const all = new Set(made.filter((v) => this.readBackward.has(v) || outputs.has(v)))
    const price = new Map(mapped([...all], (v) => [v, this.againSeconds(v, inside) / valueBytes(this.graph.values[v]!)]))
    const order = [...all].filter((v) => !outputs.has(v)).sort((a, b) => price.get(a)! - price.get(b)! || a - b)
    const drops = Math.min(MOST_DROPS, order.length)
    const total = this.bytes(order)
    const options: ReadonlySet<ValueId>[] = [all]
    const kept = new Set(all)
    let dropped = 0
    for (const [n, v] of order.entries()) {
      kept.delete(v)
      dropped += valueBytes(this.graph.values[v]!)
      if (dropped >= (options.length * total) / drops || n === order.length - 1) options.push(new Set(kept))
    }
    return { outputs, options }
  }

  private run(
    ops: readonly OpId[],
    before: Iterable<ValueId>,
    after: ReadonlySet<ValueId>,
    held: ReadonlySet<ValueId>,
  ): Footprint {
    const { values } = this.graph
    return footprint(this.graph, ops, this.costs, { before, after, counts: (v) => !held.has(v) && values[v]!.role !== 'stat' })
  }

  stage(i: number, keeping: Keeping): ChainStage {
    const { forward, backward } = this.stages[i]!
    const { outputs } = keeping
    const inputs = this.crossing[i]!
    const last = Math.max(i, ...mapped([...outputs], (v) => this.lastRead.get(v)!))
    const gradients = this.gradients[i]!
    const again = againOps(this.graph, forward)
    const passes = this.run(forward, [], outputs, inputs)
    const option = (kept: ReadonlySet<ValueId>): StageOption => {
      const stats = forward.flatMap((id) => this.graph.ops[id]!.outs).filter((v) => this.graph.values[v]!.role !== 'activation')
      const ops = withReruns(this.graph, this.makers, backward, new Set([...kept, ...inputs, ...stats]))
      // Values that only later stages read are already dropped.
      const read = new Set(ops.flatMap((id) => this.graph.ops[id]!.ins))
      const there = [...kept].filter((v) => read.has(v))
      const back = this.run(ops, [...there, ...gradients], this.gradients[i - 1] ?? NOTHING, inputs)
      return {
        saved: this.bytes(kept),
        forwardPeak: this.run(forward, [], kept, inputs).peakBytes,
        backwardPeak: back.peakBytes,
        backwardSeconds: back.seconds,
      }
    }
    return {
      firstSeconds: passes.seconds,
      againSeconds: again.reduce((n, id) => n + this.costs[id]!.seconds, 0),
      passPeak: passes.peakBytes,
      crossing: Array.from({ length: last - i }, (_, d) => this.bytes([...outputs].filter((v) => this.lastRead.get(v)! > i + d))),
      gradient: this.bytes(gradients),
      options: mapped(keeping.options, option),
    }
  }
}

/** For each stage: the gradients that the backward of later stages leaves for it and for earlier stages. */
const gradientsInto = (graph: Graph, stages: readonly Stage[]): readonly ReadonlySet<ValueId>[] => {
  const firstRead = new Map<ValueId, number>()
  const lastMade = new Map<ValueId, number>()
  stages.forEach(({ backward }, i) => {
    for (const id of backward) for (const v of graph.ops[id]!.ins) if (!firstRead.has(v)) firstRead.set(v, i)
    for (const id of backward) for (const v of graph.ops[id]!.outs) lastMade.set(v, i)
  })
  const into = mapped(stages, () => new Set<ValueId>())
  for (const [v, made] of lastMade) for (let i = firstRead.get(v) ?? made; i < made; i++) into[i]!.add(v)
  return into
}

/** Cuts with one crossing value; if there are too many, every n-th of them. */
const cutsOf = (graph: Graph): readonly number[] => {
  const cuts = mapped(checkpointCuts(graph), (c) => c.at)
  const every = Math.ceil((cuts.length + 1) / MOST_STAGES)
  return cuts.filter((_, i) => (i + 1) % every === 0)
}

/**
 * The stages with each update after the last of its operands. Updates that wait for others (grad/rewrite/gathered.ts) would make equal blocks differ
 * a little in their held values, and each block would be solved separately.
 */
const withUpdatesWhereMade = (graph: Graph, stages: readonly Stage[]): readonly Stage[] => {
  const isUpdate = (id: OpId): boolean => graph.ops[id]!.phase === 'update'
  const updates = stages.flatMap((s) => s.backward.filter(isUpdate))
  const readers = new Map<ValueId, OpId[]>()
  for (const id of updates) for (const v of graph.ops[id]!.ins) readers.set(v, [...(readers.get(v) ?? []), id])
  const placed = new Set<OpId>()
  /** Visited from the end of the step: the first stage that makes an operand is the last one in order. */
  const backward = mapped(stages, ({ backward }) =>
    backward
      .filter((id) => !isUpdate(id))
      .reverse()
      .flatMap((id) => {
        const ready = graph.ops[id]!.outs.flatMap((v) => readers.get(v) ?? []).filter((u) => !placed.has(u))
        for (const u of ready) placed.add(u)
        return [...ready.reverse(), id]
      })
      .reverse(),
  )
  const elsewhere = (id: OpId): boolean => isUpdate(id) && !placed.has(id)
  return mapped(stages, (s, i) => ({ ...s, backward: [...backward[i]!, ...s.backward.filter(elsewhere)] }))
}

export const chainOf = (graph: Graph, machine: Machine): Chain => {
  const stages = stagesAt(graph, cutsOf(graph))
  const measure = new Measurer(graph, opCosts(graph, machine), withUpdatesWhereMade(graph, stages))
  const keeping = mapped(stages, (_, i) => measure.keeping(i))
  const sizes = mapped(stages, (_, i) => measure.stage(i, keeping[i]!))
  return { graph, stages, keeping, sizes }
}
