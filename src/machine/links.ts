// The links between a device and its lower tier. In: measured or stated speeds, and what holds them back. Out: a plan's Link.
import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Link } from '../../staging/graph/machine'
import type { Speeds } from './profile'
import type { Tier } from './tier'

/** A link that is held back is not slowed by what computes beside it, nor does it copy all the time. */
export const linkAt = (speeds: Speeds, o: { readonly throttle?: number }): Link => {
  const capped = (rate: number): number => Math.min(rate, o.throttle ?? Infinity)
  return {
    ...(o.throttle === undefined ? { beside: speeds.beside } : {}),
    outBytesPerSecond: capped(speeds.outBytesPerSecond),
    inBytesPerSecond: capped(speeds.inBytesPerSecond),
    latencySeconds: 1e-5,
    fullDuplex: speeds.fullDuplex || o.throttle !== undefined,
  }
}

/** The file system that a folder is on, or will be once it is made. */
export const fileSystemOf = (folder: string): string => {
  const stat = statSync(folder, { throwIfNoEntry: false })
  return stat ? `disk:${stat.dev}` : fileSystemOf(dirname(resolve(folder)))
}
export const existing = (folder: string): string => (existsSync(folder) ? folder : existing(dirname(resolve(folder))))

/** What links are said to do, by tier: nothing of a plan with fixed algorithms depends on the machine's own. */
export const STATED_LINKS: Readonly<Record<Tier['kind'], Speeds>> = {
  memory: { outBytesPerSecond: 8e9, inBytesPerSecond: 8e9, fullDuplex: true, beside: { copies: 1.3, calls: 1.3 } },
  disk: { outBytesPerSecond: 2e9, inBytesPerSecond: 2e9, fullDuplex: false, beside: { copies: 1.3, calls: 1.1 } },
}
