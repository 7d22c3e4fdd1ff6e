// The page of a run: its reports so far, beside its plan. In: those, as data. Out: one HTML page, which needs no network and reloads itself during
// the run. Invariant: every drawing has its numbers in a table, too, so that it needs neither eyes nor colours.
import { bytesOf } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import { type Staging, tierShares } from './facts'
import { showCount, showPercent, showSeconds, showSize } from './format'
import { planParts } from './html'
import { callShades, type Shade, shadeTitle } from './lanes'
import { CHART_SCRIPT, CHART_STYLE, type ChartSeries, chartHtml, pointOf } from './chart'
import { type Plot, plotSvg, type Series } from './lineplot'
import { escapeHtml, page, scrolling } from './page'

// ---------------------------------------------------------------- what a run has told

/** A small picture, as a PNG file. */
export interface Picture {
  /** For those who do not see it. */
  readonly what: string
  readonly png: Buffer
  readonly width: number
  readonly height: number
}

/** A sample that the model does badly. */
export interface PoorSample {
  readonly name: string
  readonly loss: number
  /** In words, where a sample has one label or number. */
  readonly label?: string
  readonly answer?: string
  readonly pictures: readonly Picture[]
}

/** The results of an evaluation beside its metrics. */
export interface Details {
  /** Names of the classes, where the data have any. */
  readonly classes?: readonly string[]
  readonly perClass?: Readonly<Record<string, readonly number[]>>
  /** How often a label, by row, became a class, by column. */
  readonly confusion?: readonly (readonly number[])[]
  /** The worst first, and the name of its measure. */
  readonly worst: readonly PoorSample[]
  readonly worstBy: string
  readonly took: {
    readonly images: number
    readonly budgetBytes: number
    readonly peakBytes: number
    readonly arenaPeakBytes: number
    readonly secondsPerStep: number
    readonly predictedSecondsPerStep: number
  }
}

/** How good the model was after an epoch. */
export interface MeasuredEpoch {
  readonly epoch: number
  readonly step: number
  readonly metrics: Readonly<Record<string, number>>
}

/** Sums over the steps that are told. */
export interface StepSums {
  readonly steps: number
  readonly stallMemorySeconds: number
  readonly stallDataSeconds: number
  /** The part of the latter that waits for the source of the data. */
  readonly feedSeconds: number
  readonly arenaPeakBytes: number
  readonly processPeakBytes: number
  readonly diskBytes: number
}

/** A run as it stands. */
export interface RunView {
  readonly plan: Plan
  readonly timeline: Timeline
  readonly staging: Staging
  /** As ISO 8601 has them. */
  readonly began: string
  readonly written: string
  /** How it ended, in a sentence, and whether as it should; undefined while it goes on. */
  readonly end?: { readonly words: string; readonly well: boolean; readonly weightsSha256?: string }
  /** Steps of the whole run. */
  readonly steps: number
  readonly stepsPerEpoch?: number
  /** Steps that an earlier process did: of those there are losses alone. */
  readonly resumedFrom: number
  /** The loss of each step, from the first; NaN if it is unknown. */
  readonly losses: readonly number[]
  readonly rates: readonly number[]
  readonly seconds: readonly number[]
  readonly epochs: readonly { readonly epoch: number; readonly step: number; readonly loss: number }[]
  readonly measured: readonly MeasuredEpoch[]
  /** True if it comes from evaluations; else it is the mean loss of epochs. */
  readonly evaluated: boolean
  readonly best: MeasuredEpoch | undefined
  readonly sums: StepSums | undefined
  /** The seconds of the plan's calls, in a quiet step. */
  readonly callSeconds: ArrayLike<number> | undefined
  readonly details: Details | undefined
  /** The options, the machine and the data, by name. */
  readonly recipe?: Readonly<Record<string, string>>
}

// ---------------------------------------------------------------- numbers

/** A loss or a rate. */
const numberText = (x: number): string =>
  Number.isFinite(x) ? `${Number(x.toPrecision(6))}` : Number.isNaN(x) ? '–' : x > 0 ? '∞' : '−∞'
