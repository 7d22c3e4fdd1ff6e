// Updates of large parameters by rows. In: segments of a step whose parameters have homes in the lower tier. Out: the same step, with a loop over
// parts of rows for each update of a large parameter. Each part of the weight, of its gradient and of its optimizer state is swapped in, updated and
// swapped out, so they are never all on the device. The bits are the same, because elements are independent. Worked example, VGG-16's first dense
// layer with momentum: three values of 392 MiB take 1176 MiB; in 25 parts they take 48 MiB.
import { type Graph, type Op, type ValueId, valueBytes } from '../graph/graph'
import { opDef } from '../ops/registry'
import { type Grid, type Segment, type Step, tilesOf, UNTILED } from '../plan/plan'
import { isRight } from 'fp-ts/Either'
import { mib } from '../core/bytes'
import { sliceRun } from './slices'

/** The bytes of each operand in a part. Links reach their full rate with this size, and a launch is negligible. */
const PART_BYTES = mib(16)

/** Returns the grid of an update by parts of rows; one tile if the op is no such update, or small. */
export const rowsGridOf = (graph: Graph, op: Op): Grid => {
  if (!opDef(op.kind).byRows) return UNTILED
  const parts = Math.ceil(valueBytes(graph.values[op.ins[0]!]!) / PART_BYTES)
  const grid = { ...UNTILED, B: parts }
  return parts > 1 && isRight(sliceRun(graph, [op.id], grid, new Set())) ? grid : UNTILED
}

type IsHome = (v: ValueId) => boolean

const loopOf = (graph: Graph, { op: id }: Step, isHome: IsHome): Segment | null => {
  const op = graph.ops[id]!
  if (!op.ins.some(isHome)) return null
  const grid = rowsGridOf(graph, op)
  const sliced = tilesOf(grid) > 1 ? sliceRun(graph, [id], grid, new Set()) : null
  return sliced && isRight(sliced) ? { name: op.layer, phase: 'update', grid, ...sliced.right } : null
}

/** Replaces the large updates of an untiled segment by loops. */
const withUpdateLoops =
  (graph: Graph, isHome: IsHome) =>
  (s: Segment): readonly Segment[] => {
    if (tilesOf(s.grid) > 1) return [s]
    const loops = s.body.map((step) => loopOf(graph, step, isHome))
    if (loops.every((l) => l === null)) return [s]
    const out: Segment[] = []
    let from = 0
    const upTo = (k: number): void => {
      if (from < k) out.push({ ...s, body: s.body.slice(from, k) })
      from = k + 1
    }
    loops.forEach((loop, k) => {
      if (!loop) return
      upTo(k)
      out.push(loop)
    })
    upTo(s.body.length)
    return out
  }

/** Returns the segments with loops for large updates. `isHome`: true for parameters and state with homes in the lower tier. */
export const updatedByRows = (graph: Graph, segments: readonly Segment[], isHome: IsHome = () => true): readonly Segment[] =>
  segments.flatMap(withUpdateLoops(graph, isHome))
