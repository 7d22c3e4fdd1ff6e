// timeout 400
// Mistakes of beginners that spoil a training, each made in a command and in a script: a note, a refusal or a mend catches it, with a cure. Right
// runs get no note of these kinds (rightruns.test.ts). Each mistake is alone in its run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  adam,
  bceWithLogits,
  conv2d,
  crossEntropy,
  crossEntropyWith,
  globalAvgPool,
  linear,
  type Loss,
  type Model,
  model,
  mse,
  relu,
  seq,
  sgd,
  sigmoid,
  softmax,
} from '../../dsl'
import { type Data, files, folder, pick, source, split } from '../../src/data/data'
import { orThrow } from '../../src/errors/exceptions'
import { npyHead } from '../../src/files/npy'
import { writeTensors } from '../../src/files/safetensors'
import { predict } from '../../src/predict/predictor'
import { validation } from '../../src/predict/validation'
import { stage } from '../../src/stage/stage'
import type { StageOptions } from '../../src/stage/stageoptions'
import type { TrainOptions } from '../../src/train/options'
import { train } from '../../src/train/trainer'
import { FULL } from '../full'
import { png } from '../src/data/png'
import { spillwayHere } from './processes'
import { DEVICE } from './runs'

const project = join(__dirname, '../..')
const root = mkdtempSync(join(tmpdir(), 'spillway-beginners-'))
process.chdir(root)
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
test.after(() => {
  process.chdir(project)
  rmSync(root, { recursive: true })
})

// ---------------------------------------------------------------- models

const body = seq(conv2d('a', 4, 3), relu(), globalAvgPool('pool'), linear('fc', 3))
const MODELS = {
  net: model([2, 3, 8, 8], body),
  other: model([2, 3, 8, 8], seq(conv2d('z', 5, 3), relu(), globalAvgPool('pool'), linear('top', 3))),
  two: model([2, 3, 8, 8], seq(conv2d('a', 4, 3), globalAvgPool('pool'), linear('fc', 2))),
  five: model([2, 3, 8, 8], seq(conv2d('a', 4, 3), globalAvgPool('pool'), linear('fc', 5))),
  deep: model([4, 3, 8, 8], seq(conv2d('a', 8, 3), relu(), conv2d('b', 8, 3), relu(), globalAvgPool('pool'), linear('fc', 3))),
  pixels: model([2, 3, 8, 8], seq(conv2d('a', 4, 3), relu(), conv2d('out', 2, 1))),
  soft: model([2, 3, 8, 8], seq(body, softmax())),
  clipped: model([2, 3, 8, 8], seq(body, relu())),
  squashed: model([2, 3, 8, 8], seq(conv2d('a', 4, 3), relu(), conv2d('out', 1, 1), sigmoid())),
} as const satisfies Readonly<Record<string, Model>>
type Named = keyof typeof MODELS

const write = (path: string, content: string | Uint8Array): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), content)
}
/** Model files take the models of this module. */
Object.assign(globalThis, { beginners: MODELS })
for (const name of Object.keys(MODELS)) write(`${name}.js`, `exports.default = globalThis.beginners.${name}\n`)

// ---------------------------------------------------------------- data

const CLASSES = ['ant', 'bee', 'cow'] as const
const SIZE = 8
const PIXELS = 3 * SIZE ** 2
/** Red ants, green bees, blue cows. */
const colours = (colour: number, seed: number): Uint8Array =>
  Uint8Array.from({ length: PIXELS }, (_, k) => (k % 3 === colour ? 200 : 20) + ((k * 7 + seed * 13) % 50))
const photo = (colour: number, seed: number): Uint8Array =>
  png({ width: SIZE, height: SIZE, bits: 8, colour: 'rgb', pixels: colours(colour, seed) })
const grey = (size: number, value: (i: number) => number): Uint8Array =>
  png({ width: size, height: size, bits: 8, colour: 'grey', pixels: Uint8Array.from({ length: size ** 2 }, (_, i) => value(i)) })

