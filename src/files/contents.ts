// The entries of a folder, in words. In: a folder without samples. Out: counts by kind, and the likely fix. Invariant: only names are read.
// Worked example: two .mat files and an empty folder `raw` are "2 .mat files and 1 folder (raw)".
import { type Dirent, readdirSync } from 'node:fs'
import { extname, join } from 'node:path'
import { attempt } from '../errors/exceptions'
import { statAt } from './whole'

const MOST_FOLDERS = 5
const LIST = /\.(csv|json)$/i

const counted = (n: number, kind: string): string => `${n} ${kind}${n === 1 ? '' : 's'}`

const isFolderIn = (folder: string, e: Dirent): boolean =>
  e.isDirectory() || (e.isSymbolicLink() && statAt(join(folder, e.name))?.isDirectory() === true)

const joined = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`

/** Visible folders and files. */
const entriesOf = (folder: string): { readonly folders: readonly string[]; readonly files: readonly string[] } => {
  const seen = readdirSync(folder, { withFileTypes: true }).filter((e) => !e.name.startsWith('.'))
  const names = (isFolder: boolean): readonly string[] =>
    seen
      .filter((e) => isFolderIn(folder, e) === isFolder)
      .map((e) => e.name)
      .sort()
  return { folders: names(true), files: names(false) }
}

/** The entries of a folder, counted by kind: `2 .mat files and 1 folder (raw)`; empty for an empty folder. */
export const contentsText = (folder: string): string => {
  const { folders, files } = entriesOf(folder)
  const kinds = new Map<string, number>()
  for (const name of files) {
    const kind = extname(name).toLowerCase()
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  }
  const named = folders.length <= MOST_FOLDERS ? folders.join(', ') : `${folders.slice(0, MOST_FOLDERS).join(', ')}, …`
  const words = [
    ...[...kinds].map(([kind, n]) => counted(n, `${kind === '' ? 'unnamed' : kind} file`)),
    ...(folders.length > 0 ? [`${counted(folders.length, 'folder')} (${named})`] : []),
  ]
  return joined(words)
}

/** The reason for a refusal: the entries of a folder, and the kind that is missing. */
export const lackText = (folder: string, missing: string): string => {
  const held = contentsText(folder)
  return held === '' ? 'it is empty' : `it holds ${held}, but no ${missing}`
}

/** The likely fix for a folder without samples. */
export const contentsFix = (folder: string): string => {
  const { folders, files } = entriesOf(folder)
  const list = files.find((name) => LIST.test(name))
  if (list !== undefined) return `to use the list, name it: ${join(folder, list)}`
  if (folders.length === 0 && files.length === 0) return 'check the path'
  const full = folders.find((name) => (attempt(() => entriesOf(join(folder, name)).folders.length) ?? 0) > 0)
  if (full !== undefined) return `name the folder of the samples, perhaps ${join(folder, full)}`
  return folders.length > 0 && files.length === 0
    ? 'fill the folders with images'
    : 'convert the files to PNG, JPEG, WebP, TIFF, AVIF, GIF or .npy'
}
