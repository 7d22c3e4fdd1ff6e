// timeout 200
// Predictions of images of any size: a network with skips pads them to a size that it accepts and crops its output, exact inside.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import {
  bceWithLogits,
  conv2d,
  convTranspose2d,
  crossEntropy,
  globalAvgPool,
  maxPool,
  model,
  relu,
  seq,
  skip,
  upsample,
} from '../../dsl'
import { folder, source } from '../../src/data/data'
import { pngLabels } from '../../src/data/png'
import { npyHead } from '../../src/files/npy'
import { writeTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { paddedBy } from '../../src/predict/padding'
import { predict } from '../../src/predict/predictor'
import { stage } from '../../src/stage/stage'
import { train } from '../../src/train/trainer'
import { zooEntry } from '../../src/zoo'
import type { Model } from '../../dsl'
import { png } from '../src/data/png'
import { spillwayHere } from './processes'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-anysize-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
const at = (...names: readonly string[]): string => join(root, ...names)

const unet = seq(
  conv2d('a', 6, 3),
  relu(),
  skip(
    maxPool('down1', 2),
    conv2d('b', 8, 3),
    relu(),
    skip(maxPool('down2', 2), conv2d('c', 8, 3), relu(), convTranspose2d('up2', 8, 2, { stride: 2 })),
    conv2d('d', 8, 3),
    convTranspose2d('up1', 6, 2, { stride: 2 }),
  ),
  conv2d('head', 3, 1),
)
const net = model([1, 3, 16, 16], unet)
const weights = at('unet.safetensors')
const staging = { mode: 'predict', machine: DEVICE, algorithms: 'fixed' } as const

const pixelsAt = (seed: number, height: number, width: number): Uint8Array =>
  Uint8Array.from({ length: 3 * height * width }, (_, k) => (k * 37 + seed * 91 + (k >> 4)) % 256)
const write = (path: string, height: number, width: number, pixels: Uint8Array): void => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, png({ width, height, bits: 8, colour: 'rgb', pixels }))
}
/** Rows of pixels in a larger picture, at its top left, with black around them. */
const enlarged = (pixels: Uint8Array, height: number, width: number, to: readonly [number, number]): Uint8Array => {
  const out = new Uint8Array(3 * to[0] * to[1])
  for (let y = 0; y < height; y++) out.set(pixels.subarray(3 * y * width, 3 * (y + 1) * width), 3 * y * to[1])
  return out
}

const SIZES = [
  [19, 22],
  [17, 21],
  [16, 16],
  [30, 41],
] as const
test.before(async () => {
  await train(net, stage(net, { machine: DEVICE, algorithms: 'fixed' }), { steps: 2, save: weights, onNote: () => {} })
  SIZES.forEach(([h, w], i) => {
    const pixels = pixelsAt(i, h, w)
    write(at('photos', `${i}.png`), h, w, pixels)
    const to = [4 * Math.ceil(h / 4), 4 * Math.ceil(w / 4)] as const
    write(at('padded', `${i}.png`), ...to, enlarged(pixels, h, w, to))
  })
})

/** The first rows and columns of each plane. */
const cropped = (
  { shape, values }: { readonly shape: readonly number[]; readonly values: ArrayLike<number> },
  h: number,
  w: number,
) => {
  const [c, height, width] = shape as [number, number, number]
  return Array.from({ length: c * h * w }, (_, i) => {
    const [plane, y, x] = [Math.floor(i / (h * w)), Math.floor((i % (h * w)) / w), i % w]
    return values[plane * height * width + y * width + x]!
  })
}

