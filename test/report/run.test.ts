// The numbers of a run's page: points of long runs are several steps, infinite values give none, many classes give pairs of them.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bucketsOf, type Details, runHtml, type RunView } from '../../src/report/run'
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

test.run()
