// What the plan does and why, in sentences. In: a plan, its timeline, the stager's knowledge. Out: plain text paragraphs.
// Invariant: every number in a sentence is a fact of this plan; a sentence that would say nothing is left out.
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import { type Facts, type Staging, tierShares } from './facts'
import { plural, showPercent, showRatio, showSeconds, showSize } from './format'

export interface Paragraph {
  readonly heading: string
  readonly text: string
}

const sentence = (...parts: readonly (string | false)[]): string => parts.filter((p) => p !== false && p !== '').join(' ')

const list = (items: readonly string[]): string =>
  items.length < 2 ? (items[0] ?? '') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`

// ---------------------------------------------------------------- memory

/** Whether its loops go over the batch alone, of whole images. */
const isInParts = (plan: Plan): boolean => plan.segments.every(({ grid }) => grid.H === 1 && grid.W === 1)

const whatItDoes = (plan: Plan, facts: Facts): string => {
  const means = [
    facts.segments.tiled > 0 &&
      `cuts ${facts.segments.tiled === plan.segments.length ? 'every segment' : `${facts.segments.tiled} of ${plural(plan.segments.length, 'segment')}`} into ${isInParts(plan) ? 'parts of the batch' : 'tiles'}`,
    facts.recomputeSeconds > 0 && 'forgets activations and computes them again',
    facts.traffic.out > 0 && 'swaps values out and in',
  ].filter((m) => m !== false)
  return means.length > 0
    ? `the plan ${list(means)}`
    : 'the plan keeps everything on the device, computes it once and moves nothing'
}

const memoryText = (plan: Plan, facts: Facts, staging: Staging): string => {
  const budget = bytesOf(pagesIn(plan.budgetBytes))
  const inCore = staging.inCore.peakBytes
  const over = inCore / budget
  return sentence(
    `With everything kept (in-core), a step would hold ${showSize(inCore)} at its worst moment.`,
    over > 1
      ? `The budget is ${showSize(budget)}, ${showRatio(over).replace('×', '')} times smaller; so ${whatItDoes(plan, facts)}.`
      : `That is within the budget of ${showSize(budget)}; ${whatItDoes(plan, facts)}.`,
    `The worst moment of this plan holds ${showSize(facts.peakBytes)} in whole pages (${showSize(facts.liveBytes)} of live bytes):`,
    `${showPercent(facts.peakBytes / budget)} of the budget. ${showSize(facts.persistentBytes)} of it are parameters and optimizer state, which never leave${facts.homeBytes > 0 ? `; another ${showSize(facts.homeBytes)} of these are at home in the lower tier, from where they come and go` : ''}.`,
  )
}

// ---------------------------------------------------------------- tiles, recompute, copies

const tilesText = (plan: Plan, facts: Facts): string => {
  const finest = plan.segments.reduce((a, b) => (tilesOf(b.grid) > tilesOf(a.grid) ? b : a))
  const { B, H, W } = finest.grid
  if (isInParts(plan))
    return sentence(
      `${plural(facts.segments.tiled, 'segment runs', 'segments run')} as loops over parts of the batch, of which there are up to ${B} (${finest.name}).`,
      tilesOf(plan.segments[0]!.grid) > 1 &&
        'The first part is computed as soon as its images are there, while the others are on their way.',
      'What is summed over the batch is added up over its parts, so the result is that of the whole batch, up to rounding.',
    )
  return sentence(
    `${plural(facts.segments.tiled, 'segment runs', 'segments run')} as loops over tiles; the finest grid is ${H} rows by ${W} columns${B > 1 ? ` for each of ${B} micro-batches` : ''} (${finest.name}).`,
    'A tile needs a border of its neighbours’ pixels (its halo), and every convolution further back widens it:',
    `the tiles together do ${showRatio(facts.haloRatio)} the arithmetic of whole images.`,
    'Gradients of overlapping borders are added, so each pixel counts once and the result is that of the whole image, up to rounding.',
    facts.plumbingSeconds > 0 && `Gathering slices and adding tiles up takes ${showSeconds(facts.plumbingSeconds)}.`,
  )
}

const recomputeText = (facts: Facts, staging: Staging): string =>
  sentence(
    `Activations that the backward pass needs but that were not kept are computed a second time, in ${plural(facts.segments.recompute, 'segment')}.`,
    `This costs ${showSeconds(facts.recomputeSeconds)}, ${showPercent(facts.recomputeSeconds / staging.inCore.computeSeconds)} of the step’s in-core arithmetic.`,
  )

const copiesText = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): string => {
  const { host, disk } = tierShares(plan, staging.tier)
  const tier = [...(host > 0 ? ['host memory'] : []), ...(disk > 0 ? ['the spill file on disk'] : [])].join(' and ')
  const stalled = timeline.stallSeconds.memory + timeline.stallSeconds.data
  return sentence(
    `${showSize(facts.traffic.out)} leave for ${tier} and ${showSize(facts.traffic.in)} come back, while the device computes.`,
    stalled > 0
      ? `The arithmetic waits ${showSeconds(stalled)} for copies, ${showPercent(stalled / timeline.makespanSeconds)} of the step.`
      : 'The arithmetic never waits for them.',
  )
}

// ---------------------------------------------------------------- time

/** What bounds the step below, and who cannot beat it. */
const boundText = (facts: Facts, staging: Staging): string => {
  const bound = showSeconds(facts.lowerBoundSeconds)
  if (facts.lowerBoundSeconds === staging.inCore.computeSeconds)
    return `The in-core arithmetic alone takes ${bound}, which no plan can beat;`
  if (facts.lowerBoundSeconds < staging.inCore.computeSeconds)
    return `At the rates of this plan’s own calls, which are quicker here than untiled ones were thought to be, no plan takes less than ${bound};`
  return facts.lowerBoundSeconds === staging.leastSeconds
    ? `Whatever is kept, moved or computed again, a step takes ${bound} in this budget, which no plan can beat;`
    : `Only swapping out and in what does not fit takes ${bound} on this link, which no plan that only swaps can beat;`
}

const timeText = (facts: Facts, timeline: Timeline, staging: Staging): string => {
  const { memory, data, ranks = 0 } = timeline.stallSeconds
  const ratio = timeline.makespanSeconds / facts.lowerBoundSeconds
  return sentence(
    `A step is predicted to take ${showSeconds(timeline.makespanSeconds)}: ${showSeconds(timeline.computeSeconds)} of arithmetic,`,
    `${showSeconds(memory)} waiting for room in memory and ${showSeconds(data)} waiting for values to arrive.`,
    ranks > 0 ? `It waits ${showSeconds(ranks)} for exchanges between ranks.` : '',
    boundText(facts, staging),
    `this plan takes ${ratio.toFixed(2)} times that bound.`,
  )
}

export const explain = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): readonly Paragraph[] => [
  { heading: 'Memory', text: memoryText(plan, facts, staging) },
  ...(facts.segments.tiled > 0 ? [{ heading: 'Tiles', text: tilesText(plan, facts) }] : []),
  ...(facts.recomputeSeconds > 0 ? [{ heading: 'Recompute', text: recomputeText(facts, staging) }] : []),
  ...(facts.traffic.out + facts.traffic.in > 0 ? [{ heading: 'Copies', text: copiesText(plan, facts, timeline, staging) }] : []),
  { heading: 'Time', text: timeText(facts, timeline, staging) },
]
