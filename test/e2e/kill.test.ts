// own process
// timeout 300
// Runs that are interrupted, through the command line, as users meet it; those that are killed stand in test/faults.
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { findCheckpoint } from '../../src/train/checkpoint'
import { ended, training } from './processes'

const root = mkdtempSync(join(tmpdir(), 'spillway-kill-'))
test.after(() => rmSync(root, { recursive: true }))

const STEPS = 120

const start = (checkpointDir: string, ...more: string[]): ChildProcess =>
  training('--seed', '5', '--steps', String(STEPS), '--checkpoint-dir', checkpointDir, '--checkpoint-every', '1', ...more)

/** Ctrl-C after the second step: the command's output. */
const interrupted = async (
  at: string,
  ...more: string[]
): Promise<{ readonly tag: string; readonly message: string; readonly stepsDone: number }> => {
  const child = start(at, ...more)
  let sent = false
  const end = await ended(child, (err) => {
    if (sent || !/^step 2\//m.test(err)) return
    sent = true
    child.kill('SIGINT')
  })
  assert.is(end.code, 130, end.err)
  const { error } = JSON.parse(end.out) as { error: { tag: string; message: string; stepsDone: number } }
  assert.is(error.tag, 'Cancelled')
  return error
}

test('Ctrl-C ends the run within a step with exit 130 and a hint to resume, and the checkpoint is whole', async () => {
  const at = join(root, 'interrupted')
  const error = await interrupted(at)
  assert.ok(error.stepsDone >= 2 && error.stepsDone < STEPS)
  assert.match(error.message, /--resume/)
  const { checkpoint, refused } = findCheckpoint(at)
  assert.equal(refused, [])
  assert.is(checkpoint!.step, error.stepsDone)
})

test('before the first checkpoint Ctrl-C saves one', async () => {
  const at = join(root, 'early')
  const error = await interrupted(at, '--checkpoint-every', String(STEPS))
  assert.match(error.message, /--resume/)
  assert.is(findCheckpoint(at).checkpoint?.step, error.stepsDone)
})

test.run()
