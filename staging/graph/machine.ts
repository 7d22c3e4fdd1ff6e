// A machine: op times, workspaces, link bandwidths and capacities. Measured profiles are made by src/, named ones are in sim/machines. Planners and
// the simulator call a machine through this interface only.
import { onceFor } from '../core/remember'
import type { DeviceDeclaration, Precision } from '../devices'
import type { AnyAttrs, CallShapes } from '../ops/op'

export interface Link {
  readonly outBytesPerSecond: number
  readonly inBytesPerSecond: number
  readonly latencySeconds: number
  /** True if both directions run at full speed at once. */
  readonly fullDuplex: boolean
  /** The mutual slowdown of compute and copies, if they share processors or memory. */
  readonly beside?: Beside
  /** True if exchanges between ranks use this link too, in one queue with copies out. */
  readonly carriesExchanges?: boolean
  /** The capacity of the memory behind it; absent: unlimited. */
  readonly bytes?: number
  /** The most bytes that a step may write there. */
  readonly writesPerStep?: number
  /** The most bytes written per second, as the mean over a long run. Plans respect it if any plan can. */
  readonly writesPerSecond?: number
  /** The link to a disk, for the bytes that exceed `bytes`. */
  readonly beyond?: Link
  /** True for a link beyond another one if its copies have a queue of their own. */
  readonly apart?: boolean
  /** True if the memory behind it is the device's own, and no part of it was offered. Then `auto` swaps nothing there. */
  readonly sameMemory?: boolean
}

/** Returns true if the machine has a lower tier. */
export const hasTier = ({ link }: Pick<Machine, 'link'>): boolean => link.beyond !== undefined || link.bytes !== 0

/** The link to the last tier. */
export const lastLink = (link: Link): Link => link.beyond ?? link

type Rate = 'outBytesPerSecond' | 'inBytesPerSecond'
/**
 * Returns the least seconds to swap `bytes` that are off the device at once. The first link moves them up to its capacity, the second link the rest.
 */
const seconds = (link: Link, bytes: number, rate: Rate): number => {
  const { beyond } = link
  if (!beyond) return bytes / link[rate]
  const far = Math.max(0, bytes - (link.bytes ?? Infinity))
  return beyond.apart
    ? Math.max(bytes / (link[rate] + beyond[rate]), far / beyond[rate])
    : (bytes - far) / Math.max(link[rate], beyond[rate]) + far / beyond[rate]
}
export const outSeconds = (link: Link, bytes: number): number => seconds(link, bytes, 'outBytesPerSecond')
export const inSeconds = (link: Link, bytes: number): number => seconds(link, bytes, 'inBytesPerSecond')

/** The slowdown of a copy while a call runs, and of a call while a copy runs. Each is a factor of at least 1. */
export interface Beside {
  readonly copies: number
  readonly calls: number
}

/** One kernel algorithm for a call. */
export interface Choice {
  /** The number of the algorithm, which only the device interprets. 0 is its first choice. */
  readonly way: number
  readonly seconds: number
  readonly workspace: number
}

/** The part of a machine that the unrolling of segments needs. */
export type Costs = Pick<Machine, 'seconds' | 'workspace' | 'choices'>

/** Batch norms are computed over all images of a step (`whole`), or over each rank's share (`local`). */
export const NORMS = ['whole', 'local'] as const
export type Norms = (typeof NORMS)[number]
/** The values that several processes divide: none, the optimizer's state, or also gradients. */
export const SHARDS = ['none', 'optimizer', 'gradients'] as const
export type Shard = (typeof SHARDS)[number]

export interface Machine {
  readonly name: string
  /** The abilities of the device that runs its plans. */
  readonly device: DeviceDeclaration
  /** True if the machine exists only in simulation. Calls take its times on such a device. */
  readonly simulated: boolean
  readonly precision: Precision
  /** The number of such machines that train together, each with its share of the batch; absent: one. */
  readonly ranks?: number
  /** If ranks have bands of one image's rows, not images of a batch: their number, and the index of this one. */
  readonly bands?: { readonly at: number; readonly of: number }
  /** Set if each rank computes batch norms over its share; absent: over the whole batch. */
  readonly norms?: 'local'
  /** The values that ranks divide in updates; absent: none. */
  readonly shard?: Exclude<Shard, 'none'>
  /** The network between the ranks, if its time counts. */
  readonly network?: { readonly name: string; readonly bytesPerSecond: number; readonly latencySeconds: number }
  readonly memoryBytes: number
  /** True if the host memory of the lower tier is a part of `memoryBytes`. */
  readonly sharesMemory?: boolean
  readonly link: Link
  readonly seconds: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
  /** The device's algorithms for a call; absent: only number 0, with `seconds` and `workspace`. The first needs the least scratch. */
  readonly choices?: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => readonly Choice[]
  readonly workspace: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
}

/** Returns the fastest algorithm for a call on a machine. */
export const fastest = (m: Costs, kind: string, attrs: AnyAttrs, s: CallShapes): Choice => {
  const ways = m.choices?.(kind, attrs, s) ?? [
    { way: 0, seconds: m.seconds(kind, attrs, s), workspace: m.workspace(kind, attrs, s) },
  ]
  return ways.reduce((a, b) => (b.seconds < a.seconds ? b : a))
}

/** Returns the machine with only those algorithms that need at most this scratch, and the one that needs least (paper 4, section 4.2). */
export const withScratch = <M extends Costs>(m: M, bytes: number): M => {
  const { choices } = m
  return choices
    ? {
        ...m,
        choices: (kind: string, attrs: AnyAttrs, s: CallShapes) =>
          choices(kind, attrs, s).filter((c, i) => i === 0 || c.workspace <= bytes),
      }
    : m
}

/** Returns the machine without a lower tier. */
export const withoutTier = onceFor((m: Machine): Machine => ({ ...m, link: { ...m.link, bytes: 0 } }))
