// Images that do not fit: VGG-16's features in a small budget with a spill file, as megapixels a second beside the in-core step
// at 512 x 512 of the same run. In: cases. Out: rates and the process's peak memory.
import { type Case, sized } from './cases'
import { compared, type Group } from './plot'
import * as side from './sides'
import type { Options, OurStep, Opening } from './sides'

const GIB = 2 ** 30
const SMALL = sized('vgg16-features', 1, 512)

export const LARGE: readonly Case[] = [
  { ...sized('vgg16-features', 1, 4096), strategy: 'auto', budgetBytes: 1.5 * GIB, stepsAtOnce: 1 },
  { ...sized('vgg16-features', 1, 8192), strategy: 'auto', budgetBytes: 3 * GIB, stepsAtOnce: 1 },
  {
    ...sized('vgg16-features', 1, 8192),
    name: 'vgg16-features b1@8192 in 6 GiB',
    strategy: 'auto',
    budgetBytes: 6 * GIB,
    stepsAtOnce: 1,
  },
]

const rateOf = (c: Case, seconds: number): number => (c.batch * c.image * c.image) / 1e6 / seconds

/** One large step; small ones run before and after, so that a drift would show. */
export const measureLarge = async (c: Case, o: Options) => {
  const small = side.ours(SMALL, o)
  const us = side.ours({ ...c, spill: o.folder }, o)
  try {
    await small.answer<Opening>()
    const opening = await us.answer<Opening>()
    const smalls = side.noSamples<OurStep>()
    const several = async (): Promise<void> => {
      for (let i = 0; i < Math.max(3, o.rounds >> 1); i++) await side.sample(small, smalls, o)
    }
    await small.ask('step')
    await several()
    const { answer } = await us.ask<OurStep>('step')
    await several()
    side.enough(`${SMALL.name}`, smalls)
    const inCore = rateOf(SMALL, side.secondsOf(smalls))
    const rate = rateOf(c, answer.seconds)
    return {
      name: c.name,
      /** Megapixels a second over those of the in-core step at 512 x 512. */
      rateRatio: rate / inCore,
      megapixelsPerSecond: rate,
      inCoreMegapixelsPerSecond: inCore,
      secondsPerStep: answer.seconds,
      predictedSecondsPerStep: opening.predictedSeconds,
      budgetBytes: c.budgetBytes!,
      planPeakBytes: opening.peakBytes,
      processPeakBytes: answer.memoryBytes,
      strategy: opening.strategy,
      recomputeSeconds: answer.recomputeSeconds,
      /** Arithmetic in tiles over untiled: the cost of their borders. */
      haloRatio: opening.haloRatio,
      stallSeconds: answer.stallMemorySeconds,
      bytesOut: answer.bytesOut,
      bytesIn: answer.bytesIn,
    }
  } finally {
    for (const who of [us, small]) await who.end()
  }
}
export type Large = Awaited<ReturnType<typeof measureLarge>>

const gibibytes = (bytes: number): string => `${(bytes / GIB).toFixed(2)} GiB`

/** The rate beside in-core's, and the process's memory beside the budget. */
export const plottedLarge = (r: Large): readonly Group[] => [
  ...compared(
    `${r.name} in ${gibibytes(r.budgetBytes)}: megapixels a second`,
    { [`spillway, ${r.strategy}`]: r.megapixelsPerSecond, 'in-core at 512²': r.inCoreMegapixelsPerSecond },
    (rate) => `${rate.toFixed(3)} MP/s`,
  ),
  ...compared(`${r.name}: memory`, { "the process's peak": r.processPeakBytes, budget: r.budgetBytes }, gibibytes),
]

export const showLarge = (r: Large): string =>
  `${r.name.padEnd(28)} ${r.secondsPerStep.toFixed(1)} s (predicted ${r.predictedSecondsPerStep.toFixed(1)}), ${r.megapixelsPerSecond.toFixed(3)} MP/s, ` +
  `${r.rateRatio.toFixed(3)} of in-core at 512; process ${(r.processPeakBytes / 2 ** 20).toFixed(0)} MiB in a budget of ` +
  `${(r.budgetBytes / 2 ** 20).toFixed(0)} MiB (${r.strategy}); recompute ${r.recomputeSeconds.toFixed(1)} s, halo ${r.haloRatio.toFixed(3)}, stalls ${r.stallSeconds.toFixed(1)} s`
