// Allocators replayed on the allocations of one plan. In: a plan and an allocator's name. Out: its peak, how much of it is
// fragmentation, the free space that requests could not use (paper 4, equation 1), and what mapping costs.
// Unusable free space at a request: the share of free bytes in blocks smaller than it. Nought: none; near one: all.
// Worked example, free blocks 4 4 8 and a request of 8: half of what is free is of no use to it.
import { type Either, left, right } from 'fp-ts/Either'
import { bytesOf, parseBytes } from '../../core/bytes'
import type { Plan } from '../../plan/plan'
import { type Allocator, BestFit, Gtbm, type GtbmOptions, PoolTooSmall, VirtualAddressing } from './allocators'
import { eventsOf, type Event, requestsOf } from './requests'

export interface Replay {
  readonly allocator: string
  readonly peakBytes: number
  /** The most that was asked for at once. */
  readonly requestedBytes: number
  /** Unusable free space: at the worst request, and over all requests. */
  readonly worstUnusable: number
  readonly meanUnusable: number
  readonly mappingSeconds: number
  /** Held and asked for, by call, where either changes. */
  readonly series: readonly (readonly [call: number, held: number, requested: number])[]
}

/**
 * Mapping and unmapping a chunk. Paper 1 takes 304 against 320 images/s at batch 64 with chunks of 40 MB: 10 ms a step, in
 * which ResNet-50 maps some 400 chunks.
 */
const MAP_SECONDS = 25e-6

const unusable = (free: readonly number[], bytes: number): number => {
  const total = free.reduce((n, b) => n + b, 0)
  return total === 0 ? 0 : free.reduce((n, b) => n + (b < bytes ? b : 0), 0) / total
}

const run = (name: string, allocator: Allocator, events: readonly Event[]): Replay => {
  let [peakBytes, requested, requestedBytes, worst, sum, asks] = [0, 0, 0, 0, 0, 0]
  const series: (readonly [number, number, number])[] = []
  for (const e of events) {
    if (e.ask) {
      const u = unusable(allocator.freeBlocks, e.request.bytes)
      worst = Math.max(worst, u)
      sum += u
      asks++
      allocator.ask(e.request)
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
  return {
    allocator: name,
    peakBytes,
    requestedBytes,
    worstUnusable: worst,
    meanUnusable,
    mappingSeconds: allocator.mappings * MAP_SECONDS,
    series,
  }
}

/**
 * The smallest main pool (paper 4, 3.3.3): everything in a pool that is surely large enough, less the smallest gap that is left
 * between its ends, is a first try; what fails grows by beta.
 */
const BETA_BYTES = 1024 ** 2

const searchPool = (events: readonly Event[], o?: GtbmOptions): Replay => {
  const init = events.reduce((n, e) => n + (e.ask ? e.request.bytes + 512 : 0), 0)
  const first = new Gtbm(init, o)
  let gap = init
  for (const e of events) {
    if (e.ask) first.ask(e.request)
    else first.give(e.request)
    gap = Math.min(gap, first.gapBytes)
  }
  for (let pool = init - gap; ; pool += BETA_BYTES)
    try {
      return run('gtbm', new Gtbm(pool, o), events)
    } catch (e) {
      if (!(e instanceof PoolTooSmall)) throw e
    }
}

export const ALLOCATORS = ['pages', 'best-fit', 'va:SIZE', 'gtbm'] as const

const pagesReplay = (plan: Plan, events: readonly Event[]): Replay => {
  const requested = run(
    'pages',
    { ask: () => {}, give: () => {}, heldBytes: bytesOf(plan.peakPages), freeBlocks: [], mappings: 0 },
    events,
  )
  return { ...requested, peakBytes: bytesOf(plan.peakPages) }
}

/** Whether there is such an allocator: its name with the chunk's bytes, or why not. */
export const allocatorNamed = (name: string): Either<string, { readonly name: string; readonly chunkBytes?: number }> => {
  if (name === 'pages' || name === 'best-fit' || name === 'gtbm') return right({ name })
  const size = name.startsWith('va:') ? parseBytes(name.slice(3)) : left('')
  return size._tag === 'Right' && size.right >= 512
    ? right({ name, chunkBytes: size.right })
    : left(`legal are ${ALLOCATORS.join(', ')} (va:40MiB)`)
}

export const replay = (plan: Plan, name: string, gtbm?: GtbmOptions): Replay => {
  const known = allocatorNamed(name)
  if (known._tag === 'Left') throw new Error(`no allocator '${name}': ${known.left}`)
  const events = eventsOf(requestsOf(plan))
  if (name === 'pages') return pagesReplay(plan, events)
  if (name === 'gtbm') return searchPool(events, gtbm)
  return run(name, known.right.chunkBytes === undefined ? new BestFit() : new VirtualAddressing(known.right.chunkBytes), events)
}
