// The search over joint plans (joint.ts) for one budget. In: the training graph, a machine, pages. Out: candidates, from the one
// that an estimate prefers to better ones nearby, as the simulator says. Two things are chosen: what is made again, and how small tiles
// are. What is made again comes in one order: what costs least for a byte first, with all that it makes dearer counted anew. Parameters and
// state may be on the device or at home in the lower tier: both are begun with, and what begins well is gone on with.
// Worked example, ResNet-50 in an eighth: the outputs of the last convolution of each block, 196 MiB each in the first stage, are made
// again in 0.8 ms each where moving one takes 17 ms each way; those of the others leave and come back.
import { mapped } from '../core/mapped'
import { isLeft, right } from 'fp-ts/Either'
import { bytesOf } from '../core/bytes'
import { certain } from '../core/certain'
import { type Graph, isPersistent, type OpId, type ValueId, valueBytes } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
import { cutForLink } from './activations'
import { atLeastOf } from './atleast'
import { computeSeconds } from './bound'
import { decisionsOf } from './crossings'
import { type Candidate, type Deferred, deferred, type Finest, type Planner, swappingOnDemand } from './candidate'
import { opCosts } from './chain'
import {
  alike,
  type InTiles,
  type Joint,
  jointOf,
  jointParts,
  jointSegments,
  type Limits,
  type Makes,
  partsInTiles,
  rising,
  type Shape,
  thereFor,
} from './joint'
import type { Segment } from '../plan/plan'
import { updatedByRows } from '../tile/byrows'
import { forwardOps, type KnownSegments } from '../tile/segments'
import { type Persistents, SMALL_BYTES } from '../memory/place'
import { type FineTiles, fineTiles } from './finetiles'
import { Going } from './going'
import { inCoreLayout } from './incore'
import { layOut } from './layout'
import { missingOf, passingOf } from './passing'
import { onceFor } from './remember'

// ---------------------------------------------------------------- the order in which values go

/** What the i-th value to go leaves: seconds of making again all that went, and bytes kept. */
interface Order {
  readonly joint: Joint
  readonly rising: Joint
  readonly values: readonly ValueId[]
  /** For none gone, one gone, … all gone. */
  readonly againSeconds: readonly number[]
  readonly keptBytes: readonly number[]
  /** What the calls of the step take when nothing is made again. */
  readonly seconds: number
  readonly forwardSeconds: number
  /** Bytes of the largest value that may go. */
  readonly largest: number
}

const orderOf = onceFor((graph, machine): Order => {
  const costs = opCosts(graph, machine)
  const joint = jointOf(graph, costs)
  const going = new Going(graph, costs, joint.makers, joint.backward, thereFor(joint, new Set()))
  const bytes = (v: ValueId): number => valueBytes(graph.values[v]!)
  const price = new Map(mapped(joint.mayGo, (v) => [v, going.price(v) / bytes(v)]))
  const values: ValueId[] = []
  const againSeconds = [going.total]
  const keptBytes = [joint.mayGo.reduce((n, v) => n + bytes(v), 0)]
  while (price.size > 0) {
    let next = -1
    for (const [v, p] of price) if (next < 0 || p < price.get(next)!) next = v
    price.delete(next)
    const changed = going.go(next)
    for (const v of changed) if (price.has(v)) price.set(v, going.price(v) / bytes(v))
    values.push(next)
    againSeconds.push(going.total)
    keptBytes.push(keptBytes.at(-1)! - bytes(next))
  }
  const seconds = (ops: readonly { readonly id: OpId }[]): number => ops.reduce((n, op) => n + costs[op.id]!.seconds, 0)
  const largest = values.reduce((n, v) => Math.max(n, bytes(v)), 0)
  return {
    joint,
    rising: rising(joint),
    values,
    againSeconds,
    keptBytes,
    seconds: seconds(graph.ops),
    forwardSeconds: seconds(forwardOps(graph)),
    largest,
  }
})

// ---------------------------------------------------------------- candidates

interface Choice extends Shape, Limits {
  /** So many of the order go; or what is best where everything moves. */
  readonly gone: number | 'moving'
  /** Of a second that something moves, over one of computing: what stretches make again rather than pass it on. Absent: they pass everything. */
  readonly weight?: number
  /** Where everything moves, all stretches decide alike. */
  readonly alike?: boolean
  /** Ops run beside earlier ones that read the same. */
  readonly rises?: boolean
  /** Of the budget, what is left free for copies ahead of their time. */
  readonly ahead?: number
  readonly persistents: Persistents
}

