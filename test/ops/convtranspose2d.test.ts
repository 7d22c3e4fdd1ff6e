// Transposed convolution's shape rule against PyTorch's numbers, its words, its cost and the needs of a slice of its output.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { convTranspose2d, convTranspose2dBwdData, convTranspose2dBwdWeights } from '../../staging/ops/convtranspose2d'
import { sigmaDelta, touched } from '../../staging/ops/op'
import { convAttrs } from '../graph/sketch'

const attrs = (over: Record<string, number>) => ({ ...convAttrs(), outputPadH: 0, outputPadW: 0, ...over })
const shape = (over: Record<string, number>, x: number[], w: number[], b?: number[]): unknown => {
  const s = convTranspose2d.shape(attrs(over), b ? [x, w, b] : [x, w], [])
  return isLeft(s) ? s.left : s.right[0]
}
const strides = (n: number) => ({ strideH: n, strideW: n })
const pads = (n: number) => ({ padTop: n, padLeft: n, padBottom: n, padRight: n })

// torch.nn.functional.conv_transpose2d(torch.zeros(x), torch.zeros(w), …).shape
test("output shapes are PyTorch's", () => {
  assert.equal(shape(strides(2), [1, 8, 7, 5], [8, 4, 2, 2]), [1, 4, 14, 10])
  assert.equal(shape({ ...strides(2), ...pads(1) }, [2, 8, 7, 5], [8, 4, 4, 4]), [2, 4, 14, 10])
  assert.equal(shape({ ...strides(2), ...pads(1), outputPadH: 1, outputPadW: 1 }, [1, 8, 7, 5], [8, 4, 3, 3]), [1, 4, 14, 10])
  assert.equal(shape({ dilationH: 2, dilationW: 3, groups: 2 }, [1, 4, 5, 5], [4, 3, 3, 3]), [1, 6, 9, 11])
})

test('errors name the fault and the legal values', () => {
  assert.is(shape({}, [1, 8, 4, 4], [4, 8, 3, 3]), 'the weight has shape [4,8,3,3] for an input [1,8,4,4]; allowed: [8,8,3,3]')
  assert.is(shape({ outputPadW: 1 }, [1, 8, 4, 4], [8, 4, 3, 3]), 'output padding in W is 1; allowed: 0 to 0')
  assert.is(shape(pads(3), [1, 8, 4, 4], [8, 4, 3, 3]), 'low padding in H is 3; allowed: 0 to 2')
  assert.is(shape(pads(2), [1, 8, 1, 4], [8, 4, 3, 3]), 'the padding removes all 3 rows in H; use less padding')
  assert.is(shape({ groups: 3 }, [1, 8, 4, 4], [8, 4, 3, 3]), 'groups is 3; allowed: divisors of the 8 input channels')
  assert.is(shape({ groups: 2 }, [1, 8, 4, 4], [8, 4, 3, 3], [4]), 'the bias has shape [4]; allowed: [8]')
})

test('a slice of rows needs sigma * rows + delta rows of x at most', () => {
  const { H } = convTranspose2d.ins[0]!.access!(attrs({ ...strides(2), ...pads(1) }), {
    ins: [
      [1, 8, 10, 10],
      [8, 4, 4, 4],
    ],
    outs: [],
  })
  assert.equal(sigmaDelta(H), { sigma: 0.5, delta: 2 })
  assert.equal(touched(H, [4, 8], 10), [1, 5])
  assert.equal(touched(H, [0, 1], 10), [0, 1])
  assert.equal(touched(H, [0, 20], 10), [0, 10])
})

test('a row without a window reads the nearest window', () => {
  const { H } = convTranspose2d.ins[0]!.access!(attrs(strides(3)), {
    ins: [
      [1, 8, 4, 4],
      [8, 4, 1, 1],
    ],
    outs: [],
  })
  assert.equal(touched(H, [4, 6], 4), [1, 2])
  assert.equal(touched(H, [6, 7], 4), [2, 3])
})

test('gradients have the shapes of their values and the cost of the forward op', () => {
  const a = attrs(strides(2))
  const [x, w, dy] = [
    [1, 8, 5, 5],
    [8, 4, 2, 2],
    [1, 4, 10, 10],
  ]
  assert.equal(convTranspose2dBwdData.shape(a, [dy, w], [x]), { _tag: 'Right', right: [x] })
  assert.equal(convTranspose2dBwdData.shape(a, [dy, w], [[1, 8, 5, 6]]), {
    _tag: 'Left',
    left: 'the incoming gradient has shape [1,4,10,10]; allowed: [1,4,10,12]',
  })
  assert.equal(convTranspose2dBwdWeights.shape(a, [x, dy], [w, [4]]), { _tag: 'Right', right: [w, [4]] })
  const flops = 2 * (8 * 5 * 5) * (4 * 2 * 2)
  assert.is(convTranspose2d.flops(a, { ins: [x, w], outs: [dy] }), flops)
  assert.is(convTranspose2dBwdData.flops(a, { ins: [dy, w], outs: [x] }), flops)
  assert.is(convTranspose2dBwdWeights.flops(a, { ins: [x, dy], outs: [w] }), flops)
})

test.run()
