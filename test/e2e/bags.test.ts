// Bags: one label for several slides, from folders or a list. Slides share a canvas, a block apart; norms and reductions count the pixels of a bag.
// Losses, weights and scores are those of PyTorch, which sees each slide alone; every way to save memory trains to the same bits, tiles within
// rounding. A prediction with a result per pixel has a file for each slide.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { right } from 'fp-ts/Either'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  batchNorm,
  conv2d,
  convTranspose2d,
  crossEntropy,
  fromBytes,
  gatedAttentionPool,
  generalizedMeanPool,
  globalAvgPool,
  globalMaxPool,
  linear,
  masked,
  maxPool,
  model,
  type Net,
  relu,
  sgd,
  upsample,
} from '../../dsl'
import { type Data, evaluate, predict, type SlideOptions, slides } from '../../src'
import { openSlide, regionOf } from '../../src/data/slides/slide'
import { canvasFor } from '../../src/data/slides/canvas'
import { openTensors, readTensor, writeTensors } from '../../src/files/safetensors'
import { modelState } from '../../src/train/weights'
import { startOf, uniform } from '../fixtures/formula'
import { done } from './networks'
import { spillwayHere, trainingHereOf, unchecked } from './processes'
import { DEVICE, halfway, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-bags-'))
test.after(() => rmSync(root, { recursive: true }))

const BLOCK = 16
const CANVAS = 128
/** Classes, bags, and height and width of their slides: those of make_bags.py. Class `a` has no slide. */
const SLIDES = [
  ['b', 'first', 32, 48],
  ['b', 'first', 48, 32],
  ['b', 'first', 16, 64],
  ['c', 'second', 48, 48],
  ['c', 'second', 40, 20],
] as const
const isGlass = (slide: number, y: number, x: number): boolean =>
  (Math.floor(y / BLOCK) + 2 * Math.floor(x / BLOCK) + slide) % 4 === 0
const colour = (slide: number, y: number, x: number): readonly number[] =>
  isGlass(slide, y, x)
    ? [242, 242, 242]
    : [150 + ((7 * x + 13 * y + 31 * slide) % 60), 60 + ((3 * x + y) % 30), 140 + ((5 * x * y + slide) % 50)]

const drawn = async (file: string, slide: number, height: number, width: number): Promise<void> => {
  const pixels = Uint8Array.from(
    Array.from({ length: height * width }, (_, i) => colour(slide, Math.floor(i / width), i % width)).flat(),
  )
  await sharp(pixels, { raw: { height, width, channels: 3 } })
    .tiff({ tile: true, tileWidth: 16, tileHeight: 16, compression: 'deflate' })
    .toFile(file)
}
const folder = join(root, 'slides')
const list = join(root, 'list.csv')
const drawAll = async (): Promise<void> => {
  const rows: string[] = []
  for (const [i, [label, bag, height, width]] of SLIDES.entries()) {
    const file = join(folder, label, bag, `${i}.tif`)
    mkdirSync(join(folder, label, bag), { recursive: true })
    await drawn(file, i, height, width)
    rows.push(`${file},${label === 'b' ? 1 : 2},${bag}`)
  }
  writeFileSync(list, `image,label,bag\n${rows.join('\n')}\n`)
}
test.before(drawAll)

const HOW: SlideOptions = { blocks: BLOCK, canvas: CANVAS }

const body = [
  fromBytes({ mean: 0.5, std: 0.25 }),
  conv2d('stem', 8, 3, { stride: 2, bias: false }),
  batchNorm('bn'),
  relu(),
  conv2d('body', 8, 3),
  relu(),
] as const
const netOf = <R extends Net>(reduction: R) => model([2, 3, CANVAS, CANVAS], masked(BLOCK, ...body, reduction, linear('head', 3)))
const NETS = {
  mean: netOf(globalAvgPool('gap')),
  max: netOf(globalMaxPool('gap')),
  generalizedMean: netOf(generalizedMeanPool(2.5, 1e-3)),
  gatedAttention: netOf(gatedAttentionPool('gap', 6)),
}
interface Expected {
  readonly losses: readonly number[]
  readonly weights: Readonly<Record<string, readonly [length: number, beside: number]>>
  readonly scores: readonly (readonly number[])[]
  readonly loss: number
}
const expected = JSON.parse(readFileSync(join(__dirname, '../fixtures/bags.json'), 'utf8')) as Readonly<
  Record<keyof typeof NETS, Expected>
>

const start = join(root, 'start.safetensors')
const writeStart = (net: (typeof NETS)[keyof typeof NETS]): void => {
  const { graph } = staged(net, { loss: crossEntropy, strategy: 'in-core' }).plan
  const bytesOf = (a: Float32Array): Uint8Array => new Uint8Array(a.buffer)
  const all = modelState(graph).weights.map(({ name, shape }) => ({
    ...{ name, shape, type: 'F32' as const },
    read: () =>
      right(
        bytesOf(
          name.includes('.running_')
            ? new Float32Array(shape[0]!).fill(name.endsWith('var') ? 1 : 0)
            : startOf(name, shape, name === 'bn.weight'),
        ),
      ),
  }))
  rmSync(start, { force: true })
  writeTensors(start, all)
}

const isNear = (got: number, wanted: number, within: number, what: string): void =>
  assert.ok(Math.abs(got - wanted) <= within * Math.max(Math.abs(wanted), 0.1), `${what}: ${got}, PyTorch ${wanted}`)

const options: Parameters<typeof staged>[1] = { loss: crossEntropy, optimizer: sgd({ lr: 0.1 }) }
const run = (net: (typeof NETS)[keyof typeof NETS], o: Parameters<typeof staged>[1], data: Data, save?: string) =>
  trained(net, staged(net, { ...options, ...o }), {
    ...{ steps: 4, data, shuffle: false, weights: start },
    ...(save === undefined ? {} : { save }),
  })

for (const [name, { losses, weights, scores, loss }] of Object.entries(expected) as readonly [keyof typeof NETS, Expected][])
  test(`${name}: a bag trains, is evaluated and predicted as in PyTorch`, async () => {
    const net = NETS[name]
    writeStart(net)
    const data = await slides(list, HOW)
    const saved = join(root, `${name}.safetensors`)
    for (const [machine, within] of [
      ['ref', 1e-6],
      [DEVICE, 1e-4],
    ] as const) {
      const r = await run(net, { machine, strategy: 'in-core' }, data, saved)
      r.losses.forEach((x, i) => isNear(x, losses[i]!, within, `${machine}: the loss of step ${i + 1}`))
    }
    const file = done(openTensors('weights', saved))
    for (const [weight, wanted] of Object.entries(weights)) {
      const stored = done(readTensor(file, [...file.tensors.values()].find((t) => t.name === weight)!))
      const found = new Float32Array(stored.slice().buffer)
      const beside = uniform(`${weight} beside`, [found.length], 1)
      isNear(Math.hypot(...found), wanted[0], 1e-4, weight)
      isNear(
        found.reduce((sum, x, i) => sum + x * beside[i]!, 0),
        wanted[1],
        1e-4,
        weight,
      )
    }
    const evaluated = await evaluate(net, staged(net, { mode: 'evaluate', loss: crossEntropy }), { weights: saved, data })
    isNear(evaluated.loss, loss, 1e-4, 'evaluation')
    assert.is(evaluated.images, 2)
    const { outputs } = await predict(net, staged(net, { mode: 'predict' }), { weights: saved, data })
    assert.equal(
      outputs.map((o) => o.name),
      ['first', 'second'],
    )
    outputs.forEach(({ values }, bag) =>
      Array.from(values).forEach((x, i) => isNear(x, scores[bag]![i]!, 1e-4, `score ${i} of bag ${bag}`)),
    )
  })

test('recompute, swap and band plans of slides have the bits of in-core, tiles agree within rounding', async () => {
  const net = NETS.gatedAttention
  writeStart(net)
  const data = await slides(list, HOW)
  const inCore = await run(net, { strategy: 'in-core' }, data)
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const r = await run(net, { strategy, budget: halfway(net, strategy, options) }, data)
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
  }
  const banded: Data = { ...data, set: { ...data.set, bandBytes: 16 * CANVAS * 3 * 4 } as Data['set'] }
  assert.is((await run(net, { strategy: 'in-core' }, banded)).weightsSha256, inCore.weightsSha256)
  const tiles = { strategy: 'tiled', budget: smallestBudget(net, 'tiled', options) } as const
  const tiled = await run(net, tiles, data)
  assert.ok(tiled.peakBytes < inCore.peakBytes)
  tiled.losses.forEach((x, i) => isNear(x, inCore.losses[i]!, 1e-5, 'tiles'))
  assert.is((await run(net, tiles, banded)).weightsSha256, tiled.weightsSha256)
})