interface Missing {
  readonly gone: ReadonlySet<ValueId>
  readonly makes: Makes
}

const jointOfChoice = (o: Order, { rises }: Choice): Joint => (rises ? o.rising : o.joint)

const missingFor = (graph: Graph, machine: Machine, choice: Choice, room: number): Missing => {
  const { gone, weight, alike: areAlike } = choice
  const order = orderOf(graph, machine)
  const joint = jointOfChoice(order, choice)
  const moving = { link: machine.link, room, weight: weight ?? 1 }
  if (gone === 'moving') {
    const found = missingOf(joint, moving)
    const makes = alike(joint, found.gone, found.passing)
    return { gone: found.gone, makes: areAlike ? makes : decisionsOf(joint, moving, makes) }
  }
  const out = new Set(order.values.slice(0, gone))
  return { gone: out, makes: alike(joint, out, weight === undefined ? undefined : passingOf(joint, out, moving)) }
}

/** The steps of choices: those that differ in nothing but their tiles have one. */
class Steps {
  private readonly known = new Map<string, InTiles>()
  private readonly missing = new Map<string, Missing>()
  private readonly byParts = new Map<string, InTiles>()
  private readonly knownSegments: KnownSegments = new Map()

  constructor(
    private readonly graph: Graph,
    private readonly machine: Machine,
    private readonly room = Infinity,
  ) {}

  /** Tiles that are not legal somewhere are none at all. */
  segments(choice: Choice): readonly Segment[] {
    const key = JSON.stringify([
      choice.gone,
      choice.weight ?? null,
      choice.alike ?? false,
      choice.rises ?? false,
      choice.cut,
      choice.carry ?? 0,
      choice.whole ?? 0,
    ])
    const step = this.known.get(key) ?? this.step(choice)
    this.known.set(key, step)
    return certain('whole values are always legal')(step(choice))
  }

  /** The same for all shapes. */
  private missingFor(choice: Choice): Missing {
    const key = JSON.stringify([choice.gone, choice.weight ?? null, choice.alike ?? false, choice.rises ?? false])
    const missing = this.missing.get(key) ?? missingFor(this.graph, this.machine, choice, this.room)
    this.missing.set(key, missing)
    return missing
  }

  private step(choice: Choice): InTiles {
    const joint = jointOfChoice(orderOf(this.graph, this.machine), choice)
    const { gone, makes } = this.missingFor(choice)
    const parts = jointParts(joint, gone, choice, makes)
    const key = mapped(parts, (p) => `${p.phase}${p.expands ? '+' : ''} ${p.ops.join()}`).join(';')
    const known = this.byParts.get(key)
    if (known) return known
    const tiles = partsInTiles(joint, parts, this.knownSegments)
    const step: InTiles = (limits) => {
      const tiled = tiles(limits)
      return isLeft(tiled) ? jointSegments(joint, gone, UNLIMITED) : tiled
    }
    this.byParts.set(key, step)
    return step
  }
}

/** The step of a choice, laid out when it is asked for. */
const candidateOf = (graph: Graph, machine: Machine, choice: Choice, steps = new Steps(graph, machine)): Deferred => {
  const { againSeconds, seconds } = orderOf(graph, machine)
  const { gone, persistents, ahead = 0 } = choice
  let made: readonly Segment[] | undefined
  const segments = (): readonly Segment[] => {
    made ??= persistents === 'home' ? updatedByRows(graph, steps.segments(choice)) : steps.segments(choice)
    return made
  }
  const like = (of: readonly Segment[], g = graph): Candidate => {
    const whole = swappingOnDemand(cutForLink(layOut(g, of, machine, { packing: 'rows', persistents }), machine.link))
    return { ...whole, fit: (pages) => whole.fit(Math.max(whole.least, Math.floor((1 - ahead) * pages))) }
  }
  return deferred(LEAST * (seconds + (gone === 'moving' ? 0 : againSeconds[gone]!)), () => like(segments()), {
    like,
    atLeast: () => atLeastOf(graph, segments(), machine, persistents),
  })
}
const UNLIMITED: Limits = { forward: Infinity, backward: Infinity }
/** The emitted step leaves out what turns out to be unread. */
const LEAST = 0.95

/**
 * For each number of values that go, what the step takes at least in so much room: what does not fit leaves during the forward and
 * comes back during the backward, neither of which is shorter than its compute.
 */
