// The meeting of iterations and elements, for each kind of access, against brute force over single elements: the tiler's slices (staging/ops/op.ts)
// and the verifier's needs (staging/verify/reach.ts) are derived apart and must agree with it.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Range } from '../../staging/core/box'
import { type Access, type AccessMap, mirrored, pointwise, resampled, touched, transposed, window } from '../../staging/ops/op'
import { final, needed } from '../../staging/verify/reach'

/** A kind of access between numbers of iterations and elements, with a test of one iteration and one element. */
interface Relation {
  readonly access: Access
  readonly iterations: number
  readonly elements: number
  readonly meets: (iteration: number, element: number) => boolean
}

const size = (lo: number, hi: number): fc.Arbitrary<number> => fc.integer({ min: lo, max: hi })
const windowed = fc
  .record({
    kernel: size(1, 5),
    stride: size(1, 4),
    dilation: size(1, 3),
    low: size(0, 6),
    high: size(0, 6),
    count: size(1, 9),
    more: size(0, 3),
  })
  .map((w) => {
    const reach = w.dilation * (w.kernel - 1) + 1
    const [low, high] = [Math.min(w.low, reach - 1), Math.min(w.high, reach - 1)]
    const covered = (out: number, image: number): boolean => out * w.stride - low <= image && image < out * w.stride - low + reach
    return { ...w, low, high, reach, covered }
  })

const windows: fc.Arbitrary<Relation> = windowed.map((w) => ({
  access: window(w.kernel, w.stride, w.low, w.dilation),
  iterations: w.count,
  elements: Math.max(1, (w.count - 1) * w.stride + w.reach - w.low - w.high + Math.min(w.more, w.stride - 1)),
  meets: w.covered,
}))
const transposes: fc.Arbitrary<Relation> = windowed.map((w) => ({
  access: transposed(w.kernel, w.stride, w.low, w.dilation),
  iterations: Math.max(1, (w.count - 1) * w.stride + w.reach - w.low - w.high + w.more),
  elements: w.count,
  meets: (i, e) => w.covered(e, i),
}))
/** Pixel i lies at a place; it is made of the one or two pixels beside it, or of all that it covers. Fractions are compared multiplied out. */
const resamplings: fc.Arbitrary<Relation> = fc
  .record({ mode: size(0, 3), from: size(1, 20), to: size(1, 20) })
  .map(({ mode, from, to }) => {
    const [steps, at] =
      mode === 0 || mode === 3
        ? ([to, (i: number) => i * from] as const)
        : mode === 1
          ? ([2 * to, (i: number) => Math.min(Math.max((2 * i + 1) * from - to, 0), 2 * to * (from - 1))] as const)
          : ([Math.max(1, to - 1), (i: number) => (to > 1 ? i * (from - 1) : 0)] as const)
    const beside = (i: number, e: number): boolean => Math.abs(at(i) - e * steps) < steps
    const below = (i: number, e: number): boolean => e * steps <= at(i) && at(i) < (e + 1) * steps
    const covered = (i: number, e: number): boolean => e * to < (i + 1) * from && i * from < (e + 1) * to
    return {
      access: resampled(mode, from, to),
      iterations: to,
      elements: from,
      meets: mode === 0 ? below : mode === 3 ? covered : beside,
    }
  })
const reflections: fc.Arbitrary<Relation> = fc.record({ low: size(0, 5), high: size(0, 5), extent: size(1, 12) }).map((r) => {
  const [low, high] = [Math.min(r.low, r.extent - 1), Math.min(r.high, r.extent - 1)]
  const row = (i: number): number => (i < low ? low - i : i - low < r.extent ? i - low : 2 * (r.extent - 1) - (i - low))
  return { access: mirrored(low, high), iterations: low + r.extent + high, elements: r.extent, meets: (i, e) => row(i) === e }
})
const pointwises: fc.Arbitrary<Relation> = size(1, 12).map((n) => ({
  access: pointwise.H,
  iterations: n,
  elements: n,
  meets: (i, e) => i === e,
}))

const relations: fc.Arbitrary<Relation> = fc.oneof(windows, transposes, resamplings, reflections, pointwises)
const pieces = fc
  .tuple(relations, fc.double({ min: 0, max: 0.999, noNaN: true }), fc.double({ min: 0, max: 0.999, noNaN: true }))
  .map(([relation, a, b]) => {
    const lo = Math.floor(a * relation.iterations)
    return { relation, piece: [lo, lo + 1 + Math.floor(b * (relation.iterations - lo))] as Range }
  })

const onRows = (access: Access): AccessMap => ({ ...pointwise, H: access })
const rows = (r: Range) => [[0, 1], [0, 1], r, [0, 1]] as const
const range = (n: number): number[] => [...Array(n).keys()]
const metBy = (r: Relation, iterations: readonly number[]): readonly number[] =>
  range(r.elements).filter((e) => iterations.some((i) => r.meets(i, e)))
const inPiece =
  ([lo, hi]: Range) =>
  (i: number): boolean =>
    lo <= i && i < hi

test('a piece needs, and gets, the hull of the ranges of its iterations', () => {
  fc.assert(
    fc.property(pieces, ({ relation: r, piece }) => {
      const met = metBy(r, range(r.iterations).filter(inPiece(piece)))
      const given = touched(r.access, piece, r.elements)
      const asked = needed(onRows(r.access), rows(piece), rows([0, r.elements]))[2]
      assert.ok(given[0] >= 0 && given[1] <= r.elements)
      assert.ok(given[0] <= asked[0] && asked[1] <= given[1], `given ${given}, asked ${asked}`)
      if (met.length === 0) return assert.ok(asked[1] <= asked[0], `asked ${asked} where nothing is met`)
      assert.equal(asked, [met[0], met[met.length - 1]! + 1])
      assert.equal(given, asked)
    }),
    { numRuns: 4000, seed: 31 },
  )
})

test('values that are final after a piece are touched by no iteration outside it', () => {
  let found = 0
  fc.assert(
    fc.property(pieces, ({ relation: r, piece }) => {
      const [lo, hi] = final(onRows(r.access), rows(piece), rows([0, r.iterations]), rows([0, r.elements]))[2]
      const others = metBy(
        r,
        range(r.iterations).filter((i) => !inPiece(piece)(i)),
      )
      assert.ok(lo >= hi || !others.some(inPiece([lo, hi])), `[${lo},${hi}) is met from outside`)
      if (piece[0] === 0 && piece[1] === r.iterations) assert.equal([lo, hi], [0, r.elements])
      if (lo < hi) found++
    }),
    { numRuns: 4000, seed: 32 },
  )
  assert.ok(found > 1000, `${found} pieces with final elements`)
})

test.run()
