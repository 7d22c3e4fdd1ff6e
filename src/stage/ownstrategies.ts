// Strategies that scripts register: rules that prescribe tiles and checkpoints for any staged model. In: a name and a rule. Out: the rule's
// prescription for layers, a budget and a machine. Invariant: the prescription is checked as a plan by hand is, and the budget held; a planner's name
// is refused; registering a name again replaces it. A rule's errors pass unchanged.
import * as E from 'fp-ts/Either'
import type { LayerReport } from '../../dsl/analyse'
import type { PlanByHand } from '../../dsl'
import type { Strategies } from '../../staging/core/names'
import type { Machine } from '../../staging/graph/machine'
import { strategies } from '../../staging/planner/strategies'
import { usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'

/**
 * Input of a strategy rule: the layers, the budget and the machine.
 *
 * @example const largest = ({ layers }: ToPlan) => Math.max(...layers.map((l) => l.bytes))
 */
export interface ToPlan {
  /** The layers in execution order, with their shapes and bytes. `named` is true if a layer has its own name. */
  readonly layers: readonly Pick<LayerReport, 'name' | 'named' | 'kind' | 'input' | 'output' | 'ft' | 'bytes' | 'parameters'>[]
  /** Hard limit of device memory, in bytes. */
  readonly budgetBytes: number
  readonly machine: Pick<Machine, 'name' | 'memoryBytes' | 'link'>
}
/**
 * A rule that chooses tiles and checkpoints, for `registerStrategy`.
 *
 * @example
 * const pools: StrategyRule = ({ layers }) => ({
 *   checkpoints: layers.filter((l) => l.named && l.kind === 'maxPool').map((l) => l.name),
 * })
 */
export type StrategyRule = (toPlan: ToPlan) => PlanByHand

const rules = new Map<string, StrategyRule>()
export const ownStrategy = (name: string | undefined): StrategyRule | undefined =>
  name === undefined ? undefined : rules.get(name)

/**
 * Registers your own strategy: a rule that chooses tiles and checkpoints. Declare its name first: `declare
 * module 'spillway' { interface Strategies { pools: true } }`.
 *
 * @param name Name of the strategy, for `stage`.
 * @param rule Returns tiles and checkpoints for a model.
 * @example
 * registerStrategy('pools' as never, ({ layers }) => ({
 *   checkpoints: layers.filter((l) => l.named && l.kind === 'maxPool').map((l) => l.name),
 * }))
 */
export const registerStrategy = (name: keyof Strategies, rule: StrategyRule): void => {
  const isTaken = (name as string) === '' || (strategies as readonly string[]).includes(name)
  orThrow(isTaken ? E.left(usage(`strategy '${name}' cannot be registered: a planner has this name`)) : E.right(undefined))
  rules.set(name, rule)
}
