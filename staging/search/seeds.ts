// The start of the search. In: a problem, the model of a budget. Out: for each of two orders of the ops, the plan with the best price. In a plan,
// the backward loops recompute the first ops of the order and find all other results. Plans differ in the share of ops and in the tile size.
// One order is by the seconds of an op for its bytes. The other one adds the seconds of all ops that must be recomputed with it
// (jointsearch.ts). It is better for chains of values, as in DenseNets.
// Worked example, ResNet-50: norms and rectifiers cost a twentieth of a convolution for the same bytes. One plan recomputes only these.
import { mapped } from '../core/mapped'
import type { OpId } from '../graph/graph'
import { orderOf } from '../schedule/jointsearch'
import { isForward } from '../tile/segments'
import { type Decisions, keepAll } from './decisions'
import { PREFETCH_RESERVE, WHOLE } from './limits'
import type { Model } from './model'
import { type Loop, mayRepeat, type Problem } from './problem'

/** Tile sizes, as shares of the budget. */
const TILES = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
/** Recomputed shares of the order. */
const SHARES = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]

/** Forward ops that a backward loop can recompute, the cheapest for its bytes first. */
const byOwnPrice = ({ graph, seconds, bytes, atomOf }: Problem, loops: readonly Loop[]): readonly OpId[] => {
  const price = ({ id, outs }: Problem['graph']['ops'][number]): number => seconds[id]! / outs.reduce((n, v) => n + bytes[v]!, 0)
  const may = graph.ops.filter((op) => isForward(op) && loops.some((l) => l.phase === 'backward' && mayRepeat(atomOf, l, op.id)))
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

/** The best plan of each order, for each kind of loops and each place of the parameters. */
export const seeds = (p: Problem, model: Model): readonly Decisions[] => {
  const places = p.units.length > 0 ? ([0, 1] as const) : ([0] as const)
  return places.flatMap((away) =>
    [false, true].flatMap((cuts) => {
      const start = keepAll(
        p,
        p.endsFor(cuts, away ? WHOLE * model.movableBytes : Infinity),
        away,
        model.movableBytes,
        PREFETCH_RESERVE,
      )
      model.load(start)
      if (model.movableBytes <= 0) return []
      const loops = mapped(model.heads, (i) => model.loops[i]!)
      return mapped([byOwnPrice(p, loops), byWholePrice(p)], (order) => best(p, model, start, order))
    }),
  )
}

const best = (p: Problem, model: Model, start: Decisions, order: readonly OpId[]): Decisions => {
  const none = new Uint8Array(p.graph.ops.length)
  let [fastest, least]: [Decisions, number] = [start, Infinity]
  for (const share of SHARES) {
    const again = new Uint8Array(p.graph.ops.length)
    for (const op of order.slice(0, Math.round(share * order.length))) again[op] = 1
    const repeats = mapped(start.repeats, (_, i) => (model.loops[i]?.phase === 'backward' ? again : none))
    for (const part of TILES) {
      const seconds = model.load({ ...start, repeats, tileBytes: new Float64Array(p.atoms).fill(part * model.movableBytes) })
      if (seconds < least) [fastest, least] = [model.decisions, seconds]
    }
  }
  return fastest
}
