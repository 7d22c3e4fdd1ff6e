// The export of a model file, as a model or a step. In: an unknown default export, sizes from the command line. Out: either, or an error in words. It
// is recognised by its fields alone, because the file may have loaded another copy of this package.
import { chain, type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import { knownIn } from '../staging/core/known'
import { optionsFor } from '../staging/core/options'
import { isClassifier } from './classes'
import { show } from './decode'
import { type InputOverride, type Model, modelAt } from './model'
import type { Trainable } from './trainable'
import { decodeStep } from './stepdecode'

const invalid = (reason: string): Either<GraphError, never> => left({ tag: 'ModelInvalid', at: 'the default export', reason })
const SIZES = optionsFor<InputOverride>()('asTrainable', 'batch', 'height', 'width', 'mode')
// biome-ignore format: a list
const MODEL = optionsFor<Model>()('a model', 'kind', 'net', 'input', 'output', 'ft', 'parameters', 'activationBytes', 'layers')
const isObject = (u: unknown): u is Readonly<Record<string, unknown>> => (typeof u === 'object' && u !== null) || isClassifier(u)

const noDefault = (): Either<GraphError, never> =>
  left({
    tag: 'ModelInvalid',
    at: 'the model file',
    reason: 'it has no default export; add: export default model([N, C, H, W], net)',
  })
/** An ES module, or its CommonJS form, that exports other names only. */
export const lacksDefault = (u: unknown): boolean =>
  u === undefined || (typeof u === 'object' && u !== null && !('default' in u) && ('__esModule' in u || Symbol.toStringTag in u))

/** CommonJS and ES modules wrap a default export differently. */
export const unwrapped = (u: unknown): unknown => (isObject(u) && !('kind' in u) && 'default' in u ? u['default'] : u)

const overridden = (input: unknown, o: InputOverride): unknown => {
  if (!Array.isArray(input) || input.length !== 4) return input
  const [b, c, h, w] = input as readonly unknown[]
  return [o.batch ?? b, c, o.height ?? h, o.width ?? w]
}

/** Returns an error unless the value has the form of a model or a step. */
export const isTrainable = (u: unknown): Either<GraphError, void> =>
  isObject(u) && (u['kind'] === 'model' || u['kind'] === 'step')
    ? right(undefined)
    : left({
        tag: 'ModelInvalid',
        at: 'the first argument',
        reason: `it is ${show(u)}; allowed: the result of model, modelAt or step`,
      })

/**
 * Returns a model or a step from an untrusted default export, or the reason for a refusal. A bare net becomes a
 * model of RGB images if height and width are given.
 *
 * @param exported A `model(…)`, a `step(…)`, or a net.
 * @param override Sizes that replace those of the model.
 * @example asTrainable(net, { batch: 8, height: 512, width: 512 })
 */
export const asTrainable = (exported: unknown, override: InputOverride = {}): Either<GraphError, Trainable> =>
  pipe(
    knownIn(SIZES)(override),
    chain((sizes) => (lacksDefault(exported) ? noDefault() : trainableAt(unwrapped(exported), sizes))),
  )

const trainableAt = (u: unknown, override: InputOverride): Either<GraphError, Trainable> => {
  if (!isObject(u) || (!('kind' in u) && !isClassifier(u)))
    return invalid(`it is ${show(u)}; allowed: model([B,C,H,W], net), a net, or step(...)`)
  if (u['kind'] === 'step') return decodeStep(u, override)
  if (u['kind'] === 'model')
    return pipe(
      knownIn(MODEL)(u),
      chain(() => modelAt(overridden(u['input'], override), u['net'], override.mode)),
    )
  if (override.height === undefined || override.width === undefined)
    return invalid('it is a net without an input size; export default model([B,C,H,W], net), or give an image size (--image)')
  return modelAt([override.batch ?? 1, 3, override.height, override.width], u, override.mode)
}