const counted = (name: string, counts: readonly number[], seed = 0): void =>
  counts.forEach((count, c) => {
    for (let i = 0; i < count; i++) write(`${name}/${CLASSES[c]}/${i}.png`, photo(c, seed + i))
  })
counted('train', [4, 4, 4])
counted('leak', [2, 2, 2], 20)
write('leak/ant/copy.png', photo(0, 2))
counted('twice', [2, 2, 2])
write('twice/cow/copy.png', photo(0, 1))
counted('single', [4])
counted('skewed', [40, 2, 2])
for (const c of CLASSES)
  write(
    `wide/${c}/0.png`,
    png({
      width: SIZE,
      height: SIZE,
      bits: 16,
      colour: 'rgb',
      pixels: Uint16Array.from({ length: PIXELS }, (_, k) => (k * 300 + c.length) % 65536),
    }),
  )
const listOf = (name: string, labels: readonly number[]): void =>
  write(name, `image,label\n${labels.map((label, i) => `train/ant/${i}.png,${label}\n`).join('')}`)
listOf('ignored.csv', [255, 255, 255, 255])
listOf('fromone.csv', [1, 2, 3, 1])

const masked = (name: string, mask: (i: number) => Uint8Array): void => {
  for (let i = 0; i < 4; i++) {
    write(`${name}/images/${i}.png`, photo(0, i))
    write(`${name}/masks/${i}.png`, mask(i))
  }
}
masked('masks', (i) => grey(SIZE, (k) => (k + i) % 2))
masked('voids', () => grey(SIZE, () => 255))
masked('small', () => grey(SIZE / 2, (k) => k % 2))
masked('levels', () => grey(SIZE, (k) => 255 * (k % 2)))
masked('coloured', (i) => photo(1, i))

const array = (type: 'f4' | 'u1' | 'i4', shape: readonly number[], value: (i: number) => number): Buffer => {
  const size = shape.reduce((n, d) => n * d, 1)
  const numbers = new { f4: Float32Array, u1: Uint8Array, i4: Int32Array }[type](size)
  for (let i = 0; i < size; i++) numbers[i] = value(i)
  return Buffer.concat([npyHead(type, shape), Buffer.from(numbers.buffer)])
}
const arrays = (name: string, input: Buffer, target = array('i4', [4], (i) => i % 3)): void => {
  write(`${name}/input.npy`, input)
  write(`${name}/target.npy`, target)
}
const byte = (i: number): number => (i * 37) % 256
arrays('last', array('f4', [4, SIZE, SIZE, 3], Math.sin))
arrays('first', array('f4', [4, 3, SIZE, SIZE], Math.sin))
arrays('copied', array('f4', [4, 3, SIZE, SIZE], Math.sin))
arrays('numbers', array('f4', [4, 3, SIZE, SIZE], Math.sin), array('f4', [4, 2, SIZE, SIZE], Math.cos))
arrays('bytes', array('u1', [4, 3, SIZE, SIZE], byte))
arrays('floats', array('f4', [4, 3, SIZE, SIZE], byte))

