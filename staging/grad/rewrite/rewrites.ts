// The passes that rewrite a forward graph, in order, for devices that have the fused operators. In: an elaborated network.
// Out: one that computes the same values and gradients with less memory traffic. Each pass is a `Rewrite`, tested by itself.
import type { Graph, ValueId } from '../../graph/graph'
import { flatConcat, normOfConcat, statsOfConcat } from './joinednorm'
import { poolThenRelu } from './poolfirst'
import { addThenRelu, convThenRelu, normAddThenRelu, normThenRelu } from './rectified'
import type { Rewrite, Rewritten } from './rewrite'

/** Norms first: a rectifier that costs nothing need not wait for the pool. What norms read of concatenations comes when they are whole. */
export const REWRITES: readonly Rewrite[] = [
  normThenRelu,
  addThenRelu,
  normAddThenRelu,
  poolThenRelu,
  convThenRelu,
  flatConcat,
  statsOfConcat,
  normOfConcat,
]

export const rewritten = (graph: Graph, output: ValueId): Rewritten =>
  REWRITES.reduce<Rewritten>((r, pass) => pass.apply(r.graph, r.output), { graph, output })
