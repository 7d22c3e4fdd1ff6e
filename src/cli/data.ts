// The data that a path on the command line names, with how its images or arrays are meant. In: the path, flags. Out: data, or which flag
// is for something else.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Augment, Taking } from '../data/augment'
import { damagedImages, faultInHeads, withFileFacts } from '../data/damaged'
import { type Data, files, folder } from '../data/data'
import type { Damaged } from '../data/found'
import { holdsArrays, holdsImages, holdsPictures } from '../data/images'
import { looked } from '../data/sizes'
import { canvasFor } from '../data/slides/canvas'
import { damagedAt } from '../data/slides/openedslides'
import { isSlide } from '../data/slides/foundslides'
import type { SlideOptions } from '../data/slides/slideoptions'
import { slidesAt, tissueAt } from '../data/slides/slides'
import type { Tissue } from '../data/slides/regions'
import { type SpillwayError, usage } from '../errors/errors'
import { onRefusal } from '../errors/exceptions'
import { AUTO, type CanvasAsked, type LAYOUTS } from './options'

/** How images or arrays are meant. */
export interface DataFlags {
  readonly fit?: Taking
  /** Folder of the images of COCO annotations. */
  readonly images?: string
  readonly layout?: (typeof LAYOUTS)[number]
  readonly mean?: readonly number[]
  readonly std?: readonly number[]
  readonly depth?: 8 | 16
  /** Level of the pyramid of slides, microns per pixel, and the side of tiles. */
  readonly level?: number
  readonly microns?: number
  readonly tileSize?: number
  /** Least share of tissue of a tile, and where the slides have tissue, once it is known. */
  readonly tissue?: number
  /** Side of blocks that become 0 if they have no tissue. */
  readonly blocks?: number
  /** Height and width of whole slides as samples; the smallest for all of them with `auto`, until `withSlides` has looked at them. */
  readonly canvas?: CanvasAsked
  /** Each folder that holds slides is a bag. */
  readonly bags?: boolean
  readonly found?: Tissue
  /** Leaves out damaged files, and those that are damaged, once they are known. */
  readonly skipDamaged?: boolean
  readonly damaged?: Damaged
  /** The fault in the heads of image files, by the path of the data. */
  readonly faults?: ReadonlyMap<string, SpillwayError>
}

/** Returns true if a flag says how images or arrays are meant. */
export const saysHow = ({
  fit,
  images,
  layout,
  mean,
  std,
  depth,
  level,
  microns,
  tileSize,
  tissue,
  blocks,
  canvas,
  bags,
  skipDamaged,
  faults,
}: DataFlags): boolean =>
  (skipDamaged ??
    faults ??
    fit ??
    images ??
    layout ??
    mean ??
    std ??
    depth ??
    level ??
    microns ??
    tileSize ??
    tissue ??
    blocks ??
    canvas ??
    bags) !== undefined

const given = (how: object): object => Object.fromEntries(Object.entries(how).filter(([, value]) => value !== undefined))

/** Slides are named by a flag of theirs, or by a file that only they have. */
const areSlides = (path: string, { level, microns, tileSize, tissue, blocks, canvas, bags }: DataFlags): boolean =>
  (level ?? microns ?? tileSize ?? tissue ?? blocks ?? canvas ?? bags) !== undefined || isSlide(path)

const TISSUE_OF_TILES = '--tissue selects tiles: add --tile-size, e.g. --tile-size 512'

