// The first ops while the input arrives: in parts of the batch, each as soon as its images are there. In: a step that begins with whole values and
// waits for all of them. Out: the same step, with a loop of its first ops, in the ways with the shortest estimated waits; the simulator chooses. So
// `auto` overlaps the start of every step, which no swapping does. Worked example, images that take 4 s to arrive and a convolution of 2 s: in one,
// both take 6 s; in four parts, 4.5 s, because only the last part is computed after all the others. A rectifier and another convolution of 2 s in the
// same loop leave 1 s of waiting.
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

/** Ways that are laid out, and calls of all of them together. */
const TRIED = 4
const MOST_CALLS = 40_000
/** Parts of the batch, at the most. */
const MOST_PARTS = 64

interface Head {
  readonly ops: readonly OpId[]
  readonly parts: number
  /** Its estimated addition to the compute of the step. */
  readonly seconds: number
}

/** The time until a number of parts, which arrive one after the other, are all computed. */
const pipelined = (coming: number, computing: number, parts: number): number =>
  Math.max(coming + computing / parts, coming / parts + computing)

/** Pieces of the first run, up to those that are computed until all has come, in all numbers of parts: the quickest first. */
const heads = (graph: Graph, machine: Machine, coming: number): readonly Head[] => {
  const p = forwardPieces(graph, machine)
  const costs = opCosts(graph, machine)
  const launch = launchSeconds(machine)
  const found: Head[] = []
  const ops: OpId[] = []
  let computing = 0
  let most = MOST_PARTS
  for (let i = 0; p.pieces[i]?.run === p.pieces[0]!.run && computing < coming; i++) {
    most = Math.min(most, p.pieces[i]!.most.B)
    for (const op of p.ops[i]!) {
      ops.push(op.id)
      computing += costs[op.id]!.seconds
    }
    for (let parts = 2; parts <= most; parts *= 2) {
      const inParts = computing + (parts - 1) * ops.length * launch
      found.push({ ops: [...ops], parts, seconds: pipelined(coming, inParts, parts) - computing })
    }
  }
  return found.sort((a, b) => a.seconds - b.seconds)
}

/** The first run begins with these ops, in a loop; null where it has a grid already or not all of them, or they cannot be a loop. */
const begunBy = (graph: Graph, segments: readonly Segment[], { ops, parts }: Head): readonly Segment[] | null => {
  const [first, ...others] = runsOf(graph, segments)
  const rest = first!.ops.filter((id) => !ops.includes(id))
  if (isTiled(first!.grid) || first!.ops.length - rest.length < ops.length) return null
  const loop: Run = { ...first!, grid: { B: parts, H: 1, W: 1 }, ops: [...ops] }
  const made = segmentsOf(graph, [loop, ...(rest.length ? [{ ...first!, ops: rest }] : []), ...others])
  return isRight(made) ? made.right : null
}

/** Fed bytes that the very first call reads. */
const firstFedBytes = ({ planned }: Layout): number =>
  bytesOf(planned.reduce((n, t) => n + (t.kind === 'fed' && t.stays[0]!.first === 0 ? t.to - t.from : 0), 0))

function* whileArriving(
  graph: Graph,
  machine: Machine,
  _: number,
  { layout, like }: Candidate,
): Generator<Candidate, void, number> {
  if (!like) return
  let left = Math.min(TRIED, Math.floor(MOST_CALLS / layout.calls.length))
  for (const head of heads(graph, machine, firstFedBytes(layout) / machine.link.inBytesPerSecond)) {
    const started = left > 0 ? begunBy(graph, layout.segments, head) : null
    if (!started) continue
    left--
    const candidate = { ...like(started), like }
    // The working set of a loop may be a page more than the device.
    const onDemand: Candidate['like'] = (segments, g) => swappingOnDemand(like(segments, g).layout, machine)
    if ((yield candidate) === Infinity) yield { ...swappingOnDemand(candidate.layout, machine), like: onDemand }
  }
}

export const arriving: Improver = whileArriving