test('the sizes that networks accept are found', () => {
  const pad = (m: Model, height: number, width: number): readonly number[] => Object.values(paddedBy(m)({ height, width }))
  assert.equal(pad(net, 19, 22), [20, 24])
  assert.equal(pad(net, 20, 24), [20, 24])
  const zoo = zooEntry('unet')!.build([1, 3, 512, 512], 'predict')
  if (isLeft(zoo)) throw new Error('no network')
  assert.equal(pad(zoo.right as Model, 300, 200), [304, 208])
  // No skip, but the last rows of an odd image have no output.
  const halving = model([1, 3, 16, 16], seq(maxPool(2), convTranspose2d('up', 3, 2, { stride: 2 })))
  assert.equal(pad(halving, 185, 16), [186, 16])
  // Windows without padding: no size has the proportion of another.
  const valid = model([1, 3, 16, 16], seq(conv2d('a', 3, 3, { pad: 0 }), conv2d('b', 3, 3, { pad: 0 })))
  assert.equal(pad(valid, 19, 22), [19, 22])
  const classifier = model([1, 3, 16, 16], seq(conv2d('a', 3, 3, { stride: 2 }), globalAvgPool()))
  assert.equal(pad(classifier, 19, 23), [19, 23])
})

test('image files of any size have the outputs of the padded files, bit for bit', async () => {
  const { outputs } = await predict(net, stage(net, staging), { weights, data: at('photos') })
  const padded = await predict(net, stage(net, staging), { weights, data: at('padded') })
  SIZES.forEach(([h, w], i) => {
    assert.equal(outputs[i]!.shape, [3, h, w])
    assert.equal([...outputs[i]!.values], cropped(padded.outputs[i]!, h, w))
  })
})

gateTest('arrays and sources of regions of any size train in each budget', async () => {
  const [h, w] = [141, 98]
  const pixels = pixelsAt(9, h, w)
  const to = [144, 100] as const
  const floats = (bytes: Uint8Array): Float32Array => Float32Array.from(bytes, (x) => x / 255)
  const regions = (height: number, width: number, all: Float32Array) =>
    source({
      length: 1,
      size: [height, width],
      layout: 'NHWC',
      read: (_, r) => ({
        input: Float32Array.from({ length: 3 * r.height * r.width }, (_, k) => {
          const [y, x] = [Math.floor(k / (3 * r.width)), Math.floor(k / 3) % r.width]
          return all[3 * ((r.top + y) * width + r.left + x) + (k % 3)]!
        }),
      }),
    })
  const whole = await predict(net, stage(net, staging), { weights, data: regions(...to, floats(enlarged(pixels, h, w, to))) })
  const own = await predict(net, stage(net, { ...staging, budget: 2 ** 23 }), { weights, data: regions(h, w, floats(pixels)) })
  const expected = cropped(whole.outputs[0]!, h, w)
  assert.equal(own.outputs[0]!.shape, [3, h, w])
  assert.equal([...own.outputs[0]!.values], expected)
  const all = floats(pixels)
  const planes = Float32Array.from({ length: 3 * h * w }, (_, i) => all[3 * (i % (h * w)) + Math.floor(i / (h * w))]!)
  writeFileSync(at('one.npy'), Buffer.concat([npyHead('f4', [3, h, w]), Buffer.from(planes.buffer)]))
  const array = await predict(net, stage(net, staging), { weights, data: at('one.npy') })
  assert.equal([array.outputs[0]!.name, [...array.outputs[0]!.values]], ['one', expected])
  // Two bands; the second has the border.
  const tall = { height: 1201, width: 1198, to: [1204, 1200] } as const
  const bytes = pixelsAt(5, tall.height, tall.width)
  const large = enlarged(bytes, tall.height, tall.width, tall.to)
  const thin = model([1, 3, 16, 16], seq(skip(maxPool(2), maxPool(2), upsample({ scale: 4 })), conv2d('head', 1, 1)))
  const saved = at('thin.safetensors')
  await train(thin, stage(thin, { machine: DEVICE, algorithms: 'fixed' }), { steps: 1, save: saved, onNote: () => {} })
  const of = async (data: ReturnType<typeof regions>) =>
    (await predict(thin, stage(thin, staging), { weights: saved, data })).outputs[0]!
  const padded = cropped(await of(regions(...tall.to, floats(large))), tall.height, tall.width)
  const given = (await of(regions(tall.height, tall.width, floats(bytes)))).values
  assert.is(
    padded.findIndex((x, i) => x !== given[i]),
    -1,
  )
})

