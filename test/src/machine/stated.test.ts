// Plans by stated times: the same for any measurements of a machine, and at its scale if it has measured hardly anything.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { encodePlan } from '../../../staging/plan/codec'
import type { CallShapes } from '../../../staging/ops/op'
import { loadNative } from '../../../src/device/native'
import { machineNamed } from '../../../src/machine/machine'
import { statedSeconds } from '../../../src/machine/stated'
import { CPU_SAMPLES, type Guesses, type Measurements, type Timer, timer } from '../../../src/machine/timing'
import { type StagingOptions, stageNamed } from '../../../src/cli/stage'
import type { Staged } from '../../../src/stage/staged'
import { train } from '../../../src/train/trainer'
import { FULL, fewOrAll, gateTest } from '../../full'

const folder = mkdtempSync(join(tmpdir(), 'spillway-stated-'))
const before = process.env.XDG_CACHE_HOME
test.after(() => {
  if (before === undefined) delete process.env.XDG_CACHE_HOME
  else process.env.XDG_CACHE_HOME = before
  rmSync(folder, { recursive: true })
})
const withCache = (name: string): string => {
  process.env.XDG_CACHE_HOME = join(folder, name)
  mkdirSync(join(folder, name, 'spillway'), { recursive: true })
  return join(folder, name, 'spillway')
}

const MODEL = ['resnet20-cifar', { batch: 64 }] as const
const stagedWith = (o: StagingOptions) => {
  const staged = stageNamed(MODEL[0], { ...MODEL[1], ...o })
  if (isLeft(staged)) throw new Error(JSON.stringify(staged.left))
  return staged.right
}
/** The file of a profile with the times of `seconds` for its calls. */
const poisoned = (cache: string, seconds: (before: number) => number): void => {
  const [file] = readdirSync(cache)
  const path = join(cache, file!)
  const profile = JSON.parse(readFileSync(path, 'utf8')) as { readonly seconds: Record<string, number> }
  const other = Object.fromEntries(Object.entries(profile.seconds).map(([key, s]) => [key, seconds(s)]))
  writeFileSync(path, JSON.stringify({ ...profile, seconds: other }))
}

const stated = statedSeconds(2)
const hasCpu = loadNative().deviceInfo().devices.includes('cpu')
const onCpu = hasCpu ? test : test.skip
const gateOnCpu = hasCpu ? gateTest : test.skip

