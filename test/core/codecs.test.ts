// Codecs for outside data: nothing is dropped in silence.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { extentCodec } from '../../dsl/layers/codecs'
import { faultOf, tuple, whole, words } from '../../staging/core/codecs'

test('a tuple is exactly its entries: one more is refused, where io-ts drops it', () => {
  const codec = tuple(whole, words)
  assert.ok(isRight(codec.decode([1, 'a'])))
  assert.not.ok(codec.is([1, 'a', 2]))
  for (const [given, reason] of [
    [[1, 'a', 2], 'it has 3 entries; allowed: 2'],
    [[1], 'nothing is not a string of at most 1000 visible characters'],
    [['a', 'a'], '"a" is not a whole number'],
    [7, '7 is not [a whole number, a string of at most 1000 visible characters]'],
  ] as const) {
    const decoded = codec.decode(given)
    assert.ok(isLeft(decoded) && faultOf('it', decoded.left).reason === reason, JSON.stringify(given))
  }
})

test('a kernel is one number or two', () => {
  for (const legal of [3, [3, 5]]) assert.ok(isRight(extentCodec.decode(legal)))
  for (const wrong of [[3], [3, 3, 3], '3', null]) assert.ok(isLeft(extentCodec.decode(wrong)), JSON.stringify(wrong))
})

test.run()