/** Images in odd forms, and the same images as plain RGB. */
const furnished = (async (): Promise<void> => {
  const sharp = (await import('sharp')).default
  const raw = { raw: { width: SIZE, height: SIZE, channels: 3 } } as const
  const flat = (c: number): Uint8Array => Uint8Array.from({ length: PIXELS }, (_, k) => (k % 3 === c ? 180 : 60))
  for (const [c, name] of CLASSES.entries()) {
    const put = async (folder: string, image: ReturnType<typeof sharp>): Promise<void> =>
      write(`${folder}/${name}/0.${folder === 'cmyk' ? 'jpg' : 'png'}`, await image.toBuffer())
    await put('flat', sharp(flat(c), raw).png())
    await put('cmyk', sharp(flat(c), raw).toColourspace('cmyk').jpeg({ quality: 100 }))
    await put('palette', sharp(flat(c), raw).png({ palette: true }))
    await put('alpha', sharp(flat(c), raw).ensureAlpha(0.5).png())
    await put('plain', sharp(colours(c, 0), raw).png())
    // Stored a quarter turn to the left, with the tag that turns it back.
    const turned = await sharp(colours(c, 0), raw).rotate(270).raw().toBuffer()
    await put('turned', sharp(turned, raw).withMetadata({ orientation: 6 }).png())
    const shades = Uint8Array.from({ length: SIZE ** 2 }, (_, k) => (k * 3 + 40 * c) % 256)
    write(
      `shades/${name}/0.png`,
      grey(SIZE, (k) => shades[k]!),
    )
    const tripled = Uint8Array.from({ length: PIXELS }, (_, k) => shades[Math.floor(k / 3)]!)
    write(`tripled/${name}/0.png`, png({ width: SIZE, height: SIZE, bits: 8, colour: 'rgb', pixels: tripled }))
  }
})()

const MEAN = [0.485, 0.456, 0.406]
const STD = [0.229, 0.224, 0.225]
const plan = { machine: DEVICE, algorithms: 'fixed' } as const
const normalised = (async (): Promise<void> => {
  const optimizer = sgd({ lr: 0.1 })
  const data = folder('train', { mean: MEAN, std: STD })
  const staged = stage(MODELS.net, { ...plan, loss: crossEntropy, optimizer })
  await train(MODELS.net, staged, { epochs: 1, data, save: 'normalised.safetensors', workers: 0, onNote: () => {} })
  const tensors = Object.entries({ 'a.weight': [4, 3, 3, 3], 'a.bias': [4], 'fc.weight': [1000, 4], 'fc.bias': [1000] })
  const zeros = (shape: readonly number[]): Uint8Array => new Uint8Array(4 * shape.reduce((n, d) => n * d, 1))
  orThrow(
    writeTensors(
      'imagenet.safetensors',
      tensors.map(([name, shape]) => ({ name, type: 'F32', shape, read: () => right(zeros(shape)) })),
    ),
  )
})()

// ---------------------------------------------------------------- both ways of making a mistake

/** The notes and the error of a command, or its output. */
const command = async (line: string, ...more: readonly string[]): Promise<string> => {
  const { err } = await spillwayHere(...line.split(' '), ...more, '--device', DEVICE, '--algorithms', 'fixed', '--workers', '0')
  return err
    .split('\n')
    .filter((text) => /^(note|spillway): /.test(text))
    .join('\n')
}
const training = (name: Named, rest: string, loss = 'cross-entropy'): Promise<string> =>
  command(`train ${name}.js --loss ${loss} --no-save ${/--(steps|epochs)/.test(rest) ? '' : '--epochs 1 '}${rest}`)

interface Scripted extends Pick<StageOptions, 'optimizer' | 'freeze'> {
  readonly loss?: Loss
}
/** The notes and the error of a script. */
const script = async (
  name: Named,
  options: Partial<TrainOptions>,
  { loss = crossEntropy, ...o }: Scripted = {},
): Promise<string> => {
  const notes: string[] = []
  const net: Model = MODELS[name]
  const length = (options.steps ?? options.epochs) === undefined ? { epochs: 1 } : {}
  const onNote = (text: string): void => void notes.push(text)
  try {
    const staged = stage(net, { ...plan, loss, ...o } as StageOptions)
    await train(net, staged, { workers: 0, ...length, ...options, onNote } as TrainOptions & { readonly steps: number })
  } catch (e) {
    notes.push((e as Error).message)
  }
  return notes.join('\n')
}

