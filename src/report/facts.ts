// The numbers that describe a plan. In: a plan, its timeline, and facts that only the stager knows (Staging). Out: Facts, and the object that `plan
// --json` prints. Invariant: everything that can be derived from the plan is derived from it here.
import { ALIGN_BYTES, alignUp, bytesOf, mostHeld, pagesIn } from '../../staging/core/bytes'
import { elementsOf, extentOf } from '../../staging/core/box'
import { valueBytes, type Graph, isPersistent } from '../../staging/graph/graph'
import type { LowerBound } from '../../staging/bound/lowerbound'
import { lastLink, type Link } from '../../staging/graph/machine'
import { ROW_EXCHANGES } from '../../staging/graph/bands'
import { COLLECTIVES, ranksOf } from '../../staging/graph/ranks'
import { replay } from '../../staging/memory/allocators/replay'
import { opDef } from '../../staging/ops/registry'
import { isForNext } from '../../staging/plan/ahead'
import { callShapes } from '../../staging/plan/callcosts'
import { repeatedCalls } from '../../staging/plan/repeated'
import {
  type Call,
  type Cell,
  isSwappedToTier,
  isOnDisk,
  isHandedOut,
  type Plan,
  precisionOf,
  type Residency,
  tilesOf,
} from '../../staging/plan/plan'
import type { Explanation } from '../../staging/search/explain'
import type { CallTimes } from '../machine/localmachine'
import type { Tier } from '../machine/tier'
import { rowBytesSent, exchanged, sentBytes } from '../../staging/sim/networks'
import type { Timeline } from '../../staging/sim/timeline'

/**
 * Memory of a whole training process, stated in advance. On the cpu device, all parts are RAM.
 *
 * @example const mib = (p: ProcessMemory) => p.peakBytes / 2 ** 20
 */
export interface ProcessMemory {
  /** Peak of the device: the part of the budget that the plan uses. */
  readonly deviceBytes: number
  /** Swapped pages in host memory. */
  readonly swappedBytes: number
  /** Batches that are prepared ahead, with the default `prefetch`. */
  readonly feedBytes: number
  /** Outputs of a prediction that are in memory, if their form is known. */
  readonly outputBytes?: number
  /** Node, libraries, code of kernels and garbage: a constant estimate. */
  readonly codeBytes: number
  /** The sum. */
  readonly peakBytes: number
}

/**
 * Facts about a plan that the plan itself does not hold: allocator, link, in-core figures, planning time.
 *
 * @example const saved = ({ inCore }: Staging, peakBytes: number) => 1 - peakBytes / inCore.peakBytes
 */
export interface Staging {
  readonly allocator: string
  readonly link: Link
  /** Peak and compute time of the same step with everything kept and no tiles. */
  readonly inCore: { readonly peakBytes: number; readonly computeSeconds: number }
  /** Decisions with the prices of alternatives; absent if nobody asked. */
  readonly explanation?: Explanation | undefined
  /** Lower bound of the step time in this budget; absent on a device at hand: its tiles may be faster than whole values. */
  readonly bound?: LowerBound | undefined
  /** Kind of memory that holds swapped values. */
  readonly tier: Tier['kind']
  /** Peak memory of the training process by use; absent if the device has memory of its own. */
  readonly process?: ProcessMemory | undefined
  /** Number of instructions on the tape of the plan. */
  readonly instructions: number
  /** Seconds of planning, measurements included. */
  readonly planningSeconds: number
  /** Seconds of measurements. */
  readonly measuringSeconds: number
  /** Number of calls by the source of their times; undefined if all are stated. */
  readonly callTimes: CallTimes | undefined
}

// ---------------------------------------------------------------- arithmetic

/** Arithmetic of one call on its boxes; plumbing moves bytes and counts for nothing. */
export const callFlops = (plan: Plan, call: Call): number =>
  call.op < 0 ? 0 : opDef(call.kind).flops(call.attrs, callShapes(plan.graph, call.ins, call.outs))

/** Arithmetic of a graph op over whole values. */
export const opFlops = (graph: Graph, op: number): number => {
  const { kind, attrs, ins, outs } = graph.ops[op]!
  const shape = (v: number): readonly number[] => graph.values[v]!.shape
  return opDef(kind).flops(attrs, { ins: ins.map(shape), outs: outs.map(shape) })
}

/** For each segment: arithmetic in its tiles, and that of the same ops untiled. */
export const segmentFlops = (plan: Plan): readonly { readonly done: number; readonly whole: number }[] => {
  const done = plan.segments.map(() => 0)
  for (const c of plan.calls) done[c.segment]! += callFlops(plan, c)
  return plan.segments.map((s, i) => ({ done: done[i]!, whole: s.body.reduce((n, step) => n + opFlops(plan.graph, step.op), 0) }))
}

