// What an optimizer puts into the training graph. In: an optimizer, a parameter and its gradient. Out: which states it keeps for
// each parameter and which op updates it; or what is wrong with its options in words. All that is known of a kind is its entry.
import type { GraphError } from '../core/errors'
import { attrsOf, isFlag } from '../ops/choices'
import { type AnyAttrs, isWithin, limitText } from '../ops/op'
import { OPTIMIZERS, type Optimizer, optimizerEntry, type OptimizerEntry, optimizerNames, statesKept } from '../ops/optimizer'

/** What an optimizer adds to each parameter: states and one op over weight, gradient, states. */
export interface UpdateRule {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly states: readonly string[]
}

export const updateRule = (o: Optimizer): UpdateRule => {
  const { update, options, fixed }: OptimizerEntry = OPTIMIZERS[o.kind]
  return { kind: update, attrs: { ...attrsOf(options, o), ...fixed }, states: statesKept(o) }
}

export const optimizerFault = (o: Optimizer): GraphError | undefined => {
  const invalid = (field: string, got: unknown, legal: string): GraphError => ({
    tag: 'OptimizerInvalid',
    field,
    got: String(got),
    legal,
  })
  const entry = optimizerEntry(o.kind)
  if (!entry) return invalid('its kind', o.kind, optimizerNames.join(', '))
  const numbers = o as unknown as Readonly<Record<string, number | boolean>>
  for (const [name, choice] of Object.entries(entry.options)) {
    const got = numbers[name]
    if (isFlag(choice) ? typeof got !== 'boolean' : !Number.isFinite(got) || !isWithin(choice, Number(got)))
      return invalid(name, got, isFlag(choice) ? 'true or false' : limitText(choice))
    if (got === true && choice.needs !== undefined && numbers[choice.needs] === 0)
      return invalid(`${choice.needs} with ${name}`, 0, 'more than 0')
  }
  return undefined
}
