// MODEL of the command line: a zoo name, or a file whose default export is a net or a step. In: the text, sizes. Out: the model. Invariant: any error
// of the file while it loads (a throw, a wrong export) becomes a refusal in words.
import { basename, extname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { asTrainable, type InputOverride, type Loss, type Trainable } from '../../dsl'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { zooEntry, zooNames } from '../zoo'
import { loaded, looksLikeFile } from './load'

export interface NamedModel {
  readonly name: string
  readonly model: Trainable
  /** The zoo's loss for it. */
  readonly loss?: Loss
  /** The zoo's family, or the file, and whether it was given other sizes than its own. */
  readonly source: { readonly family: string } | { readonly file: string; readonly resized: boolean }
}

/** Sizes that are asked for, and of a network of the zoo its classes. */
export interface ModelAsked extends InputOverride {
  readonly classes?: number | undefined
}

const fromZoo = (name: string, o: ModelAsked): Either<SpillwayError, NamedModel> => {
  const entry = zooEntry(name)
  if (!entry) return E.left(unknownName('model', name, zooNames))
  const [b, c, h, w] = entry.defaultInput
  return pipe(
    entry.build([o.batch ?? b, c, o.height ?? h, o.width ?? w], o.mode, { classes: o.classes }),
    E.map((model) => ({ name, model, loss: entry.loss, source: { family: entry.family } })),
  )
}

const fromFile = (text: string, { classes, ...o }: ModelAsked): Either<SpillwayError, NamedModel> => {
  const file = resolve(text)
  if (classes !== undefined)
    return E.left(usage(`--classes applies to zoo networks; the file ${text} sets its own number of classes`))
  return pipe(
    loaded('model', text),
    E.chainW((exported) => asTrainable(exported, o)),
    E.map((model) => ({
      name: basename(file, extname(file)),
      model,
      source: { file, resized: Object.keys(o).length > 0 },
    })),
  )
}

export const modelNamed = (text: string, o: ModelAsked): Either<SpillwayError, NamedModel> =>
  looksLikeFile(text) ? fromFile(text, o) : fromZoo(text, o)
