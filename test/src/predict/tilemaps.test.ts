// Maps of classified tiles: squares in their places, none where no tile is, the later of two that overlap; tables and maps of a prediction at a
// coarser level.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
  seq,
  slides,
  source,
  stage,
  train,
} from '../../../src'
import { heatOf } from '../../../src/predict/heat'
import { tileMap } from '../../../src/predict/tilemaps'

const root = mkdtempSync(join(tmpdir(), 'spillway-tilemaps-'))
test.after(() => rmSync(root, { recursive: true }))
const at = (...names: readonly string[]): string => join(root, ...names)

test('tiles are squares of eight pixels; places without a tile have no number', () => {
  const side = { width: 512, height: 512 }
  const map = tileMap({ width: 1300, height: 900 }, [
    { ...side, x: 0, y: 0, share: 0.25 },
    { ...side, x: 512, y: 0, share: 0.5 },
    { ...side, x: 788, y: 388, share: 1 },
  ])
  assert.equal([map.width, map.height, map.scale], [21, 15, 64])
  const share = (y: number, x: number): number => map.pixels[y * 21 + x]!
  assert.equal([share(0, 0), share(7, 7), share(0, 8), share(7, 11)], [0.25, 0.25, 0.5, 0.5])
  // The tile at 788, 388 begins at pixel 12, 6 of the map: it hides a part of the one before it.
  assert.equal([share(5, 12), share(6, 12), share(13, 19)], [0.5, 1, 1])
  assert.ok([share(8, 0), share(14, 20), share(0, 16)].every(Number.isNaN))
  assert.is(map.pixels.filter((x) => !Number.isNaN(x)).length, 64 + 64 + 64 - 2 * 4)
})

test('many small tiles have a map of at most 2048 pixels a side', () => {
  const map = tileMap({ width: 100_000, height: 50_000 }, [{ x: 0, y: 0, width: 64, height: 64, share: 1 }])
  assert.equal([map.width, map.height], [2048, 1024])
})

const [WIDTH, HEIGHT] = [1300, 900]
const classes = ['glass', 'tissue', 'a/b']
const net = model([4, 3, 128, 128], seq(fromBytes(), conv2d('a', 3, 3), globalAvgPool()))

test('a prediction of tiles writes a row for each, and a map for each class but the first', async () => {
  const pixels = Buffer.from(Array.from({ length: WIDTH * HEIGHT * 3 }, (_, i) => ((i / 3) % WIDTH) / 6))
  await sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
    .tiff({ tile: true, tileWidth: 128, tileHeight: 128, pyramid: true, compression: 'deflate' })
    .toFile(at('slide.tif'))
  const weights = at('net.safetensors')
  const data = source({ length: 4, read: () => ({ input: new Uint8Array(3 * 128 * 128), target: 0 }), classes })
  await train(net, stage(net, { algorithms: 'fixed', loss: crossEntropy }), { steps: 1, seed: 1, data, save: weights })
  const plan = stage(net, { mode: 'predict', as: 'probabilities', budget: mib(64), algorithms: 'fixed' })
  // Level 1 has 650 x 450 pixels: 6 x 4 tiles of 128.
  const tiles = await slides(at('slide.tif'), { level: 1, tiles: 128 })
  const out = at('tables', 'results.csv')
  const { files, ranked = [], images } = await predict(net, plan, { weights, data: tiles, out })
  assert.equal(files, [out, at('tables', 'results-slide-tissue.png'), at('tables', 'results-slide-a_b.png')])
  const [head, ...rows] = readFileSync(out, 'utf8').trim().split('\n')
  assert.is(head, `file,x,y,width,height,class,confidence,${classes.map((c) => `probability of ${c}`).join(',')}`)
  assert.equal([rows.length, images], [24, 24])
  const places = rows.map((row) => row.split(',').slice(0, 5))
  assert.equal(places[0], [at('slide.tif'), '0', '0', '256', '256'])
  // The last tile begins at 522, 322 of level 1.
  assert.equal(places[23], [at('slide.tif'), '1044', '644', '256', '256'])
  assert.equal([ranked[23]!.x, ranked[23]!.y, ranked[23]!.top.length], [1044, 644, 3])
  const map = await sharp(files[1]!).raw().toBuffer({ resolveWithObject: true })
  assert.equal([map.info.width, map.info.height, map.info.channels], [41, 29, 4])
  for (const [tile, y, x] of [
    [0, 3, 3],
    [7, 12, 12],
    [23, 26, 38],
  ] as const) {
    const heat = heatOf(Number(rows[tile]!.split(',')[8]))
    const found = map.data.subarray(4 * (y * 41 + x), 4 * (y * 41 + x) + 4)
    assert.ok(heat.every((v, i) => Math.abs(v - found[i]!) <= 2) && found[3] === 255, `tile ${tile}`)
  }
  // The table may be replaced, and JSON holds the same places.
  await predict(net, plan, { weights, data: tiles, out })
  await predict(net, plan, { weights, data: tiles, out: at('results.jsonl') })
  const first = JSON.parse(readFileSync(at('results.jsonl'), 'utf8').split('\n')[0]!)
  assert.equal([first.x, first.y, first.width, first.height, first.top.length], [0, 0, 256, 256, 3])
  assert.ok(existsSync(at('results-slide-tissue.png')))
})

test.run()
