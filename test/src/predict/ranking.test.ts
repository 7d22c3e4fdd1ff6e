// Precision, recall, rankings and structural similarity: the numbers of scikit-learn 1.9 and torchmetrics 1.9, for any division of the rows. They were
// made by roc_auc_score(labels == c, softmax), average_precision_score, precision_score, recall_score (average=None), and
// structural_similarity_index_measure(data_range=1.0, return_full_image=True), whose windows inside the image are averaged.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bceWithLogits, crossEntropy, type Loss, mse } from '../../../src'
import { errorText } from '../../../src/errors/errors'
import type { Compared } from '../../../src/predict/ownmetric'
import type { Measured } from '../../../src/predict/measured'
import { measuring } from '../../../src/predict/metrics'
import type { MetricName, Task } from '../../../src/predict/metricnames'
import { lossEntry } from '../../../staging/ops/losscalls'

const taskOf = (loss: Loss, channels: number, pixels: number): Task => {
  const entry = lossEntry(loss)
  if (isLeft(entry)) throw new Error('no loss')
  return { loss, entry: entry.right, channels, pixels, form: 'values' }
}
const problem = (task: Task, metric: MetricName): string => {
  const m = measuring(task, [metric])
  return isLeft(m) ? errorText(m.left) : 'nothing'
}
const measured = (task: Task, images: readonly (readonly Compared[])[], metrics: readonly MetricName[]): Measured => {
  const m = measuring(task, metrics)
  if (isLeft(m)) throw new Error(errorText(m.left))
  const all = m.right()
  for (const parts of images) {
    parts.forEach(all.add)
    all.fold(all.image())
  }
  return all.result()
}
const near = (found: readonly number[] | undefined, expected: readonly number[], what: string): void => {
  assert.is(found?.length, expected.length, what)
  expected.forEach((x, i) => assert.ok(Math.abs(found![i]! - x) < 1e-9, `${what}: ${found![i]}, should be ${x}`))
}

const [N, C] = [40, 3]
const wave = (i: number, k: number): number => Math.sin(k * (i + 1))
const rounded = (x: number, digits: number): number => Number(x.toFixed(digits))
const labels = Array.from({ length: N }, (_, i) => (i * 7 + Math.floor(i / 5)) % C)
const one = (image: number, output: readonly number[], target: number): readonly Compared[] => [
  { image, rows: 1, width: 1, channels: output.length, output, target: [target] },
]

test('rankings of classes, each against the rest', () => {
  const images = labels.map((label, i) =>
    one(
      i,
      Array.from({ length: C }, (_, c) => rounded(wave(i * C + c, 1.7), 2) + (c === label ? 0.4 : 0)),
      label,
    ),
  )
  const { metrics, perClass } = measured(taskOf(crossEntropy, C, 1), images, ['auroc', 'averagePrecision', 'precision', 'recall'])
  const auroc = [0.5651041666666667, 0.5885416666666666, 0.3828125]
  near(perClass?.['auroc'], auroc, 'auroc')
  near([metrics['auroc']!], [auroc.reduce((n, x) => n + x, 0) / C], 'mean auroc')
  near(perClass?.['averagePrecision'], [0.5432075961635583, 0.548293965667285, 0.17187498973650256], 'average precision')
  near(perClass?.['precision'], [0.4, 0.38461538461538464, 0], 'precision')
  near(perClass?.['recall'], [0.375, 0.3125, 0], 'recall')
})

test('the ranking of one channel, with equal scores', () => {
  const images = labels.map((_, i) => one(i, [rounded(wave(i, 2.3), 1)], (i * 3) % 7 < 3 ? 1 : 0))
  const { metrics } = measured(taskOf(bceWithLogits, 1, 1), images, ['auroc', 'averagePrecision'])
  near([metrics['auroc']!, metrics['averagePrecision']!], [0.5767263427109974, 0.493231061215035], 'binary')
})

test('a class without labels has no number, and the mean leaves it out', () => {
  const images = [0, 1, 0, 1].map((label, i) => one(i, [i, 2 - i, 0], label))
  const { metrics, perClass } = measured(taskOf(crossEntropy, C, 1), images, ['auroc', 'recall'])
  assert.ok(Number.isNaN(perClass!['auroc']![2]) && Number.isFinite(metrics['auroc']))
})

const [H, W, D] = [20, 16, 2]
const pixel = (k: number, i: number, c: number, y: number, x: number): number =>
  0.5 + 0.5 * Math.sin(k * (((i * 2 + c) * H + y) * W + x + 1))
test('structural similarity, for any division of the rows', () => {
  for (const each of [H, 7, 1]) {
    const images = [0, 1].map((image) =>
      Array.from({ length: Math.ceil(H / each) }, (_, k): Compared => {
        const rows = Math.min(each, H - k * each)
        const places = Array.from(
          { length: rows * W * D },
          (_, p) => [p % D, k * each + Math.floor(p / D / W), Math.floor(p / D) % W] as const,
        )
        const output = places.map(([c, y, x]) => pixel(0.11, image, c, y, x))
        const target = places.map(([c, y, x], p) => 0.7 * output[p]! + 0.3 * pixel(0.07, image, c, y, x))
        return { image, rows, width: W, channels: D, output, target }
      }),
    )
    near([measured(taskOf(mse, D, H * W), images, ['ssim']).metrics['ssim']!], [0.8793320486738705], `${each} rows`)
  }
})

test('rankings are of images, similarity is of numbers', () => {
  assert.match(
    problem(taskOf(crossEntropy, C, 64), 'auroc'),
    /ranks one result per image, but the model has 64 pixels; allowed: accuracy/,
  )
  assert.match(problem(taskOf(crossEntropy, C, 1), 'ssim'), /compares numbers/)
  assert.match(problem(taskOf(mse, 3, 64), 'precision'), /needs classes/)
})

test.run()
