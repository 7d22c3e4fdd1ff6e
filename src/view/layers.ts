// The layers over a slide. In: files of predictions: TIFFs of classes or of probabilities, PNG masks, tables of tiles. Out: for each layer its name, its tiles and its legend.
// Invariant: a prediction covers its slide: its sides have the same proportions.
import { readFileSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { csvRows } from '../data/lists'
import { pngLabels } from '../data/png'
import { openSlide, type Slide } from '../data/slides/slide'
import { SpillwayException } from '../errors/errors'
import type { LevelSize, Numbers } from '../files/pyramid'
import { classOfColumn } from '../predict/ranked'
import { mappedClasses, tileMap } from '../predict/tilemaps'
import type { Source } from './deepzoom'
import { classColour, classesOf, classSource, heatSource, labelsOf, mapSource } from './sources'

export interface ClassEntry {
  readonly name: string
  readonly colour: string
  /** Share of the pixels. */
  readonly share: number
}

/** The meaning of the colours of a layer. */
export type Legend =
  | { readonly kind: 'classes'; readonly entries: readonly ClassEntry[] }
  | { readonly kind: 'heat'; readonly of: string }

export interface Layer {
  readonly name: string
  readonly source: Source<Numbers>
  /** The part of the slide's width that the layer covers. */
  readonly across: number
  /** The legend, after all tiles are made. */
  readonly legend: () => Legend
}

const refused = (file: string, reason: string): never => {
  throw new SpillwayException({ tag: 'FileRefused', kind: 'data', file, reason })
}

/** Rows by which a prediction may differ from the proportions of its slide: sides of levels and of outputs are rounded. */
const MOST_ROWS = 2

const covers = (slide: LevelSize, { width, height }: LevelSize): boolean =>
  Math.abs((slide.height / slide.width) * width - height) <= MOST_ROWS * Math.max(1, height / width)

/** The form and the classes that a prediction states. */
const statedBy = (slide: Slide): { readonly form?: string; readonly classes: readonly string[] } => {
  const [, form, classes] = /^Spillway: (\w+)(?:; classes: (.*))?$/s.exec(slide.pyramid.description) ?? []
  return { ...(form === undefined ? {} : { form }), classes: classes?.split(', ') ?? [] }
}

const classLayer = (name: string, classes: Parameters<typeof classSource>[0], names: readonly string[]): Layer => {
  const { source, counts } = classSource(classes)
  const legend = (): Legend => {
    const all = counts.reduce((n, x) => n + x, 0)
    const labels = [...counts.keys()].filter((label) => label < names.length || counts[label]! > 0)
    const entries = labels.map((label) => ({
      name: names[label] ?? `class ${label}`,
      colour: classColour(label),
      share: counts[label]! / all,
    }))
    return { kind: 'classes', entries }
  }
  return { name, source: source as unknown as Source, across: 1, legend }
}

/** Name of a channel; one channel alone is class 1 of two. */
const channelName = (channel: number, channels: number, names: readonly string[]): string =>
  names[channels === 1 ? names.length - 1 : channel] ?? `class ${channels === 1 ? 1 : channel}`

/** A layer for each class except the first, like `--format tiff`, whose picture shows the last. */
const heatLayers = (name: string, slide: Slide, names: readonly string[]): readonly Layer[] => {
  const { channels } = slide.level
  const shown = [...Array(channels).keys()].slice(channels > 1 ? 1 : 0)
  return shown.map((channel) => {
    const of = channelName(channel, channels, names)
    return {
      name: `${name}: ${of}`,
      source: heatSource(slide, channel) as unknown as Source,
      across: 1,
      legend: () => ({ kind: 'heat', of }),
    }
  })
}

const orRefused = <A>(file: string, value: Either<string, A>): A => (isLeft(value) ? refused(file, value.left) : value.right)

/** The rows of a table that are tiles of the slide, with their places. */
const tilesIn = (table: string, { file: slide, pyramid }: Slide) => {
  const { width: most, height: highest } = pyramid.levels[0]!
  const rows = orRefused(table, csvRows(readFileSync(table, 'utf8')))
  const own = rows.filter(({ fields }) => basename(String(fields['file'])) === basename(slide))
  if (own.length === 0) refused(table, `it has no tile of ${basename(slide)}; its column file names the slides`)
  return own.map(({ at, fields }) => {
    const number = (name: string): number => (fields[name] === '' ? Number.NaN : Number(fields[name]))
    const place = { x: number('x'), y: number('y'), width: number('width'), height: number('height') }
    const { x, y, width, height } = place
    if (!(x >= 0 && y >= 0 && width > 0 && height > 0 && x + width <= most + 1 && y + height <= highest + 1))
      refused(table, `${at} is no tile of a slide of ${most} x ${highest} pixels: x, y, width and height must be inside`)
    return { place, number, heads: Object.keys(fields) }
  })
}

/** A layer for each class of a table of tiles, except the first. */
const tileLayers = (table: string, name: string, slide: Slide): readonly Layer[] => {
  const tiles = tilesIn(table, slide)
  const finest = slide.pyramid.levels[0]!
  const columns = tiles[0]!.heads.filter((head) => classOfColumn(head) !== undefined)
  if (columns.length < 2) refused(table, 'it has no probabilities of classes: predict tiles with --tile-size and --out TABLE.csv')
  return mappedClasses(columns).map((column) => {
    const map = tileMap(
      finest,
      tiles.map(({ place, number }) => ({ ...place, share: number(column) })),
    )
    const of = classOfColumn(column)!
    return {
      name: `${name}: ${of}`,
      source: mapSource(map) as unknown as Source,
      across: (map.width * map.scale) / finest.width,
      legend: () => ({ kind: 'heat', of }),
    }
  })
}

const checkProportions = (file: string, { width, height }: LevelSize, of: LevelSize): void => {
  if (!covers(of, { width, height }))
    refused(file, `its ${width} x ${height} pixels have other proportions than the slide, which has ${of.width} x ${of.height}`)
}

const fileLayers = (file: string, name: string, of: LevelSize): readonly Layer[] => {
  const slide = openSlide(file, {}, [8, 32])
  const { bits, channels } = slide.level
  checkProportions(file, slide.level, of)
  const { form, classes } = statedBy(slide)
  if (bits === 32 && form !== 'probabilities')
    refused(file, 'its numbers are no probabilities: predict with --as probabilities or --as classes')
  if (bits === 8 && channels !== 1)
    refused(file, `its pixels have ${channels} channels; allowed: one class per pixel, or probabilities of --format tiff`)
  return bits === 8 ? [classLayer(name, classesOf(slide), classes)] : heatLayers(name, slide, classes)
}

/** A mask that is read whole: it has at most the pixels of the slide. */
const maskLayer = (file: string, name: string, of: Slide): Layer => {
  const finest = of.pyramid.levels[0]!
  const labels = orRefused(file, pngLabels(readFileSync(file), finest.width * finest.height))
  checkProportions(file, labels, of.level)
  return classLayer(name, labelsOf(labels), [])
}

const layersOf = (file: string, name: string, of: Slide): readonly Layer[] => {
  switch (extname(file).toLowerCase()) {
    case '.csv':
      return tileLayers(file, name, of)
    case '.png':
      return [maskLayer(file, name, of)]
    default:
      return fileLayers(file, name, of.level)
  }
}

/** Names of files: their own, with the folder's in front where two files have one name, or a file has the slide's. */
const namesOf = (slide: string, files: readonly string[]): readonly string[] => {
  const stemOf = (file: string): string => basename(file, extname(file))
  const stems = [slide, ...files].map(stemOf)
  const isTwice = (stem: string): boolean => stems.filter((s) => s === stem).length > 1
  return files.map((file) => (isTwice(stemOf(file)) ? join(basename(dirname(file)), stemOf(file)) : stemOf(file)))
}

/** The layers of predictions over a slide, in the order of the files. */
export const layersOver = (slide: Slide, files: readonly string[]): readonly Layer[] => {
  const names = namesOf(slide.file, files)
  return files.flatMap((file, i) => layersOf(file, names[i]!, slide))
}
