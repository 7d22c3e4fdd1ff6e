// A viewer of a slide and its predictions: a folder with a page, OpenSeadragon and image tiles. In: files. Out: the folder. Invariant: it has its name
// once it is whole; it replaces an earlier viewer or an empty folder, and nothing else. Slide and predictions are read by regions.
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { canDecode } from '../data/decode'
import { type LevelChoice, openSlide } from '../data/slides/slide'
import { type SpillwayError, SpillwayException, usage } from '../errors/errors'
import { attempt, onRefusal, onWriting } from '../errors/exceptions'
import { checkedPlaces, reading, writing } from '../files/places'
import { linked, removeLeftoversOf, statAt, temporaryName } from '../files/whole'
import { deepText, deepTiles, deepZoom, type Source } from './deepzoom'
import { type Layer, layersOver } from './layers'
import { type LayerView, type TilesView, viewerHtml } from './page'
import { slideSource } from './sources'

export interface Viewing extends LevelChoice {
  readonly slide: string
  readonly predictions: readonly string[]
  readonly out: string
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((done: number, tiles: number) => void) | undefined
}

export interface Viewed {
  /** The page to open. */
  readonly page: string
  readonly width: number
  readonly height: number
  readonly layers: readonly string[]
  readonly tiles: number
  readonly bytes: number
}

const LIBRARY = 'openseadragon.min.js'
const LICENSE = 'openseadragon.license.txt'
const PAGE = 'index.html'

/** The files of OpenSeadragon, which a user installs. */
const libraryFiles = (): { readonly script: string; readonly license: string } => {
  const main = attempt(() => require.resolve('openseadragon'))
  if (main === undefined)
    throw new SpillwayException(usage('the viewer needs the package openseadragon: npm install openseadragon'))
  return { script: join(dirname(main), LIBRARY), license: join(dirname(main), '../../LICENSE.txt') }
}

const OWN = /^(index\.html|openseadragon\.(min\.js|license\.txt)|(slide|layer\d+)(\.dzi|_files))$/

/** A viewer may replace an earlier one, or an empty folder. */
const replaceable = (out: string): Either<SpillwayError, void> => {
  if (!statAt(out)?.isDirectory()) return E.right(undefined)
  const odd = readdirSync(out).find((name) => !OWN.test(name))
  return odd === undefined
    ? E.right(undefined)
    : E.left(usage(`--out ${out} contains ${odd}, which is no part of a viewer: choose a new or an empty folder`))
}

/** Puts a whole folder in the place of an earlier one. */
const swapped = (made: string, out: string): void => {
  const before = temporaryName(out)
  const isThere = statAt(out) !== undefined
  if (isThere) renameSync(out, before)
  renameSync(made, out)
  if (isThere) rmSync(before, { recursive: true })
}

/** Everything that is read from the files' heads. */
const opened = ({ slide: file, predictions, level, microns }: Viewing) => {
  canDecode()
  const library = libraryFiles()
  const slide = openSlide(file, { level, microns })
  return { library, slide, layers: layersOver(slide, predictions) }
}

const made = async (o: Viewing, { library, slide, layers }: ReturnType<typeof opened>): Promise<Viewed> => {
  const out = linked(o.out)
  mkdirSync(dirname(out), { recursive: true })
  removeLeftoversOf(out)
  const folder = temporaryName(out)
  const sources: readonly { readonly id: string; readonly source: Source }[] = [
    { id: 'slide', source: (await slideSource(slide)) as unknown as Source },
    ...layers.map(({ source }, i) => ({ id: `layer${i + 1}`, source })),
  ]
  const tiles = sources.reduce((n, { source }) => n + deepTiles(source), 0)
  let [written, bytes] = [0, 0]
  const wrote = (more: number): void => {
    bytes += more
    o.onProgress?.(++written, tiles)
  }
  try {
    mkdirSync(folder)
    for (const { id, source } of sources) {
      await deepZoom(source, join(folder, `${id}_files`), { signal: o.signal, wrote })
      writeFileSync(join(folder, `${id}.dzi`), deepText(source, source.format))
    }
    const viewOf = ({ id, source: { width, height, format } }: (typeof sources)[number]): TilesView => ({
      ...{ tiles: `${id}_files`, format, width, height },
    })
    const layerViews = layers.map(
      ({ name, across, legend }: Layer, i): LayerView => ({
        ...viewOf(sources[i + 1]!),
        ...{ name, across, legend: legend() },
      }),
    )
    const view = { ...viewOf(sources[0]!), name: basename(o.slide), microns: slide.level.microns, layers: layerViews }
    copyFileSync(library.script, join(folder, LIBRARY))
    copyFileSync(library.license, join(folder, LICENSE))
    writeFileSync(join(folder, PAGE), viewerHtml(view, [LIBRARY]))
    swapped(folder, out)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const { width, height } = slide.level
  return { page: join(o.out, PAGE), width, height, layers: layers.map((l) => l.name), tiles, bytes }
}

export const viewTask = (o: Viewing): TaskEither<SpillwayError, Viewed> =>
  pipe(
    checkedPlaces(
      [...reading('the slide', o.slide), ...o.predictions.flatMap((file) => reading('the prediction', file))],
      writing('--out', 'viewer', o.out),
    ),
    E.flatMap(() => replaceable(linked(o.out))),
    E.flatMap(() => onRefusal(() => opened(o))),
    TE.fromEither,
    TE.flatMap((files) => onWriting(o.out, () => made(o, files))),
  )