/** Losses of the first epoch on two data sets, and true if they agree. */
const mendedCommand = (odd: string, proper: string, tolerance: number) => async (): Promise<string> => {
  const lossOf = async (data: string): Promise<number> => {
    const line = `train net.js --loss cross-entropy --no-save --no-shuffle --steps 1 --json --data ${data}`
    const { out } = await spillwayHere(...line.split(' '), '--device', DEVICE, '--algorithms', 'fixed', '--workers', '0')
    return (JSON.parse(out) as { readonly losses: readonly number[] }).losses[0]!
  }
  return agree(await lossOf(odd), await lossOf(proper), tolerance)
}
const mendedScript = (odd: string, proper: string, tolerance: number) => async (): Promise<string> => {
  const lossOf = async (data: string): Promise<number> => {
    const staged = stage(MODELS.net, { ...plan, loss: crossEntropy })
    const o = { steps: 1, data: folder(data), shuffle: false, workers: 0, onNote: () => {} } as const
    return (await train(MODELS.net, staged, o)).losses[0]!
  }
  return agree(await lossOf(odd), await lossOf(proper), tolerance)
}
const agree = (a: number, b: number, tolerance: number): string => (Math.abs(a - b) <= tolerance ? 'mended' : `${a} is not ${b}`)

interface Mistake {
  readonly what: string
  readonly command: () => Promise<string>
  readonly script: () => Promise<string>
  /** Words of the fault, and of its cure. */
  readonly caught: RegExp
  /** A representative of its kind, for `npm test`. */
  readonly usual?: true
}
const mended = (what: string, odd: string, proper: string, tolerance = 0): Mistake => ({
  what,
  command: mendedCommand(odd, proper, tolerance),
  script: mendedScript(odd, proper, tolerance),
  caught: /^mended$/,
})
const predicted = async (): Promise<string> => {
  const notes: string[] = []
  const o = { weights: 'normalised.safetensors', weightsSkip: 'fc.*', data: 'train/ant', onNote: (n: string) => notes.push(n) }
  await predict(MODELS.net, stage(MODELS.net, { ...plan, mode: 'predict' }), o)
  return notes.join('\n')
}
const lr = (rate: number): Scripted => ({ optimizer: sgd({ lr: rate, momentum: 0.9 }) })
const both = (data: string | Data, held: string | Data): Partial<TrainOptions> => ({ data, evaluate: validation({ data: held }) })

