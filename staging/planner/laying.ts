// Weights laid out once a step, if memory allows (graph/laid.ts). In: the best step; each of its convolutions lays its weight out for its kernels, in
// every tile and once more in the backward. Out: the same step with a first run that lays them out, and convolutions that read them so; the simulator
// chooses. A laid-out weight stays until its last reader. Worked example, bf16: a convolution and its gradient by the data round a weight of 9 MB
// each; rounded once, 4.5 MB are held from the head to the end of the backward, and the step is a launch and 13.5 MB of traffic shorter.
import type { Graph, ValueId } from '../graph/graph'
import { laidOut, layingOps, readers } from '../graph/laid'
import type { Machine } from '../graph/machine'
import { ranksOf } from '../graph/ranks'
import { elementsOf } from '../core/box'
import { type Segment, UNTILED } from '../plan/plan'
import type { Candidate, Improver } from '../schedule/candidate'
import type { Layout } from '../schedule/layout'

/** Ways that are laid out, each with half of the bytes of the one before it, and calls of all of them together. */
const TRIED = 4
const MOST_CALLS = 40_000

/** A weight, and how many calls read it: all but one are spared the work, so nothing is where there is but one. */
interface Laid {
  readonly weight: ValueId
  readonly elements: number
  readonly calls: number
}

/** The weights that several calls read, those first that most do. */
const wanted = ({ graph, calls }: Layout): readonly Laid[] => {
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

/** Those that come first and together take at most this share of the memory of all. */
const share = (all: readonly Laid[], of: number): readonly Laid[] => {
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

/** The segments of the graph that lays weights out, of those of the graph as it was. */
export const behindLaying = (laid: Graph, segments: readonly Segment[]): readonly Segment[] => {
  const n = layingOps(laid)
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
 * A device's work in each call is worth saving if its calls are timed with and without it. Ranks run one list of ops. Budgets that need weights in
 * parts have no room for laid-out ones.
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
  if (!like || layingOps(layout.graph) > 0 || !isWorthTrying(graph, machine)) return
  const all = wanted(layout)
  let left = Math.min(TRIED, Math.floor(MOST_CALLS / layout.calls.length))
  for (let of = 1; left > 0; of /= 2, left--) {
    const chosen = share(all, of)
    if (chosen.length === 0) return
    const laid = laidOut(graph, new Set(chosen.map((l) => l.weight)))
    if ((yield like(behindLaying(laid, layout.segments), laid)) < seconds) return
  }
}

export const laying: Improver = layingOnce
