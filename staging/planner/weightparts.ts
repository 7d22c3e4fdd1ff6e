// Weights in parts (graph/weightparts.ts), if whole weights do not fit into the budget or no loop may hold them. In: a training graph. Out: graphs of
// the same step with its large weights in ever smaller parts. Invariant: the list does not depend on the budget, so a refusal names the smallest
// budget of all its plans.
//
// Worked example, VGG-16: the weight of its first dense layer and a copy for the kernel take 784 MiB; parts take at most 49 and 3 MiB.
import { PAGE_BYTES } from '../core/bytes'
import { onceFor } from '../core/remember'
import { type Graph, trains } from '../graph/graph'
import { ranksOf } from '../graph/ranks'
import { countsWithin, familiesOf, weightsInParts } from '../graph/weightparts'

/** The ratio of part sizes from one graph to the next. Each graph costs a search, and parts of each size take little time. */
const SMALLER = 1 / 16

/** Returns the graphs with weights in parts. None for several ranks, which exchange whole gradients. A part smaller than a page would take a page. */
export const graphsInParts = onceFor((graph: Graph): readonly Graph[] => {
  if (!trains(graph) || ranksOf(graph) > 1 || graph.inParts) return []
  const families = familiesOf(graph)
  const graphs: Graph[] = []
  let known = ''
  const most = Math.max(0, ...families.map((f) => f.bytes))
  for (let bytes = Math.max(PAGE_BYTES, SMALLER * most); bytes >= PAGE_BYTES; bytes *= SMALLER) {
    const counts = countsWithin(families, bytes)
    const key = JSON.stringify(counts)
    const split = key === known ? undefined : weightsInParts(graph, counts, families)
    if (split) graphs.push(split)
    known = key
  }
  return graphs
})
