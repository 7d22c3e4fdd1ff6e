// A user's source, or a stream, as the data of a run. In: such a data set, a training graph. Out: its source, whole or in bands of rows.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { dimIndex } from '../../staging/core/box'
import type { Graph } from '../../staging/graph/graph'
import { type Access, touched } from '../../staging/ops/op'
import { operandsOf } from '../../staging/tile/slices'
import { type SpillwayError, usage } from '../errors/errors'
import { AUGMENTS, randomFor } from './augment'
import { type Chance, chanceFits, rectangleIn } from './augmented'
import { areBands, type BandsOf, openBands } from './bands'
import { type KnownClasses, otherNames } from './classes'
import type { Data, DataSet, FilesSet, ImageSet, SampleValue } from './data'
import type { Size } from './decode'
import { describedBy } from './description'
import { fedOf, targetMisfit, mostClasses, checkOneBatch, targetOf, unnamedNote } from './fed'
import { type Feed, openFeed } from './feed'
import { chosen, type Order, positionOf, type Share } from './order'
import type { FedValue, PlaceType } from './places'
import { type Own, ownName, ownReader, type Reader, sampleName, sizeOfOwn, streamReader } from './readers'
import { fillOf, checkScaling, scaledFor } from './scaling'
import { type DataSource, type ReadSettings, type OpenedData, orderFor, orderText } from './source'

type FedSet = Exclude<DataSet, FilesSet | ImageSet>

const nameIn = (set: FedSet, index: number): string => (set.kind === 'own' ? ownName(set, index) : sampleName(index))

const lengthOf = (set: FedSet): number => (set.kind === 'own' ? set.length : 2 ** 32 - 1)

const readerFor = (set: FedSet, values: readonly FedValue[], chance: Chance | undefined): Reader =>
  set.kind === 'own' ? ownReader(set, values, chance) : streamReader(set, values, chance)

const notesOf = (set: FedSet): readonly string[] => (set.kind === 'own' ? (set.notes ?? []) : [])

const sourceText = (set: FedSet): string =>
  `${set.kind === 'own' ? `${set.length} samples` : 'samples one after the other'} of ${set.name ?? 'a source of its own'}`

/** The random changes of samples, if there are any. */
const chanceOf = (
  { parts }: Data,
  set: FedSet,
  values: readonly FedValue[],
  { seed }: ReadSettings,
): Either<SpillwayError, Chance | undefined> => {
  const { augment = {}, layout = 'NCHW', mean } = set
  const isOfRegions = set.kind === 'own' && set.size !== undefined
  if (!AUGMENTS.some((a) => augment[a]) && !isOfRegions) return E.right(undefined)
  return pipe(
    chanceFits(augment, values, { isInTurn: set.kind === 'stream', isOfRegions }),
    E.bindTo('fed'),
    E.bind('others', () =>
      set.kind === 'own' ? E.mapLeft((reason: string) => usage(reason))(chosen(set.length, parts)) : E.right(undefined),
    ),
    E.map(({ fed: [input], others }) => ({
      augment,
      seed,
      layout,
      fit: isOfRegions ? (set.fit ?? 'crop') : 'cover',
      fill: fillOf(input.bytes?.mean ?? mean, input.shape),
      ...(others ? { others } : {}),
    })),
  )
}

/** Checks the class names of a source beside the model and the weights. */
const checkClasses = ({ classes }: FedSet, values: readonly FedValue[], known: KnownClasses): Either<SpillwayError, void> => {
  if (!classes) return E.right(undefined)
  const target = targetOf(values)
  const most = target && mostClasses(target)
  // Predictions have no target.
  if (!target)
    return values.some((v) => !v.isInput) ? E.left(usage('source: classes need a model with one target')) : E.right(undefined)
  if (most === undefined) return E.left(targetMisfit('source: classes name labels, but the target of the model has numbers'))
  if (classes.length > most) return E.left(targetMisfit(`the source has ${classes.length} classes, but the model has ${most}`))
  const others = otherNames(classes, known)
  return others === undefined ? E.right(undefined) : E.left(usage(others))
}

/** Pixels of the old image that a pixel of the new one reads beyond those that cover it. */
const beyondResized = (a: Extract<Access, { readonly tag: 'resampled' }>): number => {
  let most = 0
  for (let i = 0; i < a.to; i++) {
    const [first, end] = touched(a, [i, i + 1], a.from)
    most = Math.max(most, Math.floor((i * a.from) / a.to) - first, end - Math.ceil(((i + 1) * a.from) / a.to))
  }
  return most
}

/** Pixels of the image, of this side, that an operand of `extent` pixels reads around each pixel. */
const readAround = (a: Access | undefined, side: number, extent: number): number => {
  if (a?.tag === 'resampled') return Math.ceil((beyondResized(a) * side) / extent)
  if (a?.tag !== 'window' && a?.tag !== 'transposed') return 0
  // The windows of a transposed operand are in a finer image.
  const pixels = a.tag === 'window' ? extent : extent * a.stride
  return Math.ceil((Math.max(a.pad, a.reach - a.pad - a.stride) * side) / pixels)
}

