// Image files as the data of a run. In: a data set of images, a training graph. Out: their source, decoded ahead of the step; notes about labels.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Graph } from '../../staging/graph/graph'
import { aboutTargets, type SpillwayError, usage } from '../errors/errors'
import { onDevice } from '../errors/exceptions'
import type { Augment } from './augment'
import { mixingProblem } from './augmented'
import { balanceNotes, labelsOfImages } from './balance'
import { missingNote } from './classes'
import type { Wanted } from './coco'
import { countsOf } from './counts'
import type { Data, ImageSet } from './data'
import { canDecode, type ImageFile, nameOfFile } from './decode'
import { describedBy } from './description'
import { fedOf, targetMisfit, mostClasses, checkOneBatch, unnamedNote } from './fed'
import { openFeed } from './feed'
import type { ImageList } from './found'
import type { ImageWork } from './imagereader'
import { checkedWhole, damagedNotes, imagesContent, openImages } from './images'
import { chosen, type Order, orderOf } from './order'
import { type FedValue, type PlaceType, valueProblem } from './places'
import { imagesBy } from './pool'
import { fillOf, checkScaling, scaledFor } from './scaling'
import { type DataSource, type ReadSettings, type OpenedData, orderFor, orderText } from './source'

export const MOST_PIXELS = 2 ** 28

const coloursOf = (channels: number): string => `images have 1 or 3 channels, but the input of the model has ${channels}`

/** Checks that images become the model's input. */
const checkImageInput = (
  { depth, augment }: Pick<ImageSet, 'depth' | 'augment'>,
  { shape: [channels], bytes }: FedValue,
): Either<SpillwayError, void> => {
  if (channels !== 1 && channels !== 3) return E.left(usage(coloursOf(channels)))
  if (augment?.randAugment && depth === 16)
    return E.left(usage('augment.randAugment needs 8-bit images, but depth is 16: leave one of them out'))
  return bytes && depth === 16
    ? E.left(usage('depth: 16 gives 16-bit numbers, but the model begins with fromBytes, which takes bytes: remove one of them'))
    : E.right(undefined)
}

/** The targets that COCO annotations become. */
const wantedBy = (values: readonly FedValue[]): Wanted => {
  const target = values.find((v) => !v.isInput)
  if (!target) return 'files'
  if (target.shape[1] * target.shape[2] > 1) return 'masks'
  return target.several ? 'classes' : 'class'
}

/** The input, and the target that images have: a class each, or a mask of their size. */
const imageValues = (
  values: readonly FedValue[],
  { samples, classes }: ImageList,
  augment: Augment,
): Either<SpillwayError, ImageWork['values']> => {
  const [input, target, ...others] = values
  const [, height, width] = input!.shape
  if (!input || !target || others.length || target.isInput)
    return E.left(usage('image files need a model with one input and one target'))
  if (target.several && samples[0]!.labels) {
    if (augment.mixup || augment.cutmix) return E.left(usage('augment: mixup and cutmix do not mix images of several classes'))
    const most = target.shape[0]
    return classes && classes.length > most
      ? E.left(targetMisfit(`the images have ${classes.length} classes, but the model has ${most}`))
      : E.right([input, target])
  }
  if (!target.labels && !target.shares && !target.binary)
    return E.left(
      targetMisfit(
        'image files give classes or masks, which need a loss with labels such as cross-entropy, or bce-with-logits or focal with one channel',
      ),
    )
  const unmixed = mixingProblem(augment, target, samples[0]!.mask !== undefined)
  if (unmixed !== undefined) return E.left(usage(unmixed))
  const size = target.shape[1] * target.shape[2]
  const most = mostClasses(target) ?? Number.POSITIVE_INFINITY
  if (samples[0]!.label !== undefined && size !== 1)
    return E.left(
      targetMisfit(`the images have one class each, but the target of the model has ${size} labels per image: it needs masks`),
    )
  if (samples[0]!.mask !== undefined && (target.shape[1] !== height || target.shape[2] !== width))
    return E.left(
      targetMisfit(
        `the masks have ${height} x ${width} labels, but the target of the model has ${target.shape[1]} x ${target.shape[2]}`,
      ),
    )
  if (classes && classes.length > most)
    return E.left(targetMisfit(`the images have ${classes.length} classes, but the model has ${most}`))
  return E.right([input, target])
}

/** Samples of image files, decoded ahead of the step. */
const fedImages = (
  set: ImageSet,
  going: ReadSettings,
  samples: ImageWork['samples'],
  values: ImageWork['values'],
  order: Order,
  others?: Uint32Array,
): Extract<DataSource, { readonly kind: 'fed' }> => {
  const { fit = 'cover', augment = {}, depth = 8, mostPixels = MOST_PIXELS, mean = [0], std } = set
  const fill = fillOf(values[0].bytes?.mean ?? set.mean, values[0].shape)
  const work: ImageWork = {
    samples,
    values,
    fit,
    augment,
    limits: { depth, mostPixels },
    seed: going.seed,
    fill,
    ...(others ? { others } : {}),
  }
  const numbers = (value: FedValue, type: PlaceType) => ({
    layout: 'NHWC' as const,
    ...scaledFor(value, { mean, ...(std ? { std } : {}) }, type === 'u8'),
  })
  return {
    kind: 'fed',
    open: () =>
      openFeed({ reader: imagesBy(work, going.workers), order, values, share: going.share, prefetch: going.prefetch, numbers }),
    nameOf: (position) => nameOfFile(samples[order.at(position).index]!.image),
  }
}