// ---------------------------------------------------------------- bytes

/** Bytes of a residency that hold something: the last page of a storage may be part empty. */
export const residencyBytes = (plan: Plan, r: Residency): number =>
  Math.max(0, Math.min(plan.storages[r.storage]!.bytes, bytesOf(r.to)) - bytesOf(r.from))

interface TouchedCalls {
  readonly cell: number
  readonly first: number
  readonly last: number
}

/** Calls [first, last] of one tile that touch a tile's local, for each tile; each call that a workspace serves. */
const localStretches = (plan: Plan): readonly TouchedCalls[] => {
  const done: TouchedCalls[] = []
  const open = new Map<number, { cell: number; tile: number; first: number; last: number }>()
  const touch = (cell: number, p: number, tile: number): void => {
    const now = open.get(cell)
    if (now && now.tile === tile) now.last = p
    else {
      if (now) done.push(now)
      open.set(cell, { cell, tile, first: p, last: p })
    }
  }
  plan.calls.forEach((c, p) => {
    for (const v of [...c.ins, ...c.outs]) if (plan.cells[v.cell]!.scope === 'local') touch(v.cell, p, c.tile)
    if (c.workspace) done.push({ cell: c.workspace.cell, first: p, last: p })
  })
  return [...done, ...open.values()]
}

/** Bytes of a cell, rounded up to 64, that lie in the pages of a residency. */
const bytesUnder = (plan: Plan, r: Residency, c: Cell): number => {
  const { offset } = plan.places[c.id]!
  const end = Math.min(offset + alignUp(c.bytes, ALIGN_BYTES), bytesOf(r.to))
  return Math.max(0, end - Math.max(offset, bytesOf(r.from)))
}

const isAtHome = (plan: Plan, c: Plan['cells'][number]): boolean => plan.storages[plan.places[c.id]!.storage]!.home !== undefined

/**
 * The maximum over calls of the bytes that are alive on the device, workspace included, values aligned to 64 bytes. A value counts from first to last
 * touch, on its resident pages, and so does one with a home; fed data count from the start of their arrival; a tile's locals from first to last touch
 * in each tile.
 */
export const liveBytes = (plan: Plan): number => {
  const change = new Float64Array(plan.calls.length + 2)
  const alive = (from: number, to: number, bytes: number): void => {
    if (to <= from) return
    change[from]! += bytes
    change[to]! -= bytes
  }
  const end = plan.calls.length
  for (const c of plan.cells) if (c.scope === 'persistent' && !isAtHome(plan, c)) alive(0, end, alignUp(c.bytes, ALIGN_BYTES))
  for (const s of localStretches(plan)) alive(s.first, s.last + 1, alignUp(plan.cells[s.cell]!.bytes, ALIGN_BYTES))
  for (const r of plan.residencies)
    for (const id of plan.storages[r.storage]!.cells) {
      const c = plan.cells[id]!
      if (c.scope !== 'whole' && c.scope !== 'fed' && !isAtHome(plan, c)) continue
      const bytes = bytesUnder(plan, r, c)
      if (bytes <= 0) continue
      const to = isForNext(r, end) ? r.release : Math.min(r.release, c.last + 1)
      alive(c.scope === 'fed' ? r.acquire : Math.max(r.acquire, c.first), to, bytes)
    }
  return mostHeld(change, end)
}

/** The parts of the lower tier in host memory and on a disk. */
export const tierShares = (
  { tierBytes, hostBytes }: Pick<Plan, 'tierBytes' | 'hostBytes'>,
  tier: Tier['kind'],
): { readonly host: number; readonly disk: number } => {
  const host = hostBytes ?? (tier === 'memory' ? tierBytes : 0)
  return { host, disk: tierBytes - host }
}

/** Bytes that a step writes to a disk and reads there. */
const diskTraffic = (plan: Plan, tier: Tier['kind']): Pick<Traffic, 'out' | 'in'> => {
  const far = plan.residencies.filter((r) => (plan.hostBytes === undefined ? tier === 'disk' : isOnDisk(plan, r)))
  const { out, in: back } = traffic({ ...plan, residencies: far })
  return { out, in: back }
}

/** For a plan that writes to a disk: the bytes of a step, their limit, and those of a week of such steps. */
export interface Wear {
  readonly bytesToDisk: number
  readonly bytesFromDisk: number
  readonly spillWritesPerStep: number | null
  readonly bytesToDiskInAWeek: number
}

const WEEK_SECONDS = 7 * 24 * 3600

