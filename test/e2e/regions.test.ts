// Sources with regions: crops with the bits of whole images, and reads of only their bytes; predictions that ask for bands; words for a wrong answer.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  conv2d,
  crossEntropy,
  crossEntropyWith,
  type Data,
  evaluate,
  files,
  fromBytes,
  globalAvgPool,
  mib,
  type Model,
  model,
  modelAt,
  pick,
  type PixelSize,
  predict,
  type Predicted,
  type PredictOptions,
  type Region,
  type RegionSource,
  relu,
  type Sample,
  type Shape,
  seq,
  source,
  SpillwayException,
  stage,
  train,
} from '../../src'
import { npyHead } from '../../src/files/npy'
import { uniform } from '../fixtures/formula'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-regions-'))
test.after(() => rmSync(root, { recursive: true }))

const CHANNELS = 3
/** A large image and its labels: numbers of their own at each pixel. */
const sizes: readonly PixelSize[] = [
  [40, 52],
  [61, 37],
  [40, 52],
]
const sizeOf = (i: number): PixelSize => sizes[i % sizes.length]!
const pixel = (i: number, y: number, x: number, c: number): number => (i * 31 + y * 17 + x * 7 + c * 101 + ((x * y) % 13)) % 256
const label = (i: number, y: number, x: number): number => (i + (y >> 2) + (x >> 3)) % 4

/** Regions that were asked for. */
const asked: { readonly i: number; readonly region: Region }[] = []
const regionOf = (i: number, region: Region, last = true): Sample => {
  asked.push({ i, region })
  const { top, left, height, width } = region
  const [rows, columns] = sizeOf(i)
  assert.ok(top >= 0 && left >= 0 && height > 0 && width > 0 && top + height <= rows && left + width <= columns)
  const input = new Uint8Array(CHANNELS * height * width)
  const target = new Uint8Array(height * width)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      target[y * width + x] = label(i, top + y, left + x)
      for (let c = 0; c < CHANNELS; c++)
        input[last ? (y * width + x) * CHANNELS + c : (c * height + y) * width + x] = pixel(i, top + y, left + x, c)
    }
  return { input, target }
}
const own = { length: 6, size: sizeOf, layout: 'NHWC', read: (i: number, r: Region) => regionOf(i, r) } as const
const slides = source(own)

const segmenter = seq(conv2d('c1', 6, 3), relu(), conv2d('c2', 6, 3), relu(), conv2d('head', 4, 1))
const net = model([2, CHANNELS, 16, 16], segmenter)
const staged = () => stage(net, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })

test('a centre crop trains like the cropped image, and only the rectangle is read', async () => {
  const plan = staged()
  const run = (data: Data) => train(net, plan, { steps: 4, seed: 3, data, shuffle: true })
  const middle = source({
    length: 6,
    layout: 'NHWC',
    read: (i) => {
      const [rows, columns] = sizeOf(i)
      return regionOf(i, { top: (rows - 16) >> 1, left: (columns - 16) >> 1, height: 16, width: 16 })
    },
  })
  const expected = await run(middle)
  asked.length = 0
  const cropped = await run(slides)
  assert.equal([cropped.losses, cropped.weightsSha256], [expected.losses, expected.weightsSha256])
  assert.ok(asked.every(({ region: { height, width } }) => height === 16 && width === 16))
  const planes = source({ ...own, layout: 'NCHW', read: (i, r) => regionOf(i, r, false) })
  assert.is((await run(planes)).weightsSha256, expected.weightsSha256)

  asked.length = 0
  const anywhere = source({ ...own, augment: { crop: true, flip: 'both', turns: true } })
  const once = await run(anywhere)
  assert.is((await run(anywhere)).weightsSha256, once.weightsSha256)
  assert.not.equal(once.weightsSha256, expected.weightsSha256)
  assert.ok(asked.every(({ region: { height, width } }) => height === 16 && width === 16))
  assert.ok(new Set(asked.map(({ region: { top, left } }) => `${top} ${left}`)).size > 4)
})

// ---------------------------------------------------------------- training in bands

