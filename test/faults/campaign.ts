// Many faults in a row on one training: SIGKILL, SIGSTOP, failing and full disks, short writes; as one process, and with two ranks.
// Invariant: each process continues from the newest checkpoint on disk, never from an older one, and the last one ends with the weights and
// losses of a run without faults. A fault counts only if it fired: a signal that ended or stopped the process, an error in its words, or a
// checkpoint that was written short. Each kind has at least a tenth of the faults that fired.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import * as assert from 'uvu/assert'
import { addonFile } from '../../src/device/native'
import { findCheckpoint } from '../../src/train/checkpoint'
import { type End, ended, MODEL, trainingOf } from '../e2e/processes'
import { FULL } from '../full'
import type { Counts, Family } from './family'
import { random } from './mutants'
import { smallDisk } from './tmpfs'

const LAYER = join(dirname(addonFile() ?? ''), 'spillway_failing.so')
const LONG = 100_000
const DISK_KIB = 4096

/** The faults that fired in one process, by kind, and its end. */
interface Round {
  readonly fired: Fired
  readonly end: End
}
type Pick = (n: number) => number

interface Place {
  readonly checkpoints: string
  readonly fill: () => void
  readonly empty: () => void
}

interface Starting {
  readonly start: (more: readonly string[], env?: Readonly<Record<string, string>>) => ReturnType<typeof trainingOf>
  readonly place: Place
  readonly pick: Pick
}

type Kind = 'kill' | 'stop' | 'fails' | 'full' | 'short'
type Fired = Readonly<Partial<Record<Kind, number>>>
/** One process each, in turn. A failing or full disk fires once in a process, other kinds more often: so two of each. */
const ROUND: readonly Kind[] = ['kill', 'fails', 'full', 'stop', 'fails', 'full', 'short']
/** The least share of each kind among the faults that fired, once there are `ENOUGH` of them. */
const LEAST_SHARE = 0.1
const ENOUGH = 100

const killsOf = (end: End): number => (end.signal === 'SIGKILL' ? 1 : 0)

const stepsIn = (err: string): number => (err.match(/^step \d/gm) ?? []).length
const isStopped = (pid: number): boolean => /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))

/** Kills the process `ms` after some steps. */
const killedAfter = async (child: ReturnType<typeof trainingOf>, steps: number, ms: number): Promise<End> => {
  let armed = false
  return ended(child, (err) => {
    if (armed || stepsIn(err) < steps) return
    armed = true
    setTimeout(() => child.kill('SIGKILL'), ms)
  })
}

/** Stops one process a few times, at any moment between its steps, and ends it with SIGKILL. */
const STOPS = 4
const stopped = async ({ start, pick }: Starting): Promise<Round> => {
  const child = start([])
  let [fired, armed] = [0, false]
  const once = (left: number): void => {
    if (left === 0) return void child.kill('SIGKILL')
    child.kill('SIGSTOP')
    setTimeout(() => {
      if (child.exitCode !== null || child.signalCode !== null) return
      if (isStopped(child.pid!)) fired++
      child.kill('SIGCONT')
      setTimeout(() => once(left - 1), 1 + pick(120))
    }, 1)
  }
  const end = await ended(child, (err) => {
    if (armed || stepsIn(err) < 1) return
    armed = true
    once(STOPS)
  })
  return { fired: { stop: fired, kill: killsOf(end) }, end }
}

const ROUNDS: Readonly<Record<Kind, (s: Starting) => Promise<Round>>> = {
  kill: async ({ start, pick }) => {
    const end = await killedAfter(start([]), 1 + pick(3), pick(20))
    return { fired: { kill: killsOf(end) }, end }
  },
  stop: stopped,
  fails: async ({ start, place, pick }) => {
    const operation = pick(2) === 0 ? 'WRITE' : 'SYNC'
    const env = { LD_PRELOAD: LAYER, SPILLWAY_FAILING: `${operation} EIO ${5 + pick(12)} ${place.checkpoints}` }
    const end = await ended(start([], env))
    assert.is(end.code, 1, end.err)
    return { fired: { fails: /EIO/.test(end.out) ? 1 : 0 }, end }
  },
  full: async ({ start, place, pick }) => {
    const steps = 1 + pick(3)
    let filled = false
    const end = await ended(start([]), (err) => {
      if (filled || stepsIn(err) < steps) return
      filled = true
      place.fill()
    })
    place.empty()
    return { fired: { full: end.code === 1 && /ENOSPC/.test(end.out) ? 1 : 0 }, end }
  },
  short: async ({ start, place }) => {
    // Every write of a checkpoint moves a third of its bytes.
    const before = findCheckpoint(place.checkpoints).checkpoint?.step ?? 0
    const env = { LD_PRELOAD: LAYER, SPILLWAY_FAILING: `WRITE SHORT 1 ${place.checkpoints}` }
    const end = await killedAfter(start([], env), 3, 5)
    const after = findCheckpoint(place.checkpoints).checkpoint?.step ?? 0
    return { fired: { short: after - before, kill: killsOf(end) }, end }
  },
}

