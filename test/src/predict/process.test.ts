// The stated memory of a prediction: bands in place of whole images, and outputs as their format holds them. The parts add up.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, fromBytes, mib, model, seq, source, stage } from '../../../src'
import { predictionMemory } from '../../../src/predict/process'
import { summary } from '../../../src/report/summary'
import { DEVICE } from '../../e2e/runs'

const [HEIGHT, WIDTH] = [4096, 2048] as const
const net = model([1, 3, HEIGHT, WIDTH], seq(fromBytes(), conv2d('a', 3, 3)))
const staged = stage(net, { mode: 'predict', as: 'classes', machine: DEVICE, budget: mib(64), algorithms: 'fixed' })
const slide = (length: number) =>
  source({ length, size: [HEIGHT, WIDTH], read: (_, { height, width }) => ({ input: new Uint8Array(3 * height * width) }) })
const memory = (o: Parameters<typeof predictionMemory>[1]) => {
  const p = predictionMemory(staged, o)!
  assert.is(p.peakBytes, p.deviceBytes + p.swappedBytes + p.feedBytes + p.outputBytes! + p.codeBytes)
  return [p.feedBytes, p.outputBytes]
}

test('images that are read by regions are in bands; outputs wait in files, or in memory', () => {
  const whole = HEIGHT * WIDTH * 3
  // 682 rows have 16 MiB in numbers of four bytes; three bands and a region are held, of bytes.
  const bands = 4 * 682 * WIDTH * 3
  const classes = HEIGHT * WIDTH * 4
  assert.equal(memory({ data: 'photos/', out: 'masks', format: 'npy' }), [3 * whole, 2 * classes])
  assert.equal(memory({ data: slide(1), out: 'masks', format: 'npy' }), [bands, classes])
  assert.equal(memory({ data: slide(2), out: 'masks' }), [bands, 2 * classes])
  assert.equal(memory({ data: slide(2), out: 'masks', format: 'tiff' }), [bands, 2 * 2 ** 24])
  assert.equal(memory({ data: slide(2), format: 'tiff' }), [bands, 2 * classes])
})

test('the summary has the outputs', () => {
  const process = predictionMemory(staged, { data: slide(1), out: 'masks', format: 'tiff' })
  assert.match(
    summary(staged.plan, staged.timeline, { ...staged.staging, process }),
    /of batches, 32 MiB of outputs, 160 MiB of code/,
  )
})

test.run()
