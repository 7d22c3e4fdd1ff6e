// The passes that rewrite a forward graph, in order, for devices that have the fused operators. In: an elaborated step.
// Out: one that computes the same values and gradients with less memory traffic. Each pass is a `Rewrite`, tested by itself.
import type { ElaboratedStep } from '../objective'
import { flatConcat, normOfConcat, statsOfConcat } from './joinednorm'
import { poolThenRelu } from './poolfirst'
import { addThenRelu, convThenRelu, normAddThenRelu, normThenRelu } from './rectified'
import type { Rewrite } from './rewrite'

/** Norms first: a free rectifier need not wait for the pool. Norms of concatenations come when these are whole. */
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

export const rewritten = (step: ElaboratedStep): ElaboratedStep => REWRITES.reduce((s, pass) => pass.apply(s), step)
