// The version of the cuda device's kernels: a digest of its sources, without comments. In: native/cuda of this package. Out: the same text for every
// build of equal code, so that measured times outlast a build. Invariant: a change of code that could change a time changes the digest.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageFolder } from '../files/version'

const withoutComments = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.replace(/(^|\s)\/\/.*$/, '').trim())
    .filter((line) => line !== '')
    .join('\n')

export const kernelsVersion = (root = packageFolder()): string => {
  const folder = join(root, 'native', 'cuda')
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(cpp|hpp|cu)$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort()
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file.slice(folder.length)}\0${withoutComments(readFileSync(file, 'utf8'))}\0`)
  return hash.digest('hex').slice(0, 16)
}
