// Checks that a plan can run here. In: its needs of memory and of disks. Out: in words the resource that is too small, and its cures. Invariant:
// simulated machines have none; the check needs no open device.
import { bytesOf } from '../../staging/core/bytes'
import { type FreeRoom, freeRoom } from '../files/places'
import { availableBytes } from '../machine/memory'
import { showSize } from '../report/format'
import { tierShares } from '../report/facts'
import type { Staged } from './staged'

/** Bytes that will be written somewhere. */
export interface Writing {
  readonly what: string
  readonly path: string
  readonly bytes: number
}

/** The plan's share of host memory: its tier, and all of it if host memory is the device's. */
const memoryLack = ({ machine, plan }: Staged): readonly string[] => {
  const tier = tierShares(plan, machine.tier.kind).host
  const device = machine.device.isCard ? 0 : bytesOf(plan.peakPages)
  // The memory of planning itself is freed before the run.
  const left = Math.max(availableBytes(), machine.device.isCard ? 0 : machine.memoryBytes)
  if (tier + device <= left) return []
  const requested = [
    ...(device > 0 ? [`${showSize(device)} on the device`] : []),
    ...(tier > 0 ? [`${showSize(tier)} of host memory`] : []),
  ]
  const cure =
    tier > 0 ? 'use --spill DIR to swap to a disk' : `use --budget ${machine.memoryBytes} (${showSize(machine.memoryBytes)})`
  return [`this machine has ${showSize(left)} of free memory, but the plan needs ${requested.join(' and ')}: ${cure}`]
}

const diskLacks = (writings: readonly Writing[]): readonly string[] => {
  const disks = new Map<number, { readonly room: FreeRoom; readonly on: Writing[] }>()
  for (const w of writings) {
    const room = freeRoom(w.path)
    if (!room || w.bytes === 0) continue
    const disk = disks.get(room.device) ?? { room, on: [] }
    disk.on.push(w)
    disks.set(room.device, disk)
  }
  return [...disks.values()].flatMap(({ room, on }) =>
    on.reduce((n, w) => n + w.bytes, 0) <= room.bytes
      ? []
      : [
          `${showSize(room.bytes)} are free at ${on.map((w) => w.path).join(' and ')}, but the run writes ` +
            `${on.map((w) => `${showSize(w.bytes)} of ${w.what}`).join(', ')}: free disk space, or choose another folder`,
        ],
  )
}

/** The resources that are too small for the plan, and for the files beside it; nothing if it can run. */
export const lacksOf = (staged: Staged, beside: readonly Writing[] = []): readonly string[] => {
  const { machine, plan } = staged
  if (machine.simulated) return []
  const spill =
    machine.tier.kind === 'disk'
      ? [{ what: 'the spill file', path: machine.tier.folder, bytes: tierShares(plan, 'disk').disk }]
      : []
  return [...memoryLack(staged), ...diskLacks([...spill, ...beside])]
}
