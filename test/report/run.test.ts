// The numbers of a run's page: points of long runs are several steps, infinite values give none, many classes give pairs of them.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Chart } from '../../src/report/chart'
import { bucketsOf } from '../../src/report/runcharts'
import type { Details, RunView } from '../../src/report/runview'
import { runHtml } from '../../src/report/run'
import { planJson } from '../../src/report/facts'
import { showSeconds, showSize } from '../../src/report/format'
import { chainPlan, play, stagingOf } from './plans'

const plan = chainPlan({ layers: 4, size: 256, tiles: 4, recompute: true, swap: true, name: '</script><b>' })
const view: RunView = {
  plan,
  timeline: play(plan),
  staging: stagingOf(plan),
  began: '2026-01-02T03:04:05.678Z',
  written: '2026-01-02T03:05:05.678Z',
  steps: 1000,
  stepsPerEpoch: 100,
  resumedFrom: 0,
  losses: [],
  rates: [],
  seconds: [],
  epochs: [],
  measured: [],
  evaluated: false,
  best: undefined,
  sums: undefined,
  callSeconds: undefined,
  details: undefined,
}
const sound = (page: string): string => {
  assert.not.match(page, /NaN|undefined|Infinity/)
  assert.not.match(page, /<[^>]*(?:src|href)=|url\((?!#)|https?:/)
  return page
}

test('points share steps where there are many: means, least and most; each step is in one', () => {
  assert.equal(bucketsOf([3, 1, 2], 3), [
    { from: 1, to: 1, mean: 3, least: 3, most: 3 },
    { from: 2, to: 2, mean: 1, least: 1, most: 1 },
    { from: 3, to: 3, mean: 2, least: 2, most: 2 },
  ])
  const many = Array.from({ length: 1001 }, (_, i) => (i === 4 ? NaN : i))
  const buckets = bucketsOf(many)
  assert.ok(buckets.length <= 200)
  assert.equal(buckets[0], { from: 1, to: 6, mean: (0 + 1 + 2 + 3 + 5) / 5, least: 0, most: 5 })
  assert.is(
    buckets.reduce((n, b) => n + b.to - b.from + 1, 0),
    1001,
  )
  assert.ok(Number.isNaN(bucketsOf([NaN, Infinity], 1)[0]!.mean))
})

test('a page before the first step, of steps that are not finite, and of a long run', () => {
  assert.match(sound(runHtml(view)), 'Running: step 0 of 1')
  const odd = { ...view, losses: [1, NaN, Infinity], rates: [0.1, 0.1, 0.1], seconds: [NaN, 0.1, 0.2] }
  assert.match(sound(runHtml(odd)), '2 losses are not finite')
  const losses = Array.from({ length: 100_000 }, (_, i) => 100 / (i + 1))
  const long = {
    ...view,
    steps: 200_000,
    losses,
    rates: losses,
    seconds: losses.map(() => 0.25),
    callSeconds: plan.calls.map((c) => c.seconds),
  }
  const page = sound(runHtml(long))
  assert.match(page, 'log scale')
  assert.match(page, /about 6\.9 h left/)
  assert.ok(page.length < 3e6, `${page.length} characters`)
})

test('few classes are crossed, of many the pairs that are taken for each other most often; names are made safe', () => {
  const details = (count: number): Details => ({
    classes: Array.from({ length: count }, (_, c) => `<i>${c}`),
    confusion: Array.from({ length: count }, (_, row) =>
      Array.from({ length: count }, (_, c) => (c === row ? 9 : c === row + 1 ? row : 0)),
    ),
    perClass: { accuracy: Array.from({ length: count }, (_, c) => (c === 0 ? NaN : c / count)) },
    worst: [{ name: 'a "<b>"', loss: Infinity, label: '<i>1', answer: '<i>2', pictures: [] }],
    worstBy: 'cross-entropy',
    took: { images: 9, budgetBytes: 1, peakBytes: 1, arenaPeakBytes: 1, secondsPerStep: 1, predictedSecondsPerStep: 1 },
  })
  const few = runHtml({ ...view, details: details(3) })
  assert.match(few, 'labels (rows) and predicted classes (columns)')
  assert.not.match(few, /<i>\d/)
  assert.not.match(few, '<b>"')
  const many = runHtml({ ...view, details: details(30) })
  assert.match(many, 'the labels with most errors')
  const rows = many
    .slice(many.indexOf('the labels with most errors'))
    .match(/<tr><th scope="row">&lt;i&gt;28<\/th><td>&lt;i&gt;29<\/td><td class="n">28<\/td>/)
  assert.ok(rows)
})

test('each number of the tables, cards and charts is one of the run', () => {
  const losses = [4, 2, 1, 0.5]
  const seconds = [0.5, 0.25, 0.25, 0.25]
  const measured = [
    { epoch: 1, step: 2, metrics: { loss: 3, accuracy: 0.25 } },
    { epoch: 2, step: 4, metrics: { loss: 0.75, accuracy: 0.875 } },
  ]
  const epochs = [
    { epoch: 1, step: 2, loss: 3 },
    { epoch: 2, step: 4, loss: 0.75 },
  ]
  const run = {
    ...view,
    steps: 4,
    stepsPerEpoch: 2,
    losses,
    rates: [0.1, 0.2, 0.3, 0.4],
    seconds,
    epochs,
    measured,
    evaluated: true,
    best: measured[1],
  }
  const page = sound(runHtml(run as unknown as RunView))
  const facts = planJson(run.plan, run.timeline, run.staging)
  const text = (html: string): string => html.replace(/<[^>]+>/g, '')
  const rows = (caption: string): readonly (readonly string[])[] => {
    const table = page.slice(page.indexOf(`<caption>${caption}`))
    return [...table.slice(0, table.indexOf('</table>')).matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row]) =>
      [...row!.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell]) => text(cell!)),
    )
  }
  const steps = (values: readonly number[]) => values.map((x, i) => [`${i + 1}`, `${x}`])
  assert.equal(rows('Loss per step').slice(1), steps(losses))
  assert.equal(rows('Seconds per step').slice(1), steps(seconds))
  assert.equal(rows('Learning rate per step').slice(1), steps(run.rates))
  assert.equal(
    rows('Mean loss per epoch').slice(1),
    epochs.map((e) => [`${e.epoch}`, `${e.step}`, `${e.loss}`]),
  )
  assert.equal(rows('Evaluations').slice(1), [
    ['1', '2', '3', '0.2500', ''],
    ['2', '4', '0.75', '0.8750', 'best'],
  ])
  assert.equal(rows('Memory, planned and measured')[1]!.slice(0, 3), [
    'training steps',
    showSize(facts.budgetBytes),
    showSize(facts.peakBytes),
  ])
  const time = new Map(rows('Time per phase of a step').map(([phase, planned]) => [phase, planned]))
  assert.is(time.get('training step'), showSeconds(facts.makespanSeconds))

  const cards = new Map(
    [...page.matchAll(/<div class="card"><em>(.*?)<\/em><strong>(.*?)<\/strong><span>(.*?)<\/span>/g)].map(
      ([, title, value, note]) => [title, [value, note]],
    ),
  )
  assert.equal(cards.get('steps'), ['4 of 4', '2 per epoch'])
  assert.equal(cards.get('loss'), ['0.5', 'best evaluation: 2, loss 0.75, accuracy 0.8750'])
  assert.equal(cards.get('step time'), [showSeconds(1.25 / 4), `planned ${showSeconds(facts.makespanSeconds)}`])
  assert.is(cards.get('device memory')![1], `planned ${showSize(facts.peakBytes)}`)

  const charts = [...page.matchAll(/<script type="application\/json">(.*?)<\/script>/gs)].map(
    ([, json]) => JSON.parse(json!) as Chart,
  )
  const drawn = (title: string) =>
    charts.find((c) => c.title === title)!.series.map(({ name, points }) => [name, points.map(([, y]) => y)])
  assert.equal(drawn('Loss'), [
    ['per step', losses],
    ['epoch mean', [3, 0.75]],
    ['evaluated', [3, 0.75]],
  ])
  assert.equal(drawn('Seconds per step'), [
    ['measured', seconds],
    ['planned', [facts.makespanSeconds, facts.makespanSeconds]],
  ])
})

test.run()