const metricText = (name: string, x: number): string =>
  !Number.isFinite(x) ? '–' : name === 'loss' ? numberText(x) : x.toFixed(4)

/** Steps that share a point of a drawing. */
export interface Bucket {
  readonly from: number
  readonly to: number
  readonly mean: number
  readonly least: number
  readonly most: number
}

const MOST_POINTS = 200

/** At most this number of points, with equal numbers of steps; numbers that are not finite count in none. */
export const bucketsOf = (numbers: readonly number[], most = MOST_POINTS): readonly Bucket[] => {
  const size = Math.max(1, Math.ceil(numbers.length / most))
  return Array.from({ length: Math.ceil(numbers.length / size) }, (_, i) => {
    const [from, to] = [i * size, Math.min(numbers.length, (i + 1) * size)]
    let [sum, count, least, greatest] = [0, 0, Infinity, -Infinity]
    for (let k = from; k < to; k++) {
      const x = numbers[k]!
      if (!Number.isFinite(x)) continue
      sum += x
      count++
      least = Math.min(least, x)
      greatest = Math.max(greatest, x)
    }
    return count === 0
      ? { from: from + 1, to, mean: NaN, least: NaN, most: NaN }
      : { from: from + 1, to, mean: sum / count, least, most: greatest }
  })
}

const isThere = (b: Bucket): boolean => !Number.isNaN(b.mean)
const seriesOf = (name: string, buckets: readonly Bucket[]): Series => ({
  name,
  points: buckets.map((b) => [b.to, isThere(b) ? b.mean : undefined] as const),
  ...(buckets.some((b) => b.to > b.from) ? { band: buckets.filter(isThere).map((b) => [b.to, b.least, b.most] as const) } : {}),
})

// ---------------------------------------------------------------- tables and drawings

/** Columns that begin with # hold numbers; the first cell of a row is its name. */
export const tableOf = (caption: string, heads: readonly string[], rows: readonly (readonly string[])[]): string => {
  const isNumber = heads.map((h) => h.startsWith('#'))
  const head = heads.map((h, i) => `<th scope="col"${isNumber[i] ? ' class="n"' : ''}>${escapeHtml(h.replace('#', ''))}</th>`)
  const cell = (text: string, i: number): string =>
    i === 0
      ? `<th scope="row"${isNumber[0] ? ' class="n"' : ''}>${text}</th>`
      : `<td${isNumber[i] ? ' class="n"' : ''}>${text}</td>`
  return scrolling(
    caption,
    `<table><caption>${escapeHtml(caption)}</caption><thead><tr>${head.join('')}</tr></thead>` +
      `<tbody>${rows.map((r) => `<tr>${r.map(cell).join('')}</tr>`).join('')}</tbody></table>`,
    ' numbers',
  )
}

export const section = (id: string, title: string, lead: string, ...parts: readonly string[]): string =>
  `<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${lead === '' ? '' : `<p class="lead">${lead}</p>`}${parts.join('')}</section>`

/** A drawing to explore, and its numbers. `series` are finer than those of the plot. */
const figure = (id: string, plot: Plot, series: readonly ChartSeries[], table: string): string =>
  `<figure class="plotted">${drawn(plot, series)}` +
  `<details id="${id}-numbers"><summary>${escapeHtml(plot.title)}: table</summary>${table}</details></figure>`

const drawn = (plot: Plot, series: readonly ChartSeries[]): string =>
  chartHtml(
    { title: plot.title, x: plot.x, y: plot.y, log: plot.log === true, series },
    plotSvg({ height: 300, counts: true, ...plot, y: plot.log ? `${plot.y} (log scale)` : plot.y }, 'page'),
  )

/** Points of a line that a reader can zoom into. */
const MOST_FINE = 2000

/** A value per step. Values that are unknown, or not finite, leave gaps. */
export const stepSeries = (name: string, numbers: readonly number[], steps?: readonly number[]): ChartSeries => ({
  name,
  points: bucketsOf(numbers, MOST_FINE).map((b) => {
    const [x, y] = pointOf(steps?.[b.to - 1] ?? b.to, b.mean)
    return y === null || b.from === b.to ? [x, y] : [x, y, b.least, b.most]
  }),
})

