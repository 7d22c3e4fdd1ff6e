// In-core steps with activations in bf16 beside our own in fp32 and PyTorch's under autocast, taken in turns. In: cases. Out: ratios of
// medians, the plans' memory, and where our time goes in either precision.
import { join } from 'node:path'
import { type Case, STEPS_AT_ONCE } from './cases'
import * as side from './sides'
import { type Options, type OurStep, type PeerStep, secondsOf, type Opening } from './sides'

const WARM_UP = 1

export const measureBf16 = async (c: Case, o: Options) => {
  const graph = join(o.folder, 'graph.json')
  const us = side.ours({ ...c, precision: 'bf16' }, o, graph)
  const opening = await us.answer<Opening>()
  const ours32 = side.ours(c, o)
  const peer = side.peer('autocast', o, graph, side.TUNED)
  try {
    const fp32Opening = await ours32.answer<Opening>()
    await peer.answer()
    const { mine, fp32, theirs } = await side.inTurns<{ mine: OurStep; fp32: OurStep; theirs: PeerStep }>(
      c.name,
      { mine: us, fp32: ours32, theirs: peer },
      WARM_UP,
      o,
    )
    return {
      name: c.name,
      /** Over our own step in fp32. */
      ownRatio: secondsOf(mine) / secondsOf(fp32),
      /** Over PyTorch's, channels-last under autocast with a tuned allocator. */
      timeRatio: secondsOf(mine) / secondsOf(theirs),
      /** The same two of processor time, where neighbours disturb the clock. */
      ownCpuRatio: side.cpuOf(mine) / side.cpuOf(fp32),
      cpuTimeRatio: side.cpuOf(mine) / STEPS_AT_ONCE / side.cpuOf(theirs),
      /** The plans' peaks: bf16 over fp32. */
      peakRatio: opening.peakBytes / fp32Opening.peakBytes,
      secondsPerStep: secondsOf(mine),
      predictedSecondsPerStep: opening.predictedSeconds,
      planPeakBytes: opening.peakBytes,
      processPeakBytes: side.memoryOf(mine),
      peers: {
        autocast: { secondsPerStep: secondsOf(theirs), memoryBytes: side.memoryOf(theirs) },
        'spillway in fp32': { secondsPerStep: secondsOf(fp32), memoryBytes: side.memoryOf(fp32) },
      },
      millisecondsByKind: side.millisecondsByKind(mine),
      fp32MillisecondsByKind: side.millisecondsByKind(fp32),
      samples: mine.kept.length,
      dropped: mine.dropped,
    }
  } finally {
    for (const who of [us, ours32, peer]) await who.end()
  }
}
export type InBf16 = Awaited<ReturnType<typeof measureBf16>>

export const showBf16 = (r: InBf16): string =>
  `${r.name.padEnd(32)} ${(r.secondsPerStep * 1000).toFixed(0).padStart(6)} ms  of fp32 ${r.ownRatio.toFixed(3)} (cpu ${r.ownCpuRatio.toFixed(3)})  ` +
  `of autocast ${r.timeRatio.toFixed(3)} (cpu ${r.cpuTimeRatio.toFixed(3)})  peak ${r.peakRatio.toFixed(2)}`