/** The sizes of labelled photos: two share a padded size, two share a size. */
const LABELLED = [
  [19, 22],
  [17, 21],
  [16, 16],
  [30, 41],
  [16, 16],
] as const
const classAt = (photo: number, p: number): number => (p * 7 + photo * 5 + (p >> 3)) % 3
const labelled = (): string => {
  LABELLED.forEach(([height, width], i) => {
    write(at('labelled', 'images', `${i}.png`), height, width, pixelsAt(i, height, width))
    const pixels = Uint8Array.from({ length: height * width }, (_, p) => classAt(i, p))
    mkdirSync(at('labelled', 'masks'), { recursive: true })
    writeFileSync(at('labelled', 'masks', `${i}.png`), png({ width, height, bits: 8, colour: 'grey', pixels }))
  })
  return at('labelled')
}

test("an evaluation at the photos' own size counts their own pixels, in batches of any number", async () => {
  const data = labelled()
  const { outputs } = await predict(net, stage(net, staging), { weights, data: at('labelled', 'images') })
  let [loss, right, pixels] = [0, 0, 0]
  outputs.forEach(({ values }, photo) => {
    const [h, w] = LABELLED[photo]!
    for (let p = 0; p < h * w; p++) {
      const scores = [0, 1, 2].map((c) => values[c * h * w + p]!)
      const label = classAt(photo, p)
      loss += Math.log(scores.reduce((n, x) => n + Math.exp(x), 0)) - scores[label]!
      right += scores.indexOf(Math.max(...scores)) === label ? 1 : 0
      pixels++
    }
  })
  for (const batch of [1, 2, 4] as const) {
    const m = model([batch, 3, 16, 16], unet)
    const plan = stage(m, { mode: 'evaluate', machine: DEVICE, algorithms: 'fixed', loss: crossEntropy })
    const own = await evaluate(m, plan, { weights, data: folder(data, { fit: 'own' }), metrics: ['accuracy'] })
    assert.is(own.images, LABELLED.length)
    assert.ok(Math.abs(own.loss - loss / pixels) < 1e-5, `${own.loss} ${loss / pixels}`)
    assert.ok(Math.abs(own.metrics['accuracy']! - right / pixels) < 1e-9)
  }
  const said = await spillwayHere(
    ...['evaluate', model16(), '--weights', weights, '--data', data, '--fit', 'own', '--loss', 'cross-entropy', '--json'],
    ...['--device', DEVICE, '--algorithms', 'fixed'],
  )
  assert.is(said.code, 0, said.err)
  assert.ok(Math.abs(JSON.parse(said.out).loss - loss / pixels) < 1e-5)
})
/** The network as a model file. */
const model16 = (): string => {
  const file = at('unet16.js')
  const layers = JSON.stringify(require.resolve('../../dsl'))
  writeFileSync(file, `module.exports = require(${layers}).model([1, 3, 16, 16], ${JSON.stringify(unet)})\n`)
  return file
}

test('own sizes are for labels that can be ignored, and not for training', async () => {
  const data = folder(labelled(), { fit: 'own' })
  const words = (run: () => Promise<unknown>): Promise<string> =>
    run().then(
      () => 'nothing was refused',
      (e: Error) => e.message,
    )
  const training = stage(net, { machine: DEVICE, algorithms: 'fixed', loss: crossEntropy })
  assert.match(
    await words(() => train(net, training, { steps: 1, data })),
    /fit 'own' is for evaluations and predictions: a training step has images of one size/,
  )
  const grey = model([1, 3, 16, 16], seq(unet, conv2d('one', 1, 1)))
  const saved = at('grey.safetensors')
  await train(grey, stage(grey, { machine: DEVICE, algorithms: 'fixed' }), { steps: 1, save: saved, onNote: () => {} })
  const plan = stage(grey, { mode: 'evaluate', machine: DEVICE, algorithms: 'fixed', loss: bceWithLogits })
  assert.match(
    await words(() => evaluate(grey, plan, { weights: saved, data })),
    /a photo of 19 x 22 needs a border up to 20 x 24, but the loss cannot ignore it: use another fit, or cross-entropy or dice/,
  )
})

