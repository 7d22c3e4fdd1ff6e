// Computes the first ops while the input arrives: in parts of the batch, each as soon as its images have arrived. In: a step that begins with whole
// values and waits for all of them. Out: the same step, with a loop of its first ops, for the loops with the shortest estimated waits; the simulator
// chooses. So `auto` overlaps the start of every step, which swapping cannot do. Worked example, images that take 4 s to arrive and a convolution of
// 2 s: in one part, both take 6 s; in four parts, 4.5 s, because only the last part is computed after the last arrival. A rectifier and another
// convolution of 2 s in the same loop leave 1 s of waiting.
import { isRight } from 'fp-ts/Either'
import { bytesOf } from '../core/bytes'
import type { Graph, OpId } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Segment } from '../plan/plan'
import { isTiled, type Run, runsOf, segmentsOf } from '../tile/segments'
import { launchSeconds } from '../schedule/atleast'
import { type Candidate, type Improver, swappingOnDemand } from '../schedule/candidate'
import { opCosts } from '../schedule/chain'
import type { Layout } from '../schedule/layout'
import { forwardPieces } from '../schedule/tiled'

/** The most loops that are laid out, and the most calls of all of them together. */
const MOST_LOOPS = 4
const MOST_CALLS = 40_000
/** The most parts of the batch. */
const MOST_PARTS = 64

interface Head {
  readonly ops: readonly OpId[]
  readonly parts: number
  /** Its estimated addition to the compute of the step. */
  readonly seconds: number
}

/** Returns the seconds until the last of `parts` parts is computed, if the parts arrive one after the other. */
const pipelined = (arrivalSeconds: number, computeSeconds: number, parts: number): number =>
  Math.max(arrivalSeconds + computeSeconds / parts, arrivalSeconds / parts + computeSeconds)

/** Returns loops of the first ops, in each number of parts, fastest first. Pieces are added until their compute takes as long as the arrival. */
const heads = (graph: Graph, machine: Machine, arrivalSeconds: number): readonly Head[] => {
  const p = forwardPieces(graph, machine)
  const costs = opCosts(graph, machine)
  const launch = launchSeconds(machine)
  const out: Head[] = []
  const ops: OpId[] = []
  let computeSeconds = 0
  let most = MOST_PARTS
  for (let i = 0; p.pieces[i]?.run === p.pieces[0]!.run && computeSeconds < arrivalSeconds; i++) {
    most = Math.min(most, p.pieces[i]!.most.B)
    for (const op of p.ops[i]!) {
      ops.push(op.id)
      computeSeconds += costs[op.id]!.seconds
    }
    for (let parts = 2; parts <= most; parts *= 2) {
      const inParts = computeSeconds + (parts - 1) * ops.length * launch
      out.push({ ops: [...ops], parts, seconds: pipelined(arrivalSeconds, inParts, parts) - computeSeconds })
    }
  }
  return out.sort((a, b) => a.seconds - b.seconds)
}

/** Returns the segments with a loop of these ops first; null if the first run is tiled, does not have all of them, or cannot be cut. */
const begunBy = (graph: Graph, segments: readonly Segment[], { ops, parts }: Head): readonly Segment[] | null => {
  const [first, ...others] = runsOf(graph, segments)
  const rest = first!.ops.filter((id) => !ops.includes(id))
  if (isTiled(first!.grid) || first!.ops.length - rest.length < ops.length) return null
  const loop: Run = { ...first!, grid: { B: parts, H: 1, W: 1 }, ops: [...ops] }
  const made = segmentsOf(graph, [loop, ...(rest.length ? [{ ...first!, ops: rest }] : []), ...others])
  return isRight(made) ? made.right : null
}

/** Returns the bytes of fed pages that the first call reads. */
const firstFedBytes = ({ alike }: Layout): number =>
  bytesOf(alike.reduce((n, t) => n + (t.kind === 'fed' && t.stays[0]!.first === 0 ? t.to - t.from : 0), 0))

function* whileArriving(
  graph: Graph,
  machine: Machine,
  _: number,
  { layout, like }: Candidate,
): Generator<Candidate, void, number> {
  if (!like) return
  let left = Math.min(MOST_LOOPS, Math.floor(MOST_CALLS / layout.calls.length))
  for (const head of heads(graph, machine, firstFedBytes(layout) / machine.link.inBytesPerSecond)) {
    const started = left > 0 ? begunBy(graph, layout.segments, head) : null
    if (!started) continue
    left--
    const candidate = { ...like(started), like }
    // If the working set of the loop does not fit, the candidate that swaps on demand may: it holds fewer pages.
    const onDemand: Candidate['like'] = (segments, g) => swappingOnDemand(like(segments, g).layout, machine)
    if ((yield candidate) === Infinity) yield { ...swappingOnDemand(candidate.layout, machine), like: onDemand }
  }
}

export const arriving: Improver = whileArriving
