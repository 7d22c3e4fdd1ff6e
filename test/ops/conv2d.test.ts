// Convolution's shape rule against PyTorch's numbers, its words, its cost and the needs of a slice of its output.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sigmaDelta, touched } from '../../staging/ops/op'
import { conv2d, conv2dBwdData, conv2dBwdWeights } from '../../staging/ops/conv2d'
import { convAttrs } from '../graph/sketch'

const shape = (over: Record<string, number>, x: number[], w: number[], b?: number[]): unknown => {
  const s = conv2d.shape(convAttrs(over), b ? [x, w, b] : [x, w], [])
  return isLeft(s) ? s.left : s.right[0]
}
const pads = (top: number, left: number, bottom: number, right: number) => ({
  padTop: top,
  padLeft: left,
  padBottom: bottom,
  padRight: right,
})

// torch.nn.functional.conv2d(torch.zeros(x), torch.zeros(w), …).shape
test("output shapes are PyTorch's", () => {
  assert.equal(shape({ strideH: 2, strideW: 2, ...pads(3, 3, 3, 3) }, [1, 3, 224, 224], [64, 3, 7, 7]), [1, 64, 112, 112])
  assert.equal(shape({}, [2, 3, 9, 11], [5, 3, 3, 3]), [2, 5, 7, 9])
  assert.equal(shape({ dilationH: 2, dilationW: 3 }, [1, 4, 9, 11], [8, 4, 3, 3]), [1, 8, 5, 5])
  assert.equal(shape({ groups: 4, ...pads(1, 1, 1, 1) }, [1, 4, 5, 5], [8, 1, 3, 3]), [1, 8, 5, 5])
  assert.equal(shape({ strideH: 3, strideW: 2 }, [1, 1, 10, 10], [1, 1, 1, 3]), [1, 1, 4, 4])
  // TensorFlow's 'same' at stride 2: nothing above, one row below.
  assert.equal(shape({ strideH: 2, strideW: 2, ...pads(0, 0, 1, 1) }, [1, 1, 8, 8], [1, 1, 3, 3]), [1, 1, 4, 4])
  assert.equal(shape({ ...pads(36, 36, 36, 36), dilationH: 36, dilationW: 36 }, [1, 2, 4, 4], [2, 2, 3, 3]), [1, 2, 4, 4])
})

test('errors name the fault and the legal values', () => {
  assert.is(shape({}, [1, 4, 8, 8], [8, 3, 3, 3]), 'the weight has shape [8,3,3,3] for an input [1,4,8,8]; allowed: [8,4,3,3]')
  assert.is(
    shape({}, [1, 3, 4, 8], [8, 3, 5, 5]),
    'a window of 5 is larger than the padded H of 4; allowed: kernels of 1 to 4 or an image of 5 or more',
  )
  assert.is(
    shape({ dilationW: 4 }, [1, 3, 8, 8], [8, 3, 3, 3]),
    'a window of 9 is larger than the padded W of 8; allowed: kernels of 1 to 2 or an image of 9 or more',
  )
  assert.is(shape({ groups: 2 }, [1, 3, 8, 8], [8, 1, 3, 3]), 'groups is 2; allowed: divisors of the 3 input channels')
  assert.is(shape({ groups: 2 }, [1, 4, 8, 8], [3, 2, 3, 3]), 'groups is 2; allowed: divisors of the 3 output channels')
  assert.is(shape({ strideH: 0 }, [1, 3, 8, 8], [8, 3, 3, 3]), 'strideH is 0; allowed: 1 or more')
  assert.is(shape({ padTop: 3 }, [1, 3, 8, 8], [8, 3, 3, 3]), 'low padding in H is 3; allowed: 0 to 2')
  assert.is(shape({}, [1, 3, 8, 8], [8, 3, 3, 3], [3]), 'the bias has shape [3]; allowed: [8]')
})

test('backward ops accept gradients of the right shapes and refuse others', () => {
  const a = convAttrs({ strideH: 2, strideW: 2 })
  const dy = [1, 8, 3, 3]
  // 7 and 8 rows both give 3: only the graph knows which it was.
  for (const rows of [7, 8])
    assert.equal(conv2dBwdData.shape(a, [dy, [8, 4, 3, 3]], [[1, 4, rows, 7]]), { _tag: 'Right', right: [[1, 4, rows, 7]] })
  assert.equal(conv2dBwdData.shape(a, [dy, [8, 4, 3, 3]], [[1, 4, 9, 7]]), {
    _tag: 'Left',
    left: 'the incoming gradient has shape [1,8,3,3]; allowed: [1,8,4,3]',
  })
  assert.equal(conv2dBwdWeights.shape(a, [[1, 4, 7, 7], dy], [[8, 4, 3, 3], [8]]), { _tag: 'Right', right: [[8, 4, 3, 3], [8]] })
  assert.equal(conv2dBwdWeights.shape(a, [[1, 4, 7, 7], dy], [[8, 4, 3, 3], [4]]), {
    _tag: 'Left',
    left: 'the bias has shape [4]; allowed: [8]',
  })
})

test('a slice of rows needs sigma * rows + delta rows of the input, without rows outside the image', () => {
  const a = convAttrs({ strideH: 2, strideW: 1, padTop: 1, dilationH: 2 })
  const map = conv2d.ins[0]!.access!(a, {
    ins: [
      [1, 3, 50, 50],
      [8, 3, 3, 5],
    ],
    outs: [[1, 8, 24, 46]],
  })
  assert.equal(sigmaDelta(map.H), { sigma: 2, delta: 3 })
  assert.equal(sigmaDelta(map.W), { sigma: 1, delta: 4 })
  assert.is(sigmaDelta(map.C), undefined)
  assert.equal(touched(map.H, [4, 8], 50), [7, 18])
  assert.equal(touched(map.H, [0, 4], 50), [0, 10])
})

test('flops count multiply-adds twice', () => {
  const s = {
    ins: [
      [2, 4, 10, 10],
      [8, 2, 3, 3],
    ],
    outs: [[2, 8, 8, 8]],
  }
  assert.is(conv2d.flops(convAttrs({ groups: 2 }), s), 2 * (2 * 8 * 8 * 8) * (2 * 9))
  const data = {
    ins: [
      [2, 8, 8, 8],
      [8, 2, 3, 3],
    ],
    outs: [[2, 4, 10, 10]],
  }
  assert.is(conv2dBwdData.flops(convAttrs({ groups: 2 }), data), conv2d.flops(convAttrs({ groups: 2 }), s))
  const weights = {
    ins: [
      [2, 4, 10, 10],
      [2, 8, 8, 8],
    ],
    outs: [[8, 2, 3, 3]],
  }
  assert.is(conv2dBwdWeights.flops(convAttrs({ groups: 2 }), weights), conv2d.flops(convAttrs({ groups: 2 }), s))
})

test.run()
