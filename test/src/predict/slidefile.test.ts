// Predictions as tiled BigTIFF: sharp and the reader of slides find the written pixels, levels and scale, for any height of bands. Levels are those
// of a plain computation over whole levels. A prediction has the numbers of the same prediction as arrays; a failing disk leaves no file.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  conv2d,
  crossEntropy,
  fromBytes,
  globalAvgPool,
  mib,
  model,
  predict,
  relu,
  seq,
  type Data,
  type PredictOptions,
  slides,
  source,
  stage,
  train,
} from '../../../src'
import { floatsOf, openSlide, regionOf } from '../../../src/data/slides/slide'
import { tiffPyramid } from '../../../src/data/slides/tiff'
import { bigTiffInto, type BigTiff } from '../../../src/files/bigtiff'
import { type Georeference, resizedGeoreference } from '../../../src/files/georeference'
import { levelsOf } from '../../../src/files/pyramid'
import { fillWhole } from '../../../src/files/whole'
import { fillFolder, zarrInto } from '../../../src/files/zarrinto'
import { errorText } from '../../../src/errors/errors'
import { predictTask } from '../../../src/predict/predictor'
import { slideFile } from '../../../src/predict/slidefile'
import { ended, spillway } from '../../e2e/processes'
import { failingLayer } from '../../faults/layer'
import { gateTest } from '../../full'

const root = mkdtempSync(join(tmpdir(), 'spillway-slidefile-'))
test.after(() => rmSync(root, { recursive: true }))
const at = (name: string): string => join(root, name)

const [WIDTH, HEIGHT] = [701, 523]
const labels = Uint8Array.from({ length: WIDTH * HEIGHT }, (_, i) => {
  const [y, x] = [Math.floor(i / WIDTH), i % WIDTH]
  return ((x >> 3) + (y >> 4) * 3 + ((x * y) % 5 === 0 ? 1 : 0)) % 7
})

const written = (name: string, o: Partial<BigTiff<'u8'>>, rowsAtOnce: number): string => {
  const file = fillWhole(at(name))
  const rows = bigTiffInto(file, {
    ...{ width: WIDTH, height: HEIGHT, channels: 1, type: 'u8', halving: 'majority', microns: 0.5, description: 'labels', ...o },
  })
  for (let y = 0; y < HEIGHT; y += rowsAtOnce) rows.put(labels.slice(y * WIDTH, Math.min(HEIGHT, y + rowsAtOnce) * WIDTH))
  rows.end()
  file.done()
  return at(name)
}

const pyramidOf = (file: string) => {
  const read = tiffPyramid(file)
  if (isLeft(read)) throw new Error(read.left)
  return read.right
}

/** The most frequent label of four, the first of equals, over a whole level. */
const halved = (level: Uint8Array, width: number, height: number): Uint8Array => {
  const [w, h] = [Math.ceil(width / 2), Math.ceil(height / 2)]
  return Uint8Array.from({ length: w * h }, (_, i) => {
    const [y, x] = [2 * Math.floor(i / w), 2 * (i % w)]
    const four = [0, 1].flatMap((dy) =>
      [0, 1].map((dx) => level[Math.min(height - 1, y + dy) * width + Math.min(width - 1, x + dx)]!),
    )
    const count = (v: number): number => four.filter((f) => f === v).length
    return four.reduce((best, v) => (count(v) > count(best) ? v : best))
  })
}

test('sharp and the reader of slides find each level, for any height of bands', async () => {
  const file = written('labels.tif', {}, 1)
  assert.equal(readFileSync(written('bands.tif', {}, 100)), readFileSync(file))
  let expected: Uint8Array = labels
  const sizes = levelsOf({ width: WIDTH, height: HEIGHT, coarsest: 256 })
  assert.equal(
    sizes.map((s) => s.width),
    [701, 351, 176],
  )
  for (const [level, { width, height }] of sizes.entries()) {
    const slide = openSlide(file, { level })
    assert.equal([slide.level.width, slide.level.height, slide.level.isTiled], [width, height, true])
    assert.equal(slide.level.microns!.toFixed(3), ((0.5 * WIDTH) / width).toFixed(3))
    const own = await regionOf(slide, { top: 0, left: 0, height, width })
    assert.equal(Buffer.from(own), Buffer.from(expected), `level ${level}`)
    const { data } = await sharp(file, { page: level }).toColourspace('b-w').raw().toBuffer({ resolveWithObject: true })
    assert.equal(data, Buffer.from(expected), `sharp, level ${level}`)
    expected = halved(expected, width, height)
  }
  const { density, resolutionUnit } = await sharp(file).metadata()
  // 0.5 microns are 20 000 pixels per centimetre, 50 800 per inch.
  assert.equal([density, resolutionUnit], [50_800, 'cm'])
})

