// A plan by hand: tiled layers, and cuts of the forward pass. In: the training graph and a Prescription, by positions between layers. Out: the groups
// that tile/segments.ts assembles. A cut inside a layer is after its sums: the statistics of a batch norm belong to the range that ends there, their
// use to the next. Worked example: layers conv1 bn1 relu, range [before conv1, in bn1): groups {conv2d bn_stats} tiled, {bn_apply relu} not.
import { type Graph, isOfParameters, type Op, type OpId } from '../graph/graph'
import { UNTILED } from '../plan/plan'
import type { PrescribedCut, Prescription } from '../plan/prescription'
import { forwardOps, type Group, summed } from '../tile/segments'

export const prescribedGroups = (graph: Graph, p: Prescription): readonly Group[] => {
  const ops = forwardOps(graph)
  const placeOf = new Map(p.layers.map((name, i) => [name, i]))
  // Ops of parameters alone are before all layers, the loss is after them.
  const places = ops.map((op) => (isOfParameters(graph.values, op) ? -1 : (placeOf.get(op.layer) ?? p.layers.length)))
  const positionOf = (c: PrescribedCut): number => {
    const first = places.filter((place) => place < c.at).length
    return c.inside
      ? first +
          afterSums(
            graph,
            ops.filter((_, i) => places[i] === c.at),
          )
      : first
  }
  const ranges = p.ranges.map((r) => ({ grid: r.grid, begin: positionOf(r.begin), end: endOf(r.end, p, positionOf, ops.length) }))
  const bounds = [0, ...ranges.flatMap((r) => [r.begin, r.end]), ...p.checkpoints.map(positionOf), ops.length]
  const cuts = [...new Set(bounds)].sort((a, b) => a - b)
  return cuts.slice(0, -1).map((from, i): Group => {
    const range = ranges.find((r) => r.begin <= from && from < r.end)
    return { ops: ops.slice(from, cuts[i + 1]).map((op): OpId => op.id), grid: range?.grid ?? UNTILED }
  })
}

/** Returns the end of a range in ops. A range that holds the last layer also holds the loss. */
const endOf = (c: PrescribedCut, p: Prescription, positionOf: (c: PrescribedCut) => number, all: number): number =>
  c.at >= p.layers.length ? all : positionOf(c)

const afterSums = (graph: Graph, ops: readonly Op[]): number => {
  const sums = ops.map((op) => summed(graph, op.id).length > 0)
  return sums.lastIndexOf(true) + 1
}
