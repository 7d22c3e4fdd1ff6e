// own process
// Measured links: on a quiet machine at once, on a busy one the best of a few, within physical bounds. Results kept between processes: for the build
// of their measurement, and for few builds.
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openProfile, profileWords, type Speeds, speedsOf } from '../../../src/machine/profile'
import { watched } from '../../../src/machine/quiet'

const speeds = (rate: number, beside: number): Speeds => ({
  outBytesPerSecond: rate,
  inBytesPerSecond: 2 * rate,
  fullDuplex: false,
  beside: { copies: beside, calls: beside },
})

/** Answers one after the other; the machine was busy during the first `busy` ones. */
const told = (answers: readonly Speeds[], busy: number) => {
  let asked = 0
  const watch: typeof watched = (f) => ({ answer: f(), quiet: asked > busy })
  return { asked: () => asked, found: () => speedsOf(() => answers[asked++]!, watch) }
}

test('a quiet measurement is used unchanged', () => {
  const t = told([speeds(5e9, 3), speeds(9e9, 1)], 0)
  assert.equal(t.found(), { speeds: speeds(5e9, 3), quiet: true })
  assert.is(t.asked(), 1)
})

test('one that something disturbed is made again', () => {
  const t = told([speeds(1e9, 9), speeds(5e9, 1.5)], 1)
  assert.equal(t.found(), { speeds: speeds(5e9, 1.5), quiet: true })
})

test('on a machine that is never quiet, the best measurement is used, within the limit of copies beside compute', () => {
  const t = told([speeds(1e9, 9), speeds(4e9, 12), speeds(3e9, 5)], 3)
  assert.equal(t.found(), { speeds: speeds(4e9, 2), quiet: false })
  assert.is(t.asked(), 3)
})

/** With a cache folder of its own. */
const inCache = (f: (folder: string) => void): void => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-profile-'))
  const before = process.env.XDG_CACHE_HOME
  process.env.XDG_CACHE_HOME = folder
  try {
    f(join(folder, 'spillway'))
  } finally {
    if (before === undefined) delete process.env.XDG_CACHE_HOME
    else process.env.XDG_CACHE_HOME = before
    rmSync(folder, { recursive: true })
  }
}

test('measurements are valid for one build and one thread count', () =>
  inCache(() => {
    const first = openProfile('build a', 2)
    first.measurements.set('relu', 1e-3)
    first.save()
    assert.equal([...openProfile('build a', 2).measurements], [['relu', 1e-3]])
    assert.is(openProfile('build b', 2).measurements.size, 0)
    assert.is(openProfile('build a', 1).measurements.size, 0)
    assert.match(profileWords('build a', 2), /build a: 1 call times, 0 in steps, and 0 links in .*\.json$/)
    assert.match(profileWords('build b', 2), /build b: nothing measured yet$/)
  }))

test('rough measurements are marked and used, until measurements of a quiet machine replace them', () =>
  inCache(() => {
    const words = (): string => profileWords('build r', 2).split(': ')[1]!
    const busy = openProfile('build r', 2, () => false)
    busy.rough.set('conv', 2e-3)
    busy.save()
    assert.match(words(), /^0 \+ 1 rough call times, 0 in steps, and 0 links in/)
    const next = openProfile('build r', 2, () => false)
    assert.is(next.rough.get('conv'), 2e-3)
    next.measurements.set('conv', 1e-3)
    next.save()
    assert.match(words(), /^1 call times, 0 in steps/)
  }))

test('times from steps of another process are kept beside those of this process', () =>
  inCache(() => {
    const seed = openProfile('build a', 2)
    for (const [key, seconds] of [
      ['conv', 3],
      ['relu', 2],
    ] as const)
      seed.inSteps.set(key, [seconds])
    seed.save()
    const [ours, theirs] = [openProfile('build a', 2), openProfile('build a', 2)]
    theirs.inSteps.set('conv', [3, 1]).set('add', [4])
    theirs.save()
    ours.inSteps.set('relu', [2, 1.5])
    ours.save()
    assert.equal(Object.fromEntries(openProfile('build a', 2).inSteps), { conv: [3, 1], relu: [2, 1.5], add: [4] })
    theirs.inSteps.set('conv', [0.5])
    theirs.save()
    ours.save()
    assert.equal(Object.fromEntries(openProfile('build a', 2).inSteps), { conv: [0.5], relu: [2, 1.5], add: [4] })
  }))

test('a new build takes the place of the oldest', () =>
  inCache((folder) => {
    for (let i = 0; i < 20; i++) openProfile(`build ${i}`, 2).save()
    assert.is(readdirSync(folder).length, 12)
    assert.match(profileWords('build 19', 2), /0 call times/)
  }))

test('a process that computes beside us is noticed', async () => {
  const other = spawn(process.execPath, ['-e', 'console.log(1); for (;;);'])
  try {
    await new Promise((started) => other.stdout.once('data', started))
    const { answer, quiet } = watched(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600))
    assert.equal([answer, quiet], ['timed-out', false])
  } finally {
    other.kill('SIGKILL')
  }
})

test.run()
