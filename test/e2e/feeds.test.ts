// Data that TypeScript makes: the bits of the same data in files, in any order; how a feed is waited for, fails and is left.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { softCrossEntropy } from '../../dsl'
import { type Data, files, pick, type Sample, shard, source, split } from '../../src/data/data'
import { writeTensors } from '../../src/files/safetensors'
import { mib } from '../../src/stage/sizes'
import type { TrainOptions } from '../../src/train/options'
import type { TrainResult } from '../../src/train/result'
import { train, trainTask } from '../../src/train/trainer'
import { errorText, exitCode } from '../../src/errors/errors'
import { classifier, trunk } from './models'
import { smallestBudget, staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-feeds-'))
test.after(() => rmSync(root, { recursive: true }))
let made = 0
const folder = (): string => join(root, String(made++))

const SAMPLES = 10
const [C, H, W] = [3, 32, 32]
const SIZE = C * H * W
const plan = staged(classifier)
const run = (data: string | Data, o: Partial<TrainOptions> = {}): Promise<TrainResult> =>
  train(classifier, plan, { steps: 4, seed: 3, data, ...o })
const bits = ({ losses, weightsSha256 }: TrainResult): unknown => [losses, weightsSha256]

const raw = (i: number): Uint8Array => Uint8Array.from({ length: SIZE }, (_, k) => (k * 7 + i * 31 + ((k * i) % 13)) % 256)
const pixels = (i: number): Float32Array => Float32Array.from(raw(i), (x) => x / 128 - 1)
const read = (i: number): Sample => ({ input: pixels(i), target: i % 10 })
const own = source({ length: SAMPLES, read })

const written = (name: string, input: (i: number) => Float32Array): string => {
  const path = join(root, name)
  writeTensors(path, [
    {
      name: 'input',
      type: 'F32',
      shape: [SAMPLES, C, H, W],
      read: () => right(Buffer.concat(Array.from({ length: SAMPLES }, (_, i) => Buffer.from(input(i).buffer)))),
    },
    { name: 'target', type: 'U8', shape: [SAMPLES], read: () => right(Uint8Array.from({ length: SAMPLES }, (_, i) => i % 10)) },
  ])
  return path
}
const file = written('pairs.safetensors', pixels)

test('samples of a function have the bits of the same samples in a file, in order and shuffled', async () => {
  const inTurn = await run(file, { shuffle: false })
  assert.equal(bits(await run(own, { shuffle: false })), bits(inTurn))
  const shuffled = await run(files(file), { shuffle: true })
  assert.equal(bits(await run(own, { shuffle: true })), bits(shuffled))
  // The default.
  assert.equal(bits(await run(own)), bits(shuffled))
  assert.not.equal(shuffled.losses, inTurn.losses)
  assert.not.equal((await run(own, { shuffle: true, seed: 4 })).losses, shuffled.losses)
})

test('balanced classes of arrays: a note reports them, and arrays without a class per sample are refused', async () => {
  const notes: string[] = []
  const onNote = (text: string): void => void notes.push(text)
  const rare = pick(files(file), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].filter((i) => i < 5).concat([0, 0, 0]))
  await run(rare, { balanceClasses: true, onNote })
  assert.ok(
    notes.includes('balanced classes: each is drawn 1 or 2 times per epoch of 8; samples: 0 4, 1 1, 2 1, 3 1, 4 1'),
    notes.join('\n'),
  )
  assert.not.equal(bits(await run(file, { balanceClasses: true, seed: 4 })), bits(await run(file, { balanceClasses: true })))
  const refusal = async (data: string | Data | undefined, o: Partial<TrainOptions> = {}): Promise<string> => {
    const given = { steps: 1, balanceClasses: true, ...(data === undefined ? {} : { data }), ...o }
    const answer = await trainTask(classifier, plan, given)()
    return isLeft(answer) ? errorText(answer.left) : 'it ran'
  }
  assert.match(
    await refusal(own),
    /balanceClasses: the classes of a source are not known in advance; it needs one class per sample/,
  )
  assert.match(await refusal(undefined), /balanceClasses: synthetic samples have no classes/)
  assert.match(await refusal(files(file, { fit: 'cover' })), /balanceClasses: the classes of arrays with fit or augment/)
  assert.match(await refusal(file, { shuffle: false }), /balanceClasses draws samples in a new order .* but shuffle is false/)
})

