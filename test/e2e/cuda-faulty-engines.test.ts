// Engines of a library that end their process: planning measures in a process of its own, and takes the other engines.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { endMeasuring, measuredApart } from '../../src/device/apart'
import { addonFile, type KernelRequest } from '../../src/device/native'
import { FAULTY_SECONDS } from '../../src/machine/timing'
import { gateTest } from '../full'

const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-faulty-'))
const env = {
  ...process.env,
  SPILLWAY_CUDA: join(dirname(addonFile()!), 'spillway_imitation.so'),
  XDG_CACHE_HOME: root,
  SPILLWAY_IMITATION_FAULTY_WAY: '1',
}
test.after(() => {
  endMeasuring()
  rmSync(root, { recursive: true })
})

/** A product of small matrices, in one of the ways of the imitated library. */
const product = (way: number): KernelRequest => ({
  device: 'cuda',
  kind: 'linear',
  attrs: [],
  ins: [{ dims: [2, 3, 1, 1] }, { dims: [4, 3] }],
  outs: [{ dims: [2, 4, 1, 1] }],
  way,
})

test('a way with a fault ends its process; the next one is measured in a new process', () => {
  Object.assign(process.env, env)
  const faulty = measuredApart(product(1))
  assert.ok(isLeft(faulty), JSON.stringify(faulty))
  assert.match(faulty.left, /was ended by a fault/, faulty.left)
  const sound = measuredApart(product(0))
  assert.ok(isRight(sound), JSON.stringify(sound))
  assert.ok(sound.right.seconds > 0)
  const illegal = measuredApart({ ...product(0), ins: [{ dims: [2, 3] }] })
  assert.ok(isLeft(illegal) && !illegal.left.includes('fault'), JSON.stringify(illegal))
})

gateTest('a network trains with the engines without a fault, and its profile remembers the faulty ones', () => {
  const trained = (way: string) => {
    const args = ['train', 'scripts/gpu/small.js', '--batch', '1', '--image', '16', '--device', 'cuda', '--steps', '2', '--json']
    const r = spawnSync(process.execPath, ['scripts/spillway.js', ...args], {
      cwd: ROOT,
      encoding: 'utf8',
      env: { ...env, SPILLWAY_IMITATION_FAULTY_WAY: way },
    })
    return { code: r.status, said: r.stdout + r.stderr }
  }
  const first = trained('1')
  assert.is(first.code, 0, first.said)
  const [profile] = readdirSync(join(root, 'spillway')).filter((name) => name.startsWith('profile-'))
  const { seconds } = JSON.parse(readFileSync(join(root, 'spillway', profile!), 'utf8')) as {
    readonly seconds: Readonly<Record<string, number>>
  }
  const faulty = Object.keys(seconds).filter((key) => seconds[key]! >= FAULTY_SECONDS)
  assert.ok(faulty.length > 0)
  assert.equal(
    faulty.filter((key) => !key.includes(' way 1')),
    [],
  )
  const again = trained('1')
  assert.is(again.code, 0, again.said)
  const sound = trained('-1')
  assert.is(sound.code, 0, sound.said)
})

test.run()
