// An input that several loops read, copied once a step (graph/copied.ts). In: the best step, which waits for its input or feeds it twice: its pages
// cannot receive the next input before the last read. Out: steps of the copied graph from a new search, whose inputs are loaded in the step before;
// the simulator chooses. The device holds the copy, and the next input arrives beside it at any time. Worked example, EfficientNet-B0 on a link of
// 1 GB/s: the first convolution and its weight gradient at the end of the step each wait for 18 MiB. With a copy, neither of them waits.
import { bytesOf } from '../core/bytes'
import { copyableIn, withCopies } from '../graph/copied'
import { type Graph, valueBytes } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { computeSeconds } from '../schedule/bound'
import type { Candidate, Improver } from '../schedule/candidate'
import { DEFAULT_EFFORT, effortOf } from '../search/limits'
import { refine } from '../search/search'
import { ahead } from './overlapping'

/** The times that a step without a copy can wait for an input: in its first loop, and in the last one that reads it. */
const WAITS = 2

function* copiedOnce(
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  { layout }: Candidate,
  seconds: number,
  effort = DEFAULT_EFFORT,
): Generator<Candidate, void, number> {
  const inputs = copyableIn(graph, bytesOf(budgetPages))
  if (inputs.length === 0) return
  const bytes = inputs.reduce((n, v) => n + valueBytes(v), 0)
  const compute = computeSeconds(layout)
  const saved = Math.min(seconds - compute, (WAITS * bytes) / machine.link.inBytesPerSecond)
  const found = refine(withCopies(graph, inputs), machine, budgetPages, seconds, effortOf(effort), saved / compute)
  for (let next = found.next(Infinity); !next.done; ) next = found.next(yield ahead(next.value, machine.link))
}

export const copying: Improver = copiedOnce
