// The report: one self-contained page about one plan. In: a plan, its simulated timeline, the stager's knowledge.
// Out: HTML. Invariant: the page needs no network, and stays below 3 MB however long the plan is.
import { bytesOf } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import type { Alternative, Explanation } from '../../staging/search/explain'
import { drawStep } from './charts'
import { showPrice } from './decisions'
import { type Facts, factsOf, type ProcessMemory, type Staging } from './facts'
import { plural, showCount, showPercent, showRatio, showSeconds, showShape, showSize } from './format'
import { holdersAt, kindTitle, pagesByKind, worstCall } from './memory'
import { escapeHtml, page, scrolling } from './page'
import { type Fate, type LayerRow, layerRows, type SegmentRow, segmentRows } from './tables'
import { explain, gapText } from './words'

const MOST_ROWS = 1500
const HOLDERS = 10

// ---------------------------------------------------------------- the head

const header = (plan: Plan, facts: Facts): string =>
  `<h1>${escapeHtml(plan.graph.name)}</h1><p><b>${escapeHtml(plan.strategy)}</b> plan for ${showShape(facts.input)} images` +
  ` on <b>${escapeHtml(plan.machine)}</b>, budget <b>${showSize(plan.budgetBytes)}</b>` +
  ` · ${showCount(facts.parameters)} parameters</p>`

const card = (title: string, value: string, note: string): string =>
  `<div class="card"><em>${title}</em><strong>${value}</strong><span>${note}</span></div>`

const processCard = ({ peakBytes, deviceBytes, swappedBytes, feedBytes, outputBytes, codeBytes }: ProcessMemory): string =>
  card(
    'process',
    showSize(peakBytes),
    `RAM: ${showSize(deviceBytes)} on the device${swappedBytes > 0 ? `, ${showSize(swappedBytes)} swapped` : ''}, ${showSize(feedBytes)} of batches${outputBytes === undefined ? '' : `, ${showSize(outputBytes)} of outputs`}, ${showSize(codeBytes)} of code`,
  )

const cards = (facts: Facts, timeline: Timeline, staging: Staging): string => {
  const stall = timeline.stallSeconds.memory + timeline.stallSeconds.data
  return `<div class="cards">${[
    card('peak memory', showSize(facts.peakBytes), `in-core needs ${showSize(staging.inCore.peakBytes)}`),
    ...(staging.process ? [processCard(staging.process)] : []),
    card('one step', showSeconds(timeline.makespanSeconds), gapText(facts, timeline)),
    card(
      'recompute',
      showPercent(facts.recomputeSeconds / staging.inCore.computeSeconds),
      facts.recomputeSeconds > 0 ? `${showSeconds(facts.recomputeSeconds)} of extra compute` : 'no operator runs twice',
    ),
    card('halo', showRatio(facts.haloRatio), facts.segments.tiled > 0 ? 'compute in tiles, relative to untiled' : 'no tiles'),
    card(
      'copies',
      facts.traffic.out > 0 ? `${showSize(facts.traffic.out)} out` : 'none',
      facts.traffic.out > 0 ? `${showSize(facts.traffic.in)} back in` : 'no swaps',
    ),
    card(
      'waiting',
      showSeconds(stall),
      `for room ${showSeconds(timeline.stallSeconds.memory)}, for values ${showSeconds(timeline.stallSeconds.data)}`,
    ),
  ].join('')}</div>`
}

const sizes = (plan: Plan, facts: Facts, staging: Staging): string => {
  const rows: readonly (readonly [title: string, bytes: number, kind: string])[] = [
    ['everything kept (in-core)', staging.inCore.peakBytes, 'incore'],
    ['budget', plan.budgetBytes, 'limit'],
    ['this plan', facts.peakBytes, 'now'],
    ['parameters and optimizer', facts.persistentBytes, 'fixed'],
  ]
  // The budget of a large machine would make the others invisible.
  const most = Math.max(staging.inCore.peakBytes, facts.peakBytes) * 1.25
  const bar = ([title, bytes, kind]: (typeof rows)[number]): string =>
    `<span>${title}</span><i class="${kind}" style="width:${Math.min(100, (bytes / most) * 100).toFixed(2)}%"></i><b>${showSize(bytes)}</b>`
  return `<div class="sizes">${rows.map(bar).join('')}</div>`
}

const words = (plan: Plan, facts: Facts, timeline: Timeline, staging: Staging): string =>
  `<section><h2>How this plan works</h2><dl class="words">${explain(plan, facts, timeline, staging)
    .map((p) => `<dt>${p.heading}</dt><dd>${escapeHtml(p.text)}</dd>`)
    .join('')}</dl></section>`

// ---------------------------------------------------------------- tables

