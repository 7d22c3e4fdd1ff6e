// The version of this package. In: package.json, above the sources or above dist/. Out: its version.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const version = (): string => {
  let folder = __dirname
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder)
  return (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }).version
}