test('folders of bags are the bags of a list', async () => {
  const read = async (path: string): Promise<readonly [unknown, readonly number[]][]> => {
    const { set } = await slides(path, HOW)
    if (set.kind !== 'own') throw new Error(set.kind)
    const whole = { top: 0, left: 0, height: CANVAS, width: CANVAS }
    const all = Array.from({ length: set.length }, async (_, i) => {
      const { input, target } = await set.read(i, whole)
      return [target, Array.from(input as Uint8Array)] as [unknown, readonly number[]]
    })
    return Promise.all(all)
  }
  const [listed, found] = [await read(list), await read(folder)]
  assert.equal(
    listed.map(([label]) => label),
    [1, 2],
  )
  // Without class `a`, the folders count from 0.
  assert.equal(
    found.map(([label]) => label),
    [0, 1],
  )
  assert.equal(
    found.map(([, pixels]) => pixels),
    listed.map(([, pixels]) => pixels),
  )
  // Each pixel of a slide occurs once, and all others are 0.
  const tissue = SLIDES.map(([, , h, w], s) =>
    Array.from({ length: h * w }, (_, i) => !isGlass(s, Math.floor(i / w), i % w)).filter(Boolean),
  )
  const sumOf = (of: readonly number[]): number => of.filter((v) => v > 0).length / 3
  assert.is(sumOf(listed[0]![1]), tissue.slice(0, 3).flat().length)
  assert.is(sumOf(listed[1]![1]), tissue.slice(3).flat().length)
})