const estimates = (o: Order, room: number, link: Link): readonly number[] =>
  mapped(o.againSeconds, (again, n) => {
    const excess = Math.max(0, o.keptBytes[n]! - room)
    return (
      Math.max(o.forwardSeconds, excess / link.outBytesPerSecond) +
      Math.max(o.seconds - o.forwardSeconds + again, excess / link.inBytesPerSecond)
    )
  })

/** Calls that are laid out for all candidates together: the work of the search, whatever the machine that plans. */
const MOST_CALLS = 90_000
/** Where each candidate has tens of thousands. */
const MOST_CALLS_AFAR = 240_000

/** Of the budget, what a loop holds of parameters that are at home, and of their gradients, from its first tile to its last. */
const WHOLE = 1 / 8
/** So much of that is looked at, too. */
const LESS_WHOLE = 1 / 4

/** Of the budget, what copies ahead of their time have where much moves. */
const AHEAD = 0.15

/** Seconds of copies are fewer than bytes say, since parts of values stay. */
const WEIGHTS_AFAR = [0.8, 0.7, 0.65, 1]

/** What everything that moves takes longer than the best of others is not gone on with. */
const FAR = 1.05

/** What limits must have won together to be worth another look at each other, of the step; more, once that much work is done. */
const AGAIN = 1 / 200
const MUCH_WORK = MOST_CALLS / 3

class JointSearch {
  private readonly order: Order
  private readonly tried = new Set<string>()
  /** What other choices came to: calls that were laid out, by how much is left for copies ahead. */
  private readonly laidOut = new WeakMap<readonly Segment[], Map<number, number>>()
  private calls = 0
  private steps: Steps
  private room = Infinity
  private mostCalls = MOST_CALLS
  best: Choice | null = null
  seconds = Infinity
  /** Of the room, what tiles have that are best to begin with; none where everything moves. */
  private share = 0

  constructor(
    private readonly graph: Graph,
    private readonly machine: Machine,
    private readonly persistents: Persistents,
  ) {
    this.order = orderOf(graph, machine)
    this.steps = new Steps(graph, machine)
  }

  /** Whether it is the best so far. */
  *look(choice: Choice): Generator<Candidate, boolean, number> {
    const key = JSON.stringify([
      choice.gone,
      Math.round(choice.forward),
      Math.round(choice.backward),
      choice.cut,
      Math.round(choice.carry ?? 0),
      choice.weight ?? 0,
      choice.alike ?? false,
      choice.rises ?? false,
      choice.ahead ?? 0,
      choice.whole ?? 0,
    ])
    if (this.tried.has(key) || this.calls >= this.mostCalls) return false
    this.tried.add(key)
    const candidate = candidateOf(this.graph, this.machine, choice, this.steps)
    if (candidate.computeSeconds! >= this.seconds) return false
    const segments = this.steps.segments(choice)
    const alike = this.laidOut.get(segments) ?? new Map<number, number>()
    this.laidOut.set(segments, alike)
    const known = alike.get(choice.ahead ?? 0)
    if (known !== undefined) {
      this.calls += known
      return false
    }
    const seconds = yield candidate
    const calls = candidate.isLaidOut ? candidate.layout.calls.length : 0
    alike.set(choice.ahead ?? 0, calls)
    this.calls += calls
    if (seconds >= this.seconds) return false
    this.seconds = seconds
    this.best = choice
    return true
  }

  /** A look at tiles of several sizes, first at those that are best for `other`, and at no more where they are much worse here: whether anything fits. */
  *begin(pages: number, toBeat: number, other?: JointSearch): Generator<Candidate, boolean, number> {
    const { all, large } = persistentBytes(this.graph)
    const room = bytesOf(pages) - (this.persistents === 'home' ? all - large : all)
    if (room <= 0) return false
    const gone = (share: number): number => {
      const estimate = estimates(this.order, room * (1 - share), this.machine.link)
      return estimate.indexOf(Math.min(...estimate))
    }
    const at = (share: number, cut: boolean): Choice => ({
      gone: gone(share),
      persistents: this.persistents,
      forward: share * room,
      backward: share * room,
      cut,
      rises: true,
      ...(this.persistents === 'home' ? { whole: WHOLE * room } : {}),
    })
    this.room = room
    this.steps = new Steps(this.graph, this.machine, room)
    if (this.order.largest > room) yield* this.afar(toBeat)
    if (other && other.share > 0) {
      yield* this.first(at, other.share)
      if (this.best && this.seconds > NEAR * other.seconds) return true
    }
    yield* this.first(at, 1 / 4)
    const isQuarter = this.share === 1 / 4
    yield* this.first(at, (yield* this.first(at, 1 / 8)) || !isQuarter ? 1 / 16 : 1 / 2)
    return this.best !== null
  }