gateOnCpu('with fixed algorithms a plan is the same to the byte whatever was measured, and nothing is measured for it', () => {
  const answers = fewOrAll(['empty', 'other'], ['empty', 'measured', 'other']).map((name) => {
    const cache = withCache(name)
    if (name !== 'empty') stagedWith({ strategy: 'in-core' })
    if (name === 'other') poisoned(cache, (s) => s * (1 + 99 * Math.random()))
    const of = (o: StagingOptions): string => encodePlan(stagedWith({ algorithms: 'fixed', ...o }).staged.plan)
    const least = stageNamed(MODEL[0], { ...MODEL[1], algorithms: 'fixed', strategy: 'tiled', budget: 2 ** 21 })
    if (isRight(least) || least.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
    const { smallestBytes } = least.left
    if (name === 'empty') assert.equal(readdirSync(cache), [])
    return {
      smallestBytes,
      plans: ['auto'].map((strategy) => of({ strategy, budget: 80 * 2 ** 20 })),
      least: of({ strategy: 'tiled', budget: smallestBytes }),
    } // prettier-ignore
  })
  assert.ok(answers.every((a) => JSON.stringify(a) === JSON.stringify(answers[0])))
})

onCpu('stated times are of no device that is measured, and follow the number of threads', () => {
  const call: CallShapes = {
    ins: [
      [1, 64, 58, 58],
      [64, 64, 3, 3],
    ],
    outs: [[1, 64, 56, 56]],
  }
  const attrs = {
    strideH: 1,
    strideW: 1,
    padTop: 1,
    padLeft: 1,
    padBottom: 1,
    padRight: 1,
    dilationH: 1,
    dilationW: 1,
    groups: 1,
  }
  const [one, two] = [1, 2].map((threads) => statedSeconds(threads)('conv2d', attrs, call))
  assert.ok(one! > 1.5 * two! && one! <= 2 * two!, `${one} ${two}`)
  // Half a gigaflop on two threads: between a millisecond on a fast machine and the least stated time.
  assert.ok(two! > 1e-5 && two! < 1e-2, String(two))
  const fixed = machineNamed('cpu', { algorithms: 'fixed', threads: 2 })
  assert.ok(
    isRight(fixed) && fixed.right.seconds('conv2d', attrs, call) === two && fixed.right.timesOf({} as never) === undefined,
  )
})

test('an algorithm without a stated cost costs as much as the first one, unless it can skip padding', () => {
  const dilated = (d: number, n: number): readonly [number, number] => {
    const attrs = {
      strideH: 1,
      strideW: 1,
      padTop: d,
      padLeft: d,
      padBottom: d,
      padRight: d,
      dilationH: d,
      dilationW: d,
      groups: 1,
    }
    const s: CallShapes = {
      ins: [
        [2, 256, n, n],
        [256, 256, 3, 3],
      ],
      outs: [[2, 256, n, n]],
    } // prettier-ignore
    return [stated('conv2d', attrs, s), stated('conv2d', attrs, s, 2)]
  }
  const [wide, wideTaps] = dilated(24, 16)
  assert.ok(wideTaps < 0.3 * wide, `${wideTaps} of ${wide}`)
  const [narrow, narrowTaps] = dilated(2, 128)
  assert.ok(narrowTaps > narrow, `${narrowTaps} of ${narrow}`)
})

// ---------------------------------------------------------------- estimates

const MEASURED_SLOWER = 3
/** A machine with three times the stated times. */
const slower = (known: Measurements, patienceSeconds: number, more: Partial<Guesses> = {}): { t: Timer; calls: string[] } => {
  const calls: string[] = []
  const measure = (c: {
    readonly outs: readonly { readonly dims: readonly number[] }[]
    readonly ins: readonly { readonly dims: readonly number[] }[]
    readonly kind: string | number
  }) => {
    // prettier-ignore
    calls.push(`${c.kind}`)
    const s = { ins: c.ins.map((o) => o.dims), outs: c.outs.map((o) => o.dims) }
    return { seconds: MEASURED_SLOWER * stated(s.ins.length === 1 ? 'copy' : 'conv2d', {}, s), quiet: true }
  }
  const guesses = {
    stated: (kind: string, attrs: object, s: CallShapes, way: number) => stated(kind, attrs as never, s, way),
    isInScale: true,
    ...more,
  } // prettier-ignore
  return { t: timer(known, measure, 'f32', { ...CPU_SAMPLES, patienceSeconds }, undefined, guesses), calls }
}
const rows = (n: number): CallShapes => ({ ins: [[1, 32, n, 64]], outs: [[1, 32, n, 64]] })

test('a time that is not measured is the stated time, scaled by one measured call of each kind', () => {
  const known: Measurements = new Map()
  const { t, calls } = slower(known, -1)
  for (const n of [16, 24, 32]) {
    const seconds = t.seconds('relu', { slope: 0 }, rows(n))
    assert.ok(Math.abs(seconds / (MEASURED_SLOWER * stated('relu', { slope: 0 }, rows(n))) - 1) < 1e-6, String(seconds))
    assert.is(t.howKnown('relu', { slope: 0 }, rows(n)), 'estimated')
  }
  assert.is(calls.length, 1)
  assert.is(known.size, 1)
})

test('estimated calls are measured later, in order, and estimates follow the nearest measured call', () => {
  const known: Measurements = new Map()
  const { t, calls } = slower(known, -1)
  for (const n of [16, 24, 32]) t.seconds('relu', { slope: 0 }, rows(n))
  t.measureMore(0)
  assert.is(calls.length, 1)
  t.measureMore(60)
  assert.is(calls.length, 4)
  for (const n of [16, 24, 32]) assert.is(t.howKnown('relu', { slope: 0 }, rows(n)), 'measured')
  t.measureMore(60)
  assert.is(calls.length, 4)
  for (const key of known.keys()) if (key.startsWith('relu')) known.set(key, 1)
  assert.is(t.seconds('relu', { slope: 0 }, rows(16)), 1)
  const like = t.seconds('relu', { slope: 0 }, rows(20))
  assert.ok(like > 0.9 && like < 1.5, `as long as its like: ${like}`)
})

test('the time of a call within steps replaces an estimate, but not a measurement', () => {
  const known: Measurements = new Map()
  const inSteps = (key: string): number | undefined => (key.startsWith('relu') ? 0.5 : undefined)
  const { t } = slower(known, -1, { inSteps })
  assert.is(t.seconds('relu', { slope: 0 }, rows(16)), 0.5)
  assert.is(t.howKnown('relu', { slope: 0 }, rows(16)), 'measured')
  t.measureMore(60)
  assert.ok(t.seconds('relu', { slope: 0 }, rows(16)) < 0.5)
})

// ---------------------------------------------------------------- runs

gateOnCpu('a first plan estimates most of its calls and says so; its run leaves measurements to the next', async () => {
  const cache = withCache('first')
  const { named, staged } = stagedWith({ budget: 80 * 2 ** 20 })
  const { callTimes, measuringSeconds, planningSeconds } = staged.staging
  assert.ok(callTimes!.estimated > 0 && callTimes!.measured + callTimes!.roughly > 0, JSON.stringify(callTimes))
  assert.ok(measuringSeconds > 0 && planningSeconds > measuringSeconds)
  const checkpointDir = join(folder, 'run')
  const run = { steps: FULL ? 6 : 2, checkpointDir, checkpointEvery: FULL ? 3 : 1 }
  const first = await train(named.model, staged, run)
  assert.ok(existsSync(join(checkpointDir, 'plan.json')))
  // Independent of new measurements: a resumed run has its first plan.
  poisoned(cache, (s) => s * (1 + 99 * Math.random()))
  const again = stagedWith({ budget: 80 * 2 ** 20, resumes: checkpointDir })
  assert.is(first.steps, run.steps)
  const chosen = ({ plan }: typeof staged): string =>
    encodePlan({ ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: 0 })) })
  assert.ok(chosen(again.staged) === chosen(staged))
  // Another budget is another plan, and the run says so.
  const other = stagedWith({ budget: 64 * 2 ** 20, resumes: checkpointDir })
  assert.is(other.staged.plan.budgetBytes, 64 * 2 ** 20)
  const goesOn = async (staged: Staged, steps: number): Promise<string> => {
    const notes: string[] = []
    await train(named.model, staged, { ...run, steps, resume: true, onNote: (text) => notes.push(text) })
    return notes.join('\n')
  }
  assert.is(await goesOn(again.staged, run.steps + 1), '')
  assert.match(
    await goesOn(other.staged, run.steps + 2),
    /^bits may differ .*: the plan differs from the first plan of the run, .*plan\.json$/,
  )
  writeFileSync(join(checkpointDir, 'plan.json'), '{')
  assert.match(
    await goesOn(other.staged, run.steps + 3),
    /^bits may differ .*: the first plan of the run, .*plan\.json, cannot be read$/,
  )
})

test.run()