test('masks and overlays have the size of the photo', async () => {
  const plan = stage(net, { ...staging, as: 'classes' })
  const { files } = await predict(net, plan, { weights, data: at('photos'), out: at('masks'), format: 'png' })
  const { outputs } = await predict(net, plan, { weights, data: at('photos') })
  files.forEach((file, i) => {
    const labels = pngLabels(readFileSync(file), 10_000)
    if (isLeft(labels)) throw new Error(labels.left)
    assert.equal([labels.right.height, labels.right.width], [...SIZES[i]!])
    assert.equal([...labels.right.pixels], [...outputs[i]!.values])
  })
  await predict(net, plan, { weights, data: at('photos'), out: at('overlays'), format: 'overlay' })
  const overlay = await predict(model([1, 3, 16, 16], relu()), stage(model([1, 3, 16, 16], relu()), staging), {
    weights: emptyWeights(),
    data: at('overlays'),
  })
  const colours = [[], [128, 0, 0], [0, 128, 0]] as const
  SIZES.forEach(([h, w], i) => {
    const [pixels, tinted] = [pixelsAt(i, h, w), overlay.outputs[i]!.values]
    for (let p = 0; p < h * w; p++) {
      const label = outputs[i]!.values[p]!
      for (let c = 0; c < 3; c++) {
        const before = pixels[3 * p + c]!
        const expected = label === 0 ? before : Math.round(0.5 * before + 0.5 * colours[label as 1 | 2]![c]!)
        assert.is(Math.round(255 * tinted[c * h * w + p]!), expected)
      }
    }
  })
})
/** Weights of a network without parameters. */
const emptyWeights = (): string => {
  const path = at('empty.safetensors')
  writeTensors(path, [], { format: 'pt' })
  return path
}

test('overlays need image files at their own size, and a class per pixel', async () => {
  const plan = stage(net, { ...staging, as: 'classes' })
  const words = (o: object): Promise<string> =>
    predict(net, plan, { weights, out: at('no'), format: 'overlay', ...o } as never).then(
      () => 'nothing was refused',
      (e: Error) => e.message,
    )
  assert.match(
    await words({ data: folder(at('photos'), { fit: 'pad' }) }),
    /format 'overlay' needs image files of 8 bits at their own size/,
  )
  assert.match(await words({ data: at('one.npy') }), /format 'overlay' needs image files/)
})

test('the command line pads, too', async () => {
  writeFileSync(
    at('net.js'),
    `const d = require(${JSON.stringify(join(__dirname, '..', '..', 'dsl'))})\n` +
      `exports.default = d.model([1, 3, 16, 16], d.seq(d.conv2d('a', 4, 3), d.skip(d.maxPool('p', 2), d.conv2d('b', 4, 3), d.convTranspose2d('u', 4, 2, { stride: 2 })), d.conv2d('h', 2, 1)))\n`,
  )
  const call = (...args: readonly string[]) => spillwayHere(...args, '--device', DEVICE, '--algorithms', 'fixed')
  const saved = at('cli.safetensors')
  const trained = await call('train', at('net.js'), '--loss', 'cross-entropy', '--steps', '1', '--save', saved)
  assert.is(trained.code, 0, trained.err)
  const predicted = await call(
    ...['predict', at('net.js'), '--weights', saved, '--data', at('photos'), '--out', at('cli'), '--as', 'classes'],
    ...['--format', 'png'],
  )
  assert.is(predicted.code, 0, predicted.err)
  const labels = pngLabels(readFileSync(at('cli', '1.png')), 10_000)
  assert.ok(!isLeft(labels) && labels.right.height === 17 && labels.right.width === 21)
})

test.run()
