// Steps of a machine's plans before any measurement, beside those after all measurements that planning asks for, in turns, under half of the in-core
// memory. In: cases. Out: the ratio of medians, the cold plan's over the measured one's, and the prediction of each. Invariant: the cold side has a
// cache folder of its own and measures no more than `train` does.
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { stageNamed } from '../../src/cli/stage'
import { CASES, type Case, sized, stagedCase } from './cases'
import { compared, type Group } from './plot'
import { inTurns, type Opening, type Options, type OurStep, script, secondsOf } from './sides'

export const COLD: readonly Case[] = [...CASES, sized('unet', 1, 256)]

const WARM_UP = 2
/** A share of in-core memory; for networks that are mostly parameters, halfway between that and the smallest budget. */
const SHARE = 0.5

/** The answer of a strategy for one page. */
const smallest = (c: Case): number => {
  const { image, batch, model } = c
  const staged = stageNamed(model, { image: [image, image], batch, algorithms: 'fixed', budget: PAGE_BYTES })
  if (isLeft(staged) && staged.left.tag === 'BudgetInfeasible') return staged.left.smallestBytes
  throw new Error(`${c.name}: a page was enough`)
}

const budgeted = (c: Case, o: Options): Case => {
  const inCore = bytesOf(stagedCase({ ...c, algorithms: 'fixed' }, o.threads).staged.plan.peakPages)
  const least = smallest(c)
  const wanted = SHARE * inCore > least ? SHARE * inCore : (least + inCore) / 2
  return { ...c, strategy: 'auto', budgetBytes: bytesOf(pagesIn(wanted)), teaches: false }
}

export const measureCold = async (c: Case, o: Options) => {
  const asked = budgeted(c, o)
  const worker = (more: Partial<Case>, env = {}) =>
    script('worker.ts', [JSON.stringify({ ...asked, ...more }), String(o.threads), ''], undefined, env)
  const sides = {
    cold: worker({ measure: 'while' }, { XDG_CACHE_HOME: mkdtempSync(join(o.folder, 'cold-')) }),
    measured: worker({ measure: 'first' }),
  }
  try {
    const [cold, measured] = [await sides.cold.answer<Opening>(), await sides.measured.answer<Opening>()]
    const taken = await inTurns<{ cold: OurStep; measured: OurStep }>(c.name, sides, WARM_UP, o)
    return {
      name: c.name,
      budgetBytes: asked.budgetBytes!,
      timeRatio: secondsOf(taken.cold) / secondsOf(taken.measured),
      secondsPerStep: { cold: secondsOf(taken.cold), measured: secondsOf(taken.measured) },
      predictedSeconds: { cold: cold.predictedSeconds, measured: measured.predictedSeconds },
      samples: { cold: taken.cold.kept.length, measured: taken.measured.kept.length },
    }
  } finally {
    for (const side of Object.values(sides)) await side.end()
  }
}
export type Cold = Awaited<ReturnType<typeof measureCold>>

export const plottedCold = (r: Cold): readonly Group[] => compared(r.name, r.secondsPerStep)

export const showCold = (r: Cold): string =>
  `${r.name.padEnd(32)} cold ${r.secondsPerStep.cold.toFixed(4)} s (${r.predictedSeconds.cold.toFixed(4)} predicted), ` +
  `measured ${r.secondsPerStep.measured.toFixed(4)} s (${r.predictedSeconds.measured.toFixed(4)}): ${r.timeRatio.toFixed(3)}`