const slidesNamed = (path: string, o: DataFlags, augment?: Augment): Either<SpillwayError, Data> => {
  const { fit, images, layout, depth, level, microns, tileSize, tissue, blocks, canvas, bags, mean, std } = o
  const odd = Object.entries({ images, layout, depth }).find(([, value]) => value !== undefined)?.[0]
  if (odd !== undefined) return E.left(usage(`--${odd} does not apply to slides: leave it out`))
  if (fit === 'own' && tileSize !== undefined)
    return E.left(usage('--fit own does not apply to --tile-size: leave one of them out'))
  if (tissue !== undefined && tileSize === undefined) return E.left(usage(TISSUE_OF_TILES))
  if (canvas !== undefined && tileSize !== undefined)
    return E.left(usage('--canvas is for whole slides: leave --canvas or --tile-size out'))
  if (level !== undefined && microns !== undefined)
    return E.left(usage('--level and --microns exclude each other: leave one of them out'))
  const own = { level, microns, tiles: tileSize, tissue, blocks, bags, mean, std, augment }
  const how = given({ ...own, fit: fit === 'own' ? undefined : fit })
  // Checks before `withSlides` have the canvas of these data.
  const sizeOf = (): CanvasAsked | undefined =>
    canvas === AUTO ? canvasFor([path], given({ level, microns, blocks, bags }), o.damaged).size : canvas
  return onRefusal(() => slidesAt(path, { ...how, ...given({ canvas: sizeOf() }) }, o.found, o.damaged).data)
}

const sizeText = ([height, width]: readonly [number, number]): string => `${height} x ${width}`

/** The canvas as a size. Says which slides have it, so which sizes one plan serves. */
export const withCanvas = <O extends DataFlags & { readonly data?: string | Data }>(
  o: O & { readonly evaluate?: unknown; readonly image?: readonly [number, number] },
  say: (text: string) => void,
  sizesModel: boolean,
): TaskEither<SpillwayError, O> => {
  const { data, evaluate, level, microns, blocks, canvas, bags, tileSize } = o
  if (canvas === undefined || tileSize !== undefined || typeof data !== 'string')
    return canvas === AUTO
      ? TE.left(usage('--canvas auto is the size of slides: add --data, and leave --tile-size out'))
      : TE.right(o)
  const paths = [data, ...(typeof evaluate === 'string' ? [evaluate] : [])]
  return TE.fromEither(
    onRefusal(() => {
      const found = canvasFor(paths, given({ level, microns, blocks, bags }), o.damaged)
      const size = canvas === AUTO ? found.size : canvas
      const sizes = [...new Set(found.slides.map(sizeText))]
      const between = sizes.length === 1 ? sizes[0] : `${sizes.length} sizes from ${sizes[0]} to ${sizes.at(-1)}`
      const count = `${found.slides.length} slide${found.slides.length === 1 ? '' : 's'}`
      const isServed = found.slides.every(([height, width]) => height <= size[0] && width <= size[1])
      if (isServed) say(`canvas: ${count} of ${between}, on ${sizeText(size)}: one plan serves all of them`)
      return { ...o, canvas: size, ...(canvas === AUTO && sizesModel ? { image: o.image ?? size } : {}) }
    }),
  )
}

/** The options of a command, after a look at the slides: their canvas, and their tissue. `sizesModel`: the canvas sets the size of the model. */
export const withSlides = <O extends DataFlags & { readonly data?: string | Data }>(
  o: O,
  say: (text: string) => void,
  sizesModel = true,
): TaskEither<SpillwayError, O> =>
  pipe(
    withDamaged(o),
    TE.flatMap((intact) => withCanvas(intact, say, sizesModel)),
    TE.flatMap((sized) => withTissue(sized, say)),
  )

