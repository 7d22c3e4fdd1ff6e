// Many faults in a row on one training: SIGKILL, SIGSTOP, failing and full disks, short writes, and signals that ask it to end; as one
// process, with two ranks as threads, and with two under mpirun. A process serves several runs, and each run continues the one before.
// Invariant: each run continues from the newest checkpoint on disk, never from an older one, and the last one ends with the weights and
// losses of a run without faults. A fault counts only if it fired: a signal that ended or stopped the process, an error in its words, or a
// write that moved less. Each kind has at least a tenth of the faults. Signals are counted apart from faults.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { findCheckpoint } from '../../src/train/checkpoint'
import { COMMAND, MODEL, trainingHere } from '../e2e/processes'
import { DEVICE } from '../e2e/runs'
import { FULL, GATE } from '../full'
import type { Counts, Family } from './family'
import { type Failing, failingLayer, failingUnder } from './layer'
import { random } from './mutants'
import { type SmallDisk, smallDisk } from './tmpfs'

const LONG = 100_000
const DISK_KIB = 2048
/** Longer than any fault takes to show: a process that has said nothing by then hangs. */
const HANGING_MS = 300_000

type Ending = 'kill' | 'fails' | 'full' | 'signal'
type Kind = Exclude<Ending, 'signal'> | 'stop' | 'short'
type Fired = Readonly<Partial<Record<Kind | 'signal', number>>>
/** The endings of runs, in turn; a process ends with a kill. Each run is stopped, or moves less, before its ending. */
const ENDINGS: readonly Ending[] = ['fails', 'full', 'signal', 'kill']
/** The least share of each kind among the faults that fired, once there are `ENOUGH` of them. */
const LEAST_SHARE = 0.1
const ENOUGH = 100
/** Faults on one training; its losses are in each checkpoint, so that longer ones take longer. */
const CHAIN = 500

const project = join(__dirname, '..', '..')
const COMMON = ['--image', '8', '--seed', '5', '--threads', '1', '--no-save']
const stepsIn = (err: string): number => (err.match(/^step \d/gm) ?? []).length
/** The state of a process, by Linux: T is stopped, Z and X are dead. */
const stateOf = (pid: number): string => {
  try {
    return /^State:\s+(\w)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 'X'
  } catch {
    return 'X'
  }
}

/** Signals that ask a run to end, and its exit codes. */
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const

// ---------------------------------------------------------------- a process, and its output so far

class Victim {
  out = ''
  err = ''
  ended = false
  /** The fault that this process awaits. */
  awaits = 'its start'
  private wake: () => void = () => {}

  constructor(readonly child: ChildProcess) {
    child.stdout!.on('data', (d: Buffer) => {
      this.out += d.toString()
      this.wake()
    })
    child.stderr!.on('data', (d: Buffer) => {
      this.err += d.toString()
      this.wake()
    })
    child.on('close', () => {
      this.ended = true
      this.wake()
    })
    // It may have died meanwhile.
    child.stdin!.on('error', () => {})
  }

  /** Starts the next run of this process. */
  next(): void {
    this.out = this.err = ''
    this.child.stdin!.write('next\n')
  }

  /** Waits for this, or for the end of the process. */
  async until(holds: () => boolean): Promise<void> {
    let hangs = false
    const watch = setTimeout(() => {
      hangs = true
      this.wake()
    }, HANGING_MS)
    while (!holds() && !this.ended && !hangs)
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    clearTimeout(watch)
    assert.not.ok(hangs, `${this.awaits} is awaited for ${HANGING_MS / 1000} s:\n${this.out}\n${this.err}`)
  }

  /** The exit code of the present run, once it has ended. */
  get code(): number | undefined {
    const code = /^ended (\d+)$/m.exec(this.out)?.[1]
    return code === undefined ? undefined : Number(code)
  }
}

const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ---------------------------------------------------------------- the ways to train

interface Way {
  readonly name: string
  readonly more: readonly string[]
  /** The program that starts the processes. */
  readonly under: readonly string[]
}
const ONE: Way = { name: 'one', more: [], under: [] }
const THREADS: Way = { name: 'threads', more: ['--engine', 'threads', '--ranks', '2'], under: [] }
const MPI: Way = { name: 'mpirun', more: [], under: ['mpirun', '-n', '2'] }
const MPI_ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
}
const hasMpi = (): boolean => ['mpirun', 'mpicxx'].every((program) => spawnSync(program, ['--version']).status === 0)

/** The processes that train, below this one. */
const trainersOf = (pid: number): readonly number[] =>
  spawnSync('ps', ['-o', 'pid=,comm=', '--ppid', `${pid}`], { encoding: 'utf8' })
    .stdout.split('\n')
    .flatMap((line): readonly number[] => {
      const [, child, name] = /^\s*(\d+) (.*)$/.exec(line) ?? []
      return child === undefined ? [] : name === 'node' ? [Number(child)] : trainersOf(Number(child))
    })

// ---------------------------------------------------------------- the faults

