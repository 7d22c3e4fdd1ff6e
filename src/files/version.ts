// This package: its folder and its version. In: package.json, above the sources or above dist/.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export const packageFolder = (): string => {
  let folder = __dirname
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder)
  return folder
}

export const version = (): string =>
  (JSON.parse(readFileSync(join(packageFolder(), 'package.json'), 'utf8')) as { version: string }).version
