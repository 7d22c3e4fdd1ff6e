// The heap returns the order of a stable sort.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { Heap } from '../../staging/core/heap'

interface Item {
  readonly key: number
  readonly name: number
}

test('in order of the key, equals in order of arrival, pushes and pops mixed', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 5 })), fc.array(fc.nat({ max: 5 })), (before, after) => {
      const items = [...before, ...after].map((key, name): Item => ({ key, name }))
      const sorted = (xs: readonly Item[]): readonly Item[] => [...xs].sort((a, b) => b.key - a.key || a.name - b.name)
      const heap = new Heap<Item>((a, b) => a.key > b.key)
      items.slice(0, before.length).forEach((i) => heap.push(i))
      const half = Math.floor(before.length / 2)
      const popped = Array.from({ length: half }, () => heap.pop()!)
      assert.equal(popped, sorted(items.slice(0, before.length)).slice(0, half))
      items.slice(before.length).forEach((i) => heap.push(i))
      const rest = items.filter((i) => !popped.includes(i))
      assert.is(heap.size, rest.length)
      assert.equal(
        rest.map(() => heap.pop()),
        sorted(rest),
      )
      assert.is(heap.pop(), undefined)
    }),
    { seed: 5 },
  )
})

test.run()
