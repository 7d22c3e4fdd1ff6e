// A training graph's batch shared by several ranks: a rank is a tile along B that another process holds. In: a training graph, how many ranks.
// Out: the graph of one rank, where every sum over images becomes that of all ranks before anyone reads it.
// Invariant: R ranks have the bits of one process whose plan takes R tiles along B, since ranks merge by the rules by which tiles do.
// Worked example, 2 ranks: [bn_stats -> s, bn_apply(s), …, conv2d_bwd_weights -> dw, sgd(dw)] becomes
// [bn_stats -> s.share, all_moments -> s, bn_apply(s), …, conv2d_bwd_weights -> dw.share, all_sum -> dw, sgd(dw)].
import { type Either, left, right } from 'fp-ts/Either'
import type { GraphError } from '../../core/errors'
import { isFed, type Graph, type Op, type Value, type ValueId } from '../../graph/graph'
import { sharesOf } from '../../graph/ranks'
import { opDef } from '../../ops/registry'

/** Elements of a channel in a rank's share: what its moments are of. */
const elementsBehind = ([b, , h, w]: readonly number[]): number => b! * h! * w!

class Sharing {
  private readonly values: Value[]
  private readonly ops: Op[] = []

  constructor(
    private readonly g: Graph,
    private readonly ranks: number,
  ) {
    const shares = sharesOf(g)
    this.values = g.values.map((v) => (shares.has(v.id) ? { ...v, shape: [v.shape[0]! / ranks, ...v.shape.slice(1)] } : v))
  }

  run(): Graph {
    for (const op of this.g.ops) {
      const merges = op.outs.map((_, i) => mergeOf(op, i))
      const outs = op.outs.map((v, i) => (merges[i] ? this.shareOf(v) : v))
      this.append({ ...op, outs })
      op.outs.forEach((v, i) => merges[i] && this.total(op, outs[i]!, v, merges[i]))
    }
    return { ...this.g, values: this.values, ops: this.ops, ranks: this.ranks }
  }

  private append(op: Omit<Op, 'id'>): void {
    this.ops.push({ ...op, id: this.ops.length })
  }

  private shareOf(v: ValueId): ValueId {
    const { init: _, ...value } = this.values[v]!
    const id = this.values.length
    this.values.push({ ...value, id, name: `${value.name}.share`, role: value.role === 'loss' ? 'stat' : value.role })
    return id
  }

  private total({ layer, phase, ins }: Op, share: ValueId, total: ValueId, merge: 'sum' | 'moments'): void {
    const { ranks } = this
    const common = { layer, phase, ins: [share], outs: [total] }
    if (merge === 'sum') this.append({ kind: 'all_sum', attrs: { ranks }, ...common })
    else this.append({ kind: 'all_moments', attrs: { ranks, count: elementsBehind(this.values[ins[0]!]!.shape) }, ...common })
  }
}

/** How tiles along B merge an output. What is made image by image has nothing to merge there. */
const mergeOf = (op: Op, out: number): 'sum' | 'moments' | undefined => {
  const def = opDef(op.kind).outs[out]!
  return def.role === 'whole' ? def.merge : undefined
}

const wrong = (name: string, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ValueInvalid', name, reason, legal })

export const overRanks =
  (ranks: number) =>
  (g: Graph): Either<GraphError, Graph> => {
    if (ranks === 1) return right(g)
    const [image] = g.values.filter(isFed)
    const batch = image?.shape[0] ?? 1
    const odd = [...sharesOf(g)].map((v) => g.values[v]!).find((v) => v.shape[0] !== batch)
    if (odd)
      return wrong(odd.name, `it has ${odd.shape[0]} images and '${image!.name}' ${batch}`, 'one batch for all that ranks share')
    return batch % ranks === 0
      ? right(new Sharing(g, ranks).run())
      : wrong(image!.name, `its batch of ${batch} cannot be shared by ${ranks} ranks`, `a multiple of ${ranks}`)
  }
