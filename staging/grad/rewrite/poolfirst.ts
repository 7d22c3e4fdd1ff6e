// Runs a max pool before a rectifier: max(relu(x)) = relu(max(x)), value and gradient, because a rectifier does not reorder values. At slope 0 it
// makes different values equal, but their gradient is 0 in both orders. The rectifier then runs on the smaller result of the pool. Legal for each
// slope that relu has (0 or more).
import type { Op } from '../../graph/graph'
import { rewritePairs } from './rewrite'

export const poolThenRelu = rewritePairs('pool-first', (first, second, g) => {
  if (first.kind !== 'relu' || second.kind !== 'max_pool') return undefined
  const [middle] = first.outs
  const pool: Op = { ...second, ins: [first.ins[0]!], outs: [middle!] }
  const relu: Op = { ...first, ins: [middle!], outs: second.outs }
  return { ops: [pool, relu], middle: g.values[second.outs[0]!]!.shape }
})
