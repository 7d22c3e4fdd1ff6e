// Nets that are fed bytes, in models and in steps: test/types tests the legal places of the layer; this file, a fed tensor then.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  apply,
  conv2d,
  elaborate,
  fed,
  fromBytes,
  globalAvgPool,
  loss,
  minimize,
  model,
  modelAt,
  mse,
  relu,
  seq,
  sgd,
  step,
} from '../../dsl'
import { bytesLayer, strayBytes, takesBytes } from '../../dsl/fedbytes'
import { decodeStep } from '../../dsl/stepdecode'
import { renderError } from '../../staging/core/errors'

const photo = fed('photo', [1, 3, 8, 8])
const reading = seq(fromBytes({ mean: 0.5 }), conv2d('read', 3, 3))
const other = seq(conv2d('other', 3, 3))
const optimizer = sgd({ lr: 0.1 })

const saidOf = (of: Parameters<typeof elaborate>[0]): string => {
  const made = elaborate(of)
  return isLeft(made) ? renderError(made.left) : 'nothing'
}

test('the input of such a network is fed as bytes', () => {
  const made = elaborate(step(minimize('m', { over: reading, optimizer, losses: { x: loss(mse, apply(reading, photo), 0) } })))
  assert.ok(isRight(made))
  const { values, ops } = made.right.graph
  assert.equal([values[ops[0]!.ins[0]!]!.dtype, values[ops[0]!.outs[0]!]!.dtype], ['u8', 'f32'])
  assert.equal(ops[0]!.attrs, { mean0: 0.5, std0: 1 })
})

test('an output of a network is not bytes', () => {
  const words =
    /layer 'fromBytes' \(fromBytes\): a net that begins with fromBytes reads the bytes of an input; apply it to the result of/
  const made = apply(other, photo)
  assert.throws(() => apply(reading, made as never), words)
  const forged = { ...apply(reading, photo), to: made }
  const decoded = decodeStep({
    kind: 'step',
    objectives: [{ name: 'm', over: [reading], optimizer, losses: { x: [{ loss: 'mse', of: forged, to: 0, weight: 1 }] } }],
  })
  assert.match(isLeft(decoded) ? renderError(decoded.left) : 'nothing', words)
})

test('one fed tensor is bytes or numbers', () => {
  const words = /fed 'photo': a net that begins with fromBytes reads it as bytes, but another reads it as numbers; feed it twice/
  const both = minimize('m', {
    over: [reading, other],
    optimizer,
    losses: { x: loss(mse, apply(reading, photo), 0), y: loss(mse, apply(other, photo), 0) },
  })
  assert.match(saidOf(step(both)), words)
  assert.match(
    saidOf(step(minimize('m', { over: reading, optimizer, losses: { x: loss(mse, apply(reading, photo), photo) } }))),
    words,
  )
  const again = fed('again', [1, 3, 8, 8])
  assert.is(
    saidOf(step(minimize('m', { over: reading, optimizer, losses: { x: loss(mse, apply(reading, photo), again) } }))),
    'nothing',
  )
})

test('fromBytes is the first layer of a network, inside any combinator', () => {
  assert.equal(bytesLayer(reading)?.mean, 0.5)
  assert.not.ok(takesBytes(other))
  assert.is(strayBytes(seq(reading, relu())), null)
  assert.is(strayBytes(seq(relu(), reading)), 'fromBytes')
  const json = JSON.parse(JSON.stringify(reading)) as unknown
  assert.ok(isRight(modelAt([1, 3, 8, 8], json)))
  const odd = modelAt([1, 3, 8, 8], { kind: 'fromBytes', name: '', mean: Number.NaN, std: 1 })
  assert.match(isLeft(odd) ? renderError(odd.left) : '', /its mean must be finite numbers/)
  const text = modelAt([1, 3, 8, 8], { kind: 'fromBytes', name: '', mean: '0.5', std: 1 })
  assert.match(isLeft(text) ? renderError(text.left) : '', /net.mean: "0.5" is not allowed in a fromBytes/)
})

test('fromBytes counts four bytes for each output number, and no parameters', () => {
  const m = model([1, 3, 8, 8], seq(fromBytes(), conv2d('c', 4, 3), globalAvgPool()))
  assert.equal(
    m.layers.map((l) => [l.kind, l.bytes, l.parameters]),
    [
      ['fromBytes', 768, 0],
      ['conv2d', 1024, 112],
      ['globalAvgPool', 16, 0],
    ],
  )
})

test.run()
