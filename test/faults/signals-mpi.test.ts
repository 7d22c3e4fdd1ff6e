// timeout 3600
// Signals at random moments end `evaluate` and `predict` that two processes share under mpirun: within seconds, with the code of the signal, and with
// whole files only. `npm test` has one of each in test/e2e (ranks-mpi and ranks-predict), so this file runs in full mode alone.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { npyHead } from '../../src/files/npy'
import { writeTensors } from '../../src/files/safetensors'
import { type End, ended, spillway } from '../e2e/processes'
import { DEVICE } from '../e2e/runs'
import { FULL } from '../full'
import { random } from './mutants'

const SIGNALS_EACH = 100
/** Far more than a run computes before the latest signal. */
const [SAMPLES, IMAGES, SIDE] = [20_000, 3000, 16]
/** The latest signal follows the first progress of a run by this time. */
const LATEST_MS = 400
const MPI_ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
}
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const

const root = mkdtempSync(join(tmpdir(), 'spillway-signals-mpi-'))
test.after(() => rmSync(root, { recursive: true }))
const [weights, samples, images, out] = ['w.safetensors', 'samples.safetensors', 'images', 'out'].map((n) => join(root, n)) as [
  string,
  string,
  string,
  string,
]
const GIVEN = ['resnet20-cifar', '--batch=2', '--threads=1', '--algorithms=fixed', '--json', `--device=${DEVICE}`]
const HEAD = npyHead('f4', [10, 1, 1])

const prepare = async (): Promise<void> => {
  writeTensors(samples, [
    {
      name: 'input',
      type: 'F32',
      shape: [SAMPLES, 3, SIDE, SIDE],
      read: () => E.right(new Uint8Array(12 * SAMPLES * SIDE * SIDE)),
    },
    { name: 'target', type: 'I32', shape: [SAMPLES, 1, 1, 1], read: () => E.right(new Uint8Array(4 * SAMPLES)) },
  ])
  mkdirSync(images)
  const image = Buffer.concat([npyHead('f4', [3, SIDE, SIDE]), new Uint8Array(12 * SIDE * SIDE)])
  for (let i = 0; i < IMAGES; i++) writeFileSync(join(images, `${i}.npy`), image)
  const trained = await ended(
    spillway(['train', ...GIVEN, `--image=${SIDE}`, '--loss=cross-entropy', '--steps=1', `--save=${weights}`]),
  )
  assert.is(trained.code, 0, trained.err)
}

/** The processes that run this command. */
const ranksOf = (mark: string): readonly number[] =>
  spawnSync('pgrep', ['-f', `^${process.execPath} .*${mark}`], { encoding: 'utf8' })
    .stdout.trim()
    .split('\n')
    .filter(Boolean)
    .map(Number)

/** Sends a signal to one rank some time after the first progress. (A signal to mpirun itself makes it kill all ranks.) */
const interrupted = async (
  args: readonly string[],
  mark: string,
  pick: (n: number) => number,
): Promise<{ end: End; code: number }> => {
  const [name, code] = SIGNALS[pick(SIGNALS.length)]!
  const [wait, to] = [pick(LATEST_MS), pick(2)]
  const child = spillway(args, { under: ['mpirun', '-n', '2'], env: MPI_ENV })
  let isSent = false
  const end = await ended(child, (err) => {
    if (isSent || !/\d+ of \d+/.test(err)) return
    isSent = true
    const ranks = ranksOf(mark)
    setTimeout(() => process.kill(ranks[to]!, name), wait)
  })
  assert.ok(isSent, `it ended by itself:\n${end.err}`)
  return { end, code }
}

const CASES = {
  evaluate: {
    args: ['evaluate', ...GIVEN, '--loss=cross-entropy', `--image=${SIDE}`, `--weights=${weights}`, `--data=${samples}`],
    mark: samples,
  },
  predict: { args: ['predict', ...GIVEN, `--weights=${weights}`, `--data=${images}`, `--out=${out}`], mark: images },
}

if (FULL && spawnSync('mpirun', ['--version']).status === 0) {
  test.before(prepare)
  for (const [name, { args, mark }] of Object.entries(CASES))
    test(`${SIGNALS_EACH} signals at random moments end ${name} under mpirun`, async () => {
      const numbers = random(SIGNALS_EACH)
      for (let i = 0; i < SIGNALS_EACH; i++) {
        rmSync(out, { recursive: true, force: true })
        const { end, code } = await interrupted(args, mark, numbers)
        // A rank that only heard of the signal ends as after SIGINT; mpirun reports the code of one rank.
        assert.ok([code, 130].includes(end.code!), `${i}: ${end.code}\n${end.err}`)
        assert.match(end.err, /cancelled|SIG(INT|TERM|HUP)/)
        assert.equal(ranksOf(mark), [], `signal ${i}: a rank lives on`)
        if (name === 'predict')
          for (const file of readdirSync(out)) assert.is(statSync(join(out, file)).size, HEAD.length + 40, `${i}: ${file}`)
      }
    })
} else test('signals under mpirun are for the full mode, with Open MPI', () => {})

test.run()