/** Steps whose loss is not finite, as far as marks can show them. */
const oddSteps = (losses: readonly number[]): readonly number[] =>
  losses.flatMap((l, i) => (Number.isFinite(l) ? [] : [i + 1])).slice(0, MOST_POINTS)

/** Series of a plot as it is. */
const asDrawn = ({ series }: Plot): readonly ChartSeries[] =>
  series.map(({ name, points, reference }) => ({
    name,
    points: points.map(([x, y]) => pointOf(x, y)),
    ...(reference ? { reference } : {}),
  }))

const stepsText = ({ from, to }: Bucket): string => (from === to ? `${from}` : `${from} to ${to}`)
const bucketTable = (caption: string, buckets: readonly Bucket[], text: (x: number) => string): string =>
  buckets.every((b) => b.from === b.to)
    ? tableOf(
        caption,
        ['#step', '#value'],
        buckets.map((b) => [stepsText(b), text(b.mean)]),
      )
    : tableOf(
        caption,
        ['#steps', '#mean', '#least', '#most'],
        buckets.map((b) => [stepsText(b), text(b.mean), text(b.least), text(b.most)]),
      )

// ---------------------------------------------------------------- the head

const RECENT = 30
/** The mean of all steps with a known time, or of the last `last`. */
const secondsPerStep = ({ seconds }: RunView, last = seconds.length): number => {
  const known = seconds.slice(-Math.max(1, last)).filter((s) => Number.isFinite(s))
  return known.reduce((n, s) => n + s, 0) / known.length
}

const epochAt = ({ stepsPerEpoch = 0 }: RunView, step: number): number =>
  stepsPerEpoch > 1 && step > 0 ? 1 + Math.floor((step - 1) / stepsPerEpoch + 1e-9) : 0
const epochText = (v: RunView, step: number): string =>
  epochAt(v, step) > 0 ? `, epoch ${epochAt(v, step)} of ${epochAt(v, v.steps)}` : ''

