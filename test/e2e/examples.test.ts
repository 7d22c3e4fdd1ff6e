// own process
// timeout 400
// The examples run as their first lines say, type-checking on; a changed model does not get past it.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL, fewOrAll, fullTest } from '../full'

const root = join(__dirname, '../..')
const run = (file: string) =>
  spawnSync(process.execPath, [join(root, 'node_modules/ts-node/dist/bin.js'), join('examples', file)], {
    cwd: root,
    encoding: 'utf8',
  })

const runUnchecked = (file: string) =>
  spawnSync(process.execPath, ['-r', join(root, 'scripts/testing/typescript.js'), join('examples', file)], {
    cwd: root,
    encoding: 'utf8',
  })

const expected: readonly (readonly [file: string, says: RegExp])[] = [
  ['plan-module.ts', /^tiled: \d+ segments, \d+ MiB at the peak\n(\d+\.\d{4} ?){2}\n$/],
  ['clam.ts', /^(\d\.\d{4} ?){8}, \d+ MiB\n6 pictures in .*attention\n$/],
  ['streaming-cnn.ts', /^(\d\.\d{4} ?){8}, \d+ MiB\n$/],
  ['own-model.ts', /(\d+\.\d{4} ){9}\d+\.\d{4}\n$/],
  [
    'custom-block.ts',
    /^mix\.1\.filter: \[1, 32, 96, 128\], to be tiled along B, H, W\nstem to pool: H, W\nhead to head: \n(\d+\.\d{4} ?){3}\n$/,
  ],
]
for (const [file, says] of fewOrAll(expected.slice(0, 1), expected))
  test(`${file} type-checks and runs`, () => {
    const { status, stdout, stderr } = run(file)
    assert.is(status, 0, stderr)
    assert.match(stdout, says)
  })

fullTest('a model that changed since its plan was staged does not compile', () => {
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

/** The files that are there while a test runs. */
const withFiles = (files: Readonly<Record<string, string>>, then: () => void): void => {
  const at = Object.entries(files).map(([name, text]) => [join(root, 'examples', name), text] as const)
  for (const [file, text] of at) writeFileSync(file, text)
  try {
    then()
  } finally {
    for (const [file] of at) rmSync(file)
  }
}

test('a step runs by the plan that was emitted for it to the bits of one staged now; a changed one does not compile', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-emit-'))
  const module = join(folder, 'plan.ts')
  const asked = ['plan', 'examples/own-step.ts', '--machine', 'ref', '--strategy', 'checkpoint:sqrt', '--budget', '12MiB']
  const args = [join(root, 'scripts/spillway.js'), ...asked, '--emit', module]
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  assert.is(status, 0, stderr)
  const text = readFileSync(module, 'utf8').replace(/from '[^']*own-step'/, "from './emitted-step'")
  const program = `import { mib, run, stage, train } from 'spillway'
import own from './emitted-step'
import plan from './emitted-plan'
const staged = stage(own, { machine: 'ref', strategy: 'checkpoint:sqrt', budget: mib(12) })
Promise.all([run(own, plan, { steps: 3 }), train(own, staged, { steps: 3 })]).then((rs) =>
  console.log(rs.map((r) => [r.weightsSha256, ...r.losses].join(' ')).join('\\n')))
`
  const step = readFileSync(join(root, 'examples/own-step.ts'), 'utf8').replaceAll('../src/index', 'spillway')
  const files = { 'emitted-plan.ts': text, 'emitted-run.ts': program, 'emitted-step.ts': step }
  withFiles(files, () => {
    const ran = runUnchecked('emitted-run.ts')
    assert.is(ran.status, 0, ran.stderr)
    const [byModule, staged] = ran.stdout.trim().split('\n')
    assert.match(byModule!, /^[0-9a-f]{64}( \d\S+){3}$/)
    assert.is(byModule, staged)
  })
  // test/types/stepmodules.test.ts has stale plans of steps refused by types.
  if (!FULL) return rmSync(folder, { recursive: true })
  withFiles({ ...files, 'emitted-step.ts': step.replace("conv2d('d2', 8, 4", "conv2d('d2', 6, 4") }, () => {
    const ran = run('emitted-run.ts')
    assert.is(ran.status, 1)
    assert.match(ran.stderr, "stale plan: 'd2' (conv2d) has changed since it was staged; stage again")
  })
  rmSync(folder, { recursive: true })
})

test.run()
