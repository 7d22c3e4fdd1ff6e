// Local response norm: its shape rule and its words.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { lrn } from '../../staging/ops/lrn'
import type { AnyAttrs } from '../../staging/ops/op'

const shape = (attrs: AnyAttrs, x: number[]): unknown => {
  const s = lrn.shape(attrs, [x], [])
  return isLeft(s) ? s.left : s.right[0]
}

test('local response norm divides by more than nothing', () => {
  const a = { size: 5, alpha: 1e-4, beta: 0.75, k: 2 }
  assert.equal(shape(a, [1, 96, 55, 55]), [1, 96, 55, 55])
  assert.is(shape({ ...a, k: 0 }, [1, 96, 55, 55]), 'k is 0; allowed: more than 0')
  assert.is(shape({ ...a, size: 0 }, [1, 96, 55, 55]), 'size is 0; allowed: 1 to 1073741824')
})

test.run()