const table = (heads: readonly string[], rows: readonly string[], total: number, what: string): string => {
  const more = total > rows.length ? `<p class="lead">${showCount(total - rows.length)} more ${what} are not shown.</p>` : ''
  const head = heads.map((h) => `<th scope="col"${h.startsWith('#') ? ' class="n"' : ''}>${h.replace('#', '')}</th>`).join('')
  return scrolling(what, `<table><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`) + more
}

const secondsCell = (seconds: number, parts: readonly (readonly [shade: string, seconds: number])[], most: number): string => {
  const bars = parts
    .filter(([, s]) => s > 0)
    .map(([shade, s]) => `<i class="${shade}" style="width:${((s / most) * 100).toFixed(1)}%"></i>`)
  return `<td class="n">${showSeconds(seconds)}<div class="share">${bars.join('')}</div></td>`
}

const keptText = (r: SegmentRow): string => {
  if (r.keeps.length === 0) return '<small>nothing</small>'
  const shown = r.keeps.slice(0, 3).map(escapeHtml).join(', ')
  return `${showSize(r.keptBytes)} <small>${shown}${r.keeps.length > 3 ? ` and ${r.keeps.length - 3} more` : ''}</small>`
}

const segmentTable = (plan: Plan): string => {
  const rows = segmentRows(plan)
  const most = rows.reduce((n, r) => Math.max(n, r.seconds), 0) || 1
  const shade = (r: SegmentRow): string => (r.phase === 'step' ? 'forward' : r.phase)
  const html = rows.slice(0, MOST_ROWS).map(
    (r) =>
      `<tr><td>${escapeHtml(r.name)}</td><td><span class="tag" style="--c:var(--${r.phase === 'step' ? 'workspace' : r.phase})">${r.phase}</span></td>` +
      `<td class="n">${r.grid}</td><td>${r.layers === r.name ? '' : `${escapeHtml(r.layers)} `}<small>${plural(r.ops, 'op')}</small></td><td>${keptText(r)}</td>` +
      secondsCell(
        r.seconds,
        [
          [shade(r), r.seconds - r.recomputeSeconds],
          ['recompute', r.recomputeSeconds],
        ],
        most,
      ) +
      `<td class="n">${showRatio(r.haloRatio)}</td><td class="n">${showSize(r.peakBytes)}</td></tr>`,
  )
  return (
    `<section><h2>Segments</h2><p class="lead">The plan runs the segments from top to bottom. A segment is a loop over the tiles of its grid. A later segment reads the values that it keeps.</p>` +
    `${table(['segment', 'phase', '#grid', 'body', 'keeps', '#seconds', '#halo', '#peak'], html, rows.length, 'segments')}</section>`
  )
}

const FATES: Readonly<Record<Fate, readonly [text: string, colour: string]>> = {
  stays: ['kept on the device', 'activations'],
  'swapped out': ['swapped out and in', 'out'],
  recomputed: ['recomputed', 'recompute'],
  'only in tiles': ['only in tiles', 'workspace'],
}

const layerTable = (plan: Plan): string => {
  const rows = layerRows(plan)
  const total = (r: LayerRow): number => r.forwardSeconds + r.recomputeSeconds + r.backwardSeconds
  const most = rows.reduce((n, r) => Math.max(n, total(r)), 0) || 1
  const html = rows.slice(0, MOST_ROWS).map((r) => {
    const [text, colour] = FATES[r.fate]
    const parts = [
      ['forward', r.forwardSeconds],
      ['recompute', r.recomputeSeconds],
      ['backward', r.backwardSeconds],
    ] as const
    return (
      `<tr><td>${escapeHtml(r.layer)} <small>${escapeHtml(r.kinds)}</small></td><td class="n">${showShape(r.shape)}</td><td class="n">${showSize(r.bytes)}</td>` +
      `<td class="n">${r.parameterBytes > 0 ? showSize(r.parameterBytes) : ''}</td><td><span class="tag" style="--c:var(--${colour})">${text}</span></td>` +
      `${secondsCell(total(r), parts, most)}</tr>`
    )
  })
  return (
    `<section><h2>Layers</h2><p class="lead">How the plan stores each layer’s output between forward and backward pass, and the time of each layer.</p>` +
    `${table(['layer', '#output', '#bytes', '#parameters', 'its output', '#seconds'], html, rows.length, 'layers')}</section>`
  )
}

const alternativesCell = (alternatives: readonly Alternative[]): string =>
  `<td>${alternatives.map((a) => `${showPrice(a.seconds)} <small>${escapeHtml(a.change)}</small>`).join('<br>')}</td>`

