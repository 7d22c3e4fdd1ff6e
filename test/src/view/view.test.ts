// Viewers: the folder of a slide and its predictions. Tiles have the pixels of the files. Legends have names and shares. Texts are escaped. A viewer
// replaces a viewer and nothing else. An interrupted or failed one leaves no file.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import sharp from 'sharp'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { PALETTE, pngOfIndices } from '../../../src/files/pictures'
import { heatOf } from '../../../src/predict/heat'
import { type Viewed, type Viewing, viewTask } from '../../../src/view/view'
import { classAt, drawnSlide, HEIGHT, sharesAt, type TestSlide, WIDTH } from './slide'

const root = mkdtempSync(join(tmpdir(), 'spillway-view-'))
test.after(() => rmSync(root, { recursive: true }))
const at = (...names: readonly string[]): string => join(root, ...names)

let files: TestSlide
test.before(async () => {
  files = await drawnSlide(at('files'))
})

const view = async (o: Partial<Viewing>): Promise<Viewed> => {
  const done = await viewTask({ slide: files.slide, predictions: [], out: at('viewer'), ...o })()
  if (isLeft(done)) throw new Error(errorText(done.left))
  return done.right
}
const refusal = (o: Partial<Viewing>): Promise<string> =>
  view(o).then(
    () => 'taken',
    (e: Error) => e.message,
  )

/** Red, green, blue and opacity of a pixel of the finest level. */
const pixel = async (folder: string, format: string, y: number, x: number): Promise<readonly number[]> => {
  const file = join(folder, '11', `${Math.floor(x / 256)}_${Math.floor(y / 256)}.${format}`)
  const { data, info } = await sharp(file).ensureAlpha().raw().toBuffer({ resolveWithObject: true })
  return [...data.subarray(4 * ((y % 256) * info.width + (x % 256))).subarray(0, 4)]
}

const PLACES = [
  [5, 5],
  [450, 300],
  [450, 1000],
  [470, 649],
  [899, 1300],
] as const
const VOC = [
  [0, 0, 0, 0],
  [128, 0, 0, 255],
  [0, 128, 0, 255],
]

test('a folder holds the page, the library, and tiles with the pixels of the files', async () => {
  const viewed = await view({ predictions: [files.mask, files.shares] })
  assert.equal(viewed.layers, ['masks/slide', 'shares/slide: stroma', 'shares/slide: <i>tumour'])
  assert.equal([viewed.width, viewed.height, viewed.page], [WIDTH, HEIGHT, at('viewer', 'index.html')])
  const names = ['index.html', 'layer1.dzi', 'layer1_files', 'layer2.dzi', 'layer2_files', 'layer3.dzi', 'layer3_files']
  assert.equal(readdirSync(at('viewer')).sort(), [
    ...names,
    ...['openseadragon.license.txt', 'openseadragon.min.js', 'slide.dzi', 'slide_files'],
  ])
  const tiles = readdirSync(at('viewer'), { recursive: true }).filter((name) => /\d+_\d+\.(jpg|png)$/.test(String(name)))
  assert.is(tiles.length, viewed.tiles)
  assert.match(readFileSync(at('viewer', 'slide.dzi'), 'utf8'), `<Size Width="${WIDTH}" Height="${HEIGHT}"/>`)
  for (const [y, x] of PLACES) {
    const label = classAt(y, x)
    assert.equal(await pixel(at('viewer', 'layer1_files'), 'png', y, x), VOC[label]!, `class at ${y}, ${x}`)
    for (const [layer, c] of [
      ['layer2_files', 1],
      ['layer3_files', 2],
    ] as const) {
      const [r, g, b, opacity] = await pixel(at('viewer', layer), 'png', y, x)
      const heat = heatOf(sharesAt(y, x)[c]!)
      // One of 255 steps of the palette.
      assert.ok([r!, g!, b!].every((v, i) => Math.abs(v - heat[i]!) <= 2) && opacity === 255, `${layer} at ${y}, ${x}`)
    }
  }
  const photo = await pixel(at('viewer', 'slide_files'), 'jpg', 450, 1000)
  assert.ok(
    [150, 80, 160].every((v, i) => Math.abs(v - photo[i]!) <= 4),
    String(photo),
  )
})

