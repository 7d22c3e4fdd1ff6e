// A linear programme and its proof: any multipliers prove at most the optimum, and those of the solver prove it.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { solver } from '../../src/stage/least'
import { ProgrammeBuilder, provenBy } from '../../staging/bound/linear'

/** x + y >= 1, costs 1 and 2: the optimum is 1. */
const small = () => {
  const b = new ProgrammeBuilder()
  const [x, y] = [b.column(1, 1), b.column(1, 2)]
  b.row(
    [
      [x, 1],
      [y, 1],
    ],
    1,
  )
  return b.built
}

test('the worked example: multiplier 1 proves 1; 2 and 0 prove less; a negative one is none', () => {
  const near = (m: number, proven: number) => assert.ok(Math.abs(provenBy(small(), [m]) - proven) < 1e-9, `${m}`)
  near(1, 1)
  near(0, 0)
  near(-5, 0)
  near(2, 1)
  near(3, 3 - 2 - 1)
})

test('a column that a row names twice counts twice', () => {
  const b = new ProgrammeBuilder()
  const x = b.column(1, 1)
  b.row(
    [
      [x, 1],
      [x, 1],
    ],
    1,
  )
  assert.equal(b.built.factors, [2])
})

test('no multipliers prove more than the solver finds', async () => {
  const solve = await solver()
  const term = fc.tuple(fc.nat({ max: 4 }), fc.integer({ min: -3, max: 3 }))
  const row = fc.tuple(fc.array(term, { minLength: 1, maxLength: 5 }), fc.integer({ min: -4, max: 2 }))
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 1, maxLength: 6 }),
      fc.array(fc.nat({ max: 3 }), { minLength: 5, maxLength: 5 }),
      fc.array(fc.double({ min: -1, max: 4, noNaN: true }), { minLength: 6, maxLength: 6 }),
      (rows, costs, multipliers) => {
        const b = new ProgrammeBuilder()
        costs.forEach((c) => b.column(1, c))
        // The same rows with slack, so that every programme has a solution.
        for (const [terms, bound] of rows) b.row([...terms, [b.column(20, 50), 1]], bound)
        const best = provenBy(b.built, solve(b.built)!)
        assert.ok(provenBy(b.built, multipliers) <= best + 1e-6)
      },
    ),
    { numRuns: 50, seed: 1 },
  )
})

test.run()
