// timeout 300
// A network of the zoo, trained by strategies of each kind in the smallest budget of each, has the weights of in-core, bit for
// bit. One network of every family, and every strategy: `npm run acceptance -- bits`.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bitsOf, ONE_OF_EACH } from '../../bench/acceptance/bits'
import { zooEntry, zooNames } from '../../src/zoo'
import { fullTest } from '../full'

fullTest('the bits of in-core', async () => {
  const all = await bitsOf('resnet20-cifar', ['checkpoint:optimal', 'swap:fractional', 'hybrid:tflms', 'hybrid:superneurons'])
  assert.is(all.length, 4)
  for (const b of all) {
    assert.ok(b.same && b.worked && b.asPlanned, JSON.stringify(b))
    assert.ok(b.budgetMiB < b.inCoreMiB, JSON.stringify(b))
  }
})

test('the bits of in-core, where values under a page share pages that leave', async () => {
  const all = await bitsOf('resnet20-cifar', ['swap:window', 'swap:vdnn-conv', 'hybrid:superneurons'], [8, 32, 32])
  for (const b of all) assert.ok(b.same && b.worked && b.asPlanned && b.budgetMiB < b.inCoreMiB, JSON.stringify(b))
})

test('every family of the zoo is among those of the acceptance', () => {
  const familyOf = (name: string): string | undefined => zooEntry(name)?.family
  assert.equal(new Set(Object.keys(ONE_OF_EACH).map(familyOf)), new Set(zooNames.map(familyOf)))
})

test.run()
