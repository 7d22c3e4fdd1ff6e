// timeout 600
// Planning grows no faster than n log n in the number of ops, for the greedy family: processor time on ever deeper networks.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { machines } from '../../staging/sim/machines'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
const FULL = process.env['SPILLWAY_FULL'] === '1'
/** Fifteen ops a block: 20 000 ops in the end. */
const SMALL = 80
const LARGE = FULL ? 1330 : 320
/** Times measured on a busy machine scatter. */
const SCATTER = 1.8

const deep = (blocks: number): Graph => {
  const s = new Sketch([8, 64, 112, 112], 'deep')
  let x: Ref = s.image
  for (let i = 0; i < blocks; i++) {
    const y = s.relu(s.norm(s.conv(x, `c${i}`, 64, 3, samePad(3), false), `n${i}`), `r${i}`)
    x = i === 0 ? y : s.op('add', {}, [y, x], `s${i}`)
  }
  return trained(s, x)
}

const milliseconds = (strategy: string, blocks: number): number => {
  const graph = deep(blocks)
  const before = process.cpuUsage()
  const plan = compile(graph, { strategy, machine, budgetBytes: mib(200 + 40 * blocks), algorithms: 'fixed' })
  const used = process.cpuUsage(before)
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  assert.ok(plan.right.tierBytes > 0, 'something has to leave')
  return (used.user + used.system) / 1e3
}

for (const strategy of ['swap:greedy', 'swap:fractional', 'swap:window'])
  test(`${strategy}: ${LARGE / SMALL} times the ops`, () => {
    milliseconds(strategy, SMALL)
    const small = Math.min(milliseconds(strategy, SMALL), milliseconds(strategy, SMALL))
    const large = milliseconds(strategy, LARGE)
    const n = LARGE / SMALL
    const allowed = (n * Math.log(15 * LARGE)) / Math.log(15 * SMALL)
    assert.ok(large <= SCATTER * allowed * small, `${large.toFixed(0)} ms, ${(large / small).toFixed(1)} times ${small.toFixed(0)} ms; n log n is ${allowed.toFixed(1)}`)
  })

test.run()
