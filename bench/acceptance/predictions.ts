// Seconds of a step as planned against as measured, for plans of every sort. In: a claim to make. Out: a claim for each network
// and strategy: within a tenth. Invariant: each plan runs in a process of its own, and medians are of steps beside which
// nothing else ran; where there were hardly any, the figures say so (`quiet`).
import { tmpdir } from 'node:os'
import { isLeft } from 'fp-ts/Either'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { CASES, type Case } from '../cpu/cases'
import { median, noSamples, type Options, ours, type OurStep, sample, type Told } from '../cpu/sides'
import { stageNamed } from '../../src/cli/stage'
import { loadNative } from '../../src/native'
import type { Claiming } from './claims'

const TOLERANCE = 0.1
const STEPS = 9
const LEAST_QUIET = 3
/** Over the smallest budget. */
const MARGIN = 1.1

/** Of in-core memory, what each strategy has to work with, or the least that it can work with. */
const SHARES: Readonly<Record<string, number>> = { 'checkpoint:sqrt': 0.5, tiled: 0.5, 'swap:greedy': 0.7 }

const options = (keepBusy: boolean): Options => ({
  python: '',
  threads: loadNative().deviceInfo().threads,
  rounds: STEPS,
  keepBusy,
  modes: [],
  folder: tmpdir(),
})

const smallest = (c: Case, strategy: string): number => {
  const staged = stageNamed(c.model, { image: [c.image, c.image], batch: c.batch, strategy, budget: PAGE_BYTES })
  if (isLeft(staged) && staged.left.tag === 'BudgetInfeasible') return staged.left.smallestBytes
  throw new Error(`${c.name}: a page was enough for ${strategy}`)
}

const budgeted = (c: Case, strategy: string, inCoreBytes: number): Case => {
  const wanted = Math.floor((SHARES[strategy]! * inCoreBytes) / PAGE_BYTES) * PAGE_BYTES
  // Tiles are chosen by times, which another process may measure otherwise: hence the margin.
  const least = Math.ceil((MARGIN * smallest(c, strategy)) / PAGE_BYTES) * PAGE_BYTES
  return { ...c, strategy, budgetBytes: Math.max(wanted, least) }
}

interface Compared {
  readonly told: Told
  readonly measured: number
  readonly figures: Readonly<Record<string, unknown>>
}

/** A busy machine has few quiet steps: then all of them count, and it is said. */
const compared = async (c: Case): Promise<Compared> => {
  const worker = ours(c, options(false))
  try {
    const told = await worker.answer<Told>()
    await worker.ask('step')
    const quiet = noSamples<OurStep>()
    const all = noSamples<OurStep>()
    for (let i = 0; i < STEPS; i++) await sample(worker, quiet, options(false), all)
    const isQuiet = quiet.kept.length >= LEAST_QUIET
    const of = (f: (s: OurStep) => number): number => median((isQuiet ? quiet : all).kept.map(f))
    const figures = {
      budgetBytes: c.budgetBytes ?? null,
      peakBytes: told.peakBytes,
      kernelSeconds: of((s) => s.kernelSeconds),
      stallSeconds: of((s) => s.stallMemorySeconds + s.stallDataSeconds),
      predictedComputeSeconds: told.predictedComputeSeconds,
      predictedStallSeconds: told.predictedStallSeconds,
      quiet: isQuiet,
      samples: quiet.kept.length,
      dropped: quiet.dropped,
    }
    return { told, measured: of((s) => s.seconds), figures }
  } finally {
    await worker.end()
  }
}

export const predictions = async (claim: Claiming): Promise<void> => {
  for (const plain of CASES) {
    let inCoreBytes = 0
    for (const strategy of ['in-core', ...Object.keys(SHARES)]) {
      const c = strategy === 'in-core' ? plain : budgeted(plain, strategy, inCoreBytes)
      const { told, measured, figures } = await compared(c)
      if (strategy === 'in-core') inCoreBytes = told.peakBytes
      const ratio = told.predictedSeconds / measured
      claim('predict', `${plain.name} ${strategy}`, Math.abs(ratio - 1) <= TOLERANCE, {
        ratio,
        predictedSecondsPerStep: told.predictedSeconds,
        secondsPerStep: measured,
        ...figures,
      })
    }
  }
}
