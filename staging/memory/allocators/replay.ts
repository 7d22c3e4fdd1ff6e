// Replays the allocations of one plan with an allocator. In: a plan and an allocator's name. Out: its peak, the most bytes requested at once, the free
// space that requests could not use (paper 4, equation 1), and the cost of mapping. Unusable free space at a request is the share of free bytes in
// blocks smaller than the request, from 0 to 1. Worked example, free blocks 4 4 8 and a request of 8: half of the free space is unusable.
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
  /** The most bytes requested at once. */
  readonly requestedBytes: number
  /** The share of unusable free space: at the worst request, and the mean over all requests. */
  readonly worstUnusable: number
  readonly meanUnusable: number
  /** Seconds of mapping per step. Permanent memory is mapped once and does not count. */
  readonly mappingSeconds: number
  /** The held and the requested bytes, at each call that changes them. */
  readonly series: readonly (readonly [call: number, held: number, requested: number])[]
}

/**
 * Seconds to map and unmap a chunk. Paper 1 measures 304 instead of 320 images/s at batch 64 with chunks of 40 MB: 10 ms a step, during which
 * ResNet-50 maps some 400 chunks.
 */
const MAP_SECONDS = 25e-6

/** Returns the seconds of mapping chunks before each call, while the device waits; undefined for allocators that map nothing. */
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

/** Returns the replay with an allocator, or the request that it cannot serve. */
const run = (name: string, allocator: Allocator, events: readonly Event[]): Either<Request, Replay> => {
  let [peakBytes, requested, requestedBytes, worst, sum, count] = [0, 0, 0, 0, 0, 0]
  const series: (readonly [number, number, number])[] = []
  for (const e of events) {
    if (e.isAllocation) {
      const u = unusable(allocator.freeBlocks, e.request.bytes)
      worst = Math.max(worst, u)
      sum += u
      count++
      if (!allocator.allocate(e.request)) return E.left(e.request)
      requested += e.request.bytes
    } else {
      allocator.free(e.request)
      requested -= e.request.bytes
    }
    peakBytes = Math.max(peakBytes, allocator.heldBytes)
    requestedBytes = Math.max(requestedBytes, requested)
    const point = [e.at, allocator.heldBytes, requested] as const
    if (series[series.length - 1]?.[0] === e.at) series[series.length - 1] = point
    else series.push(point)
  }
  const meanUnusable = count ? sum / count : 0
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

/** After a failure, the main pool grows by these bytes (beta, paper 4, 3.3.3). */
const BETA_BYTES = 1024 ** 2

/** Replays with the smallest main pool (paper 4, 3.3.3). The first try is the bytes of a sufficient pool, less the smallest gap between its ends. */
const replayInSmallestPool = (all: readonly Event[], o?: GtbmOptions): Replay => {
  // A call allocates tensors with more readers before the others, so that they are freed last. The plan fixes the order of calls.
  const events = [...all].sort(
    (a, b) => a.at - b.at || Number(a.isAllocation) - Number(b.isAllocation) || b.request.readers - a.request.readers,
  )
  const init = events.reduce((n, e) => n + (e.isAllocation ? e.request.bytes + 512 : 0), 0)
  const first = new Gtbm(init, o)
  let gap = init
  for (const e of events) {
    if (e.isAllocation) first.allocate(e.request)
    else first.free(e.request)
    gap = Math.min(gap, first.gapBytes)
  }
  for (let pool = init - gap; ; pool += BETA_BYTES) {
    const replayed = run('gtbm', new Gtbm(pool, o), events)
    if (E.isRight(replayed)) return replayed.right
  }
}

export const ALLOCATORS = ['pages', 'best-fit', 'va:SIZE', 'gtbm'] as const

/** Pages that the plan reserves for the whole step. */
const reserved = (plan: Plan): Allocator => ({
  allocate: () => true,
  free: () => {},
  heldBytes: bytesOf(plan.peakPages),
  freeBlocks: [],
})

/** Returns the allocator of this name, with its bytes per chunk, or the legal names. */
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
  if (name === 'gtbm') return replayInSmallestPool(events, gtbm)
  const growing = chunkBytes === undefined ? new BestFit() : new VirtualAddressing(chunkBytes)
  const mappingSeconds = (mappingOf(plan, name) ?? []).reduce((a, b) => a + b, 0)
  return { ...certain('there is room')(run(name, name === 'pages' ? reserved(plan) : growing, events)), mappingSeconds }
}
