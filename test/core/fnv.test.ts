// FNV-1a against the published test vectors.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fnv1a64, hashText } from '../../staging/core/fnv'

test('published vectors', () => {
  assert.is(hashText(''), 'cbf29ce484222325')
  assert.is(hashText('a'), 'af63dc4c8601ec8c')
  assert.is(hashText('foobar'), '85944171f73967e8')
})

test('agrees with the definition over 64-bit integers', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      let h = 0xcbf29ce484222325n
      for (const b of bytes) h = ((h ^ BigInt(b)) * 0x100000001b3n) & 0xffffffffffffffffn
      const { hi, lo } = fnv1a64(bytes)
      assert.is((BigInt(hi) << 32n) | BigInt(lo), h)
    }),
    { numRuns: 300, seed: 16 },
  )
})

test.run()