const decisions = (explanation: Explanation | undefined): string => {
  if (!explanation) return ''
  const values = explanation.values.map(
    (v) =>
      `<tr><td>${escapeHtml(v.name)}</td><td class="n">${showSize(v.bytes)}</td><td>${escapeHtml(v.decision)}</td>` +
      `<td>${escapeHtml(v.binding)}</td>${alternativesCell(v.alternatives)}</tr>`,
  )
  const loops = explanation.loops.map(
    (l) =>
      `<tr><td>${escapeHtml(l.name)}</td><td class="n">${l.tiles}</td><td class="n">${showSeconds(l.seconds)}</td>` +
      `<td class="n">${showSeconds(l.waitSeconds)}</td><td>${escapeHtml(l.binding)}</td>${alternativesCell(l.alternatives)}</tr>`,
  )
  return (
    `<section><h2>Decisions</h2><p class="lead">For each large value the decision, the resource that binds, and the best alternatives. ` +
    `A price is a difference of the step’s seconds in the model of the search (${showSeconds(explanation.seconds)}).</p>` +
    table(['value', '#bytes', 'decision', 'binding', 'alternatives'], values.slice(0, MOST_ROWS), values.length, 'values') +
    `<h3>Loops</h3>${table(['loop', '#tiles', '#seconds', '#waits', 'binding', 'alternatives'], loops.slice(0, MOST_ROWS), loops.length, 'loops')}</section>`
  )
}

// ---------------------------------------------------------------- the worst moment

const worstMoment = (plan: Plan): string => {
  const call = worstCall(plan, pagesByKind(plan))
  const at = plan.calls[call]
  if (!at) return ''
  const holders = holdersAt(plan, call, HOLDERS)
  const most = holders.reduce((n, h) => Math.max(n, h.bytes), 1)
  const layer = at.op >= 0 ? plan.graph.ops[at.op]!.layer : ''
  const tile = plan.segments[at.segment]!.grid
  const where = `${at.kind}${layer ? ` of ${layer}` : ''}, segment ${plan.segments[at.segment]!.name}${tile.B * tile.H * tile.W > 1 ? `, tile ${at.tile}` : ''}`
  const rows = holders.map(
    (h) =>
      `<tr><td>${escapeHtml(h.label)}</td><td><i class="${h.kind}" style="width:${((h.bytes / most) * 100).toFixed(1)}%"></i></td><td class="n">${showSize(h.bytes)}</td></tr>`,
  )
  return (
    `<section><h2>The worst moment</h2><p class="lead">During ${escapeHtml(where)} the device uses ${showSize(bytesOf(plan.peakPages))}, in whole pages of 2 MiB:</p>` +
    `${scrolling('values at the worst moment', `<table class="holders"><tbody>${rows.join('')}</tbody></table>`)}</section>`
  )
}

const GLOSSARY: readonly (readonly [word: string, meaning: string])[] = [
  ['in-core', 'the plan without tiles, recompute and swaps: the fastest plan if it fits'],
  ['budget', 'the hard cap on device memory: parameters, gradients, optimizer state, activations, workspace, buffers'],
  ['segment', 'a loop over tiles that runs a list of operators for each tile'],
  ['halo', 'the border of a tile that its neighbours compute, too'],
  ['recompute', 'forward operators that run a second time, because their output is not kept'],
  ['lower bound', 'a step time that no plan in this budget can beat, with any mix of keep, swap, recompute and tiles'],
  [kindTitle.workspace, 'values of one tile, and temporary memory of kernels'],
]

const footer = `<footer><dl>${GLOSSARY.map(([w, m]) => `<dt>${w}</dt><dd>${m}</dd>`).join('')}</dl></footer>`

/** The parts of a page about a plan below its head. */
export interface PlanParts {
  readonly html: string
  /** For the page's script. */
  readonly data: unknown
}

export const planParts = (plan: Plan, timeline: Timeline, staging: Staging): PlanParts => {
  const facts = factsOf(plan, staging)
  const drawing = drawStep(plan, timeline)
  const html = [
    cards(facts, timeline, staging),
    sizes(plan, facts, staging),
    words(plan, facts, timeline, staging),
    `<section><h2>One step</h2><p class="lead">Above: device memory. Below: compute and copies at the same time.</p>${drawing.html}</section>`,
    worstMoment(plan),
    segmentTable(plan),
    layerTable(plan),
    decisions(staging.explanation),
    footer,
  ].join('\n')
  return { html, data: drawing.data }
}

/**
 * Returns an HTML page that explains a plan: memory over time, segments, swaps.
 *
 * @param plan The plan.
 * @param timeline Its simulated times.
 * @param staging Facts about its planning.
 * @param above HTML of your own, for example pictures. It follows the heading and is not escaped.
 * @example const page = reportHtml(plan.plan, plan.timeline, plan.staging)
 */
export const reportHtml = (plan: Plan, timeline: Timeline, staging: Staging, above = ''): string => {
  const { html, data } = planParts(plan, timeline, staging)
  return page(
    `${plan.graph.name}, ${plan.strategy}: a Spillway plan`,
    `${header(plan, factsOf(plan, staging))}\n${above}\n${html}`,
    { plan: data },
  )
}
