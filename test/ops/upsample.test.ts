// Resampling: its shape rule, its words, and how many rows a slice of its output needs.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type AnyAttrs, sigmaDelta, touched } from '../../staging/ops/op'
import { upsample } from '../../staging/ops/upsample'

const shape = (attrs: AnyAttrs, x: number[]): unknown => {
  const s = upsample.shape(attrs, [x], [])
  return isLeft(s) ? s.left : s.right[0]
}

test('resampling maps its stated input size to its stated output size', () => {
  const a = { mode: 1, inH: 4, inW: 5, outH: 8, outW: 3 }
  assert.equal(shape(a, [2, 3, 4, 5]), [2, 3, 8, 3])
  assert.is(shape(a, [2, 3, 5, 5]), 'the input has shape [2,3,5,5]; allowed: [2,3,4,5]')
  assert.is(shape({ ...a, mode: 4 }, [2, 3, 4, 5]), 'mode is 4; allowed: 0 to 3')
})

test('bilinear tiles of T rows, f times as high, need at most ceil(T / f) + 2 rows', () => {
  for (const mode of [1, 2])
    for (const [from, to] of [
      [16, 32],
      [16, 64],
      [15, 45],
      [7, 100],
    ] as const) {
      const { H } = upsample.ins[0]!.access!({ mode, inH: from, inW: 1, outH: to, outW: 1 }, { ins: [], outs: [] })
      assert.equal(sigmaDelta(H), { sigma: from / to, delta: 2 })
      for (let lo = 0; lo < to; lo++)
        for (let hi = lo + 1; hi <= to; hi++) {
          const [a, b] = touched(H, [lo, hi], from)
          assert.ok(b - a <= Math.ceil(((hi - lo) * from) / to) + 2, `[${lo},${hi}) of ${to} needs [${a},${b}) of ${from}`)
        }
    }
})

test.run()