/** For people, to the minute: 2026-11-22 15:40 UTC. */
const timeText = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`

const statusText = (v: RunView): string => {
  const done = v.losses.length
  if (v.end) return `${v.end.words} Step ${showCount(done)} of ${showCount(v.steps)}${epochText(v, done)}.`
  const left = (v.steps - done) * secondsPerStep(v, RECENT)
  return `Running: step ${showCount(done)} of ${showCount(v.steps)}${epochText(v, done)}${Number.isFinite(left) ? `, about ${showSeconds(left)} left` : ''}.`
}

const head = (v: RunView): string => {
  const state = v.end === undefined ? 'running' : v.end.well ? 'done' : 'ended'
  const times = `Begun <time datetime="${v.began}">${timeText(v.began)}</time>, ${v.end ? 'ended' : 'written'} <time datetime="${v.written}">${timeText(v.written)}</time>.`
  const resumed = v.resumedFrom > 0 ? ` An earlier process ran the first ${showCount(v.resumedFrom)} steps.` : ''
  return (
    `<header><h1>${escapeHtml(v.plan.graph.name)}</h1><p>a run with the plan <b>${escapeHtml(v.plan.strategy)}</b> on <b>${escapeHtml(v.plan.machine)}</b>` +
    `, budget <b>${showSize(v.plan.budgetBytes)}</b></p>` +
    `<p class="state ${state}" role="status" data-written="${v.end ? '' : v.written}">${escapeHtml(statusText(v))}</p><p class="when">${times}${resumed}` +
    `${v.end?.weightsSha256 === undefined ? '' : ` Weights: sha256 ${v.end.weightsSha256}.`}` +
    `${v.end ? '' : ' <label class="tools"><input type="checkbox" id="live" checked> reload automatically</label>'}</p></header>`
  )
}

const card = (title: string, value: string, note: string): string =>
  `<div class="card"><em>${title}</em><strong>${value}</strong><span>${note}</span></div>`

const bestNote = ({ best, evaluated }: RunView): string =>
  best
    ? `best ${evaluated ? 'evaluation' : 'epoch'}: ${best.epoch}, ${Object.entries(best.metrics)
        .slice(0, 2)
        .map(([name, x]) => `${escapeHtml(name)} ${metricText(name, x)}`)
        .join(', ')}`
    : 'at the last step'

const cards = (v: RunView): string => {
  const seconds = secondsPerStep(v)
  const { sums } = v
  const waited = sums ? sums.feedSeconds / Math.max(1, sums.steps) : NaN
  return `<div class="cards">${[
    card(
      'steps',
      `${showCount(v.losses.length)} of ${showCount(v.steps)}`,
      v.stepsPerEpoch ? `${numberText(v.stepsPerEpoch)} per epoch` : '',
    ),
    card('loss', numberText(v.losses.at(-1) ?? NaN), bestNote(v)),
    card(
      'step time',
      Number.isFinite(seconds) ? showSeconds(seconds) : '–',
      `planned ${showSeconds(v.timeline.makespanSeconds)}`,
    ),
    card('device memory', sums ? showSize(sums.arenaPeakBytes) : '–', `planned ${showSize(bytesOf(v.plan.peakPages))}`),
    card(
      'waiting for data',
      Number.isFinite(waited) ? showPercent(waited / Math.max(seconds, 1e-12)) : '–',
      Number.isFinite(waited) ? `${showSeconds(waited)} of each step` : 'known after a few steps',
    ),
  ].join('')}</div>`
}

// ---------------------------------------------------------------- losses, metrics, rates

const WIDE = 30

const losses = (v: RunView): string => {
  const buckets = bucketsOf(v.losses)
  const evaluated = v.evaluated ? v.measured : []
  const of = (name: string, points: readonly (readonly [number, number])[]): readonly Series[] =>
    points.length === 0 ? [] : [{ name, points: points.map(([x, y]) => [x, Number.isFinite(y) ? y : undefined] as const) }]
  const series = [
    seriesOf('per step', buckets),
    ...of('epoch mean', (v.stepsPerEpoch ?? 0) > 1 ? v.epochs.map((e) => [e.step, e.loss]) : []),
    ...of(
      'evaluated',
      evaluated.map((m) => [m.step, m.metrics['loss'] ?? NaN]),
    ),
  ]
  const all = series.flatMap((s) => s.points.flatMap(([, y]) => (y === undefined ? [] : [y])))
  const least = Math.min(...all, ...buckets.filter(isThere).map((b) => b.least))
  const log = least > 0 && Math.max(...all) > WIDE * least
  const odd = v.losses.filter((l) => !Number.isFinite(l)).length
  return section(
    'loss',
    'Loss',
    `${v.losses.length > MOST_FINE ? 'A point is the mean of several steps; the shade shows their range. ' : ''}Point at a chart for values; drag to zoom. ${odd > 0 ? `${showCount(odd)} losses are not finite; crosses mark them.` : ''}`,
    figure(
      'loss',
      { title: 'Loss', x: 'step', y: 'loss', series, log },
      [
        { ...stepSeries('per step', v.losses), ...(odd > 0 ? { odd: oddSteps(v.losses) } : {}) },
        ...asDrawn({ title: '', x: '', y: '', series: series.slice(1) }),
      ],
      bucketTable('Loss per step', buckets, numberText) +
        ((v.stepsPerEpoch ?? 0) > 1
          ? tableOf(
              'Mean loss per epoch',
              ['#epoch', '#last step', '#mean loss'],
              v.epochs.map((e) => [`${e.epoch}`, `${e.step}`, numberText(e.loss)]),
            )
          : ''),
    ),
  )
}

const figureOf = (plot: Plot): string => `<figure class="plotted">${drawn(plot, asDrawn(plot))}</figure>`

const isShare = (ms: readonly MeasuredEpoch[], name: string): boolean =>
  ms.every((m) => !((m.metrics[name] ?? 0) < 0 || (m.metrics[name] ?? 0) > 1))

const metrics = (v: RunView): string => {
  if (!v.evaluated || v.measured.length === 0) return ''
  const all = Object.keys(v.measured[0]!.metrics)
  const drawn = all.filter((name) => name !== 'loss')
  const shares = drawn.filter((name) => isShare(v.measured, name))
  const lineOf = (name: string): Series => ({
    name,
    points: v.measured.map((m) => [m.epoch, Number.isFinite(m.metrics[name]) ? m.metrics[name] : undefined] as const),
  })
  const plotOf = (title: string, names: readonly string[], more: Partial<Plot>): string =>
    figureOf({ title, x: 'epoch', y: title.toLowerCase(), series: names.map(lineOf), ...more })
  const others = drawn.filter((name) => !shares.includes(name))
  const best = (m: MeasuredEpoch): string => (m.step === v.best?.step ? 'best' : '')
  return section(
    'metrics',
    'Evaluations',
    'Metrics on the evaluation data after each epoch.',
    shares.length > 0 ? plotOf('Metrics', shares, { yTo: 1 }) : '',
    ...others.map((name) => plotOf(name, [name], {})),
    tableOf(
      'Evaluations',
      ['#epoch', '#step', ...all.map((name) => `#${name}`), 'note'],
      v.measured.map((m) => [`${m.epoch}`, `${m.step}`, ...all.map((name) => metricText(name, m.metrics[name] ?? NaN)), best(m)]),
    ),
  )
}

