// Words that were given up must not come back: identifiers and pages say what docs/internals/words.md lists. In: the second table of
// that page (retired words, where they are, what to say instead) and the files that git tracks or would add. Out: each place
// with the word to use. Comments and sentences in code may use any word.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { filesOf } from './check-hygiene'

interface Retired {
  readonly words: readonly string[]
  /** Folders; none: everywhere. */
  readonly where: readonly string[]
  readonly say: string
}

const LIST = 'docs/internals/words.md'
/** Pages that explain retired words. */
const EXPLAINING = [LIST, 'docs/glossary.md']
const CODE = /^(src|dsl|staging|models|scripts|bench|native|examples|test)\/.*\.(ts|js|cpp|hpp|h|cu|cuh)$/
const PAGE = /^(README|docs\/[^/]+)\.md$/

const quoted = (cell: string): readonly string[] => [...cell.matchAll(/`([^`]+)`/g)].map((m) => m[1]!)

/** Rows of `| retired | where | say |`, below that heading. */
export const retiredIn = (page: string): readonly Retired[] =>
  page
    .slice(page.indexOf('| retired |'))
    .split('\n')
    .slice(2)
    .filter((line) => line.startsWith('|'))
    .map((line) => {
      const [, words = '', where = '', say = ''] = line.split('|').map((cell) => cell.trim())
      return { words: quoted(words), where: quoted(where), say }
    })

const withoutEnglish = (text: string): string =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, (c) => c.replace(/[^\n]/g, ' '))
    .replace(/\/\/.*/g, '')
    .replace(/(['"])(?:\\.|(?!\1)[^\\\n])*\1/g, (s) => (s.includes(' ') ? '' : s))

/** copyOut, copy_out and 'copy out' are the same words; what stands between two identifiers keeps them apart. */
const asWords = (text: string): string =>
  ` ${text
    .replace(/([a-z0-9])(?=[A-Z])/g, '$1 ')
    .replace(/_/g, ' ')
    .replace(/[^A-Za-z0-9 ]+/g, ' . ')} `.toLowerCase()

export const wordProblems = (root: string): readonly string[] => {
  const retired = retiredIn(fs.readFileSync(path.join(root, LIST), 'utf8'))
  return filesOf(root).flatMap((name) => {
    if (EXPLAINING.includes(name) || !(CODE.test(name) || PAGE.test(name))) return []
    const rules = retired.filter((r) => !r.where.length || r.where.some((folder) => name.startsWith(folder)))
    const text = fs.readFileSync(path.join(root, name), 'utf8')
    return (PAGE.test(name) ? text : withoutEnglish(text)).split('\n').flatMap((line, i) => {
      const words = asWords(line)
      return rules.flatMap((r) => {
        const found = r.words.find((w) => words.includes(` ${w} `))
        return found === undefined ? [] : [`${name}:${i + 1}: '${found}' is retired (${LIST}); say ${r.say}`]
      })
    })
  })
}

if (require.main === module) {
  const problems = wordProblems(path.dirname(__dirname))
  for (const problem of problems) console.error(problem)
  console.error(problems.length === 0 ? 'words: fine' : `words: ${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
