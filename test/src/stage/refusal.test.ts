// gate
// A budget that parameters and state alone exceed: refused without the seconds of measuring first, and with the smallest budget that a
// measured plan works in.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq } from '../../../dsl'
import { hearMeasuring } from '../../../src/machine/taught'
import { CPU_SAMPLES } from '../../../src/machine/timing'
import { mib } from '../../../src/stage/sizes'
import { tryStage } from '../../../src/stage/stage'
import { PAGE_BYTES } from '../../../staging/core/bytes'

const root = mkdtempSync(join(tmpdir(), 'spillway-refusal-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = root

/** Two weights of 2.25 MiB, each with its momentum and its gradient. */
const m = model([1, 3, 8, 8], seq(conv2d('a', 256, 3), relu(), conv2d('b', 256, 3), relu(), conv2d('c', 256, 3)))

/** The smallest budget that the refusal of a budget names, and the limits of the measurements before it, in seconds. */
const refusal = (budget: number) => {
  const limits = new Set<number>()
  hearMeasuring((_, __, most) => limits.add(most))
  const staged = tryStage(m, { machine: 'cpu', measure: 'first', budget })
  hearMeasuring(undefined)
  assert.ok(isLeft(staged) && staged.left.tag === 'BudgetInfeasible')
  return { smallest: (staged.left as { readonly smallestBytes: number }).smallestBytes, limits }
}

test('a budget below parameters and state is refused before calls are measured first', () => {
  const { smallest, limits } = refusal(mib(2))
  assert.not.ok(limits.has(CPU_SAMPLES.patienceSeconds), [...limits].join())
  const measured = refusal(smallest - PAGE_BYTES)
  assert.ok(measured.limits.has(CPU_SAMPLES.patienceSeconds))
  assert.is(measured.smallest, smallest)
  assert.ok(!isLeft(tryStage(m, { machine: 'cpu', measure: 'first', budget: smallest })))
})

test.run()
