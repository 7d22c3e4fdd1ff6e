// Files that are code: models and configurations. In: the path as its user writes it. Out: the exports of the module. Invariant: any error of the file
// while it loads becomes a refusal, with the place in the source.
import { statSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type FileKind, type SpillwayError, SpillwayException } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { oddity } from '../files/whole'

/** Endings of files that are code. */
export const CODE_FILES = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']
export const looksLikeFile = (text: string): boolean => CODE_FILES.includes(extname(text)) || text.includes('/')

/** The place of an exception in a file, as `:line:column: `; the loader maps the running code to the source. */
const placeIn = (file: string, { stack = '' }: Error): string => {
  const at = stack.indexOf(`${file}:`)
  const place = at < 0 ? undefined : /^(?::\d+){1,2}/.exec(stack.slice(at + file.length))?.[0]
  return place === undefined ? '' : `${basename(file)}${place}: `
}

/** The error of a file while it loads: one of ours that it lets pass, or its own, with the place. */
const loadFailed =
  (kind: FileKind, text: string, file: string) =>
  (e: unknown): SpillwayError => {
    if (e instanceof SpillwayException) return e.error
    const thrown = E.toError(e)
    return { tag: 'FileRefused', kind, file: text, reason: `${placeIn(file, thrown)}${thrown.message}`, beforehand: true }
  }

/** A path without a regular file is not awaited. */
const isRegular = (kind: FileKind, text: string, file: string): Either<SpillwayError, void> =>
  onFile(
    kind,
    text,
  )(() => {
    const odd = oddity(statSync(file))
    return odd === undefined ? E.right(undefined) : E.left({ tag: 'FileRefused', kind, file: text, reason: odd })
  })

/** Runs a file, and returns its exports. */
export const loaded = (kind: FileKind, text: string): Either<SpillwayError, unknown> => {
  const file = resolve(text)
  return pipe(
    isRegular(kind, text, file),
    E.flatMap(() => E.tryCatch((): unknown => require(file), loadFailed(kind, text, file))),
  )
}
