// The model of a GPU's double-precision rate: only sums for norms use it.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { RTX_4090 as GPU, type Accelerator } from '../../staging/sim/accelerators'
import { roofline } from '../../staging/sim/machines'

const RTX_4090: Accelerator = { ...GPU, launchSeconds: 0 }
const { fp64FlopsPerSecond: _, ...WITHOUT } = RTX_4090
const SLOW: Accelerator = { ...RTX_4090, fp64FlopsPerSecond: 1e9 }

const SHAPES = { ins: [[8, 64, 16, 16]], outs: [[4, 64]] }
const ELEMENTS = 8 * 64 * 16 * 16
const secondsOn = (a: Accelerator, kind: string): number => roofline(a, 'fp32')(kind, {}, SHAPES)

test('a sum of a norm waits for memory at one FP64 unit for 64 FP32 units', () => {
  assert.is(secondsOn(RTX_4090, 'bn_stats'), secondsOn(WITHOUT, 'bn_stats'))
})

test('a lower rate bounds sums of norms', () => {
  assert.is(secondsOn(SLOW, 'bn_stats'), (0.25 * ELEMENTS * 2) / 1e9)
})

test('other kernels do not depend on it', () => {
  assert.is(secondsOn(SLOW, 'relu'), secondsOn(WITHOUT, 'relu'))
})

test.run()
