// own process
// timeout 600
// How runs end before their time: signals, time limits, losses that are not finite, folders of others; and what is left to go on from.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { writeTensors } from '../../src/files/safetensors'
import { findCheckpoint } from '../../src/train/checkpoint'
import { fewOrAll } from '../full'
import { afterStep, type End, ended, MODEL, training, trainingFrom, trainingHere, trainingOf } from './processes'

const root = mkdtempSync(join(tmpdir(), 'spillway-endings-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))

const LONG = ['--steps', '4000']
const errorOf = (e: End): { readonly tag: string; readonly message: string; readonly weights?: string } => JSON.parse(e.out).error
const resultOf = (e: End): { readonly weightsSha256: string; readonly losses: readonly number[] } => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out)
}

/** test/e2e/kill.test.ts has Ctrl-C, which is SIGINT. */
const SIGNALS = [
  ['SIGTERM', 143],
  ['SIGHUP', 129],
  ['SIGINT', 130],
] as const
for (const [signal, code] of fewOrAll(SIGNALS.slice(0, 2), SIGNALS))
  test(`${signal} ends a run with ${code}`, async () => {
    const child = training(...LONG)
    const end = await ended(
      child,
      afterStep(2, () => child.kill(signal)),
    )
    assert.is(end.code, code, end.err)
    assert.is(errorOf(end).tag, 'Cancelled')
    const { weights, message } = errorOf(end)
    assert.ok(weights !== undefined && existsSync(weights))
    assert.match(
      message,
      `; the weights are in ${weights}; to use them: npx spillway predict ${MODEL} --weights ${weights} --data FOLDER`,
    )
  })

test('a closed pipe ends the command silently', async () => {
  const child = training(...LONG)
  child.stderr!.once('data', () => child.stderr!.destroy())
  assert.equal(await once(child, 'exit'), [141, null])
})

test('a process that exits within a step skips teardown, which would free code that threads run', async () => {
  const teller = join(root, 'torndown.so')
  const made = spawnSync('c++', ['-shared', '-fPIC', join(__dirname, 'torndown.cpp'), '-o', teller], { encoding: 'utf8' })
  assert.is(made.status, 0, made.stderr)
  const tornDown = join(root, 'torn-down')
  const env = { LD_PRELOAD: teller, TORN_DOWN: tornDown }
  const left = trainingOf(MODEL, LONG, { env })
  const reading = afterStep(2, () => left.stderr!.destroy())
  let said = ''
  left.stderr!.on('data', (d: Buffer) => {
    said += d.toString()
    reading(said)
  })
  assert.equal(await once(left, 'exit'), [141, null])
  assert.not.ok(existsSync(tornDown))
  // As it does when all is done.
  resultOf(await ended(trainingOf(MODEL, ['--steps', '1'], { env })))
  assert.ok(existsSync(tornDown))
})

test('a run under nohup does not end with its terminal', async () => {
  const unreadable = openSync('/dev/null', 'w')
  const child = trainingFrom(unreadable, '--steps', '12')
  closeSync(unreadable)
  resultOf(
    await ended(
      child,
      afterStep(2, () => child.kill('SIGHUP')),
    ),
  )
})

test('a warning (SIGUSR1) and a time limit save the current step, end with 75, and the run resumes to the same bits', async () => {
  const at = folder()
  const run = (steps: number): string[] => ['--steps', `${steps}`, '--seed', '3']
  const kept = [...run(1000000), '--checkpoint-dir', at]
  const warned = training(...kept)
  const end = await ended(
    warned,
    afterStep(3, () => warned.kill('SIGUSR1')),
  )
  assert.is(end.code, 75, end.err)
  assert.match(
    errorOf(end).message,
    /^stopped by SIGUSR1 after \d+ steps, all saved in .*: run the same command with --resume to continue$/,
  )
  const first = findCheckpoint(at).checkpoint!.step
  assert.ok(first >= 3)
  const limited = await ended(training(...kept, '--resume', '--time-limit', '1s'))
  assert.is(limited.code, 75, limited.err)
  assert.match(errorOf(limited).message, /^stopped by the time limit of 1\.00 s after/)
  assert.is(existsSync(join(at, 'lock.json')), false)
  const steps = findCheckpoint(at).checkpoint!.step + 5
  assert.ok(steps >= first + 5)
  const rest = resultOf(await ended(training(...run(steps), '--checkpoint-dir', at, '--resume')))
  const alone = resultOf(await ended(training(...run(steps))))
  assert.equal([rest.weightsSha256, rest.losses], [alone.weightsSha256, alone.losses])
})

test('a time limit without a folder to save in is refused at once', async () => {
  const end = await trainingHere('--time-limit', '3h')
  assert.is(end.code, 2)
  assert.match(errorOf(end).message, /--time-limit needs --checkpoint-dir/)
  const odd = await trainingHere('--time-limit', 'soon')
  assert.match(errorOf(odd).message, /--time-limit: 'soon' is not a time; examples: 3h, 45m, 90s, 1h30m/)
})

