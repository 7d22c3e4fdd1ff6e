// Event files and tables of steps, read back: records and checksums by a reader of the test's own, the events by the definitions. The file for fixed
// numbers equals, byte for byte, the one that test/fixtures/check_tensorboard.py has had TensorBoard read (tensorboard.json).
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, globalAvgPool, linear, mib, model, mse, relu, seq, sgd, stage, train } from '../../src'
import { decoded, messageType, numberOf, type Int64 } from '../../src/files/protobuf'
import { crc32c, maskedCrc, openEvents } from '../../src/files/tfevents'
import { openStepLog } from '../../src/train/steplog'

const folder = mkdtempSync(join(tmpdir(), 'spillway-events-'))
test.after(() => rmSync(folder, { recursive: true }))

interface Event {
  readonly step: Int64
  readonly fileVersion?: string
  readonly sessionLog?: { readonly status: number } | null
  readonly summary?: {
    readonly value: readonly {
      readonly tag: string
      readonly simpleValue: number
      readonly tensor?: { readonly dtype: number; readonly stringVal: readonly Uint8Array[] } | null
      readonly metadata?: { readonly pluginData: { readonly pluginName: string } } | null
    }[]
  } | null
}

/** CRC-32C bit by bit. */
const slowCrc = (bytes: Uint8Array): number => {
  let c = 0xffffffff
  for (const b of bytes) {
    c ^= b
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0x82f63b78 : c >>> 1
  }
  return ~c >>> 0
}
const masked = (bytes: Uint8Array): number => {
  const c = slowCrc(bytes)
  return Number((BigInt((c >>> 15) | (c << 17)) + 0xa282ead8n) & 0xffffffffn)
}

const eventsIn = (file: string): readonly Event[] => {
  const bytes = readFileSync(file)
  const events: Event[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at))
    assert.is(bytes.readUInt32LE(at + 8), masked(bytes.subarray(at, at + 8)))
    const data = bytes.subarray(at + 12, at + 12 + length)
    assert.is(bytes.readUInt32LE(at + 12 + length), masked(data))
    const event = decoded<Event>(messageType('tensorboard', 'tensorboard.Event'), data, {
      depth: 9,
      messages: 1000,
      elements: 1000,
    })
    if (isLeft(event)) throw new Error(event.left)
    events.push(event.right)
    at += length + 16
  }
  return events
}
const onlyFile = (at: string): string => join(at, readdirSync(at)[0]!)

test('checksums are those of the standard', () => {
  // RFC 3720, B.4.
  assert.is(crc32c(new Uint8Array(32)), 0x8a9136aa)
  assert.is(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43)
  assert.is(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e)
  assert.is(maskedCrc(Buffer.from('123456789')), masked(Buffer.from('123456789')))
})

interface Checked {
  readonly sha256: string
  readonly scalars: Readonly<Record<string, readonly (readonly [step: number, value: number])[]>>
  readonly texts: Readonly<Record<string, string>>
}
const checked = JSON.parse(readFileSync(join(__dirname, '../fixtures/tensorboard.json'), 'utf8')) as Checked

test('scalars and texts as TensorBoard has read them', () => {
  const at = join(folder, 'fixed')
  const now = Date.now
  try {
    Date.now = () => 1_700_000_000_000
    const events = openEvents(at, 2)
    if (isLeft(events)) throw new Error('not opened')
    for (const [tag, text] of Object.entries(checked.texts)) events.right.text(tag, text)
    const steps = Object.values(checked.scalars)[0]!.map(([step]) => step)
    for (const [i, step] of steps.entries())
      events.right.scalars(step, Object.fromEntries(Object.entries(checked.scalars).map(([tag, points]) => [tag, points[i]![1]])))
    events.right.close()
  } finally {
    Date.now = now
  }
  assert.is(
    createHash('sha256')
      .update(readFileSync(onlyFile(at)))
      .digest('hex'),
    checked.sha256,
  )
  const [version, start, text] = eventsIn(onlyFile(at))
  assert.is(version!.fileVersion, 'brain.Event:2')
  assert.is(start!.sessionLog!.status, 1)
  assert.is(numberOf(start!.step), 3)
  assert.is(text!.summary!.value[0]!.metadata!.pluginData.pluginName, 'text')
})

const net = model([2, 3, 8, 8], seq(conv2d('a', 4, 3), relu(), globalAvgPool(), linear('b', 2)))

test('a run: a scalar a step, the plan as text, a row a step; resumed, each step once', async () => {
  const plan = stage(net, { loss: mse, optimizer: sgd({ lr: 0.25 }), budget: mib(64), machine: 'ref', strategy: 'in-core' })
  const tensorboard = join(folder, 'run')
  const { losses } = await train(net, plan, { steps: 3, tensorboard, log: join(folder, 'steps.csv') })
  const [, text, ...steps] = eventsIn(onlyFile(tensorboard))
  const [plan0] = text!.summary!.value
  assert.is(plan0!.tag, 'plan')
  assert.is(plan0!.tensor!.dtype, 7)
  assert.match(Buffer.from(plan0!.tensor!.stringVal[0]!).toString(), /^ {4}.*in-core/)
  assert.equal(
    steps.map((e) => [numberOf(e.step), ...e.summary!.value.map((v) => v.tag)]),
    [1, 2, 3].map((n) => [n, 'loss', 'seconds', 'lr']),
  )
  assert.equal(
    steps.map((e) => e.summary!.value[0]!.simpleValue),
    losses.map(Math.fround),
  )
  assert.is(steps[0]!.summary!.value[2]!.simpleValue, 0.25)
  const rows = readFileSync(join(folder, 'steps.csv'), 'utf8').split('\n')
  assert.is(rows[0], 'step,loss,seconds,time,lr')
  assert.equal(
    rows.slice(1, 4).map((r) => r.split(',').slice(0, 2).map(Number)),
    losses.map((l, i) => [i + 1, l]),
  )
  // As a resume after step 2 opens it: a cut line goes, too.
  const again = openStepLog({ log: join(folder, 'steps.csv') }, plan, 2)
  if (isLeft(again)) throw new Error('not opened')
  again.right.step({ step: 3, loss: 0.5, seconds: 1, lr: 0.125, factor: 0.5 })
  again.right.close()
  assert.match(
    readFileSync(join(folder, 'steps.csv'), 'utf8'),
    /^step,loss,seconds,time,lr\n1,.*Z,0\.25\n2,.*Z,0\.25\n3,0\.5,1,.*Z,0\.125\n$/,
  )
})
test.run()
