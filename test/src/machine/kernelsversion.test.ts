// The version of the cuda device's kernels changes with their code, not with comments, places or builds.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { kernelsVersion } from '../../../src/machine/kernelsversion'

test('a comment keeps the version, code changes it', () => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-kernels-'))
  try {
    cpSync(join(__dirname, '../../../native/cuda'), join(root, 'native/cuda'), { recursive: true })
    const own = kernelsVersion()
    assert.is(kernelsVersion(root), own)
    const file = join(root, 'native/cuda/kernels/sums.hpp')
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, `// another comment\n${text}`)
    assert.is(kernelsVersion(root), own)
    writeFileSync(file, `${text}\nconstexpr int another = 1;\n`)
    assert.is.not(kernelsVersion(root), own)
  } finally {
    rmSync(root, { recursive: true })
  }
})

test.run()
