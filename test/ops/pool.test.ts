// Pooling's output extents in PyTorch's ceil mode, limits of padding, and the shape rules of the backward ops.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AnyAttrs, listedAttrs } from '../../staging/ops/op'
import { avgPool, avgPoolBwd, globalAvgPool, globalAvgPoolBwd, maxPads, maxPool, maxPoolBwd } from '../../staging/ops/pool'

const max = (kernel: number, stride: number, pad: number, ceil: number) => ({
  kernelH: kernel,
  kernelW: kernel,
  strideH: stride,
  strideW: stride,
  padTop: pad,
  padLeft: pad,
  ceil,
})
const avg = (kernel: number, stride: number, pad: number, ceil: number) => ({
  ...max(kernel, stride, pad, ceil),
  countIncludePad: 1,
  padBottom: pad,
  padRight: pad,
})
const rows = (kernel: number, stride: number, pad: number, ceil: number, extent: number): unknown => {
  const s = maxPool.shape(max(kernel, stride, pad, ceil), [[1, 1, extent, extent]], [])
  return isLeft(s) ? s.left : s.right[0]![2]
}

// torch.nn.MaxPool2d(kernel, stride, pad, ceil_mode=…)(torch.zeros(1, 1, n, n)).shape[2]
test('ceil mode adds a window only when it starts inside the image or its low padding', () => {
  assert.is(rows(3, 2, 1, 0, 112), 56)
  assert.is(rows(3, 2, 1, 1, 112), 57)
  assert.is(rows(2, 2, 0, 0, 5), 2)
  assert.is(rows(2, 2, 0, 1, 5), 3)
  assert.is(rows(3, 2, 0, 1, 6), 3)
  assert.is(rows(1, 2, 0, 1, 4), 2, 'a third window would start at row 4 of 4')
  assert.is(rows(2, 3, 0, 1, 6), 2, 'a third window would start at row 6 of 6')
  assert.is(rows(2, 3, 0, 1, 7), 3)
  assert.is(rows(2, 3, 1, 1, 5), 2, 'a third window would start past the image')
  assert.is(rows(3, 2, 0, 1, 509), 254)
})

test('padding is at most half of the kernel', () => {
  assert.is(rows(3, 2, 2, 0, 9), 'low padding in H is 2; allowed: 0 to 1')
  assert.is(
    rows(4, 4, 0, 0, 3),
    'a window of 4 is larger than the padded H of 3; allowed: kernels of 1 to 3 or an image of 4 or more',
  )
})

test('pooling pads each side by its own amount', () => {
  const a = { ...avg(2, 1, 0, 0), padBottom: 1, padRight: 0 }
  assert.equal(avgPool.shape(a, [[1, 3, 6, 6]], []), { _tag: 'Right', right: [[1, 3, 6, 5]] })
  const padded = (pads: AnyAttrs) => maxPool.shape({ ...max(2, 1, 0, 0), ...pads }, [[1, 3, 6, 6]], [])
  assert.equal(padded(maxPads(0, 0, 1, 0)), { _tag: 'Right', right: [[1, 3, 6, 5]] })
  assert.equal(maxPads(0, 1, 0, 1), { padTop: 0, padLeft: 1 }, 'equal sides have the attributes of older versions')
  const faults = [[0, 0], [1], [1, 0, 0], [0.5, 0], [2, 0], [-1, 0]].map((end) => padded(listedAttrs('padEnd', end)))
  const allowed = 'allowed: two integers, padBottom and padRight, unless they equal padTop and padLeft'
  assert.equal(
    faults.map((f) => isLeft(f) && f.left),
    [
      `padEnd is 0, 0; ${allowed}`,
      `padEnd is 1; ${allowed}`,
      `padEnd is 1, 0, 0; ${allowed}`,
      `padEnd is 0.5, 0; ${allowed}`,
      'high padding in H is 2; allowed: 0 to 1',
      'padEnd0 is -1; allowed: 0 or more',
    ],
  )
})

test('backward ops refuse gradients of another pooling', () => {
  assert.equal(
    maxPoolBwd.shape(
      max(2, 2, 0, 0),
      [
        [1, 3, 7, 7],
        [1, 3, 3, 3],
      ],
      [],
    ),
    { _tag: 'Right', right: [[1, 3, 7, 7]] },
  )
  assert.equal(
    maxPoolBwd.shape(
      max(2, 2, 0, 1),
      [
        [1, 3, 7, 7],
        [1, 3, 3, 3],
      ],
      [],
    ),
    { _tag: 'Left', left: 'the incoming gradient has shape [1,3,3,3]; allowed: [1,3,4,4]' },
  )
  const extent = { extentH: 7, extentW: 6 }
  assert.equal(avgPoolBwd.shape({ ...avg(2, 2, 0, 0), ...extent }, [[1, 3, 3, 3]], []), { _tag: 'Right', right: [[1, 3, 7, 6]] })
})

test('global average pooling divides by the area of the whole value', () => {
  assert.equal(globalAvgPool.shape({ count: 42 }, [[2, 5, 6, 7]], []), { _tag: 'Right', right: [[2, 5, 1, 1]] })
  assert.equal(globalAvgPool.shape({ count: 6 }, [[2, 5, 6, 7]], []), { _tag: 'Left', left: 'count is 6; allowed: H*W = 42' })
  assert.equal(globalAvgPoolBwd.shape({ count: 42 }, [[2, 5, 1, 1]], [[2, 5, 6, 7]]), { _tag: 'Right', right: [[2, 5, 6, 7]] })
  assert.equal(globalAvgPoolBwd.shape({ count: 42 }, [[2, 4, 1, 1]], [[2, 5, 6, 7]]), {
    _tag: 'Left',
    left: 'the incoming gradient has shape [2,4,1,1]; allowed: [2,5,1,1]',
  })
})

test.run()