test('numbers keep their bits; levels are means', async () => {
  const file = fillWhole(at('numbers.tif'))
  const [width, height] = [300, 10]
  const numbers = Float32Array.from({ length: width * height }, (_, i) => Math.sin(i) / 2 + 0.5)
  const slide = slideFile((of) => bigTiffInto(file, of), {
    shape: [1, height, width],
    isClasses: false,
    form: 'probabilities',
    microns: 1,
    classes: [],
  })
  slide.put(0, numbers.subarray(0, 3 * width))
  slide.put(0, numbers.subarray(3 * width))
  slide.end()
  file.done()
  const read = async (page: number): Promise<Float32Array> => {
    const { data } = await sharp(at('numbers.tif'), { page })
      .extractChannel(0)
      .raw({ depth: 'float' })
      .toBuffer({ resolveWithObject: true })
    return new Float32Array(data.buffer, data.byteOffset, data.length / 4)
  }
  assert.equal(await read(0), numbers)
  const [a, b, c, d] = [0, 1, width, width + 1].map((i) => numbers[i]!) as [number, number, number, number]
  assert.is((await read(1))[0], Math.fround((a + b + c + d) / 4))
  const overview = await sharp(slide.overview()).metadata()
  assert.equal([overview.width, overview.height, overview.channels], [300, 10, 3])
})

/** All numbers of a level, channels first, by zarrita alone. */
const byZarrita = async (
  folder: string,
  level: number,
): Promise<{ readonly data: ArrayLike<number>; readonly shape: readonly number[] }> => {
  const zarr = await import('zarrita')
  const { default: FileSystemStore } = await import('@zarrita/storage/fs')
  const group = await zarr.open(new FileSystemStore(folder), { kind: 'group' })
  const [image] = (group.attrs['ome'] as { multiscales: { datasets: { path: string }[] }[] }).multiscales
  const array = await zarr.open(group.resolve(image!.datasets[level]!.path), { kind: 'array' })
  const { data, shape } = await zarr.get(array)
  return { data: data as ArrayLike<number>, shape }
}

test('an OME-Zarr image has the levels, the scale and the numbers of a TIFF, for the reader of slides and for zarrita', async () => {
  const tiff = written('again.tif', {}, 50)
  for (const rowsAtOnce of [1, 100]) {
    const folder = fillFolder(at('labels.zarr'))
    const rows = zarrInto(folder, {
      ...{ width: WIDTH, height: HEIGHT, channels: 1, type: 'u8', halving: 'majority', microns: 0.5, description: 'labels' },
    })
    for (let y = 0; y < HEIGHT; y += rowsAtOnce) rows.put(labels.slice(y * WIDTH, Math.min(HEIGHT, y + rowsAtOnce) * WIDTH))
    rows.end()
    folder.done()
    for (const level of [0, 1, 2]) {
      const [slide, expected] = [openSlide(at('labels.zarr'), { level }), openSlide(tiff, { level })]
      const { width, height, microns } = slide.level
      assert.equal(
        [width, height, microns!.toFixed(3)],
        [expected.level.width, expected.level.height, expected.level.microns!.toFixed(3)],
      )
      const all = { top: 0, left: 0, height, width }
      const numbers = Buffer.from(await regionOf(expected, all))
      assert.equal(Buffer.from(await regionOf(slide, all)), numbers, `level ${level}`)
      const { data, shape } = await byZarrita(at('labels.zarr'), level)
      assert.equal(shape, [1, height, width])
      assert.equal(Buffer.from(Uint8Array.from(data)), numbers, `zarrita, level ${level}`)
    }
  }
  const names = readdirSync(root).filter((name) => name.includes('labels.zarr'))
  assert.equal(names, ['labels.zarr'], 'nothing else stays')
  const dropped = fillFolder(at('dropped.zarr'))
  dropped.put('0/c/0/0/0', new Uint8Array(3))
  dropped.drop()
  assert.equal(
    readdirSync(root).filter((name) => name.includes('dropped')),
    [],
  )
})

