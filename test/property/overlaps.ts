// Plans whose steps overlap, and the bits of their runs. In: a candidate, a machine, a budget; a plan and the lengths of runs. Out: the plan without
// overlap and those with it; losses and the final bytes of each parameter and state.
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { paged } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import type { DeviceName } from '../../staging/devices'
import type { Machine } from '../../staging/graph/machine'
import type { Plan } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { scheduled } from '../../staging/planner/fastest'
import { overlapping } from '../../staging/planner/overlapping'
import type { Candidate } from '../../staging/schedule/candidate'

export interface Overlaps {
  readonly plain: Plan
  /** Each loads another number of parts ahead. */
  readonly overlapped: readonly Plan[]
}

export const overlapsOf = (candidate: Candidate, machine: Machine, pages: number): Overlaps | undefined => {
  const planned = (c: Candidate): readonly Plan[] => {
    const plan = scheduled(c, 'auto', { machine, algorithms: 'fixed', budgetBytes: bytesOf(pages) })
    return plan ? [paged(plan)] : []
  }
  const overlapped: Plan[] = []
  const offered = overlapping(candidate.layout.graph, machine, pages, candidate, Infinity)
  for (let next = offered.next(0); !next.done; next = offered.next(0)) overlapped.push(...planned(next.value))
  const [plain] = planned(candidate)
  return plain && overlapped.length > 0 ? { plain, overlapped } : undefined
}

type Bits = readonly (readonly [name: string, bytes: string])[]

/** After runs of these numbers of steps, one after the other. */
export const bitsOf = async (device: DeviceName, plan: Plan, runs: readonly number[]): Promise<Bits> => {
  const session = new (loadNative().Session)(toTape(plan), { device, threads: 1 })
  try {
    const states = session.bindings().filter((b) => b.role === 'param' || b.role === 'state')
    for (const b of states) session.init(b.name, 7)
    const losses: number[] = []
    for (const steps of runs) {
      const source = { kind: 'synthetic', seed: 7, samples: 64, classes: 3 } as const
      const ran = await session.run({ steps, firstStep: losses.length + 1, seed: 7, source })
      assert.is(ran.arenaPeakBytes, bytesOf(plan.peakPages))
      losses.push(...ran.steps.map((s) => s.loss))
    }
    return [['loss', losses.join()], ...states.map((b) => [b.name, Buffer.from(session.read(b.name)).toString('hex')] as const)]
  } finally {
    session.dispose()
  }
}