const rates = (v: RunView): string => {
  const buckets = bucketsOf(v.rates)
  const known = buckets.filter(isThere)
  if (known.length === 0) return ''
  if (known.every((b) => b.least === known[0]!.least && b.most === b.least))
    return section('rate', 'Learning rate', `It is ${numberText(known[0]!.mean)} in every step.`)
  return section(
    'rate',
    'Learning rate',
    '',
    figure(
      'rate',
      { title: 'Learning rate', x: 'step', y: 'learning rate', series: [seriesOf('learning rate', buckets)] },
      [stepSeries('learning rate', v.rates)],
      bucketTable('Learning rate per step', buckets, numberText),
    ),
  )
}

// ---------------------------------------------------------------- time and memory

const PHASES: readonly Shade[] = ['forward', 'recompute', 'backward', 'update', 'tiling']

/** Seconds of a step by phase. */
const byPhase = (plan: Plan, of: (call: number) => number): ReadonlyMap<Shade, number> => {
  const sums = new Map<Shade, number>()
  callShades(plan).forEach((shade, i) => sums.set(shade, (sums.get(shade) ?? 0) + of(i)))
  return sums
}

const known = (seconds: number | undefined): string =>
  seconds === undefined || !Number.isFinite(seconds) ? '–' : showSeconds(seconds)

const timeRows = (v: RunView): readonly (readonly string[])[] => {
  const { plan, timeline, sums, callSeconds, details } = v
  const planned = byPhase(plan, (i) => plan.calls[i]!.seconds)
  const took = callSeconds && byPhase(plan, (i) => callSeconds[i]!)
  const each = (total: number | undefined): number | undefined =>
    sums && total !== undefined ? total / Math.max(1, sums.steps) : undefined
  return [
    ...PHASES.filter((p) => (planned.get(p) ?? 0) > 0).map((p) => [shadeTitle[p], known(planned.get(p)), known(took?.get(p))]),
    [shadeTitle.full, known(timeline.stallSeconds.memory), known(each(sums?.stallMemorySeconds))],
    [
      shadeTitle.late,
      known(timeline.stallSeconds.data),
      known(each(sums && Math.max(0, sums.stallDataSeconds - sums.feedSeconds))),
    ],
    ['waiting for data', known(0), known(each(sums?.feedSeconds))],
    ['training step', known(timeline.makespanSeconds), known(secondsPerStep(v))],
    ...(details ? [['evaluation batch', known(details.took.predictedSecondsPerStep), known(details.took.secondsPerStep)]] : []),
  ]
}