test('the page has legends, a scale, and no address outside its folder', () => {
  const html = readFileSync(at('viewer', 'index.html'), 'utf8')
  assert.match(html, /1,301 × 900 pixels, 0.25 µm per pixel/)
  assert.match(html, '&lt;i&gt;tumour')
  assert.not.match(html, '<i>tumour')
  const shares = [...html.matchAll(/<b>([\d.]+) %<\/b>/g)].map((m) => Number(m[1]))
  const labels = Array.from({ length: WIDTH * HEIGHT }, (_, i) => classAt(Math.floor(i / WIDTH), i % WIDTH))
  const exact = [0, 1, 2].map((label) => (100 * labels.filter((l) => l === label).length) / labels.length)
  assert.equal(
    shares,
    exact.map((share) => Number(share.toFixed(1))),
  )
  const addresses = [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map((m) => m[1])
  assert.equal(addresses, ['openseadragon.min.js'])
  assert.not.match(html, /fetch\(|XMLHttpRequest/)
})

test('a coarser level is the finest one of the viewer', async () => {
  const viewed = await view({ level: 1, predictions: [files.mask], out: at('coarse') })
  assert.equal([viewed.width, viewed.height], [650, 450])
  assert.match(readFileSync(at('coarse', 'index.html'), 'utf8'), /650 × 450 pixels, 0.5 µm per pixel/)
  assert.match(await refusal({ level: 9 }), /slide\.tif .*it has no level 9: its levels are 0: 1301 x 900/)
})

test('a viewer replaces a viewer, and nothing else', async () => {
  await view({})
  assert.not.ok(existsSync(at('viewer', 'layer1.dzi')))
  mkdirSync(at('mine'))
  writeFileSync(at('mine', 'notes.txt'), 'mine')
  assert.match(await refusal({ out: at('mine') }), /contains notes\.txt, which is no part of a viewer/)
  assert.match(await refusal({ out: at('page.html') }), /--out writes a folder, but the name ends in \.html/)
  assert.match(await refusal({ out: at('files') }), /contains masks, which is no part of a viewer/)
  assert.equal(readdirSync(at('mine')), ['notes.txt'])
})

const table = (name: string, rows: readonly string[]): string => {
  const head = 'file,x,y,width,height,class,confidence,probability of no,probability of yes'
  writeFileSync(at(name), `${[head, ...rows].join('\n')}\n`)
  return at(name)
}

test('a table of tiles is a layer of its probabilities, in the places of its tiles', async () => {
  const tiles = table('tiles.csv', [
    'other.tif,0,0,256,256,no,1,1,0',
    'elsewhere/slide.tif,0,0,256,256,no,1,1,0',
    'elsewhere/slide.tif,256,512,256,256,yes,0.75,0.25,0.75',
    'elsewhere/slide.tif,1045,644,256,256,yes,0.5,0.5,0.5',
  ])
  const viewed = await view({ predictions: [tiles], out: at('tiled') })
  assert.equal(viewed.layers, ['tiles: yes'])
  // A pixel of the map is 32 pixels of the slide.
  const { data, info } = await sharp(at('tiled', 'layer1_files', '6', '0_0.png'))
    .raw()
    .toBuffer({ resolveWithObject: true })
  assert.equal([info.width, info.height], [41, 29])
  for (const [y, x, share] of [
    [100, 100, 0],
    [700, 400, 0.75],
    [890, 1290, 0.5],
    [100, 400, undefined],
  ] as const) {
    const from = 4 * (Math.floor(y / 32) * 41 + Math.floor(x / 32))
    const found = data.subarray(from, from + 4)
    if (share === undefined) assert.is(found[3], 0)
    else assert.ok(heatOf(share).every((v, i) => Math.abs(v - found[i]!) <= 2) && found[3] === 255, `${y}, ${x}`)
  }
  const [, across] = /"across":([\d.]+)/.exec(readFileSync(at('tiled', 'index.html'), 'utf8'))!
  assert.is(Number(across), (41 * 32) / WIDTH)
  assert.match(await refusal({ predictions: [table('none.csv', ['a.tif,0,0,1,1,no,1,1,0'])] }), /it has no tile of slide\.tif/)
  const far = table('far.csv', ['slide.tif,1200,0,256,256,no,1,1,0'])
  assert.match(await refusal({ predictions: [far] }), /line 2 is no tile of a slide of 1301 x 900 pixels/)
  writeFileSync(at('plain.csv'), 'file,class,confidence\nslide.tif,no,1\n')
  assert.match(await refusal({ predictions: [at('plain.csv')] }), /line 2 is no tile of a slide/)
})

test('a PNG mask has the classes of its pixels, and at most the pixels of the slide', async () => {
  const classes = Uint8Array.from({ length: WIDTH * HEIGHT }, (_, i) => classAt(Math.floor(i / WIDTH), i % WIDTH))
  writeFileSync(at('mask.png'), pngOfIndices(WIDTH, HEIGHT, classes, PALETTE))
  const viewed = await view({ predictions: [at('mask.png'), files.mask], out: at('png') })
  assert.equal(viewed.layers, ['mask', 'masks/slide'])
  for (const [y, x] of PLACES) {
    assert.equal(await pixel(at('png', 'layer1_files'), 'png', y, x), VOC[classAt(y, x)])
    assert.equal(await pixel(at('png', 'layer2_files'), 'png', y, x), VOC[classAt(y, x)])
  }
  writeFileSync(at('wide.png'), pngOfIndices(2 * WIDTH, 10, new Uint8Array(20 * WIDTH), PALETTE))
  writeFileSync(at('large.png'), pngOfIndices(2 * WIDTH, HEIGHT, new Uint8Array(2 * WIDTH * HEIGHT), PALETTE))
  writeFileSync(at('cut.png'), readFileSync(at('mask.png')).subarray(0, 200))
  assert.match(await refusal({ predictions: [at('wide.png')] }), /wide\.png .*other proportions than the slide/)
  assert.match(await refusal({ predictions: [at('large.png')] }), /large\.png .*the limit is \d+/)
  assert.match(await refusal({ predictions: [at('cut.png')] }), /cut\.png .*it ends before its last pixel/)
})

test('files that are no predictions of the slide are refused with the reason', async () => {
  const raw = (name: string, width: number, height: number, channels: 1 | 3): Promise<unknown> =>
    sharp(Buffer.alloc(width * height * channels), { raw: { width, height, channels } })
      .toColourspace(channels === 1 ? 'b-w' : 'srgb')
      .tiff({ tile: true, compression: 'deflate' })
      .toFile(at(name))
  await raw('other.tif', 500, 500, 1)
  await raw('colours.tif', WIDTH, HEIGHT, 3)
  const before = readdirSync(root)
  assert.match(
    await refusal({ predictions: [at('other.tif')] }),
    /other\.tif .*its 500 x 500 pixels have other proportions than the slide/,
  )
  assert.match(
    await refusal({ predictions: [at('colours.tif')] }),
    /colours\.tif .*its pixels have 3 channels; allowed: one class/,
  )
  assert.match(await refusal({ predictions: [at('none.tif')] }), /none\.tif/)
  assert.match(await refusal({ slide: join(__dirname, 'slide.ts') }), /it is not a TIFF file/)
  assert.equal(readdirSync(root), before)
})

test('an interrupted viewer leaves the earlier one as it was', async () => {
  const page = readFileSync(at('viewer', 'index.html'))
  const [before, controller] = [readdirSync(root), new AbortController()]
  const stop = { signal: controller.signal, onProgress: (done: number) => done === 3 && controller.abort() }
  const done = await viewTask({ slide: files.slide, predictions: [files.mask], out: at('viewer'), ...stop })()
  assert.ok(isLeft(done) && done.left.tag === 'Cancelled')
  assert.equal(readdirSync(root), before)
  assert.equal(readFileSync(at('viewer', 'index.html')), page)
})

test('without OpenSeadragon the message names the package', async () => {
  const modules = createRequire(__filename)('node:module') as {
    _resolveFilename: (request: string, ...rest: unknown[]) => string
  }
  const resolve = modules._resolveFilename
  modules._resolveFilename = (request, ...rest) => {
    if (request === 'openseadragon') throw new Error('it is not there')
    return resolve(request, ...rest)
  }
  try {
    assert.match(await refusal({}), /the viewer needs the package openseadragon: npm install openseadragon/)
  } finally {
    modules._resolveFilename = resolve
  }
})

test.run()