test('a prediction with a result per pixel has a heat map for each slide', async () => {
  const net = model([1, 3, CANVAS, CANVAS], masked(BLOCK, ...body, conv2d('map', 2, 1)))
  const weights = join(root, 'map.safetensors')
  const data = await slides(list, HOW)
  await trained(net, staged(net, { strategy: 'in-core' }), { steps: 1, save: weights })
  const out = join(root, 'maps')
  const plan = staged(net, { mode: 'predict', as: 'probabilities' })
  const { files } = await predict(net, plan, { weights, data, out, format: 'tiff' })
  const names = SLIDES.map(([label, bag], i) => `slides-${label}-${bag}-${i}`)
  assert.equal(
    files,
    names.map((name) => join(out, `${name}.tif`)),
  )
  const { outputs } = await predict(net, plan, { weights, data })
  for (const [i, [, , height, width]] of SLIDES.entries()) {
    const { level } = openSlide(files[i]!, {}, [32])
    assert.equal([level.height, level.width], [Math.ceil(height / 2), Math.ceil(width / 2)])
    assert.equal(outputs[i]!.shape, [2, level.height, level.width])
    // The slide alone on a canvas has the map of the slide in its bag.
    const alone = await slides(join(folder, SLIDES[i]![0], SLIDES[i]![1], `${i}.tif`), HOW)
    const own = (await predict(net, plan, { weights, data: alone })).outputs[0]!
    assert.equal(Array.from(own.values), Array.from(outputs[i]!.values))
  }
})

test('the smallest canvas of all slides is the size of the model: one plan serves them', async () => {
  const file = unchecked(join(__dirname, '../faults/slides-model.ts'))
  const how = ['--data', folder, '--blocks', '32', '--canvas', 'auto']
  const says = /canvas: 5 slides of 5 sizes from 40 x 20 to 48 x 48, on 192 x 64: one plan serves all of them/
  const planned = await spillwayHere('plan', file, ...how, '--machine', DEVICE)
  assert.match(planned.out + planned.err, says)
  assert.match(planned.out, /1×3×192×64/)
  assert.equal(canvasFor([folder], { blocks: 32 }).size, [192, 64])
  assert.equal(canvasFor([join(folder, 'b/first/0.tif')], {}).size, [32, 64])
  const saved = join(root, 'canvas.safetensors')
  const trainedHere = await trainingHereOf(file, '--loss', 'cross-entropy', ...how, '--steps', '2', '--save', saved)
  assert.is(trainedHere.code, 0, trainedHere.err)
  const common = ['--weights', saved, ...how, '--device', DEVICE, '--algorithms', 'fixed']
  const evaluated = await spillwayHere('evaluate', file, '--loss', 'cross-entropy', ...common, '--json')
  assert.is(JSON.parse(evaluated.out).images, 2, evaluated.err)
  // Evaluations between steps read the slides as the training does.
  const last = join(root, 'between.safetensors')
  const between = ['--evaluate', folder, '--epochs', '1', '--batch', '2', '--save', last]
  const measured = await trainingHereOf(file, '--loss', 'cross-entropy', ...how, ...between)
  assert.is(measured.code, 0, measured.err)
  const again = await spillwayHere('evaluate', file, '--loss', 'cross-entropy', ...common, '--weights', last, '--json')
  isNear(JSON.parse(measured.out).measured[0].metrics.loss, JSON.parse(again.out).loss, 1e-6, 'evaluation between steps')
  for (const [args, words] of [
    [['plan', file, '--data', folder], /--data is for the canvas of slides: add --canvas auto, or a size/],
    [['plan', file, '--canvas', 'auto'], /--canvas auto is the size of slides: add --data/],
    [['plan', file, '--canvas', 'tiny'], /--canvas: 'tiny' is not a size in pixels/],
  ] as const)
    assert.match((await spillwayHere(...args)).err, words)
})

