// Small parameters that share pages of the lower tier: a step whose small weights and momenta take half of the budget leaves them there. Without
// a tier, all parameters stay on the device.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { isPersistent, valueBytes } from '../../staging/graph/graph'
import { withoutTier } from '../../staging/graph/machine'
import type { Ref } from '../../staging/ops/op'
import { problemOf } from '../../staging/search/problem'
import { machines } from '../../staging/sim/machines'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!

/** 48 weights of 144 KiB. */
const graph = (() => {
  const s = new Sketch([8, 64, 32, 32])
  let x: Ref = s.image
  for (let k = 0; k < 48; k++) x = s.relu(s.conv(x, `c${k}`, 64, 3, undefined, false), `r${k}`)
  return trained(s, x)
})()
const persistentBytes = graph.values.reduce((n, v) => n + (isPersistent(v) ? valueBytes(v) : 0), 0)

test('units hold each small weight and each momentum once, in storages of at most a page', () => {
  const storages = problemOf(graph, machine).units.flat()
  const values = storages.flat()
  assert.is(new Set(values).size, values.length)
  assert.is(values.length, 96)
  assert.ok(storages.every((s) => s.reduce((n, v) => n + valueBytes(graph.values[v]!), 0) <= mib(2)))
  assert.is(problemOf(graph, withoutTier(machine)).units.length, 0)
})

test('a step whose small parameters take half of the budget keeps them in the lower tier', () => {
  const budgetBytes = mib(24)
  assert.ok(2 * persistentBytes > budgetBytes)
  const plan = compile(graph, { strategy: 'auto', machine, budgetBytes, effort: 0.5 })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  assert.ok(plan.right.storages.some((s) => s.home !== undefined && s.cells.length > 1))
})

test.run()
