// Reflection padding: its shape rule, its words, and which rows stand in a slice of its output.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AnyAttrs, type OpDef, touched } from '../../staging/ops/op'
import { reflectPad, reflectPadBwd } from '../../staging/ops/reflectpad'

const shape = (def: OpDef, attrs: AnyAttrs, x: number[], given: number[][] = []): unknown => {
  const s = def.shape(attrs, [x], given)
  return isLeft(s) ? s.left : s.right[0]
}

test('reflection needs less padding than there are rows, and at borders the mirror alone', () => {
  const a = { padTop: 3, padLeft: 0, padBottom: 1, padRight: 2 }
  assert.equal(shape(reflectPad, a, [1, 2, 4, 5]), [1, 2, 8, 7])
  assert.is(shape(reflectPad, a, [1, 2, 3, 5]), 'padTop is 3; allowed: 0 to 2')
  assert.equal(shape(reflectPadBwd, a, [1, 2, 8, 7], [[1, 2, 4, 5]]), [1, 2, 4, 5])
  assert.is(
    shape(reflectPadBwd, a, [1, 2, 8, 7], [[1, 2, 5, 5]]),
    'the incoming gradient has shape [1,2,8,7]; allowed: [1,2,9,7]',
  )
  const { H } = reflectPad.ins[0]!.access!({ ...a, padBottom: 3 }, { ins: [], outs: [] })
  assert.equal(touched(H, [0, 2], 20), [2, 4])
  assert.equal(touched(H, [2, 6], 20), [0, 3])
  assert.equal(touched(H, [8, 12], 20), [5, 9])
  assert.equal(touched(H, [22, 26], 20), [16, 20])
})

test.run()
