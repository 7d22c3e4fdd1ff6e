// Sections of the page of a run: losses, metrics, learning rates, time and memory.
import { bytesOf } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import { tierShares } from './facts'
import { showCount, showSeconds, showSize } from './format'
import { callShades, type Shade, shadeTitle } from './lanes'
import type { Plot, Series } from './lineplot'
import {
  asDrawn,
  bucketsOf,
  bucketTable,
  drawn,
  figure,
  isThere,
  metricText,
  MOST_FINE,
  numberText,
  oddSteps,
  section,
  seriesOf,
  stepSeries,
  tableOf,
} from './runcharts'
import { secondsPerStep } from './runhead'
import type { MeasuredEpoch, RunView } from './runview'

const WIDE = 30

export const losses = (v: RunView): string => {
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

export const metrics = (v: RunView): string => {
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

export const rates = (v: RunView): string => {
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

export const time = (v: RunView): string => {
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

export const memory = (v: RunView): string => {
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
