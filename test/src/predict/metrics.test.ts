// Metrics: the numbers of torchmetrics and scikit-learn, for any division in parts; impossible ones are refused in words.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy, crossEntropyWith, type Loss, metric, mse } from '../../../src'
import { errorText } from '../../../src/errors/errors'
import type { Compared, Metric } from '../../../src/predict/ownmetric'
import { formFor, type MetricName, type Task, usualMetrics } from '../../../src/predict/metricnames'
import type { Measured } from '../../../src/predict/measured'
import { measuring } from '../../../src/predict/metrics'
import { lossEntry } from '../../../staging/ops/losscalls'

interface Case {
  readonly shape: readonly [n: number, c: number, h: number, w: number]
  readonly values: readonly number[]
  readonly target: readonly number[]
  readonly ignore?: number
  readonly found: Readonly<Record<string, number>> & {
    readonly perIou: readonly number[]
    readonly perF1: readonly number[]
    readonly confusion: readonly (readonly number[])[]
  }
}
const CASES = JSON.parse(readFileSync(join(__dirname, '../../fixtures/metrics.json'), 'utf8')) as Readonly<Record<string, Case>>

const taskOf = (loss: Loss, [, channels, h, w]: Case['shape'], form: Task['form'] = 'values'): Task => {
  const entry = lossEntry(loss)
  if (isLeft(entry)) throw new Error('no loss')
  return { loss, entry: entry.right, channels, pixels: h * w, form }
}

/** Channels last, a number of rows at a time. */
const partsOf = (c: Case, rowsEach: number, asClasses: boolean, numbers: boolean): readonly Compared[] => {
  const [n, channels, h, w] = c.shape
  const at = (list: readonly number[], image: number, ch: number, row: number, x: number, of: number): number =>
    list[((image * of + ch) * h + row) * w + x]!
  const pixel = (image: number, row: number, x: number, list: readonly number[], of: number): number[] =>
    Array.from({ length: of }, (_, ch) => at(list, image, ch, row, x, of))
  return Array.from({ length: n }, (_, image) =>
    Array.from({ length: Math.ceil(h / rowsEach) }, (_, k): Compared => {
      const rows = Math.min(rowsEach, h - k * rowsEach)
      const places = Array.from({ length: rows * w }, (_, p) => [k * rowsEach + Math.floor(p / w), p % w] as const)
      const output = places.map(([row, x]) => pixel(image, row, x, c.values, channels))
      const target = places.flatMap(([row, x]) => pixel(image, row, x, c.target, numbers ? channels : 1))
      return {
        image,
        rows,
        width: w,
        channels: asClasses ? 1 : channels,
        output: asClasses ? Int32Array.from(output, (p) => p.indexOf(Math.max(...p))) : Float32Array.from(output.flat()),
        target,
      }
    }),
  ).flat()
}

const measured = (task: Task, parts: readonly Compared[], metrics: readonly (MetricName | Metric)[]): Measured => {
  const begun = measuring(task, metrics)
  if (isLeft(begun)) throw new Error(errorText(begun.left))
  const m = begun.right()
  parts.forEach((p, i) => {
    m.add(p)
    if (parts[i + 1]?.image !== p.image) m.fold(m.image())
  })
  return m.result()
}

const near = (a: number | undefined, b: number | undefined, what: string): void =>
  assert.ok(Math.abs(a! - b!) < 2e-7, `${what}: ${a}, should be ${b}`)

for (const name of ['pixels', 'ignored', 'images'])
  test(`of ${name}, whole and in parts, of values and of classes`, () => {
    const c = CASES[name]!
    const loss = c.ignore === undefined ? crossEntropy : crossEntropyWith({ ignoreIndex: c.ignore })
    const every = `top${c.shape[1]}` as const
    for (const rows of [1, 3, c.shape[2]])
      for (const form of ['values', 'classes'] as const) {
        const tops = form === 'values' ? (['top1', 'top2', 'top3', every] as const) : []
        const { metrics, perClass, confusion } = measured(
          taskOf(loss, c.shape, form),
          partsOf(c, rows, form === 'classes', false),
          ['accuracy', 'meanIou', 'f1', 'dice', 'confusion', ...tops],
        )
        for (const key of ['accuracy', 'meanIou', 'f1']) near(metrics[key], c.found[key], key)
        near(metrics['dice'], c.found['f1'], 'dice')
        if (form === 'values') {
          near(metrics['top1'], c.found['accuracy'], 'top1')
          for (const key of ['top2', 'top3']) near(metrics[key], c.found[key], key)
          assert.is(metrics[every], 1)
        }
        assert.equal(confusion, c.found.confusion)
        const there = (i: number): boolean =>
          c.found.confusion.some((row, r) => row.some((x, k) => x > 0 && (r === i || k === i)))
        perClass!['iou']!.forEach((x, i) => (there(i) ? near(x, c.found.perIou[i], `iou of ${i}`) : assert.ok(Number.isNaN(x))))
        perClass!['f1']!.forEach((x, i) => (there(i) ? near(x, c.found.perF1[i], `f1 of ${i}`) : assert.ok(Number.isNaN(x))))
      }
  })