/** Writes a folder under a disk whose sync of this number fails. */
const WRITING = `
const { fillFolder } = require(${JSON.stringify(join(__dirname, '../../../src/files/zarrinto'))})
const folder = fillFolder(process.argv[1])
for (const name of ['zarr.json', '0/zarr.json', '0/c/0/0/0', '0/c/0/0/1']) folder.put(name, name)
folder.done()`
/** Its four files, their five folders, and the folder that holds it. */
const SYNCS = 4 + 5 + 1

test('all files and folders of an OME-Zarr image are on the disk before it has its name', () => {
  const layer = failingLayer()
  if (layer === undefined) return
  const to = join(at('synced'), 'image.zarr')
  const failingAt = (sync: number): string => {
    rmSync(at('synced'), { recursive: true, force: true })
    mkdirSync(at('synced'))
    const env = { ...process.env, LD_PRELOAD: layer, SPILLWAY_FAILING: `SYNC EIO ${sync} ${at('synced')}` }
    const loader = require.resolve('../../../scripts/testing/typescript')
    return spawnSync(process.execPath, ['-r', loader, '-e', WRITING, to], { env, encoding: 'utf8' }).stderr
  }
  assert.is(failingAt(SYNCS + 1), '')
  assert.equal(readdirSync(to), ['0', 'zarr.json'])
  assert.match(failingAt(SYNCS), /EIO/)
  assert.match(failingAt(SYNCS - 1), /EIO/)
  assert.not.ok(existsSync(to))
})

test('damaged files are refused by the reader', () => {
  const file = written('short.tif', {}, 50)
  truncateSync(file, 4000)
  assert.ok(isLeft(tiffPyramid(file)))
})

const net = model([1, 3, 64, 64], seq(fromBytes(), conv2d('a', 4, 3), relu(), conv2d('b', 3, 1)))
const weights = at('net.safetensors')
const drawn = Buffer.from(Array.from({ length: WIDTH * HEIGHT * 3 }, (_, i) => (i * 7 + (i >> 9)) % 256))

