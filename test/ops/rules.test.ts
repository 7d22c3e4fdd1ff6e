// The shape rules of the operators without windows: their results, and their refusals.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { opDef } from '../../staging/ops/registry'

type Shapes = readonly (readonly number[])[]
const rule = (kind: string, attrs: Record<string, number>, ins: Shapes, given: Shapes = []): unknown => {
  const s = opDef(kind).shape(attrs, ins, given)
  return isLeft(s) ? s.left : s.right
}

const x = [2, 3, 4, 5]
const C = [3]

test('linear works on the channels of each pixel', () => {
  assert.equal(rule('linear', {}, [[2, 7, 1, 1], [4, 7], [4]]), [[2, 4, 1, 1]])
  assert.equal(rule('linear', {}, [[2, 7, 5, 3], [4, 7], [4]]), [[2, 4, 5, 3]])
  assert.is(
    rule('linear', {}, [
      [2, 7, 1, 1],
      [4, 6],
    ]),
    'the weight has shape [4,6]; allowed: [4,7]',
  )
  assert.equal(
    rule(
      'linear_bwd_data',
      {},
      [
        [2, 4, 1, 1],
        [4, 7],
      ],
      [[2, 7, 1, 1]],
    ),
    [[2, 7, 1, 1]],
  )
  assert.is(
    rule(
      'linear_bwd_data',
      {},
      [
        [2, 5, 1, 1],
        [4, 7],
      ],
      [[2, 7, 1, 1]],
    ),
    'the incoming gradient has shape [2,5,1,1]; allowed: [2,4,1,1]',
  )
})

test('batch norm counts over batch and image', () => {
  assert.equal(rule('bn_stats', {}, [x]), [[4, 3]])
  assert.match(rule('bn_stats', {}, [[1, 3, 1, 1]]) as string, /one value per channel.* allowed: B\*H\*W of 2 or more/)
  assert.equal(rule('bn_apply', { eps: 1e-5, count: 40 }, [x, [4, 3], C, C]), [x])
  assert.is(rule('bn_apply', { eps: 1e-5, count: 20 }, [x, [4, 3], C, C]), 'count is 20 for 2x3x4x5; allowed: B*H*W = 40')
  assert.is(rule('bn_apply', { eps: 1e-5, count: 40 }, [x, [4, 4], C, C]), 'stats has shape [4,4]; allowed: [4,3]')
  assert.is(rule('bn_frozen', { eps: 1e-5 }, [x, C, [4], C, C]), 'var has shape [4]; allowed: [3]')
  assert.equal(rule('bn_bwd_reduce', { eps: 1e-5, count: 40 }, [x, x, [4, 3]]), [C, C])
  assert.equal(rule('bn_bwd_data', { eps: 1e-5, count: 40 }, [x, x, [4, 3], C, C, C]), [x])
  assert.is(
    rule('bn_bwd_data', { eps: 1e-5, count: 40 }, [x, [2, 3, 4, 4], [4, 3], C, C, C]),
    'the incoming gradient has shape [2,3,4,4]; allowed: [2,3,4,5]',
  )
  assert.equal(rule('bn_running', { momentum: 0.1, count: 40 }, [[4, 3], C, C]), [])
  assert.is(rule('bn_running', { momentum: 1.5, count: 40 }, [[4, 3], C, C]), 'momentum is 1.5; allowed: 0 to 1')
})

test('element-wise operators keep the shape', () => {
  assert.equal(rule('relu', { slope: 0.1 }, [x]), [x])
  assert.is(rule('relu', { slope: -0.1 }, [x]), 'slope is -0.1; allowed: 0 or more')
  assert.equal(rule('dropout', { p: 0.5, key: 3 }, [x]), [x])
  assert.is(rule('dropout', { p: 1, key: 3 }, [x]), 'p is 1; allowed: 0 or more and below 1')
  assert.equal(rule('add', {}, [x, x, x]), [x])
  assert.is(rule('add', {}, [x, [2, 3, 4, 6]]), 'input 1 has shape [2,3,4,6], but input 0 has [2,3,4,5]; allowed: [2,3,4,5]')
})

