// Pools before it rectifies: max(relu(x)) = relu(max(x)), value and gradient, since a rectifier does not reorder values (and
// where it makes equals of different ones, at slope 0, their gradient is 0 either way). The rectifier then sees the few
// values that the pool leaves. Legal for every slope that relu has (0 or more).
import type { Op } from '../../graph/graph'
import { rewritePairs } from './rewrite'

export const poolThenRelu = rewritePairs('pool-first', (first, second, g) => {
  if (first.kind !== 'relu' || second.kind !== 'max_pool') return undefined
  const [middle] = first.outs
  const pool: Op = { ...second, ins: [first.ins[0]!], outs: [middle!] }
  const relu: Op = { ...first, ins: [middle!], outs: second.outs }
  return { ops: [pool, relu], middle: g.values[second.outs[0]!]!.shape }
})
