// Strategies that scripts register: rules that prescribe tiles and checkpoints for whatever is staged. In: a name and a rule. Out: what the
// rule prescribes for layers, a budget and a machine. Invariant: what it prescribes is checked as a plan by hand is, and the budget held; a
// planner's name is refused; who registers a name again replaces it. What a rule throws comes back as it is.
import * as E from 'fp-ts/Either'
import type { LayerReport } from '../../dsl/analyse'
import type { PlanByHand } from '../../dsl'
import type { Strategies } from '../../staging/core/names'
import type { Machine } from '../../staging/graph/machine'
import { strategies } from '../../staging/schedule/strategies'
import { usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'

/** What is to be planned. */
export interface ToPlan {
  /** In the order in which they run; one that has no name of its own stands between two that have. */
  readonly layers: readonly Pick<LayerReport, 'name' | 'named' | 'kind' | 'input' | 'output' | 'ft' | 'bytes' | 'parameters'>[]
  /** Bytes of device memory that nothing may exceed. */
  readonly budgetBytes: number
  readonly machine: Pick<Machine, 'name' | 'memoryBytes' | 'link'>
}
/** What is prescribed: layers in tiles, and those whose outputs stay. */
export type StrategyRule = (toPlan: ToPlan) => PlanByHand

const rules = new Map<string, StrategyRule>()
export const ownStrategy = (name: string | undefined): StrategyRule | undefined =>
  name === undefined ? undefined : rules.get(name)

/**
 * Makes a strategy of one's own known: a rule that prescribes tiles and checkpoints. Its name is declared first:
 * `declare module 'spillway' { interface Strategies { pools: true } }`.
 *
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
