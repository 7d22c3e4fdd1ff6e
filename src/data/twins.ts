// Equal samples of two data sets, and equal images with different labels. In: data. Out: counts, with an example. Invariant: a file is read only if
// another one has its size, and whole only if the beginnings are equal, too. Worked example: of 100 files, two have 5120 bytes; only these are read.
import { createHash } from 'node:crypto'
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import * as E from 'fp-ts/Either'
import type { Graph } from '../../staging/graph/graph'
import { attempt } from '../errors/exceptions'
import { openData } from '../files/samples'
import { statAt } from '../files/whole'
import type { Data, DataSet } from './data'
import { openImages } from './images'
import { chosen } from './order'

/** At most this number of files is read, evenly spread: folders may have millions. */
const MOST_READ = 4096
/** The sizes of more files take seconds on a network disk. */
const MOST_FILES = 100_000
const BEGINNING_BYTES = 4096

const beginningOf = (file: string): Buffer => {
  const fd = openSync(file, 'r')
  try {
    const bytes = Buffer.alloc(BEGINNING_BYTES)
    return bytes.subarray(0, readSync(fd, bytes, 0, BEGINNING_BYTES, 0))
  } finally {
    closeSync(fd)
  }
}

/** Keys that equal files share, in the order of their cost; undefined for files that cannot be read. */
const KEYS: readonly ((file: string) => string | undefined)[] = [
  (file) => attempt(() => statAt(file)?.size.toString()),
  (file) => attempt(() => digestOf(beginningOf(file))),
  (file) => attempt(() => digestOf(readFileSync(file))),
]
const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

interface Keyed {
  readonly file: string
  readonly key: string
}
const keyed = (files: readonly Keyed[], keyOf: (file: string) => string | undefined): readonly Keyed[] =>
  files.flatMap(({ file, key }) => {
    const next = keyOf(file)
    return next === undefined ? [] : [{ file, key: `${key} ${next}` }]
  })
const unkeyed = (files: readonly string[]): readonly Keyed[] => files.map((file) => ({ file, key: '' }))

const spread = <A>(list: readonly A[], most: number): readonly A[] => {
  const every = Math.ceil(list.length / most)
  return every <= 1 ? list : list.filter((_, i) => i % every === 0)
}

export interface Twins {
  readonly count: number
  readonly of: number
  readonly example?: readonly [string, string]
}

/** The files of `held` that have the bytes of a file of `used`. */
export const twinsOf = (held: readonly string[], used: readonly string[]): Twins => {
  const compared = used.length > MOST_FILES ? [] : spread(held, MOST_READ)
  let [a, b] = [unkeyed(compared), unkeyed(compared.length > 0 ? used : [])]
  for (const keyOf of KEYS) {
    const [inA, inB] = [keyed(a, keyOf), keyed(b, keyOf)]
    const [keysA, keysB] = [inA, inB].map((all) => new Set(all.map((f) => f.key)))
    a = inA.filter((f) => keysB!.has(f.key))
    b = spread(
      inB.filter((f) => keysA!.has(f.key)),
      MOST_READ,
    )
  }
  const found = new Map(b.map((f) => [f.key, f.file]))
  const example = a.flatMap(({ file, key }): readonly (readonly [string, string])[] => {
    const twin = found.get(key)
    return twin === undefined ? [] : [[file, twin]]
  })[0]
  return { count: a.length, of: compared.length, ...(example ? { example } : {}) }
}

// ---------------------------------------------------------------- data

const isSame = (a: DataSet, b: DataSet): boolean =>
  a === b || (a.kind === b.kind && 'path' in a && 'path' in b && resolve(a.path) === resolve(b.path))

/** The images of a data set that its parts contain. */
const imagesIn = ({ set, parts }: Data): readonly { readonly image: string; readonly label?: number }[] => {
  if (set.kind !== 'images') return []
  const list = openImages(set.path, undefined, { damaged: set.damaged })
  const samples = E.isRight(list) ? list.right.samples : []
  const kept = chosen(samples.length, parts)
  return E.isRight(kept) ? Array.from(kept.right, (i) => samples[i]!) : []
}

/** The files of inputs: images, or arrays with any number of samples. */
const inputsIn = (data: Data, graph: Graph): readonly string[] => {
  const { set, parts } = data
  if (set.kind === 'images') return imagesIn(data).map((s) => s.image)
  // A part of a file has no bytes of its own.
  if (set.kind !== 'files' || parts.length > 0) return []
  const found = openData(set.path, graph, set.layout, 'of any size')
  return E.isRight(found) ? [...new Set([...found.right.values()][0]!.map((f) => f.path))] : []
}

const NONE: Twins = { count: 0, of: 0 }

/** The common samples of two parts of one data set. */
const commonOf = (held: Data, used: Data): Twins => {
  const { set } = used
  if (used.parts.length === 0 || isDeepStrictEqual(held.parts, used.parts)) return { count: 1, of: 1 }
  if (set.kind !== 'own') return NONE
  const [a, b] = [chosen(set.length, held.parts), chosen(set.length, used.parts)]
  if (E.isLeft(a) || E.isLeft(b)) return NONE
  const all = new Set(b.right)
  return { count: a.right.filter((i) => all.has(i)).length, of: a.right.length }
}

/** The samples of `held` that are in `used`, too: by the bytes of their files, or by their numbers in one data set. */
export const commonSamples = (held: Data, used: Data, graph: Graph): Twins => {
  const isOfImages = held.set.kind === 'images' && used.set.kind === 'images'
  return isSame(held.set, used.set) && !isOfImages ? commonOf(held, used) : twinsOf(inputsIn(held, graph), inputsIn(used, graph))
}

/** Two equal images with different labels. */
export const contradiction = (data: Data): readonly [string, string] | undefined => {
  const images = imagesIn(data)
  if (images.length > MOST_READ || images[0]?.label === undefined) return undefined
  const labels = new Map(images.map((s) => [s.image, s.label]))
  let files = unkeyed([...labels.keys()])
  for (const keyOf of KEYS) {
    const now = keyed(files, keyOf)
    const found = new Map<string, Set<number | undefined>>()
    for (const { file, key } of now) found.set(key, (found.get(key) ?? new Set()).add(labels.get(file)))
    files = now.filter(({ key }) => found.get(key)!.size > 1)
  }
  const [first] = files
  const second = files.find((f) => f.key === first!.key && labels.get(f.file) !== labels.get(first!.file))
  return first && second ? [first.file, second.file] : undefined
}