interface Result {
  readonly weightsSha256: string
  readonly losses: readonly number[]
}
const resultOf = (e: End): Result => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out)
}

const sum = (counts: Fired): number => Object.values(counts).reduce((n, x) => n + x, 0)

/** Runs rounds until this number of faults has fired, and at least this number of rounds. */
const campaign = async (root: string, name: string, faults: number, rounds: number, more: readonly string[]): Promise<Fired> => {
  const disk = smallDisk(DISK_KIB)
  const folder = disk?.folder ?? root
  const checkpoints = join(folder, name)
  mkdirSync(checkpoints, { recursive: true })
  const place: Place = { checkpoints, fill: () => disk?.fill(), empty: () => disk?.empty() }
  const hasLayer = existsSync(LAYER)
  const kinds = ROUND.filter((k) => (k !== 'full' || disk) && ((k !== 'fails' && k !== 'short') || hasLayer))
  const seeded = ['--seed', '5', '--threads', '1', ...more]
  const kept = ['--checkpoint-dir', checkpoints, '--checkpoint-every', '1', '--resume']
  const start: Starting['start'] = (own, env) =>
    trainingOf(MODEL, [...seeded, ...kept, '--steps', String(LONG), ...own], env ? { env } : {})
  const counts: Partial<Record<Kind, number>> = {}
  const pick = random(31)
  try {
    let [fired, least, missed] = [0, 0, 0]
    for (let i = 0; fired < faults || i < rounds; i++) {
      const kind = kinds[i % kinds.length]!
      const round = await ROUNDS[kind]({ start, place, pick })
      const first = /^step (\d+)/m.exec(round.end.err)?.[1]
      if (first !== undefined) assert.is(Number(first), least + 1, `${name}, ${kind}: it did not continue from step ${least}`)
      const found = findCheckpoint(checkpoints)
      assert.equal(found.refused, [])
      assert.ok((found.checkpoint?.step ?? 0) >= least, `${name}, ${kind}: an older checkpoint`)
      least = found.checkpoint?.step ?? 0
      for (const [k, n] of Object.entries(round.fired) as [Kind, number][]) counts[k] = (counts[k] ?? 0) + n
      fired += sum(round.fired)
      missed = sum(round.fired) === 0 ? missed + 1 : 0
      assert.ok(missed < 10, `${name}: no fault fires any more`)
    }
    const steps = ['--steps', String(least + 2)]
    const rest = resultOf(await ended(trainingOf(MODEL, [...seeded, ...kept, ...steps])))
    const alone = resultOf(await ended(trainingOf(MODEL, [...seeded, ...steps])))
    assert.equal([rest.weightsSha256, rest.losses], [alone.weightsSha256, alone.losses])
    assert.equal(
      readdirSync(checkpoints).filter((n) => n.startsWith('.')),
      [],
    )
    return counts
  } finally {
    disk?.remove()
  }
}

/** The number of faults in a hundred that strike two ranks. */
const AMONG_RANKS = 0.4

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-campaign-'))
  const ranked = Math.round(AMONG_RANKS * cases)
  const one = await campaign(root, 'one', cases - ranked, ROUND.length, [])
  const two = await campaign(root, 'ranks', ranked, 1, ['--engine', 'threads', '--ranks', '2'])
  rmSync(root, { recursive: true })
  const faults = sum(one) + sum(two)
  assert.ok(faults >= cases)
  const kinds = [...new Set([...Object.keys(one), ...Object.keys(two)])] as Kind[]
  for (const k of kinds)
    if (faults >= ENOUGH) {
      const share = ((one[k] ?? 0) + (two[k] ?? 0)) / faults
      assert.ok(share >= LEAST_SHARE, `${k}: ${share.toFixed(3)} of the faults, at least ${LEAST_SHARE} are needed`)
    }
  return { faults, one: JSON.stringify(one), ranks: JSON.stringify(two) }
}

export const family: Family = {
  what: 'faults in a row, counted when they fire, lose no checkpoint that was written and change no bit',
  few: FULL ? 10_000 : 100,
  all: 10_000,
  seconds: 14_400,
  run,
}
