// each of staging/ops/losses, staging/ops/optimizer
// Every loss and every optimizer of the tables, with all that an optimizer can keep: the bits of in-core under plans that swap and
// recompute, budgets kept to the byte, and a run that goes on from its checkpoint with what the optimizer kept.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { isFlag } from '../../staging/ops/choices'
import { lossNames } from '../../staging/ops/losses'
import { OPTIMIZERS, type OptimizerEntry, optimizerNames, optimizerWith, statesKept } from '../../staging/ops/optimizer'
import { openTensors } from '../../src/files/safetensors'
import { fewOrAll } from '../full'
import { trunk } from './models'
import { halfway, sameBits, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-own-'))
test.after(() => rmSync(root, { recursive: true }))

for (const loss of fewOrAll(['dice'] as const, lossNames))
  test(`${loss}: one run, whatever the plan`, async () => void (await sameBits({ loss })))

/** With all that it can keep, and all that it can switch on. */
const full = (kind: (typeof optimizerNames)[number]) => {
  const { options, states }: OptimizerEntry = OPTIMIZERS[kind]
  const on = Object.entries(options).map(([name, c]) => [
    name,
    isFlag(c) ? true : states.some((s) => s.when === name) ? 0.5 : c.default,
  ])
  return optimizerWith(kind, { ...Object.fromEntries(on), lr: 1e-3 })
}

for (const kind of fewOrAll(['adamw'] as const, optimizerNames)) {
  const optimizer = full(kind)
  test(`${kind}: one run, whatever the plan`, async () => void (await sameBits({ optimizer })))

  test(`${kind}: a resumed run has its saved state`, async () => {
    const checkpointDir = join(root, kind)
    const inCore = staged(trunk, { strategy: 'in-core', optimizer })
    const swapping = staged(trunk, { strategy: 'swap:greedy', budget: halfway(trunk, 'swap:greedy', { optimizer }), optimizer })
    const alone = await trained(trunk, inCore, { steps: 4 })
    await trained(trunk, swapping, { steps: 2, checkpointDir })
    const kept = openTensors(
      'checkpoint',
      join(checkpointDir, readdirSync(checkpointDir).find((f) => f.endsWith('.safetensors'))!),
    )
    assert.ok(!isLeft(kept))
    for (const state of statesKept(optimizer)) assert.ok(kept.right.tensors.has(`stem.weight.${state}`), state)
    const rest = await trained(trunk, inCore, { steps: 4, checkpointDir, resume: true })
    assert.equal([rest.resumedFrom, rest.losses, rest.weightsSha256], [2, alone.losses, alone.weightsSha256])
  })
}

test.run()
