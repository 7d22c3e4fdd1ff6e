// A step as the older systems see it: a sequence of layers. In: a layout. Out: runs of calls of one layer, in order of
// execution; which of them convolve; where each call's run is.
// Invariant: the runs cover all calls. Worked example: conv1 conv1 | relu1 | mse | relu1 | conv1 conv1: five runs.
import type { Graph } from '../graph/graph'
import type { Point } from '../plan/plan'
import type { Layout } from '../schedule/layout'

export interface LayerRun {
  readonly layer: string
  /** Calls [first, end). */
  readonly first: Point
  readonly end: Point
  readonly convolves: boolean
}

export interface LayerRuns {
  readonly runs: readonly LayerRun[]
  /** For each call, its run. */
  readonly at: readonly number[]
}

/** Layers with weights that span space. */
const convolutions = (graph: Graph): ReadonlySet<string> => {
  const isKernel = (v: number): boolean => graph.values[v]!.role === 'param' && graph.values[v]!.shape.length === 4
  return new Set(graph.ops.filter((o) => o.ins.some(isKernel)).map((o) => o.layer))
}

export const layerRuns = (l: Layout): LayerRuns => {
  const conv = convolutions(l.graph)
  const layerOf = (p: Point): string => l.graph.ops[l.calls[p]!.op]?.layer ?? ''
  const runs: LayerRun[] = []
  const at: number[] = []
  l.calls.forEach((_, p) => {
    const last = runs[runs.length - 1]
    if (last && last.layer === layerOf(p) && l.calls[p]!.segment === l.calls[p - 1]!.segment)
      runs[runs.length - 1] = { ...last, end: p + 1 }
    else runs.push({ layer: layerOf(p), first: p, end: p + 1, convolves: conv.has(layerOf(p)) })
    at.push(runs.length - 1)
  })
  return { runs, at }
}

type IndicesByValue = ReadonlyMap<number, readonly number[]>

/** Planned stays that a convolution's forward reads: its input feature maps. */
export const convolutionInputs = (l: Layout, planned: IndicesByValue): ReadonlySet<number> =>
  plannedOf(l, planned, (op) => op.ins)

/** Planned stays that a convolution's forward writes. */
export const convolutionOutputs = (l: Layout, planned: IndicesByValue): ReadonlySet<number> =>
  plannedOf(l, planned, (op) => op.outs)

const plannedOf = (
  l: Layout,
  planned: IndicesByValue,
  pick: (op: Graph['ops'][number]) => readonly number[],
): ReadonlySet<number> => {
  const conv = convolutions(l.graph)
  const ops = l.graph.ops.filter((o) => o.phase === 'forward' && conv.has(o.layer))
  return new Set(ops.flatMap((o) => pick(o).flatMap((v) => planned.get(v) ?? [])))
}