test('the command predicts bags of folders and of lists: a row for each bag, and a heat map for each slide', async () => {
  const file = unchecked(join(__dirname, '../faults/slides-model.ts'))
  const saved = join(root, 'command.safetensors')
  const how = ['--blocks', '32', '--canvas', 'auto'] as const
  const done = await trainingHereOf(file, '--loss', 'cross-entropy', '--data', folder, ...how, '--steps', '1', '--save', saved)
  assert.is(done.code, 0, done.err)
  const rowsOf = async (data: string, ...more: readonly string[]): Promise<readonly string[]> => {
    const out = join(root, 'bags.csv')
    const common = ['--weights', saved, '--device', DEVICE, '--algorithms', 'fixed', '--strategy', 'in-core']
    const end = await spillwayHere('predict', file, '--data', data, ...how, ...more, ...common, '--out', out)
    assert.is(end.code, 0, end.err)
    return readFileSync(out, 'utf8').trim().split('\n').slice(1)
  }
  const nested = await rowsOf(folder)
  assert.equal(
    nested.map((row) => row.split(',')[0]),
    ['b-first', 'c-second'],
  )
  /** Class and confidence, without the name of the bag. */
  const scores = (rows: readonly string[]): readonly string[] => rows.map((row) => row.slice(row.indexOf(',')))
  const listed = await rowsOf(list)
  assert.equal(
    listed.map((row) => row.split(',')[0]),
    ['first', 'second'],
  )
  assert.equal(scores(listed), scores(nested))
  // Folders of bags without classes, and one bag, on the canvas of all.
  const size = ['--canvas', '192x64'] as const
  const bare = await rowsOf(join(folder, 'b'), '--bags', ...size)
  assert.equal([bare.map((row) => row.split(',')[0]), scores(bare)], [['first'], scores(nested).slice(0, 1)])
  const alone = await rowsOf(join(folder, 'c/second'), '--bags', ...size)
  assert.equal([alone.map((row) => row.split(',')[0]), scores(alone)], [['second'], scores(nested).slice(1)])
  assert.is((await rowsOf(join(folder, 'c/second'), ...size)).length, 2, 'without --bags, each slide is a sample')

  const pixels = join(root, 'pixels.js')
  writeFileSync(
    pixels,
    `const { conv2d, fromBytes, masked, model, relu } = require(${JSON.stringify(join(__dirname, '../../dsl'))})
module.exports = model([1, 3, 64, 64], masked(32, fromBytes(), conv2d('a', 4, 3, { stride: 2 }), relu(), conv2d('map', 2, 1)))\n`,
  )
  const maps = join(root, 'heat')
  const trained = await trainingHereOf(pixels, '--loss', 'mse', '--steps', '1', '--save', saved)
  assert.is(trained.code, 0, trained.err)
  const mapped = ['--data', list, ...how, '--as', 'probabilities', '--format', 'tiff', '--out', maps, '--device', DEVICE]
  const end = await spillwayHere('predict', pixels, '--weights', saved, ...mapped, '--json')
  assert.is(end.code, 0, end.err)
  assert.equal(
    JSON.parse(end.out).files,
    SLIDES.map(([label, bag], i) => join(maps, `slides-${label}-${bag}-${i}.tif`)),
  )
})

test('slides of a list outside its folder have outputs of different names', async () => {
  const far = join(root, 'far/away/list.csv')
  mkdirSync(join(root, 'far/away'), { recursive: true })
  mkdirSync(join(root, 'far/s'), { recursive: true })
  mkdirSync(join(root, 's'), { recursive: true })
  for (const at of ['far/s/x.tif', 's/x.tif', 'far/away/s-x.tif']) await drawn(join(root, at), 0, 32, 48)
  writeFileSync(far, 'image,label\n../s/x.tif,0\n../../s/x.tif,1\ns-x.tif,1\n')
  const { set } = await slides(far)
  if (set.kind !== 'own') throw new Error(set.kind)
  const all = [0, 1, 2]
  assert.equal(
    all.map((i) => set.outputName!(i)),
    ['s-x', 's-x-2', 's-x-3'],
  )
  assert.equal(
    all.flatMap((i) => set.placesOf!(i).map(({ name }) => name)),
    ['s-x', 's-x-2', 's-x-3'],
  )
})

