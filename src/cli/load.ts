// Files that are code: models and configurations. In: the path as its user writes it. Out: the exports of the module. Invariant: any error of the file
// while it loads becomes a refusal, with the place in the source.
import { readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, extname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { nearest } from '../../staging/core/nearest'
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

const IMPORTS = /\bimport\s*\{([^}]*)\}\s*from\s*(['"])([^'"]+)\2/g
/** The message of a call of an import that its module does not export: as Sucrase translates the call, and as TypeScript does. */
const NO_FUNCTION = /\(reading 'call'\)$|is not a function$/

/** The first name that a file imports and calls, and that the module does not export, in words. */
const missingImport = (file: string): string | undefined => {
  const source = readFileSync(file, 'utf8')
  for (const [, list = '', , from = ''] of source.matchAll(IMPORTS)) {
    const exported = E.tryCatch((): object => Object(createRequire(file)(from)), String)
    if (E.isLeft(exported)) continue
    for (const item of list.split(',')) {
      const [name = '', local = name] = item.trim().split(/\s+as\s+/)
      const isCalled = /^\w+$/.test(local) && new RegExp(`\\b${local}\\(`).test(source)
      if (isCalled && name !== 'default' && !(name in exported.right))
        return `'${from}' does not export '${name}'; nearest: ${nearest(name, Object.keys(exported.right), 3).join(', ')}`
    }
  }
  return undefined
}

/** The error of a file while it loads: one of ours that it lets pass, or its own, with the place. */
const loadFailed =
  (kind: FileKind, text: string, file: string) =>
  (e: unknown): SpillwayError => {
    if (e instanceof SpillwayException) return e.error
    const thrown = E.toError(e)
    const missing = NO_FUNCTION.test(thrown.message) ? missingImport(file) : undefined
    if (missing !== undefined) return { tag: 'FileRefused', kind, file: text, reason: missing, beforehand: true }
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
