// Options from outside: all of their keys must be known, and their values allowed. In: the owner of the options, and the object. Out: the object, or
// the first wrong key or value: as a value, or, for scripts, as an exception with the same text.
import { type Either, left, right } from 'fp-ts/Either'
import { orThrow } from './certain'
import { type GraphError, renderError } from './errors'
import { type Options, unknownKey } from './options'
import { oddValue, type Valued } from './values'

export const knownIn =
  (options: Options & Partial<Valued>) =>
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
    if (option !== null) return left({ tag: 'OptionUnknown', option, of, legal })
    const { prefix = `${of}: `, values = {}, required = [] } = options
    const odd = oddValue(given, { prefix, values, required })
    return odd ? left({ tag: 'OptionInvalid', ...odd }) : right(given)
  }

export const known = <O>(options: Options & Partial<Valued>, given: O): O => orThrow(renderError)(knownIn(options)(given))