/** The options of a command, after a look for damaged files: by their heads, or where they ask for it by all of their bytes. */
const withDamaged = <O extends DataFlags & { readonly data?: string | Data }>(
  o: O & { readonly evaluate?: unknown; readonly evaluateImages?: string },
): TaskEither<SpillwayError, O> => {
  const { data, evaluate, level, microns, bags, images, evaluateImages, depth, skipDamaged } = o
  if (typeof data !== 'string')
    return skipDamaged ? TE.left(usage('--skip-damaged is for image files and slides: add --data')) : TE.right(o)
  const paths = [data, ...(typeof evaluate === 'string' ? [evaluate] : [])]
  const folderOf = (path: string): string | undefined => (path === evaluate ? evaluateImages : undefined) ?? images
  const imagesOf = (path: string) => ({ path, ...given({ images: /\.json$/i.test(path) ? folderOf(path) : undefined, depth }) })
  if (!skipDamaged)
    return looked(async () => {
      const faults = new Map<string, SpillwayError>()
      for (const path of paths) {
        const fault = areSlides(path, o) || !holdsImages(path) ? undefined : await faultInHeads(imagesOf(path))
        if (fault) faults.set(path, fault)
      }
      return faults.size === 0 ? o : { ...o, faults }
    })
  return looked(async () => {
    const damaged = new Map<string, SpillwayError>()
    for (const path of paths) {
      const found = areSlides(path, o)
        ? await damagedAt(path, given({ level, microns, bags }))
        : await damagedImages(imagesOf(path))
      for (const [file, error] of found) damaged.set(file, error)
    }
    return { ...o, damaged }
  })
}

/** The tissue of the slides of several paths. */
const tissueOf = async (paths: readonly string[], o: SlideOptions, damaged: Damaged | undefined): Promise<Tissue> =>
  new Map((await Promise.all(paths.map((path) => tissueAt(path, o, damaged)))).flatMap((tissue) => [...tissue]))

/** The options of a command, after a look for tissue where they ask for it. Says the share of tiles that are left out. */
export const withTissue = <O extends DataFlags & { readonly data?: string | Data }>(
  o: O & { readonly evaluate?: unknown },
  say: (text: string) => void,
): TaskEither<SpillwayError, O> => {
  const { data, evaluate, level, microns, tileSize: tiles, tissue, blocks, damaged } = o
  const paths = [data, evaluate].filter((path) => typeof path === 'string')
  if (tissue === undefined && blocks !== undefined && typeof data === 'string')
    return looked(async () => ({ ...o, found: await tissueOf(paths, given({ level, microns, tiles }), damaged) }))
  if (tissue === undefined) return TE.right(o)
  if (typeof data !== 'string') return TE.left(usage('--tissue selects tiles of slides: add --data'))
  if (tiles === undefined) return TE.left(usage(TISSUE_OF_TILES))
  if (tissue > 1) return TE.left(usage(`--tissue is ${tissue}; allowed: shares up to 1`))
  const how = given({ level, microns, tiles, tissue })
  return looked(async () => {
    const found = await tissueOf(paths, how, damaged)
    const kept = slidesAt(data, how, found, damaged)
    const left = kept.data.set.kind === 'own' ? kept.tiles - kept.data.set.length : 0
    say(`tissue: ${left} of ${kept.tiles} tiles are left out (${((100 * left) / kept.tiles).toFixed(0)} %)`)
    return { ...o, found }
  })
}

export const dataNamed = (path: string, o: DataFlags, augment?: Augment): Either<SpillwayError, string | Data> => {
  const { fit, images, layout, mean, std, depth, skipDamaged, damaged, faults } = o
  if (areSlides(path, o)) return slidesNamed(path, o, augment)
  if (!saysHow(o) && !augment) return E.right(path)
  if (images !== undefined && !/\.json$/i.test(path))
    return E.left(usage(`--images applies to COCO annotations in a .json file, but the data are ${path}: leave --images out`))
  const how = given({ fit, mean, std, augment })
  if (layout === undefined && !holdsArrays(path))
    return E.right(withFileFacts(folder(path, { ...how, ...given({ depth, images }) }), { damaged, fault: faults?.get(path) }))
  if (skipDamaged) return E.left(usage('--skip-damaged applies to image files and slides: leave it out'))
  if (layout !== undefined && holdsPictures(path)) return E.left(usage('--layout applies to arrays; image files have one layout'))
  if (fit === 'own') return E.left(usage('--fit own applies to image files; arrays have the size of the model'))
  if (depth !== undefined) return E.left(usage('--depth applies to image files; the type of an array file gives its bits'))
  return E.right(files(path, { ...how, ...(layout ? { layout: layout === 'nhwc' ? 'NHWC' : 'NCHW' } : {}) }))
}