interface Chain {
  readonly way: Way
  readonly checkpoints: string
  readonly disk: SmallDisk | undefined
  readonly failing: Failing | undefined
  readonly pick: (n: number) => number
  readonly start: () => Victim
}

/** Stops a process that trains for a moment; returns true if it was stopped. */
const stopped = async (pid: number, ms: number): Promise<boolean> => {
  process.kill(pid, 'SIGSTOP')
  while (!'TZX'.includes(stateOf(pid))) await after(1)
  const fired = stateOf(pid) === 'T'
  await after(ms)
  process.kill(pid, 'SIGCONT')
  return fired
}

/** The writes of a few checkpoints move a third of their bytes. */
const short = async ({ failing, checkpoints }: Chain, v: Victim): Promise<boolean> => {
  const steps = stepsIn(v.err)
  failing!.set(`WRITE SHORT 1 ${checkpoints}`)
  await v.until(() => stepsIn(v.err) >= steps + 2)
  return failing!.clear() > 0
}

/** Waits for the end of a process that mpirun has left. */
const dead = async (pid: number): Promise<void> => {
  const began = Date.now()
  while (!'ZX'.includes(stateOf(pid))) {
    assert.ok(Date.now() - began < HANGING_MS, `rank ${pid} lives on`)
    await after(5)
  }
}

interface Round {
  readonly fired: Fired
  readonly err: string
}

/** A run with faults on its way, to its ending. `pids` of the processes that train. */
const round = async (c: Chain, v: Victim, ending: Ending): Promise<Round> => {
  const { pick, way, checkpoints, disk, failing } = c
  const isMpi = way === MPI
  const pids = (): readonly number[] => (isMpi ? trainersOf(v.child.pid!) : [v.child.pid!])
  const fired: Partial<Record<Kind | 'signal', number>> = {}
  const count = (kind: Kind | 'signal', did: boolean): void => {
    if (did) fired[kind] = (fired[kind] ?? 0) + 1
  }
  const anyOf = (all: readonly number[]): number => all[pick(all.length)]!
  // Every other kill falls at any moment of a run: while it is planned, or reads a checkpoint.
  const early = ending === 'kill' && !isMpi && pick(2) === 0
  if (!early) {
    await v.until(() => stepsIn(v.err) >= 1)
    for (let k = isMpi ? 4 : 1 + pick(2); k > 0 && !v.ended; k--) {
      await after(pick(10))
      if (failing && k === 1 && pick(2) === 0) count('short', await short(c, v))
      else count('stop', await stopped(anyOf(pids()), pick(5)))
    }
  }
  await after(pick(early ? 60 : 15))
  assert.not.ok(v.ended, `${way.name}: it has ended by itself:\n${v.out}\n${v.err}`)
  v.awaits = ending
  const isOver = (): boolean => !isMpi && v.code !== undefined
  if (ending === 'kill') {
    const all = pids()
    process.kill(anyOf(all), 'SIGKILL')
    await v.until(() => false)
    count('kill', isMpi || v.child.signalCode === 'SIGKILL')
    for (const pid of all) await dead(pid)
  } else if (ending === 'fails') {
    failing!.set(`${pick(2) === 0 ? 'WRITE' : 'SYNC'} EIO ${1 + pick(16)} ${checkpoints}`)
    await v.until(isOver)
    count('fails', failing!.clear() > 0 && /EIO/.test(v.out))
    assert.is(isMpi ? v.child.exitCode : v.code, 1, v.out + v.err)
  } else if (ending === 'full') {
    // A checkpoint that is removed makes room for the next one.
    for (let steps = -1; !isOver() && !v.ended; steps = stepsIn(v.err)) {
      disk!.fill()
      await v.until(() => isOver() || stepsIn(v.err) > steps)
    }
    disk!.empty()
    count('full', /ENOSPC/.test(v.out))
    assert.is(isMpi ? v.child.exitCode : v.code, 1, v.out + v.err)
  } else {
    const [name, code] = SIGNALS[pick(SIGNALS.length)]!
    process.kill(anyOf(pids()), name)
    await v.until(isOver)
    count('signal', /"Cancelled"/.test(v.out))
    // A rank that only heard of it ends as after SIGINT.
    if (isMpi) assert.ok([code, 130].includes(v.child.exitCode!), v.out + v.err)
    else assert.is(v.code, code, v.out + v.err)
  }
  assert.not.match(`${v.err}\n${v.out}`, /\n\s+at .*:\d+:\d+/)
  return { fired, err: v.err }
}

// ---------------------------------------------------------------- a training with many of them

const resultOf = async (...more: readonly string[]): Promise<readonly unknown[]> => {
  const { code, out, err } = await trainingHere(...COMMON, ...more)
  assert.is(code, 0, err)
  const { weightsSha256, losses } = JSON.parse(out) as { weightsSha256: string; losses: readonly number[] }
  return [weightsSha256, losses]
}