const MISTAKES: readonly Mistake[] = [
  {
    what: 'images are not normalised as those of the initial weights were',
    command: () => training('net', '--data train --weights normalised.safetensors'),
    script: () => script('net', { data: 'train', weights: 'normalised.safetensors' }),
    caught:
      /trained on data with mean \[0\.485, 0\.456, 0\.406\].* use --mean 0\.485,0\.456,0\.406 --std 0\.229,0\.224,0\.225 \(mean: /,
    usual: true,
  },
  {
    what: 'images are not normalised for the weights of ImageNet',
    command: () => training('net', '--data train --weights imagenet.safetensors --weights-skip fc.*'),
    script: () => script('net', { data: 'train', weights: 'imagenet.safetensors', weightsSkip: 'fc.*' }),
    caught: /1000 classes usually come from ImageNet: use --mean 0\.485,0\.456,0\.406 --std/,
  },
  {
    what: 'the mean has the order of OpenCV',
    command: () => training('net', `--data train --mean ${[...MEAN].reverse().join(',')}`),
    script: () => script('net', { data: folder('train', { mean: [...MEAN].reverse() }) }),
    caught: /in the order blue, green, red.* use --mean 0\.485,0\.456,0\.406/,
  },
  {
    what: 'the learning rate is far too high, and the loss is not finite',
    command: () => training('net', '--data train --epochs 4 --lr 1e30'),
    script: () => script('net', { data: 'train', epochs: 4 }, lr(1e30)),
    caught: /its loss is not finite.* the learning rate of 1e\+30 may be too high: try 1e\+29 \(--lr, lr\), a warm-up/,
    usual: true,
  },
  {
    what: 'the learning rate is 100 times too high, and the loss jumps',
    command: () => training('deep', '--data train --epochs 10 --lr 5'),
    script: () => script('deep', { data: 'train', epochs: 10 }, lr(5)),
    caught:
      /the loss jumped from \S+ to \d+ in step \d.* where a guess has 1\.1: the learning rate of 5 may be too high: try 0\.5/,
    usual: true,
  },
  {
    what: 'the learning rate of a regression is 100 times too high',
    command: () => training('pixels', '--data numbers --epochs 8 --optimizer adam --lr 10', 'mse'),
    script: () => script('pixels', { data: files('numbers'), epochs: 8 }, { loss: mse, optimizer: adam({ lr: 10 }) }),
    caught: /the loss jumped from \S+ to \S+ in step \d+, and is \S+ now: the learning rate of 10 may be too high: try 1 /,
  },
  {
    what: 'the learning rate is far too low',
    command: () => training('net', '--data train --epochs 3 --lr 1e-9'),
    script: () => script('net', { data: 'train', epochs: 3 }, lr(1e-9)),
    caught: /the loss has not moved: .* the learning rate of 1e-9 may be too low: try 0\.001/,
    usual: true,
  },
  {
    what: 'the learning rate is 0',
    command: () => training('net', '--data train --lr 0'),
    script: () => script('net', { data: 'train' }, lr(0)),
    caught: /the learning rate is 0, so no weight changes: set one above 0, e\.g\. --lr 0\.001/,
  },
  {
    what: 'all labels are ignored',
    command: () => training('net', '--data ignored.csv --ignore-index 255'),
    script: () => script('net', { data: 'ignored.csv' }, { loss: crossEntropyWith({ ignoreIndex: 255 }) }),
    caught: /^(note: )?all labels are 255, which is ignored, so nothing is learned: check the labels/m,
  },
  {
    what: 'all pixels of the masks are ignored',
    command: () => training('pixels', '--data voids --ignore-index 255'),
    script: () => script('pixels', { data: 'voids' }, { loss: crossEntropyWith({ ignoreIndex: 255 }) }),
    caught: /the loss is 0 in every step: all labels are 255, which is ignored; check the labels/,
    usual: true,
  },
  {
    what: 'the validation data are the training data',
    command: () => training('net', '--data train --evaluate train'),
    script: () => script('net', both('train', 'train')),
    caught: /all evaluated samples are training data: .* use other samples/,
  },
  {
    what: 'some validation images are copies of training images',
    command: () => training('net', '--data train --evaluate leak'),
    script: () => script('net', both('train', 'leak')),
    caught: /1 of 7 evaluated samples are training data, e\.g\. leak\/ant\/copy\.png is train\/ant\/2\.png: .* use other samples/,
    usual: true,
  },
  {
    what: 'validation arrays are a copy of the training arrays',
    command: () => training('net', '--data first --evaluate copied'),
    script: () => script('net', both('first', 'copied')),
    caught: /all evaluated samples are training data, e\.g\. .*copied\/input\.npy is .*first\/input\.npy/,
  },
  {
    what: 'equal images are in two classes',
    command: () => training('net', '--data twice'),
    script: () => script('net', { data: 'twice' }),
    caught: /twice\/ant\/1\.png, twice\/cow\/copy\.png are the same image with different labels: remove the wrong one/,
  },
  {
    what: 'the channels of arrays are last',
    command: () => training('net', '--data last'),
    script: () => script('net', { data: 'last' }),
    caught: /if its channels are last, set layout: 'NHWC' \(--layout nhwc\)/,
    usual: true,
  },
  {
    what: 'arrays of bytes are not scaled',
    command: () => training('net', '--data bytes'),
    script: () => script('net', { data: files('bytes') }),
    caught: /bytes\/input\.npy are whole numbers up to 255, and nothing scales them: use --mean 0 \(mean: \[0\]\)/,
  },
  {
    what: 'floats are bytes that are not scaled',
    command: () => training('net', '--data floats'),
    script: () => script('net', { data: files('floats') }),
    caught: /floats\/input\.npy are whole numbers up to 255, and nothing scales them: use --std 255 \(std: \[255\]\)/,
  },
  {
    what: 'images have 16 bits',
    command: () => training('net', '--data wide'),
    script: () => script('net', { data: 'wide' }),
    caught: /with more than 8 bits: set depth: 16 \(--depth 16\)/,
  },
  // Pure colours have no equal in CMYK.
  mended('images are CMYK', 'cmyk', 'flat', 0.02),
  mended('images have a palette', 'palette', 'flat'),
  mended('images have transparency', 'alpha', 'flat'),
  mended('images are grey, and the model takes colours', 'shades', 'tripled'),
  { ...mended('images are turned by a rotation tag', 'turned', 'plain'), usual: true },
  {
    what: 'all samples have one class',
    command: () => training('net', '--data single'),
    script: () => script('net', { data: 'single' }),
    caught: /all 4 samples have the class ant, .*: add samples of other classes/,
  },
  {
    what: 'classes are far unbalanced',
    command: () => training('net', '--data skewed'),
    script: () => script('net', { data: 'skewed' }),
    caught:
      /class ant has 40 samples, class cow has 2: always answering ant is right for 91 %; use --class-weights 0\.37,7\.3,7\.3/,
    usual: true,
  },
  {
    what: 'the batch is larger than the data',
    command: () => training('net', '--data train --batch 64'),
    script: () => script('deep', { data: pick(folder('train'), [0, 4, 8]) }),
    caught: /a step takes \d+ samples, but the data have \d+, so a step repeats samples: use --batch \d+ or less/,
  },
  {
    what: 'the head has too few classes',
    command: () => training('two', '--data train'),
    script: () => script('two', { data: 'train' }),
    caught: /the images have 3 classes, but the model has 2/,
  },
  {
    what: 'the head has too many classes',
    command: () => training('five', '--data train'),
    script: () => script('five', { data: 'train' }),
    caught: /3 classes, but the model has 5 outputs: .* set the number of classes \(--classes 3\)/,
  },
  {
    what: 'everything is frozen',
    command: () => training('net', '--data train --freeze *'),
    script: () => script('net', { data: 'train' }, { freeze: '*' }),
    caught: /depends on no trained parameter; unfreeze at least one before it/,
  },
  {
    what: 'a pattern freezes nothing',
    command: () => training('net', '--data train --freeze head.*'),
    script: () => script('net', { data: 'train' }, { freeze: 'head.*' }),
    caught: /no trained parameter matches 'head\.\*'; did you mean 'a\.\*'\?/,
  },
  {
    what: 'the weights are those of another network',
    command: () => training('other', '--data train --weights normalised.safetensors'),
    script: () => script('other', { data: 'train', weights: 'normalised.safetensors' }),
    caught: /no weight of the model fits: these weights belong to another network; name that model/,
  },
  {
    what: 'predictions use a random head',
    command: () =>
      command('predict net.js --weights normalised.safetensors --weights-skip fc.* --data train/ant --out random.csv'),
    script: predicted,
    caught: /2 weights are random, so the results mean nothing: train first/,
  },
  {
    what: 'masks have another size than the images',
    command: () => training('pixels', '--data small'),
    script: () => script('pixels', { data: 'small' }),
    caught: /4 x 4 pixels, but its image has 8 x 8: save the mask at the size of its image/,
  },
  {
    what: 'masks have 0 and 255 for two classes',
    command: () => training('pixels', '--data levels'),
    script: () => script('pixels', { data: 'levels' }),
    caught: /255 is not one of 2 classes \(0 to 1\); divide masks of 0 and 255 by 255, or ignore 255 /,
  },
  {
    what: 'masks are colours',
    command: () => training('pixels', '--data coloured'),
    script: () => script('pixels', { data: 'coloured' }),
    caught: /its pixels are colours; a mask needs one label per pixel, in grey or as a palette/,
  },
  {
    what: 'a softmax is before cross-entropy',
    command: () => training('soft', '--data train'),
    script: () => script('soft', { data: 'train' }),
    caught: /the model ends with softmax, but the loss cross-entropy .*: remove the last layer/,
    usual: true,
  },
  {
    what: 'a sigmoid is before bce-with-logits',
    command: () => training('squashed', '--data masks', 'bce-with-logits'),
    script: () => script('squashed', { data: 'masks' }, { loss: bceWithLogits }),
    caught: /the model ends with sigmoid, but the loss bce-with-logits .*: remove the last layer/,
  },
  {
    what: 'a relu is before cross-entropy',
    command: () => training('clipped', '--data train'),
    script: () => script('clipped', { data: 'train' }),
    caught: /the model ends with relu, but the loss cross-entropy needs scores below 0, too: remove the last layer/,
  },
  {
    what: 'classes are learned with the loss of numbers',
    command: () => training('net', '--data train', 'mse'),
    script: () => script('net', { data: 'train' }, { loss: mse }),
    caught: /image files give classes or masks, which need a loss with labels such as cross-entropy/,
  },
  {
    what: 'the run has no epochs',
    command: () => training('net', '--data train --epochs 0'),
    script: () => script('net', { data: 'train', epochs: 0 }),
    caught: /epochs.* 0.*at least 1|'0' is not a whole number of at least 1/,
  },
  {
    what: 'the run ends within the first epoch',
    command: () => training('net', '--data train --steps 3'),
    script: () => script('net', { data: 'train', steps: 3 }),
    caught: /the run takes 6 of 12 samples: --epochs 1 instead of --steps \(epochs: 1\) takes all of them once/,
  },
  {
    what: 'the warm-up is longer than the run',
    command: () => training('net', '--data train --warmup 100'),
    script: () => script('net', { data: 'train', warmup: 100 }),
    caught: /the warm-up has 100 steps, but the run has 6: the learning rate only rises/,
  },
  {
    what: 'labels begin at 1',
    command: () => training('net', '--data fromone.csv'),
    script: () => script('net', { data: 'fromone.csv' }),
    caught: /label 3 is not one of 3 classes \(0 to 2\); do the labels begin at 1\?/,
  },
  {
    what: 'the classes come one after the other',
    command: () => training('net', '--data train --no-shuffle'),
    script: () => script('net', { data: 'train', shuffle: false }),
    caught: /in folder order, so a step sees only one class: without --no-shuffle \(shuffle: false\) each epoch has a new order/,
  },
]

for (const { what, command, script, caught, usual } of MISTAKES)
  if (FULL || usual)
    test(`${what}: caught in a command and in a script`, async () => {
      await furnished
      await normalised
      assert.match(await command(), caught)
      assert.match(await script(), caught)
    })

test('a script without onNote prints the notes on stderr', async () => {
  const { write } = process.stderr
  let printed = ''
  process.stderr.write = ((text: string) => {
    printed += text
    return true
  }) as typeof write
  try {
    const staged = stage(MODELS.soft, { ...plan, loss: crossEntropy })
    await train(MODELS.soft, staged, { epochs: 1, data: 'skewed', workers: 0 })
  } finally {
    process.stderr.write = write
  }
  assert.match(printed, /^note: the model ends with softmax/m)
  assert.match(printed, /^note: class ant has 40 samples/m)
})

test('parts of one data set overlap by their samples', async () => {
  const own = source({ length: 12, read: (i) => ({ input: new Float32Array(PIXELS).fill(i), target: i % 3 }) })
  const [most, rest] = split(own, 0.75)
  const common = /evaluated samples are training data/
  assert.not.match(await script('net', both(most, rest)), common)
  assert.match(await script('net', both(most, pick(own, [0, 1, 2, 3]))), /\d of 4 evaluated samples are training data/)
  const [images, held] = split(folder('train'), 0.75)
  assert.not.match(await script('net', both(images, held)), common)
  assert.match(await script('net', both(images, folder('train'))), /9 of 12 evaluated samples are training data/)
})

test.run()
