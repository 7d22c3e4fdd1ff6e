// The summary that `plan` and `train` print: about fifteen lines for a terminal.
// In: a plan, its timeline, the stager's knowledge. Out: text without colours. Invariant: no line is wider than the given width; without one, no table is wider than 118.
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { copiesIn } from '../../staging/graph/copied'
import { replay } from '../../staging/memory/allocators/replay'
import { type Plan, precisionText } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import { exchangesOf, type Facts, factsOf, firstWaitSeconds, type Staging, tierShares, type Wear, wearOf } from './facts'
import { folded } from './folded'
import { plural, showPercent, showRatio, showSeconds, showShape, showSize } from './format'
import { type SegmentRow, segmentRows } from './tables'
import { gapText } from './words'

const SHOWN_SEGMENTS = 7
/** Columns of the table if no width is given. */
const USUAL_WIDTH = 118

const clipped = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`)

const headLines = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): readonly string[] => {
  const budget = bytesOf(pagesIn(plan.budgetBytes))
  const { memory, data } = timeline.stallSeconds
  const { host, disk } = tierShares(plan, staging.tier)
  const tier = [host > 0 ? ` · ${showSize(host)} in host memory` : '', disk > 0 ? ` · ${showSize(disk)} on disk` : ''].join('')
  return [
    `${plan.graph.name} ${showShape(facts.input)} · ${plan.strategy} · ${plan.machine}${precisionText(plan)}`,
    `  memory     peak ${showSize(facts.peakBytes)} of a budget of ${showSize(budget)} · in-core needs ${showSize(staging.inCore.peakBytes)}${tier}`,
    `  time       ${showSeconds(timeline.makespanSeconds)} per step · compute ${showSeconds(timeline.computeSeconds)}` +
      ` · waiting ${showSeconds(memory)} for room, ${showSeconds(data)} for values${firstWaitText(plan, timeline)}`,
    `  bound      ${gapText(facts, timeline)}`,
    `  price      recompute ${showPercent(facts.recomputeSeconds / staging.inCore.computeSeconds)} · halo ${showRatio(facts.haloRatio)}` +
      ` · swaps out ${showSize(facts.traffic.out)}, in ${showSize(facts.traffic.in)}${handedText(facts)}`,
    ...processLine(staging),
    ...diskLine(wearOf(plan, timeline, staging)),
    ...ranksLine(plan, timeline),
    ...networkLine(plan),
    ...weightsLine(plan),
    ...inputLine(plan),
    ...(staging.allocator === 'pages' ? [] : [allocatorLine(plan, staging.allocator)]),
    `  plan       ${plural(plan.segments.length, 'segment')} (${facts.segments.tiled} tiled, ${facts.segments.recompute} recomputing)` +
      ` · ${plural(plan.calls.length, 'call')} · planned in ${showSeconds(staging.planningSeconds)}${splitText(staging)}`,
    ...timesLine(staging),
  ]
}

const firstWaitText = (plan: Plan, timeline: Timeline): string => {
  const seconds = firstWaitSeconds(plan, timeline)
  return seconds > 0 ? ` · the first step ${showSeconds(seconds)} more` : ''
}

/** The memory of the training process, where the device has none of its own. */
const processLine = ({ process: p }: Staging): readonly string[] => {
  if (!p) return []
  const outputs = p.outputBytes === undefined ? '' : `, ${showSize(p.outputBytes)} of outputs`
  const swapped = p.swappedBytes > 0 ? `, ${showSize(p.swappedBytes)} of swapped pages` : ''
  return [
    `  process    about ${showSize(p.peakBytes)} of RAM: ${showSize(p.deviceBytes)} on the device${swapped}, ${showSize(p.feedBytes)} of batches${outputs}, ${showSize(p.codeBytes)} of code`,
  ]
}

/** The bytes that a step writes to a disk, with a warning if a week of it exceeds the disk's limit. */
const diskLine = (wear: Wear | undefined): readonly string[] => {
  if (!wear) return []
  const { bytesToDisk, bytesFromDisk, spillWritesPerStep: most, bytesToDiskInAWeek } = wear
  const cap =
    most === null
      ? ''
      : bytesToDisk <= most
        ? ` (at most ${showSize(most)})`
        : ` (more than the limit of ${showSize(most)} for the life of the disk: no other plan was found)`
  return [
    `  disk       a step writes ${showSize(bytesToDisk)}${cap}, reads ${showSize(bytesFromDisk)} · ${showSize(bytesToDiskInAWeek)} per week`,
  ]
}

const splitText = ({ planningSeconds: all, measuringSeconds: s }: Staging): string =>
  s > 0 ? ` (measuring ${showSeconds(s)}, searching ${showSeconds(all - s)})` : ''
const handedText = ({ traffic: { handedOut } }: Facts): string => (handedOut > 0 ? ` · hands out ${showSize(handedOut)}` : '')

/** Nothing where all is measured, or nothing is. */
const timesLine = ({ callTimes }: Staging): readonly string[] => {
  if (!callTimes || callTimes.roughly + callTimes.estimated === 0) return []
  const { measured, roughly, estimated } = callTimes
  return [
    `  times      ${plural(measured, 'call')} measured, ${roughly} roughly, ${estimated} estimated (--measure first measures all)`,
  ]
}

/** Weights in parts, if the plan has them. */
const weightsLine = ({ graph: { inParts } }: Plan): readonly string[] => {
  if (!inParts) return []
  const counts = Object.entries(inParts.counts)
  const [name, most] = counts.reduce((a, b) => (b[1] > a[1] ? b : a))
  return [`  weights    ${plural(counts.length, 'weight')} in parts of rows, '${name}' in ${most}`]
}

/** Copied inputs, if the plan has them. */
const inputLine = ({ graph }: Plan): readonly string[] =>
  copiesIn(graph).size > 0 ? ['  input      copied once a step; the next input arrives beside the copy'] : []

const networkLine = ({ network }: Plan): readonly string[] =>
  network
    ? [
        `  network    ${network.name} · each sends ${showSize(network.bytesPerSecond)} per second · ${showSeconds(network.latencySeconds)} per message`,
      ]
    : []

const ranksLine = (plan: Plan, timeline: Timeline): readonly string[] => {
  const all = exchangesOf(plan, timeline)
  return all
    ? [
        `  ranks      ${all.ranks}${plan.graph.bands ? ` in ${plan.graph.bands.of} bands of rows` : ''} · ${plural(all.exchanges, 'exchange')}, each rank sends ${showSize(all.commBytes)} in total · ${showSeconds(all.commSeconds)}, ${showPercent(all.commHiddenShare)} of it during compute`,
      ]
    : []
}

const allocatorLine = (plan: Plan, allocator: string): string => {
  const r = replay(plan, allocator)
  const mapping = r.mappingSeconds > 0 ? ` · mapping ${showSeconds(r.mappingSeconds)} per step` : ''
  return (
    `  allocator  ${allocator} would reserve ${showSize(r.peakBytes)} for ${showSize(r.requestedBytes)} requested` +
    ` · mean unusable free space ${showPercent(r.meanUnusable)}${mapping}`
  )
}

// ---------------------------------------------------------------- the table's head

const COLUMNS: readonly (readonly [title: string, width: number, right: boolean, of: (r: SegmentRow) => string])[] = [
  ['segment', 40, false, (r) => (r.name === r.layers ? r.name : `${r.name}: ${r.layers}`)],
  ['phase', 10, false, (r) => r.phase],
  ['grid', 10, false, (r) => r.grid],
  ['ops', 5, true, (r) => String(r.ops)],
  ['seconds', 9, true, (r) => showSeconds(r.seconds)],
  ['halo', 7, true, (r) => showRatio(r.haloRatio)],
  ['keeps', 10, true, (r) => showSize(r.keptBytes)],
  ['peak', 10, true, (r) => showSize(r.peakBytes)],
]

type Column = (typeof COLUMNS)[number]

/** Columns that a narrow terminal loses, in this order. */
const LOST = ['ops', 'halo', 'keeps', 'grid']
/** The least width of the segments' names. */
const LEAST_NAME = 24

/** The columns that fit, with the first as wide as there is room. */
const columnsIn = (width: number): readonly Column[] => {
  const restOf = (columns: readonly Column[]): number => columns.slice(1).reduce((n, [, w]) => n + w + 1, 2)
  const kept = LOST.reduce<readonly Column[]>(
    (columns, title) => (restOf(columns) + LEAST_NAME > width ? columns.filter((c) => c[0] !== title) : columns),
    COLUMNS,
  )
  const [[title, most, right, of], ...others] = kept as readonly [Column, ...Column[]]
  return [[title, Math.min(most, width - restOf(kept)), right, of], ...others]
}

const tableLine = (columns: readonly Column[], cell: (column: Column) => string): string =>
  `  ${columns.map((c) => (c[2] ? clipped(cell(c), c[1]).padStart(c[1]) : clipped(cell(c), c[1]).padEnd(c[1]))).join(' ')}`.trimEnd()

/**
 * Returns a plan in words, as `spillway plan` prints it.
 *
 * @param plan The plan.
 * @param timeline Its simulated times.
 * @param staging Facts about its planning.
 * @param width Columns of the terminal, at least 60. Default: no line is folded.
 * @example console.log(summary(plan.plan, plan.timeline, plan.staging))
 */
export const summary = (plan: Plan, timeline: Timeline, staging: Staging, width?: number): string => {
  const columns = columnsIn(width ?? USUAL_WIDTH)
  const rows = segmentRows(plan)
  const hidden = rows.length - SHOWN_SEGMENTS
  const shown = hidden > 1 ? rows.slice(0, SHOWN_SEGMENTS) : rows
  return [
    ...headLines(plan, factsOf(plan, staging), timeline, staging).map((line) => folded(line, width)),
    '',
    tableLine(columns, ([title]) => title),
    ...shown.map((r) => tableLine(columns, ([, , , of]) => of(r))),
    ...(hidden > 1 ? [`  … and ${hidden} more segments; --report shows all`] : []),
  ].join('\n')
}
