// The images of a prediction. In: data of any kind, and a plan. Out: groups of images of one size, each with its plan and the source
// of its batches. Invariant: arrays and photos of another size than the plan's keep their size unless a fit is given.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import type { Graph } from '../../staging/graph/graph'
import { type Data, files, folder, type ImageSet } from '../data/data'
import { nameOfFile, pixelsOf, type Size } from '../data/decode'
import { checkedWhole, damagedNotes, holdsPictures, leftOutAt, picturesAt } from '../data/images'
import { looked, sizeOfImage } from '../data/sizes'
import type { DataSource, OpenedData } from '../data/source'
import { fedOf } from '../data/fed'
import type { Damaged } from '../data/found'
import { MOST_PIXELS, openPictures } from '../data/openimages'
import { openOwn } from '../data/opensource'
import { openRunData } from '../data/open'
import { arraysAsSource } from '../data/arrays'
import { chosen, orderOf } from '../data/order'
import { sizeOfOwn } from '../data/readers'
import { type SpillwayError, usage } from '../errors/errors'
import { openData } from '../files/samples'
import type { Staged } from '../stage/staged'
import { filesOf } from '../train/beforehand'
import { loadingOf } from '../train/loading'
import { PREFETCH, usualWorkers } from '../train/options'
import type { PredictOptions } from './options'
import { namesOf, type Picture } from './outputs'
import { type Group, groupOf, groupsBySize, isPerImage, type Kept, type NamedPicture, sizeOfPlan } from './group'

export const dataOf = (data: string | Data): Data =>
  typeof data === 'string' ? (holdsPictures(data) ? folder(data) : files(data)) : data

/** The image files of the data. Those with one result each are resized as in training; others keep their size by default. */
export const picturesIn = ({ set }: Data, graph: Graph): ImageSet | undefined =>
  set.kind !== 'images' ? undefined : set.fit === undefined && isPerImage(graph) ? { ...set, fit: 'cover' } : set

const IN_TURN = { seed: 0, shuffle: false, prefetch: PREFETCH, workers: 0, isKept: false } as const

type FilesSet = Extract<Data['set'], { readonly kind: 'files' }>

type OwnSet = Extract<Data['set'], { readonly kind: 'own' }>

/** Arrays of the model's size, or resized to it. */
const ofArrays = (
  staged: Staged,
  set: FilesSet,
  { weights, ...o }: PredictOptions,
  data: Data,
): Either<SpillwayError, readonly Group[]> => {
  const { graph } = staged.plan
  const resizedTo = (part: readonly number[] | undefined): Either<SpillwayError, DataSource> =>
    E.map((o: OpenedData) => o.source)(
      openRunData({ set: { ...set, augment: {} }, parts: part ? [{ kind: 'list', samples: part }] : data.parts }, IN_TURN, graph),
    )
  return pipe(
    filesOf({ data, weights, ...loadingOf(o) })(graph),
    E.flatMap(() => openData(set.path, graph, set.layout, set.fit === undefined ? 'as they are' : 'of any size')),
    E.bindTo('arrays'),
    E.bind('source', ({ arrays }) =>
      set.fit === undefined
        ? E.right<SpillwayError, DataSource>({ kind: 'files', files: arrays, numbers: set })
        : resizedTo(undefined),
    ),
    E.map(({ arrays, source }) => {
      const names = namesOf([...arrays.values()][0]!)
      const part: Group['part'] = (places) =>
        set.fit === undefined
          ? E.right({ kind: 'files', files: arrays, numbers: set, order: orderOf(Uint32Array.from(places), undefined) })
          : resizedTo(places)
      return [groupOf(staged, source, part, names, [...names.keys()])]
    }),
  )
}

/** Arrays of another size than the plan's: a source of one's own, whose images have their own sizes. */
const arraysAsOwn = (
  set: FilesSet,
  graph: Graph,
): Either<SpillwayError, { readonly set: OwnSet; readonly names: readonly string[] }> =>
  pipe(
    openData(set.path, graph, set.layout, 'of any size'),
    E.map((arrays) => {
      const { path: _, kind: __, fit: ___, ...how } = set
      const keys = fedOf(graph).map((v) => [v.name, v.key] as const)
      return {
        set: { ...how, kind: 'own', ...arraysAsSource(arrays, keys) },
        names: namesOf([...arrays.values()][0]!),
      }
    }),
  )

export const ofFiles = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  options: PredictOptions,
  data: Data,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const { set, parts } = data
  if (set.kind === 'stream') return TE.left(usage('predict: a stream of samples is not supported: pass { length, read }'))
  if (set.kind !== 'files' || parts.length > 0)
    return TE.left(usage('predict takes a path, folder(), files(), or a source or a part of a source'))
  const { graph } = staged.plan
  const isOfItsSize = set.fit !== undefined || E.isRight(openData(set.path, graph, set.layout, 'as they are'))
  const own = isOfItsSize ? undefined : arraysAsOwn(set, graph)
  return own === undefined || E.isLeft(own)
    ? TE.fromIOEither(() => ofArrays(staged, set, options, data))
    : ofOwn(model, staged, form, { ...own.right, parts }, options, plans, kept)
}

