// Held amounts at many points: the most of a range equals a look at each of its points.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Highest } from '../../staging/core/highest'

test('the worked example', () => {
  const held = new Highest(4)
  held.add(0, 3, 2)
  held.add(1, 1, 3)
  assert.equal([held.mostIn(0, 1), held.mostIn(2, 3)], [5, 2])
})

test('the most of a stretch, whatever was added to others', () => {
  const stretch = fc.tuple(fc.nat({ max: 36 }), fc.nat({ max: 36 }), fc.integer({ min: -3, max: 9 }))
  fc.assert(
    fc.property(fc.array(stretch, { maxLength: 40 }), (stretches) => {
      const [held, plain] = [new Highest(37), new Array<number>(37).fill(0)]
      for (const [a, b, amount] of stretches) {
        const [first, last] = [Math.min(a, b), Math.max(a, b)]
        assert.is(held.mostIn(first, last), Math.max(...plain.slice(first, last + 1)))
        held.add(first, last, amount)
        for (let p = first; p <= last; p++) plain[p]! += amount
      }
    }),
    { numRuns: 200, seed: 3 },
  )
})

test.run()
