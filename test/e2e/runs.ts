// Staged runs for the end-to-end tests: budgets between the smallest and in-core, results or exceptions.
import { isLeft, isRight } from 'fp-ts/Either'
import type { Model } from '../../dsl'
import { crossEntropy } from '../../dsl'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import type { StrategyName } from '../../staging/core/names'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { machineNamed } from '../../src/machine/machine'
import type { Staged } from '../../src/stage/staged'
import { stage, tryStage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainOptions } from '../../src/train/options'
import { train } from '../../src/train/trainer'
import type { TrainResult } from '../../src/train/result'
import { classifier, trunk } from './models'

/** The device that computes in this build. */
export const DEVICE = loadNative().deviceInfo().devices.includes('cpu') ? 'cpu' : 'ref'

/** In bf16 there, or on `ref` where this processor has none. */
export const BF16 = {
  machine: isRight(machineNamed(DEVICE, { precision: 'bf16' })) ? DEVICE : 'ref',
  precision: 'bf16',
} as const satisfies StageOptions

const stagedAnew = (model: Model, o: StageOptions): Staged =>
  stage(model, { machine: DEVICE, algorithms: 'fixed', ...(model === (classifier as Model) ? { loss: crossEntropy } : {}), ...o })

const plans = new Map<Model, Map<string, Staged>>()

/** Plans by stated times alone, which are the same each time: each is made once. */
export const staged = (model: Model, o: StageOptions = {}): Staged => {
  const isStated = (o.machine ?? DEVICE) === DEVICE && (o.algorithms ?? 'fixed') === 'fixed'
  const isPlain = Object.values(o).every((value) => typeof value === 'string' || typeof value === 'number')
  if (!isStated || !isPlain) return stagedAnew(model, o)
  const known = plans.get(model) ?? new Map<string, Staged>()
  plans.set(model, known)
  const key = JSON.stringify(Object.entries(o).sort())
  const plan = known.get(key) ?? stagedAnew(model, o)
  known.set(key, plan)
  return plan
}

const budgets = new Map<Model, Map<string, number>>()

/** The answer of a strategy for one page. */
export const smallestBudget = (model: Model, strategy: StrategyName, o: StageOptions = {}): number => {
  const known = budgets.get(model) ?? new Map<string, number>()
  budgets.set(model, known)
  const key = `${strategy} ${JSON.stringify(o)}`
  const bytes = known.get(key) ?? askedBudget(model, strategy, o)
  known.set(key, bytes)
  return bytes
}

const askedBudget = (model: Model, strategy: StrategyName, o: StageOptions): number => {
  const plan = tryStage(model, { machine: DEVICE, algorithms: 'fixed', ...o, strategy, budget: PAGE_BYTES })
  if (!isLeft(plan) || plan.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  return plan.left.smallestBytes
}

/** Halfway between the smallest budget of a strategy and in-core, in whole pages. */
export const halfway = (model: Model, strategy: StrategyName, o: StageOptions = {}): number =>
  bytesOf(pagesIn((smallestBudget(model, strategy, o) + smallestBudget(model, 'in-core', o)) / 2))

export const trained = (model: Model, plan: Staged, o: Partial<TrainOptions> = {}): Promise<TrainResult> =>
  train(model, plan, { steps: 3, seed: 1, ...o })

const STRATEGIES = ['swap:greedy', 'checkpoint:sqrt'] as const

/** One run of the trunk, for any plan; the seconds of in-core. */
export const sameBits = async (o: StageOptions): Promise<TrainResult> => {
  const inCore = await trained(trunk, staged(trunk, { strategy: 'in-core', ...o }))
  assert.ok(inCore.losses.every(Number.isFinite), `${inCore.losses}`)
  for (const strategy of STRATEGIES) {
    const r = await trained(trunk, staged(trunk, { strategy, budget: halfway(trunk, strategy, o), ...o }))
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes, strategy)
    assert.ok(r.peakBytes <= r.budgetBytes && r.peakBytes < inCore.peakBytes, strategy)
  }
  return inCore
}
