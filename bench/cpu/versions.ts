// In-core training steps of this checkout and of another one (--before FOLDER), in turns: the cost of a change of the code for a step. In: cases.
// Out: the ratio of medians, this one's over the other's, of clock and of processor time. Each side plans and measures its calls for itself.
import { resolve } from 'node:path'
import type { Case } from './cases'
import { compared, type Group } from './plot'
import { cpuOf, inTurns, millisecondsByKind, type Opening, type Options, ours, type OurStep, secondsOf } from './sides'

const WARM_UP = 2

export const measureVersions = async (c: Case, o: Options) => {
  if (o.before === undefined) throw new Error('two versions need --before FOLDER, a checkout that is set up')
  const sides = { before: ours(c, o, '', resolve(o.before)), now: ours(c, o) }
  try {
    // One after the other: each measures its calls while it plans.
    const [before, now] = [await sides.before.answer<Opening>(), await sides.now.answer<Opening>()]
    const taken = await inTurns<{ before: OurStep; now: OurStep }>(c.name, sides, WARM_UP, o)
    return {
      name: c.name,
      timeRatio: secondsOf(taken.now) / secondsOf(taken.before),
      cpuTimeRatio: cpuOf(taken.now) / cpuOf(taken.before),
      secondsPerStep: { before: secondsOf(taken.before), now: secondsOf(taken.now) },
      peakBytes: { before: before.peakBytes, now: now.peakBytes },
      millisecondsByKind: { before: millisecondsByKind(taken.before), now: millisecondsByKind(taken.now) },
      samples: { before: taken.before.kept.length, now: taken.now.kept.length },
    }
  } finally {
    for (const side of Object.values(sides)) await side.end()
  }
}
export type Versions = Awaited<ReturnType<typeof measureVersions>>

export const plottedVersions = (r: Versions): readonly Group[] => compared(r.name, r.secondsPerStep)

export const showVersions = (r: Versions): string =>
  `${r.name.padEnd(32)} before ${r.secondsPerStep.before.toFixed(4)} s, now ${r.secondsPerStep.now.toFixed(4)} s: ` +
  `${r.timeRatio.toFixed(3)} of the clock, ${r.cpuTimeRatio.toFixed(3)} of processor time`