const time = (v: RunView): string => {
  const buckets = bucketsOf(v.seconds)
  const first = buckets.find(isThere)
  const planned: Series = {
    name: 'planned',
    reference: true,
    points: [
      [first?.from ?? 1, v.timeline.makespanSeconds],
      [Math.max(v.seconds.length, (first?.from ?? 1) + 1), v.timeline.makespanSeconds],
    ],
  }
  return section(
    'time',
    'Time',
    'Seconds per step, planned and measured. Forward, backward and update are from the fastest undisturbed step; waits and whole steps are means.',
    tableOf('Time per phase of a step', ['phase', '#planned', '#measured'], timeRows(v)),
    first
      ? figure(
          'time',
          { title: 'Seconds per step', x: 'step', y: 'seconds', series: [seriesOf('measured', buckets), planned] },
          [stepSeries('measured', v.seconds), ...asDrawn({ title: '', x: '', y: '', series: [planned] })],
          bucketTable('Seconds per step', buckets, numberText),
        )
      : '',
  )
}

const memory = (v: RunView): string => {
  const { plan, staging, sums, details } = v
  const size = (bytes: number | undefined): string => (bytes === undefined ? '–' : showSize(bytes))
  const { host, disk } = tierShares(plan, staging.tier)
  return section(
    'memory',
    'Memory',
    'Peak memory of the device, planned and measured; the budget is the limit.',
    tableOf(
      'Memory, planned and measured',
      ['of', '#budget', '#planned', '#held'],
      [
        ['training steps', size(plan.budgetBytes), size(bytesOf(plan.peakPages)), size(sums?.arenaPeakBytes)],
        ...(details
          ? [['evaluations', size(details.took.budgetBytes), size(details.took.peakBytes), size(details.took.arenaPeakBytes)]]
          : []),
        ...(host > 0 ? [['host memory for swaps', '', size(host), '–']] : []),
        ...(disk > 0 || (sums?.diskBytes ?? 0) > 0 ? [['the spill file', '', size(disk), size(sums?.diskBytes)]] : []),
        ['the whole process', '', size(staging.process?.peakBytes), size(sums?.processPeakBytes)],
      ],
    ),
  )
}

// ---------------------------------------------------------------- classes and samples

const MOST_CLASSES = 200
const MOST_CROSSED = 24
const MOST_PAIRS = 30

const crossed = (confusion: readonly (readonly number[])[], name: (c: number) => string): string => {
  const sums = confusion.map((row) => row.reduce((n, x) => n + x, 0))
  const cell = (x: number, sum: number): string =>
    `<td class="n" style="--share:${sum > 0 ? Math.round((x / sum) * 100) : 0}%">${showCount(x)}</td>`
  const rows = confusion.map((row, c) => `<tr><th scope="row">${name(c)}</th>${row.map((x) => cell(x, sums[c]!)).join('')}</tr>`)
  return scrolling(
    'Confusion',
    `<table class="crossed"><caption>Confusion: labels (rows) and predicted classes (columns)</caption>` +
      `<thead><tr><td></td>${confusion.map((_, c) => `<th scope="col" class="n">${name(c)}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table>`,
    ' numbers',
  )
}

/** With many classes, the most frequent confusions. */
const pairs = (confusion: readonly (readonly number[])[], name: (c: number) => string): string => {
  const wrong = confusion.flatMap((row, label) =>
    row.flatMap((times, is) => (is === label || times === 0 ? [] : [{ label, is, times }])),
  )
  return tableOf(
    'Confusion: the labels with most errors',
    ['label', 'became', '#times'],
    [...wrong]
      .sort((a, b) => b.times - a.times)
      .slice(0, MOST_PAIRS)
      .map((w) => [name(w.label), name(w.is), showCount(w.times)]),
  )
}

const classes = ({ details }: RunView): string => {
  const lists = Object.entries(details?.perClass ?? {})
  const { confusion, classes: names } = details ?? {}
  const count = confusion?.length ?? lists[0]?.[1].length ?? 0
  if (count === 0) return ''
  const name = (c: number): string => escapeHtml(names?.[c] ?? String(c))
  const labelled = confusion?.map((row) => row.reduce((n, x) => n + x, 0))
  const rows = Array.from({ length: Math.min(count, MOST_CLASSES) }, (_, c) => [
    name(c),
    ...(labelled ? [showCount(labelled[c]!)] : []),
    ...lists.map(([, list]) => metricText('', list[c]!)),
  ])
  return section(
    'classes',
    'Classes',
    `From the last evaluation.${count > rows.length ? ` ${showCount(count - rows.length)} more classes are not shown.` : ''}`,
    lists.length > 0
      ? tableOf('Metrics per class', ['class', ...(labelled ? ['#labels'] : []), ...lists.map(([n]) => `#${n}`)], rows)
      : '',
    confusion === undefined ? '' : count <= MOST_CROSSED ? crossed(confusion, name) : pairs(confusion, name),
  )
}

