// Lists of images in files. In: the text of a .csv or .json list. Out: its entries, each with its place in the text. Invariant: a label is the
// text of the list; `classes.ts` makes numbers of labels. Worked example: "image,label\na.png, ant" is one entry, at line 2, with label 'ant'.
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { isCoco } from './coco'

/** A sample as a folder or a list names it. */
export interface NamedSample {
  readonly image: string
  readonly label?: string
  readonly mask?: string
  /** The slides with the same one are one sample; only lists of slides have it. */
  readonly bag?: string
}

export interface Entries {
  readonly samples: readonly NamedSample[]
  /** Place of each sample in the list, e.g. `line 3`. */
  readonly at: readonly string[]
}

export const LIST = /\.(csv|json)$/i

export interface Row {
  readonly at: string
  readonly fields: Readonly<Record<string, unknown>>
}

const FIELD = /(?:^|,)\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]*))/g

/** The fields of a line. A quote that opens a field and does not close it is undefined. */
const fieldsOf = (line: string): readonly (string | undefined)[] =>
  [...line.matchAll(FIELD)].map(([, quoted, plain = '']) =>
    quoted === undefined ? (plain.startsWith('"') ? undefined : plain.trim()) : quoted.replaceAll('""', '"').trim(),
  )

const isRead = (fields: readonly (string | undefined)[]): fields is readonly string[] => !fields.includes(undefined)

const unclosed = (at: string): string => `${at}: a field begins with a quote and does not end with one`

/** The first line names the fields: `faultOf` may refuse it. A field may be in quotes. Empty lines do not count. */
export const csvRows = (
  text: string,
  faultOf: (header: readonly string[]) => string | undefined = () => undefined,
): Either<string, readonly Row[]> => {
  const lines = text.split(/\r?\n/).map((line, i) => ({ line, at: `line ${i + 1}` }))
  const [head, ...rest] = lines.filter(({ line }) => line.trim() !== '').map(({ line, at }) => ({ at, fields: fieldsOf(line) }))
  if (!head) return E.right([])
  const { at, fields: names } = head
  if (!isRead(names)) return E.left(unclosed(at))
  const fault = faultOf(names)
  if (fault !== undefined) return E.left(fault)
  const rows: Row[] = []
  for (const { at, fields } of rest) {
    if (!isRead(fields)) return E.left(unclosed(at))
    if (fields.length !== names.length)
      return E.left(`${at}: the header has ${names.length} fields, but this line has ${fields.length}`)
    rows.push({ at, fields: Object.fromEntries(names.map((name, i) => [name, fields[i]!])) })
  }
  return E.right(rows)
}

const parsed = (text: string): Either<string, unknown> =>
  E.tryCatch(
    (): unknown => JSON.parse(text),
    (e) => `it is not JSON: ${(e as Error).message}`,
  )

const jsonRows = (rows: unknown): Either<string, readonly Row[]> =>
  Array.isArray(rows) && rows.every((r) => typeof r === 'object' && r !== null)
    ? E.right((rows as readonly Row['fields'][]).map((fields, i) => ({ at: `entry ${i + 1}`, fields })))
    : E.left('it is neither a list of objects with image and label or mask, nor COCO with images, annotations and categories')

const isText = (u: unknown): u is string => typeof u === 'string' && u !== ''
const isGiven = (u: unknown): boolean => u !== undefined && u !== ''
const isLabel = (u: unknown): boolean => isText(u) || typeof u === 'number'

const imageOf = (f: Row['fields']): unknown => f['image'] ?? f['file']

/** The reason why a row is no entry. The first lacking row counts: either all rows have a label, or all have a mask. */
const lackOf = ({ at, fields: f }: Row, ofMasks: boolean): string | undefined => {
  if (!isText(imageOf(f))) return `${at} must have image (or file), the path of an image`
  if (ofMasks) return isText(f['mask']) ? undefined : `${at} must have mask, the path of a mask, as the other entries`
  if (!isGiven(f['label'])) return `${at} has no label; allowed: a name or a number; or a mask in each entry`
  return isLabel(f['label'])
    ? undefined
    : `${at} has a label of type ${f['label'] === null ? 'null' : typeof f['label']}; allowed: a name or a number`
}

const entriesOf = (path: string, rows: readonly Row[]): Either<string, Entries> => {
  const at = (file: unknown): string => resolve(dirname(path), file as string)
  const ofMasks = !rows.every(({ fields }) => isGiven(fields['label'])) && rows.some(({ fields }) => isGiven(fields['mask']))
  const lack = rows.map((row) => lackOf(row, ofMasks)).find((reason) => reason !== undefined)
  if (lack !== undefined) return E.left(lack)
  const samples = rows.map(({ fields: f }) => ({
    image: at(imageOf(f)),
    ...(ofMasks ? { mask: at(f['mask']) } : { label: String(f['label']) }),
    ...(isLabel(f['bag']) ? { bag: String(f['bag']) } : {}),
  }))
  return E.right({ samples, at: rows.map((r) => r.at) })
}

const MOST_HEADER = 80
/** The reason why a header does not name an image, and a label or a mask. */
const headerFault = (header: readonly string[]): string | undefined => {
  const names = (...some: readonly string[]): boolean => some.some((name) => header.includes(name))
  if (names('image', 'file') && names('label', 'mask')) return undefined
  const text = header.join(',')
  const found = text.length > MOST_HEADER ? `${text.slice(0, MOST_HEADER)}…` : text
  return `its first line is '${found}'; allowed: a header with image (or file), and label or mask, such as 'image,label', separated by commas`
}

/** The entries of a list, COCO annotations, or the reason why it is neither. */
export const readList = (path: string): Either<string, Entries | { readonly coco: Readonly<Record<string, unknown>> }> => {
  const text = readFileSync(path, 'utf8').replace(/^\ufeff/, '')
  const entriesIn = (rows: Either<string, readonly Row[]>): Either<string, Entries> =>
    pipe(
      rows,
      E.flatMap((r) => entriesOf(path, r)),
    )
  if (!path.toLowerCase().endsWith('.json')) return entriesIn(csvRows(text, headerFault))
  const json = parsed(text)
  if (E.isLeft(json)) return json
  return isCoco(json.right) ? E.right({ coco: json.right }) : entriesIn(jsonRows(json.right))
}
