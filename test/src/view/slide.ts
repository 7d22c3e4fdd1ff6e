// A small slide, its mask and its probabilities, for tests of viewers. In: a folder. Out: their files. A disc of tissue; its right half is tumour.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import { bigTiffInto } from '../../../src/files/bigtiff'
import { fillWhole } from '../../../src/files/whole'
import { slideFile } from '../../../src/predict/slidefile'

export const [WIDTH, HEIGHT] = [1301, 900]
export const CLASSES = ['glass', 'stroma', '<i>tumour']

export const classAt = (y: number, x: number): number =>
  Math.hypot(x - WIDTH / 2, y - HEIGHT / 2) > 400 ? 0 : x < WIDTH / 2 ? 1 : 2
/** Probabilities of the classes: that of tumour grows from left to right. */
export const sharesAt = (_y: number, x: number): readonly number[] => [0, 1 - x / WIDTH, x / WIDTH]
const COLOURS = [
  [242, 242, 242],
  [230, 170, 200],
  [150, 80, 160],
] as const

const numbers = <A extends Uint8Array | Float32Array>(array: new (n: number) => A, of: (y: number, x: number) => number): A => {
  const out = new array(WIDTH * HEIGHT)
  for (let y = 0; y < HEIGHT; y++) for (let x = 0; x < WIDTH; x++) out[y * WIDTH + x] = of(y, x)
  return out
}

export interface TestSlide {
  readonly slide: string
  readonly mask: string
  readonly shares: string
}

export const drawnSlide = async (root: string): Promise<TestSlide> => {
  const pixels = Buffer.alloc(3 * WIDTH * HEIGHT)
  for (let y = 0; y < HEIGHT; y++) for (let x = 0; x < WIDTH; x++) pixels.set(COLOURS[classAt(y, x)]!, 3 * (y * WIDTH + x))
  mkdirSync(root, { recursive: true })
  const slide = join(root, 'slide.tif')
  // 4000 pixels per millimetre: 0.25 microns.
  await sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
    .tiff({
      tile: true,
      tileWidth: 240,
      tileHeight: 240,
      pyramid: true,
      compression: 'deflate',
      xres: 4000,
      yres: 4000,
      resolutionUnit: 'cm',
    })
    .toFile(slide)
  const written = (folder: string, isClasses: boolean, planes: readonly (Uint8Array | Float32Array)[]): string => {
    mkdirSync(join(root, folder), { recursive: true })
    const path = join(root, folder, 'slide.tif')
    const file = fillWhole(path)
    const form = isClasses ? 'classes' : 'probabilities'
    const shape = [planes.length, HEIGHT, WIDTH] as const
    const to = slideFile((of) => bigTiffInto(file, of), { shape, isClasses, form, microns: 0.25, classes: CLASSES })
    planes.forEach((plane, channel) => to.put(channel, plane))
    to.end()
    file.done()
    return path
  }
  return {
    slide,
    mask: written('masks', true, [numbers(Uint8Array, classAt)]),
    shares: written(
      'shares',
      false,
      CLASSES.map((_, c) => numbers(Float32Array, (y, x) => sharesAt(y, x)[c]!)),
    ),
  }
}