  /** Near the best so far, which there is. */
  *refine(): Generator<Candidate, void, number> {
    const { values } = this.order
    yield* this.look({ ...this.best!, carry: this.best!.backward / 2 })
    yield* this.along(values.length / 8, values.length / 8)
    yield* this.turned()
    if (this.best!.gone !== 'moving') {
      for (const weight of [1, 2, 0.5]) yield* this.look({ ...this.best!, weight })
      yield* this.look({ ...this.best!, ahead: AHEAD })
    }
    yield* this.along(values.length / 16, values.length / 50)
    for (let before = Infinity; this.seconds < (1 - AGAIN * (1 + this.calls / MUCH_WORK)) * before; ) {
      before = this.seconds
      yield* this.scaled('backward')
      yield* this.scaled('carry')
      yield* this.scaled('forward')
      if (this.best!.gone !== 'moving') yield* this.scaled('weight')
      yield* this.turned()
      const { whole } = this.best!
      if (whole !== undefined) yield* this.look({ ...this.best!, whole: whole * LESS_WHOLE })
    }
    yield* this.along(values.length / 24, this.calls > MUCH_WORK ? values.length / 100 : 1)
  }

  /** Whether it is the best so far. Stretches end at what is kept where that is what fits. */
  private *first(at: (share: number, cut: boolean) => Choice, share: number): Generator<Candidate, boolean, number> {
    const better = (yield* this.look(at(share, this.best?.cut ?? false))) || (!this.best && (yield* this.look(at(share, true))))
    if (better) this.share = share
    return better
  }

  /**
   * Where one value alone is larger than the budget everything moves: what is there is what can be there sooner than it is made again. What
   * the decisions are taken by is coarse: of several that are as good by that, one is better in fact.
   */
  private *afar(toBeat: number): Generator<Candidate, void, number> {
    const limit = this.room / 6
    const { persistents } = this
    this.mostCalls = MOST_CALLS_AFAR
    const choice = { gone: 'moving', weight: 1, ahead: AHEAD, forward: limit, backward: limit, persistents, rises: true } as const
    yield* this.look({ ...choice, alike: true })
    const all = this.seconds
    for (const [i, weight] of WEIGHTS_AFAR.entries()) {
      const isHopeless = this.best && this.seconds > FAR * toBeat
      if ((i > 0 && isHopeless) || (i > 1 && this.seconds === all)) break
      yield* this.look({ ...choice, weight })
    }
    if (this.best) {
      yield* this.scaled('backward')
      yield* this.scaled('forward')
    }
    this.mostCalls = MOST_CALLS
  }

  /** More or fewer values go, in steps that halve when they no longer help; half a value is none. */
  private *along(first: number, last: number): Generator<Candidate, void, number> {
    const most = this.order.values.length
    for (let d = first; d >= Math.max(last, 0.5); ) {
      const { gone } = this.best!
      if (gone === 'moving') return
      let better = false
      for (const n of [Math.round(gone + d), Math.round(gone - d)])
        if (!better && n >= 0 && n <= most) better = yield* this.look({ ...this.best!, gone: n })
      if (!better) d /= 2
    }
  }

  /** Stretches that end where all that crosses is kept, or no longer. */
  private *turned(): Generator<Candidate, void, number> {
    if (this.best!.gone !== 'moving') yield* this.look({ ...this.best!, cut: !this.best!.cut })
  }

  /** Larger tiles for as long as that helps, or smaller ones. */
  private *scaled(what: 'forward' | 'backward' | 'carry' | 'weight'): Generator<Candidate, void, number> {
    for (const by of [Math.SQRT2, Math.SQRT1_2]) {
      const { [what]: before } = this.best!
      if (before === undefined) return
      while (yield* this.look({ ...this.best!, [what]: this.best![what]! * by }));
      if (this.best![what] !== before) return
    }
  }
}

const persistentBytes = (graph: Graph): { readonly all: number; readonly large: number } => {
  const bytes = mapped(graph.values.filter(isPersistent), valueBytes)
  return {
    all: bytes.reduce((n, b) => n + b, 0),
    large: bytes.filter((b) => b >= SMALL_BYTES).reduce((n, b) => n + b, 0),
  }
}

/** Where large parameters and state would take this part of the budget, they may be at home in the lower tier; and from the other on they are. */
const MUCH = 1 / 8
const TOO_MUCH = 1 / 4
/** Of the two, what is this much longer to begin with stays so. */
const NEAR = 1.05

