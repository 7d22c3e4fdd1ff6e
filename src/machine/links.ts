// The links between a device and its lower tier. In: measured or stated speeds, and what holds them back. Out: a plan's Link.
import { statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { freeRoom } from '../files/places'
import type { Link } from '../../staging/graph/machine'
import type { Speeds } from './profile'
import { availableBytes } from './memory'
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

/** What measuring a link takes, of memory and of a disk: more is never asked for (native/runtime/bandwidth.cpp). */
const LINK_MEMORY_BYTES = 256 * 1024 ** 2
const LINK_DISK_BYTES = 64 * 1024 ** 2

/** Whether there is room to measure a link here. */
export const isMeasurable = (spill: string | undefined): boolean =>
  availableBytes() >= LINK_MEMORY_BYTES && (spill === undefined || (freeRoom(spill)?.bytes ?? 0) >= LINK_DISK_BYTES)

/** What links are said to do, by tier: nothing of a plan with fixed algorithms depends on the machine's own. */
export const STATED_LINKS: Readonly<Record<Tier['kind'], Speeds>> = {
  memory: { outBytesPerSecond: 8e9, inBytesPerSecond: 8e9, fullDuplex: true, beside: { copies: 1.3, calls: 1.3 } },
  disk: { outBytesPerSecond: 2e9, inBytesPerSecond: 2e9, fullDuplex: false, beside: { copies: 1.3, calls: 1.1 } },
}
