// The ways to run a call that a device offers: their order, and the error for a call without any.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { firstScratch, timedChoices, type Ways } from '../../../src/machine/ways'

const times = { seconds: () => 1 } as unknown as Parameters<typeof timedChoices>[2]
const none: Ways = () => []
const two: Ways = () => [
  { way: 0, name: 'a', repeats: true, workspace: 64 },
  { way: 1, name: 'b', repeats: true, workspace: 0 },
]
const shapes = { ins: [[1, 2, 3, 4]], outs: [] }

test('the algorithm with the least scratch is listed first', () => {
  assert.equal(
    timedChoices('cpu', two, times)('relu', {}, shapes).map((c) => c.way),
    [1, 0],
  )
})

test('a call that the device cannot run is an error that names the device and the call', () => {
  const message = /^device cpu cannot run relu of \{"ins":\[\[1,2,3,4\]\],"outs":\[\]\} with \{\}$/
  assert.throws(() => timedChoices('cpu', none, times)('relu', {}, shapes), message)
  assert.throws(() => firstScratch('cpu', none)('relu', {}, shapes), message)
})

test.run()
