// The lower tier in the model of the search: the places of values, and a link that copies in one direction at a time.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gib } from '../../staging/core/bytes'
import type { Link } from '../../staging/graph/machine'
import { Lane, Places } from '../../staging/search/lanes'

const disk: Link = { outBytesPerSecond: 1e9, inBytesPerSecond: 1e9, latencySeconds: 0, fullDuplex: false }
const NONE = { 'host memory': 0, 'the disk': 0, writes: 0 }
const LOOPS = 6
const heads = Array.from({ length: LOOPS }, (_, i) => i)

/** Three values of 2 GiB leave after loops 0, 1 and 2, all in loop 2, and return in loops 5, 4 and 3. */
const threeValues = (link: Link, reserves = NONE): { readonly near: Lane; readonly places: Places } => {
  const near = new Lane(LOOPS, link)
  const places = new Places(LOOPS, 3, link, near)
  places.start(0, reserves)
  for (const v of [0, 1, 2]) {
    near.leaves[2]! += gib(2)
    near.released[v]! += gib(2)
    near.comes[5 - v]! += gib(2)
    places.leaves(v, { loop: 2, touched: v, made: v, next: 5 - v, bytes: gib(2) })
    places.comes(v, 5 - v, gib(2))
  }
  places.settle(heads)
  return { near, places }
}

test('the worked example: of three values in memory for two, the one that returns last goes to the disk', () => {
  const { near, places } = threeValues({ ...disk, bytes: gib(4), beyond: disk })
  assert.equal([...places.far.comes], [0, 0, 0, 0, 0, gib(2)])
  assert.equal([...near.comes], [0, 0, 0, gib(2), gib(2), 0])
  assert.is(places.far.allLeave, gib(2))
  assert.ok(places.lacks.every((bytes) => bytes === 0))
})

test('without a disk, and beyond its bytes, the loop that reads a value lacks it', () => {
  const lacksOf = (link: Link, reserves = NONE): readonly number[] => [...threeValues(link, reserves).places.lacks]
  assert.equal(lacksOf({ ...disk, bytes: gib(4) }), [0, 0, 0, 0, 0, gib(2)])
  assert.equal(lacksOf({ ...disk, bytes: gib(4), beyond: { ...disk, bytes: gib(1) } }), [0, 0, 0, 0, 0, gib(1)])
  assert.equal(lacksOf({ ...disk, bytes: gib(6) }, { ...NONE, 'host memory': gib(1) }), [0, 0, 0, 0, 0, gib(1)])
})

test('a value has its place from the loop that touched it last, although it leaves the device later', () => {
  const link = { ...disk, bytes: gib(2) }
  const places = new Places(LOOPS, 2, link, new Lane(LOOPS, link))
  places.start(0, NONE)
  // The first value returns in loop 3, before the second one leaves in loop 4. Both have a copy after loop 2.
  places.leaves(0, { loop: 2, touched: 1, made: 1, next: 3, bytes: gib(2) })
  places.leaves(1, { loop: 4, touched: 2, made: 2, next: 5, bytes: gib(2) })
  places.comes(0, 3, gib(2))
  places.comes(1, 5, gib(2))
  places.settle(heads)
  assert.equal([...places.lacks], [0, 0, 0, 0, 0, gib(2)])
})

test('a link that copies in one direction at a time is not faster than its bytes', () => {
  const lane = new Lane(2, disk)
  lane.comes[1] = 2e9
  lane.leaves[0] = lane.released[0] = 3e9
  lane.start([0, 1])
  let seconds = 0
  for (const i of [0, 1]) {
    lane.look(i, 1e10, 0)
    const t = Math.max(0.5, lane.moving)
    lane.pass(i, 1e10, t, 0)
    seconds += t
  }
  assert.ok(seconds + lane.rest >= 5, `${seconds + lane.rest} s for 5 GB at 1 GB/s`)
})

test.run()
