// The name of every source file finds tests: `npm test -- NAME` runs something for it.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT } from './scratch'
import { gateTest } from '../full'

const { finder } = require('../../scripts/testing/discover') as {
  finder: (root: string) => { find: (pattern: string) => ReadonlyMap<string, 'all' | 'named'> }
}
const FOLDERS = ['staging', 'dsl', 'src', 'models', 'native/ops', 'native/cpu', 'native/ref', 'native/plan', 'native/runtime']
const SOURCE = /\.(ts|cpp)$/

gateTest('each source file of the compiler, the surface and the devices is found by its name', () => {
  const { find } = finder(ROOT)
  const files = FOLDERS.flatMap((folder) =>
    fs
      .readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => SOURCE.test(name))
      .map((name) => path.join(folder, name)),
  )
  const unseen = files.filter((file) => find(path.basename(file).replace(SOURCE, '')).size === 0)
  assert.equal(unseen, [])
})

test('an operator is found where it is tested: by name, in every device, natively', () => {
  const { find } = finder(ROOT)
  const found = find('sigmoid')
  for (const program of ['compare', 'gradient', 'tiles']) assert.is(found.get(`test/native/kernels_${program}.cpp`), 'named')
  assert.is(found.get('test/conformance/operators.test.ts'), 'named')
})

test('marks are in the first lines of a file', () => {
  const { marksOf } = require('../../scripts/testing/discover') as { readonly marksOf: (text: string) => object }
  const unmarked = { serial: false, ownProcess: false, gate: false, full: false, timeoutSeconds: 180, eachOf: [] }
  assert.equal(marksOf('// words\n'), unmarked)
  assert.equal(marksOf('// gate\n'), { ...unmarked, gate: true })
  assert.equal(marksOf('// full\n// own process\n// timeout 7\n'), {
    ...unmarked,
    full: true,
    ownProcess: true,
    timeoutSeconds: 7,
  })
  assert.equal(marksOf(`${'\n'.repeat(10)}// full\n`), unmarked)
})

test.run()
