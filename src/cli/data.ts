// The data that a path on the command line names, with how its images or arrays are meant. In: the path, flags. Out: data, or which flag
// is for something else.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Augment, Fit } from '../data/augment'
import { type Data, files, folder } from '../data/data'
import { holdsPictures } from '../data/images'
import { type SpillwayError, usage } from '../errors/errors'
import type { LAYOUTS } from './options'

/** How images or arrays are meant. */
export interface DataFlags {
  readonly fit?: Fit
  readonly layout?: (typeof LAYOUTS)[number]
}

export const dataNamed = (path: string, { fit, layout }: DataFlags, augment?: Augment): Either<SpillwayError, string | Data> => {
  if (layout === undefined)
    return E.right(fit || augment ? folder(path, { ...(fit ? { fit } : {}), ...(augment ? { augment } : {}) }) : path)
  return fit || augment || holdsPictures(path)
    ? E.left(usage('--layout is for arrays in files: pixels of images lie in one order'))
    : E.right(files(path, { layout: layout === 'nhwc' ? 'NHWC' : 'NCHW' }))
}
