// Damaged files of data. In: a path of image files. Out: the files that cannot be decoded, each with the error. Invariant: the answer depends on the
// files alone, so all processes of a run, and a resumed run, leave out the same samples. Worked example: a.png ends in the middle: it is named, and
// the samples are those of the other files.
import { isLeft } from 'fp-ts/Either'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import type { Data, ImageSet } from './data'
import { labelsOf, type Limits, maskSizeOf, pixelsOf, sizeOf } from './decode'
import type { Damaged } from './found'
import { checkMaskSize } from './imagereader'
import { type NamedFiles, namedFilesAt } from './images'
import { MOST_PIXELS } from './openimages'

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

/** Files that are decoded at a time: the decoder has four threads. */
const AT_ONCE = 4

/** The errors of the damaged ones of some samples, by their files and in their order. */
export const damageAmong = async <A>(
  all: readonly A[],
  fileOf: (sample: A) => string,
  look: (sample: A) => Promise<unknown>,
): Promise<Damaged> => {
  const errors: (SpillwayError | undefined)[] = new Array(all.length)
  let next = 0
  const looking = async (): Promise<void> => {
    for (let i = next++; i < all.length; i = next++) errors[i] = await damageIn(() => look(all[i]!))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, looking))
  return new Map(all.flatMap((sample, i) => (errors[i] ? [[fileOf(sample), errors[i]] as const] : [])))
}

/** Decodes the image and the mask of a sample. */
const decoded = async ({ image, mask }: NamedFiles, limits: Limits): Promise<void> => {
  const size = await sizeOf(image, limits)
  await pixelsOf(image, { left: 0, top: 0, ...size }, size, 3, limits)
  if (mask === undefined) return
  checkMaskSize(mask, await labelsOf(mask, limits), size)
}

/** Throws if the head of an image or of a mask is damaged, or if their sizes differ. */
const headsRead = async ({ image, mask }: NamedFiles, limits: Limits): Promise<void> => {
  const size = await sizeOf(image, limits)
  if (mask !== undefined) checkMaskSize(mask, await maskSizeOf(mask, limits), size)
}

/** At most this number of samples has its heads read, evenly spread: folders may have millions. */
const MOST_READ = 4096

type Images = Pick<ImageSet, 'path' | 'images' | 'depth' | 'mostPixels'>

/** Reads the heads of image files before a run is planned. Returns the error of the first damaged one. */
export const faultInHeads = async ({
  path,
  images,
  depth = 8,
  mostPixels = MOST_PIXELS,
}: Images): Promise<SpillwayError | undefined> => {
  const named = namedFilesAt(path, images)
  // The reader of the data has the error.
  if (isLeft(named)) return undefined
  const every = Math.ceil(named.right.length / MOST_READ)
  for (const files of named.right.filter((_, i) => i % every === 0)) {
    const fault = await damageIn(() => headsRead(files, { depth, mostPixels }))
    if (fault) return fault
  }
  return undefined
}

/** Decodes all images and masks. */
export const damagedImages = async ({ path, images, depth = 8, mostPixels = MOST_PIXELS }: Images): Promise<Damaged> => {
  const named = namedFilesAt(path, images)
  if (isLeft(named)) throw new SpillwayException(named.left)
  return damageAmong(
    named.right,
    ({ image }) => image,
    (files) => decoded(files, { depth, mostPixels }),
  )
}

/** Facts about the files of a data set that a look at them has found. */
export interface FileFacts {
  readonly damaged?: Damaged | undefined
  /** The reader refuses the data with it, after all other checks. */
  readonly fault?: SpillwayError | undefined
}
export const withFileFacts = ({ set, parts }: Data, { damaged, fault }: FileFacts): Data => ({
  set: set.kind === 'images' ? { ...set, ...(damaged ? { damaged } : {}), ...(fault ? { fault } : {}) } : set,
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
  return withFileFacts(data, { damaged: await damagedImages(set) })
}
