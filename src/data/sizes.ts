// Sizes of image files, read from their heads. In: files, or the data that hold them. Out: heights and widths. Invariant: no image is decoded, and an
// image that is too large is refused by its name.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import type { KnownClasses } from './classes'
import { type ImageFile, type Size, sizeOf } from './decode'
import { openImages } from './images'
import type { ImageSet } from './data'
import { MOST_PIXELS } from './openimages'
import { chosen, type Part } from './order'

/** Errors while reading the data: refusals are values, all others pass unchanged. */
export const looked = <A>(look: () => Promise<A>): TaskEither<SpillwayError, A> =>
  TE.tryCatch(look, (e) => {
    if (e instanceof SpillwayException) return e.error
    throw e
  })

/** The size of an image that is to be read. */
export const sizeOfImage =
  ({ depth = 8, mostPixels = MOST_PIXELS }: Pick<ImageSet, 'depth' | 'mostPixels'>) =>
  (file: ImageFile): TaskEither<SpillwayError, Size> =>
    looked(() => sizeOf(file, { depth, mostPixels }))

/** The sizes of the images of data with labels, in the order of the data. */
export const sizesOfImages = (
  set: ImageSet,
  parts: readonly Part[],
  known: KnownClasses,
): TaskEither<SpillwayError, readonly Size[]> =>
  pipe(
    TE.fromIOEither(() => openImages(set.path, known, { images: set.images, damaged: set.damaged })),
    TE.bindTo('list'),
    TE.bind('order', ({ list }) =>
      TE.fromEither(E.mapLeft((reason: string) => usage(reason))(chosen(list.samples.length, parts))),
    ),
    TE.flatMap(({ list, order }) => TE.traverseSeqArray((i: number) => sizeOfImage(set)(list.samples[i]!.image))([...order])),
  )