const TALL: PixelSize = [96, 40]
/** Images of one size, read in bands of 8 rows: 8 rows x 40 columns x 3 channels x 4 bytes. */
const inBands = (o: Partial<RegionSource> & Pick<RegionSource, 'read'>): Data => {
  const data = source({ length: 4, size: TALL, layout: 'NHWC', ...o })
  return { ...data, set: { ...data.set, bandBytes: 8 * 40 * 3 * 4 } as Data['set'] }
}
const seen: { readonly i: number; readonly region: Region }[] = []
const drawn = (i: number, region: Region): Sample => {
  seen.push({ i, region })
  const { top, left, height, width } = region
  const at = <A>(f: (y: number, x: number) => A): A[] =>
    Array.from({ length: height * width }, (_, k) => f(top + Math.floor(k / width), left + (k % width)))
  return {
    input: Uint8Array.from(at((y, x) => [0, 1, 2].map((c) => pixel(i, y, x, c))).flat()),
    target: Uint8Array.from(at((y, x) => label(i, y, x))),
  }
}
const allOf = (i: number): Sample => drawn(i, { top: 0, left: 0, height: TALL[0], width: TALL[1] })
const tall = (batch: number, size: PixelSize = TALL): Model => at([batch, CHANNELS, ...size], segmenter)

