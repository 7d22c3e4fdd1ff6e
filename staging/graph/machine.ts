// A machine: op times, workspaces, link bandwidths and capacities. Measured profiles are made by src/, named ones
// stand in sim/machines. Planners and the simulator ask a machine; they never know which it is.
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
  /** Exchanges between ranks beside computing pass it, too, in line with copies out. */
  readonly carriesExchanges?: boolean
  /** The capacity of its far end; absent: unlimited. */
  readonly bytes?: number
  /** The most bytes that a step may write there. */
  readonly writesPerStep?: number
  /** The mean limit of written bytes per second over a long run. Plans keep it if some plan can. */
  readonly writesPerSecond?: number
  /** The link to a disk, for bytes beyond the capacity of this one's far end. */
  readonly beyond?: Link
  /** For a link beyond another one: its copies have a queue of their own. */
  readonly apart?: boolean
  /** Its far end is memory of the device itself, and no part of it was offered: `auto` moves nothing there. */
  readonly sameMemory?: boolean
}

/** Returns true if the machine has a lower tier. */
export const hasTier = ({ link }: Pick<Machine, 'link'>): boolean => link.beyond !== undefined || link.bytes !== 0

/** The link to the last place of moved bytes. */
export const lastLink = (link: Link): Link => link.beyond ?? link

type Rate = 'outBytesPerSecond' | 'inBytesPerSecond'
/** The least seconds of a number of bytes that are away at once: the first link moves them up to its capacity, the other one the rest. */
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

/** How many times as long it takes, at least 1: a copy while a call runs, and a call while something is copied. */
export interface Beside {
  readonly copies: number
  readonly calls: number
}

/** One way to run a call. */
export interface Choice {
  /** A number that only the device understands; 0 is its first choice. */
  readonly way: number
  readonly seconds: number
  readonly workspace: number
}

/** The part of a machine that unrolling of segments needs. */
export type Costs = Pick<Machine, 'seconds' | 'workspace' | 'choices'>

/** Norms of batches are of all images of a step, or of each rank's share. */
export const NORMS = ['whole', 'local'] as const
export type Norms = (typeof NORMS)[number]
/** The values that several processes divide: none, the optimizer's state, or gradients, too. */
export const SHARDS = ['none', 'optimizer', 'gradients'] as const
export type Shard = (typeof SHARDS)[number]

export interface Machine {
  readonly name: string
  /** The abilities of the device that runs plans for it. */
  readonly device: DeviceDeclaration
  /** It exists only in simulation: it stands for such a device, and calls take its times. */
  readonly simulated: boolean
  readonly precision: Precision
  /** How many such machines train together, each with its share of the batch; absent: one. */
  readonly ranks?: number
  /** If ranks have bands of one image's rows, not images of a batch: their number, and the index of this one. */
  readonly bands?: { readonly at: number; readonly of: number }
  /** Norms of batches are of each one's share; absent: of the whole batch. */
  readonly norms?: 'local'
  /** The values of updates that each has a part of; absent: none. */
  readonly shard?: Exclude<Shard, 'none'>
  /** The network between them, if its time counts. */
  readonly network?: { readonly name: string; readonly bytesPerSecond: number; readonly latencySeconds: number }
  readonly memoryBytes: number
  /** The host memory of the lower tier is a part of `memoryBytes`. */
  readonly sharesMemory?: boolean
  readonly link: Link
  readonly seconds: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
  /** The device's ways to run a call; absent: only way 0, with `seconds` and `workspace`. The first takes the least scratch. */
  readonly choices?: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => readonly Choice[]
  readonly workspace: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
}

/** The fastest way to run a call on a machine. */
export const fastest = (m: Costs, kind: string, attrs: AnyAttrs, s: CallShapes): Choice => {
  const ways = m.choices?.(kind, attrs, s) ?? [
    { way: 0, seconds: m.seconds(kind, attrs, s), workspace: m.workspace(kind, attrs, s) },
  ]
  return ways.reduce((a, b) => (b.seconds < a.seconds ? b : a))
}

/** The machine with only those ways that take at most this scratch, or the least of all (paper 4, section 4.2). */
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

/** The machine without a lower tier. */
export const withoutTier = onceFor((m: Machine): Machine => ({ ...m, link: { ...m.link, bytes: 0 } }))