test('of numbers', () => {
  const c = CASES['numbers']!
  for (const rows of [1, 2, 5]) {
    const { metrics, perClass } = measured(taskOf(mse, c.shape), partsOf(c, rows, false, true), ['mae', 'mse', 'psnr'])
    for (const key of ['mae', 'mse']) near(metrics[key], c.found[key], key)
    assert.ok(Math.abs(metrics['psnr']! - c.found['psnr']!) < 1e-5)
    assert.is(perClass, undefined)
  }
})

test('of one channel beside a sigmoid there are two classes', () => {
  const task = taskOf('bce-with-logits', [1, 1, 1, 4])
  const part = { image: 0, rows: 1, width: 4, channels: 1, output: Float32Array.of(2, -1, 0.5, 0), target: [1, 1, 0, 0] }
  assert.equal(measured(task, [part], ['accuracy', 'confusion']), {
    metrics: { accuracy: 0.5 },
    perClass: { accuracy: [0.5, 0.5] },
    confusion: [
      [1, 1],
      [1, 1],
    ],
  })
})

test("a user's metric starts anew for each evaluation", () => {
  const largest = metric({
    name: 'largest',
    start: () => 0,
    add: (most, { output, target }) => Array.from(output).reduce((m, y, i) => Math.max(m, Math.abs(y - target[i]!)), most),
    value: (most) => most,
  })
  const c = CASES['numbers']!
  const task = taskOf(mse, c.shape)
  const expected = c.values.reduce((m, y, i) => Math.max(m, Math.abs(y - c.target[i]!)), 0)
  for (let i = 0; i < 2; i++) near(measured(task, partsOf(c, 2, false, true), [largest]).metrics['largest'], expected, 'largest')
  assert.is(measured(task, [], [largest]).metrics['largest'], 0)
})

test('results of several ranks merge: counts in any order, sums by image, and mergeable states', () => {
  const seen = metric({
    name: 'seen',
    start: (): readonly number[] => [],
    add: (list, { image }) => (list.includes(image) ? list : [...list, image]),
    merge: (a, b) => [...a, ...b],
    value: (list) => list.reduce((n, image) => 10 * n + image + 1, 0),
  })
  for (const [name, loss, metrics] of [
    ['pixels', crossEntropy, ['accuracy', 'f1', 'confusion', 'top2', seen]],
    ['numbers', mse, ['mae', 'psnr', seen]],
  ] as const) {
    const c = CASES[name]!
    const task = taskOf(loss, c.shape)
    const parts = partsOf(c, 1, false, name === 'numbers')
    const begun = measuring(task, metrics)
    if (isLeft(begun)) throw new Error(errorText(begun.left))
    const [first, second] = [begun.right(), begun.right()]
    const images = [...new Set(parts.map((p) => p.image))].map((image) => {
      const m = image % 2 ? second : first
      for (const part of parts) if (part.image === image) m.add(part)
      return m.image()
    })
    images.forEach(first.fold)
    first.join(second.counts())
    assert.equal(first.result(), measured(task, parts, metrics))
    assert.is(
      first.result().metrics['seen'],
      images.reduce((n, _, i) => 10 * n + i + 1, 0),
    )
  }
})

test('default metrics of each task, and the needs of each metric', () => {
  assert.equal(usualMetrics(taskOf(crossEntropy, [1, 10, 1, 1])), ['accuracy', 'top5'])
  assert.equal(usualMetrics(taskOf(crossEntropy, [1, 3, 1, 1])), ['accuracy'])
  assert.equal(usualMetrics(taskOf(crossEntropy, [1, 3, 4, 4], 'classes')), ['accuracy', 'meanIou'])
  assert.equal(usualMetrics(taskOf(mse, [1, 3, 4, 4])), ['mae', 'psnr'])
  assert.equal([formFor(['accuracy', 'top3']), formFor(['psnr']), formFor(['f1', 'confusion'])], ['values', 'values', undefined])
})

test('metrics that cannot be measured are refused with the reason', () => {
  const refusal = (loss: Loss, form: Task['form'], ...metrics: readonly string[]): string => {
    const r = measuring(taskOf(loss, [1, 5, 4, 4], form), metrics as MetricName[])
    return isRight(r) ? 'nothing' : errorText(r.left)
  }
  assert.match(refusal(crossEntropy, 'values', 'acuracy'), /metric 'acuracy' is not known; nearest: accuracy/)
  assert.match(refusal(crossEntropy, 'values', 'top0'), /metric 'top0' is not known/)
  assert.match(refusal(crossEntropy, 'values', 'psnr'), /metric 'psnr' compares numbers, .* allowed: accuracy/)
  assert.match(refusal(mse, 'values', 'meanIou'), /metric 'meanIou' needs classes, .* allowed: mae/)
  assert.match(refusal(mse, 'values', 'top5'), /needs classes/)
  assert.match(refusal(crossEntropy, 'classes', 'top5'), /needs the values of the net: stage with as: 'values'/)
  assert.match(refusal(crossEntropy, 'classes', 'f1', 'f1'), /'f1' is listed twice/)
})

test.run()
