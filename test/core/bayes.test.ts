// Bayesian optimisation: where it looks next, and that it finds the least of a function in few steps.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mostPromising } from '../../staging/core/bayes'

test('the worked example: the search continues where values fall', () => {
  assert.equal(mostPromising([[0], [1]], [3, 1], [[0.1], [0.9]]), [0.9])
})

test('the search prefers unexplored points to explored ones', () => {
  assert.equal(mostPromising([[0], [0.1]], [1, 1], [[0.05], [1]]), [1])
})

test('twelve steps come close to the minimum of a function with two valleys', () => {
  const f = ([x, y]: readonly number[]): number =>
    Math.min((x! - 0.2) ** 2 + (y! - 0.3) ** 2 + 0.1, (x! - 0.8) ** 2 + (y! - 0.7) ** 2)
  const grid = Array.from({ length: 121 }, (_, i) => [(i % 11) / 10, Math.floor(i / 11) / 10])
  const tried: (readonly number[])[] = [
    [0, 0],
    [1, 1],
    [0.5, 0.5],
  ]
  const values = tried.map(f)
  for (let i = 0; i < 12; i++) {
    const next = mostPromising(tried, values, grid)
    tried.push(next)
    values.push(f(next))
  }
  assert.ok(Math.min(...values) <= 0.02, `${Math.min(...values)}`)
})

test.run()
