// The working of the plan and its reasons, in sentences. In: a plan, its timeline, the stager's knowledge. Out: plain text paragraphs. Invariant:
// every number in a sentence is a fact of this plan; an empty sentence is left out.
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import { type Facts, gapOf, type Staging, tierShares } from './facts'
import { plural, showPercent, showRatio, showSeconds, showSize } from './format'

export interface Paragraph {
  readonly heading: string
  readonly text: string
}

const sentence = (...parts: readonly (string | false)[]): string => parts.filter((p) => p !== false && p !== '').join(' ')

const list = (items: readonly string[]): string =>
  items.length < 2 ? (items[0] ?? '') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`

// ---------------------------------------------------------------- memory

/** Returns true if its loops are over the batch alone, of whole images. */
const isInParts = (plan: Plan): boolean => plan.segments.every(({ grid }) => grid.H === 1 && grid.W === 1)

const whatItDoes = (plan: Plan, facts: Facts): string => {
  const means = [
    facts.segments.tiled > 0 &&
      `cuts ${facts.segments.tiled === plan.segments.length ? 'every segment' : `${facts.segments.tiled} of ${plural(plan.segments.length, 'segment')}`} into ${isInParts(plan) ? 'parts of the batch' : 'tiles'}`,
    facts.recomputeSeconds > 0 && 'recomputes activations',
    facts.traffic.out > 0 && 'swaps values out and in',
  ].filter((m) => m !== false)
  return means.length > 0 ? `the plan ${list(means)}` : 'the plan keeps everything on the device, without recompute and swaps'
}

const memoryText = (plan: Plan, facts: Facts, staging: Staging): string => {
  const budget = bytesOf(pagesIn(plan.budgetBytes))
  const inCore = staging.inCore.peakBytes
  const over = inCore / budget
  return sentence(
    `In-core, a step would need ${showSize(inCore)} at its peak.`,
    over > 1
      ? `The budget is ${showSize(budget)}, ${showRatio(over).replace('×', '')} times smaller, so ${whatItDoes(plan, facts)}.`
      : `This fits the budget of ${showSize(budget)}; ${whatItDoes(plan, facts)}.`,
    `The peak of this plan is ${showSize(facts.peakBytes)} in whole pages (${showSize(facts.liveBytes)} of live bytes):`,
    `${showPercent(facts.peakBytes / budget)} of the budget. ${showSize(facts.persistentBytes)} of it are parameters and optimizer state, which stay on the device${facts.homeBytes > 0 ? `; another ${showSize(facts.homeBytes)} of them stay in the lower tier and are swapped in for use` : ''}.`,
  )
}

// ---------------------------------------------------------------- tiles, recompute, copies

const tilesText = (plan: Plan, facts: Facts): string => {
  const finest = plan.segments.reduce((a, b) => (tilesOf(b.grid) > tilesOf(a.grid) ? b : a))
  const { B, H, W } = finest.grid
  if (isInParts(plan))
    return sentence(
      `${plural(facts.segments.tiled, 'segment runs', 'segments run')} as loops over parts of the batch, up to ${B} parts (${finest.name}).`,
      tilesOf(plan.segments[0]!.grid) > 1 &&
        'The first part starts when its images have arrived, while the others are still being copied.',
      'Sums over the batch add up over its parts, so the result equals that of the whole batch up to rounding.',
    )
  return sentence(
    `${plural(facts.segments.tiled, 'segment runs', 'segments run')} as loops over tiles; the finest grid is ${H} rows by ${W} columns${B > 1 ? ` for each of ${B} micro-batches` : ''} (${finest.name}).`,
    'A tile needs a border of pixels from its neighbours (the halo), and every earlier convolution widens it:',
    `the tiles together need ${showRatio(facts.haloRatio)} the compute of whole images.`,
    'Gradients of overlapping borders are added, so the result equals that of the whole image up to rounding.',
    facts.plumbingSeconds > 0 && `Copying and adding tiles takes ${showSeconds(facts.plumbingSeconds)}.`,
  )
}

const recomputeText = (facts: Facts, staging: Staging): string =>
  sentence(
    `Activations that the backward pass needs and that are not kept are recomputed in ${plural(facts.segments.recompute, 'segment')}.`,
    `This costs ${showSeconds(facts.recomputeSeconds)}, ${showPercent(facts.recomputeSeconds / staging.inCore.computeSeconds)} of the in-core compute.`,
  )

const copiesText = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): string => {
  const { host, disk } = tierShares(plan, staging.tier)
  const tier = [...(host > 0 ? ['host memory'] : []), ...(disk > 0 ? ['the spill file on disk'] : [])].join(' and ')
  const stalled = timeline.stallSeconds.memory + timeline.stallSeconds.data
  return sentence(
    `${showSize(facts.traffic.out)} are swapped out to ${tier} and ${showSize(facts.traffic.in)} are swapped in during compute.`,
    stalled > 0
      ? `The compute waits ${showSeconds(stalled)} for copies, ${showPercent(stalled / timeline.makespanSeconds)} of the step.`
      : 'The compute never waits for them.',
  )
}

// ---------------------------------------------------------------- time

/** Returns a plan's distance from the lower bound in words. */
export const gapText = (facts: Facts, timeline: Timeline): string => {
  const { bound } = facts
  const gap = gapOf(facts, timeline)
  if (!bound || gap === undefined) return 'no lower bound: on this device, tiles may be faster than whole values'
  const above = gap === 0 ? 'at' : `${showPercent(gap)} above`
  return `${above} the lower bound of ${showSeconds(bound.seconds)}${bound.isCompute ? ', the compute alone' : ''}`
}

const boundText = (facts: Facts, timeline: Timeline): string =>
  facts.bound
    ? `The step is ${gapText(facts, timeline)}. No plan in this budget is faster than the bound.`
    : 'There is no lower bound: on this device, tiles may be faster than whole values.'

const timeText = (facts: Facts, timeline: Timeline): string => {
  const { memory, data, ranks = 0 } = timeline.stallSeconds
  return sentence(
    `The predicted step time is ${showSeconds(timeline.makespanSeconds)}: ${showSeconds(timeline.computeSeconds)} of compute,`,
    `${showSeconds(memory)} waiting for room in memory and ${showSeconds(data)} waiting for values.`,
    ranks > 0 ? `It waits ${showSeconds(ranks)} for exchanges between ranks.` : '',
    boundText(facts, timeline),
  )
}

export const explain = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): readonly Paragraph[] => [
  { heading: 'Memory', text: memoryText(plan, facts, staging) },
  ...(facts.segments.tiled > 0 ? [{ heading: 'Tiles', text: tilesText(plan, facts) }] : []),
  ...(facts.recomputeSeconds > 0 ? [{ heading: 'Recompute', text: recomputeText(facts, staging) }] : []),
  ...(facts.traffic.out + facts.traffic.in > 0 ? [{ heading: 'Copies', text: copiesText(plan, facts, timeline, staging) }] : []),
  { heading: 'Time', text: timeText(facts, timeline) },
]
