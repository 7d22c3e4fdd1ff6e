// Runs that are killed at random moments, and resumed. Half of them load the next batch while a step ends, the others spill to a disk. Invariant: each checkpoint folder holds a
// whole checkpoint at every moment, never an older one than before, and the run ends with the weights and losses of one that was left alone.
import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { model } from '../../dsl'
import { findCheckpoint } from '../../src/train/checkpoint'
import { isForNext } from '../../staging/plan/ahead'
import { type End, ended, MODEL, trainingOf, unchecked } from '../e2e/processes'
import overlapped from '../e2e/killed-model'
import { smallestBudget, staged } from '../e2e/runs'
import { FULL } from '../full'
import type { Counts, Family } from './family'
import { random } from './mutants'
import spilling, { net } from './spilling-model'

/** Training that is killed again and again. */
interface Victim {
  readonly name: string
  readonly steps: number
  readonly start: (more: readonly string[]) => ChildProcess
  /** Kills a process at a random moment; the result receives the process's output. `alone` is the result of an undisturbed run. */
  readonly kill: (child: ChildProcess, i: number, pick: Pick, alone: Result) => (err: string) => void
}
type Pick = (n: number) => number

interface Result {
  readonly weightsSha256: string
  readonly losses: readonly number[]
  readonly diskBytes: number
}
const resultOf = (e: End): Result => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out)
}

/** Steps are counted, not timed, so that a fast machine does not end the run before all kills are done; every fifth comes at any moment. */
const afterSteps =
  (most: { readonly steps: number; readonly ms: number }): Victim['kill'] =>
  (child, i, pick) => {
    const [steps, ms] = [1 + pick(most.steps), pick(most.ms)]
    const kill = (after: number): void => {
      setTimeout(() => child.kill('SIGKILL'), after)
    }
    let armed = i % 5 === 4
    if (armed) kill(10 * ms)
    return (err) => {
      if (armed || (err.match(/^step \d/gm) ?? []).length < steps) return
      armed = true
      kill(ms)
    }
  }

/** The bytes that a process has written to disks, by Linux. */
const writtenBy = (pid: number): number => Number(/^write_bytes: (\d+)/m.exec(readFileSync(`/proc/${pid}/io`, 'utf8'))?.[1] ?? 0)

/** Bytes on their way to the disk are counted: less than a step's, or a few more, so that two of three processes die within their first. */
const whileItSpills: Victim['kill'] = (child, _, pick, alone) => {
  const bytes = 2 ** 20 + pick(Math.round(1.4 * alone.diskBytes))
  const watch = setInterval(() => {
    try {
      if (writtenBy(child.pid!) >= bytes) child.kill('SIGKILL')
    } catch {
      // It has ended.
      clearInterval(watch)
    }
  }, 5)
  child.on('exit', () => clearInterval(watch))
  return () => {}
}

const killed = async (v: Victim, at: readonly string[], i: number, pick: Pick, alone: Result): Promise<boolean> => {
  const child = v.start([...at, '--resume'])
  const end = await ended(child, v.kill(child, i, pick, alone))
  assert.ok(end.signal === 'SIGKILL' || end.code === 0, end.err)
  return end.signal === 'SIGKILL'
}

/** For an undisturbed run, on a slow disk. */
const ALONE_SECONDS = 1500

interface Deaths {
  readonly kills: number
  readonly diskBytes: number
}

const NONE: Deaths = { kills: 0, diskBytes: 0 }

const survived = async (v: Victim, root: string, kills: number): Promise<Deaths> => {
  const checkpoints = join(root, v.name)
  const at = ['--checkpoint-dir', checkpoints, '--checkpoint-every', '1', '--steps', String(v.steps)]
  const alone = resultOf(await ended(v.start(['--steps', String(v.steps)]), undefined, ALONE_SECONDS))
  const pick = random(99)
  let [done, least] = [0, 0]
  for (let i = 0; i < kills; i++) {
    if (await killed(v, at, i, pick, alone)) done++
    if (!existsSync(checkpoints)) continue
    const found = findCheckpoint(checkpoints)
    assert.equal(found.refused, [])
    assert.ok((found.checkpoint?.step ?? 0) >= least)
    least = found.checkpoint?.step ?? 0
    if (least === v.steps) break
  }
  const rest = resultOf(await ended(v.start([...at, '--resume']), undefined, ALONE_SECONDS))
  assert.equal([rest.weightsSha256, rest.losses], [alone.weightsSha256, alone.losses])
  assert.equal(
    readdirSync(checkpoints).filter((n) => n.startsWith('.')),
    [],
  )
  return { kills: done, diskBytes: alone.diskBytes }
}

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-kills-'))
  const each = cases / 2
  const { plan } = staged(overlapped, { strategy: 'auto' })
  assert.ok(
    plan.residencies.some((r) => isForNext(r, plan.calls.length)),
    'no step of this run loads the next batch',
  )
  const inMemory: Victim = {
    name: 'memory',
    steps: 10 * each,
    start: (more) => trainingOf(MODEL, ['--seed', '5', ...more]),
    kill: afterSteps({ steps: 4, ms: 20 }),
  }
  // Gigabytes where there is the time for them.
  const large = cases >= 60
  const size = large ? [] : ['--image', '256']
  const small = model([1, 4, 256, 256], net)
  const spill = join(root, 'spill')
  const budget = smallestBudget(large ? spilling : small, 'swap:greedy')
  const onDisk: Victim = {
    name: 'disk',
    steps: large ? each / 2 : Math.ceil(1.5 * each),
    start: (more) =>
      trainingOf(unchecked(join(__dirname, 'spilling-model.ts')), [
        ...size,
        '--strategy',
        'swap:greedy',
        '--budget',
        String(budget),
        '--spill',
        spill,
        ...more,
      ]),
    kill: large ? whileItSpills : afterSteps({ steps: 1, ms: 60 }),
  }
  // campaign.ts kills runs in memory, too.
  const [a, b] = [FULL || large ? await survived(inMemory, root, each) : NONE, await survived(onDisk, root, each)]
  const tried = a === NONE ? each : cases
  assert.ok(b.diskBytes > (large ? 2 ** 31 : 0), `${b.diskBytes} bytes on disk`)
  assert.ok(
    large ? b.kills >= 30 && a.kills + b.kills >= 60 : a.kills + b.kills >= tried / 2,
    `only ${a.kills} and ${b.kills} were killed in time`,
  )
  rmSync(root, { recursive: true })
  return { kills: a.kills, killsWhileSpilling: b.kills, diskBytes: b.diskBytes }
}

export const family: Family = {
  what: 'runs killed at random moments, in memory and while they spill, are resumed to the same bits',
  few: FULL ? 6 : 2,
  all: 64,
  seconds: 2400,
  run,
}
