// The words of a training's result. In: the result, the width of the terminal. Out: its lines.
import { shownPeakBytes } from '../machine/memory'
import { plural, showPercent, showSeconds, showSize } from '../report/format'
import { lossText, metricsText } from '../train/progress'
import type { TrainResult } from '../train/result'
import { skippedText } from './output'

/** Pages of the device have an address for each stay of theirs. */
const MISLEADING = 1.25

const shownToo = ({ processPeakBytes }: TrainResult): string => {
  const shown = shownPeakBytes()
  return shown < MISLEADING * processPeakBytes ? '' : `, shown by top as ${showSize(shown)} because it counts shared pages twice`
}

/** Shares of a step that wait for data: below the first there is no note; above the second, data limit the speed. */
const WAITING = 0.05

const BOTTLENECK = 0.5

const waitingText = (waited: number, secondsPerStep: number, given: boolean): string => {
  const source = given ? 'data' : 'synthetic data'
  return waited > BOTTLENECK * secondsPerStep
    ? `${source} are the bottleneck: ${showSeconds(waited)} of each ${showSeconds(secondsPerStep)} step`
    : `${showSeconds(waited)} of each ${showSeconds(secondsPerStep)} step wait for ${source}`
}

const dataText = ({ feedSeconds, feedBytes, steps, secondsPerStep }: TrainResult, given: boolean): readonly string[] => {
  const waited = feedSeconds / Math.max(1, steps)
  const ahead = feedBytes > 0 ? [`prefetched batches use ${showSize(feedBytes)} of host memory`] : []
  const slow = waited > WAITING * secondsPerStep ? [waitingText(waited, secondsPerStep, given)] : []
  const words = [...slow, ...ahead]
  return words.length ? [`  data       ${words.join('; ')}`] : []
}

const bestText = ({ best, endedEarly }: TrainResult): readonly string[] =>
  best
    ? [
        `  best       ${best.epoch === 0 ? '' : `epoch ${best.epoch}, `}step ${best.step}: ${metricsText(best.metrics)}${endedEarly ? '; the run ended after no further improvement' : ''}`,
      ]
    : []

/** The reasons for a slow GPU, if there are any. */
const slowText = ({ ownKernels, withoutGraphs }: TrainResult): readonly string[] => [
  ...(ownKernels && ownKernels.calls > 0
    ? [
        `  kernels    ${ownKernels.calls} of ${ownKernels.of} products per step use own kernels, which are much slower: no library has an engine for them`,
      ]
    : []),
  ...(withoutGraphs === undefined ? [] : [`  graphs     off: ${withoutGraphs}`]),
]

const scaleText = ({ lossScale }: TrainResult): readonly string[] =>
  lossScale ? [`  loss scale ${lossScale.scale}; ${plural(lossScale.skipped, 'update')} skipped after an overflow`] : []

const ranksText = ({
  ranks,
  commBytes = 0,
  commSeconds = 0,
  commHiddenShare = 0,
  steps,
  resumedFrom,
}: TrainResult): readonly string[] => {
  const here = Math.max(1, steps - resumedFrom)
  return ranks === undefined
    ? []
    : [
        `  ranks      ${ranks}; each sent ${showSize(commBytes / here)} per step; exchanges took ${showSeconds(commSeconds / here)}, ${showPercent(commHiddenShare)} of it during compute`,
      ]
}

/** A hash, cut if a terminal has no line for it. */
const hashText = (hash: string, width = Number.POSITIVE_INFINITY): string =>
  width < LABELS + hash.length ? `${hash.slice(0, 16)}…` : hash

/** Columns before a hash. */
const LABELS = 21

/** Returns the words of a result for a terminal of this width; `given`: with data of the caller. */
export const trainedText = (r: TrainResult, given: boolean, width?: number): string =>
  [
    `trained ${r.model} with ${r.strategy} for ${plural(r.steps, 'step')}${r.resumedFrom ? `, ${r.resumedFrom} of them before this resume` : ''}`,
    `  losses     ${r.losses.length <= 8 ? r.losses.map(lossText).join(' ') : `${r.losses.slice(0, 4).map(lossText).join(' ')} … ${r.losses.slice(-4).map(lossText).join(' ')}`}`,
    `  time       ${showSeconds(r.secondsPerStep)} per step, predicted ${showSeconds(r.predictedSecondsPerStep)}; recompute ${showSeconds(r.recomputeSeconds)} in total`,
    `  memory     ${showSize(r.arenaPeakBytes)} on the device, budget ${showSize(r.budgetBytes)}; the process ${showSize(r.processPeakBytes)}${shownToo(r)}`,
    ...skippedText(r),
    ...dataText(r, given),
    ...slowText(r),
    ...scaleText(r),
    ...ranksText(r),
    `  swaps      out ${showSize(r.bytesOut)}, in ${showSize(r.bytesIn)}${r.diskBytes ? `; ${showSize(r.diskBytes)} on disk` : ''}`,
    ...bestText(r),
    `  weights    sha256 ${hashText(r.weightsSha256, width)}${r.savedTo === undefined ? '; not saved' : `, in ${r.savedTo}`}`,
    ...(r.runFolder === undefined ? [] : [`  run        ${r.runFolder}`]),
  ].join('\n')
