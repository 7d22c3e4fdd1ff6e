// Checks a plan against the lower tier. In: a plan without physical pages, its machine, its timeline. Out: the resource that is too small, or
// undefined. Invariant: the check holds at run time, because memory and disk are allocated when a session opens. Worked example, 8 GiB swapped out, 2
// GiB of host memory, a disk with 4 GiB left: 6 GiB of the disk are needed and 4 GiB are available.
import { bytesOf } from '../core/bytes'
import { lastLink, type Machine } from '../graph/machine'
import type { TierLack } from '../schedule/candidate'
import { isSwappedToTier, isOnDisk, type UnpagedPlan } from '../plan/plan'
import type { Outcome } from '../sim/simulate'

type Placed = Pick<UnpagedPlan, 'residencies' | 'hostBytes'>

/** Returns the bytes that a step writes to the lower tier; if that is host memory and a disk, only those to the disk. */
export const writtenLast = (plan: Placed): number =>
  plan.residencies.reduce(
    (n, r) => n + (isSwappedToTier(r) && (plan.hostBytes === undefined || isOnDisk(plan, r)) ? bytesOf(r.to - r.from) : 0),
    0,
  )

const lackOf = (of: TierLack['of'], needs: number, has: number | undefined): TierLack | undefined =>
  has !== undefined && needs > has ? { of, needs: Math.ceil(needs), has: Math.floor(has) } : undefined

/** Returns the machine without the limit on writes per second, which protects its disk from wear. */
export const withoutWearLimit = (machine: Machine): Machine => {
  const without = ({ writesPerSecond: _, beyond, ...link }: Machine['link']): Machine['link'] =>
    beyond ? { ...link, beyond: without(beyond) } : link
  return { ...machine, link: without(machine.link) }
}

export const tierLack = (
  plan: UnpagedPlan,
  { link, memoryBytes, sharesMemory }: Machine,
  { mostPages, makespanSeconds }: Pick<Outcome, 'mostPages' | 'makespanSeconds'>,
): TierLack | undefined => {
  if (plan.tierBytes === 0) return undefined
  const last = lastLink(link)
  const near = plan.hostBytes ?? plan.tierBytes
  const isDisk = last.writesPerStep !== undefined || last.writesPerSecond !== undefined
  const { bytes } = link
  const device = sharesMemory ? bytesOf(mostPages) : 0
  const writes = isDisk ? writtenLast(plan) : 0
  return (
    lackOf(link.beyond || !isDisk ? 'host memory' : 'the disk', near, bytes) ??
    (sharesMemory ? lackOf('host memory', near, Math.max(0, memoryBytes - device)) : undefined) ??
    (link.beyond ? lackOf('the disk', plan.tierBytes - near, last.bytes) : undefined) ??
    lackOf('writes', writes, last.writesPerStep) ??
    lackOf('writes', writes, last.writesPerSecond === undefined ? undefined : last.writesPerSecond * makespanSeconds)
  )
}
