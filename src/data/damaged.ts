// Damaged files of data. In: a path of image files. Out: the files that cannot be decoded, each with the error. Invariant: the answer depends on the
// files alone, so all processes of a run, and a resumed run, leave out the same samples. Worked example: a.png ends in the middle: it is named, and
// the samples are those of the other files.
import { isLeft } from 'fp-ts/Either'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import type { Data, ImageSet } from './data'
import { labelsOf, type Limits, pixelsOf, sizeOf } from './decode'
import type { Damaged } from './found'
import { type NamedFiles, namedFilesAt } from './images'
import { MOST_PIXELS } from './openimages'
import { dataRefused } from './places'

/** The error of a file that is refused; all others end the look. */
export const damageIn = async (look: () => Promise<unknown>): Promise<SpillwayError | undefined> => {
  try {
    await look()
    return undefined
  } catch (e) {
    if (e instanceof SpillwayException && (e.error.tag === 'FileRefused' || e.error.tag === 'DataRefused')) return e.error
    throw e
  }
}

/** Decodes the image and the mask of a sample. */
const decoded = async ({ image, mask }: NamedFiles, limits: Limits): Promise<void> => {
  const size = await sizeOf(image, limits)
  await pixelsOf(image, { left: 0, top: 0, ...size }, size, 3, limits)
  if (mask === undefined) return
  const { width, height } = await labelsOf(mask, limits)
  if (width !== size.width || height !== size.height)
    throw dataRefused(mask, `${width} x ${height} pixels, but its image has ${size.width} x ${size.height}`)
}

/** Decodes all images and masks, one after the other. */
export const damagedImages = async ({
  path,
  images,
  depth = 8,
  mostPixels = MOST_PIXELS,
}: Pick<ImageSet, 'path' | 'images' | 'depth' | 'mostPixels'>): Promise<Damaged> => {
  const named = namedFilesAt(path, images)
  if (isLeft(named)) throw new SpillwayException(named.left)
  const damaged = new Map<string, SpillwayError>()
  for (const files of named.right) {
    const error = await damageIn(() => decoded(files, { depth, mostPixels }))
    if (error) damaged.set(files.image, error)
  }
  return damaged
}

/** Image files without damaged ones. */
export const withoutFiles = ({ set, parts }: Data, damaged: Damaged | undefined): Data => ({
  set: set.kind === 'images' && damaged ? { ...set, damaged } : set,
  parts,
})

/**
 * Returns the data of `folder` without the images that cannot be decoded, and without those whose mask cannot, or has another size.
 * It decodes each file once. Runs print a note for each damaged file.
 *
 * @param data The result of `folder`.
 * @example
 * const cats = await withoutDamaged(folder('cats/'))
 * await train(net, plan, { steps: 100, data: cats })
 */
export const withoutDamaged = async (data: Data): Promise<Data> => {
  const { set } = data
  if (set.kind !== 'images')
    throw new SpillwayException(usage('withoutDamaged takes the result of folder(); slides() has skipDamaged: true'))
  return withoutFiles(data, await damagedImages(set))
}
