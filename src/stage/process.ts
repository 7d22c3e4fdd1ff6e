// The memory of a whole training process, before it runs. In: a plan and its machine. Out: bytes by use, and their sum; undefined if the device
// has memory of its own. Invariant: all bytes come from the plan, except those of code, an estimate that `npm run bench -- memory` checks.
// Worked example, ResNet-18 in 124 MiB: 124 MiB on the device, 27 MiB of batches, 160 MiB of code: 311 MiB.
import { bytesOf } from '../../staging/core/bytes'
import { withWholeRows } from '../../staging/graph/bands'
import { isFed, valueBytes } from '../../staging/graph/graph'
import type { Plan } from '../../staging/plan/plan'
import type { LocalMachine } from '../machine/localmachine'
import { CODE_BYTES } from '../machine/memory'
import { type ProcessMemory, tierShares } from '../report/facts'
import { PREFETCH } from './defaults'

/** The batches of the current step and of the next ones. A band of an image's rows arrives with the whole image. */
const feedBytes = ({ graph }: Plan): number =>
  (1 + PREFETCH) * withWholeRows(graph).values.reduce((n, v) => n + (isFed(v) ? valueBytes(v) : 0), 0)

/** The machine for another plan of the same run: if the first one swaps to host memory, `auto` may swap there, too. */
export const swappingLike = ({ tierBytes }: Plan, machine: LocalMachine): LocalMachine =>
  tierBytes > 0 ? { ...machine, link: { ...machine.link, sameMemory: false } } : machine

export const processMemory = (plan: Plan, { device, simulated, tier }: LocalMachine): ProcessMemory | undefined => {
  if (simulated || device.isCard) return undefined
  const parts = {
    deviceBytes: bytesOf(plan.peakPages),
    swappedBytes: tierShares(plan, tier.kind).host,
    feedBytes: feedBytes(plan),
    codeBytes: CODE_BYTES,
  }
  return { ...parts, peakBytes: parts.deviceBytes + parts.swappedBytes + parts.feedBytes + parts.codeBytes }
}
