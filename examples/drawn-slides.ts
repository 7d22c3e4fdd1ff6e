// Drawn slides for clam.ts and streaming-cnn.ts: white glass with a square of tissue, in several sizes, tiled and with a pyramid. Slides with many
// large cells are in the folder `tumour`, others in `normal`. In: a folder. Out: six files.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import { tissue } from './tissue'

/** A square that every slide fits. */
export const CANVAS = 768

const drawSlide = async (folder: string, seed: number): Promise<void> => {
  const [height, width, side] = [512 + 32 * seed, 768 - 40 * seed, 256]
  const { pixels, mask } = tissue(side, seed)
  const share = mask.filter((label) => label === 2).length / mask.length
  const bytes = Buffer.alloc(height * width * 3, 242)
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++)
      for (let c = 0; c < 3; c++) bytes[((y + 96) * width + x + 64) * 3 + c] = 255 * pixels[c * side * side + y * side + x]!
  const of = join(folder, share > 0.05 ? 'tumour' : 'normal')
  mkdirSync(of, { recursive: true })
  await sharp(bytes, { raw: { width, height, channels: 3 } })
    .tiff({ tile: true, tileWidth: 256, tileHeight: 256, pyramid: true, compression: 'deflate' })
    .toFile(join(of, `${seed}.tif`))
}

export const drawSlides = async (folder: string): Promise<void> => {
  for (const seed of [0, 1, 2, 3, 4, 5]) await drawSlide(folder, seed)
}
