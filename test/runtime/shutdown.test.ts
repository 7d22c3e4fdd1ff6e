// The process or worker may end in the middle of a run: it must end soon, in its own way, and without a crash.
import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { test } from 'uvu'
import * as assert from 'uvu/assert'

const hook = require.resolve('../../scripts/testing/typescript')
const program = `
const { loadNative } = require(${JSON.stringify(join(__dirname, '../../src/device/native'))})
const { classifierTape } = require(${JSON.stringify(join(__dirname, 'tapes'))})
const session = new (loadNative().Session)(classifierTape(), { device: 'ref', throttle: { outBytesPerSecond: 2e5 } })
session.init('head.weight', 1)
const run = () => session.run({ steps: 1000, source: { kind: 'synthetic', samples: 1, classes: 3 } }, () => {})
`
const node = (body: string): SpawnSyncReturns<string> =>
  spawnSync(process.execPath, ['-r', hook, '-e', program + body], { encoding: 'utf8', timeout: 60_000 })

test('process.exit in the middle of a run', () => {
  const r = node(`run(); setTimeout(() => process.exit(7), 200)`)
  assert.is(r.status, 7, r.stderr)
})

test('process.exit while progress waits for room in the queue', () => {
  const r = node(`
    const quick = new (loadNative().Session)(classifierTape(), { device: 'null' })
    quick.init('head.weight', 1)
    quick.run({ steps: 100000, source: { kind: 'synthetic', samples: 1, classes: 3 } }, () => {})
    const until = Date.now() + 1500
    while (Date.now() < until);
    process.exit(5)`)
  assert.is(r.status, 5, r.stderr)
})

test('an uncaught exception in the middle of a run', () => {
  const r = node(`run(); setTimeout(() => { throw new Error('out of luck') }, 200)`)
  assert.is(r.status, 1)
  assert.match(r.stderr, /out of luck/)
})

test('a session that is forgotten', () => {
  const r = node(`setTimeout(() => console.log('ended'), 50)`)
  assert.is(r.status, 0, r.stderr)
  assert.is(r.stdout, 'ended\n')
})

test('SIGINT ends a run by its default', async () => {
  const child = spawn(process.execPath, ['-r', hook, '-e', `${program} run(); console.log('running')`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((go) => child.stdout.once('data', go))
  const ended = new Promise<NodeJS.Signals | null>((go) => child.once('exit', (_code, signal) => go(signal)))
  child.kill('SIGINT')
  assert.is(await ended, 'SIGINT')
})

test('SIGINT with a handler cancels the run, and the process continues', async () => {
  const body = `run().then((m) => { session.dispose(); console.log(JSON.stringify([m.cancelled, m.steps.length])) })
    process.once('SIGINT', () => session.cancel())
    console.log('running')`
  const child = spawn(process.execPath, ['-r', hook, '-e', program + body], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    if (text.includes('running')) child.kill('SIGINT')
  })
  const code = await new Promise((go) => child.once('close', go))
  assert.is(code, 0)
  assert.is(out, 'running\n[true,0]\n')
})

test('worker.terminate in the middle of a run, again and again', async () => {
  for (let i = 0; i < 5; i++) {
    const worker = new Worker(
      `require(${JSON.stringify(hook)}); ${program}; run(); require('node:worker_threads').parentPort.postMessage('running')`,
      { eval: true },
    )
    await new Promise((go, fail) => worker.once('message', go).once('error', fail))
    await new Promise((go) => setTimeout(go, 30 * i))
    await worker.terminate()
  }
})

test.run()
