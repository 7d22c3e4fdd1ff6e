// Segments from untrusted files, before they are unrolled: every op, value, slice and tile that they name exists.
// In: a graph and segments of the right form. Out: the first fault in words, or undefined.
import { extentOf, type Range } from '../core/box'
import type { Graph } from '../graph/graph'
import { asShape } from '../ops/op'
import { type Grid, type Keep, type Segment, type Slices, type Step, tilesOf } from './plan'

/** More calls than any plan has: a file must not make its reader fill the memory. */
const MOST_CALLS = 4_000_000

const rangesFault = (dim: string, ranges: readonly Range[], tiles: number, extent: number): string | undefined => {
  if (ranges.length !== tiles) return `${ranges.length} slices along ${dim} for ${tiles} tiles`
  const odd = ranges.find((r) => extentOf(r) <= 0 || r[1] > extent)
  return odd && `slice [${odd[0]},${odd[1]}) along ${dim}; legal are parts of [0,${extent})`
}

const slicesFault = (s: Slices, grid: Grid, shape: readonly number[]): string | undefined => {
  const [b, , h, w] = asShape(shape)
  return rangesFault('B', s.B, grid.B, b) ?? rangesFault('H', s.H, grid.H, h) ?? rangesFault('W', s.W, grid.W, w)
}

const stepFault = (graph: Graph, grid: Grid, step: Step): string | undefined => {
  const op = graph.ops[step.op]
  if (!op) return `there is no op ${step.op}`
  if (step.inPlace !== undefined && step.inPlace >= op.ins.length) return `op ${step.op} has no input ${step.inPlace}`
  const operands = [...op.ins, ...op.outs]
  if (!step.slices) return tilesOf(grid) === 1 ? undefined : `op ${step.op} says no slices`
  if (step.slices.length !== operands.length)
    return `op ${step.op} has ${operands.length} operands and ${step.slices.length} slices`
  for (const [i, s] of step.slices.entries()) {
    const fault = s && slicesFault(s, grid, graph.values[operands[i]!]!.shape)
    if (fault) return `op ${step.op}, operand ${i}: ${fault}`
  }
  return undefined
}

const keepFault = (graph: Graph, segment: Segment, keep: Keep): string | undefined => {
  const value = graph.values[keep.value]
  if (!value) return `there is no value ${keep.value} to keep`
  if (!segment.body.some((s) => graph.ops[s.op]!.outs.includes(keep.value)))
    return `it keeps '${value.name}', which none of its ops gives`
  const fault = keep.slices && slicesFault(keep.slices, segment.grid, value.shape)
  return fault ? `'${value.name}' is kept by ${fault}` : undefined
}

export const segmentFault = (graph: Graph, segments: readonly Segment[]): string | undefined => {
  let calls = 0
  for (const [i, s] of segments.entries()) {
    calls += tilesOf(s.grid) * (s.body.length + s.keeps.length)
    if (!(calls <= MOST_CALLS)) return `they unroll into more than ${MOST_CALLS} calls`
    const fault =
      s.body.map((step) => stepFault(graph, s.grid, step)).find((f) => f !== undefined) ??
      s.keeps.map((k) => keepFault(graph, s, k)).find((f) => f !== undefined)
    if (fault !== undefined) return `segment ${i} ('${s.name}'): ${fault}`
  }
  return undefined
}
