// Measures how comments and pages are worded. In: the text of one file. Out: its sentences, each with its words and the patterns that it
// matches. Sentences are found by regular expressions, so single results can be wrong; the totals of a folder are reliable.

export interface Sentence {
  readonly file: string
  readonly text: string
  readonly words: number
  readonly hits: readonly Pattern[]
}

export type Pattern = 'what' | 'first' | 'many' | 'long'

export const PATTERNS: readonly Pattern[] = ['what', 'first', 'many', 'long']

const LONG = 30
const FINDS: Readonly<Record<Exclude<Pattern, 'long'>, RegExp>> = {
  // "what", "who" or "whether" in place of a noun
  what: /\b(what|whatever|whoever)\b|(?<=[,;:] )(who|whether)\b/i,
  // a sentence that opens with such a clause, or with a genitive
  first: /^(What|Whatever|Whether|Where|Wherever|Who|Whoever|Of)\b/,
  // a number or limit without its name
  many: /\bso (many|much|few)\b|\bbut for\b|\b(of|in|by|from) which\b|\bas often as\b/i,
}

const SKIPPED = /(^|\/)(node_modules|gen|external|vendor|fixtures|dist|build|results)\/|tables?\.ts$|scratch\.ts$/
const CODE = /\.(ts|js|cpp|hpp|h|cc|c|cu|cuh|py)$/
const NOT_PROSE = /[={}<>]{2,}|Copyright|License|http/

const isPage = (name: string): boolean => name.endsWith('.md')

export const isMeasured = (name: string): boolean => !SKIPPED.test(name) && (isPage(name) || CODE.test(name))

/** The group of a file: a page at the root is its own group; src, staging and native have one per subfolder. */
export const folderOf = (name: string): string => {
  const parts = name.split('/')
  if (parts.length === 1) return isPage(name) ? name : '.'
  return /^(src|staging|native)$/.test(parts[0]!) && parts.length > 2 ? parts.slice(0, 2).join('/') : parts[0]!
}

const count = (text: string): number => (text.match(/\S+/g) ?? []).length

const comments = (name: string, text: string): readonly string[] => {
  const blocksOf = (lines: RegExp, mark: RegExp, spans: RegExp, inside?: RegExp): readonly string[] => [
    ...[...text.matchAll(lines)].map((m) => m[0].replace(mark, '')),
    ...[...text.matchAll(spans)].map((m) => (inside ? m[1]!.replace(inside, '') : m[1]!)),
  ]
  return name.endsWith('.py')
    ? blocksOf(/(?:^\s*#(?!!).*\n?)+/gm, /^\s*#\s?/gm, /"""(.*?)"""/gs)
    : blocksOf(/(?:^\s*\/\/.*\n?)+/gm, /^\s*\/\/\/?\s?/gm, /\/\*\*?(.*?)\*\//gs, /^\s*\*\s?/gm)
}

/** Paragraphs and list items of a page, and the cells of its tables that have six words or more. */
const prose = (page: string): readonly string[] =>
  page
    .replace(/^```.*?^```/gms, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)/)
    .filter((block) => !block.trimStart().startsWith('#'))
    .flatMap((block) =>
      block.trimStart().startsWith('|')
        ? block.split('|').filter((cell) => count(cell) >= 6)
        : [block.replace(/^\s*(?:[-*]|\d+\.) +/, '')],
    )
    .map((block) => block.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1'))

const sentencesOf = (block: string, page: boolean): readonly string[] =>
  block
    .replace(/@\w+.*/g, '')
    .replace(/`[^`]*`/g, 'CODE')
    .replace(/\s+/g, ' ')
    .trim()
    .split(/(?<=[.!?:])\s+(?=[A-Z'"*])/)
    .map((s) => s.trim().replace(/^\*+|\*+$/g, ''))
    .filter((s) => count(s) >= 4 && (page || /^[A-Z]/.test(s)) && !s.endsWith('?') && !NOT_PROSE.test(s))

export const measure = (file: string, text: string): readonly Sentence[] =>
  (isPage(file) ? prose(text) : comments(file, text)).flatMap((block) =>
    sentencesOf(block, isPage(file)).map((sentence) => {
      const words = count(sentence)
      const hits = PATTERNS.filter((p) => (p === 'long' ? words > LONG : FINDS[p].test(sentence)))
      return { file, text: sentence, words, hits }
    }),
  )
