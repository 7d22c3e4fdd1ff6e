// timeout 600
// each of models
// Five training steps of every network on `cpu` against PyTorch's losses, in-core and in half the memory.
// Gradients are no measure in single precision (a ReLU's input within rounding of zero moves some by a thousandth):
// pytorch-gradients.test.ts compares them in double.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Staged } from '../../src/stage/staged'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { fewOrAll } from '../full'
import { done, fixtures, inFolder, stagedFor, trained } from './networks'

const fiveSteps = (plan: Staged, name: string): Promise<void> =>
  inFolder(async (folder) => {
    const expected = fixtures[name]!.losses
    const { losses } = await trained(folder, plan, name, { steps: expected.length })
    assert.is(losses.length, expected.length)
    losses.forEach((loss, i) => {
      const apart = Math.abs(loss - expected[i]!) / Math.abs(expected[i]!)
      assert.ok(apart <= 1e-4, `step ${i + 1}: loss ${loss}, PyTorch ${expected[i]}, ${apart.toExponential(1)} apart`)
    })
  })

for (const name of fewOrAll(['resnet18'], Object.keys(fixtures)))
  test(`${name}: the losses of five steps are PyTorch's`, () => fiveSteps(done(stagedFor(name, 'cpu', 'in-core')), name))

/** Halfway between the strategy's least and the memory of keeping everything. */
const halfway = (name: string, strategy: string): number => {
  const refused = stagedFor(name, 'cpu', strategy, PAGE_BYTES)
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error(`${name} fits one page`)
  return Math.floor((refused.left.smallestBytes + done(stagedFor(name, 'cpu', 'in-core')).staging.inCore.peakBytes) / 2)
}

for (const strategy of fewOrAll(['tiled'], ['checkpoint:sqrt', 'swap:greedy', 'tiled']))
  for (const name of fewOrAll(['darknet19-features'], ['darknet19-features', 'resnet18']))
    test(`${name}, ${strategy} in half the memory: the losses of five steps are PyTorch's`, () =>
      fiveSteps(done(stagedFor(name, 'cpu', strategy, halfway(name, strategy))), name))

test.run()
