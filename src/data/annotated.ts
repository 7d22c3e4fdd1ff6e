// Samples of COCO annotations. In: the JSON, the folder of its images, class names to follow, the kind of targets. Out: image files with labels or
// shapes. Invariant: labels follow the names of categories; class 0 of masks is the background.
import { dirname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import { type KnownClasses, numbered } from './classes'
import { cocoIn, type CocoSample, onlyCategory, type Wanted } from './coco'
import { type Damaged, type Found, type ImageList, type ImageSample, isReadable } from './found'

/** The reading of COCO annotations. */
export interface Annotating {
  /** The folder of the images; default: that of the annotations. */
  readonly images?: string | undefined
  readonly wanted?: Wanted
  /** Images that are left out, by path. */
  readonly damaged?: Damaged | undefined
}

/** The class of pixels without an annotation. */
const BACKGROUND = 'background'

/** The images of COCO annotations. Images without an annotation have no class. */
export const annotatedIn = (
  path: string,
  coco: Readonly<Record<string, unknown>>,
  o: Annotating,
): Either<SpillwayError, Found> => {
  const { images = dirname(path), wanted = 'files' } = o
  return pipe(
    cocoIn(coco, images, wanted),
    E.flatMap(({ samples, categories }) => {
      const used = wanted === 'class' ? samples.filter((s) => s.categories.length > 0) : samples
      const lost = used.find(({ image }) => !isReadable(image))
      if (lost)
        return E.left(
          `${lost.at}: ${lost.image} cannot be read; ${o.images === undefined ? 'name the folder of the images: --images DIR (images)' : 'check --images (images)'}`,
        )
      return E.right({
        samples: used.map(({ image }) => ({ image })),
        annotated: used,
        folders: wanted === 'masks' ? [BACKGROUND, ...categories] : categories,
        placeOf: (i: number) => used[i]!.at,
        leftOut: Array<string>(samples.length - used.length).fill('image without an annotation'),
      })
    }),
    E.mapLeft((reason): SpillwayError => ({ tag: 'FileRefused', kind: 'data', file: path, reason })),
  )
}

/** Labels for the names of categories, and the targets of each image. */
export const withLabels = (
  { annotated = [], folders = [], leftOut, placeOf }: Found,
  known: KnownClasses,
  wanted: Wanted,
): Either<string, ImageList> =>
  pipe(
    numbered({ texts: folders, folders, placeOf: () => '' }, known),
    E.filterOrElse(
      ({ labels }) => wanted !== 'masks' || labels.every((l) => l >= 0 && l < 256),
      () => `it has ${folders.length - 1} categories; masks have at most 255`,
    ),
    E.flatMap(({ labels, classes, note }) => {
      const labelOf = new Map(folders.map((name, i) => [name, labels[i]!]))
      const targetOf = (s: CocoSample): Either<string, Omit<ImageSample, 'image'>> => {
        if (wanted === 'files') return E.right({})
        if (wanted === 'classes') return E.right({ labels: s.categories.map((name) => labelOf.get(name)!) })
        if (wanted === 'class') return E.map((name: string | undefined) => ({ label: labelOf.get(name!)! }))(onlyCategory(s))
        const shapes = s.shapes.map(({ category, shape }) => ({ ...shape, label: labelOf.get(category)! }))
        return E.right({ mask: { name: `the annotations of ${s.image}`, width: s.width, height: s.height, shapes } })
      }
      return pipe(
        annotated,
        E.traverseArray((s) => E.map((target: Omit<ImageSample, 'image'>) => ({ image: s.image, ...target }))(targetOf(s))),
        E.map((samples) => ({
          ...{ samples, leftOut },
          ...(wanted === 'files' || !classes ? {} : { classes }),
          ...(placeOf ? { placeOf } : {}),
          ...(note === undefined ? {} : { note }),
        })),
      )
    }),
  )
