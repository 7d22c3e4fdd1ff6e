// Damaged files: they are named before the run, and left out on request. A run without them is the run over a folder that never had them, to the bit,
// after a resume, too. Bags lose all of their slides.
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, crossEntropy, folder, globalAvgPool, model, relu, seq, slides, stage, train, withoutDamaged } from '../../../src'
import type { Data } from '../../../src/data/data'
import { spillwayHere, trainingHereOf, unchecked } from '../../e2e/processes'
import { DEVICE } from '../../e2e/runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-damaged-'))
test.after(() => rmSync(root, { recursive: true }))
const at = (...names: readonly string[]): string => join(root, ...names)

const pixelsOf = (i: number, height: number, width: number): Buffer =>
  Buffer.from(Uint8Array.from({ length: 3 * height * width }, (_, k) => (k * (7 + i)) % 251))
const written = (file: string): string => {
  mkdirSync(join(file, '..'), { recursive: true })
  return file
}
const picture = (file: string, i: number, height = 24, width = 20): Promise<unknown> =>
  sharp(pixelsOf(i, height, width), { raw: { height, width, channels: 3 } })
    .png()
    .toFile(written(file))
const slide = (file: string, i: number): Promise<unknown> =>
  sharp(pixelsOf(i, 96, 64), { raw: { height: 96, width: 64, channels: 3 } })
    .tiff({ tile: true, tileWidth: 32, tileHeight: 32, compression: 'jpeg', pyramid: true })
    .toFile(written(file))

/** Overwrites the bytes of the first compressed tile that begins in the middle of the file. */
const scratch = (file: string): void => {
  const bytes = readFileSync(file)
  const start = bytes.indexOf(Buffer.from([0xff, 0xd8, 0xff]), bytes.length >> 2)
  const fd = openSync(file, 'r+')
  writeSync(fd, Buffer.alloc(64, 0xff), 0, 64, start)
}

const net = model([1, 3, 16, 16], seq(conv2d('a', 4, 3), relu(), conv2d('b', 2, 1), globalAvgPool('gap')))
const plan = stage(net, { loss: crossEntropy, algorithms: 'fixed', machine: DEVICE })
const run = async (data: Data): Promise<{ readonly notes: readonly string[]; readonly sha: string }> => {
  const notes: string[] = []
  const { weightsSha256 } = await train(net, plan, { epochs: 2, seed: 4, data, onNote: (text) => void notes.push(text) })
  return { notes, sha: weightsSha256 }
}
const refusal = (of: Promise<unknown>): Promise<string> =>
  of.then(
    () => 'taken',
    (e: Error) => e.message,
  )

test('damaged images are left out with a note each: the run is that of the other images, to the bit', async () => {
  for (let i = 0; i < 6; i++) await picture(at('pictures', i % 2 ? 'cat' : 'dog', `${i}.png`), i)
  for (const i of [0, 1, 2, 4, 5])
    copyFileSync(at('pictures', i % 2 ? 'cat' : 'dog', `${i}.png`), written(at('intact', i % 2 ? 'cat' : 'dog', `${i}.png`)))
  const broken = at('pictures/cat/3.png')
  truncateSync(broken, 300)
  assert.match(await refusal(run(folder(at('pictures')))), /3\.png is refused: it cannot be decoded/)
  const { notes, sha } = await run(await withoutDamaged(folder(at('pictures'))))
  assert.is(sha, (await run(folder(at('intact')))).sha)
  assert.match(notes.join('\n'), /left out 1 damaged image/)
  assert.match(notes.join('\n'), /pictures: left out: data file .*3\.png is refused: it cannot be decoded/)
})

test('a mask of another size, or a damaged one, leaves its image out', async () => {
  for (let i = 0; i < 4; i++) {
    await picture(at('pairs/images', `${i}.png`), i)
    const [height, width] = i === 1 ? [24, 21] : [24, 20]
    await sharp(Buffer.alloc(height! * width!), { raw: { height: height!, width: width!, channels: 1 } })
      .toColourspace('b-w')
      .png()
      .toFile(written(at('pairs/masks', `${i}.png`)))
  }
  writeFileSync(at('pairs/masks/2.png'), readFileSync(at('pairs/masks/2.png')).subarray(0, 60))
  const { set } = await withoutDamaged(folder(at('pairs')))
  if (set.kind !== 'images') throw new Error(set.kind)
  assert.equal([...set.damaged!.keys()], [at('pairs/images/1.png'), at('pairs/images/2.png')])
})

