// A comparison of runs. In: runs with their logs. Out: results, differing facts and curves as data, and the page of them. Invariant: the page
// draws the same curves that --json prints.
import { type Chart, CHART_SCRIPT, CHART_STYLE, chartHtml, type ChartSeries } from '../report/chart'
import { showSeconds, showSize } from '../report/format'
import { plotSvg } from '../report/lineplot'
import { escapeHtml, page } from '../report/page'
import { section, stepSeries, tableOf } from '../report/runcharts'
import { factsOf } from './runfolder'
import { logOf, type Run, type RunSummary } from './runs'
import type { ReadLog } from './steplog'

/** A fact of runs by name; null if a run does not have it. */
export interface ComparedFact {
  readonly name: string
  readonly values: readonly (string | null)[]
}

export interface Comparison {
  readonly runs: readonly RunSummary[]
  /** Facts that differ between the runs, and those that are equal. */
  readonly differences: readonly ComparedFact[]
  readonly equal: Readonly<Record<string, string>>
  readonly curves: readonly Chart[]
}

// ---------------------------------------------------------------- data

interface NamedLog {
  readonly name: string
  readonly log: ReadLog
}

type Picked = 'loss' | 'lr' | 'seconds'
const stepsOf = (logs: readonly NamedLog[], of: Picked): readonly ChartSeries[] =>
  logs.map(({ name, log: { steps } }) =>
    stepSeries(
      name,
      steps.map((s) => s[of]),
      steps.map((s) => s.step),
    ),
  )

const metricOf = (logs: readonly NamedLog[], metric: string): readonly ChartSeries[] =>
  logs.map(({ name, log: { evaluations } }) =>
    stepSeries(
      name,
      evaluations.map((e) => e.metrics[metric] ?? Number.NaN),
      evaluations.map((e) => e.step),
    ),
  )

/** A range of losses this wide is drawn on a logarithmic scale. */
const WIDE = 30
const isWide = (series: readonly ChartSeries[]): boolean => {
  const all = series.flatMap((s) => s.points.flatMap(([, y]) => (y === null ? [] : [y])))
  const least = all.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
  return least > 0 && all.reduce((a, b) => Math.max(a, b), 0) > WIDE * least
}

const chartOf = (title: string, y: string, series: readonly ChartSeries[]): readonly Chart[] => {
  // A run without points keeps its place, so that each run has one colour on the whole page.
  return series.every((s) => s.points.length === 0) ? [] : [{ title, x: 'step', y, log: y === 'loss' && isWide(series), series }]
}

const curvesOf = (logs: readonly NamedLog[]): readonly Chart[] => {
  const metrics = [...new Set(logs.flatMap(({ log }) => log.evaluations.flatMap((e) => Object.keys(e.metrics))))]
  return [
    ...chartOf('Loss', 'loss', stepsOf(logs, 'loss')),
    ...metrics.flatMap((m) => chartOf(`Evaluated ${m}`, m, metricOf(logs, m))),
    ...chartOf('Learning rate', 'learning rate', stepsOf(logs, 'lr')),
    ...chartOf('Seconds per step', 'seconds', stepsOf(logs, 'seconds')),
  ]
}

export const comparisonOf = (runs: readonly Run[]): Comparison => {
  const facts = runs.map(({ record: { command: _, ...record } }) => factsOf(record))
  const names = [...new Set(facts.flatMap((f) => Object.keys(f)))]
  const all = names.map((name): ComparedFact => ({ name, values: facts.map((f) => f[name] ?? null) }))
  const isEqual = ({ values }: ComparedFact): boolean => values.every((v) => v === values[0])
  return {
    runs: runs.map((r) => r.summary),
    differences: all.filter((f) => !isEqual(f)),
    equal: Object.fromEntries(all.filter(isEqual).map((f) => [f.name, f.values[0]!])),
    curves: curvesOf(runs.map((r) => ({ name: r.summary.name, log: logOf(r) }))),
  }
}

// ---------------------------------------------------------------- words

/** The texts of a summary for people, by name. */
export const summaryTexts = (r: RunSummary): Readonly<Record<string, string>> => ({
  state: r.state,
  steps: `${r.stepsDone}/${r.steps}`,
  'last loss': r.loss === null ? '–' : `${Number(r.loss.toPrecision(6))}`,
  best: r.best === undefined ? '–' : `${r.best.metric} ${Number(r.best.value.toPrecision(5))}`,
  'time per step': r.secondsPerStep === undefined ? '–' : showSeconds(r.secondsPerStep),
  memory: r.arenaPeakBytes === undefined ? '–' : showSize(r.arenaPeakBytes),
})

// ---------------------------------------------------------------- the page

const figure = (chart: Chart): string => {
  const series = chart.series.map((s) => ({ name: s.name, points: s.points.map(([x, y]) => [x, y ?? undefined] as const) }))
  const { title, x, y, log = false } = chart
  return `<figure class="plotted">${chartHtml(chart, plotSvg({ title, x, y, log, series, counts: true, height: 300 }, 'page'))}</figure>`
}

const cell = (value: string | null): string => escapeHtml(value ?? '–')

export const comparisonHtml = ({ runs, differences, equal, curves }: Comparison): string => {
  const names = runs.map((r) => r.name)
  const results = runs.map((r) => [escapeHtml(r.name), ...Object.values(summaryTexts(r)).map(escapeHtml)])
  return page(
    `${names.join(', ')}: Spillway runs`,
    [
      `<header><h1>${names.length} runs</h1><p>${names.map((n) => `<b>${escapeHtml(n)}</b>`).join(', ')}</p></header>`,
      section(
        'results',
        'Results',
        '',
        tableOf('Results', ['run', ...Object.keys(summaryTexts(runs[0]!)).map((h) => `#${h}`)], results),
      ),
      section('curves', 'Curves', 'Point at a chart for values; drag to zoom.', ...curves.map(figure)),
      section(
        'differences',
        'Differences',
        differences.length === 0 ? 'All recorded options are equal.' : 'Options, machines and data that differ.',
        differences.length === 0
          ? ''
          : `<div class="recipe">${tableOf(
              'Differences',
              ['name', ...names],
              differences.map((d) => [escapeHtml(d.name), ...d.values.map(cell)]),
            )}</div>`,
      ),
      section(
        'equal',
        'Equal in all runs',
        '',
        `<div class="recipe">${tableOf(
          'Equal',
          ['name', 'value'],
          Object.entries(equal).map(([n, v]) => [escapeHtml(n), escapeHtml(v)]),
        )}</div>`,
      ),
    ].join('\n'),
    { script: CHART_SCRIPT, style: CHART_STYLE },
  )
}
