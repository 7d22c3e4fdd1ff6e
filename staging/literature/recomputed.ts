// The values that a convolution's checkpoint brings back, for the hybrids of papers 2 and of SuperNeurons. In: the training graph. Out: the droppable
// values (those after each convolution until the next), and layouts that recompute chosen ones. A value belongs to the last convolution that ran
// before it; convolutions' own outputs and the outputs of stages (single crossing values) are checkpoints and stay. Worked example, conv1 norm1 relu1
// conv2 …: norm1 and relu1 belong to conv1.
import { certain } from '../core/certain'
import { valueBytes, type Graph, type ValueId } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { checkpointCuts } from '../tile/cuts'
import { forwardOps, segmentsOf } from '../tile/segments'
import type { Segment } from '../plan/plan'
import { atLeastOf } from '../schedule/atleast'
import type { AtLeast } from '../schedule/candidate'
import { opCosts } from '../schedule/chain'
import { type Layout, layOut } from '../schedule/layout'
import { onceFor } from '../schedule/remember'
import { keepingOnly, type Stage, stagesAt } from '../schedule/rerun'

/** The values dropped, and recomputed, for a checkpoint's identifier on the list. */
export interface Droppable {
  readonly layer: string
  readonly values: readonly ValueId[]
  readonly bytes: number
  readonly seconds: number
}

export interface Recomputable {
  /** Activations that the backward reads: nothing else need be kept. */
  readonly read: readonly ValueId[]
  /** In order of the forward pass. */
  readonly droppable: readonly Droppable[]
  readonly stages: readonly Stage[]
}

const isWeighted = (graph: Graph, ins: readonly ValueId[]): boolean =>
  ins.some((v) => graph.values[v]!.role === 'param' && graph.values[v]!.shape.length === 4)

export const recomputableOf = onceFor((graph, machine): Recomputable => {
  const costs = opCosts(graph, machine)
  const isActivation = (v: ValueId): boolean => graph.values[v]!.role === 'activation'
  const read = new Set(graph.ops.filter((o) => o.phase === 'backward').flatMap((o) => o.ins.filter(isActivation)))
  const droppable: { layer: string; values: ValueId[]; bytes: number; seconds: number }[] = []
  for (const op of forwardOps(graph)) {
    if (isWeighted(graph, op.ins)) droppable.push({ layer: op.layer, values: [], bytes: 0, seconds: 0 })
    const here = droppable[droppable.length - 1]
    if (!here || isWeighted(graph, op.ins)) continue
    here.seconds += costs[op.id]!.seconds
    for (const v of op.outs)
      if (read.has(v)) {
        here.values.push(v)
        here.bytes += valueBytes(graph.values[v]!)
      }
  }
  const stages = stagesAt(
    graph,
    checkpointCuts(graph).map((c) => c.at),
  )
  return { read: [...read], droppable: droppable.filter((i) => i.values.length), stages }
})

/** A step with recomputation: the seconds of its calls, and the least moves, known before it is laid out. */
export interface Recomputation {
  readonly seconds: number
  readonly atLeast: () => AtLeast
  readonly layout: () => Layout
}

const lists = onceFor(() => new Map<string, Recomputation>())

const newRecomputation = (graph: Graph, machine: Machine, dropped: readonly Droppable[]): Recomputation => {
  const { read, stages } = recomputableOf(graph, machine)
  const costs = opCosts(graph, machine)
  const gone = new Set(dropped.flatMap((i) => i.values))
  const kept = new Set(read.filter((v) => !gone.has(v)))
  const runs = keepingOnly(graph, stages, kept)
  let made: readonly Segment[] | undefined
  const segments = (): readonly Segment[] => {
    made ??= certain('whole values are always legal')(segmentsOf(graph, runs))
    return made
  }
  let laidOut: Layout | undefined
  return {
    seconds: runs.reduce((n, r) => r.ops.reduce((m, id) => m + costs[id]!.seconds, n), 0),
    // With a stay for each run of calls, values need less memory than with one for each segment.
    atLeast: () => ({ pages: 0, seconds: atLeastOf(graph, segments(), machine).seconds }),
    layout: () => {
      laidOut ??= layOut(graph, segments(), machine, { rule: 'run' })
      return laidOut
    },
  }
}

/** The step that recomputes the dropped values, with a stay for each run of calls, so that the others may be swapped out. */
export const recomputing = (graph: Graph, machine: Machine, dropped: readonly Droppable[]): Recomputation => {
  const known = lists(graph, machine)
  const key = dropped.flatMap((i) => i.values).join()
  const step = known.get(key) ?? newRecomputation(graph, machine, dropped)
  known.set(key, step)
  return step
}

/** Most bytes for a second of computing first. */
export const byWorth = (droppable: readonly Droppable[]): readonly Droppable[] =>
  [...droppable].sort((a, b) => a.seconds / a.bytes - b.seconds / b.bytes)
