// timeout 200
// A predictor that stays open: the bits of `predict`, one session for all calls of a size, pictures in memory, and no growth.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, convTranspose2d, crossEntropy, globalAvgPool, maxPool, model, relu, seq, skip } from '../../dsl'
import { serverFor } from '../../examples/serve'
import { folder } from '../../src/data/data'
import { openPredictor } from '../../src/predict/kept'
import { predict } from '../../src/predict/predictor'
import { stage } from '../../src/stage/stage'
import type { Staged } from '../../src/stage/staged'
import { train } from '../../src/train/trainer'
import { png } from '../src/data/png'
import { DEVICE } from './runs'
import { gateTest } from '../full'

const root = mkdtempSync(join(tmpdir(), 'spillway-predictor-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
const at = (...names: readonly string[]): string => join(root, ...names)

const classifier = model([2, 3, 16, 16], seq(conv2d('a', 8, 3), relu(), conv2d('head', 2, 1), globalAvgPool('pool')))
const unet = model(
  [1, 3, 16, 16],
  seq(conv2d('a', 4, 3), skip(maxPool('p', 2), conv2d('b', 4, 3), convTranspose2d('u', 4, 2, { stride: 2 })), conv2d('h', 2, 1)),
)
const picture = (path: string, seed: number, height: number, width: number): void => {
  mkdirSync(join(path, '..'), { recursive: true })
  const pixels = Uint8Array.from({ length: 3 * height * width }, (_, k) => (k * 37 + seed * 91) % 256)
  writeFileSync(path, png({ width, height, bits: 8, colour: 'rgb', pixels }))
}
const on = { machine: DEVICE, algorithms: 'fixed' } as const
const ranking = stage(classifier, { ...on, mode: 'predict', as: 'probabilities' })
const [weights, dense] = [at('w.safetensors'), at('unet.safetensors')]
test.before(async () => {
  for (let i = 0; i < 4; i++) picture(at('two', i % 2 ? 'dog' : 'cat', `${i}.png`), i, 16, 16)
  for (let i = 0; i < 5; i++) picture(at('photos', `${i}.png`), 7 + i, 20 + i, 30)
  await train(classifier, stage(classifier, { ...on, loss: crossEntropy }), { steps: 2, data: at('two'), save: weights })
  await train(unet, stage(unet, on), { steps: 1, save: dense })
})
const bytesOf = (i: number): Uint8Array => readFileSync(at('photos', `${i}.png`))

test('files, and the same files in memory, have the predictions of predict', async () => {
  const expected = await predict(classifier, ranking, { weights, data: at('photos') })
  const p = await openPredictor(classifier, ranking, { weights })
  const [files, held] = [await p.predict(at('photos')), await p.predict([0, 1, 2, 3, 4].map(bytesOf))]
  assert.equal(files.ranked, expected.ranked)
  assert.equal(
    held.ranked!.map(({ file, ...rest }) => rest),
    expected.ranked!.map(({ file, ...rest }) => rest),
  )
  assert.is(held.ranked![3]!.file, 'picture-3')
  assert.equal(held.classes, ['cat', 'dog'])
  const one = await p.predict(bytesOf(3))
  assert.equal([one.images, one.labels], [1, [expected.labels![3]]])
  await p.close()
})

test('calls that overlap run in turn; a bad picture fails its own call only', async () => {
  const p = await openPredictor(classifier, ranking, { weights })
  const answers = await Promise.allSettled([p.predict(bytesOf(0)), p.predict(new Uint8Array(50)), p.predict(bytesOf(1))])
  assert.equal(
    answers.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  assert.match((answers[1] as PromiseRejectedResult).reason.message, /data file picture-0 is refused: it cannot be decoded/)
  const closed = p.close()
  await closed
  const words = await p.predict(bytesOf(0)).then(
    () => 'nothing was refused',
    (e: Error) => e.message,
  )
  assert.is(words, 'the predictor is closed')
})

test('photos of several sizes, arrays and sources are predicted in any order', async () => {
  const plan = stage(unet, { ...on, mode: 'predict', as: 'classes' })
  const expected = await predict(unet, plan, { weights: dense, data: at('photos') })
  const p = await openPredictor(unet, plan, { weights: dense })
  for (const i of [0, 3, 0, 4, 1]) {
    const { outputs } = await p.predict([bytesOf(i)])
    assert.equal([outputs[0]!.shape, outputs[0]!.values], [[20 + i, 30], expected.outputs[i]!.values])
  }
  const resized = await p.predict(folder(at('photos'), { fit: 'pad' }))
  assert.equal(resized.outputs[0]!.shape, [16, 16])
  await p.close()
})

gateTest('many calls leave nothing behind', async () => {
  const p = await openPredictor(classifier, ranking, { weights })
  const call = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await p.predict(bytesOf(i % 5))
  }
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const collected = async (): Promise<number> => {
    for (let i = 0; i < 3; i++) {
      collect()
      await new Promise((resolve) => setImmediate(resolve))
    }
    return process.memoryUsage().arrayBuffers
  }
  await call(20)
  const [before, handles] = [await collected(), process.getActiveResourcesInfo().length]
  await call(200)
  assert.ok(process.getActiveResourcesInfo().length <= handles, 'more open handles')
  // A batch of 2 pictures of 16 x 16 takes 1.5 KiB: 200 calls that keep theirs would take 300 KiB and more.
  const more = (await collected()) - before
  assert.ok(more < 256 * 1024, `${more} bytes more`)
  await p.close()
})

test('a wrong call is refused at once', async () => {
  const words = (run: () => Promise<unknown>): Promise<string> =>
    run().then(
      () => 'nothing was refused',
      (e: Error) => e.message,
    )
  const training: Staged = stage(classifier, { ...on, loss: crossEntropy })
  assert.match(
    await words(() => openPredictor(classifier, training, { weights })),
    /has mode 'train', but the call needs mode 'predict': stage with mode: 'predict'/,
  )
  assert.match(await words(() => openPredictor(classifier, ranking, { weights: dense })), /does not match the model/)
  const p = await openPredictor(classifier, ranking, { weights })
  assert.match(await words(() => p.predict([])), /predict takes a path, data, or one or more image files as Uint8Array/)
  await p.close()
})

test('the example answers a posted picture with its classes', async () => {
  const p = await openPredictor(classifier, ranking, { weights })
  const server = serverFor(p).listen(0)
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const ask = async (body: Uint8Array) => {
      const response = await fetch(url, { method: 'POST', body: Buffer.from(body) as never })
      return [response.status, (await response.json()) as Record<string, unknown>] as const
    }
    const [status, { top }] = await ask(bytesOf(2))
    assert.equal([status, top], [200, (await p.predict(bytesOf(2))).ranked![0]!.top])
    const [refused, { error }] = await ask(new Uint8Array(9))
    assert.is(refused, 400)
    assert.match(String(error), /cannot be decoded/)
  } finally {
    await new Promise((resolve) => server.close(resolve))
    await p.close()
  }
})

test.run()
