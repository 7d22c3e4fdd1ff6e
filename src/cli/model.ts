// MODEL of the command line: a zoo name, or a file whose default export is a net or a step. In: the text, sizes. Out: the model. Invariant: any error
// of the file while it loads (a throw, a wrong export) becomes a refusal in words.
import { statSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { asTrainable, type InputOverride, type Loss, type Trainable } from '../../dsl'
import { type SpillwayError, SpillwayException, unknownName, usage } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { oddity } from '../files/whole'
import { zooEntry, zooNames } from '../zoo'

export interface NamedModel {
  readonly name: string
  readonly model: Trainable
  /** The zoo's loss for it. */
  readonly loss?: Loss
  /** The zoo's family, or the file, and whether it was given other sizes than its own. */
  readonly source: { readonly family: string } | { readonly file: string; readonly resized: boolean }
}

export const MODEL_FILES = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']
export const looksLikeFile = (text: string): boolean => MODEL_FILES.includes(extname(text)) || text.includes('/')

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

/** The place of an exception in a file, as `:line:column: `; the loader maps the running code to the source. */
const placeIn = (file: string, { stack = '' }: Error): string => {
  const at = stack.indexOf(`${file}:`)
  const place = at < 0 ? undefined : /^(?::\d+){1,2}/.exec(stack.slice(at + file.length))?.[0]
  return place === undefined ? '' : `${basename(file)}${place}: `
}

/** The error of a file while it loads: one of ours that it lets pass, or its own, with the place. */
const loadFailed =
  (text: string, file: string) =>
  (e: unknown): SpillwayError => {
    if (e instanceof SpillwayException) return e.error
    const thrown = E.toError(e)
    return {
      tag: 'FileRefused',
      kind: 'model',
      file: text,
      reason: `${placeIn(file, thrown)}${thrown.message}`,
      beforehand: true,
    }
  }

/** A path without a regular file is not awaited. */
const isModelFile = (text: string, file: string): Either<SpillwayError, void> =>
  onFile(
    'model',
    text,
  )(() => {
    const odd = oddity(statSync(file))
    return odd === undefined ? E.right(undefined) : E.left({ tag: 'FileRefused', kind: 'model', file: text, reason: odd })
  })

const fromFile = (text: string, { classes, ...o }: ModelAsked): Either<SpillwayError, NamedModel> => {
  const file = resolve(text)
  if (classes !== undefined)
    return E.left(usage(`--classes applies to zoo networks; the file ${text} sets its own number of classes`))
  return pipe(
    isModelFile(text, file),
    E.flatMap(() => E.tryCatch((): unknown => require(file), loadFailed(text, file))),
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
