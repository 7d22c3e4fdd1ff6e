// The faults that scripts/cuda/faults.js plants: each text that one replaces is in its source, so that none is skipped in silence.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT } from './scratch'

interface Fault {
  readonly name: string
  readonly file: string
  readonly from: string
}
const { FAULTS, SOURCES }: { readonly FAULTS: readonly Fault[]; readonly SOURCES: string } = require(
  path.join(ROOT, 'scripts/cuda/faults.js'),
)

test('faults: every text to replace is in its source', () => {
  assert.ok(FAULTS.length > 40)
  const absent = FAULTS.filter(({ file, from }) => !fs.readFileSync(path.join(SOURCES, file), 'utf8').includes(from))
  assert.equal(
    absent.map(({ name }) => name),
    [],
  )
})

test.run()
