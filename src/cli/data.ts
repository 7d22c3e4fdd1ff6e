// The data that a path on the command line names, with how its images or arrays are meant. In: the path, flags. Out: data, or which flag
// is for something else.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Augment, Fit } from '../data/augment'
import { type Data, files, folder } from '../data/data'
import { holdsArrays, holdsPictures } from '../data/images'
import { type SpillwayError, usage } from '../errors/errors'
import type { LAYOUTS } from './options'

/** How images or arrays are meant. */
export interface DataFlags {
  readonly fit?: Fit
  /** Folder of the images of COCO annotations. */
  readonly images?: string
  readonly layout?: (typeof LAYOUTS)[number]
}

export const dataNamed = (
  path: string,
  { fit, layout, images }: DataFlags,
  augment?: Augment,
): Either<SpillwayError, string | Data> => {
  const how = { ...(fit ? { fit } : {}), ...(augment ? { augment } : {}) }
  if (layout === undefined && !fit && !augment && images === undefined) return E.right(path)
  if (images !== undefined && !/\.json$/i.test(path))
    return E.left(usage(`--images applies to COCO annotations in a .json file, but the data are ${path}: leave --images out`))
  if (layout !== undefined || holdsArrays(path))
    return holdsPictures(path) && layout !== undefined
      ? E.left(usage('--layout applies to arrays; image files have one layout'))
      : E.right(files(path, { ...(layout ? { layout: layout === 'nhwc' ? 'NHWC' : 'NCHW' } : {}), ...how }))
  return E.right(folder(path, { ...how, ...(images === undefined ? {} : { images }) }))
}
