// Slides as the data of a run. In: a path with slides, options. Out: data, whose samples are whole slides, bags or tiles, and are read by regions.
import type { Data } from '../data'
import { damagedAt, NO_DAMAGE, openedAt, type OpenedSlides } from './openedslides'
import { nameOf, namesOf, placesOf, tileOf } from './outputnames'
import { firstOf, type Part, type Placed, sizeOf, tilesOf, wholes } from './parts'
import { sampleOf, type Tissue } from './regions'
import { refused, type SlideOptions } from './slideoptions'
import { tissueOf } from './tissue'

const asData = (
  { name, classes, root, notes }: OpenedSlides,
  o: SlideOptions,
  parts: readonly Part[],
  tissue: Tissue | undefined,
): Data => {
  const blocks = o.blocks !== undefined && tissue ? { side: o.blocks, tissue } : undefined
  const { fit, augment, mean, std } = o
  const isTile = o.tiles !== undefined
  const names = namesOf(root, parts, isTile)
  const tileRows = parts[0]?.placed[0]?.of.slide.level.tile?.height
  return {
    set: {
      kind: 'own',
      length: parts.length,
      layout: 'NHWC',
      name,
      size: (i) => [parts[i]!.height, parts[i]!.width],
      read: (i, region, wanted = {}) => sampleOf(parts[i]!, region, wanted, blocks),
      ...(isTile || !tileRows ? {} : { tileRows }),
      nameOf: (i) => nameOf(parts[i]!, isTile),
      notes,
      outputName: (i) => names.ofSample[i]!,
      ...(isTile ? { tileOf: (i: number) => tileOf(names.ofSlide.get(firstOf(parts[i]!).of.slide.file)!, parts[i]!) } : {}),
      ...(blocks && parts.some(({ placed }) => placed.length > 1) ? { apart: blocks.side } : {}),
      placesOf: (i) => placesOf(names.ofPlaced[i]!, parts[i]!, isTile, blocks),
      ...Object.fromEntries(Object.entries({ fit, augment, mean, std, classes }).filter(([, value]) => value !== undefined)),
    },
    parts: [],
  }
}

const isTissue = ({ of, region }: Placed, shares: Tissue, { tissue = 0 }: SlideOptions): boolean =>
  shares.get(of.slide.file)!(region) >= tissue

/** Looks for tissue in each slide, which takes time. */
export const tissueAt = async (path: string, o: SlideOptions, damaged = NO_DAMAGE): Promise<Tissue> =>
  new Map(
    await Promise.all(openedAt(path, o, damaged).all.map(async ({ slide }) => [slide.file, await tissueOf(slide)] as const)),
  )

/** All slides or tiles; with `tissue`, the tiles with enough of it. Also returns the number of all tiles. */
export const slidesAt = (
  path: string,
  o: SlideOptions,
  tissue?: Tissue,
  damaged = NO_DAMAGE,
): { readonly data: Data; readonly tiles: number } => {
  const at = openedAt(path, o, damaged)
  const size = sizeOf(o.tiles)
  const all = size ? at.all.flatMap((of) => tilesOf(of, size)) : wholes(at.all, o)
  const kept = tissue && size ? all.filter((part) => isTissue(firstOf(part), tissue, o)) : all
  if (kept.length === 0) refused(`slides: no tile of ${path} has ${100 * (o.tissue ?? 0)} % of tissue: lower tissue`)
  return { data: asData(at, o, kept, tissue), tiles: all.length }
}

/**
 * Creates data from slide and scene files: tiled TIFF, BigTIFF, GeoTIFF, SVS and OME-Zarr with their pyramids. Only the regions that a step or a
 * prediction needs are decoded. The path is a slide, a folder of slides, a folder with one folder per class, or a folder with
 * `images/` and `masks/`. It needs the package sharp, or zarrita for OME-Zarr.
 *
 * @param path The slide or the folder.
 * @param o Level, tiles, tissue, normalisation and augmentation.
 * @example
 * const tumours = await slides('slides/', { microns: 0.5, tiles: 512, tissue: 0.25, augment: { flip: 'both', turns: true } })
 * await train(net, plan, { epochs: 10, data: tumours })
 */
export const slides = async (path: string, o: SlideOptions = {}): Promise<Data> => {
  const { tissue = 0, blocks, skipDamaged = false } = o
  const damaged = skipDamaged ? await damagedAt(path, o) : NO_DAMAGE
  return slidesAt(path, o, tissue > 0 || blocks !== undefined ? await tissueAt(path, o, damaged) : undefined, damaged).data
}
