// Options from outside: all of their keys must be known. In: whose options, what was given. Out: the same, or the first key that is none
// of theirs; as a value, or, for what scripts call, as an exception in the same words.
import { type Either, left, right } from 'fp-ts/Either'
import { orThrow } from './certain'
import { type GraphError, renderError } from './errors'
import { type Options, unknownKey } from './options'

export const knownIn =
  (options: Options) =>
  <O>(given: O): Either<GraphError, O> => {
    const { of, keys: legal } = options
    if (given === undefined) return right(given)
    if (typeof given !== 'object' || given === null || Array.isArray(given))
      return left({
        tag: 'ValueInvalid',
        name: `options of ${of}`,
        reason: `they are ${JSON.stringify(given)}`,
        legal: 'an object',
      })
    const option = unknownKey(given, options)
    return option === null ? right(given) : left({ tag: 'OptionUnknown', option, of, legal })
  }

export const known = <O>(options: Options, given: O): O => orThrow(renderError)(knownIn(options)(given))
