// Seconds of a step, planned and measured, for plans of every sort. In: a claim. Out: a claim for each network and strategy: the plan is within a
// tenth of the fastest of ten steps, the mean over turns. Invariant: the profile learns from the steps of one process, and predictions are compared
// with those of another, one after the other in each turn, so that a drift of the machine's speed (a virtual one's moves by a quarter within minutes)
// meets both alike; a third process plans from the written profile, as a user's second run does. Steps beside other work do not count, or the figures
// say so (`quiet`).
import { tmpdir } from 'node:os'
import { isLeft } from 'fp-ts/Either'
import { bytesOf, PAGE_BYTES, pagesFor, pagesIn } from '../../staging/core/bytes'
import type { StrategyName } from '../../staging/core/names'
import { CASES, type Case } from '../cpu/cases'
import { median, noSamples, type Options, ours, type OurStep, sample, type Samples, type Opening } from '../cpu/sides'
import type { Talker } from '../cpu/process'
import { stageNamed } from '../../src/cli/stage'
import { mean } from '../../src/machine/steptimes'
import { loadNative } from '../../src/device/native'
import type { Claiming } from './claims'

const TOLERANCE = 0.1
/** In one turn of a process. */
const STEPS = 10
const ROUNDS = 5
const LEAST_QUIET = 3
/** No counter shows the time that a hypervisor takes, only turns further apart than this: then a network is measured again. */
const STEADY = 1.25
const ATTEMPTS = 3
/** Over the smallest budget. */
const MARGIN = 1.1

/** The share of in-core memory for each strategy, or the least that it can work with. */
const SHARES: Readonly<Record<string, number>> = { 'checkpoint:sqrt': 0.5, tiled: 0.5, 'swap:greedy': 0.7 }

const options: Options = {
  python: '',
  threads: loadNative().deviceInfo().threads,
  rounds: ROUNDS,
  keepBusy: false,
  modes: [],
  folder: tmpdir(),
}

const smallest = (c: Case, strategy: StrategyName): number => {
  const staged = stageNamed(c.model, {
    measure: 'first',
    image: [c.image, c.image],
    batch: c.batch,
    strategy,
    budget: PAGE_BYTES,
  })
  if (isLeft(staged) && staged.left.tag === 'BudgetInfeasible') return staged.left.smallestBytes
  throw new Error(`${c.name}: a page was enough for ${strategy}`)
}

const budgeted = (c: Case, strategy: StrategyName, inCoreBytes: number): Case => {
  const wanted = bytesOf(pagesIn(SHARES[strategy]! * inCoreBytes))
  // Tiles are chosen by times, which another process may measure otherwise: hence the margin.
  const least = bytesOf(pagesFor(MARGIN * smallest(c, strategy)))
  return { ...c, strategy, budgetBytes: Math.max(wanted, least) }
}

const openingOf = async (c: Case): Promise<Opening> => {
  const worker = ours(c, options)
  try {
    return await worker.answer<Opening>()
  } finally {
    await worker.end()
  }
}

interface Side {
  readonly of: Case
  readonly teacher: Talker
  readonly measured: Talker
  readonly quiet: Samples<OurStep>
  readonly all: Samples<OurStep>
}

const opened = async (c: Case): Promise<Talker> => {
  const worker = ours(c, options)
  await worker.answer<Opening>()
  await worker.ask('step')
  return worker
}

/** All cases side by side, the teacher and the measured one of each in turns. */
const stepped = async (cases: readonly Case[]): Promise<readonly Side[]> => {
  const sides: Side[] = []
  try {
    for (const c of cases) {
      const teacher = await opened({ ...c, stepsAtOnce: STEPS })
      const measured = await opened({ ...c, stepsAtOnce: STEPS, teaches: false })
      sides.push({ of: c, teacher, measured, quiet: noSamples(), all: noSamples() })
    }
    for (let i = 0; i < ROUNDS; i++) {
      for (const s of sides) {
        await s.teacher.ask('step')
        await sample(s.measured, s.quiet, options, s.all)
      }
    }
  } finally {
    for (const s of sides) for (const worker of [s.teacher, s.measured]) await worker.end()
  }
  return sides
}

/** Disturbed steps teach nothing and count on neither side. A busy machine has few others: then all of them count, and the output says so. */
const figuresOf = (s: Side, opening: Opening) => {
  const quiet = s.quiet.kept.filter((turn) => turn.hadQuiet)
  const isQuiet = quiet.length >= LEAST_QUIET
  const steps = isQuiet ? quiet : s.all.kept
  const secondsPerStep = mean(steps.map((step) => step.quickestSeconds))
  return {
    ratio: opening.predictedSeconds / secondsPerStep,
    predictedSecondsPerStep: opening.predictedSeconds,
    secondsPerStep,
    allSeconds: steps.map((step) => step.quickestSeconds),
    medianSecondsPerStep: median(steps.map((step) => step.seconds)),
    budgetBytes: s.of.budgetBytes ?? null,
    peakBytes: opening.peakBytes,
    stallSeconds: median(steps.map((step) => step.stallMemorySeconds + step.stallDataSeconds)),
    predictedComputeSeconds: opening.predictedComputeSeconds,
    predictedStallSeconds: opening.predictedStallSeconds,
    quiet: isQuiet,
    turns: quiet.length,
    dropped: s.all.kept.length - quiet.length,
  }
}

const isSteady = (s: Side): boolean => {
  const seconds = s.all.kept.map((step) => step.quickestSeconds)
  return Math.max(...seconds) <= STEADY * Math.min(...seconds)
}

/** Until the machine was steady, for any prediction. */
const steppedSteadily = async (
  cases: readonly Case[],
): Promise<{ readonly sides: readonly Side[]; readonly attempts: number }> => {
  for (let attempts = 1; ; attempts++) {
    const sides = await stepped(cases)
    if (attempts === ATTEMPTS || sides.every(isSteady)) return { sides, attempts }
  }
}

export const predictions = async (claim: Claiming): Promise<void> => {
  for (const plain of CASES) {
    const { peakBytes } = await openingOf(plain)
    const cases = [plain, ...(Object.keys(SHARES) as StrategyName[]).map((s) => budgeted(plain, s, peakBytes))]
    const { sides, attempts } = await steppedSteadily(cases)
    for (const s of sides) {
      const figures = { ...figuresOf(s, await openingOf(s.of)), steady: isSteady(s), attempts }
      claim('predict', `${plain.name} ${s.of.strategy ?? 'in-core'}`, Math.abs(figures.ratio - 1) <= TOLERANCE, figures)
    }
  }
}