/** Pixels of the screen along the longer side, or nearly. */
const SHOWN = 144
const pictureHtml = ({ what, png, width, height }: Picture): string => {
  const scale = Math.max(1, Math.floor(SHOWN / Math.max(width, height)))
  return `<img src="data:image/png;base64,${png.toString('base64')}" width="${width * scale}" height="${height * scale}" alt="${escapeHtml(what)}">`
}

const worst = ({ details }: RunView): string => {
  if (!details || details.worst.length === 0) return ''
  const one = ({ name, loss, label, answer, pictures }: PoorSample): string =>
    `<li><figure><div class="pictures">${pictures.map(pictureHtml).join('')}</div><figcaption><b>${escapeHtml(name)}</b>` +
    `<span>loss ${numberText(loss)}</span>${label === undefined ? '' : `<span>label ${escapeHtml(label)}</span>`}` +
    `${answer === undefined ? '' : `<span>answer ${escapeHtml(answer)}</span>`}` +
    `${pictures.length > 1 ? `<span>shown: ${pictures.map((p) => escapeHtml(p.what)).join('; ')}</span>` : ''}</figcaption></figure></li>`
  return section(
    'worst',
    'Worst samples',
    `From the last evaluation, by ${escapeHtml(details.worstBy)}, worst first.`,
    `<ol class="worst">${details.worst.map(one).join('')}</ol>`,
  )
}

// ---------------------------------------------------------------- the recipe

const recipe = ({ recipe: facts = {} }: RunView): string =>
  Object.keys(facts).length === 0
    ? ''
    : section(
        'recipe',
        'Recipe',
        'The command, the options, the machine and the data of this run.',
        `<div class="recipe">${tableOf(
          'Recipe',
          ['name', 'value'],
          Object.entries(facts).map(([name, value]) => [escapeHtml(name), escapeHtml(value)]),
        )}</div>`,
      )

// ---------------------------------------------------------------- the whole

/** Reloads itself, unless that is switched off; opened parts stay open. */
const RELOAD = `
const state=q('.state'),silent=(Date.now()-Date.parse(state.dataset.written))/6e4
if(silent>10)state.append(' It was last updated '+Math.round(silent)+' minutes ago: a step is slow, or the process has ended.')
const live=q('#live'),kept=sessionStorage,opened=()=>[...document.querySelectorAll('details')].filter(d=>d.open).map(d=>d.id)
for(const id of JSON.parse(kept.getItem('opened')||'[]')){const d=document.getElementById(id);if(d)d.open=true}
if(live){live.checked=kept.getItem('live')!=='no';live.onchange=()=>kept.setItem('live',live.checked?'yes':'no')
 setInterval(()=>{if(!live.checked||document.hidden)return;kept.setItem('opened',JSON.stringify(opened()));location.reload()},10000)}
`

const PLAN_WORDS = 'The rest of the page shows the plan, with predicted times.'

/** The plan's part of a run's page: made once, because it does not change. */
export const planPart = ({ plan, timeline, staging }: Pick<RunView, 'plan' | 'timeline' | 'staging'>) =>
  planParts(plan, timeline, staging)

/** The page of a run. */
export const runHtml = (v: RunView, part = planPart(v)): string =>
  page(
    `${v.end === undefined ? 'running: ' : ''}${v.plan.graph.name}, a Spillway run`,
    [
      head(v),
      cards(v),
      losses(v),
      metrics(v),
      rates(v),
      time(v),
      memory(v),
      classes(v),
      worst(v),
      recipe(v),
      section('plan', 'The plan', PLAN_WORDS),
      part.html,
    ].join('\n'),
    { plan: part.data, script: RELOAD + CHART_SCRIPT, style: CHART_STYLE },
  )
