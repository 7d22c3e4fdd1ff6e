// The Python package `spillway-export`: it has the product's version and licence. Its own tests need PyTorch (python/spillway-export/tests).
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { version } from '../../src/files/version'

const root = join(__dirname, '../..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

test('the Python package has the version of the product', () => {
  assert.is(/^version = "(.+)"$/m.exec(read('python/spillway-export/pyproject.toml'))?.[1], version())
})

test('the Python package has the licence of the product', () => {
  assert.is(read('python/spillway-export/LICENSE'), read('LICENSE'))
})

test.run()
