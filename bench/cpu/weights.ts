// The time of convolutions for their weights alone: reorders, panels, Winograd's forms, and back for their gradients. In: cases. Out: its share of
// their time. A call's time grows with its pixels; the rest without pixels is its weights'. If a call forms them more than once (Winograd's groups of
// tiles), repetitions count as the pixels'.
import { type Case, CASES, sized, stagedCase } from './cases'
import { convolutionsOf, secondsOfCall } from './calls'
import { compared, type Group } from './plot'
import type { Options } from './sides'
import { TILED } from './tiles'

export const WEIGHTED: readonly Case[] = [
  ...CASES.slice(0, 3),
  { ...sized('resnet50', 8, 224), name: 'resnet50 b8@224 in bf16', precision: 'bf16' },
  ...TILED.filter((c) => c.image <= 1024).map((c) => ({ ...c, name: `${c.name} in tiles` })),
]

export const measureWeights = async (c: Case, o: Options) => {
  const { plan } = stagedCase(c, o.threads).staged
  const secondsByWay: Record<string, number> = {}
  let convolutionSeconds = 0
  for (const call of convolutionsOf(plan, false)) {
    const [whole, other] = [secondsOfCall(call, o.threads), secondsOfCall(call.other, o.threads)]
    const perPixel = (whole - other) / (call.pixels - call.other.pixels)
    const alone = Math.min(Math.max(whole - perPixel * call.pixels, 0), whole)
    const way = `${call.name.slice(0, call.name.indexOf('('))} way ${call.way}`
    secondsByWay[way] = (secondsByWay[way] ?? 0) + call.calls * alone
    convolutionSeconds += call.calls * whole
  }
  const weightSeconds = Object.values(secondsByWay).reduce((n, s) => n + s, 0)
  return {
    name: c.name,
    /** A share of all convolutions of the step. */
    share: weightSeconds / convolutionSeconds,
    weightSeconds,
    convolutionSeconds,
    /** Seconds of a step by kind and way. */
    secondsByWay,
  }
}
export type Weights = Awaited<ReturnType<typeof measureWeights>>

export const plottedWeights = (r: Weights): readonly Group[] =>
  compared(r.name, { convolutions: r.convolutionSeconds, 'for weights alone': r.weightSeconds })

export const showWeights = (r: Weights): string =>
  `${r.name.padEnd(32)} weights alone ${(r.weightSeconds * 1000).toFixed(0)} ms of ${(r.convolutionSeconds * 1000).toFixed(0)} ms: ${(100 * r.share).toFixed(1)} %`