// ---------------------------------------------------------------- not finite

test('a loss that is not finite ends the run with 4 and its step; saved files stay', async () => {
  const [at, weights] = [folder(), join(root, 'weights.safetensors')]
  writeTensors(weights, [])
  const before = readFileSync(weights)
  const wild = ['--lr', '1e30', '--steps', '40', '--checkpoint-every', '1', '--checkpoint-dir', at, '--save', weights]
  const end = await ended(training(...wild))
  assert.is(end.code, 4, end.err)
  assert.match(errorOf(end).message, /^step \d+: .*not finite, so this step was not saved/)
  assert.equal(readFileSync(weights), before)
  const { checkpoint, refused } = findCheckpoint(at)
  assert.equal(refused, [])
  assert.ok(!checkpoint || checkpoint.losses.every(Number.isFinite))
})

test('with the option, the run continues with one warning, and writes only finite values', async () => {
  const at = folder()
  const end = await trainingHere('--lr', '1e30', '--steps', '8', '--on-nonfinite', 'continue', '--checkpoint-dir', at)
  assert.is(end.code, 0, end.err)
  assert.is(end.err.match(/the run continues, as requested/g)?.length, 1)
  assert.ok((findCheckpoint(at).checkpoint?.step ?? 0) < 8)
  assert.match(end.err, /note: no checkpoint of step 8: '.*' has numbers that are not finite/)
  assert.match(end.err, /note: the weights are not saved: '.*' has numbers that are not finite/)
  assert.is(JSON.parse(end.out).savedTo, undefined)
})

// ---------------------------------------------------------------- folders

test('two runs in one folder: the second is refused with 5; the lock of an ended run is ignored', async () => {
  const at = folder()
  const run = [...LONG, '--checkpoint-dir', at]
  const first = training(...run)
  let second: Promise<End> | undefined
  const end = await ended(
    first,
    afterStep(2, () => {
      second = ended(training(...run, '--resume'))
      void second.then(() => first.kill('SIGKILL'))
    }),
  )
  assert.is(end.signal, 'SIGKILL')
  const refused = await second!
  assert.is(refused.code, 5, refused.err)
  assert.match(errorOf(refused).message, new RegExp(`process ${first.pid} on ${hostname()} has used it since`))
  assert.ok(existsSync(join(at, 'lock.json')))
  const third = await ended(training('--steps', '2', '--checkpoint-dir', at, '--resume'))
  assert.is(third.code, 0, third.err)
  assert.match(third.err, /has no checkpoint to resume: the run starts from step 1/)
  assert.is(existsSync(join(at, 'lock.json')), false)
})

test('a lock of another machine is respected; a truncated lock is ignored', async () => {
  const at = folder()
  mkdirSync(at)
  const lock = join(at, 'lock.json')
  const run = ['--steps', '1', '--checkpoint-dir', at, '--resume']
  writeFileSync(lock, JSON.stringify({ host: 'elsewhere', boot: 'b', space: 's', pid: 1, began: '1', since: 'noon' }))
  const end = await trainingHere(...run)
  assert.is(end.code, 5)
  assert.match(errorOf(end).message, /process 1 on elsewhere has used it since noon; .* remove .*lock\.json/)
  writeFileSync(lock, '{"host":"else')
  assert.is((await trainingHere(...run)).code, 0)
})

// ---------------------------------------------------------------- data

/** A .npy file of the numbers 0, 1, 2, … */
const npy = (shape: readonly number[], first: number): Uint8Array => {
  const head = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')}), }`
  const padded = `${head.padEnd(117)}\n`
  const numbers = Float32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, (_, i) => ((i + first) % 17) / 17)
  return Buffer.concat([
    Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8]),
    Buffer.from(padded),
    new Uint8Array(numbers.buffer),
  ])
}

test('data are identified by content: moved data are the same, changed data are not', async () => {
  const [at, here, there] = [folder(), folder(), folder()]
  for (const [name, channels] of [
    ['input', 3],
    ['target', 4],
  ] as const) {
    mkdirSync(join(here, name), { recursive: true })
    writeFileSync(join(here, name, 'a.npy'), npy([2, channels, 32, 32], 1))
  }
  const run = (steps: number, data: string, ...more: string[]): Promise<End> =>
    trainingHere('--steps', String(steps), '--checkpoint-dir', at, '--resume', '--data', data, ...more)
  resultOf(await run(2, here))
  renameSync(here, there)
  const moved = await run(4, there, '--threads', '1')
  resultOf(moved)
  const other = folder()
  cpSync(there, other, { recursive: true })
  writeFileSync(join(other, 'target', 'a.npy'), npy([2, 4, 32, 32], 2))
  const end = await run(6, other)
  assert.is(end.code, 5, end.err)
  assert.match(errorOf(end).message, /it belongs to another run: data is '2 samples, sha256 .*' in the checkpoint/)
})

test.run()