test('the command finds a broken head and a mask of another size before it plans', async () => {
  const ofPixels = at('pixels.js')
  const dsl = JSON.stringify(join(__dirname, '../../../dsl'))
  writeFileSync(
    ofPixels,
    `const { conv2d, model } = require(${dsl})\nmodule.exports = model([1, 3, 16, 16], conv2d('a', 2, 3))\n`,
  )
  const begins = async (data: string, file = unchecked(join(__dirname, 'damaged-model.ts'))): Promise<string> => {
    const end = await trainingHereOf(file, '--loss', 'cross-entropy', '--data', data)
    assert.not.equal(end.code, 0)
    assert.not.match(end.err, /planning/)
    return end.err
  }
  assert.match(
    await begins(at('pairs'), ofPixels),
    /masks\/1\.png is refused: 21 x 24 pixels, but its image has 20 x 24: save the mask at the size/,
  )
  for (const i of [0, 1]) await picture(at('heads', `${i}`, 'x.png'), i)
  writeFileSync(at('heads/1/x.png'), 'no picture')
  assert.match(await begins(at('heads')), /heads\/1\/x\.png is refused: it cannot be decoded/)
})

test('a slide with a damaged tile is left out with its bag; the note names file, level and tile', async () => {
  for (let i = 0; i < 5; i++) await slide(at('slides', i < 3 ? 'a' : 'b', `${i}.tif`), i)
  const broken = at('slides/a/1.tif')
  scratch(broken)
  assert.match(
    await refusal(run(await slides(at('slides')))),
    /1\.tif is refused: level 0, tile \d, \d \(row, column.*it cannot be decoded/,
  )
  const data = await slides(at('slides'), { skipDamaged: true })
  const { notes, sha } = await run(data)
  assert.match(notes.join('\n'), /left out: data file .*1\.tif is refused: level 0, tile \d, \d \(row, column/)
  assert.match(notes.join('\n'), /left out 1 of 5 slides/)
  for (const i of [0, 2, 3, 4])
    copyFileSync(at('slides', i < 3 ? 'a' : 'b', `${i}.tif`), written(at('kept', i < 3 ? 'a' : 'b', `${i}.tif`)))
  assert.is(sha, (await run(await slides(at('kept')))).sha)
  writeFileSync(
    at('bags.csv'),
    `image,label,bag\n${[0, 1, 2, 3].map((i) => `slides/${i < 3 ? 'a' : 'b'}/${i}.tif,${i < 2 ? 0 : 1},${i < 2 ? 'x' : 'y'}`).join('\n')}\n`,
  )
  const bags = await slides(at('bags.csv'), { skipDamaged: true, blocks: 32, canvas: 256 })
  assert.is(bags.set.kind === 'own' && bags.set.length, 1)
  assert.match(await refusal(slides(broken, { skipDamaged: true })), /no slide is left: .*1\.tif is refused: level 0/)
})

test('a resumed run and a prediction of the command leave out the same files', async () => {
  const file = unchecked(join(__dirname, 'damaged-model.ts'))
  const how = ['--loss', 'cross-entropy', '--seed', '2', '--skip-damaged']
  for (const data of ['pictures', 'slides']) {
    const own = ['--data', at(data), ...(data === 'slides' ? ['--level', '0'] : [])]
    const saved = at(`${data}.safetensors`)
    const whole = await trainingHereOf(file, ...how, ...own, '--epochs', '3', '--save', saved)
    assert.is(whole.code, 0, whole.err)
    assert.match(whole.err + whole.out, /left out/)
    const kept = ['--checkpoint-dir', at(`${data}-run`), '--checkpoint-every', '1', '--no-save']
    assert.is((await trainingHereOf(file, ...how, ...own, '--steps', '3', ...kept)).code, 0)
    const resumed = await trainingHereOf(file, ...how, ...own, '--epochs', '3', ...kept, '--resume')
    assert.is(resumed.code, 0, resumed.err)
    assert.is(JSON.parse(resumed.out).weightsSha256, JSON.parse(whole.out).weightsSha256)
    const out = at(`${data}.csv`)
    const common = ['--weights', saved, '--skip-damaged', '--as', 'probabilities', '--device', DEVICE, '--out', out]
    const predicted = await spillwayHere('predict', file, ...own, ...common)
    assert.is(predicted.code, 0, predicted.err)
    assert.is(readFileSync(out, 'utf8').trim().split('\n').length - 1, data === 'slides' ? 4 : 5)
  }
  const odd = await trainingHereOf(file, ...how, '--steps', '1')
  assert.match(odd.err, /--skip-damaged is for image files and slides: add --data/)
})

test.run()
