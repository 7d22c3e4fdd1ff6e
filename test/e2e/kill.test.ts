// timeout 900
// Runs that are killed or interrupted at random moments, through the command line, as users meet it.
import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { findCheckpoint } from '../../src/train/checkpoint'
import { ended, training } from './processes'

const root = mkdtempSync(join(tmpdir(), 'spillway-kill-'))
test.after(() => rmSync(root, { recursive: true }))

const KILLS = process.env['SPILLWAY_FULL'] ? 60 : 12
const STEPS = 120

const start = (checkpointDir: string, ...more: string[]): ChildProcess =>
  training('--seed', '5', '--steps', String(STEPS), '--checkpoint-dir', checkpointDir, '--checkpoint-every', '1', ...more)

/**
 * Kills some steps after training has begun, at a moment within a step; every fifth time at any moment from the start on.
 * Steps are counted, not timed, so that a fast machine does not finish the run before the kills are used up.
 */
const killedAt = async (checkpointDir: string, i: number, random: number): Promise<boolean> => {
  const [stepsFirst, delayMs] = [1 + (random % 4), (random >> 4) % 20]
  const child = start(checkpointDir, '--resume')
  const kill = (afterMs: number): void => {
    setTimeout(() => child.kill('SIGKILL'), afterMs)
  }
  let armed = i % 5 === 4
  if (armed) kill(10 * delayMs)
  const end = await ended(child, (err) => {
    if (armed || (err.match(/^step \d/gm) ?? []).length < stepsFirst) return
    armed = true
    kill(delayMs)
  })
  assert.ok(end.signal === 'SIGKILL' || end.code === 0, end.err)
  return end.signal === 'SIGKILL'
}

test(`killed ${KILLS} times at random moments and resumed, a run ends with the weights of one that was left alone`, async () => {
  const alone = await ended(start(join(root, 'alone')))
  assert.is(alone.code, 0, alone.err)
  const at = join(root, 'killed')
  let random = 99
  let kills = 0
  let least = 0
  for (let i = 0; i < KILLS; i++) {
    random = (random * 1103515245 + 12345) % 2 ** 31
    if (await killedAt(at, i, random >> 16)) kills++
    if (!existsSync(at)) continue
    const found = findCheckpoint(at)
    assert.equal(found.refused, [])
    assert.ok((found.checkpoint?.step ?? 0) >= least)
    least = found.checkpoint?.step ?? 0
  }
  assert.ok(kills >= KILLS / 2, `only ${kills} were killed in time`)
  const rest = await ended(start(at, '--resume'))
  assert.is(rest.code, 0, rest.err)
  const [a, b] = [alone, rest].map((e) => JSON.parse(e.out) as { weightsSha256: string; losses: number[] })
  assert.equal([b!.weightsSha256, b!.losses], [a!.weightsSha256, a!.losses])
  assert.equal(
    readdirSync(at).filter((n) => n.startsWith('.')),
    [],
  )
})

/** Ctrl-C after the second step: what the command says of it. */
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

test('Ctrl-C ends within a step with exit 130, says how to go on, and the checkpoint is whole', async () => {
  const at = join(root, 'interrupted')
  const error = await interrupted(at)
  assert.ok(error.stepsDone >= 2 && error.stepsDone < STEPS)
  assert.match(error.message, /--resume/)
  const { checkpoint, refused } = findCheckpoint(at)
  assert.equal(refused, [])
  assert.ok(checkpoint!.step >= 2 && checkpoint!.step <= error.stepsDone)
})

test('before the first checkpoint Ctrl-C promises none', async () => {
  const at = join(root, 'too-early')
  const error = await interrupted(at, '--checkpoint-every', String(STEPS))
  assert.match(error.message, /no checkpoint was due in .*too-early yet/)
  assert.is(findCheckpoint(at).checkpoint, undefined)
})

test.run()
