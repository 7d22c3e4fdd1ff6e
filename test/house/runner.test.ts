// The test runner must not be fooled: silence, zero tests, crashes, time-outs and forgotten `.only` are failures.
import { spawnSync } from 'node:child_process'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

const UVU = JSON.stringify(require.resolve('uvu'))
const HEAD = `const { test } = require(${UVU})\n`
const passing = (n: number): string => `${HEAD}${"test('t', () => {})\n".repeat(n)}test.run()\n`

interface Outcome {
  readonly status: number | null
  readonly last: string
  readonly text: string
}

const run = (files: Readonly<Record<string, string>>, ...args: string[]): Promise<Outcome> =>
  withFiles({ 'test/.keep': '', ...files }, (root) => {
    const runner = path.join(ROOT, 'scripts', 'test.js')
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [runner, '--root', root, '--no-native', '--no-setup', ...args],
      {
        encoding: 'utf8',
        timeout: 60_000,
      },
    )
    return { status, last: stdout.trimEnd().split('\n').at(-1) ?? '', text: stdout + stderr }
  })

test('counts the tests of all files', async () => {
  const outcome = await run({ 'test/a.test.ts': passing(2), 'test/deep/b.test.ts': passing(3), 'test/not-a-test.ts': 'throw 1' })
  assert.is(outcome.last, '5 passed, 0 failed', outcome.text)
  assert.is(outcome.status, 0)
})

test('a failing test fails, the others count', async () => {
  const outcome = await run({
    'test/a.test.ts': `${HEAD}test('t', () => {})\ntest('bad', () => { throw new Error('boom') })\ntest.run()\n`,
  })
  assert.is(outcome.last, '1 passed, 1 failed', outcome.text)
  assert.is(outcome.status, 1)
  assert.match(outcome.text, 'boom')
})

const FAILING: readonly [why: string, text: string, words: string][] = [
  ['a missing test.run()', `${HEAD}test('t', () => {})\n`, 'ran no tests'],
  ['no tests at all', `${HEAD}test.run()\n`, 'ran zero tests'],
  ['an exception before the tests', `throw new Error('early')\n`, 'early'],
  ['an exit in the middle', `${HEAD}test('t', () => process.exit(0))\ntest.run()\n`, 'Exiting early'],
  [
    'a crash after the tests',
    `${passing(1)}process.on('exit', () => process.kill(process.pid, 'SIGKILL'))\n`,
    'ended by SIGKILL',
  ],
  ['an exit code after the tests', `${passing(1)}process.on('exit', () => process.exit(3))\n`, 'exit code 3'],
  ['a forgotten .only', `${HEAD}test('t', () => {})\n${'test'}.only('u', () => {})\ntest.run()\n`, 'forgotten .only'],
  [
    'a time-out',
    `// timeout 1\n${HEAD}test('t', () => new Promise(() => setInterval(() => {}, 1000)))\ntest.run()\n`,
    'longer than 1 s',
  ],
]

for (const [why, text, words] of FAILING) {
  test(`fails: ${why}`, async () => {
    const outcome = await run({ 'test/a.test.ts': text })
    assert.is(outcome.status, 1, outcome.text)
    assert.match(outcome.last, /^\d+ passed, 1 failed/)
    assert.match(outcome.text, words)
  })
}

test('fails when there is no test file', async () => {
  const outcome = await run({})
  assert.is(outcome.status, 1)
  assert.is(outcome.last, '0 passed, 1 failed')
})

test('types are stripped, not checked, and a changed file is translated anew', async () => {
  const file = (n: number): string =>
    `import { test } from ${UVU}\nconst x: string = ${n} as never\ntest('t', () => { if ((x as unknown) !== ${n}) throw new Error() })\ntest.run()\n`
  for (const n of [1, 2]) assert.is((await run({ 'test/a.test.ts': file(n) })).last, '1 passed, 0 failed')
})

test('a stack names the line of the source', async () => {
  const outcome = await run({
    'test/a.test.ts': `${HEAD}interface Gone { x: number }\n\ntest('t', () => {\n  throw new Error('here')\n})\ntest.run()\n`,
  })
  assert.match(outcome.text, /a\.test\.ts:5:/)
})

test('a pattern chooses files; one that matches nothing fails', async () => {
  const files = { 'test/a.test.ts': passing(1), 'test/b.test.ts': passing(2) }
  assert.is((await run(files, 'b.test')).last, '2 passed, 0 failed')
  for (const patterns of [['c.test'], ['a.test', 'c.test']]) {
    const nothing = await run(files, ...patterns)
    assert.is(nothing.status, 1)
    assert.match(nothing.text, 'no test matches c.test')
  }
})

test('a pattern chooses tests by their names, in any file, and those named after files of a folder', async () => {
  const named = (...names: string[]): string =>
    `${HEAD}${names.map((name) => `test('${name}', () => {})\n`).join('')}test.run()\n`
  const files = {
    'staging/ops/batchnorm.ts': '',
    'test/a.test.ts': named('Batch norm in tiles', 'ReLU'),
    'test/b.test.ts': named('ReLU alone'),
    'test/c.test.ts': `// each of staging/ops\n${HEAD}for (const n of ['batchnorm', 'relu']) test(n, () => {})\ntest.run()\n`,
  }
  assert.is((await run(files, 'batchNorm')).last, '2 passed, 0 failed')
  assert.is((await run(files, 'relu')).last, '2 passed, 0 failed')
})

test('a file that no test is named after is shown by the nearest tests that import it', async () => {
  const files = {
    'staging/memory/deep.ts': 'export const deep = 1\n',
    'staging/memory/door.ts': "export * from './deep'\n",
    'test/memory/a.test.ts': `require('../../staging/memory/door')\n${passing(3)}`,
    'test/sim/b.test.ts': `require('../../staging/memory/door')\n${passing(5)}`,
  }
  assert.is((await run(files, 'deep')).last, '3 passed, 0 failed')
})

test('a wrong option is refused', async () => {
  const outcome = await run({ 'test/a.test.ts': passing(1) }, '--frobnicate')
  assert.is(outcome.status, 2)
  assert.match(outcome.text, 'unknown option --frobnicate')
})

test('serial files run alone', async () => {
  const beside = (mark: string): string => `${mark}
const fs = require('node:fs')
${HEAD}test('alone', async () => {
  const open = () => fs.readdirSync('.').filter((name) => name.endsWith('.open')).length
  fs.writeFileSync(process.pid + '.open', '')
  await new Promise((done) => setTimeout(done, 300))
  const seen = open()
  fs.rmSync(process.pid + '.open')
  if (seen !== 1) throw new Error(seen + ' at once')
})
test.run()
`
  const outcome = await run({
    'test/a.test.ts': beside('// serial'),
    'test/b.test.ts': beside('// serial'),
    'test/c.test.ts': passing(1),
  })
  assert.is(outcome.last, '3 passed, 0 failed', outcome.text)
})

test('what a test leaves running is ended with it', async () => {
  const text = `${HEAD}const { spawn } = require('node:child_process')
test('t', () => { spawn('sleep', ['45'], { stdio: 'inherit' }).unref() })
test.run()
`
  const started = Date.now()
  const outcome = await run({ 'test/a.test.ts': text })
  assert.is(outcome.last, '1 passed, 0 failed', outcome.text)
  assert.ok(Date.now() - started < 30_000, 'the runner waited for the child')
})

test.run()