/** Returns true if the images of each class follow those of the one before: an unshuffled folder. */
const classByClass = ({ samples, classes = [] }: ImageList, order: Order): boolean => {
  if (samples[0]!.label === undefined) return false
  const labels = Array.from({ length: order.length }, (_, i) => samples[order.at(i).index]!.label)
  return classes.length > 1 && labels.filter((l, i) => i > 0 && l !== labels[i - 1]).length === new Set(labels).size - 1
}

/** Notes about the labels of the chosen samples. */
const labelNotes = (
  path: string,
  { samples, classes, note }: ImageList,
  values: ImageWork['values'],
  chosen: Uint32Array,
): readonly string[] =>
  [
    note,
    unnamedNote(classes, values[1]),
    classes &&
      samples[0]!.mask === undefined &&
      missingNote(Array.from(chosen, (i) => samples[i]!.labels ?? samples[i]!.label!).flat(), classes),
  ].flatMap((text) => (text === undefined || text === false ? [] : [`data ${path}: ${text}`]))

const CLASS_BY_CLASS =
  'the images are in folder order, so a step sees only one class: without --no-shuffle (shuffle: false) each epoch has a new order'

/** The first label that is no class of the model is refused before anything runs. */
const checkLabels = (
  path: string,
  { samples, placeOf }: ImageList,
  [, target]: ImageWork['values'],
): Either<SpillwayError, void> => {
  if (!target || samples[0]!.label === undefined) return E.right(undefined)
  const classes = mostClasses(target)
  const asLabel: FedValue = {
    ...target,
    shape: [1, 1, 1],
    labels: { ...target.labels, ...(classes === undefined ? {} : { classes }) },
  }
  for (const [i, { image, label }] of samples.entries()) {
    const problem = valueProblem(asLabel, label)
    if (problem !== undefined)
      return E.left(
        aboutTargets({
          tag: 'FileRefused',
          kind: 'data',
          file: path,
          reason: `${placeOf ? placeOf(i) : image}: label ${problem}`,
        }),
      )
  }
  return E.right(undefined)
}

export const openImageSet = (data: Data, set: ImageSet, going: ReadSettings, graph: Graph): Either<SpillwayError, OpenedData> =>
  pipe(
    checkOneBatch(fedOf(graph)),
    E.bindTo('all'),
    E.bind('list', ({ all }) =>
      openImages(set.path, going.classes, { images: set.images, damaged: set.damaged, wanted: wantedBy(all) }),
    ),
    E.bind('whole', ({ list }) => checkedWhole(set.path, list.leftOut, going.strict ?? false)),
    E.bind('values', ({ all, list }) => imageValues(all, list, set.augment ?? {})),
    E.tap(({ values }) => checkImageInput(set, values[0])),
    E.tap(({ list, values }) => checkLabels(set.path, list, values)),
    E.tap(({ values }) => checkScaling(set, values)),
    E.tap(() => onDevice(canDecode)),
    E.tap(() => (set.fault ? E.left(set.fault) : E.right(undefined))),
    E.bind('labels', ({ list }) => (going.balance ? labelsOfImages(list) : E.right(undefined))),
    E.bind('order', ({ list, labels }) => orderFor(list.samples.length, data, going, labels)),
    E.bind('balanced', ({ list, labels }) => balanceNotes(data, list.samples.length, labels, list.classes)),
    E.bind('content', ({ list }) => (going.isKept ? imagesContent(list) : E.right(''))),
    E.bind('others', ({ list }) => E.mapLeft((reason: string) => usage(reason))(chosen(list.samples.length, data.parts))),
    E.map(({ list, whole, balanced, values, order, content, others }) => {
      const { fit = 'cover', augment = {}, depth = 8 } = set
      const words = `${content}${orderText(data, going)}, images ${JSON.stringify({ fit, augment, depth })}`
      return {
        source: fedImages(set, going, list.samples, values, order, others),
        samples: order.length,
        content: words,
        place: words,
        described: describedBy(set, list.classes),
        notes: [...whole, ...damagedNotes(set.path, set.damaged), ...labelNotes(set.path, list, values, others), ...balanced],
        ...(!going.shuffle && !going.balance && classByClass(list, order) ? { orderNote: CLASS_BY_CLASS } : {}),
        ...(list.samples[0]!.label === undefined
          ? {}
          : {
              labels: countsOf(
                Array.from(others, (i) => list.samples[i]!.label!),
                list.classes,
              ),
            }),
      }
    }),
  )

/** Images alone, in turn, as a graph of one input takes them. */
export const openPictures = (
  set: ImageSet,
  files: readonly ImageFile[],
  going: Pick<ReadSettings, 'prefetch' | 'workers'>,
  graph: Graph,
): Either<SpillwayError, DataSource> => {
  const [input, ...others] = fedOf(graph)
  if (!input || others.length) return E.left(usage('image files need a model with one input'))
  const samples = files.map((image) => ({ image }))
  const inTurn = orderOf(
    Uint32Array.from(files, (_, i) => i),
    undefined,
  )
  return pipe(
    checkImageInput(set, input),
    E.flatMap(() => checkScaling(set, [input])),
    E.flatMap(() => onDevice(canDecode)),
    E.map(() => fedImages(set, { ...going, seed: 0, shuffle: false, isKept: false }, samples, [input], inTurn)),
  )
}
