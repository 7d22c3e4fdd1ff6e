// timeout 400
// The examples run as their first lines say, type-checking on; a changed model does not get past it.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const root = join(__dirname, '../..')
const run = (file: string) =>
  spawnSync(process.execPath, [join(root, 'node_modules/ts-node/dist/bin.js'), join('examples', file)], {
    cwd: root,
    encoding: 'utf8',
  })

const expected: readonly (readonly [file: string, says: RegExp])[] = [
  ['own-model.ts', /(\d+\.\d{4} ){9}\d+\.\d{4}\n$/],
  [
    'custom-block.ts',
    /^mix\.1\.filter: \[1, 32, 96, 128\], to be tiled along B, H, W\nstem to pool: H, W\nhead to head: \n(\d+\.\d{4} ?){3}\n$/,
  ],
  ['plan-module.ts', /^tiled: \d+ segments, \d+ MiB at the peak\n(\d+\.\d{4} ?){2}\n$/],
]
for (const [file, says] of expected)
  test(`${file} type-checks and runs`, () => {
    const { status, stdout, stderr } = run(file)
    assert.is(status, 0, stderr)
    assert.match(stdout, says)
  })

test('a model that changed since its plan was staged does not compile', () => {
  const at = (name: string): string => join(root, 'examples', name)
  const changed = readFileSync(at('slides.ts'), 'utf8').replace("'conv3', 16, 3", "'conv3', 16, 5")
  const pair = readFileSync(at('plan-module.ts'), 'utf8').replace("'./slides'", "'./changed-slides'")
  writeFileSync(at('changed-slides.ts'), changed)
  writeFileSync(at('changed-pair.ts'), pair)
  try {
    const { status, stderr } = run('changed-pair.ts')
    assert.is(status, 1)
    assert.match(stderr, "stale plan: 'conv3' (conv2d) has changed since it was staged; stage again")
  } finally {
    rmSync(at('changed-slides.ts'))
    rmSync(at('changed-pair.ts'))
  }
})

test.run()
