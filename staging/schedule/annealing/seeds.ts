// The start of the search. In: a problem, the model of a budget. Out: for each of two orders of the ops, the plan with the best price. In a plan,
// the backward loops recompute the first ops of the order and find all other results. Plans differ in the share of ops and in the tile size.
// One order is by the seconds of an op for its bytes. The other one adds the seconds of all ops that must be recomputed with it
// (jointsearch.ts). It is better for chains of values, as in DenseNets.
// Worked example, ResNet-50: norms and rectifiers cost a twentieth of a convolution for the same bytes. One plan recomputes only these.
import { mapped } from '../../core/mapped'
import type { OpId } from '../../graph/graph'
import { orderOf } from '../jointsearch'
import { isForward } from '../../tile/segments'
import { type Decisions, keepAll } from './decisions'
import { PREFETCH_ROOM } from './limits'
import type { Model } from './model'
import type { Problem } from './problem'

/** Tile sizes, as shares of the room. */
const TILES = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
/** Recomputed shares of the order. */
const SHARES = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

/** Forward ops that a backward loop can recompute, the cheapest for its bytes first. */
const byOwnPrice = ({ graph, loops, seconds, bytes }: Problem): readonly OpId[] => {
  const price = ({ id, outs }: Problem['graph']['ops'][number]): number => seconds[id]! / outs.reduce((n, v) => n + bytes[v]!, 0)
  const may = graph.ops.filter((op) => isForward(op) && loops.some((l) => l.phase === 'backward' && l.mayRepeat[op.id] === 1))
  return mapped(
    may.sort((a, b) => price(a) - price(b) || a.id - b.id),
    (op) => op.id,
  )
}

/** Ops whose results the backward pass does not read come first: they are never kept. */
const byWholePrice = ({ graph, machine, maker }: Problem): readonly OpId[] => {
  const order = mapped(orderOf(graph, machine).values, (v) => maker[v]!)
  const inOrder = new Set(order)
  return [...graph.ops.filter((op) => isForward(op) && !inOrder.has(op.id)).map((op) => op.id), ...inOrder]
}

export const seeds = (p: Problem, model: Model): readonly Decisions[] =>
  mapped([byOwnPrice(p), byWholePrice(p)], (order) => {
    const none = new Uint8Array(p.graph.ops.length)
    let best = keepAll(p, model.room, PREFETCH_ROOM)
    let least = Infinity
    for (const share of SHARES) {
      const again = new Uint8Array(p.graph.ops.length)
      for (const op of order.slice(0, Math.round(share * order.length))) again[op] = 1
      const repeats = mapped(p.loops, (l) => (l.phase === 'backward' ? again : none))
      for (const part of TILES) {
        const tileBytes = new Float64Array(p.loops.length).fill(part * model.room)
        const seconds = model.load({ repeats, tileBytes, prefetchRoom: PREFETCH_ROOM })
        if (seconds < least) [best, least] = [model.decisions, seconds]
      }
    }
    return best
  })