/** The wear of a disk; undefined if none is used. */
export const wearOf = (
  plan: Plan,
  { makespanSeconds }: Pick<Timeline, 'makespanSeconds'>,
  staging: Staging,
): Wear | undefined => {
  const { disk } = tierShares(plan, staging.tier)
  if (disk === 0) return undefined
  const { out, in: back } = diskTraffic(plan, staging.tier)
  const { writesPerStep, writesPerSecond } = lastLink(staging.link)
  const most = writesPerStep ?? (writesPerSecond === undefined ? null : Math.floor(writesPerSecond * makespanSeconds))
  return {
    bytesToDisk: out,
    bytesFromDisk: back,
    spillWritesPerStep: most,
    bytesToDiskInAWeek: Math.round((out * WEEK_SECONDS) / makespanSeconds),
  }
}

export interface Traffic {
  /** To and from the lower tier. */
  readonly out: number
  readonly in: number
  /** From the data source. */
  readonly fed: number
  /** Of outputs. */
  readonly handedOut: number
}

export const traffic = (plan: Plan): Traffic =>
  plan.residencies.reduce(
    (t, r) => {
      const bytes = residencyBytes(plan, r)
      return {
        out: t.out + (isSwappedToTier(r) ? bytes : 0),
        in: t.in + (r.swapIn?.from === 'tier' ? bytes : 0),
        fed: t.fed + (r.swapIn?.from === 'source' ? bytes : 0),
        handedOut: t.handedOut + (isHandedOut(r) ? bytes : 0),
      }
    },
    { out: 0, in: 0, fed: 0, handedOut: 0 },
  )

/** Seconds that only the first step of a run waits: it loads the data that each other step finds loaded. */
export const firstWaitSeconds = ({ residencies, calls }: Plan, { spans }: Pick<Timeline, 'spans'>): number =>
  spans.reduce((n, { residency, start, end }) => {
    const r = residencies[residency ?? -1]
    return n + (r && isForNext(r, calls.length) ? end - start : 0)
  }, 0)

const firstWaitJson = (plan: Plan, timeline: Timeline): { readonly firstWaitSeconds?: number } => {
  const seconds = firstWaitSeconds(plan, timeline)
  return seconds > 0 ? { firstWaitSeconds: seconds } : {}
}

// ---------------------------------------------------------------- the facts

export interface Facts {
  readonly input: readonly number[]
  readonly parameters: number
  readonly persistentBytes: number
  /** Bytes of parameters and optimizer state at home in the lower tier. */
  readonly homeBytes: number
  readonly peakBytes: number
  readonly liveBytes: number
  readonly traffic: Traffic
  /** Sums over calls, as the plan's machine predicts them. */
  readonly recomputeSeconds: number
  readonly plumbingSeconds: number
  readonly haloRatio: number
  /** Lower bound of the step time, if there is one. */
  readonly bound: LowerBound | undefined
  readonly segments: { readonly tiled: number; readonly recompute: number }
}

/** Returns the excess of a step over the lower bound, as a share of the bound. */
export const gapOf = (
  { bound }: Pick<Facts, 'bound'>,
  { makespanSeconds }: Pick<Timeline, 'makespanSeconds'>,
): number | undefined => bound && Math.max(0, makespanSeconds / bound.seconds - 1)

/** Paper 5, Prop. 3: a plan that only swaps computes everything once, and swaps out and in the bytes that do not fit. */
export const swapBound = (
  { budgetBytes }: Pick<Plan, 'budgetBytes'>,
  { inCore, link }: Pick<Staging, 'inCore' | 'link'>,
): number => {
  const excess = Math.max(0, inCore.peakBytes - bytesOf(pagesIn(budgetBytes)))
  return Math.max(inCore.computeSeconds, excess / link.outBytesPerSecond + excess / link.inBytesPerSecond)
}

export const factsOf = (plan: Plan, staging: Staging): Facts => {
  const { graph, calls } = plan
  const repeated = repeatedCalls(plan)
  const seconds = (of: (c: Call, i: number) => boolean): number => calls.reduce((n, c, i) => n + (of(c, i) ? c.seconds : 0), 0)
  const flops = segmentFlops(plan)
  const done = flops.reduce((n, f) => n + f.done, 0)
  const whole = flops.reduce((n, f) => n + f.whole, 0)
  const tiled = plan.segments.filter((s) => tilesOf(s.grid) > 1).length
  const persistentBytes = graph.values.reduce((n, v) => n + (isPersistent(v) ? valueBytes(v) : 0), 0)
  const homeBytes = plan.cells.reduce((n, c) => n + (isAtHome(plan, c) ? c.bytes : 0), 0)
  const recompute = new Set(calls.filter((_, i) => repeated[i]).map((c) => c.segment)).size
  return {
    input: graph.values.find((v) => v.role === 'input')?.shape ?? [],
    parameters: graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
    persistentBytes: persistentBytes - homeBytes,
    homeBytes,
    peakBytes: bytesOf(plan.peakPages),
    liveBytes: liveBytes(plan),
    traffic: traffic(plan),
    recomputeSeconds: seconds((_, i) => repeated[i]!),
    plumbingSeconds: seconds((c) => c.op < 0),
    haloRatio: whole > 0 ? done / whole : 1,
    bound: staging.bound,
    segments: { tiled, recompute },
  }
}

