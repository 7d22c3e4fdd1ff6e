// Small tiles of joint plans (joint.ts), for budgets that nothing else fits. In: the training graph, a machine. Out: candidates, each with fewer
// pages than the one before. Values are dropped in the order of their recompute seconds for each byte, and each drop updates the prices of the values
// that depend on it. Large parameters and state are on the device, or in the lower tier between their uses.
import { isLeft, right } from 'fp-ts/Either'
import { certain } from '../core/certain'
import { mapped } from '../core/mapped'
import { type Graph, isPersistent, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { hasTier, type Link, type Machine } from '../graph/machine'
import { homesIn, unitsOf } from '../memory/homes'
import { type Homes, type Persistents, SMALL_BYTES } from '../memory/place'
import type { Segment } from '../plan/plan'
import { updatedByRows } from '../tile/byrows'
import { forwardOps } from '../tile/segments'
import { cutForLink } from './activations'
import { atLeastOf } from './atleast'
import { type Candidate, type Deferred, deferred, type Finest, type Planner, swappingOnDemand } from './candidate'
import { opCosts } from './chain'
import { type FineTiles, fineTiles, type KnownTiles, knownTiles } from './finetiles'
import { RecomputeCost } from './recomputecost'
import { type Joint, jointOf, jointSegments, type Limits, keptFor } from './joint'
import { layOut } from './layout'
import { onceFor } from './remember'

// ---------------------------------------------------------------- the order of drops

/** The order of drops, and the costs of each number of drops. */
interface Order {
  readonly joint: Joint
  readonly values: readonly ValueId[]
  /** By number of dropped values, from none to all. */
  readonly recomputeSeconds: readonly number[]
  readonly keptBytes: readonly number[]
  /** The seconds of the step's calls without recomputation. */
  readonly seconds: number
  readonly forwardSeconds: number
}

export const orderOf = onceFor((graph, machine): Order => {
  const costs = opCosts(graph, machine)
  const joint = jointOf(graph, costs)
  const cost = new RecomputeCost(graph, costs, joint.makers, joint.backward, keptFor(joint, new Set()))
  const bytes = (v: ValueId): number => valueBytes(graph.values[v]!)
  const price = new Map(mapped(joint.droppable, (v) => [v, cost.price(v) / bytes(v)]))
  const values: ValueId[] = []
  const recomputeSeconds = [cost.total]
  const keptBytes = [joint.droppable.reduce((n, v) => n + bytes(v), 0)]
  while (price.size > 0) {
    let next = -1
    for (const [v, p] of price) if (next < 0 || p < price.get(next)!) next = v
    price.delete(next)
    const changed = cost.drop(next)
    for (const v of changed) if (price.has(v)) price.set(v, cost.price(v) / bytes(v))
    values.push(next)
    recomputeSeconds.push(cost.total)
    keptBytes.push(keptBytes.at(-1)! - bytes(next))
  }
  const seconds = (ops: readonly { readonly id: OpId }[]): number => ops.reduce((n, op) => n + costs[op.id]!.seconds, 0)
  return {
    joint,
    values,
    recomputeSeconds,
    keptBytes,
    seconds: seconds(graph.ops),
    forwardSeconds: seconds(forwardOps(graph)),
  }
})

// ---------------------------------------------------------------- candidates

interface Choice extends Limits {
  /** The number of dropped values of the order. */
  readonly dropped: number
  readonly whole?: number
  readonly persistents: Persistents
}

/** The step of a choice, laid out when it is read. Loops also end where all values that cross are kept. */
const candidateOf = (graph: Graph, machine: Machine, choice: Choice): Deferred => {
  const { joint, values, recomputeSeconds, seconds } = orderOf(graph, machine)
  const { dropped, persistents } = choice
  let made: readonly Segment[] | undefined
  const segments = (): readonly Segment[] => {
    if (made) return made
    const out = new Set(values.slice(0, dropped))
    const tiled = jointSegments(joint, out, { ...choice, cut: true })
    // Tiles that are not legal somewhere are none at all.
    const step = isLeft(tiled) ? certain('whole values are always legal')(jointSegments(joint, out, UNLIMITED)) : tiled.right
    made = persistents === 'home' ? updatedByRows(graph, step) : step
    return made
  }
  const like = (of: readonly Segment[], g = graph): Candidate =>
    swappingOnDemand(cutForLink(layOut(g, of, machine, { packing: 'rows', persistents }), machine.link), machine)
  return deferred(LEAST * (seconds + recomputeSeconds[dropped]!), () => like(segments()), {
    like,
    atLeast: () => atLeastOf(graph, segments(), machine, persistents),
  })
}
const UNLIMITED: Limits = { forward: Infinity, backward: Infinity }
/** The emitted step leaves out unread ops. */
const LEAST = 0.95

/**
 * For each number of dropped values, the least seconds of the step in a number of bytes: the excess leaves during the forward and comes back during
 * the backward, and neither is shorter than its compute.
 */
const estimates = (o: Order, space: number, link: Link): readonly number[] =>
  mapped(o.recomputeSeconds, (again, n) => {
    const excess = Math.max(0, o.keptBytes[n]! - space)
    return (
      Math.max(o.forwardSeconds, excess / link.outBytesPerSecond) +
      Math.max(o.seconds - o.forwardSeconds + again, excess / link.inBytesPerSecond)
    )
  })

const mayBeHome = (graph: Graph, machine: Machine): boolean =>
  hasTier(machine) && graph.values.some((v) => isPersistent(v) && valueBytes(v) >= SMALL_BYTES)

/** The shares of all bytes for which small tiles are listed: budgets below them use other candidates. */
const LISTED = [1 / 64, 1 / 256]

/** Without a lower tier, recomputed shares of the order: nothing else makes room. */
const SHARES = [1, 3 / 4, 1 / 2]

/** The numbers of dropped values: with a lower tier, the fastest for a budget of no bytes. */
const dropCounts = (order: Order, machine: Machine): readonly number[] => {
  if (!hasTier(machine)) return mapped(SHARES, (share) => Math.round(share * order.values.length))
  const estimate = estimates(order, 0, machine.link)
  return [estimate.indexOf(Math.min(...estimate))]
}

/** Small tiles, with all recomputation that they need. The last ones have large parameters and state in the lower tier. */
export function* smallTiles(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const order = orderOf(graph, machine)
  const kinds: readonly Persistents[] = mayBeHome(graph, machine) ? ['resident', 'home'] : ['resident']
  for (const persistents of kinds)
    for (const dropped of dropCounts(order, machine))
      for (const part of LISTED) {
        const limit = part * order.keptBytes[0]!
        const whole = persistents === 'home' ? { whole: limit } : {}
        yield candidateOf(graph, machine, { dropped, persistents, forward: limit, backward: limit, ...whole })
      }
}

/** If nothing of any strategy fits: from all pages down, tiles that take this part of the ones before them. */
const FINER = Math.SQRT1_2

/** Without a lower tier: everything is recomputed in ever smaller tiles, until they need no fewer pages. */
function* finerTiles(graph: Graph, machine: Machine, mostCalls: number): Generator<Candidate, number | undefined, boolean> {
  const { values, keptBytes } = orderOf(graph, machine)
  let least = Infinity
  for (let part = LISTED.at(-1)! / FINER_PART; ; part /= FINER_PART) {
    const limit = part * keptBytes[0]!
    const candidate = candidateOf(graph, machine, {
      dropped: values.length,
      persistents: 'resident',
      forward: limit,
      backward: limit,
    })
    yield candidate
    if (candidate.least >= least) return undefined
    least = candidate.least
    const next = FINER_PART * candidate.layout.calls.length
    if (next > mostCalls) return next
  }
}
const FINER_PART = 4

/** Until the op that takes most is in tiles as small as can be. */
function* finestTiles(graph: Graph, machine: Machine, mostCalls: number): Generator<Candidate, number | undefined, boolean> {
  if (!hasTier(machine)) return yield* finerTiles(graph, machine, mostCalls)
  let tooMany: number | undefined
  const known = knownTiles()
  for (const persistents of placesFor(graph, machine)) {
    const calls = yield* finestAt(graph, machine, mostCalls, persistents, known)
    if (calls !== undefined) tooMany = Math.min(calls, tooMany ?? Infinity)
  }
  return tooMany
}

/** Places of parameters and state: only large ones in the lower tier, then all that may be there. */
const placesFor = (graph: Graph, machine: Machine): readonly Homes[] => {
  const large = mayBeHome(graph, machine) ? 'home' : 'resident'
  const homes = homesIn(unitsOf(graph))
  const hasSmall = [...homes.keys()].some((v) => valueBytes(graph.values[v]!) < SMALL_BYTES)
  return hasSmall ? [large, homes] : [large]
}

function* finestAt(
  graph: Graph,
  machine: Machine,
  mostCalls: number,
  persistents: Homes,
  known: KnownTiles,
): Generator<Candidate, number | undefined, boolean> {
  const order = orderOf(graph, machine)
  let tooMany: number | undefined
  for (const dropped of new Set([0, ...dropCounts(order, machine)])) {
    const out = new Set(order.values.slice(0, dropped))
    const joint = certain('whole values are always legal')(jointSegments(order.joint, out, { ...UNLIMITED, cut: true }))
    const whole = persistents === 'resident' ? joint : updatedByRows(graph, joint)
    const tiles = fineTiles(graph, machine, whole, persistents, known)
    if (!tiles) continue
    let before = Infinity
    for (let pages = tiles(Infinity).likely * FINER; ; pages *= FINER) {
      const limit = Math.floor(pages)
      const finer = tiles(limit)
      if (finer.likely >= before) {
        if (finer.likely > limit) break
        continue
      }
      if (finer.calls > mostCalls) {
        tooMany = Math.min(finer.calls, tooMany ?? Infinity)
        break
      }
      before = finer.likely
      yield fineCandidate(graph, machine, finer, persistents)
      if (before > limit) break
    }
  }
  return tooMany
}

/** Its segments have a slice for each row of tiles, so they are computed only for a layout. */
const fineCandidate = (graph: Graph, machine: Machine, tiles: FineTiles, persistents: Homes): Deferred => {
  const make = (): Candidate => {
    const segments = certain('grids were looked at')(tiles.segments())
    return swappingOnDemand(
      cutForLink(layOut(graph, segments, machine, { packing: 'rows', persistents, parts: 'fine' }), machine.link),
      machine,
    )
  }
  return deferred(0, make, { atLeast: () => ({ pages: tiles.least, seconds: () => 0 }) })
}

/** Tiles as small as possible: without recomputation, and with that of `dropCounts`. */
export const jointFinest: Finest = finestTiles

export const jointSmall: Planner = (graph, machine) => right(smallTiles(graph, machine))
