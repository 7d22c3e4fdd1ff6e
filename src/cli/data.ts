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
  readonly layout?: (typeof LAYOUTS)[number]
}

export const dataNamed = (path: string, { fit, layout }: DataFlags, augment?: Augment): Either<SpillwayError, string | Data> => {
  const how = { ...(fit ? { fit } : {}), ...(augment ? { augment } : {}) }
  if (layout === undefined && !fit && !augment) return E.right(path)
  if (layout !== undefined || holdsArrays(path))
    return holdsPictures(path) && layout !== undefined
      ? E.left(usage('--layout applies to arrays; image files have one layout'))
      : E.right(files(path, { ...(layout ? { layout: layout === 'nhwc' ? 'NHWC' : 'NCHW' } : {}), ...how }))
  return E.right(folder(path, how))
}
