// Scratch checkouts for the tests of the house. In: files by name. Out: a folder that holds them, gone when the test ends.
import * as fs from 'node:fs'
import * as os from 'node:os'
import * as path from 'node:path'

export const ROOT = path.resolve(__dirname, '..', '..')

export const withFiles = async <A>(
  files: Readonly<Record<string, string>>,
  use: (root: string) => A | Promise<A>,
): Promise<A> => {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-house-'))
  try {
    for (const [name, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true })
      fs.writeFileSync(path.join(root, name), text)
    }
    return await use(root)
  } finally {
    fs.rmSync(root, { recursive: true, force: true })
  }
}