test('a read that fills one buffer again trains like one with new arrays, at once and later, with and without augmentation', async () => {
  const buffer = new Float32Array(SIZE)
  const labels = new Int32Array(1)
  const again = (i: number): Sample => {
    buffer.set(pixels(i))
    labels[0] = i % 10
    return { input: buffer, target: labels }
  }
  const later = async (i: number): Promise<Sample> => {
    await new Promise((resolve) => setTimeout(resolve, i % 3))
    return again(i)
  }
  const views = async (i: number): Promise<Sample> => {
    const { target } = await later(i)
    return { input: new Float32Array(buffer.buffer), target: (target as Int32Array)[0]! }
  }
  for (const augment of [{}, { flip: 'both', mixup: true }] as const) {
    const staging = 'mixup' in augment ? staged(classifier, { loss: softCrossEntropy() }) : plan
    const trained = async (read: (i: number) => Sample | Promise<Sample>): Promise<unknown> =>
      bits(
        await train(classifier, staging, { steps: 4, seed: 3, shuffle: true, data: source({ length: SAMPLES, read, augment }) }),
      )
    const expected = await trained(read)
    for (const one of [again, later, views]) assert.equal(await trained(one), expected)
  }
})

test('samples as promises are requested together, unless they share memory', async () => {
  let [under, most] = [0, 0]
  const all = new Float32Array(SAMPLES * SIZE)
  for (let i = 0; i < SAMPLES; i++) all.set(pixels(i), i * SIZE)
  const parts = async (i: number): Promise<Sample> => {
    most = Math.max(most, ++under)
    await Promise.resolve()
    under--
    return { input: all.subarray(i * SIZE, (i + 1) * SIZE), target: i % 10 }
  }
  assert.equal(bits(await run(source({ length: SAMPLES, read: parts }))), bits(await run(own)))
  assert.ok(most > 1, String(most))
})

test('a part has the bits of that part alone', async () => {
  const [some, rest] = split(own, 0.5, 1)
  assert.equal(bits(await run(some, { shuffle: true })), bits(await run(split(files(file), 0.5, 1)[0], { shuffle: true })))
  assert.not.equal((await run(rest)).losses, (await run(some)).losses)
  const odd = await run(source({ length: 5, read: (i) => read(2 * i + 1) }))
  assert.equal(bits(await run(shard(files(file), 1, 2))), bits(odd))
  assert.equal(bits(await run(pick(own, [1, 3, 5, 7, 9]))), bits(odd))
})

test('bytes with channels last are scaled by mean and deviation', async () => {
  const [mean, std] = [
    [0.5, 0.4, 0.3],
    [0.2, 0.25, 0.5],
  ]
  const scaled = (i: number): Float32Array =>
    Float32Array.from(raw(i), (x, k) => {
      const c = Math.floor(k / (H * W))
      return x * (1 / std[c]! / 255) + -mean[c]! / std[c]!
    })
  const last = (i: number): Uint8Array => {
    const first = raw(i)
    return Uint8Array.from({ length: SIZE }, (_, k) => first[(k % C) * H * W + Math.floor(k / C)]!)
  }
  const expected = await run(written('scaled.safetensors', scaled))
  const bytes = source({ length: SAMPLES, layout: 'NHWC', mean, std, read: (i) => ({ input: last(i), target: i % 10 }) })
  const r = await run(bytes)
  assert.equal(bits(r), bits(expected))
  // Three batches of four samples: a byte for each number, and a label of four.
  assert.is(r.feedBytes, 3 * 4 * (SIZE + 4))
  const first = source({ length: SAMPLES, mean, std, read: (i) => ({ input: raw(i), target: i % 10 }) })
  assert.equal(bits(await run(first)), bits(expected))
})

/** Bytes that this process has read from files. */
const bytesRead = (): number => Number(/^rchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])

test('bytes in files need a quarter of the reads of floats', async () => {
  const MANY = 256
  // Other reads of the process meanwhile.
  const SLACK = 2 ** 18
  const saved = (name: string, type: 'U8' | 'F32', bytes: number): string => {
    const path = join(root, name)
    writeTensors(path, [
      { name: 'input', type, shape: [MANY, C, H, W], read: () => right(new Uint8Array(MANY * SIZE * bytes)) },
      { name: 'target', type: 'U8', shape: [MANY], read: () => right(new Uint8Array(MANY)) },
    ])
    return path
  }
  const readBy = async (path: string): Promise<number> => {
    const before = bytesRead()
    await run(files(path, { mean: [0.5] }), { steps: MANY / 4 })
    return bytesRead() - before
  }
  const [bytes, floats] = [await readBy(saved('bytes.safetensors', 'U8', 1)), await readBy(saved('floats.safetensors', 'F32', 4))]
  assert.ok(bytes > MANY * SIZE && bytes < MANY * SIZE + SLACK, `${bytes} of ${MANY * SIZE}`)
  assert.ok(floats > 4 * MANY * SIZE && floats < 4 * MANY * SIZE + SLACK, `${floats} of ${4 * MANY * SIZE}`)
})

