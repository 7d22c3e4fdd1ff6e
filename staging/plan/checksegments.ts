// Checks segments from untrusted files before they are unrolled: each op, value, slice and tile that they name exists. In: a graph and segments of
// the right form. Out: Right, or the first fault in words.
import { chain, type Either, left, mapLeft, right, traverseArray, traverseReadonlyArrayWithIndex } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { extentOf, type Range } from '../core/box'
import type { Graph } from '../graph/graph'
import { asShape } from '../ops/op'
import { type Grid, type Keep, type Segment, type Slices, type Step, tilesOf } from './plan'

type Checked = Either<string, unknown>

const checkedRanges = (dim: string, ranges: readonly Range[], tiles: number, extent: number): Checked => {
  if (ranges.length !== tiles) return left(`${ranges.length} slices along ${dim} for ${tiles} tiles`)
  const odd = ranges.find((r) => extentOf(r) <= 0 || r[1] > extent)
  return odd ? left(`slice [${odd[0]},${odd[1]}) along ${dim}; allowed: parts of [0,${extent})`) : right(ranges)
}

const checkedSlices = (s: Slices | null, grid: Grid, shape: readonly number[]): Checked => {
  const [b, , h, w] = asShape(shape)
  return s
    ? pipe(
        checkedRanges('B', s.B, grid.B, b),
        chain(() => checkedRanges('H', s.H, grid.H, h)),
        chain(() => checkedRanges('W', s.W, grid.W, w)),
      )
    : right(s)
}

const checkedStep =
  (graph: Graph, grid: Grid) =>
  (step: Step): Checked => {
    const op = graph.ops[step.op]
    if (!op) return left(`there is no op ${step.op}`)
    if (step.inPlace !== undefined && step.inPlace >= op.ins.length) return left(`op ${step.op} has no input ${step.inPlace}`)
    const operands = [...op.ins, ...op.outs]
    if (!step.slices) return tilesOf(grid) === 1 ? right(step) : left(`op ${step.op} has no slices`)
    if (step.slices.length !== operands.length)
      return left(`op ${step.op} has ${operands.length} operands, but ${step.slices.length} slices`)
    const operand = (i: number, s: Slices | null): Checked =>
      mapLeft((reason: string) => `op ${step.op}, operand ${i}: ${reason}`)(
        checkedSlices(s, grid, graph.values[operands[i]!]!.shape),
      )
    return traverseReadonlyArrayWithIndex(operand)(step.slices)
  }

const checkedKeep =
  (graph: Graph, { body, grid }: Segment) =>
  (keep: Keep): Checked => {
    const value = graph.values[keep.value]
    if (!value) return left(`there is no value ${keep.value} to keep`)
    if (!body.some((s) => graph.ops[s.op]!.outs.includes(keep.value)))
      return left(`it keeps '${value.name}', which none of its ops computes`)
    return mapLeft((reason) => `'${value.name}' is kept by ${reason}`)(checkedSlices(keep.slices, grid, value.shape))
  }

/** Checks all segments. The calls are counted first, so that a file cannot make its reader fill the memory. */
export const checkedSegments = (graph: Graph, segments: readonly Segment[], mostCalls: number): Checked => {
  let calls = 0
  const segment = (i: number, s: Segment): Checked => {
    calls += tilesOf(s.grid) * (s.body.length + s.keeps.length)
    return calls <= mostCalls
      ? pipe(
          s.body,
          traverseArray(checkedStep(graph, s.grid)),
          chain(() => traverseArray(checkedKeep(graph, s))(s.keeps)),
          mapLeft((reason) => `segment ${i} ('${s.name}'): ${reason}`),
        )
      : left(`they unroll into more than ${mostCalls} calls, the limit of the memory`)
  }
  return traverseReadonlyArrayWithIndex(segment)(segments)
}
