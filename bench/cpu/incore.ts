// In-core training steps of Spillway and PyTorch, taken in turns. In: cases. Out: ratios of medians, and where our time goes.
import { join } from 'node:path'
import { type Case, STEPS_AT_ONCE } from './cases'
import type { Talker } from './process'
import * as side from './sides'
import { type Options, MODES, type OurStep, type PeerStep, type Samples, secondsOf, type Opening } from './sides'

const WARM_UP = 2

/** Ours, and those of PyTorch's modes. */
type Steps = { spillway: OurStep } & Record<string, PeerStep>

export const measureInCore = async (c: Case, o: Options): Promise<InCore> => {
  const graph = join(o.folder, 'graph.json')
  const us = side.ours(c, o, graph)
  const peers = new Map<string, Talker>()
  try {
    const opening = await us.answer<Opening>()
    for (const name of o.modes) {
      const m = MODES[name]
      if (!m) throw new Error(`no mode '${name}'; allowed: ${Object.keys(MODES).join(', ')}`)
      const talker = side.peer(m.mode, o, graph, m.env)
      peers.set(name, talker)
      await talker.answer()
    }
    const { spillway, ...theirs } = await side.inTurns<Steps>(c.name, { spillway: us, ...Object.fromEntries(peers) }, WARM_UP, o)
    return resultOf(c, opening, spillway, new Map(Object.entries(theirs)))
  } finally {
    for (const who of [us, ...peers.values()]) await who.end()
  }
}

const CONVOLUTIONS = /^(conv2d|linear)/

const resultOf = (c: Case, opening: Opening, mine: Samples<OurStep>, theirs: ReadonlyMap<string, Samples<PeerStep>>) => {
  const peers = Object.fromEntries(
    [...theirs].map(([name, s]) => [
      name,
      { secondsPerStep: secondsOf(s), memoryBytes: side.memoryOf(s), samples: s.kept.length, dropped: s.dropped },
    ]),
  )
  const least = (best: boolean) =>
    Object.entries(peers)
      .filter(([name]) => MODES[name]!.best === best)
      .map(([, p]) => p)
      .reduce<(typeof peers)[string] | undefined>((a, b) => (a && a.secondsPerStep <= b.secondsPerStep ? a : b), undefined)
  const usual = least(false)
  const best = least(true)
  if (!usual) throw new Error('a comparison needs the mode plain or channels-last')
  const usualModes = [...theirs].filter(([name]) => !MODES[name]!.best).map(([, samples]) => samples)
  const millisecondsByKind = side.millisecondsByKind(mine)
  const secondsPerStep = secondsOf(mine)
  const convolving = Object.entries(millisecondsByKind)
    .filter(([k]) => CONVOLUTIONS.test(k))
    .reduce((n, [, ms]) => n + ms / 1000, 0)
  return {
    name: c.name,
    timeRatio: secondsPerStep / usual.secondsPerStep,
    /** The same of processor time, where neighbours disturb the clock: to be trusted with one thread only. */
    cpuTimeRatio: side.cpuOf(mine) / STEPS_AT_ONCE / Math.min(...usualModes.map(side.cpuOf)),
    bestTimeRatio: best ? secondsPerStep / Math.min(usual.secondsPerStep, best.secondsPerStep) : null,
    memoryRatio: side.memoryOf(mine) / usual.memoryBytes,
    secondsPerStep,
    predictedSecondsPerStep: opening.predictedSeconds,
    peerSecondsPerStep: usual.secondsPerStep,
    /** Share of the step that its convolutions take: 1 is their own ceiling. */
    convCeilingShare: convolving / secondsPerStep,
    /** Neither a kernel's work nor a wait: the interpreter's loop, and the cost of calls before they compute. */
    overheadShare: side.median(
      mine.kept.map(
        (s) => 1 - (s.kernelSeconds - opening.dispatchSeconds + s.stallMemorySeconds + s.stallDataSeconds) / s.seconds,
      ),
    ),
    processPeakBytes: side.memoryOf(mine),
    planPeakBytes: opening.peakBytes,
    peers,
    millisecondsByKind,
    samples: mine.kept.length,
    dropped: mine.dropped,
  }
}
export type InCore = ReturnType<typeof resultOf>

export const showInCore = (r: InCore): string =>
  `${r.name.padEnd(32)} ${(r.secondsPerStep * 1000).toFixed(0).padStart(6)} ms  peer ${(r.peerSecondsPerStep * 1000).toFixed(0).padStart(6)} ms  ` +
  `ratio ${r.timeRatio.toFixed(3)} (cpu ${r.cpuTimeRatio.toFixed(3)})  best ${r.bestTimeRatio?.toFixed(3) ?? '-'}  ` +
  `memory ${r.memoryRatio.toFixed(2)}  conv ${(100 * r.convCeilingShare).toFixed(0)} %`
