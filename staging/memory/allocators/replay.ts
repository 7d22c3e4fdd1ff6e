// Allocators replayed on the allocations of one plan. In: a plan and an allocator's name. Out: its peak, the fragmented part of it, the free space
// that requests could not use (paper 4, equation 1), and the cost of mapping. Unusable free space at a request: the share of free bytes in blocks
// smaller than it. Nought: none; near one: all. Worked example, free blocks 4 4 8 and a request of 8: half of the free space is of no use to it.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf, parseBytes } from '../../core/bytes'
import { certain } from '../../core/certain'
import type { Plan } from '../../plan/plan'
import { type Allocator, BestFit, chunksOf, Gtbm, type GtbmOptions, VirtualAddressing } from './allocators'
import { eventsOf, type Event, type Request, requestsOf } from './requests'

export interface Replay {
  readonly allocator: string
  readonly peakBytes: number
  /** The most that was asked for at once. */
  readonly requestedBytes: number
  /** Unusable free space: at the worst request, and over all requests. */
  readonly worstUnusable: number
  readonly meanUnusable: number
  /** For a step; permanent memory is mapped once. */
  readonly mappingSeconds: number
  /** Held and asked for, by call, where either changes. */
  readonly series: readonly (readonly [call: number, held: number, requested: number])[]
}

/**
 * Mapping and unmapping a chunk. Paper 1 takes 304 against 320 images/s at batch 64 with chunks of 40 MB: 10 ms a step, during which ResNet-50 maps
 * some 400 chunks.
 */
const MAP_SECONDS = 25e-6

/** Seconds before each call for mapping chunks, while the device waits; zero for allocators that map nothing. */
export const mappingOf = (plan: Plan, name: string): readonly number[] | undefined => {
  const { chunkBytes } = certain(`there is an allocator '${name}'`)(allocatorNamed(name))
  if (chunkBytes === undefined) return undefined
  const before = new Array<number>(plan.calls.length).fill(0)
  for (const r of requestsOf(plan))
    if (r.from > 0 || r.to < plan.calls.length) before[r.from]! += chunksOf(r, chunkBytes) * MAP_SECONDS
  return before
}

const unusable = (free: readonly number[], bytes: number): number => {
  const total = free.reduce((n, b) => n + b, 0)
  return total === 0 ? 0 : free.reduce((n, b) => n + (b < bytes ? b : 0), 0) / total
}

/** The result of an allocator, or the request that it cannot serve. */
const run = (name: string, allocator: Allocator, events: readonly Event[]): Either<Request, Replay> => {
  let [peakBytes, requested, requestedBytes, worst, sum, asks] = [0, 0, 0, 0, 0, 0]
  const series: (readonly [number, number, number])[] = []
  for (const e of events) {
    if (e.ask) {
      const u = unusable(allocator.freeBlocks, e.request.bytes)
      worst = Math.max(worst, u)
      sum += u
      asks++
      if (!allocator.ask(e.request)) return E.left(e.request)
      requested += e.request.bytes
    } else {
      allocator.give(e.request)
      requested -= e.request.bytes
    }
    peakBytes = Math.max(peakBytes, allocator.heldBytes)
    requestedBytes = Math.max(requestedBytes, requested)
    const point = [e.at, allocator.heldBytes, requested] as const
    if (series[series.length - 1]?.[0] === e.at) series[series.length - 1] = point
    else series.push(point)
  }
  const meanUnusable = asks ? sum / asks : 0
  return E.right({
    allocator: name,
    peakBytes,
    requestedBytes,
    worstUnusable: worst,
    meanUnusable,
    mappingSeconds: 0,
    series,
  })
}

/**
 * The smallest main pool (paper 4, 3.3.3). The first try is the bytes used in a pool that is surely large enough, less the smallest gap between its
 * ends. After a failure it grows by beta.
 */
const BETA_BYTES = 1024 ** 2

const searchPool = (all: readonly Event[], o?: GtbmOptions): Replay => {
  // A call allocates tensors with more readers before the others, so that they are freed last. The plan fixes the order of calls.
  const events = [...all].sort((a, b) => a.at - b.at || Number(a.ask) - Number(b.ask) || b.request.readers - a.request.readers)
  const init = events.reduce((n, e) => n + (e.ask ? e.request.bytes + 512 : 0), 0)
  const first = new Gtbm(init, o)
  let gap = init
  for (const e of events) {
    if (e.ask) first.ask(e.request)
    else first.give(e.request)
    gap = Math.min(gap, first.gapBytes)
  }
  for (let pool = init - gap; ; pool += BETA_BYTES) {
    const replayed = run('gtbm', new Gtbm(pool, o), events)
    if (E.isRight(replayed)) return replayed.right
  }
}

export const ALLOCATORS = ['pages', 'best-fit', 'va:SIZE', 'gtbm'] as const

/** Pages reserved by the plan from the beginning. */
const reserved = (plan: Plan): Allocator => ({
  ask: () => true,
  give: () => {},
  heldBytes: bytesOf(plan.peakPages),
  freeBlocks: [],
})

/** The allocator of this name, with the chunk's bytes, or the reason why there is none. */
export const allocatorNamed = (name: string): Either<string, { readonly name: string; readonly chunkBytes?: number }> => {
  if (name === 'pages' || name === 'best-fit' || name === 'gtbm') return E.right({ name })
  const legal = `allowed: ${ALLOCATORS.join(', ')} (va:40MiB)`
  return pipe(
    name.startsWith('va:') ? parseBytes(name.slice(3)) : E.left(legal),
    E.filterOrElse(
      (bytes) => bytes >= 512,
      () => legal,
    ),
    E.bimap(
      () => legal,
      (chunkBytes) => ({ name, chunkBytes }),
    ),
  )
}

export const replay = (plan: Plan, name: string, gtbm?: GtbmOptions): Replay => {
  const { chunkBytes } = certain(`there is an allocator '${name}'`)(allocatorNamed(name))
  const events = eventsOf(requestsOf(plan))
  if (name === 'gtbm') return searchPool(events, gtbm)
  const growing = chunkBytes === undefined ? new BestFit() : new VirtualAddressing(chunkBytes)
  const mappingSeconds = (mappingOf(plan, name) ?? []).reduce((a, b) => a + b, 0)
  return { ...certain('there is room')(run(name, name === 'pages' ? reserved(plan) : growing, events)), mappingSeconds }
}
