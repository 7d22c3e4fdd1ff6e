// The head of the page of a run: its state, times and best measurement.
import { bytesOf } from '../../staging/core/bytes'
import { showCount, showPercent, showSeconds, showSize } from './format'
import { escapeHtml } from './page'
import { metricText, numberText } from './runcharts'
import type { RunView } from './runview'

const RECENT = 30

/** The mean of all steps with a known time, or of the last `last`. */
export const secondsPerStep = ({ seconds }: RunView, last = seconds.length): number => {
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

export const head = (v: RunView): string => {
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

export const cards = (v: RunView): string => {
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
