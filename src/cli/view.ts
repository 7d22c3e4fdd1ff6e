// `spillway view SLIDE PREDICTION… --out DIR`: a folder with a page that shows a slide and its predictions at any zoom. In: files of both, a level.
// Out: the folder, and the page's path. Invariant: an interrupted command leaves no folder.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import { type SpillwayError, usage } from '../errors/errors'
import { plural, showSize } from '../report/format'
import { type Viewed, viewTask } from '../view/view'
import { interrupts } from './interrupts'
import type { Done, Output } from './output'
import { countLines } from './progress'

export interface ViewCommandOptions {
  readonly out?: string
  readonly level?: number
  readonly microns?: number
}

const given = ({ out, level, microns }: ViewCommandOptions): Either<SpillwayError, string> =>
  out === undefined
    ? E.left(usage('view needs --out, the folder to write. Example: spillway view slide.svs masks/slide.tif --out viewer'))
    : level !== undefined && microns !== undefined
      ? E.left(usage('--level and --microns exclude each other: leave one of them out'))
      : E.right(out)

const viewedText = ({ page, width, height, layers, tiles, bytes }: Viewed): string =>
  [
    `${page} shows ${width} x ${height} pixels${layers.length === 0 ? '' : ` and ${plural(layers.length, 'layer')}: ${layers.join(', ')}`}`,
    `  tiles      ${tiles}, ${showSize(bytes)}`,
    '  open the page in a browser; keep the folder as it is',
  ].join('\n')

export const viewSlide = (slide: string, predictions: readonly string[], o: ViewCommandOptions, out: Output): Promise<Done> => {
  const interrupt = interrupts(() => out.say('\ninterrupted: removing the tiles; interrupt again to stop at once'))
  const { level, microns } = o
  return pipe(
    TE.fromEither(given(o)),
    TE.flatMap((folder) =>
      viewTask({ slide, predictions, out: folder, level, microns, signal: interrupt.signal, onProgress: countLines(out) }),
    ),
    TE.map((viewed) => out.answer(viewed, viewedText(viewed))),
    TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: interrupt.name() } : e)),
    TE.tapIO(() => interrupt.forget),
  )()
}