test('an iterable is read in order, repeatedly if it can be', async () => {
  const expected = bits(await run(own, { shuffle: false }))
  function* once(): Generator<Sample> {
    for (let i = 0; i < SAMPLES; i++) yield read(i)
  }
  async function* later(): AsyncGenerator<Sample> {
    for (const sample of once()) yield await Promise.resolve(sample)
  }
  assert.equal(bits(await run(source(once))), expected)
  assert.equal(bits(await run(source(later))), expected)
  assert.equal(bits(await run(source(Array.from({ length: SAMPLES }, (_, i) => read(i))))), expected)
  const gone = await trainTask(classifier, plan, { steps: 4, data: source(once()) })()
  assert.ok(isLeft(gone))
  assert.match(errorText(gone.left), /it ended after 10 samples and cannot restart: pass a function/)
  assert.is((await run(source(once()), { steps: 2 })).losses.length, 2)
})

test('a run that is resumed in the middle of an epoch ends with the bits of one that was left alone', async () => {
  for (const data of [own, files(file), split(own, 0.7)[0]]) {
    const alone = await run(data, { steps: 7, shuffle: true })
    const checkpointDir = folder()
    await run(data, { steps: 3, shuffle: true, checkpointDir, checkpointEvery: 1 })
    const rest = await run(data, { steps: 7, shuffle: true, checkpointDir, resume: true })
    assert.equal([rest.resumedFrom, bits(rest)], [3, bits(alone)])
    const inTurn = { steps: 7, seed: 3, data, shuffle: false, checkpointDir, resume: true }
    const other = await trainTask(classifier, plan, inTurn)()
    assert.ok(isLeft(other) && other.left.tag === 'CheckpointMismatch' && /shuffled/.test(other.left.reason))
  }
  const before = folder()
  await run(own, { steps: 3, shuffle: false, checkpointDir: before, checkpointEvery: 1 })
  const now = await trainTask(classifier, plan, { steps: 7, seed: 3, data: own, checkpointDir: before, resume: true })()
  assert.ok(isLeft(now))
  assert.match(errorText(now.left), /; --no-shuffle \(shuffle: false\) continues the run in its order/)
  const stream = source(function* () {
    for (let i = 0; i < SAMPLES; i++) yield read(i)
  })
  const checkpointDir = folder()
  await run(stream, { steps: 3, checkpointDir })
  assert.equal(
    bits(await run(stream, { steps: 7, checkpointDir, resume: true })),
    bits(await run(own, { steps: 7, shuffle: false })),
  )
})

test('batches are prepared ahead, up to the given count', async () => {
  for (const prefetch of [1, 3]) {
    let done = 0
    let most = 0
    const asked: number[] = []
    await run(
      source({
        length: SAMPLES,
        read: (i) => {
          asked.push(i)
          most = Math.max(most, Math.ceil(asked.length / 4) - done)
          return read(i)
        },
      }),
      {
        steps: 8,
        prefetch,
        checkpointDir: folder(),
        checkpointEvery: 3,
        onProgress: (p) => {
          if (p.kind === 'step') done = p.step
        },
      },
    )
    // The first sample is read once more, for its stored type.
    assert.is(asked.length, 8 * 4 + 1)
    assert.ok(most > 1 && most <= prefetch + 2, `${most} batches ahead of ${prefetch}`)
  }
})

test('a feed that is slower than the step is waited for, and that is counted', async () => {
  const slow = source({
    length: SAMPLES,
    read: async (i) => {
      await new Promise((resolve) => setTimeout(resolve, 300))
      return read(i)
    },
  })
  const r = await run(slow)
  assert.equal(bits(r), bits(await run(own)))
  assert.ok(r.feedSeconds > 0.2 && r.feedSeconds <= r.stallSeconds.data, `${r.feedSeconds} of ${r.stallSeconds.data}`)
})

test('copies to and from the lower tier are no waits for data', async () => {
  const budget = smallestBudget(trunk, 'swap:greedy')
  const r = await train(trunk, staged(trunk, { strategy: 'swap:greedy', budget }), { steps: 3, throttle: mib(20) })
  const waited = r.stallSeconds.data + r.stallSeconds.memory
  assert.ok(r.bytesIn > mib(5) && waited > 0.5, `${r.bytesIn} bytes, ${waited} s`)
  assert.ok(r.feedSeconds < waited / 5, `${r.feedSeconds} of ${waited}`)
})

test('an exception of read ends the run unchanged, at the first sample and later', async () => {
  for (const bad of [0, 6]) {
    const error = new TypeError('the disk is on fire')
    const failing = source({
      length: SAMPLES,
      read: async (i) => {
        if (i === bad) throw error
        return read(i)
      },
    })
    const thrown = await run(failing).then(
      () => undefined,
      (e: unknown) => e,
    )
    assert.is(thrown, error)
  }
})

