// A plan's missing resources on this machine, in words: host memory, memory of a lower tier, space on disks; nothing for simulated machines.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq } from '../../../dsl'
import { availableBytes } from '../../../src/machine/memory'
import { lacksOf } from '../../../src/stage/room'
import type { Staged } from '../../../src/stage/staged'
import { stage } from '../../../src/stage/stage'
import { gib, mib } from '../../../src/stage/sizes'
import { PAGE_BYTES } from '../../../staging/core/bytes'
import { devices } from '../../../staging/devices'

const root = mkdtempSync(join(tmpdir(), 'spillway-room-'))
test.after(() => rmSync(root, { recursive: true }))

const here = stage(model([1, 3, 32, 32], seq(conv2d('c', 8, 3), relu())), { machine: 'null', algorithms: 'fixed' })
/** The same plan, as if it took more. */
const taking = (o: { readonly device?: number; readonly tier?: number }, machine: Partial<Staged['machine']> = {}): Staged => ({
  ...here,
  machine: { ...here.machine, ...machine },
  plan: { ...here.plan, peakPages: Math.ceil((o.device ?? PAGE_BYTES) / PAGE_BYTES), tierBytes: o.tier ?? 0 } as Staged['plan'],
})
const FAR = gib(2 ** 20)
const onDisk = { tier: { kind: 'disk', folder: join(root, 'not', 'there') } } as Partial<Staged['machine']>

/** The missing resource, if it is a single one. */
const lack = (...asked: Parameters<typeof lacksOf>): string => {
  const lacks = lacksOf(...asked)
  assert.is(lacks.length, 1, lacks.join('; '))
  return lacks[0]!
}

test('a plan that fits the free memory causes no note', () => {
  assert.equal(lacksOf(here), [])
  assert.equal(lacksOf(taking({ device: mib(64), tier: mib(64) })), [])
  assert.equal(lacksOf(taking({ device: mib(64), tier: mib(1) }, onDisk), [{ what: 'weights', path: root, bytes: 1 }]), [])
})

test('a plan larger than the free memory: the note has both sizes and a budget that fits', () => {
  const words = lack(taking({ device: FAR }))
  assert.match(
    words,
    /^this machine has [\d.]+ \wiB of free memory, but the plan needs [\d.]+ \wiB on the device: use --budget \d+/,
  )
  const budget = Number(/--budget (\d+)/.exec(words)![1])
  assert.ok(budget <= Math.max(availableBytes(), here.machine.memoryBytes), `${budget}`)
})

test('a lower tier in memory that is too large: a disk helps', () => {
  const words = lack(taking({ tier: FAR }))
  assert.match(words, /on the device and [\d.]+ \wiB of host memory: use --spill DIR to swap to a disk$/)
  assert.equal(lacksOf(taking({ tier: mib(1) }, onDisk)), [])
})

test("the device's own memory is not the host's on a GPU", () => {
  const cuda: Partial<Staged['machine']> = { device: devices.cuda }
  assert.equal(lacksOf(taking({ device: FAR }, cuda)), [])
  assert.match(lack(taking({ device: FAR, tier: FAR }, cuda)), /the plan needs [\d.]+ \wiB of host memory/)
})

test('disks that are too small: each is named once, with all that is written there', () => {
  const words = lack(taking({ tier: FAR }, onDisk), [{ what: 'checkpoints', path: root, bytes: 1 }])
  assert.match(
    words,
    new RegExp(`are free at ${join(root, 'not', 'there')} and ${root}, but the run writes .* of the spill file, `),
  )
  assert.match(words, /of checkpoints: free disk space, or choose another folder$/)
  const alone = lack(taking({}), [{ what: 'weights', path: join(root, 'w'), bytes: FAR }])
  assert.match(alone, new RegExp(`are free at ${join(root, 'w')}, but the run writes`))
})

test('a simulated machine causes no note', () =>
  assert.equal(
    lacksOf(taking({ device: FAR, tier: FAR }, { simulated: true }), [{ what: 'weights', path: root, bytes: FAR }]),
    [],
  ))

test.run()
