// The papers' published values, from papers.json. In: a paper and the name of its values. Out: rows by their heads. Invariant: no number of a paper
// stands anywhere else in the laboratory's code.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Published {
  readonly where: string
  readonly unit: string
  /** Reading error, in the unit. */
  readonly error: number
  readonly head: readonly string[]
  readonly rows: readonly (readonly (string | number | null)[])[]
}
interface Paper {
  readonly title: string
  readonly values: Readonly<Record<string, Published>>
  readonly missing: Readonly<Record<string, string>>
}

const { papers } = JSON.parse(readFileSync(join(__dirname, 'papers.json'), 'utf8')) as {
  readonly papers: Readonly<Record<string, Paper>>
}

export const published = (paper: number, name: string): Published => {
  const found = papers[paper]?.values[name]
  if (!found) throw new Error(`papers.json has no values '${name}' of paper ${paper}`)
  return found
}

/** A number of a row: the row whose first cells are these, at the column with this head; null if there is none. */
export const numberOf = (paper: number, name: string, row: readonly (string | number)[], column: string): number | null => {
  const { head, rows } = published(paper, name)
  const found = rows.find((r) => row.every((c, i) => r[i] === c))?.[head.indexOf(column)]
  return typeof found === 'number' ? found : null
}

/** The figures whose curves are missing, and the values that the text states instead. */
export const missingOf = (paper: number): string => {
  const missing = Object.entries(papers[paper]?.missing ?? {})
  const figures = missing.map(([figure]) => figure).join('; ')
  const stated = missing.flatMap(([, text]) => (text === '' ? [] : [text]))
  return [`The curves of these figures are missing, because their pictures are not at hand: ${figures}.`, ...stated].join(' ')
}
