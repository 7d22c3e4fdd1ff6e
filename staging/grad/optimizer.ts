// The ops of an optimizer in the training graph. In: an optimizer, a parameter and its gradient. Out: the states of each parameter and its update op;
// or the error of an option. The entry of a kind has all facts about it.
import { type Either, left, right, tap, traverseArray } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../core/errors'
import { knownIn } from '../core/known'
import { attrsOf, type Choice, isFlag } from '../ops/choices'
import { type AnyAttrs, isWithin, limitText } from '../ops/op'
import {
  AVERAGE,
  OPTIMIZERS,
  type Optimizer,
  optimizerEntry,
  type OptimizerEntry,
  optimizerNames,
  statesKept,
  scaledKind,
  steeredKind,
} from '../ops/optimizer'
import type { Updates } from '../ops/updates'

/** The additions of an optimizer for each parameter: states, and one op over weight, gradient and states. */
export interface UpdateRule {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly states: readonly string[]
}

export const updateRule = (o: Optimizer, { accumulate = 1, average = 0 }: Updates, scaled: boolean): UpdateRule => {
  const { update, options, fixed }: OptimizerEntry = OPTIMIZERS[o.kind]
  const plain = { kind: update, attrs: { ...attrsOf(options, o), ...fixed }, states: statesKept(o) }
  return accumulate === 1 && average === 0 && !scaled
    ? plain
    : {
        kind: scaled ? scaledKind(update) : steeredKind(update),
        attrs: { ...plain.attrs, every: accumulate, average },
        states: [...plain.states, ...(average === 0 ? [] : [AVERAGE])],
      }
}

export const checkedOptimizer = (o: Optimizer): Either<GraphError, Optimizer> => {
  const wrong = (field: string, got: unknown, legal: string): Either<GraphError, never> =>
    left({ tag: 'OptimizerInvalid', field, got: String(got), legal })
  const numbers = o as unknown as Readonly<Record<string, number | boolean>>
  const option = ([name, choice]: readonly [string, Choice]): Either<GraphError, unknown> => {
    const got = numbers[name]
    if (isFlag(choice) ? typeof got !== 'boolean' : !Number.isFinite(got) || !isWithin(choice, Number(got)))
      return wrong(name, got, isFlag(choice) ? 'true or false' : limitText(choice))
    return got === true && choice.needs !== undefined && numbers[choice.needs] === 0
      ? wrong(`${choice.needs} with ${name}`, 0, 'more than 0')
      : right(got)
  }
  const entry = optimizerEntry(o.kind)
  return entry
    ? pipe(
        knownIn({ of: o.kind, keys: ['kind', ...Object.keys(entry.options)] })(o),
        tap(() => traverseArray(option)(Object.entries(entry.options))),
      )
    : wrong('its kind', o.kind, optimizerNames.join(', '))
}
