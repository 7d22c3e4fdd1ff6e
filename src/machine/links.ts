// The links between a device and its lower tier. In: measured or stated speeds, and their limits. Out: a plan's Link.
import { dirname, resolve } from 'node:path'
import { freeRoom } from '../files/places'
import { statAt } from '../files/whole'
import type { Link } from '../../staging/graph/machine'
import type { Speeds } from './profile'
import { availableBytes } from './memory'
import type { TierOptions } from './localmachine'
import { type Tier, tierOf } from './tier'

/** A throttled link is not slowed by compute beside it, nor does it copy all the time. */
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
  const stat = statAt(folder)
  return stat ? `disk:${stat.dev}` : fileSystemOf(dirname(resolve(folder)))
}

/** The memory, and the disk space, of measuring a link: no more is requested (native/runtime/bandwidth.cpp). */
const LINK_MEMORY_BYTES = 256 * 1024 ** 2
const LINK_DISK_BYTES = 64 * 1024 ** 2

/** Returns true if there is space to measure a link here. */
export const isMeasurable = (spill: string | undefined): boolean =>
  availableBytes() >= LINK_MEMORY_BYTES && (spill === undefined || (freeRoom(spill)?.bytes ?? 0) >= LINK_DISK_BYTES)

/** The bytes that may be written to a disk in a week, over its size. Disks are sold for 300 to 600 times, in all their life. */
const WEEK_OF_WRITES = 300
const WEEK_SECONDS = 7 * 24 * 3600

/** The size of a disk, and its free bytes. */
interface Room {
  readonly size: number
  readonly free: number
}

/** That of a machine that exists in simulation. */
export const STATED_DISK: Room = { size: 4e12, free: 4e12 }

export const roomOf = (folder: string): Room | undefined => {
  const space = freeRoom(folder)
  return space && { size: space.size, free: space.bytes }
}

/** The parts of the lower tier: the link to the host's memory and its bytes, that to a disk and its free bytes. */
export interface Tiers {
  readonly memory: () => Link
  readonly memoryBytes?: number | undefined
  /** The part of it before a disk; default: all. 0: it is the memory of the device. */
  readonly besideDisk?: number
  readonly disk: () => Link
  readonly room?: Room | undefined
  /** Copies to the two do not stand in line. */
  readonly apart: boolean
}

/** Host memory as far as it goes, and the disk for the rest. */
export const tieredLink = ({ spill, hostMemory, spillWritesPerStep }: TierOptions, t: Tiers): Link => {
  const most = (bytes: number | undefined): Pick<Link, 'bytes'> => (bytes === undefined ? {} : { bytes })
  const isDevices = t.besideDisk === 0 && hostMemory === undefined
  if (tierOf(spill).kind === 'memory')
    return { ...t.memory(), ...most(hostMemory ?? t.memoryBytes), ...(isDevices ? { sameMemory: true } : {}) }
  const disk: Link = {
    ...t.disk(),
    ...most(t.room?.free),
    ...(spillWritesPerStep === undefined
      ? t.room && { writesPerSecond: (WEEK_OF_WRITES * t.room.size) / WEEK_SECONDS }
      : { writesPerStep: spillWritesPerStep }),
  }
  const memoryBytes = hostMemory ?? t.besideDisk ?? t.memoryBytes
  // Fed values come from memory if that is not the device's own.
  return memoryBytes === 0 && !t.apart
    ? disk
    : { ...t.memory(), ...most(memoryBytes), beyond: { ...disk, ...(t.apart ? { apart: true } : {}) } }
}

/** The stated rates of links, by tier: no plan with fixed algorithms depends on the machine's own. */
export const STATED_LINKS: Readonly<Record<Tier['kind'], Speeds>> = {
  memory: { outBytesPerSecond: 8e9, inBytesPerSecond: 8e9, fullDuplex: true, beside: { copies: 1.3, calls: 1.3 } },
  disk: { outBytesPerSecond: 2e9, inBytesPerSecond: 2e9, fullDuplex: false, beside: { copies: 1.3, calls: 1.1 } },
}
