// Files that follow from a description. In: each file's path and text, or how its text follows from the committed one. Out:
// the files are written; with --check nothing is written, and the exit status is 1 when one of them differs.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(__dirname, '..')

/** Its text, given the present one. */
export type Generated = readonly [file: string, text: (committed: string) => string]

const read = (file: string): string => {
  try {
    return readFileSync(join(ROOT, file), 'utf8')
  } catch {
    return ''
  }
}

/** Later generators may read earlier results. `from`: the sources, and the script that makes them. */
export const generate = (files: readonly Generated[], from: string, script: string): void => {
  const check = process.argv.includes('--check')
  for (const [file, text] of files) {
    const committed = read(file)
    const now = text(committed)
    if (now === committed) continue
    if (!check) writeFileSync(join(ROOT, file), now)
    else {
      process.exitCode = 1
      console.error(`${file} differs from ${from}: run node -r ./scripts/testing/typescript.js scripts/${script}`)
    }
  }
}

export const snake = (name: string): string => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)
export const upper = (name: string): string => snake(name).toUpperCase()
/** Kinds of operators are named like files, the users' names are those of JavaScript. */
export const camel = (kind: string): string => kind.replace(/[_-]([a-z0-9])/g, (_, c: string) => c.toUpperCase())
export const capital = (name: string): string => `${name[0]!.toUpperCase()}${name.slice(1)}`
