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

const fieldsOf = (line: string): readonly string[] =>
  [...line.matchAll(/(?:^|,)\s*(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((m) => (m[1]?.replaceAll('""', '"') ?? m[2] ?? '').trim())

/** The first line names the fields. A field may be in quotes. Empty lines do not count. */
export const csvRows = (text: string): Either<string, readonly Row[]> => {
  const lines = text.split(/\r?\n/).map((line, i) => ({ line, at: `line ${i + 1}` }))
  const [head, ...rows] = lines.filter(({ line }) => line.trim() !== '').map(({ line, at }) => ({ at, fields: fieldsOf(line) }))
  const names = head?.fields ?? []
  const odd = rows.find((r) => r.fields.length !== names.length)
  return odd
    ? E.left(`${odd.at} has ${odd.fields.length} fields, but the header has ${names.length}`)
    : E.right(rows.map(({ at, fields }) => ({ at, fields: Object.fromEntries(names.map((name, i) => [name, fields[i]!])) })))
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
const isLabel = (u: unknown): boolean => isText(u) || typeof u === 'number'

const entriesOf = (path: string, rows: readonly Row[]): Either<string, Entries> => {
  const at = (file: unknown): string => resolve(dirname(path), file as string)
  const ofLabels = rows.every(({ fields }) => fields['label'] !== undefined && fields['label'] !== '')
  const imageOf = (f: Row['fields']): unknown => f['image'] ?? f['file']
  const odd = rows.find(({ fields: f }) => !isText(imageOf(f)) || !(ofLabels ? isLabel(f['label']) : isText(f['mask'])))
  if (odd)
    return E.left(`${odd.at} must have image (or file), and label or mask as the other entries; a label is a name or a number`)
  const samples = rows.map(({ fields: f }) => ({
    image: at(imageOf(f)),
    ...(ofLabels ? { label: String(f['label']) } : { mask: at(f['mask']) }),
    ...(isLabel(f['bag']) ? { bag: String(f['bag']) } : {}),
  }))
  return E.right({ samples, at: rows.map((r) => r.at) })
}

/** The entries of a list, COCO annotations, or the reason why it is neither. */
export const readList = (path: string): Either<string, Entries | { readonly coco: Readonly<Record<string, unknown>> }> => {
  const text = readFileSync(path, 'utf8').replace(/^\ufeff/, '')
  const entriesIn = (rows: Either<string, readonly Row[]>): Either<string, Entries> =>
    pipe(
      rows,
      E.flatMap((r) => entriesOf(path, r)),
    )
  if (!path.toLowerCase().endsWith('.json')) return entriesIn(csvRows(text))
  const json = parsed(text)
  if (E.isLeft(json)) return json
  return isCoco(json.right) ? E.right({ coco: json.right }) : entriesIn(jsonRows(json.right))
}
