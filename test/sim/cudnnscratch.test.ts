// Scratch that cuDNN named for GPUs that are simulated: for calls that it was asked about, for weights over other images, and for no other.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { CallShapes } from '../../staging/ops/op'
import { recordedScratch } from '../../staging/sim/cudnnscratch'
import { machines } from '../../staging/sim/machines'

const MIB = 2 ** 20
const window = {
  strideH: 1,
  strideW: 1,
  padTop: 1,
  padLeft: 1,
  padBottom: 1,
  padRight: 1,
  dilationH: 1,
  dilationW: 1,
  groups: 1,
}
/** U-Net's widest weight, 36 MiB, and its gradient over an image with this number of rows. */
const weight = [1024, 1024, 3, 3]
const gradient = (rows: number): CallShapes => ({
  ins: [
    [1, 1024, rows, 32],
    [1, 1024, rows, 32],
  ],
  outs: [weight, [1024]],
})

test('the scratch of a weight gradient is the same for any image size', () => {
  const asked = recordedScratch('2080ti', 'fp32')
  const whole = asked('conv2d_bwd_weights', window, gradient(32))!
  assert.ok(whole > 36 * MIB && whole < 40 * MIB, `${whole / MIB} MiB`)
  assert.is(asked('conv2d_bwd_weights', window, gradient(20)), whole)
  const { workspace } = machines['2080ti-pcie-11g']!
  assert.is(workspace('conv2d_bwd_weights', window, gradient(20)), whole)
})

test('windows, weights, calls and machines without a measured answer use the bound of the op table', () => {
  const asked = recordedScratch('2080ti', 'fp32')
  const odd: CallShapes = { ...gradient(20), outs: [[1024, 1023, 3, 3], [1024]] }
  assert.is(asked('conv2d_bwd_weights', window, odd), undefined)
  assert.is(asked('conv2d_bwd_weights', { ...window, dilationH: 2 }, gradient(20)), undefined)
  const data: CallShapes = { ins: [[1, 1024, 20, 32], weight], outs: [[1, 1024, 20, 32]] }
  assert.is(asked('conv2d_bwd_data', window, data), undefined)
  assert.is(asked('add', {}, data), undefined)
  assert.is(recordedScratch(undefined, 'fp32')('conv2d_bwd_weights', window, gradient(32)), undefined)
  assert.is(machines['v100-pcie-16g']!.workspace('conv2d_bwd_weights', window, gradient(20)), 9 * 36 * MIB)
})

test('each precision has its own answers, and a GPU without bf16 has none there', () => {
  const of = (precision: 'fp32' | 'tf32' | 'bf16', gpu: 'a100' | '2080ti' = 'a100') =>
    recordedScratch(gpu, precision)('conv2d_bwd_weights', window, gradient(32))
  assert.is(new Set([of('fp32'), of('tf32'), of('bf16')]).size, 3)
  assert.is(of('bf16', '2080ti'), undefined)
})

test.run()