test('bags that do not fit, or that contradict themselves, are refused', async () => {
  const refusal = async (path: string, o: SlideOptions): Promise<string> =>
    slides(path, o).then(
      () => 'taken',
      (e: Error) => e.message,
    )
  assert.match(await refusal(list, {}), /bag first has its slides on one canvas, a block apart: set blocks and canvas/)
  assert.match(
    await refusal(list, { ...HOW, canvas: 64 }),
    /bag first has 3 slides at this level, more than the canvas of 64 x 64/,
  )
  const odd = (text: string): string => {
    const file = join(root, 'odd.csv')
    writeFileSync(file, `image,label,bag\n${text}\n`)
    return file
  }
  const [one, other] = [join(folder, 'b/first/0.tif'), join(folder, 'b/first/1.tif')]
  assert.match(await refusal(odd(`${one},1,x\n${other},2,x`), HOW), /odd\.csv: line 3: bag x has another label in a line above/)
  assert.match(await refusal(odd(`${one}-,1,x`), HOW), /line 2: .*0\.tif- is not there/)
  const grey = join(root, 'grey.tif')
  await sharp(new Uint8Array(32 * 32).fill(90), { raw: { height: 32, width: 32, channels: 1 } })
    .toColourspace('b-w')
    .tiff({ tile: true, tileWidth: 16, tileHeight: 16 })
    .toFile(grey)
  assert.match(
    await refusal(odd(`${one},1,x\n${grey},1,x`), HOW),
    /bag x: .*grey\.tif has 1 channels of 8 bits, but .*0\.tif has 3 of 8/,
  )
  const { height, width } = openSlide(one, {}).level
  assert.is((await regionOf(openSlide(one, {}), { top: 0, left: 0, height, width })).length, height * width * 3)
})

test('a layer that reads from one slide of a bag into the next one is refused', async () => {
  const net = model(
    [2, 3, CANVAS, CANVAS],
    masked(BLOCK, conv2d('wide', 4, 7, { dilation: 6 }), relu(), globalAvgPool('gap'), linear('head', 3)),
  )
  await trained(net, staged(net, { ...options, strategy: 'in-core' }), { steps: 1, data: await slides(list, HOW) }).then(
    () => assert.unreachable(),
    (e: Error) =>
      assert.match(
        e.message,
        /layer 'wide' reads 18 pixels of the image around each pixel, but the slides of a bag are 16 pixels apart: set blocks \(--blocks\) to 18 or more/,
      ),
  )
})

test('a layer that resizes across the gap between slides is refused', async () => {
  const data = await slides(list, HOW)
  const fine = conv2d('fine', 4, 3)
  const end = [upsample({ scale: 2, mode: 'bilinear' }, 'up'), globalAvgPool('gap'), linear('head', 3)] as const
  const near = model([2, 3, CANVAS, CANVAS], masked(BLOCK, fine, maxPool(16), ...end))
  const far = model([2, 3, CANVAS, CANVAS], masked(BLOCK, fine, maxPool(32), ...end))
  const pools = [globalAvgPool('gap'), linear('head', 3)] as const
  const touching = model(
    [2, 3, CANVAS, CANVAS],
    masked(BLOCK, fine, maxPool(16), convTranspose2d('up', 4, 2, { stride: 2 }), ...pools),
  )
  const wide = model(
    [2, 3, CANVAS, CANVAS],
    masked(BLOCK, fine, maxPool(16), convTranspose2d('up', 4, 8, { stride: 2, pad: 3 }), ...pools),
  )
  const refusal = (plan: ReturnType<typeof staged>, net: Parameters<typeof trained>[0]): Promise<string> =>
    trained(net, plan, { steps: 1, data }).then(
      () => 'taken',
      (e: Error) => e.message,
    )
  const how = { ...options, strategy: 'in-core' } as const
  assert.is(await refusal(staged(near, how), near), 'taken')
  assert.match(
    await refusal(staged(far, how), far),
    /layer 'up' reads 32 pixels of the image around each pixel, .* are 16 pixels apart/,
  )
  assert.is(await refusal(staged(touching, how), touching), 'taken')
  assert.match(await refusal(staged(wide, how), wide), /layer 'up' reads 24 pixels of the image around each pixel/)
})

test.run()
