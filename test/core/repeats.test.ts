// Numbers written by their repetitions come back unchanged; illegal ones are refused in words.
import * as fc from 'fast-check'
import { isLeft, left, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Repeats, repeats, repeatsCodec, spelledOut } from '../../staging/core/repeats'

test('numbers are restored exactly, with any repetitions', () => {
  const stretch = fc.tuple(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 6 }), fc.nat({ max: 40 }))
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 8 }), (stretches) => {
      const numbers = stretches.flatMap(([of, times]) => Array.from({ length: times }, () => of).flat())
      const short = repeats(numbers)
      assert.ok(short.length <= numbers.length)
      assert.equal(spelledOut(short, numbers.length), right(numbers))
      assert.ok(repeatsCodec.is(short))
    }),
    { seed: 7, numRuns: 300 },
  )
})

test('the size of repeated numbers does not grow with the repetitions', () => {
  assert.equal(repeats([5, 1, 2, 1, 2, 1, 2, 3]), [5, 1, 2, [2, 4], 3])
  const long = repeats(Array.from({ length: 1_000_000 }, (_, i) => i % 13))
  assert.equal(long, [...Array.from({ length: 13 }, (_, i) => i), [13, 999_987]])
})

test('an entry for more numbers than allowed, or for missing ones, is refused', () => {
  const refusals: readonly (readonly [Repeats, string])[] = [
    [[1, [1, 2 ** 50]], 'they exceed the limit of 100 numbers'],
    [[1, [2, 3]], '[2,3] refers back before the first of 1 numbers'],
    [[[1, 1]], '[1,1] refers back before the first of 0 numbers'],
  ]
  for (const [short, words] of refusals) assert.equal(spelledOut(short, 100), left(words))
  for (const u of [[[0, 1]], [[1, 0]], [[1]], [1.5], ['1'], [[1, 2, 3]]])
    assert.ok(isLeft(repeatsCodec.decode(u)), JSON.stringify(u))
})

test.run()
