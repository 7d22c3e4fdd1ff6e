// A machine: op times, workspaces, link bandwidths and capacities. Measured profiles are made by src/, named ones
// stand in sim/machines. Planners and the simulator ask a machine; they never know which it is.
import type { DeviceDeclaration, Precision } from '../devices'
import type { AnyAttrs, CallShapes } from '../ops/op'

export interface Link {
  readonly outBytesPerSecond: number
  readonly inBytesPerSecond: number
  readonly latencySeconds: number
  /** Whether both directions run at full speed at once. */
  readonly fullDuplex: boolean
  /** What computing and copying do to each other, where they share processors or memory. */
  readonly beside?: Beside
  /** Exchanges between ranks beside computing pass it, too, in line with copies out. */
  readonly carriesExchanges?: boolean
  /** What may lie at its far end; absent: all that is moved. */
  readonly bytes?: number
  /** What a step may write there at most. */
  readonly writesPerStep?: number
  /** What may be written there a second, in the mean over a long run, wherever a plan can do with it. */
  readonly writesPerSecond?: number
  /** To a disk, where what does not fit at this one's far end lies. */
  readonly beyond?: Link
  /** Of one that lies beyond another: its copies do not stand in line with the other's. */
  readonly apart?: boolean
  /** Its far end is memory of the device itself, and no part of it was offered: `auto` moves nothing there. */
  readonly sameMemory?: boolean
}

/** Returns true if the machine has a lower tier. */
export const hasTier = ({ link }: Pick<Machine, 'link'>): boolean => link.beyond !== undefined || link.bytes !== 0

/** The link to where the last of what is moved lies. */
export const lastLink = (link: Link): Link => link.beyond ?? link

type Rate = 'outBytesPerSecond' | 'inBytesPerSecond'
/** What so many bytes take at least that are all away at once: what the first link has no place for goes to the other one. */
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

/** What a plan needs to know of a machine to unroll its segments. */
export type Costs = Pick<Machine, 'seconds' | 'workspace' | 'choices'>

/** Whether norms of batches are of all images of a step, or of each rank's share. */
export const NORMS = ['whole', 'local'] as const
export type Norms = (typeof NORMS)[number]
/** What several processes have parts of: nothing, the optimizer's state, or gradients, too. */
export const SHARDS = ['none', 'optimizer', 'gradients'] as const
export type Shard = (typeof SHARDS)[number]

export interface Machine {
  readonly name: string
  /** What the device can do that runs plans made for it. */
  readonly device: DeviceDeclaration
  /** Exists only in simulation: it stands for such a device, and its times are what calls take. */
  readonly simulated: boolean
  readonly precision: Precision
  /** How many such machines train together, each with its share of the batch; absent: one. */
  readonly ranks?: number
  /** Where these have bands of one image's rows, not images of a batch: how many, and which of them this one is. */
  readonly bands?: { readonly at: number; readonly of: number }
  /** Norms of batches are of each one's share; absent: of the whole batch. */
  readonly norms?: 'local'
  /** What each has a part of, of what updates need; absent: nothing. */
  readonly shard?: Exclude<Shard, 'none'>
  /** What they exchange over, where its time counts. */
  readonly network?: { readonly name: string; readonly bytesPerSecond: number; readonly latencySeconds: number }
  readonly memoryBytes: number
  /** The host memory of the lower tier is a part of `memoryBytes`. */
  readonly sharesMemory?: boolean
  readonly link: Link
  readonly seconds: (kind: string, attrs: AnyAttrs, shapes: CallShapes) => number
  /**
   * The ways in which the device can run a call; absent: only way 0, as `seconds` and `workspace` say. The first takes
   * the least scratch.
   */
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

/** The machine with only those ways that take at most so much scratch, or the least of all (paper 4, section 4.2). */
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