/** Checks that no layer reads from one slide of a bag into the next one. */
const checkApart = (set: FedSet, [input]: readonly FedValue[], graph: Graph): Either<SpillwayError, void> => {
  if (set.kind !== 'own' || set.apart === undefined) return E.right(undefined)
  const { apart } = set
  const farthest = { layer: '', pixels: 0 }
  for (const op of graph.ops)
    for (const { value, access } of operandsOf(graph, op).ins)
      for (const d of ['H', 'W'] as const) {
        const pixels = readAround(access?.[d], input!.shape[d === 'H' ? 1 : 2], graph.values[value]!.shape[dimIndex[d]]!)
        if (pixels > farthest.pixels) Object.assign(farthest, { layer: op.layer, pixels })
      }
  const { layer, pixels } = farthest
  return pixels <= apart
    ? E.right(undefined)
    : E.left(
        usage(
          `layer '${layer}' reads ${pixels} pixels of the image around each pixel, but the slides of a bag are ${apart} pixels apart: set blocks (--blocks) to ${pixels} or more`,
        ),
      )
}

/** The rectangle of each sample of a step. */
const cutsOf = (
  set: Own,
  [input]: readonly FedValue[],
  order: Order,
  chance: Chance,
  share: Share | undefined,
): BandsOf['cutOf'] => {
  const [, height, width] = input!.shape
  const batch = input!.batch
  return async (step, b) => {
    const { epoch, index } = order.at(positionOf(step, batch, b, share))
    const image = await sizeOfOwn(set, index)
    return { index, image, rectangle: rectangleIn(image, { height, width }, chance, randomFor(chance.seed, epoch, index)) }
  }
}

/** `known`: the identity of the data, if it is known from their contents. */
export const openFed = (
  data: Data,
  set: FedSet,
  going: ReadSettings,
  graph: Graph,
  known?: string,
): Either<SpillwayError, OpenedData> =>
  pipe(
    checkOneBatch(fedOf(graph)),
    E.tap((values) => checkScaling(set, values)),
    E.bindTo('values'),
    E.tap(({ values }) => checkClasses(set, values, going.classes)),
    E.tap(({ values }) => checkApart(set, values, graph)),
    E.bind('chance', ({ values }) => chanceOf(data, set, values, going)),
    E.bind('order', () =>
      set.kind !== 'stream'
        ? orderFor(lengthOf(set), data, going)
        : going.shuffle
          ? E.left(usage('shuffle: a stream of samples has one order: pass { length, read } to shuffle'))
          : E.right<never, Order>({ length: lengthOf(set), at: (position) => ({ epoch: 0, index: position }) }),
    ),
    E.map(({ values, order, chance }) => {
      const regions =
        set.kind === 'own' && set.size !== undefined && chance ? `, regions ${JSON.stringify({ fit: chance.fit })}` : ''
      const content = `${known ?? sourceText(set)}${orderText(data, going)}${regions}${chance ? `, augment ${JSON.stringify(chance.augment)}` : ''}`
      const layout = chance ? 'NHWC' : set.layout
      const numbers = (value: FedValue, type: PlaceType) => ({
        ...(layout === undefined ? {} : { layout }),
        ...scaledFor(value, set, type === 'u8'),
      })
      const { share, prefetch } = going
      const whole = (): Feed => openFeed({ reader: readerFor(set, values, chance), order, values, share, prefetch, numbers })
      const inBands = set.kind === 'own' && chance && areBands(set, values, chance)
      return {
        source: {
          kind: 'fed',
          open: inBands
            ? () => openBands({ set, values, cutOf: cutsOf(set, values, order, chance, share), fill: chance.fill, numbers })
            : whole,
          ...(inBands ? { openWhole: whole } : {}),
          nameOf: (position) => nameIn(set, order.at(position).index),
        },
        samples: set.kind === 'stream' ? undefined : order.length,
        content,
        place: content,
        described: describedBy(set, set.classes),
        notes: [
          ...notesOf(set),
          ...[unnamedNote(set.classes, targetOf(values))].flatMap((text) =>
            text === undefined ? [] : [`the source has ${text}`],
          ),
        ],
      }
    }),
  )

/**
 * Images of a source of one's own, in turn, as a graph of one input takes them: at their size, or `fit` to the model's. `sizeOf` is the size of
 * each image; images smaller than the input are padded with the mean below and on the right.
 */
export const openOwn = (
  set: Own,
  images: readonly number[],
  going: Pick<ReadSettings, 'prefetch'>,
  graph: Graph,
  sizeOf: (place: number) => Size,
): Either<SpillwayError, DataSource> => {
  const [input, ...others] = fedOf(graph)
  if (!input || others.length) return E.left(usage('a source of images needs a model with one input'))
  const nameOf = (position: number): string => sampleName(images[position % images.length]!)
  const numbers = (value: FedValue, type: PlaceType) => ({ ...scaledFor(value, set, type === 'u8') })
  if (set.fit === undefined)
    return pipe(
      checkScaling(set, [input]),
      E.flatMap(() => checkApart(set, [input], graph)),
      E.map(() => ({
        kind: 'fed',
        open: () =>
          openBands({
            set,
            values: [input],
            numbers,
            fill: fillOf(input.bytes?.mean ?? set.mean, input.shape),
            cutOf: (step, b) => {
              const place = positionOf(step, input.batch, b) % images.length
              const [, height, width] = input.shape
              return { index: images[place]!, image: sizeOf(place), rectangle: { top: 0, left: 0, height, width } }
            },
          }),
        nameOf,
      })),
    )
  // The images of samples that have targets, too.
  const alone: Own = {
    ...set,
    augment: {},
    read: async (i, r) => ({ [input.key]: (await set.read(i, r))?.[input.key] as SampleValue }),
  }
  const still = { ...going, seed: 0, shuffle: false, isKept: false, workers: 0 }
  return pipe(
    openFed({ set: alone, parts: [{ kind: 'list', samples: images }] }, alone, still, graph),
    E.map(({ source }) => source),
  )
}
