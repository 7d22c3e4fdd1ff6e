// Weights converted to the kernels' layout once a step, if memory allows (graph/laid.ts). In: the best step, where each convolution converts its
// weight in every tile and once more in the backward pass. Out: the same step with a first run that converts weights, and convolutions that read the
// results; the simulator chooses. A converted weight is held until its last reader. Worked example, bf16: a convolution and its gradient by the data
// round a weight of 9 MB each. Rounded once, 4.5 MB are held from the first run to the end of the backward pass; the step saves a launch and 13.5 MB
// of traffic.
import type { Graph, ValueId } from '../graph/graph'
import { laidOut, layoutCount, readers } from '../graph/laid'
import type { Machine } from '../graph/machine'
import { ranksOf } from '../graph/ranks'
import { elementsOf } from '../core/box'
import { type Segment, UNTILED } from '../plan/plan'
import type { Candidate, Improver } from '../schedule/candidate'
import type { Layout } from '../schedule/layout'

/** The most layouts, each with half of the bytes of the layout before it, and the most calls of all of them together. */
const MOST_LAYOUTS = 4
const MOST_CALLS = 40_000

/** A weight and the number of calls that read it. All readers but one save the conversion, so a weight with one reader gains nothing. */
interface Laid {
  readonly weight: ValueId
  readonly elements: number
  readonly calls: number
}

/** Returns the weights that several calls read, by the number of calls, largest first. */
const readOften = ({ graph, calls }: Layout): readonly Laid[] => {
  const counts = new Map<number, number>()
  for (const { op } of calls) counts.set(op, (counts.get(op) ?? 0) + 1)
  return [...readers(graph)]
    .map(
      ([weight, ops]): Laid => ({
        weight,
        elements: elementsOf(graph.values[weight]!.shape),
        calls: ops.reduce((n, op) => n + (counts.get(op.id) ?? 0), 0),
      }),
    )
    .filter(({ calls }) => calls > 1)
    .sort((a, b) => b.calls - a.calls || a.elements - b.elements)
}

/** Returns the longest prefix of `all` that takes at most the share `of` of its elements. */
const prefixWithin = (all: readonly Laid[], of: number): readonly Laid[] => {
  const most = of * all.reduce((n, l) => n + l.elements, 0)
  const chosen: Laid[] = []
  let elements = 0
  for (const l of all) {
    elements += l.elements
    if (elements > most) break
    chosen.push(l)
  }
  return chosen
}

/** Returns the segments for the graph `laid`, from the segments of the original graph: the first one runs the conversions. */
export const behindLaying = (laid: Graph, segments: readonly Segment[]): readonly Segment[] => {
  const n = layoutCount(laid)
  const head: Segment = {
    name: 'weights laid out',
    phase: 'forward',
    grid: UNTILED,
    body: laid.ops.slice(0, n).map(({ id }) => ({ op: id })),
    keeps: [],
  }
  return [head, ...segments.map((s) => ({ ...s, body: s.body.map((step) => ({ ...step, op: step.op + n })) }))]
}

/**
 * Returns true if the device converts weights in each call and its calls are timed in both layouts. Several ranks must run one list of ops. If the
 * budget needs weights in parts, it has no memory for converted weights.
 */
const isWorthTrying = (graph: Graph, { device, choices, simulated }: Machine): boolean =>
  device.laysWeights && choices !== undefined && !simulated && ranksOf(graph) === 1 && !graph.inParts

function* layingOnce(
  graph: Graph,
  machine: Machine,
  _: number,
  { layout, like }: Candidate,
  seconds: number,
): Generator<Candidate, void, number> {
  if (!like || layoutCount(layout.graph) > 0 || !isWorthTrying(graph, machine)) return
  const all = readOften(layout)
  let left = Math.min(MOST_LAYOUTS, Math.floor(MOST_CALLS / layout.calls.length))
  for (let of = 1; left > 0; of /= 2, left--) {
    const chosen = prefixWithin(all, of)
    if (chosen.length === 0) return
    const laid = laidOut(graph, new Set(chosen.map((l) => l.weight)))
    if ((yield like(behindLaying(laid, layout.segments), laid)) < seconds) return
  }
}

export const laying: Improver = layingOnce
