// timeout 300
// Runs as events, in epochs, under schedules: what is told and when, who waits for whom, and what is left when the loop is.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mse, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { SpillwayException } from '../../src/errors/errors'
import { findCheckpoint } from '../../src/train/checkpoint'
import type { FitEvent } from '../../src/train/events'
import { fit } from '../../src/train/fit'
import { cosine, type OwnSchedule } from '../../src/train/schedules'
import { train } from '../../src/train/trainer'
import { conv2d, model, relu, seq } from '../../dsl'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-fit-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))

const net = model([2, 1, 8, 8], seq(conv2d('a', 4, 3), relu(), conv2d('b', 1, 1)))
const LR = 0.25
const plan = staged(net, { loss: mse, optimizer: sgd({ lr: LR, momentum: 0.9 }), strategy: 'in-core' })
/** Five samples in batches of two: epochs end with the steps 3, 5, 8 and 10. */
const data = source({
  length: 5,
  read: (i) => ({
    input: Float32Array.from({ length: 64 }, (_, k) => Math.sin(i * 7 + k)),
    target: Float32Array.from({ length: 64 }, (_, k) => Math.cos(i * 3 + k)),
  }),
})

const all = async (events: AsyncIterable<FitEvent>): Promise<readonly FitEvent[]> => {
  const seen: FitEvent[] = []
  for await (const e of events) seen.push(e)
  return seen
}
const ofKind = <K extends FitEvent['kind']>(events: readonly FitEvent[], kind: K) =>
  events.filter((e): e is Extract<FitEvent, { readonly kind: K }> => e.kind === kind)

test('epochs end with the step of their last sample; losses are means of their steps; fit and train have the same run', async () => {
  const events = await all(fit(net, plan, { epochs: 3, data, shuffle: true, seed: 4 }))
  const result = await train(net, plan, { steps: 8, data, shuffle: true, seed: 4 })
  assert.equal(events[0], { kind: 'start', stepsDone: 0, steps: 8, stepsPerEpoch: 2.5 })
  const steps = ofKind(events, 'step')
  assert.equal(
    steps.map((e) => [e.step, e.loss, e.lr]),
    result.losses.map((loss, i) => [i + 1, loss, LR]),
  )
  const mean = (from: number, to: number): number => result.losses.slice(from, to).reduce((n, l) => n + l, 0) / (to - from)
  assert.equal(ofKind(events, 'epoch'), [
    { kind: 'epoch', epoch: 1, step: 3, loss: mean(0, 3) },
    { kind: 'epoch', epoch: 2, step: 5, loss: mean(3, 5) },
    { kind: 'epoch', epoch: 3, step: 8, loss: mean(5, 8) },
  ])
  // An epoch follows its last step, and the end is last.
  assert.equal(
    events.slice(1).map((e) => (e.kind === 'step' ? e.step : e.kind)),
    [1, 2, 3, 'epoch', 4, 5, 'epoch', 6, 7, 8, 'epoch', 'end'],
  )
  assert.is(ofKind(events, 'end')[0]!.result.weightsSha256, result.weightsSha256)
})

test('a resume counts the epochs before it', async () => {
  const checkpointDir = folder()
  const alone = await all(fit(net, plan, { epochs: 4, data }))
  const first = await all(fit(net, plan, { epochs: 1, data, checkpointDir }))
  const rest = await all(fit(net, plan, { epochs: 4, data, checkpointDir, resume: true }))
  assert.is(ofKind(first, 'step').length, 3)
  assert.equal(rest[0], { kind: 'start', stepsDone: 3, steps: 10, stepsPerEpoch: 2.5 })
  assert.equal(ofKind(rest, 'epoch'), ofKind(alone, 'epoch').slice(1))
  assert.is(ofKind(rest, 'end')[0]!.result.weightsSha256, ofKind(alone, 'end')[0]!.result.weightsSha256)
  assert.equal(
    ofKind(rest, 'checkpoint').map((e) => e.step),
    [4, 5, 6, 7, 8, 9, 10],
  )
  assert.ok(existsSync(ofKind(rest, 'checkpoint').at(-1)!.file))
})

test('leaving the loop ends the run within a step and unlocks the folder; the run resumes from its checkpoint', async () => {
  const checkpointDir = folder()
  const options = { steps: 6, data, checkpointDir, checkpointEvery: 2 } as const
  for await (const e of fit(net, plan, options)) if (e.kind === 'checkpoint') break
  const { checkpoint } = findCheckpoint(checkpointDir)
  assert.is(checkpoint?.step, 2)
  assert.is(existsSync(join(checkpointDir, 'lock.json')), false)
  const rest = await train(net, plan, { ...options, resume: true })
  assert.equal([rest.resumedFrom, rest.weightsSha256], [2, (await train(net, plan, { steps: 6, data })).weightsSha256])
})

test('an exception in the loop ends the run, too, and is rethrown unchanged', async () => {
  const own = new RangeError('enough')
  const checkpointDir = folder()
  try {
    for await (const e of fit(net, plan, { steps: 9, data, checkpointDir })) if (e.kind === 'step') throw own
    assert.unreachable('it went on')
  } catch (e) {
    assert.is(e, own)
  }
  assert.is(existsSync(join(checkpointDir, 'lock.json')), false)
})

