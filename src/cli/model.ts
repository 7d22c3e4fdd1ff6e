// MODEL of the command line: a zoo name, or a file whose default export is a net. In: the text, sizes. Out: the model.
// Invariant: whatever the file does while it loads (throw, export nonsense) comes out as a refusal in words.
import { existsSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { asTrainable, type InputOverride, type Loss, type Shape, type Trainable } from '../../dsl'
import { type SpillwayError, SpillwayException, unknownName } from '../errors/errors'
import { zooEntry, zooNames, zooSteps } from '../zoo'

export interface NamedModel {
  readonly name: string
  readonly model: Trainable
  readonly loss: Loss
  /** The zoo's family, or the file, and whether its model was given another input than its own. */
  readonly source: { readonly family: string } | { readonly file: string; readonly resized: boolean }
}

const MODEL_FILES = ['.ts', '.cts', '.js', '.cjs']
const looksLikeFile = (text: string): boolean => MODEL_FILES.includes(extname(text)) || text.includes('/')

const fromZoo = (name: string, o: InputOverride): Either<SpillwayError, NamedModel> => {
  const own = zooSteps.find((s) => s.name === name)
  if (own) {
    const [b, c, h, w] = own.defaultInput
    const step = own.build([o.batch ?? b, c, o.height ?? h, o.width ?? w])
    return isLeft(step) ? step : right({ name, model: step.right, loss: 'mse', source: { family: name } })
  }
  const entry = zooEntry(name)
  if (!entry) return left(unknownName('model', name, zooNames))
  const [b, c, h, w] = entry.defaultInput
  const input: Shape = [o.batch ?? b, c, o.height ?? h, o.width ?? w]
  const model = entry.build(input)
  return isLeft(model) ? model : right({ name, model: model.right, loss: entry.loss, source: { family: entry.family } })
}

/** CommonJS and ES modules wrap a default export differently. */
const isModel = (exported: unknown): boolean => {
  const own = exported as { readonly kind?: unknown; readonly default?: { readonly kind?: unknown } }
  return (own.default?.kind ?? own.kind) === 'model'
}

const fromFile = (text: string, o: InputOverride): Either<SpillwayError, NamedModel> => {
  const file = resolve(text)
  if (!existsSync(file)) return left({ tag: 'FileMissing', kind: 'model', file: text })
  let exported: unknown
  try {
    exported = require(file)
  } catch (e) {
    if (e instanceof SpillwayException) return left(e.error)
    return left({ tag: 'FileRefused', kind: 'model', file: text, reason: e instanceof Error ? e.message : String(e) })
  }
  const model = asTrainable(exported, o)
  return isLeft(model)
    ? model
    : right({
        name: basename(file, extname(file)),
        model: model.right,
        loss: 'mse',
        source: { file, resized: isModel(exported) && Object.keys(o).length > 0 },
      })
}

export const modelNamed = (text: string, o: InputOverride): Either<SpillwayError, NamedModel> =>
  looksLikeFile(text) ? fromFile(text, o) : fromZoo(text, o)
