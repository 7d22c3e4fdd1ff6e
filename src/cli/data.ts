// The data that a path on the command line names, with how its images or arrays are meant. In: the path, flags. Out: data, or which flag
// is for something else.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Augment, Taking } from '../data/augment'
import { type Data, files, folder } from '../data/data'
import { holdsArrays, holdsPictures } from '../data/images'
import { type SpillwayError, usage } from '../errors/errors'
import type { LAYOUTS } from './options'

/** How images or arrays are meant. */
export interface DataFlags {
  readonly fit?: Taking
  readonly layout?: (typeof LAYOUTS)[number]
}

export const dataNamed = (path: string, { fit, layout }: DataFlags, augment?: Augment): Either<SpillwayError, string | Data> => {
  const changes = augment ? { augment } : {}
  if (layout === undefined && !fit && !augment) return E.right(path)
  if (layout === undefined && !holdsArrays(path)) return E.right(folder(path, { ...(fit ? { fit } : {}), ...changes }))
  if (layout !== undefined && holdsPictures(path)) return E.left(usage('--layout applies to arrays; image files have one layout'))
  if (fit === 'own') return E.left(usage('--fit own applies to image files; arrays have the size of the model'))
  return E.right(
    files(path, { ...(layout ? { layout: layout === 'nhwc' ? 'NHWC' : 'NCHW' } : {}), ...(fit ? { fit } : {}), ...changes }),
  )
}
