// Seconds of a step as planned against as measured, for plans of every sort. In: a claim to make. Out: a claim for each network
// and strategy: within a tenth of the quickest of some steps, which is what a machine takes that is left to itself; the median beside it
// tells what this one was like. Invariant: each plan runs in a process of its own, a step of each in turns, so that a drift of the
// machine's speed meets all alike; predictions are made after a first run of each, as a user's second run has them, and before the steps
// that they are held against; those are steps beside which nothing else ran, or the figures say so (`quiet`).
import { tmpdir } from 'node:os'
import { isLeft } from 'fp-ts/Either'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { CASES, type Case } from '../cpu/cases'
import { median, noSamples, type Options, ours, type OurStep, sample, type Samples, type Told } from '../cpu/sides'
import type { Talker } from '../cpu/process'
import { stageNamed } from '../../src/cli/stage'
import { loadNative } from '../../src/native'
import type { Claiming } from './claims'

const TOLERANCE = 0.1
/** Turns of a first run: each tells the profile what calls took in the quickest quiet one of its steps. */
const TEACHING = { turns: 4, steps: 4 }
const ROUNDS = 8
const LEAST_QUIET = 5
/** Over the smallest budget. */
const MARGIN = 1.1

/** Of in-core memory, what each strategy has to work with, or the least that it can work with. */
const SHARES: Readonly<Record<string, number>> = { 'checkpoint:sqrt': 0.5, tiled: 0.5, 'swap:greedy': 0.7 }

const options: Options = {
  python: '',
  threads: loadNative().deviceInfo().threads,
  rounds: ROUNDS,
  keepBusy: false,
  modes: [],
  folder: tmpdir(),
}

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

const inCoreBytesOf = async (c: Case): Promise<number> => {
  const worker = ours(c, options)
  try {
    return (await worker.answer<Told>()).peakBytes
  } finally {
    await worker.end()
  }
}

interface Side {
  readonly strategy: string
  readonly budgetBytes: number | null
  readonly worker: Talker
  readonly told: Told
  readonly quiet: Samples<OurStep>
  readonly all: Samples<OurStep>
}

const opened = async (c: Case): Promise<Side> => {
  const worker = ours(c, options)
  const told = await worker.answer<Told>()
  await worker.ask('step')
  const { strategy = 'in-core', budgetBytes = null } = c
  return { strategy, budgetBytes, worker, told, quiet: noSamples(), all: noSamples() }
}

/** A busy machine has few quiet steps: then all of them count, and it is said. */
const figuresOf = (s: Side) => {
  const isQuiet = s.quiet.kept.length >= LEAST_QUIET
  const steps = (isQuiet ? s.quiet : s.all).kept
  const seconds = steps.map((step) => step.seconds)
  const secondsPerStep = Math.min(...seconds)
  const quickest = steps.find((step) => step.seconds === secondsPerStep)!
  return {
    ratio: s.told.predictedSeconds / secondsPerStep,
    predictedSecondsPerStep: s.told.predictedSeconds,
    secondsPerStep,
    medianSecondsPerStep: median(seconds),
    allSeconds: seconds,
    budgetBytes: s.budgetBytes,
    peakBytes: s.told.peakBytes,
    kernelSeconds: quickest.kernelSeconds,
    stallSeconds: quickest.stallMemorySeconds + quickest.stallDataSeconds,
    predictedComputeSeconds: s.told.predictedComputeSeconds,
    predictedStallSeconds: s.told.predictedStallSeconds,
    quiet: isQuiet,
    samples: s.quiet.kept.length,
    dropped: s.quiet.dropped,
  }
}

/** All cases side by side, for as long as something is done with them. */
const together = async (cases: readonly Case[], use: (sides: readonly Side[]) => Promise<void>): Promise<void> => {
  const sides: Side[] = []
  try {
    for (const c of cases) sides.push(await opened(c))
    await use(sides)
  } finally {
    for (const s of sides) await s.worker.end()
  }
}

export const predictions = async (claim: Claiming): Promise<void> => {
  for (const plain of CASES) {
    const inCoreBytes = await inCoreBytesOf(plain)
    const cases = [plain, ...Object.keys(SHARES).map((s) => budgeted(plain, s, inCoreBytes))]
    await together(cases.map((c) => ({ ...c, stepsAtOnce: TEACHING.steps })), async (sides) => {
      for (let i = 0; i < TEACHING.turns; i++) for (const s of sides) await s.worker.ask('step')
    })
    await together(cases, async (sides) => {
      for (let i = 0; i < ROUNDS; i++) for (const s of sides) await sample(s.worker, s.quiet, options, s.all)
      for (const s of sides) {
        const figures = figuresOf(s)
        claim('predict', `${plain.name} ${s.strategy}`, Math.abs(figures.ratio - 1) <= TOLERANCE, figures)
      }
    })
  }
}