const sum = (counts: Fired): number => Object.entries(counts).reduce((n, [kind, x]) => (kind === 'signal' ? n : n + x), 0)
const added = (a: Fired, b: Fired): Fired =>
  Object.fromEntries([...Object.keys(a), ...Object.keys(b)].map((k) => [k, (a[k as Kind] ?? 0) + (b[k as Kind] ?? 0)]))

/** Trains until this number of faults has fired, and compares the end with a run without faults. */
const chain = async (root: string, way: Way, faults: number, seed: number): Promise<Fired> => {
  const disk = smallDisk(DISK_KIB)
  const folder = disk?.folder ?? root
  const checkpoints = join(folder, `${way.name}-${seed}`)
  mkdirSync(checkpoints, { recursive: true })
  const layer = failingLayer()
  const failing = layer === undefined ? undefined : failingUnder(layer, join(root, 'failing'))
  const kept = ['--checkpoint-dir', checkpoints, '--checkpoint-every', '1', '--resume']
  const args = ['train', MODEL, '--device', DEVICE, '--algorithms', 'fixed', '--json', ...COMMON, ...way.more, ...kept]
  const command = way === MPI ? COMMAND : [...COMMAND.slice(0, -1), join(__dirname, 'repeated.ts')]
  const start = (): Victim => {
    const [program, ...rest] = [...way.under, process.execPath, ...command, ...args, '--steps', String(LONG)]
    const env = { ...process.env, ...failing?.env, ...(way === MPI ? MPI_ENV : {}) }
    return new Victim(spawn(program!, rest, { cwd: project, env }))
  }
  const c: Chain = { way, checkpoints, disk, failing, pick: random(seed), start }
  const endings = ENDINGS.filter((e) => (e !== 'full' || disk) && (e !== 'fails' || failing))
  let [counts, least, missed]: [Fired, number, number] = [{}, 0, 0]
  let v: Victim | undefined
  try {
    for (let i = 0; sum(counts) < faults; i++) {
      v = v && !v.ended ? v : start()
      v.next()
      const ending = endings[i % endings.length]!
      const { fired, err } = await round(c, v, ending)
      const first = /^step (\d+)/m.exec(err)?.[1]
      if (first !== undefined)
        assert.is(Number(first), least + 1, `${way.name}, ${ending}: it did not continue from step ${least}`)
      const found = findCheckpoint(checkpoints)
      assert.equal(found.refused, [])
      assert.ok((found.checkpoint?.step ?? 0) >= least, `${way.name}, ${ending}: an older checkpoint`)
      least = found.checkpoint?.step ?? 0
      counts = added(counts, fired)
      missed = sum(fired) === 0 ? missed + 1 : 0
      assert.ok(missed < 10, `${way.name}: no fault fires any more`)
    }
    v?.child.kill('SIGKILL')
    await v?.until(() => false)
    const own = way === MPI ? THREADS.more : way.more
    const steps = ['--steps', String(least + 2)]
    // Ranks under mpirun have the bits of threads, and the same folder.
    assert.equal(await resultOf(...own, ...kept, ...steps), await resultOf(...own, ...steps))
    assert.equal(
      readdirSync(checkpoints).filter((n) => n.startsWith('.')),
      [],
    )
    return counts
  } finally {
    v?.child.kill('SIGKILL')
    failing?.close()
    disk?.remove()
  }
}

/** The shares of the faults that strike two ranks. */
const [AMONG_THREADS, UNDER_MPIRUN] = [0.35, 0.05]

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-campaign-'))
  const mpi = hasMpi() ? Math.round(UNDER_MPIRUN * cases) : 0
  const threads = Math.round(AMONG_THREADS * cases)
  const totals: Record<string, Fired> = {}
  let seed = 0
  for (const [way, count] of [
    [ONE, cases - threads - mpi],
    [THREADS, threads],
    [MPI, mpi],
  ] as const)
    for (let left = count; left > 0; left -= CHAIN) {
      const own = await chain(root, way, Math.min(left, CHAIN), ++seed)
      totals[way.name] = added(totals[way.name] ?? {}, own)
      if (FULL) console.log(`${seed} ${way.name} ${JSON.stringify(own)}`)
    }
  rmSync(root, { recursive: true })
  const all = Object.values(totals).reduce(added, {})
  const faults = sum(all)
  assert.ok(faults >= cases)
  for (const [kind, n] of Object.entries(all))
    if (faults >= ENOUGH && kind !== 'signal')
      assert.ok(
        n / faults >= LEAST_SHARE,
        `${kind}: ${(n / faults).toFixed(3)} of the faults, at least ${LEAST_SHARE} are needed`,
      )
  return {
    faults,
    signals: all.signal ?? 0,
    ...Object.fromEntries(Object.entries(totals).map(([k, f]) => [k, JSON.stringify(f)])),
  }
}

export const family: Family = {
  what: 'faults in a row, counted when they fire, lose no checkpoint that was written and change no bit',
  few: FULL ? 10_000 : GATE ? 100 : 25,
  all: 10_000,
  seconds: 14_400,
  run,
}
