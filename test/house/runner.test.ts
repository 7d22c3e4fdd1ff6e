// timeout 900
// The test runner must not be fooled: silence, zero tests, crashes, time-outs and forgotten `.only` are failures.
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL, fullTest } from '../full'
import { ROOT, withFiles } from './scratch'

const UVU = JSON.stringify(require.resolve('uvu'))
const HEAD = `const { test } = require(${UVU})\n`
const passing = (n: number): string => `${HEAD}${"test('t', () => {})\n".repeat(n)}test.run()\n`

interface Outcome {
  readonly status: number | null
  readonly last: string
  readonly text: string
}

const lastOf = (text: string): string => text.trimEnd().split('\n').at(-1) ?? ''

/** Without full mode, even if the caller has it. */
const { SPILLWAY_FULL: _, SPILLWAY_GATE: __, ...ENV } = process.env

const runIn = (root: string, ...args: string[]) =>
  spawnSync(process.execPath, [path.join(ROOT, 'scripts', 'test.js'), '--root', root, '--no-native', '--no-setup', ...args], {
    encoding: 'utf8',
    timeout: 120_000,
    env: ENV,
  })

const run = (files: Readonly<Record<string, string>>, ...args: string[]): Promise<Outcome> =>
  withFiles({ 'test/.keep': '', ...files }, (root) => {
    const { status, stdout, stderr } = runIn(root, ...args)
    return { status, last: lastOf(stdout), text: stdout + stderr }
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

test('fails: each of these files', async () => {
  const outcome = await run(Object.fromEntries(FAILING.map(([, text], i) => [`test/${i}.test.ts`, text])))
  assert.is(outcome.status, 1, outcome.text)
  assert.match(outcome.last, new RegExp(`^\\d+ passed, ${FAILING.length} failed`))
  for (const [i, [, , words]] of FAILING.entries()) {
    assert.match(outcome.text, `FAIL test/${i}.test.ts`)
    assert.match(outcome.text, words)
  }
})

/** Each alone, too. */
for (const [why, text, words] of FAILING) {
  fullTest(`fails: ${why}`, async () => {
    const outcome = await run({ 'test/a.test.ts': text })
    assert.is(outcome.status, 1, outcome.text)
    assert.match(outcome.last, /^\d+ passed, 1 failed/)
    assert.match(outcome.text, words)
  })
}

test('the runner fails if there is no test file', async () => {
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

test('processes that a test leaves are ended with it', async () => {
  const text = `${HEAD}const { spawn } = require('node:child_process')
test('t', () => { spawn('sleep', ['45'], { stdio: 'inherit' }).unref() })
test.run()
`
  // `run` ends the runner after two minutes.
  const outcome = await run({ 'test/a.test.ts': text.replace("'45'", "'300'") })
  assert.is(outcome.last, '1 passed, 0 failed', outcome.text)
})

// ---------------------------------------------------------------- files that share a process

const alike = (names: readonly string[], text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [`test/core/${name}.test.ts`, text]))

test('files of shared folders run in one process, each with the initial environment', async () => {
  const text = `${HEAD}const fs = require('node:fs')
test('t', () => {
  if (process.env['LEFT'] || !fs.existsSync('test')) throw new Error('left')
  fs.appendFileSync('pids', process.pid + ' ')
  process.env['LEFT'] = '1'
  process.chdir('test')
})
test.run()
`
  await withFiles({ 'test/.keep': '', ...alike(['a', 'b', 'c'], text) }, (root) => {
    const { stdout } = runIn(root)
    assert.is(lastOf(stdout), '3 passed, 0 failed', stdout)
    assert.is(new Set(readFileSync(path.join(root, 'pids'), 'utf8').trim().split(' ')).size, 1)
  })
})

test('`// own process` keeps a file out of them', async () => {
  const text = `// own process\n${HEAD}test('t', () => require('node:fs').appendFileSync('pids', process.pid + ' '))\ntest.run()\n`
  await withFiles({ 'test/.keep': '', ...alike(['a', 'b', 'c'], text) }, (root) => {
    assert.is(lastOf(runIn(root).stdout), '3 passed, 0 failed')
    assert.is(new Set(readFileSync(path.join(root, 'pids'), 'utf8').trim().split(' ')).size, 3)
  })
})

const OF_A_KIND = ['a missing test.run()', 'a crash after the tests', 'a time-out']
for (const [why, text, words] of FAILING.filter(([why]) => FULL || OF_A_KIND.includes(why)))
  test(`fails among files that share a process, which all run: ${why}`, async () => {
    const files = { ...alike(['a', 'c', 'd'], passing(2)), 'test/core/b.test.ts': text }
    const outcome = await run(files)
    assert.is(outcome.status, 1, outcome.text)
    assert.match(outcome.last, /^\d+ passed, [12] failed/)
    assert.match(outcome.text, words)
    assert.match(outcome.text, /failed: .*test\/core\/b\.test\.ts/)
    for (const name of ['a', 'c', 'd']) assert.match(outcome.text, ` ok  test/core/${name}.test.ts  2 passed`)
  })

test('a crash that happens only beside other files is a failure of the batch', async () => {
  const text = `${HEAD}test('t', () => { if (process.send) process.kill(process.pid, 'SIGKILL') })\ntest.run()\n`
  const outcome = await run({ ...alike(['a'], passing(1)), 'test/core/b.test.ts': text })
  assert.is(outcome.status, 1)
  assert.is(outcome.last, '2 passed, 1 failed', outcome.text)
  assert.match(outcome.text, /FAIL batch 1 with test\/core\/b\.test\.ts/)
})

// ---------------------------------------------------------------- marks, times, excerpts

test('a file marked `// gate` or `// full` runs in that mode, or where a pattern names it', async () => {
  const files = {
    'test/a.test.ts': passing(1),
    'test/long.test.ts': `// gate\n${passing(2)}`,
    'test/many.test.ts': `// full\n${passing(5)}`,
  }
  assert.is((await run(files)).last, '1 passed, 0 failed')
  assert.is((await run(files, '--gate')).last, '3 passed, 0 failed')
  assert.is((await run(files, '--full')).last, '8 passed, 0 failed')
  assert.is((await run(files, 'many')).last, '5 passed, 0 failed')
})

test('the totals precede the last line; --times adds the slowest files and the folders', async () => {
  const files = { 'test/a.test.ts': passing(1), 'test/deep/b.test.ts': passing(2) }
  const total = /\n\d+\.\d s, \d+\.\d processor seconds\n3 passed, 0 failed\n$/
  assert.match((await run(files)).text, total)
  const { text } = await run(files, '--times')
  assert.match(text, total)
  assert.match(text, /slowest files, in seconds\n +wall +processor\n( +\d+\.\d +\d+\.\d {2}test\/\S+\n){2}/)
  assert.match(text, /by folder\n +wall +processor\n( +\d+\.\d +\d+\.\d {2}test(\/deep)? \(1 file\)\n){2}/)
})

test('at most sixty lines of a failure are printed, and all of them are in a log', async () => {
  const text = `${HEAD}test('t', () => {
  for (let i = 0; i < 5000; i++) console.log(i === 2500 ? 'Error: the reason' : 'line ' + i)
  throw new Error('boom')
})
test.run()
`
  await withFiles({ 'test/a.test.ts': text }, (root) => {
    const { stdout } = runIn(root)
    const shown = stdout.split('\n').filter((line) => line.startsWith('     | '))
    assert.ok(shown.length > 20 && shown.length <= 60, `${shown.length}`)
    assert.match(shown.join('\n'), 'Error: the reason')
    assert.match(shown.join('\n'), 'boom')
    const [, left, all, log] = /\((\d+) of (\d+) lines are left out here; all of them: (\S+)\)/.exec(stdout)!
    assert.is(Number(all) - Number(left), shown.length - 1)
    assert.match(readFileSync(path.join(root, log!), 'utf8'), /line 0\n[\s\S]*line 4999\n/)
  })
})

test('--watch runs tests after each change, prints only failures, and ends on SIGINT', async () => {
  await withFiles({ 'test/a.test.ts': passing(1), 'test/b.test.ts': passing(1), 'src/x.ts': '' }, async (root) => {
    const runner = path.join(ROOT, 'scripts', 'test.js')
    const args = [runner, '--watch', '--root', root, '--no-native', '--no-setup']
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    const until = (words: RegExp): Promise<void> =>
      new Promise((resolve, reject) => {
        child.once('close', () => reject(new Error(`it ended: ${said}`)))
        const look = (): void => {
          if (words.test(said)) resolve()
        }
        child.stdout.on('data', look)
        look()
      })
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      said += chunk
    })
    await until(/2 passed, 0 failed\nwaiting for a change/)
    assert.not.match(said, ' ok ')
    writeFileSync(path.join(root, 'test', 'a.test.ts'), `${HEAD}test('bad', () => { throw new Error('boom') })\ntest.run()\n`)
    await until(/test\/a\.test\.ts changed[\s\S]*FAIL test\/a\.test\.ts[\s\S]*boom[\s\S]*1 passed, 1 failed\nwaiting/)
    child.removeAllListeners('close')
    const code = new Promise((resolve) => child.once('close', resolve))
    child.kill('SIGINT')
    assert.is(await code, 0)
  })
})

test('every pattern of the quick list finds a file', () => {
  const { QUICK } = require('../../scripts/testing/quick') as { readonly QUICK: readonly string[] }
  const { discover } = require('../../scripts/testing/discover') as {
    readonly discover: (root: string, patterns: readonly string[]) => { readonly chosen: readonly { readonly file: string }[] }
  }
  const files = discover(ROOT, QUICK).chosen.map(({ file }) => file)
  for (const pattern of QUICK)
    assert.ok(
      files.some((file) => file.startsWith(pattern)),
      pattern,
    )
})

test.run()