test('a run starts with the first request for an event and waits for its reader', async () => {
  let read = 0
  const counting = source({
    length: 5,
    read: (i) => {
      read++
      return { input: new Float32Array(64).fill(i), target: new Float32Array(64) }
    },
  })
  const events = fit(net, plan, { steps: 400, data: counting, prefetch: 1 })
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.is(read, 0)
  for await (const e of events) {
    if (e.kind !== 'step') continue
    await new Promise((resolve) => setTimeout(resolve, 600))
    break
  }
  // 64 steps ahead of the reader and two batches more, of two samples each, and the one that is looked at first.
  assert.ok(read > 2 && read <= 2 * (64 + 2) + 1, `${read} samples were read`)
})

test('fit throws the errors of train: refusals and the reason of a signal', async () => {
  const thrown = async (o: object): Promise<unknown> => {
    try {
      for await (const _ of fit(net, plan, { steps: 5, ...o })) void _
    } catch (e) {
      return e
    }
    return undefined
  }
  const refused = await thrown({ steps: undefined })
  assert.ok(refused instanceof SpillwayException && /needs steps or epochs/.test(refused.message))
  const controller = new AbortController()
  const reason = new Error('lunch')
  controller.abort(reason)
  assert.is(await thrown({ signal: controller.signal }), reason)
  const later = new AbortController()
  setTimeout(() => later.abort(reason), 100)
  assert.is(await thrown({ steps: 1e6, data, signal: later.signal }), reason)
})

test('epochs of samples without a count are refused', async () => {
  const stream = source(function* () {
    yield { input: new Float32Array(64), target: new Float32Array(64) }
  })
  try {
    await train(net, plan, { epochs: 1, data: stream })
    assert.unreachable('it went on')
  } catch (e) {
    assert.match((e as Error).message, /needs the number of samples.*: use steps/)
  }
})

// ---------------------------------------------------------------- schedules

test('a constant schedule leaves the bits as they are; another one moves the rate of each step, in logs too', async () => {
  const plain = await train(net, plan, { steps: 5, data })
  const same = await train(net, plan, { steps: 5, data, schedule: () => 1 })
  assert.equal([same.losses, same.weightsSha256], [plain.losses, plain.weightsSha256])
  const log = join(root, 'steps.csv')
  const events = await all(fit(net, plan, { steps: 5, data, schedule: cosine(), warmup: 1, log }))
  const lr = [1, 1, 0.5 + Math.SQRT1_2 / 2, 0.5, 0.5 - Math.SQRT1_2 / 2].map((f) => LR * f)
  const rates = ofKind(events, 'step').map((e) => e.lr)
  lr.forEach((want, i) => assert.ok(Math.abs(rates[i]! - want) < 1e-15, `${rates}`))
  const rows = readFileSync(log, 'utf8').trim().split('\n').slice(1)
  assert.equal(
    rows.map((row) => Number(row.split(',')[4])),
    rates,
  )
  assert.is.not(ofKind(events, 'end')[0]!.result.weightsSha256, plain.weightsSha256)
})

test('a factor has the effect of another learning rate of the optimizer', async () => {
  const half = staged(net, { loss: mse, optimizer: sgd({ lr: LR / 2, momentum: 0.9 }), strategy: 'in-core' })
  const schedule: OwnSchedule = () => 0.5
  const [a, b] = [await train(net, half, { steps: 4, data }), await train(net, plan, { steps: 4, data, schedule })]
  assert.equal([b.losses, b.weightsSha256], [a.losses, a.weightsSha256])
})

test('a resumed run keeps its schedule bit for bit, or has another one, with a note', async () => {
  const checkpointDir = folder()
  const options = { data, schedule: cosine({ floor: 0.1 }), warmup: 2 }
  const alone = await train(net, plan, { steps: 8, ...options })
  const notes: string[] = []
  const onNote = (text: string): void => void notes.push(text)
  // A run of eight steps that was stopped after the fourth.
  for await (const e of fit(net, plan, { steps: 8, ...options, checkpointDir, checkpointEvery: 4 }))
    if (e.kind === 'checkpoint') break
  const rest = await train(net, plan, { steps: 8, ...options, checkpointDir, resume: true, onNote })
  assert.equal([rest.resumedFrom, rest.losses, rest.weightsSha256], [4, alone.losses, alone.weightsSha256])
  assert.equal(notes, [])
  await train(net, plan, { steps: 9, data, checkpointDir, resume: true, onNote })
  assert.equal(notes, ['the learning rate schedule was cosine floor 0.1 over 8 steps, 2 of them warm-up and is now constant'])
})

test('a schedule that returns no number ends the run with an error; its exceptions are rethrown unchanged', async () => {
  const ends = async (schedule: OwnSchedule): Promise<unknown> => {
    try {
      await train(net, plan, { steps: 4, data, schedule })
    } catch (e) {
      return e
    }
    return undefined
  }
  assert.match(((await ends(() => -1)) as Error).message, /the factor of step 1 is -1; allowed: numbers of at least 0/)
  const own = new RangeError('mine')
  assert.is(
    await ends(() => {
      throw own
    }),
    own,
  )
})

test.run()
