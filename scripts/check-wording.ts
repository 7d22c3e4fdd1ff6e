// Checks the wording of pages and comments. In: every file that git tracks or would add, and scripts/wording/ceilings.json. Out: each
// folder above its limit, with its ten worst sentences, and the exit status 1 if there is one. Pages have fixed limits. A code folder has
// the counts of ceilings.json, which may only fall: `--update` lowers them to the present counts.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { filesOf } from './check-hygiene'
import { folderOf, isMeasured, measure, PATTERNS, type Pattern, type Sentence } from './wording/measure'

type Counts = Readonly<Record<Pattern, number>>
type Ceilings = Readonly<Record<string, Counts>>

const CEILINGS = 'scripts/wording/ceilings.json'
const WORST = 10

/** Limits of a folder of pages, in percent of its sentences; a pattern without one is not limited. */
const LIMIT_PERCENT: Partial<Counts> = { what: 4, first: 0.5, long: 5 }
const LIMIT_WORDS = 15

const isPages = (folder: string): boolean => folder === 'docs' || folder.endsWith('.md')

export const sentencesByFolder = (root: string): ReadonlyMap<string, readonly Sentence[]> => {
  const folders = new Map<string, Sentence[]>()
  for (const file of filesOf(root).filter(isMeasured)) {
    const sentences = measure(file, fs.readFileSync(path.join(root, file), 'utf8'))
    const present = folders.get(folderOf(file))
    if (present) present.push(...sentences)
    else folders.set(folderOf(file), [...sentences])
  }
  return folders
}

export const countsOf = (sentences: readonly Sentence[]): Counts => {
  const counts = { what: 0, first: 0, many: 0, long: 0 }
  for (const s of sentences) for (const hit of s.hits) counts[hit]++
  return counts
}

const worstOf = (sentences: readonly Sentence[], patterns: readonly Pattern[]): readonly string[] =>
  sentences
    .filter((s) => patterns.length === 0 || patterns.some((p) => s.hits.includes(p)))
    .sort((a, b) => b.hits.length - a.hits.length || b.words - a.words)
    .slice(0, WORST)
    .map((s) => `  ${s.file} [${s.hits.join(', ')}] ${s.text}`)

interface Excess {
  readonly says: string
  readonly patterns: readonly Pattern[]
}

/** Limits in percent that these sentences exceed, and the mean length. */
const overLimits = (sentences: readonly Sentence[]): readonly Excess[] => {
  const counts = countsOf(sentences)
  const shares = PATTERNS.map((p) => ({ p, share: (100 * counts[p]) / sentences.length, limit: LIMIT_PERCENT[p] ?? 100 }))
  const mean = sentences.reduce((sum, s) => sum + s.words, 0) / sentences.length
  return [
    ...shares
      .filter(({ share, limit }) => share > limit)
      .map(({ p, share, limit }) => ({ says: `${p} ${share.toFixed(1)} %, limit ${limit} %`, patterns: [p] })),
    ...(mean > LIMIT_WORDS ? [{ says: `${mean.toFixed(1)} words a sentence, limit ${LIMIT_WORDS}`, patterns: [] }] : []),
  ]
}

const overCeiling = (sentences: readonly Sentence[], ceiling: Counts): readonly Excess[] => {
  const counts = countsOf(sentences)
  return PATTERNS.filter((p) => counts[p] > ceiling[p]).map((p) => ({
    says: `${counts[p]} sentences match '${p}', limit ${ceiling[p]} (${CEILINGS})`,
    patterns: [p],
  }))
}

const ceilingsOf = (root: string): Ceilings | undefined => {
  const file = path.join(root, CEILINGS)
  return fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : undefined
}

/** A code folder without a ceiling, such as a new one, has the limits of pages. */
export const wordingProblems = (root: string): readonly string[] => {
  const ceilings = ceilingsOf(root) ?? {}
  return [...sentencesByFolder(root)].flatMap(([folder, sentences]) => {
    const ceiling = isPages(folder) ? undefined : ceilings[folder]
    const excess = ceiling ? overCeiling(sentences, ceiling) : sentences.length > 0 ? overLimits(sentences) : []
    if (excess.length === 0) return []
    const patterns = [...new Set(excess.flatMap((e) => e.patterns))]
    return [`${folder}: ${excess.map((e) => e.says).join('; ')}`, ...worstOf(sentences, patterns)]
  })
}

/** Lowers every ceiling to the present count and drops folders that are gone. Writes all present counts if there is no file yet. */
export const update = (root: string): void => {
  const old = ceilingsOf(root)
  const rows = [...sentencesByFolder(root)]
    .filter(([folder]) => !isPages(folder) && (!old || old[folder]))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([folder, sentences]) => {
      const counts = countsOf(sentences)
      const lower = PATTERNS.map((p) => `"${p}": ${Math.min(counts[p], old?.[folder]?.[p] ?? counts[p])}`)
      return `  "${folder}": { ${lower.join(', ')} }`
    })
  fs.mkdirSync(path.dirname(path.join(root, CEILINGS)), { recursive: true })
  fs.writeFileSync(path.join(root, CEILINGS), `{\n${rows.join(',\n')}\n}\n`)
}

if (require.main === module) {
  const root = path.dirname(__dirname)
  if (process.argv.includes('--update')) update(root)
  const problems = wordingProblems(root)
  for (const problem of problems) console.error(problem)
  console.error(
    problems.length === 0 ? 'wording: fine' : 'wording: too many; docs/glossary.md and CONTRIBUTING.md have the rules',
  )
  process.exitCode = problems.length === 0 ? 0 : 1
}