test('a prediction has the numbers of arrays, the scale of its slide, and an overview', async () => {
  await sharp(drawn, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
    .tiff({ tile: true, pyramid: true, compression: 'deflate', xres: 4000, yres: 4000, resolutionUnit: 'cm' })
    .toFile(at('slide.tif'))
  await train(net, stage(net, { algorithms: 'fixed', loss: crossEntropy }), { steps: 1, seed: 1, save: weights })
  const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const data = await slides(at('slide.tif'), { level: 1 })
  const { outputs } = await predict(net, plan, { weights, data })
  const { files } = await predict(net, plan, { weights, data, out: at('out'), format: 'tiff' })
  assert.equal(files, [at('out/slide.tif')])
  const { level } = openSlide(files[0]!, {})
  assert.equal([level.width, level.height, level.microns!.toFixed(2)], [350, 261, '0.50'])
  const pixels = await regionOf(openSlide(files[0]!, {}), { top: 0, left: 0, height: 261, width: 350 })
  assert.equal([...pixels], [...outputs[0]!.values])
  assert.equal(readdirSync(at('out')).sort(), ['slide-overview.png', 'slide.tif'])
  const overview = await sharp(at('out/slide-overview.png')).metadata()
  assert.equal([overview.width, overview.height], [350, 261])
})

test('a prediction as OME-Zarr has the numbers of arrays, and replaces an earlier one', async () => {
  const data = await slides(at('slide.tif'), { level: 1 })
  for (const as of ['classes', 'probabilities'] as const) {
    const plan = stage(net, { mode: 'predict', as, budget: mib(32), algorithms: 'fixed' })
    const { outputs } = await predict(net, plan, { weights, data })
    const { files } = await predict(net, plan, { weights, data, out: at('zarrs'), format: 'zarr' })
    assert.equal(files, [at('zarrs/slide.zarr')])
    const slide = openSlide(files[0]!, {}, [8, 32])
    assert.equal([slide.level.width, slide.level.height, slide.level.microns!.toFixed(2)], [350, 261, '0.50'])
    const all = { top: 0, left: 0, height: 261, width: 350 }
    const wanted = Array.from(outputs[0]!.values)
    const plane = 261 * 350
    if (as === 'classes') assert.equal([...(await regionOf(slide, all))], wanted)
    else for (const c of [0, 1, 2]) assert.equal([...(await floatsOf(slide, c, all))], wanted.slice(c * plane, (c + 1) * plane))
    assert.equal(Array.from((await byZarrita(files[0]!, 0)).data), wanted)
  }
  assert.equal(readdirSync(at('zarrs')).sort(), ['slide-overview.png', 'slide.zarr'])
  const perImage = model([1, 3, 64, 64], seq(fromBytes(), conv2d('a', 4, 3), conv2d('b', 3, 1), globalAvgPool()))
  const one = stage(perImage, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const refused = await predict(perImage, one, { weights, data, out: at('one'), format: 'zarr' }).catch((e: Error) => e.message)
  assert.match(refused as string, /format 'zarr' needs a result per pixel/)
})

gateTest('a failing disk ends the prediction with the name of the file, and leaves no file', async () => {
  const layer = failingLayer()
  if (layer === undefined) return
  const out = at('failing')
  mkdirSync(out)
  const file = at('net.js')
  const words = `const { conv2d, fromBytes, model, relu, seq } = require(${JSON.stringify(join(__dirname, '../../../dsl'))})
exports.default = model([1, 3, 64, 64], seq(fromBytes(), conv2d('a', 4, 3), relu(), conv2d('b', 3, 1)))`
  writeFileSync(file, words)
  const args = ['predict', file, '--weights', weights, '--data', at('slide.tif'), '--level', '0', '--as', 'classes']
  const how = ['--format', 'tiff', '--out', out, '--algorithms', 'fixed', '--budget', '32MiB', '--json']
  const end = await ended(spillway([...args, ...how], { env: { LD_PRELOAD: layer, SPILLWAY_FAILING: `WRITE EIO 3 ${out}` } }))
  assert.is(end.code, 1, end.err)
  assert.match(JSON.parse(end.out).error.message, /output file .*failing is refused: EIO/)
  assert.equal(readdirSync(out), [])
})

test('places and models that do not fit are refused', async () => {
  const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const data = await slides(at('slide.tif'))
  const refusal = (predicted: Promise<unknown>): Promise<string> =>
    predicted.then(
      () => 'taken',
      (e: Error) => e.message,
    )
  const o = { weights, data, format: 'tiff' } as const
  assert.match(await refusal(predict(net, plan, { ...o, out: at('x.npy') })), /format 'tiff' needs a folder as out/)
  assert.match(
    await refusal(predict(net, plan, { ...o, data: at('slide.tif'), out: root })),
    /would replace .*slide\.tif of data, an input of this run/,
  )
  const one = model([1, 3, 64, 64], seq(fromBytes(), conv2d('a', 4, 3), conv2d('b', 3, 1), globalAvgPool()))
  const perImage = stage(one, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  assert.match(await refusal(predict(one, perImage, { ...o, out: at('x') })), /needs a result per pixel, but the model gives one/)
  assert.not.ok(existsSync(at('x.npy')) || existsSync(at('x')))
})

/** UTM zone 32 N, 10 m per pixel; pixels are areas, as without key 1025, or points. */
const placeOf = (points: boolean): Georeference => ({
  keys: [1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, points ? 2 : 1, 3072, 0, 1, 32632],
  pixelScale: [10, 10, 0],
  tiepoints: [0, 0, 0, 500_000, 5_400_000, 0],
  text: 'WGS 84|',
})

test('the place on the earth is kept, at another size too', async () => {
  for (const points of [false, true]) {
    const place = placeOf(points)
    const { levels, georeference } = pyramidOf(written(`placed-${points}.tif`, { georeference: place }, 50))
    assert.equal(georeference, place)
    assert.is(levels.length, 3)
    // Half the size: the corner of the image stays where it is.
    const half = resizedGeoreference(place, 2, 2)
    assert.equal(half.pixelScale, [20, 20, 0])
    assert.equal(half.tiepoints, points ? [-0.25, -0.25, 0, 500_000, 5_400_000, 0] : place.tiepoints)
    const cornerOf = ({ pixelScale, tiepoints }: Georeference): number =>
      tiepoints![3]! + (points ? -0.5 - tiepoints![0]! : -tiepoints![0]!) * pixelScale![0]!
    assert.is(cornerOf(half), cornerOf(place))
    const matrix = [10, 1, 0, 7, 2, -10, 0, 9, 0, 0, 1, 0, 0, 0, 0, 1]
    const at = ([a, b, , d]: readonly number[], x: number, y: number): number => a! * x + b! * y + d!
    const moved = resizedGeoreference({ keys: place.keys, matrix }, 2, 4).matrix!
    const corner = points ? -0.5 : 0
    assert.is(at(moved, corner, corner), at(matrix, corner, corner))
    assert.is(at(moved, corner + 3, corner + 5), at(matrix, corner + 6, corner + 20))
  }
})

test('a prediction of a GeoTIFF has its place', async () => {
  const net = model([1, 1, 100, 100], seq(fromBytes(), conv2d('c', 3, 3, { stride: 2 })))
  const weights = at('placed.safetensors')
  await train(net, stage(net, { algorithms: 'fixed', loss: crossEntropy }), { steps: 1, seed: 1, save: weights })
  const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const data = await slides(written('earth.tif', { georeference: placeOf(false) }, 50))
  const { files } = await predict(net, plan, { weights, data, out: at('placed'), format: 'tiff' })
  const { levels, georeference } = pyramidOf(files!.find((f) => f.endsWith('.tif'))!)
  assert.equal([levels[0]!.width, levels[0]!.height], [351, 262])
  // The network has stride 2.
  assert.equal(georeference, { ...placeOf(false), pixelScale: [20, 20, 0] })
})

test('pixels of empty blocks have no data in a prediction, with the tag', async () => {
  const [width, height, side] = [640, 300, 32]
  const file = fillWhole(at('half.tif'))
  const rows = bigTiffInto(file, { width, height, channels: 1, type: 'u8', halving: 'mean', noData: 9 })
  // The left half has data.
  rows.put(Uint8Array.from({ length: width * height }, (_, i) => (i % width < width / 2 ? 100 + (i % 7) : 9)))
  rows.end()
  file.done()
  const net = model([1, 1, 100, 100], seq(fromBytes(), conv2d('c', 3, 3)))
  const weights = at('half.safetensors')
  await train(net, stage(net, { algorithms: 'fixed', loss: crossEntropy }), { steps: 1, seed: 1, save: weights })
  const data = await slides(at('half.tif'), { blocks: side })
  for (const [as, isNone] of [
    ['classes', (v: number) => v === 255],
    ['values', Number.isNaN],
  ] as const) {
    const plan = stage(net, { mode: 'predict', as, budget: mib(32), algorithms: 'fixed' })
    const { files } = await predict(net, plan, { weights, data, out: at(`half-${as}`), format: 'tiff' })
    const made = files!.find((f) => f.endsWith('.tif'))!
    const slide = openSlide(made, {}, [8, 32])
    const all = { top: 0, left: 0, height, width }
    const numbers = as === 'classes' ? await regionOf(slide, all) : await floatsOf(slide, 0, all)
    const found = Array.from(numbers as ArrayLike<number>, (v) => isNone(v))
    assert.equal(
      found,
      Array.from({ length: width * height }, (_, i) => i % width >= width / 2),
      as,
    )
    const zarr = (await predict(net, plan, { weights, data, out: at(`half-zarr-${as}`), format: 'zarr' })).files[0]!
    assert.equal(
      Array.from((await byZarrita(zarr, 0)).data, (v, i) => isNone(v) === found[i % (width * height)]).includes(false),
      false,
    )
    // The last of three columns of chunks has no data, so it has no files.
    assert.equal(readdirSync(join(zarr, '0/c/0/0')).sort(), ['0', '1'])
    if (as === 'classes') assert.is(pyramidOf(made).noData, 255)
    else assert.match(readFileSync(made, 'latin1'), /nan\0/)
    // A coarser pixel is the mean of the numbers among its four.
    const coarse = openSlide(made, { level: 1 }, [8, 32])
    const row = { top: 10, left: 0, height: 1, width: width / 2 }
    const below = as === 'classes' ? await regionOf(coarse, row) : await floatsOf(coarse, 0, row)
    assert.equal(
      Array.from(below as ArrayLike<number>, (v) => isNone(v)),
      Array.from({ length: width / 2 }, (_, x) => x >= width / 4),
    )
  }
})

test('a cancelled prediction counts images, or tiles of slides', async () => {
  const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(32), algorithms: 'fixed' })
  const cancelled = async (data: Data): Promise<string> => {
    const stop = new AbortController()
    const o = { weights, data, signal: stop.signal, onNote: () => {}, onProgress: (done: number) => done === 2 && stop.abort() }
    const answer = await predictTask(net, plan, o as PredictOptions)()
    return isLeft(answer) ? errorText(answer.left) : 'done'
  }
  const read = () => ({ input: new Uint8Array(3 * 64 * 64) })
  assert.is(await cancelled(source({ length: 4, read })), 'cancelled after 2 complete images')
  assert.is(await cancelled(await slides(at('slide.tif'), { tiles: 64, level: 1 })), 'cancelled after 2 complete tiles')
})

test.run()
