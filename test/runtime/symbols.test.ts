// Symbols of the addon. Invariant: a name of an anonymous namespace belongs to its file. GCC 14 emits weak symbols for a template
// over a reference to such a name. The linker then joins functions of two files.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const CORE = join(__dirname, '..', '..', 'build', 'addon', 'libspillway_core.a')

test('no weak symbol has a name of an anonymous namespace', () => {
  if (!existsSync(CORE) || spawnSync('nm', ['--version']).error)
    return console.log('skipped: this addon was not built here, or nm is missing')
  const { stdout } = spawnSync('nm', [CORE], { encoding: 'utf8', maxBuffer: 1 << 28 })
  assert.match(stdout, /conv_transpose2d/)
  assert.equal(
    stdout.split('\n').filter((line) => / [VWu] \S*_GLOBAL__N_1/.test(line)),
    [],
  )
})

test.run()