/** Better than `toBeat`, where that is so much longer than the compute of the step: the seconds of the best by then. */
export function* refineJoint(
  graph: Graph,
  machine: Machine,
  budgetPages: number,
  toBeat: number,
  worth: number,
): Generator<Candidate, number, number> {
  const compute = computeSeconds(inCoreLayout(graph, machine))
  if (toBeat < worth * compute) return toBeat
  const { large } = persistentBytes(graph)
  const share = large / bytesOf(budgetPages)
  const { outBytesPerSecond, inBytesPerSecond } = machine.link
  const isQuick = large / outBytesPerSecond + large / inBytesPerSecond < compute
  const kinds: readonly Persistents[] = [
    ...(share < TOO_MUCH || !isQuick ? (['resident'] as const) : []),
    ...(share >= MUCH ? (['home'] as const) : []),
  ]
  const searches: JointSearch[] = []
  for (const persistents of kinds) {
    const search = new JointSearch(graph, machine, persistents)
    if (yield* search.begin(budgetPages, toBeat, searches[0])) searches.push(search)
  }
  const near = NEAR * Math.min(...mapped(searches, (s) => s.seconds))
  for (const search of searches) if (search.seconds <= near) yield* search.refine()
  return Math.min(toBeat, ...mapped(searches, (s) => s.seconds))
}

/** Parts of what the step keeps and makes for which small tiles are listed: what fits none of them is for others. */
const LISTED = [1 / 64, 1 / 256]

/** Small tiles, with as much made again as if nothing fitted; and, last, with what is large of parameters and state at home. */
export function* smallTiles(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const order = orderOf(graph, machine)
  const estimate = estimates(order, 0, machine.link)
  const gone = estimate.indexOf(Math.min(...estimate))
  const kinds: readonly Persistents[] = persistentBytes(graph).large > 0 ? ['resident', 'home'] : ['resident']
  for (const persistents of kinds)
    for (const part of LISTED) {
      const limit = part * order.keptBytes[0]!
      const whole = persistents === 'home' ? { whole: limit } : {}
      yield candidateOf(graph, machine, { gone, persistents, forward: limit, backward: limit, cut: true, ...whole })
    }
}

/** Where nothing of any strategy fits: from all pages down, tiles that take this part of what the ones before them took. */
const FINER = Math.SQRT1_2

/** Until the op that takes most is in tiles as small as can be. */
function* finestTiles(graph: Graph, machine: Machine, mostCalls: number): Generator<Candidate, number | undefined, boolean> {
  const order = orderOf(graph, machine)
  const persistents: Persistents = persistentBytes(graph).large > 0 ? 'home' : 'resident'
  const estimate = estimates(order, 0, machine.link)
  let tooMany: number | undefined
  for (const gone of new Set([0, estimate.indexOf(Math.min(...estimate))])) {
    const out = new Set(order.values.slice(0, gone))
    const joint = certain('whole values are always legal')(jointSegments(order.joint, out, { ...UNLIMITED, cut: true }))
    const whole = persistents === 'home' ? updatedByRows(graph, joint) : joint
    const tiles = fineTiles(graph, machine, whole, persistents)
    if (!tiles) continue
    let before = Infinity
    for (let pages = tiles(Infinity).pages.likely * FINER; ; pages *= FINER) {
      const limit = Math.floor(pages)
      const finer = tiles(limit)
      if (finer.pages.likely >= before) break
      if (finer.calls > mostCalls) {
        tooMany = Math.min(finer.calls, tooMany ?? Infinity)
        break
      }
      before = finer.pages.likely
      yield fineCandidate(graph, machine, finer, persistents)
      if (before > limit) break
    }
  }
  return tooMany
}

/** Its segments are known when it is laid out: they have as many slices as an image has rows. */
const fineCandidate = (graph: Graph, machine: Machine, tiles: FineTiles, persistents: Persistents): Deferred => {
  const make = (): Candidate => {
    const segments = certain('grids were looked at')(tiles.segments())
    return swappingOnDemand(
      cutForLink(layOut(graph, segments, machine, { packing: 'rows', persistents, parts: 'fine' }), machine.link),
    )
  }
  return deferred(0, make, { atLeast: () => ({ pages: tiles.pages.least, seconds: () => 0 }) })
}

/** Nothing made again, with all that leaves moved; or as much as if nothing fitted. */
export const jointFinest: Finest = finestTiles

export const jointSmall: Planner = (graph, machine) => right(smallTiles(graph, machine))