/** Height and width of the first image that a path has, where a model is to take the size that its images have. */
export const pictureSize = (
  path: string,
  damaged: Damaged | undefined,
): TaskEither<SpillwayError, readonly [height: number, width: number]> =>
  pipe(
    TE.fromIOEither(() => picturesAt(path, damaged)),
    TE.flatMap(([first]) => sizeOfImage({})(first!.file)),
    TE.map(({ height, width }) => [height, width] as const),
  )

/** Image files: all resized to the model's size where it is said how, else a group for each size. */
export const ofPictures = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  set: ImageSet,
  { workers, weights, ...o }: PredictOptions,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const threads = { workers: workers ?? usualWorkers(), prefetch: PREFETCH }
  const listed = (): Either<SpillwayError, readonly NamedPicture[]> =>
    pipe(
      kept ? E.right(undefined) : filesOf({ weights, ...loadingOf(o) })(staged.plan.graph),
      E.flatMap(() => leftOutAt(set.path, set.damaged)),
      E.flatMap((leftOut) => checkedWhole(set.path, leftOut, o.strictData ?? false)),
      E.flatMap((notes) => {
        for (const text of [...notes, ...damagedNotes(set.path, set.damaged)]) o.onNote?.(text)
        return picturesAt(set.path, set.damaged)
      }),
    )
  return pipe(
    kept?.pictures ? TE.right(kept.pictures) : TE.fromIOEither(listed),
    TE.bindTo('pictures'),
    TE.bind('sizes', ({ pictures }) =>
      set.fit === undefined || set.fit === 'own'
        ? TE.traverseSeqArray((p: NamedPicture) => sizeOfImage(set)(p.file))(pictures)
        : TE.right(pictures.map(() => sizeOfPlan(staged))),
    ),
    TE.bind('groups', ({ pictures, sizes }) =>
      TE.fromEither(
        groupsBySize(
          model,
          staged,
          form,
          sizes,
          (i) => pictures[i]!.name,
          (at, graph) =>
            openPictures(
              { ...set, fit: set.fit ?? 'own', augment: {} },
              at.map((i) => pictures[i]!.file),
              threads,
              graph,
            ),
          plans,
          kept,
        ),
      ),
    ),
    TE.map(({ groups, pictures, sizes }) =>
      groups.map((g) => ({
        ...g,
        files: g.at.map((i) => nameOfFile(pictures[i]!.file)),
        pictureOf: async (at: number): Promise<Picture> => {
          const [size, limits] = [sizes[at]!, { depth: 8, mostPixels: set.mostPixels ?? MOST_PIXELS } as const]
          const pixels = await pixelsOf(pictures[at]!.file, { left: 0, top: 0, ...size }, size, 3, limits)
          return { ...size, pixels: pixels as Uint8Array }
        },
      })),
    ),
  )
}

/** Samples of a source of one's own: each at its size, in bands, or all at the model's if a fit is given. */
export const ofOwn = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  { set, parts, names }: { readonly set: OwnSet; readonly parts: Data['parts']; readonly names?: readonly string[] },
  { weights, ...o }: PredictOptions,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
): TaskEither<SpillwayError, readonly Group[]> => {
  const digits = String(set.length - 1).length
  const sizeAt = (i: number): Promise<Size> =>
    set.size === undefined || set.fit !== undefined ? Promise.resolve(sizeOfPlan(staged)) : sizeOfOwn(set, i)
  return pipe(
    TE.fromIOEither(() =>
      pipe(
        kept ? E.right(undefined) : filesOf({ weights, ...loadingOf(o) })(staged.plan.graph),
        E.flatMap(() => {
          for (const text of set.notes ?? []) o.onNote?.(text)
          return E.mapLeft((reason: string) => usage(reason))(chosen(set.length, parts))
        }),
      ),
    ),
    TE.filterOrElse(
      (images) => images.length > 0,
      () => usage(`no sample of ${set.length} is left: this part of the data is empty`),
    ),
    TE.bindTo('images'),
    TE.bind('sizes', ({ images }) => TE.traverseSeqArray((i: number) => looked(() => sizeAt(i)))([...images])),
    TE.bind('groups', ({ images, sizes }) =>
      TE.fromEither(
        groupsBySize(
          model,
          staged,
          form,
          sizes,
          (i) => names?.[i] ?? set.outputName?.(images[i]!) ?? `sample-${String(images[i]).padStart(digits, '0')}`,
          (at, graph) =>
            openOwn(
              set,
              at.map((i) => images[i]!),
              { prefetch: PREFETCH },
              graph,
              (place) => sizes[at[place]!]!,
            ),
          plans,
          kept,
          (i) => (set.fit === undefined ? (set.placesOf?.(images[i]!) ?? []) : []),
        ),
      ),
    ),
    TE.map(({ groups, images }) =>
      groups.map((g) => ({ ...g, ...(set.tileOf ? { tileOf: (at: number) => set.tileOf!(images[at]!) } : {}) })),
    ),
  )
}
