// The addon's Session on a hand-written tape: training, state by name, progress, cancelling, faults.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  loadNative,
  type NativeFile,
  type NativeProgress,
  type NativeSession,
  type NativeSource,
  type SessionOptions,
} from '../../src/device/native'
import { BATCH, CHANNELS, CLASSES, classifierTape } from './tapes'

const { Session } = loadNative()
const tape = classifierTape()
const source: NativeSource = { kind: 'synthetic', seed: 4, samples: 2, classes: CLASSES }

const open = (options: SessionOptions = {}): NativeSession => {
  const s = new Session(tape, { device: 'ref', ...options })
  s.init('head.weight', 7)
  return s
}

const rejects = async (p: Promise<unknown>, says: RegExp): Promise<void> => {
  const e = await p.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  assert.instance(e, Error)
  assert.match((e as Error).message, says)
}

const inTemporary = async (use: (directory: string) => Promise<void> | void): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), 'spillway-session-'))
  try {
    await use(directory)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

test('a session lists its values by name', () => {
  const s = open()
  assert.equal(s.bindings(), [
    { name: 'head.weight', role: 'param', dtype: 'f32', shape: [CLASSES, CHANNELS] },
    { name: 'image', role: 'input', dtype: 'f32', shape: [BATCH, CHANNELS, 1, 1] },
    { name: 'labels', role: 'target', dtype: 'i32', shape: [BATCH, 1, 1, 1] },
    { name: 'loss', role: 'loss', dtype: 'f32', shape: [1] },
  ])
  assert.is(s.facts().tierBytes, BATCH * CHANNELS * 4)
  s.dispose()
})

test('a session trains and reports each step with its seconds', async () => {
  const s = open({ timeline: true })
  const seen: NativeProgress[] = []
  const m = await s.run({ steps: 6, source }, (p) => seen.push(p))
  assert.is(m.cancelled, false)
  assert.is(m.steps.length, 6)
  const losses = m.steps.map((x) => x.loss)
  assert.ok(Math.abs(losses[0]! - Math.log(CLASSES)) < 12, `${losses[0]}`)
  assert.ok(losses[5]! < losses[0]! * 0.9, losses.join())
  assert.equal(
    seen.filter((p) => p.phase === 'step').map((p) => p.step),
    [1, 2, 3, 4, 5, 6],
  )
  assert.is(m.steps[0]!.bytesOut, BATCH * CHANNELS * 4)
  assert.is(m.arenaPeakBytes, s.facts().peakBytes)
  assert.ok(m.arenaFileBytes <= m.arenaPeakBytes)
  assert.is(m.timeline!.spans.filter((x) => x.stream === 'compute').length, 6)
  assert.ok(m.secondsByKind.linear! > 0)
  s.dispose()
})

test('a run in chunks with the state carried over is the run in one', async () => {
  const whole = open()
  await whole.run({ steps: 4, source })
  const first = open()
  await first.run({ steps: 2, source })
  const weights = first.read('head.weight')
  first.dispose()
  const second = open()
  second.write('head.weight', weights)
  await second.run({ steps: 2, firstStep: 3, source })
  assert.equal(second.read('head.weight'), whole.read('head.weight'))
  whole.dispose()
  second.dispose()
})

test('training with a spill file has the same weights and leaves no file', () =>
  inTemporary(async (directory) => {
    const ram = open(),
      disk = open({ spill: directory })
    await ram.run({ steps: 2, source })
    const m = await disk.run({ steps: 2, source })
    assert.ok(m.diskBytes >= BATCH * CHANNELS * 4)
    assert.equal(disk.read('head.weight'), ram.read('head.weight'))
    assert.equal(readdirSync(directory), [])
    ram.dispose()
    disk.dispose()
  }))

test('a run can set a factor of the learning rate for each step', async () => {
  const after = async (steps: number, rates?: Float64Array): Promise<Uint8Array> => {
    const s = open()
    await s.run({ steps, source, ...(rates ? { rates } : {}) })
    const weights = s.read('head.weight')
    s.dispose()
    return weights
  }
  const untouched = open()
  assert.equal(await after(2, new Float64Array(2)), untouched.read('head.weight'))
  assert.equal(await after(2, Float64Array.of(1, 1)), await after(2), 'bit for bit')
  assert.equal(await after(2, Float64Array.of(1, 0)), await after(1))
  assert.not.equal(await after(1, Float64Array.of(0.5)), await after(1))
  untouched.dispose()
})

test('factors of the learning rate are refused where they are not one for each step, or not finite', async () => {
  const s = open()
  const given = (rates: unknown): Promise<unknown> =>
    Promise.resolve().then(() => s.run({ steps: 2, source, rates: rates as Float64Array }))
  await rejects(given(Float64Array.of(1)), /a run of 2 steps has 1 learning rate factors/)
  await rejects(given(new Float64Array(0)), /give one number per step/)
  await rejects(given(Float64Array.of(1, Number.NaN)), /factor of step 2 is nan/)
  await rejects(given(Float64Array.of(-1, 1)), /factor of step 1 is -1/)
  await rejects(given([1, 1]), /must be a Float64Array/)
  s.dispose()
})

test('bytes with channels last are scaled and shifted by channel', () =>
  inTemporary(async (directory) => {
    const bytes = new Uint8Array(2 * CHANNELS).map((_, i) => 37 * i)
    const floats = Float32Array.from(bytes, (raw) => raw * 0.5 - 1)
    const at = (name: string): string => join(directory, name)
    writeFileSync(at('bytes'), bytes)
    writeFileSync(at('floats'), new Uint8Array(floats.buffer))
    writeFileSync(at('labels'), new Uint8Array(new Int32Array([2, 0]).buffer))
    const labels = { path: at('labels'), byteOffset: 0, dtype: 'i32', shape: [2] } as const
    const after = async (image: NativeFile): Promise<Uint8Array> => {
      const s = open()
      await s.run({ steps: 1, source: { kind: 'files', files: { image, labels } } })
      const weights = s.read('head.weight')
      s.dispose()
      return weights
    }
    const raw = { path: at('bytes'), byteOffset: 0, dtype: 'u8', scale: 0.5, shift: -1 } as const
    const expected = await after({ path: at('floats'), byteOffset: 0, dtype: 'f32', shape: [2, CHANNELS] })
    assert.equal(await after({ ...raw, shape: [2, 1, 1, CHANNELS], layout: 'NHWC' }), expected)
    assert.equal(await after({ ...raw, shape: [2, CHANNELS, 1, 1] }), expected)
  }))

test('reads data from files', () =>
  inTemporary(async (directory) => {
    const x = new Float32Array(2 * CHANNELS).map((_, i) => Math.sin(i)),
      y = new BigInt64Array([2n, 0n])
    const [image, labels] = [join(directory, 'x'), join(directory, 'y')]
    writeFileSync(image, new Uint8Array(x.buffer))
    writeFileSync(labels, new Uint8Array(y.buffer))
    const files = {
      image: { path: image, byteOffset: 0, dtype: 'f32', shape: [2, CHANNELS] },
      labels: { path: labels, byteOffset: 0, dtype: 'i64', shape: [2] },
    } as const
    const s = open()
    s.write('head.weight', new Uint8Array(CLASSES * CHANNELS * 4))
    const m = await s.run({ steps: 1, source: { kind: 'files', files } })
    assert.ok(Math.abs(m.steps[0]!.loss - Math.log(CLASSES)) < 1e-6)
    await rejects(
      s.run({ steps: 1, source: { kind: 'files', files: { image: files.image } } as never }),
      /'labels' is an input of the plan, but no file/,
    )
    await rejects(
      s.run({ steps: 1, source: { kind: 'files', files: { ...files, image: { ...files.image, shape: [2, 5] } } } }),
      /samples of \[5,1,1\], but 'image' takes/,
    )
    s.dispose()
  }))

test('cancels at once in the middle of a step, and after the step', async () => {
  const slow = { outBytesPerSecond: 4e3 } // ten minutes a step: a run that waited for it would be stopped with this file
  const s = open({ throttle: slow })
  const run = s.run({ steps: 100, source })
  setTimeout(() => s.cancel(), 100)
  const m = await run
  assert.ok(m.cancelled && m.torn && m.steps.length === 0)
  assert.throws(() => s.read('head.weight'), /open a new session/)
  await rejects(s.run({ steps: 1, source }), /open a new session/)
  s.dispose()
  const whole = open({ throttle: { outBytesPerSecond: 12e6 } })
  const n = await whole.run({ steps: 100, source }, ({ phase }) => {
    if (phase === 'step') whole.cancel('step')
  })
  assert.ok(n.cancelled && !n.torn && n.steps.length >= 1 && n.steps.length < 100, `${n.steps.length}`)
  assert.is(whole.read('head.weight').length, CLASSES * CHANNELS * 4)
  whole.dispose()
})

test('an exception in the progress callback ends the run and is rethrown', async () => {
  const s = open()
  await rejects(
    s.run({ steps: 1000, source }, () => {
      throw new Error('enough')
    }),
    /enough/,
  )
  s.dispose()
})

test('no step is lost when JavaScript is slower than the run', async () => {
  const s = new Session(tape, { device: 'null' })
  s.init('head.weight', 1)
  let steps = 0
  await s.run({ steps: 150, source: { ...source, samples: 1 } }, (p) => {
    if (p.phase !== 'step') return
    steps++
    const until = performance.now() + 1
    while (performance.now() < until);
  })
  assert.is(steps, 150)
  s.dispose()
})

test('disposing of a running session ends the run', async () => {
  const s = open({ throttle: { outBytesPerSecond: 1e5 } })
  const run = s.run({ steps: 100, source })
  s.dispose()
  const m = await run
  assert.ok(m.cancelled)
  assert.throws(() => s.bindings(), /the session is closed/)
  s.dispose()
})

test('state is out of reach while a run is active', async () => {
  const s = open({ throttle: { outBytesPerSecond: 10e6 } })
  const run = s.run({ steps: 2, source })
  assert.throws(() => s.read('head.weight'), /a run is active/)
  assert.throws(() => s.write('head.weight', new Uint8Array(4)), /a run is active/)
  assert.throws(() => s.init('head.weight', 1), /a run is active/)
  await rejects(s.run({ steps: 1, source }), /a run is active/)
  assert.is((await run).steps.length, 2)
  s.dispose()
})

const WRONG: readonly (readonly [string, () => unknown, RegExp])[] = [
  ['no tape', () => new Session(undefined as never), /tape must be a Uint8Array/],
  ['an empty tape', () => new Session(new Uint8Array(0), { device: 'null' }), /the tape has 0 bytes/],
  [
    'a flipped bit',
    () =>
      new Session(
        tape.map((b, i) => (i === 300 ? b ^ 1 : b)),
        { device: 'null' },
      ),
    /checksum/,
  ],
  ['another device', () => new Session(tape, { device: 'abacus' }), /there is no device 'abacus'/],
  [
    'a spill directory that is not there',
    () => new Session(tape, { device: 'null', spill: '/nonexistent/x' }),
    /spill directory/,
  ],
  [
    'threads that are no number',
    () => new Session(tape, { device: 'null', threads: 'two' as never }),
    /threads must be a whole number/,
  ],
  ['a call without new', () => (Session as unknown as () => void)(), /new|constructor/i],
]
for (const [what, act, says] of WRONG) test(`refuses ${what}`, () => assert.throws(act, says))

test('refuses wrong arguments of its methods', async () => {
  const s = open()
  assert.throws(() => s.init('nobody', 1), /the plan has no value named 'nobody'/)
  assert.throws(() => s.init('head.weight', -1), /seed must be a whole number/)
  assert.throws(() => s.init('image', 1), /neither parameter nor state/)
  assert.throws(() => s.read(5 as never), /name must be a string/)
  assert.throws(() => s.write('head.weight', new Uint8Array(3)), /has \d+ bytes, not 3/)
  assert.throws(() => s.write('head.weight', 'x' as never), /must be a Uint8Array/)
  assert.throws(() => s.cancel('later' as never), /'now' or 'step'/)
  await rejects(s.run({ steps: 1 } as never), /source must be an object/)
  await rejects(s.run({ steps: 1.5, source }), /steps must be a whole number/)
  await rejects(s.run({ steps: 1, firstStep: 0, source }), /start at 1/)
  await rejects(s.run({ steps: 1, source: { kind: 'synthetic', samples: 0 } }), /at least 1/)
  await rejects(s.run({ steps: 1, source: { kind: 'oracle' } as never }), /synthetic, files, slots or bands/)
  const method = s.read as (name: string) => unknown
  assert.throws(() => method.call({}, 'head.weight'))
  s.dispose()
})

test.run()
