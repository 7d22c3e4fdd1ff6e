// own process
// timeout 900
// Training on image files through the command line: any number of threads, killed in the middle of an epoch, gives the same weights.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import { bceWithLogits, conv2d, crossEntropy, focal, globalAvgPool, model, relu, seq, softCrossEntropy } from '../../dsl'
import { type Data, files, folder, pick, type Sample, source, split } from '../../src/data/data'
import { errorText } from '../../src/errors/errors'
import { writeTensors } from '../../src/files/safetensors'
import { evaluate } from '../../src/predict/evaluator'
import { train, trainTask } from '../../src/train/trainer'
import { png } from '../src/data/png'
import images from './images-model'
import { ended, trainingHereOf, trainingOf, unchecked } from './processes'
import { staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-pictures-'))
test.after(() => rmSync(root, { recursive: true }))
const plan = staged(images, { loss: crossEntropy })

const pixels = (n: number, seed: number): Uint8Array =>
  Uint8Array.from({ length: n }, (_, i) => (i * 31 + seed * 57 + ((i * seed) % 7)) & 255)
const SIZES = [
  [16, 16],
  [24, 20],
  [40, 17],
] as const
const classes = join(root, 'classes')
for (let i = 0; i < 14; i++) {
  const [width, height] = SIZES[i % 3]!
  const at = join(classes, i % 2 ? 'odd' : 'even')
  mkdirSync(at, { recursive: true })
  writeFileSync(join(at, `${i}.png`), png({ width, height, bits: 8, colour: 'rgb', pixels: pixels(width * height * 3, i) }))
}

const MODEL = unchecked(join(__dirname, 'images-model.ts'))
const STEPS = '40'
const start = (checkpointDir: string, workers: number, ...more: string[]) =>
  trainingOf(MODEL, [
    ...[
      '--loss',
      'cross-entropy',
      '--data',
      classes,
      '--augment',
      'flip,turns,crop,elastic,randAugment,jitter,hue,blur,cutout',
      '--shuffle',
      '--seed',
      '3',
    ],
    ...[
      '--workers',
      String(workers),
      '--steps',
      STEPS,
      '--checkpoint-dir',
      join(root, checkpointDir),
      '--checkpoint-every',
      '1',
      ...more,
    ],
  ])
interface Told {
  readonly weightsSha256: string
  readonly losses: readonly number[]
}

test('images in class order cause a note, unless they are shuffled', async () => {
  const notesOf = async (data: Data, shuffle: boolean): Promise<readonly string[]> => {
    const notes: string[] = []
    await train(images, plan, { steps: 1, data, shuffle, onNote: (text) => notes.push(text) })
    return notes.filter((text) => text.includes('folder order'))
  }
  assert.is((await notesOf(folder(classes), false)).length, 1)
  assert.equal(await notesOf(folder(classes), true), [])
  assert.equal(await notesOf(pick(folder(classes), [0, 7, 1, 8, 2, 9]), false), [])
})

test('balanced classes of images: a resumed run draws the same samples', async () => {
  const uneven = folder(classes)
  const rare = pick(uneven, [0, 1, 2, 3, 4, 5, 7])
  const notes: string[] = []
  const go = { data: rare, balanceClasses: true, seed: 2, onNote: (text: string): void => void notes.push(text) } as const
  const whole = await train(images, plan, { ...go, steps: 6 })
  assert.match(notes.join('\n'), /balanced classes: each is drawn 3 or 4 times per epoch of 7; samples: even 6, odd 1/)
  const checkpointDir = join(root, 'balanced')
  await train(images, plan, { ...go, steps: 3, checkpointDir })
  const resumed = await train(images, plan, { ...go, steps: 6, checkpointDir, resume: true })
  assert.equal([resumed.losses, resumed.weightsSha256], [whole.losses, whole.weightsSha256])
  const other = await trainTask(images, plan, { ...go, balanceClasses: false, steps: 7, checkpointDir, resume: true })()
  assert.match(isLeft(other) ? errorText(other.left) : 'it ran', /balanced/)
})

const KILLS = process.env['SPILLWAY_FULL'] ? 20 : 1

gateTest(
  `killed (${KILLS}) in the middle of epochs, resumed with other numbers of threads, the weights are the same`,
  async () => {
    const alone = await ended(start('alone', 2))
    assert.is(alone.code, 0, alone.err)
    let kills = 0
    for (let i = 0; i < KILLS; i++) {
      const child = start('killed', i % 3, '--resume')
      const end = await ended(child, (err) => {
        if ((err.match(/^step \d/gm) ?? []).length > i % 3) child.kill('SIGKILL')
      })
      if (end.signal === 'SIGKILL') kills++
    }
    assert.is(kills, KILLS)
    const rest = await ended(start('killed', 1, '--resume'))
    assert.is(rest.code, 0, rest.err)
    const [a, b] = [alone, rest].map((e) => JSON.parse(e.out) as Told)
    assert.equal([b!.losses, b!.weightsSha256], [a!.losses, a!.weightsSha256])
  },
)

test('mixed images train with shares of classes, equal for any count of threads; with labels they are refused', async () => {
  const mixing = (loss: string, workers: number) =>
    trainingHereOf(
      MODEL,
      ...['--loss', loss, '--data', classes, '--augment', 'flip,mixup,cutmix', '--shuffle', '--seed', '3', '--steps', '6'],
      ...['--workers', String(workers)],
    )
  const [alone, several] = [await mixing('soft-cross-entropy', 0), await mixing('soft-cross-entropy', 3)]
  const told = ({ out }: { readonly out: string }): Told => JSON.parse(out) as Told
  assert.equal([told(several).weightsSha256, told(several).losses], [told(alone).weightsSha256, told(alone).losses])
  assert.ok(told(alone).losses.every((l) => l > 0 && l < 10))
  const { code, out } = await mixing('cross-entropy', 0)
  assert.is(code, 2)
  assert.match(JSON.parse(out).error.message, /augment\.mixup needs a loss with class probabilities/)
})

test("a source of one's own, by chance, gives the bits of the same images in files", async () => {
  const at = join(root, 'own')
  const COUNT = 6
  for (let i = 0; i < COUNT; i++) {
    mkdirSync(join(at, String(Number(i > 2))), { recursive: true })
    const picture = { width: 16, height: 16, bits: 8, colour: 'rgb', pixels: pixels(768, i) } as const
    writeFileSync(join(at, String(Number(i > 2)), `${i}.png`), png(picture))
  }
  const augment = {
    flip: 'both',
    turns: true,
    elastic: true,
    randAugment: true,
    jitter: { hue: 0.2 },
    blur: true,
    cutout: true,
  } as const
  const read = (i: number) => ({ input: pixels(768, i), target: Number(i > 2) })
  const own = source({ length: COUNT, layout: 'NHWC', mean: [0.5], read, augment })
  const go = { steps: 5, seed: 1, shuffle: true } as const
  const [a, b] = [folder(at, { mean: [0.5], augment }), own]
  const [one, other] = [await train(images, plan, { ...go, data: a }), await train(images, plan, { ...go, data: b })]
  assert.equal([other.losses, other.weightsSha256], [one.losses, one.weightsSha256])
  const mixing = { mixup: true, cutmix: true, flip: 'horizontal' } as const
  const mixed = staged(images, { loss: softCrossEntropy() })
  const [files1, own1] = [
    folder(at, { mean: [0.5], augment: mixing }),
    source({ length: COUNT, layout: 'NHWC', mean: [0.5], read, augment: mixing }),
  ]
  const [c, d] = [await train(images, mixed, { ...go, data: files1 }), await train(images, mixed, { ...go, data: own1 })]
  assert.equal([d.losses, d.weightsSha256], [c.losses, c.weightsSha256])
})

test('two classes, and masks of 0 and 1, train one channel beside a sigmoid as the numbers do', async () => {
  const [yesNo, ofPixels] = [join(root, 'yes-no'), join(root, 'of-pixels')]
  const small = { width: 8, height: 8, bits: 8 } as const
  for (let i = 0; i < 4; i++) {
    for (const at of [join(yesNo, i % 2 ? 'yes' : 'no'), join(ofPixels, 'images'), join(ofPixels, 'masks')])
      mkdirSync(at, { recursive: true })
    const picture = png({ ...small, colour: 'rgb', pixels: pixels(192, i) })
    writeFileSync(join(yesNo, i % 2 ? 'yes' : 'no', `${i}.png`), picture)
    writeFileSync(join(ofPixels, 'images', `${i}.png`), picture)
    const marks = Uint8Array.from({ length: 64 }, (_, k) => ((k * (i + 3)) >> 2) & 1)
    writeFileSync(join(ofPixels, 'masks', `${i}.png`), png({ ...small, colour: 'grey', pixels: marks }))
  }
  const order = [0, 2, 1, 3]
  const whole = (i: number) => ({ input: pixels(192, order[i]!), target: order[i]! % 2 })
  const marked = (i: number) => ({
    input: pixels(192, i),
    target: Array.from({ length: 64 }, (_, k) => ((k * (i + 3)) >> 2) & 1),
  })
  const trunk = [conv2d('a', 4, 3), relu(), conv2d('head', 1, 1)] as const
  const one = model([2, 3, 8, 8], seq(...trunk, globalAvgPool('pool')))
  const many = model([2, 3, 8, 8], seq(...trunk))
  for (const loss of [bceWithLogits, focal()] as const) {
    const go = { steps: 3, seed: 1, shuffle: true } as const
    const of = (read: (i: number) => Sample) => source({ length: 4, layout: 'NHWC', mean: [0], read })
    const classesIn = await train(one, staged(one, { loss }), { ...go, data: folder(yesNo, { mean: [0] }) })
    const classesOf = await train(one, staged(one, { loss }), { ...go, data: of(whole) })
    assert.equal([classesIn.losses, classesIn.weightsSha256], [classesOf.losses, classesOf.weightsSha256])
    const masksIn = await train(many, staged(many, { loss }), { ...go, data: folder(ofPixels, { mean: [0] }) })
    const masksOf = await train(many, staged(many, { loss }), { ...go, data: of(marked) })
    assert.equal([masksIn.losses, masksIn.weightsSha256], [masksOf.losses, masksOf.weightsSha256])
  }
  const ofMasks = await trainTask(many, staged(many, { loss: focal() }), {
    steps: 1,
    data: folder(ofPixels),
    balanceClasses: true,
  })()
  assert.match(
    isLeft(ofMasks) ? errorText(ofMasks.left) : 'it ran',
    /balanceClasses: these images have masks, not one class each/,
  )
  writeFileSync(join(ofPixels, 'masks', '0.png'), png({ ...small, colour: 'grey', pixels: new Uint8Array(64).fill(255) }))
  await train(many, staged(many, { loss: bceWithLogits }), { steps: 2, data: folder(ofPixels) }).then(
    () => assert.unreachable(),
    (e: Error) =>
      assert.match(e.message, /255 is not one of 2 classes \(0 to 1\); divide masks of 0 and 255 by 255, or ignore 255 /),
  )
})

test('evaluations see samples as they are', async () => {
  const read = (i: number) => ({ input: pixels(768, i), target: i % 2 })
  const save = join(root, 'seen.safetensors')
  const own = { length: 5, layout: 'NHWC', mean: [0.5], read } as const
  await train(images, plan, { steps: 1, data: source(own), save })
  const measured = staged(images, { mode: 'evaluate', loss: crossEntropy })
  const evaluated = async (data: Data): Promise<number> => (await evaluate(images, measured, { weights: save, data })).loss
  assert.is(await evaluated(source({ ...own, augment: { flip: 'both', jitter: true } })), await evaluated(source(own)))
})

test('images of the right size have the bits of the same bytes in an array', async () => {
  const at = join(root, 'exact')
  const COUNT = 6
  for (let i = 0; i < COUNT; i++) {
    mkdirSync(join(at, String(i % 2)), { recursive: true })
    writeFileSync(
      join(at, String(i % 2), `${i}.png`),
      png({ width: 16, height: 16, bits: 8, colour: 'rgb', pixels: pixels(768, i) }),
    )
  }
  const order = [0, 2, 4, 1, 3, 5]
  const array = join(root, 'exact.safetensors')
  writeTensors(array, [
    { name: 'input', type: 'U8', shape: [COUNT, 16, 16, 3], read: () => right(Buffer.concat(order.map((i) => pixels(768, i)))) },
    { name: 'target', type: 'U8', shape: [COUNT], read: () => right(Uint8Array.from(order, (i) => i % 2)) },
  ])
  const [mean, std] = [
    [0.5, 0.4, 0.3],
    [0.2, 0.3, 0.4],
  ]
  const both = [folder(at, { mean, std }), files(array, { layout: 'NHWC', mean, std })]
  const [a, b] = await Promise.all(both.map((data) => train(images, plan, { steps: 5, seed: 1, data, shuffle: true })))
  assert.equal([a!.losses, a!.weightsSha256], [b!.losses, b!.weightsSha256])
  const [some] = split(both[0]!, 0.5)
  assert.not.equal((await train(images, plan, { steps: 5, seed: 1, data: some })).losses, a!.losses)
})

test('images that do not fit the model, and invalid settings, are refused', async () => {
  const wordsOf = async (
    data: Parameters<typeof train>[2]['data'],
    net = images as Parameters<typeof train>[0],
  ): Promise<string> => {
    const p = net === images ? plan : staged(net as typeof images)
    const r = await trainTask(net, p, { steps: 4, ...(data ? { data } : {}) })()
    assert.ok(isLeft(r))
    return errorText(r.left)
  }
  assert.match(await wordsOf(folder(classes), model([1, 3, 16, 16], conv2d('c', 3, 1))), /image files give classes or masks/)
  assert.match(await wordsOf(folder(join(root, 'nowhere'))), /no such file/)
  assert.match(
    await wordsOf(folder(classes, { depth: 16, augment: { randAugment: true } })),
    /augment\.randAugment needs 8-bit images, but depth is 16: leave one of them out/,
  )
  mkdirSync(join(classes, 'third'))
  writeFileSync(join(classes, 'third', 'a.png'), 'no image')
  assert.match(await wordsOf(classes), /the images have 3 classes, but the model has 2/)
  rmSync(join(classes, 'third'), { recursive: true })
  writeFileSync(join(classes, 'odd', 'z.png'), 'no image')
  assert.match(await wordsOf(folder(classes)), /odd\/z\.png is refused: it cannot be decoded/)
  const thrown = (f: () => unknown): string => {
    try {
      f()
    } catch (e) {
      return (e as Error).message
    }
    return ''
  }
  assert.match(
    thrown(() => folder('x', { augment: { flips: true } as object })),
    /unknown augment option 'flips'; allowed: flip, turns, crop, elastic, randAugment, jitter, blur, cutout, mixup, cutmix/,
  )
  assert.match(
    thrown(() => folder('x', { augment: { mixup: 0 } })),
    /augment\.mixup is 0; allowed: numbers above 0/,
  )
  assert.match(
    thrown(() => folder('x', { augment: { crop: { area: [0.5, 2] } } })),
    /augment\.crop\.area must be two shares/,
  )
  assert.match(
    thrown(() => folder('x', { fit: 'squeeze' as 'pad' })),
    /fit is 'squeeze'; allowed: cover, stretch, pad, crop/,
  )
})

test.run()