test('concat joins along C, slice_channels takes apart', () => {
  assert.equal(rule('concat', {}, [x, [2, 7, 4, 5]]), [[2, 10, 4, 5]])
  assert.is(rule('concat', {}, [x, [2, 7, 4, 6]]), 'input 1 has shape [2,7,4,6], but input 0 has [2,3,4,5]; allowed: [2,*,4,5]')
  assert.equal(rule('slice_channels', { from: 3 }, [[2, 10, 4, 5]], [[2, 7, 4, 5]]), [[2, 7, 4, 5]])
  assert.is(rule('slice_channels', { from: 4 }, [[2, 10, 4, 5]], [[2, 7, 4, 5]]), 'the number of channels is 7; allowed: 1 to 6')
})

test('flatten', () => {
  assert.equal(rule('flatten', {}, [x]), [[2, 60, 1, 1]])
  assert.equal(rule('flatten_bwd', {}, [[2, 60, 1, 1]], [x]), [x])
  assert.is(rule('flatten_bwd', {}, [[2, 61, 1, 1]], [x]), 'the incoming gradient has shape [2,61,1,1]; allowed: [2,60,1,1]')
})

test('losses compare with targets of their own shape', () => {
  assert.equal(rule('softmax_xent', { count: 40, weight: 1 }, [x, [2, 1, 4, 5]]), [[1]])
  assert.is(rule('softmax_xent', { count: 40, weight: 1 }, [x, [2, 3, 4, 5]]), 'labels has shape [2,3,4,5]; allowed: [2,1,4,5]')
  assert.is(rule('softmax_xent', { count: 120, weight: 1 }, [x, [2, 1, 4, 5]]), 'count is 120; allowed: 40')
  assert.equal(rule('count_labels', { ignoreIndex: 255 }, [[2, 1, 4, 5]]), [[2]])
  assert.is(rule('count_labels', { ignoreIndex: 255 }, [x]), 'labels has shape [2,3,4,5]; allowed: [2,1,4,5]')
  assert.equal(rule('softmax_xent_counted', { ignoreIndex: 255, weight: 1 }, [x, [2, 1, 4, 5], [2]]), [[1]])
  assert.equal(rule('count_classes', { ignoreIndex: 255, classes: 3 }, [[2, 1, 4, 5]]), [[2, 3]])
  assert.equal(rule('weigh_classes', {}, [[2, 3]]), [[3]])
  assert.equal(rule('weigh_classes', { classWeight0: 1, classWeight1: 2, classWeight2: 0 }, [[2, 3]]), [[3]])
  assert.is(
    rule('weigh_classes', { classWeight0: 1, classWeight1: 2 }, [[2, 3]]),
    'it has 2 class weights; allowed: 3, one per class',
  )
  assert.is(
    rule('weigh_classes', { classWeight0: 1, classWeight1: -2, classWeight2: 0 }, [[2, 3]]),
    'classWeight1 is -2; allowed: 0 or more',
  )
  const smoothed = { ignoreIndex: -1, labelSmoothing: 0.1, weight: 1 }
  assert.equal(rule('class_xent', smoothed, [x, [2, 1, 4, 5], [3]]), [[1]])
  assert.is(
    rule('class_xent', { ...smoothed, labelSmoothing: 2 }, [x, [2, 1, 4, 5], [3]]),
    'labelSmoothing is 2; allowed: 0 to 1',
  )
  assert.is(
    rule('softmax_xent_counted', { ignoreIndex: 255, weight: 1 }, [x, [2, 1, 4, 5], [1]]),
    'counted has shape [1]; allowed: [2]',
  )
  assert.equal(rule('mse', { count: 120, weight: 1, constant: 0 }, [x, x]), [[1]])
  assert.equal(rule('mse_bwd', { count: 120, weight: 1, constant: 0 }, [x, x]), [x])
  assert.is(
    rule('mse', { count: 120, weight: 1, constant: 0 }, [x, [2, 3, 4, 4]]),
    'the target has shape [2,3,4,4]; allowed: [2,3,4,5]',
  )
})

test('optimizers want states like their weight', () => {
  const sgd = { lr: 0.1, momentum: 0.9, weightDecay: 0, nesterov: 0 }
  assert.equal(rule('sgd', sgd, [C, C, C]), [])
  assert.is(rule('sgd', sgd, [C, C]), 'it has 2 inputs; allowed with its attributes: w, g, momentum')
  assert.is(rule('sgd', { ...sgd, momentum: 0 }, [C, [4]]), 'g has shape [4]; allowed: [3]')
  const adam = { lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0, decoupled: 0 }
  assert.equal(rule('adam', adam, [C, C, C, C]), [])
  assert.is(rule('adam', { ...adam, beta2: 1 }, [C, C, C, C]), 'beta2 is 1; allowed: 0 or more and below 1')
})

test.run()