test('samples that do not fit the model are refused with the reason', async () => {
  const wordsOf = async (at: number, odd: unknown): Promise<string> => {
    const data = source({ length: SAMPLES, read: (i) => (i === at ? (odd as Sample) : read(i)) })
    const r = await trainTask(classifier, plan, { steps: 4, data })()
    assert.ok(isLeft(r) && r.left.tag === 'DataRefused', JSON.stringify(r))
    return errorText(r.left)
  }
  for (const at of [0, 5]) {
    const name = `sample ${at} \\(counted from 0\\) is refused: `
    assert.match(await wordsOf(at, { input: pixels(at) }), new RegExp(`${name}target: it is missing`))
    assert.match(
      await wordsOf(at, { input: new Float32Array(7), target: 1 }),
      /input: 7 numbers, but the model takes \[3,32,32\], which has 3072/,
    )
    assert.match(
      await wordsOf(at, { input: pixels(at), target: 10 }),
      /target: 10 is not one of 10 classes \(0 to 9\); do the labels begin at 1\?/,
    )
    assert.match(await wordsOf(at, { input: pixels(at), target: 0.5 }), /target: 0.5 is not one of 10 classes/)
    assert.match(
      await wordsOf(at, { input: pixels(at), target: 1, mask: 1 }),
      /the model has no input 'mask'; allowed: input, target/,
    )
    assert.match(await wordsOf(at, undefined), /a sample must be { input, target }; found undefined/)
    assert.match(
      await wordsOf(at, { input: 'pixels', target: 1 }),
      /input: found a value of type string; allowed: one number, an array/,
    )
  }
  for (const [odd, says] of [
    [BigInt64Array.of(1n), /sample 5 .*target: found a BigInt64Array; allowed: one number, an array of numbers, a Uint8Array/],
    [1n, /target: found a value of type bigint;/],
    [null, /target: found null;/],
    [['1'], /target: found "1" at 0 of an array;/],
    [new DataView(new ArrayBuffer(1)), /target: found a DataView;/],
    [Number.NaN, /target: NaN is not one of 10 classes/],
    [-1, /target: -1 is not one of 10 classes/],
  ] as const)
    assert.match(await wordsOf(5, { input: pixels(5), target: odd }), says)
  const mixed = source({ length: SAMPLES, read: (i) => ({ input: i === 5 ? pixels(i) : raw(i), target: 1 }) })
  const r = await trainTask(classifier, plan, { steps: 4, data: mixed })()
  assert.ok(isLeft(r))
  assert.match(errorText(r.left), /sample 5 .* the first sample has bytes/)
})

test('calls that cannot be meant are refused before anything is read', async () => {
  const wordsOf = async (o: Partial<TrainOptions>): Promise<string> => {
    const r = await trainTask(classifier, plan, { steps: 1, ...o })()
    assert.ok(isLeft(r) && exitCode(r.left) === 2, JSON.stringify(r))
    return errorText(r.left)
  }
  assert.match(await wordsOf({ shuffle: true }), /shuffle needs data/)
  assert.match(await wordsOf({ data: source([read(0)]), shuffle: true }), /a stream of samples has one order/)
  assert.match(await wordsOf({ data: pick(own, [10]) }), /contains sample 10, but there are 10 samples/)
  assert.match(await wordsOf({ data: shard(pick(own, [1]), 1, 2) }), /this part of the data is empty/)
  assert.match(
    await wordsOf({ data: files(file, { mean: [1, 2] }) }),
    /the mean of the data has 2 numbers, but 'input' has 3 channels/,
  )
  assert.match(await wordsOf({ data: own, prefetch: 0 }), /prefetch is 0/)
  const thrown = (f: () => unknown): string => {
    try {
      f()
    } catch (e) {
      return (e as Error).message
    }
    return ''
  }
  assert.match(
    thrown(() => split(own, 1)),
    /allowed: numbers between 0 and 1/,
  )
  assert.match(
    thrown(() => split(source([read(0)]), 0.5)),
    /a stream of samples cannot be split/,
  )
  assert.match(
    thrown(() => shard(own, 2, 2)),
    /0 to n - 1 of n/,
  )
  assert.match(
    thrown(() => source({ length: 0, read })),
    /length is 0/,
  )
  assert.match(
    thrown(() => source({ length: 1, read, std: [0] })),
    /std is \[0\]; allowed: a list of numbers above 0/,
  )
})

test('a read that never ends does not keep a run from ending', async () => {
  for (const stuck of [0, 9]) {
    const controller = new AbortController()
    const data = source({
      length: SAMPLES,
      read: (i) =>
        i === stuck ? new Promise<Sample>(() => setTimeout(() => controller.abort(new Error('enough')), 50)) : read(i),
    })
    const thrown = await run(data, { signal: controller.signal }).then(
      () => undefined,
      (e: Error) => e.message,
    )
    assert.is(thrown, 'enough')
  }
})

test.run()