/** The exchanges of ranks in a step: bytes that each sends, the seconds of its exchanges, and the hidden share of these. */
export const exchangesOf = (plan: Plan, { stallSeconds }: Pick<Timeline, 'stallSeconds'>) => {
  const ranks = ranksOf(plan.graph)
  if (ranks === 1) return undefined
  const calls = plan.calls.filter((c) => COLLECTIVES.includes(c.kind) || ROW_EXCHANGES.includes(c.kind))
  const sentBy = (c: (typeof calls)[number]): number => {
    const own = exchanged(c.kind, c.ins).map((v) => plan.graph.values[v.value]!)
    const bytes = own.reduce((n, v) => n + valueBytes(v), 0)
    return ROW_EXCHANGES.includes(c.kind)
      ? rowBytesSent(c.kind, c.attrs, extentOf(c.ins[0]!.box[2]), bytes)
      : sentBytes(
          c.kind,
          c.attrs['ranks'] ?? ranks,
          own.reduce((n, v) => n + elementsOf(v.shape), 0),
          bytes,
        )
  }
  const sum = (of: (c: (typeof calls)[number]) => number): number => calls.reduce((n, c) => n + of(c), 0)
  const beside = sum((c) => c.beside?.seconds ?? 0)
  const all = sum((c) => c.seconds) + beside
  return {
    ranks,
    ...(plan.graph.shard ? { shard: plan.graph.shard } : {}),
    ...(plan.network ? { network: plan.network } : {}),
    exchanges: calls.length,
    commBytes: Math.round(sum(sentBy)),
    commSeconds: all,
    commHiddenShare: all > 0 ? Math.max(0, beside - (stallSeconds.ranks ?? 0)) / all : 0,
  }
}

/** The object of `plan --json`; sizes in bytes, times in seconds. */
export const planJson = (plan: Plan, timeline: Timeline, staging: Staging) => {
  const facts = factsOf(plan, staging)
  return {
    model: plan.graph.name,
    input: facts.input,
    parameters: facts.parameters,
    strategy: plan.strategy,
    allocator: staging.allocator,
    machine: plan.machine,
    algorithms: plan.algorithms,
    precision: precisionOf(plan),
    budgetBytes: plan.budgetBytes,
    peakBytes: facts.peakBytes,
    liveBytes: facts.liveBytes,
    inCoreBytes: staging.inCore.peakBytes,
    hostBytes: tierShares(plan, staging.tier).host,
    diskBytes: tierShares(plan, staging.tier).disk,
    ...(staging.process ? { process: staging.process } : {}),
    ...wearOf(plan, timeline, staging),
    computeSeconds: timeline.computeSeconds,
    makespanSeconds: timeline.makespanSeconds,
    stallSeconds: timeline.stallSeconds,
    ...firstWaitJson(plan, timeline),
    boundSeconds: facts.bound?.seconds ?? null,
    gap: gapOf(facts, timeline) ?? null,
    recomputeSeconds: facts.recomputeSeconds,
    haloRatio: facts.haloRatio,
    bytesOut: facts.traffic.out,
    bytesIn: facts.traffic.in,
    bytesFed: facts.traffic.fed,
    segments: plan.segments.length,
    calls: plan.calls.length,
    instructions: staging.instructions,
    planningSeconds: staging.planningSeconds,
    measuringSeconds: staging.measuringSeconds,
    callTimes: staging.callTimes ?? { stated: plan.calls.length },
    ...exchangesOf(plan, timeline),
    ...(staging.allocator === 'pages' ? {} : allocationJson(plan, staging.allocator)),
  }
}

/** The plan on a run-time allocator: its peak instead of the pages', its unusable bytes, and the seconds of mapping. */
const allocationJson = (plan: Plan, allocator: string) => {
  const { peakBytes, requestedBytes, worstUnusable, meanUnusable, mappingSeconds } = replay(plan, allocator)
  return { peakBytes, requestedBytes, worstUnusable, meanUnusable, mappingSeconds }
}

export type PlanJson = ReturnType<typeof planJson>