test('training reads bands when the plan reads their rows, with the bits of whole samples', async () => {
  for (const batch of [1, 2])
    for (const strategy of ['in-core', 'tiled'] as const) {
      const given = tall(batch)
      const plan = stage(given, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed', strategy, budget: mib(8) })
      const run = (data: Data) => train(given, plan, { steps: 5, seed: 3, data, shuffle: true })
      const whole = await run(source({ length: 4, layout: 'NHWC', read: allOf }))
      seen.length = 0
      const banded = await run(inBands({ read: drawn }))
      assert.equal([banded.losses, banded.weightsSha256], [whole.losses, whole.weightsSha256], `${strategy}, batch ${batch}`)
      // 8 rows of the input, 24 of the labels, which have one number each.
      assert.is(Math.max(...seen.map(({ region: { height } }) => height)), 24)
      assert.ok(seen.every(({ region: { width } }) => width === TALL[1]))
      // Three slots for each value, and the largest region.
      assert.is(banded.feedBytes, (3 + 3 + 1) * 8 * 40 * 3)
    }
})

test('bands of crops and of padded images have the bits of whole samples; a source may use its memory again', async () => {
  const memory = new Uint8Array(110 * 48 * 3)
  const reused = async (i: number, region: Region): Promise<Sample> => {
    const { input, target } = drawn(i, region) as { readonly input: Uint8Array; readonly target: Uint8Array }
    memory.set(input)
    return { input: memory.subarray(0, input.length), target }
  }
  for (const [size, augment] of [
    [[64, 24], {}],
    [[64, 24], { crop: true }],
    [[110, 48], {}],
  ] as const) {
    const given = tall(1, size)
    const plan = stage(given, { loss: crossEntropyWith({ ignoreIndex: 255 }), machine: DEVICE, algorithms: 'fixed' })
    const run = (data: Data) => train(given, plan, { steps: 5, seed: 3, data, shuffle: true })
    const whole = await run(source({ length: 4, size: TALL, layout: 'NHWC', augment, read: drawn }))
    seen.length = 0
    const banded = await run(inBands({ augment, read: reused }))
    assert.equal([banded.losses, banded.weightsSha256], [whole.losses, whole.weightsSha256], `${size}`)
    assert.ok(Math.max(...seen.map(({ region: { height } }) => height)) < 48)
  }
})

test('a label of the whole image takes one pixel; evaluations read bands, too', async () => {
  const given = at([1, CHANNELS, ...TALL], seq(conv2d('c1', 6, 3), relu(), globalAvgPool(), conv2d('head', 4, 1)))
  const classed = (sample: Sample, i: number): Sample => ({ ...sample, target: i % 4 })
  const save = join(root, 'of-image.safetensors')
  const plan = stage(given, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  const whole = await train(given, plan, {
    steps: 4,
    data: source({ length: 4, layout: 'NHWC', read: (i) => classed(allOf(i), i) }),
    save,
  })
  seen.length = 0
  const banded = await train(given, plan, { steps: 4, data: inBands({ read: (i, r) => classed(drawn(i, r), i) }) })
  assert.is(banded.weightsSha256, whole.weightsSha256)
  assert.ok(seen.every(({ region: { height, width } }) => height * width === 1 || (height <= 8 && width === TALL[1])))
  const testing = stage(given, { mode: 'evaluate', loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  const results = async (data: Data) => {
    const { loss, metrics } = await evaluate(given, testing, { weights: save, data })
    return [loss, metrics]
  }
  const expected = await results(source({ length: 4, layout: 'NHWC', read: (i) => classed(allOf(i), i) }))
  seen.length = 0
  assert.equal(await results(inBands({ read: (i, r) => classed(drawn(i, r), i) })), expected)
  assert.ok(seen.every(({ region: { height } }) => height <= 8))
})

test('an error or a cancellation in the middle of a step ends the run', async () => {
  const given = tall(1)
  const plan = stage(given, { loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  const failing = inBands({
    read: (i, region) => {
      if (i === 2 && region.top >= 40) throw new Error(`row ${region.top} of sample ${i} is damaged`)
      return drawn(i, region)
    },
  })
  const folder = join(root, 'kept')
  const failed = await train(given, plan, {
    steps: 4,
    data: failing,
    shuffle: false,
    checkpointDir: folder,
    checkpointEvery: 1,
  }).catch((e: Error) => e.message)
  assert.match(String(failed), /row 40 of sample 2 is damaged/)
  const resumed = await train(given, plan, {
    steps: 4,
    data: inBands({ read: drawn }),
    shuffle: false,
    checkpointDir: folder,
    resume: true,
  })
  const undisturbed = await train(given, plan, { steps: 4, data: inBands({ read: drawn }), shuffle: false })
  assert.is(resumed.weightsSha256, undisturbed.weightsSha256)

  const stop = new AbortController()
  const cancelling = inBands({
    read: (i, region) => {
      if (i === 1 && region.top === 48) stop.abort()
      return drawn(i, region)
    },
  })
  const ended = await train(given, plan, { steps: 4, data: cancelling, shuffle: false, signal: stop.signal }).catch(
    (e: Error) => e.name,
  )
  assert.is(ended, 'AbortError')
})

test('evaluations see the middle, and each sample once', async () => {
  const weights = join(root, 'weights.safetensors')
  await train(net, staged(), { steps: 2, data: slides, save: weights })
  const plan = stage(net, { mode: 'evaluate', loss: crossEntropy, machine: DEVICE, algorithms: 'fixed' })
  const of = async (data: Data) => {
    const { loss, metrics, images } = await evaluate(net, plan, { weights, data })
    return [loss, metrics, images]
  }
  const middle = source({
    length: 6,
    layout: 'NHWC',
    read: (i) => regionOf(i, { top: (sizeOf(i)[0] - 16) >> 1, left: (sizeOf(i)[1] - 16) >> 1, height: 16, width: 16 }),
  })
  assert.equal(await of(source({ ...own, augment: { crop: true, jitter: true } })), await of(middle))
  assert.equal(await of(pick(slides, [0, 2, 4, 5, 1])), await of(pick(middle, [0, 2, 4, 5, 1])))
})

// ---------------------------------------------------------------- predictions

const at = (shape: Shape, body: Parameters<typeof modelAt>[1] = segmenter): Model => {
  const made = modelAt(shape, body, 'predict')
  if (isLeft(made)) throw new Error(JSON.stringify(made.left))
  return made.right
}
const trained = join(root, 'trained.safetensors')
test.before(async () => void (await train(net, staged(), { steps: 1, seed: 5, save: trained })))
const predicted = async (
  shape: Shape,
  data: Data,
  budget: number = mib(64),
  o: Partial<PredictOptions> = {},
): Promise<Predicted> => {
  const m = at(shape)
  const plan = stage(m, { mode: 'predict', machine: DEVICE, algorithms: 'fixed', budget })
  return predict(m, plan, { weights: trained, data, ...o })
}
const sameOutputs = (a: Predicted, b: Predicted): void => {
  assert.equal(
    a.outputs.map((o) => o.shape),
    b.outputs.map((o) => o.shape),
  )
  const bytes = ({ values }: Predicted['outputs'][number]): Buffer => Buffer.from(values.buffer)
  assert.ok(a.outputs.every((o, i) => bytes(o).equals(bytes(b.outputs[i]!))))
}
const written = (name: string, i: number): string => {
  const [height, width] = sizeOf(i)
  const { input } = regionOf(i, { top: 0, left: 0, height, width })
  const path = join(root, name)
  writeFileSync(path, Buffer.concat([npyHead('u1', [1, height, width, CHANNELS]), input as Uint8Array]))
  return path
}

test('images of every size are predicted at their own, by bands, as from files', async () => {
  const all = await predicted([2, CHANNELS, 40, 52], slides)
  assert.equal(
    all.outputs.map((o) => o.name),
    [0, 1, 2, 3, 4, 5].map((i) => `sample-${i}`),
  )
  for (const i of [0, 1]) {
    const [height, width] = sizeOf(i)
    const one = await predicted([1, CHANNELS, height, width], files(written(`${i}.npy`, i), { layout: 'NHWC' }))
    sameOutputs({ ...all, outputs: [all.outputs[i]!] }, one)
  }
  const some = await predicted([1, CHANNELS, 40, 52], pick(slides, [4, 0]))
  sameOutputs(some, { ...all, outputs: [all.outputs[4]!, all.outputs[0]!] })
  const numbers = { mean: [0.5, 0.4, 0.3], std: [0.2] }
  const scaled = await predicted([1, CHANNELS, 40, 52], pick(source({ ...own, ...numbers }), [0]))
  sameOutputs(scaled, await predicted([1, CHANNELS, 40, 52], files(written('0.npy', 0), { layout: 'NHWC', ...numbers })))
  // At the model's size, where it is said how: the middle.
  const fitted = await predicted([2, CHANNELS, 16, 16], source({ ...own, fit: 'crop' }))
  const middles = source({
    length: 6,
    layout: 'NHWC',
    read: (i) => regionOf(i, { top: (sizeOf(i)[0] - 16) >> 1, left: (sizeOf(i)[1] - 16) >> 1, height: 16, width: 16 }),
  })
  sameOutputs(fitted, await predicted([2, CHANNELS, 16, 16], middles))
})

const WIDE: PixelSize = [150, 20_000]
test('a wide image is read band after band for any plan, each once if it is read once', async () => {
  const [height, width] = WIDE
  const body = seq(conv2d('c', 1, 3))
  const weights = join(root, 'narrow.safetensors')
  const small = model([1, CHANNELS, 16, 16], body)
  await train(small, stage(small, { loss: 'mse', machine: DEVICE, algorithms: 'fixed' }), { steps: 1, save: weights })
  const pixels = Uint8Array.from({ length: height * width * CHANNELS }, (_, k) => (k * 7 + (k >> 8)) % 256)
  const path = join(root, 'wide.npy')
  writeFileSync(path, Buffer.concat([npyHead('u1', [1, height, width, CHANNELS]), pixels]))
  const regions: Region[] = []
  const data = source({
    length: 1,
    size: WIDE,
    layout: 'NHWC',
    read: (_, r) => {
      regions.push(r)
      return { input: pixels.subarray(r.top * width * CHANNELS, (r.top + r.height) * width * CHANNELS) }
    },
  })
  const m = at([1, CHANNELS, height, width], body)
  const plans = [mib(128), mib(20)].map((budget) => stage(m, { mode: 'predict', machine: DEVICE, algorithms: 'fixed', budget }))
  const expected = await predict(m, plans[0]!, { weights, data: files(path, { layout: 'NHWC' }) })
  const rows = Math.floor((16 * 2 ** 20) / (4 * width * CHANNELS))
  for (const [i, plan] of plans.entries()) {
    regions.length = 0
    const r = await predict(m, plan, { weights, data })
    assert.is(r.arenaPeakBytes, r.peakBytes)
    sameOutputs(r, expected)
    assert.ok(regions.every((g) => g.left === 0 && g.width === width && g.top % rows === 0 && g.height <= rows))
    assert.equal([...new Set(regions.map((g) => g.top))], [0, rows, 2 * rows])
    if (i === 0) assert.is(regions.length, 3)
  }
})

test('a model that begins with fromBytes reads bands of bytes', async () => {
  const colours = seq(fromBytes({ mean: 0.5, std: 0.25 }), conv2d('c1', 6, 3), relu(), conv2d('head', 4, 1))
  const small = model([2, CHANNELS, 16, 16], colours)
  const weights = join(root, 'bytes.safetensors')
  await train(small, stage(small, { loss: crossEntropy, machine: DEVICE }), { steps: 1, data: slides, save: weights })
  const m = at([1, CHANNELS, 40, 52], colours)
  const plan = stage(m, { mode: 'predict', machine: DEVICE, algorithms: 'fixed' })
  const of = (data: Data): Promise<Predicted> => predict(m, plan, { weights, data })
  sameOutputs(await of(pick(slides, [0])), await of(files(written('bytes.npy', 0), { layout: 'NHWC' })))
  const floats = source({ ...own, read: (i, r) => ({ input: Float32Array.from(regionOf(i, r)['input'] as Uint8Array) }) })
  assert.match(await refusal(() => of(pick(floats, [0]))), /takes bytes: pass a Uint8Array/)
})

// ---------------------------------------------------------------- arrays in files

/** A sample of a file for each, of its own size: images and labels of every pixel. */
const arrays = (name: string, planes: boolean, floats: boolean): string => {
  const folder = join(root, name)
  mkdirSync(join(folder, 'input'), { recursive: true })
  mkdirSync(join(folder, 'target'), { recursive: true })
  for (let i = 0; i < 6; i++) {
    const [height, width] = sizeOf(i)
    const { input, target } = regionOf(i, { top: 0, left: 0, height, width }, !planes) as Record<string, Uint8Array>
    const shape = planes ? [CHANNELS, height, width] : [height, width, CHANNELS]
    const numbers = floats ? Buffer.from(Float32Array.from(input!).buffer) : input!
    writeFileSync(join(folder, 'input', `${i}.npy`), Buffer.concat([npyHead(floats ? 'f4' : 'u1', shape), numbers]))
    writeFileSync(join(folder, 'target', `${i}.npy`), Buffer.concat([npyHead('u1', [height, width]), target!]))
  }
  return folder
}

test('arrays in files are cut, turned and coloured as a source of the same images is', async () => {
  const plan = staged()
  const run = (data: Data) => train(net, plan, { steps: 4, seed: 3, data, shuffle: true })
  const bits = async (data: Data): Promise<unknown> => {
    const { losses, weightsSha256 } = await run(data)
    return [losses, weightsSha256]
  }
  const bytes = [arrays('planes', true, false), arrays('pixels', false, false)] as const
  const augment = {
    crop: { area: [0.3, 0.8] },
    flip: 'both',
    turns: true,
    elastic: true,
    jitter: { hue: 0.2 },
    blur: true,
    cutout: true,
    cutmix: true,
  } as const
  for (const how of [{ fit: 'cover', augment }, { fit: 'crop', augment: { crop: true } }, { fit: 'pad' }] as const) {
    const expected = await bits(source({ ...own, ...how }))
    assert.equal(await bits(files(bytes[0], how)), expected)
    assert.equal(await bits(files(bytes[1], { ...how, layout: 'NHWC' })), expected)
    assert.not.equal(await bits(files(bytes[0], { ...how, mean: [0.5] })), expected)
  }
  const floats = files(arrays('floats', true, true), { augment: { crop: true, flip: 'horizontal' } })
  assert.equal(await bits(floats), await bits(floats))
  const fitted = await predicted([2, CHANNELS, 16, 16], files(join(bytes[1], 'input'), { fit: 'crop', layout: 'NHWC' }))
  sameOutputs(fitted, await predicted([2, CHANNELS, 16, 16], source({ ...own, fit: 'crop' })))
  // Without cuts, the runtime reads them itself: the same bits.
  const folder = join(root, 'fitting')
  mkdirSync(folder)
  const images = uniform('fitting', [6, CHANNELS, 16, 16], 1)
  const labels = Uint8Array.from({ length: 6 * 256 }, (_, k) => k % 4)
  writeFileSync(join(folder, 'input.npy'), Buffer.concat([npyHead('f4', [6, CHANNELS, 16, 16]), Buffer.from(images.buffer)]))
  writeFileSync(join(folder, 'target.npy'), Buffer.concat([npyHead('u1', [6, 1, 16, 16]), labels]))
  assert.equal(await bits(files(folder, { fit: 'stretch' })), await bits(files(folder)))
  assert.match(
    await refusal(() => run(files(bytes[0]))),
    /0.npy is \[3,40,52\], but input of the model is \[N,3,16,16\] or \[3,16,16\]; to resize other heights and widths, set fit, e\.g\. fit: 'crop' \(--fit crop\)/,
  )
  assert.match(await refusal(() => files(folder, { fit: 'middle' as never })), /files: fit is 'middle'/)
  assert.match(
    await refusal(() => run(files(bytes[1], { fit: 'crop' }))),
    /0.npy is \[40,52,3\], but input of the model is of any height and width, as \[N,3,16,16\]/,
  )
  writeFileSync(join(folder, 'target.npy'), Buffer.concat([npyHead('u1', [6, 1, 16, 15]), labels.subarray(0, 6 * 240)]))
  assert.match(await refusal(() => run(files(folder, { fit: 'crop' }))), /target.npy has 16 x 15, but its input has 16 x 16/)
  assert.match(await refusal(() => run(files(folder, { augment: { flop: true } as never }))), /unknown augment option 'flop'/)
})

// ---------------------------------------------------------------- words

const refusal = async (run: () => unknown): Promise<string> => {
  try {
    await run()
  } catch (e) {
    assert.ok(e instanceof SpillwayException || e instanceof Error, String(e))
    return (e as Error).message
  }
  throw new Error('nothing was refused')
}

test('wrong answers of a source are refused with the region', async () => {
  const reading = (read: (i: number, r: Region) => unknown, o: object = {}): Data => source({ ...own, ...o, read: read as never })
  const training = (data: Data) => refusal(() => train(net, staged(), { steps: 1, data }))
  const predicting = (data: Data, o: Partial<PredictOptions> = {}) =>
    refusal(() => predicted([1, CHANNELS, 40, 52], pick(data, [0]), mib(64), o))
  const place =
    /sample 0 \(counted from 0\), its 16 x 16 pixels at row 12, column 18 is refused: input: 9 numbers, but the model takes/
  assert.match(await training(reading(() => ({ input: new Uint8Array(9), target: 1 }))), place)
  assert.match(
    await training(reading((i, r) => ({ ...regionOf(i, r), target: [7] }))),
    /target: 1 numbers, but the model takes \[1,16,16\]/,
  )
  assert.match(
    await training(reading((i, r) => ({ ...regionOf(i, r), target: new Uint8Array(256).fill(9) }))),
    /9 is not one of 4 classes/,
  )
  assert.match(await training(reading(() => null)), /a sample must be { input, target }; found null/)
  assert.match(await training(reading(regionOf as never, { size: () => [16] })), /its size is \[16\]; allowed: \[height, width\]/)
  assert.match(await predicting(reading(() => ({ target: 1 }))), /a sample must be { input }; 'input' is missing/)
  assert.match(
    await predicting(reading((_, r) => ({ input: new Uint8Array(r.height) }))),
    /40 numbers, but the model takes \[3,40,52\]/,
  )
  assert.match(await predicting(reading(regionOf as never, { size: () => [0, 2] })), /its size is \[0,2\]/)
  assert.match(await predicting(source([{ input: [1] }])), /a stream of samples cannot be split/)
  assert.match(
    await refusal(() => predicted([1, CHANNELS, 40, 52], source([{ input: [1] }]))),
    /a stream of samples is not supported: pass \{ length, read \}/,
  )
  const large = model([1, CHANNELS, 16, 16], seq(conv2d('c1', 4, 3, { stride: 2 })))
  const half = stage(large, { loss: crossEntropy, machine: DEVICE })
  assert.match(
    await refusal(() => train(large, half, { steps: 1, data: slides })),
    /'target' is 8 x 8, but 'input' is 16 x 16: in a region, both must have one size/,
  )

  const error = new Error('the slide is gone')
  const gone = reading(() => Promise.reject(error))
  for (const run of [
    () => train(net, staged(), { steps: 1, data: gone }),
    () => predicted([1, CHANNELS, 40, 52], pick(gone, [0])),
  ])
    assert.is(await run().catch((e: unknown) => e), error)
})

test('an invalid source of regions is refused at its creation', async () => {
  const { read, size } = own
  assert.match(
    await refusal(() => source({ length: 1, read: read as never })),
    /read takes a region: add the image size, as size: \[height, width\] or size: \(i\) => \[height, width\]/,
  )
  assert.match(
    await refusal(() => source({ length: 1, read: () => ({}), fit: 'crop' } as never)),
    /fit applies to images of any size/,
  )
  assert.match(
    await refusal(() => source({ ...own, fit: 'middle' as never })),
    /fit is 'middle'; allowed: cover, stretch, pad, crop/,
  )
  assert.match(await refusal(() => source({ ...own, size: [4, 0] })), /size is \[4,0\]; allowed: \[height, width\]/)
  assert.match(
    await refusal(() => source({ length: 1, read, sise: size } as never)),
    /`sise` is not an option of source; did you mean `size`\?/,
  )
})

test('a region that never arrives does not block the end of predictions', async () => {
  const controller = new AbortController()
  const data = source({
    ...own,
    read: () => new Promise<Sample>(() => setTimeout(() => controller.abort(new Error('enough')), 50)),
  })
  const { signal } = controller
  const thrown = await predicted([1, CHANNELS, 40, 52], pick(data, [0]), mib(64), { signal }).catch((e: Error) => e.message)
  assert.is(thrown, 'enough')
})

test.run()
