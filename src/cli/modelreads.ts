// The files of a model: its own, and those that it imports by relative paths, with their imports. In: MODEL. Out: places for the check
// against outputs (files/places.ts). Invariant: imports are found in the text; no code of the model runs.
import { readFileSync, statSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { attempt } from '../errors/exceptions'
import type { Read } from '../files/places'
import { CODE_FILES, looksLikeFile } from './load'

/** `from './a'`, `import './a'`, `import('./a')`, `require('./a')`. */
const IMPORT = /(?:\bfrom|\bimport|\bimport\s*\(|\brequire\s*\()\s*(['"])(\.{1,2}\/[^'"\n]*)\1/g

const isFile = (path: string): boolean => attempt(() => statSync(path).isFile()) ?? false

/** The file that an import names, with the endings that the loader tries. */
const imported = (from: string, name: string): string | undefined => {
  const at = resolve(dirname(from), name)
  const endings = ['', ...CODE_FILES, '.json', ...CODE_FILES.map((end) => `/index${end}`)]
  return [...endings.map((end) => at + end), at.replace(/\.([cm]?)js$/, '.$1ts')].find(isFile)
}

const found = (file: string, seen: Set<string>): ReadonlySet<string> => {
  if (seen.has(file)) return seen
  seen.add(file)
  if (!CODE_FILES.some((end) => file.endsWith(end))) return seen
  const text = attempt(() => readFileSync(file, 'utf8')) ?? ''
  for (const [, , name] of text.matchAll(IMPORT)) {
    const next = imported(file, name!)
    if (next !== undefined) found(next, seen)
  }
  return seen
}

/** A file and those that it imports. `by`: the name of the file in errors. */
export const readingCode = (by: string, path: string): readonly Read[] =>
  [...found(resolve(path), new Set())].map((file, i) =>
    i === 0 ? { by, path } : { by: `${by}'s imports`, path: relative('', file) },
  )

/** The model file and its imports; nothing for a network of the zoo. */
export const readingModel = (model: string): readonly Read[] =>
  looksLikeFile(model) && isFile(model) ? readingCode('the model', model) : []
