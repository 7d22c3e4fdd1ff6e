// The data of a run. In: the user's data, the order of samples, the training graph. Out: the source of fed values, and words for their identity, for
// that of the run. Invariant: files have been checked, and no more is read.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Graph, Value } from '../../staging/graph/graph'
import { diceSums, diceSumsBwd, ignoredIn, LOSSES, type LossEntry, softXent } from '../../staging/ops/loss'
import { maskLabels } from '../../staging/ops/maskpixels'
import { attrsListed } from '../../staging/ops/op'
import { aboutTargets, type SpillwayError, usage } from '../errors/errors'
import { onDevice } from '../errors/exceptions'
import { contentOf } from '../files/content'
import { type DataFiles, fedValues, fileNames, type FileTensor, openData, sampleCount } from '../files/samples'
import { arraysAsSource } from './arrays'
import { BALANCE_NEEDS, balanceNotes, labelsInFiles, labelsOfImages } from './balance'
import { areBands, type BandsOf, openBands } from './bands'
import { type Data, type DataSet, files, folder, type Numbers, type SampleValue } from './data'
import { type KnownClasses, missingNote, otherNames } from './classes'
import type { Wanted } from './coco'
import { countsOf, type LabelCounts } from './counts'
import { canDecode, type ImageFile, nameOfFile, type Size } from './decode'
import { type Described, describedBy } from './description'
import { type Feed, openFeed } from './feed'
import { fileLabelsFit } from './filelabels'
import type { ImageWork } from './imagereader'
import type { ImageList } from './found'
import { checkedWhole, imagesContent, meansImages, openImages } from './images'
import { chosen, type Order, orderOf, positionOf, type Share } from './order'
import { type Augment, AUGMENTS, randomFor } from './augment'
import { type Chance, chanceFits, mixingProblem, rectangleIn } from './augmented'
import { type FedValue, type PlaceType, valueProblem } from './places'
import { imagesBy } from './pool'
import { isSlide, slidesAt } from './slides/slides'
import { type Own, ownName, ownReader, type Reader, sampleName, sizeOfOwn, streamReader } from './readers'

// ---------------------------------------------------------------- what a graph is fed

const OF_DICE: readonly string[] = [diceSums.kind, diceSumsBwd.kind]

/**
 * Labels are the channels of the loss's input; for one channel with Dice, yes and no: with several losses, the fewest, and the label that all of
 * these ignore.
 */
const labelsOf = (graph: Graph, id: number): { readonly classes: number; readonly ignored?: number } => {
  const masked = graph.ops.filter((o) => o.kind === maskLabels.kind && o.ins[0] === id).flatMap((o) => o.outs)
  const readers = graph.ops.filter((o) => o.ins[1] === id || masked.includes(o.ins[1]!))
  const classesIn = (o: Graph['ops'][number]): number => {
    const channels = graph.values[o.ins[0]!]!.shape[1]!
    return channels === 1 && OF_DICE.includes(o.kind) ? 2 : channels
  }
  const classes = Math.min(...readers.map(classesIn))
  const [ignored, ...others] = new Set(readers.map((o) => ignoredIn(o.attrs)))
  return ignored === undefined || others.length > 0 ? { classes } : { classes, ignored }
}

/** Returns true if a loss of shares of classes compares with it. */
const isOfShares = (graph: Graph, id: number): boolean => graph.ops.some((o) => o.kind === softXent.kind && o.ins[1] === id)

/** The operators of losses that compare with a sigmoid. */
const OF_SIGMOIDS: readonly string[] = Object.values<LossEntry>(LOSSES)
  .filter((e) => e.logits)
  .map((e) => e.op)
const isOfSigmoids = (graph: Graph, { id }: Value): boolean =>
  graph.ops.some((o) => OF_SIGMOIDS.includes(o.kind) && o.ins[1] === id)
/** One label for each value. */
const isBinary = (graph: Graph, v: Value): boolean => v.shape[1] === 1 && isOfSigmoids(graph, v)
/** Several classes for an image. */
const isSeveral = (graph: Graph, v: Value): boolean =>
  v.shape[1]! > 1 && v.shape[2] === 1 && v.shape[3] === 1 && isOfSigmoids(graph, v)

/** The mean that the model itself subtracts from fed bytes. */
const meanOfBytes = (graph: Graph, id: number): readonly number[] =>
  attrsListed('mean', graph.ops.find((o) => o.ins.includes(id))?.attrs ?? {})

/** Inputs, then targets. */
export const fedOf = (graph: Graph): readonly FedValue[] => {
  const fed = fedValues(graph)
  const keys = fileNames(fed)
  return fed.map((v, i) => ({
    name: v.name,
    key: keys[i]!,
    batch: v.shape[0]!,
    shape: v.shape.slice(1) as unknown as FedValue['shape'],
    isInput: v.role === 'input',
    ...(v.dtype === 'i32' ? { labels: labelsOf(graph, v.id) } : {}),
    ...(isOfShares(graph, v.id) ? { shares: { classes: v.shape[1]! } } : {}),
    ...(isBinary(graph, v) ? { binary: true as const } : {}),
    ...(isSeveral(graph, v) ? { several: true as const } : {}),
    ...(v.dtype === 'u8' ? { bytes: { mean: meanOfBytes(graph, v.id) } } : {}),
  }))
}

// ---------------------------------------------------------------- numbers

export interface Scaled {
  readonly scale: readonly number[]
  readonly shift: readonly number[]
}

/** With a mean or a deviation, bytes are shares of 255. */
const scaledBy = ({ mean, std }: Numbers, isBytes: boolean): Scaled | undefined => {
  if (!mean && !std) return undefined
  const length = Math.max(mean?.length ?? 1, std?.length ?? 1)
  const at = (list: readonly number[] | undefined, i: number, otherwise: number): number =>
    list === undefined ? otherwise : list[list.length === 1 ? 0 : i]!
  const channels = Array.from({ length }, (_, i) => ({ mean: at(mean, i, 0), std: at(std, i, 1) }))
  return {
    scale: channels.map((c) => 1 / c.std / (isBytes ? 255 : 1)),
    shift: channels.map((c) => -c.mean / c.std),
  }
}

/** Nothing for inputs that the model scales itself, and for targets. */
export const scaledFor = ({ isInput, bytes }: FedValue, numbers: Numbers, isBytes: boolean): Scaled | undefined =>
  isInput && !bytes ? scaledBy(numbers, isBytes) : undefined

const fitting = ({ mean, std }: Numbers, values: readonly FedValue[]): Either<SpillwayError, void> => {
  for (const { key, isInput, shape, bytes } of values)
    for (const [name, list] of Object.entries({ mean, std }))
      if (bytes && list)
        return E.left(
          usage(
            `the data have a ${name}, but the model begins with fromBytes, which normalizes '${key}' itself: set it only there`,
          ),
        )
      else if (isInput && list && list.length !== 1 && list.length !== shape[0])
        return E.left(usage(`the ${name} of the data has ${list.length} numbers, but '${key}' has ${shape[0]} channels`))
  return E.right(undefined)
}

// ---------------------------------------------------------------- what a run reads

/** The source of the bytes of fed values. */
export type DataSource =
  | { readonly kind: 'synthetic'; readonly samples: number }
  | {
      readonly kind: 'files'
      readonly files: DataFiles
      readonly numbers: Numbers
      /** Without, in turn. */
      readonly order?: Order
    }
  | {
      readonly kind: 'fed'
      readonly open: () => Feed
      /** Batches of whole samples; absent if `open` has them or samples are only read in bands. */
      readonly openWhole?: () => Feed
      readonly nameOf: (position: number) => string
    }

export interface OpenedData {
  readonly source: DataSource
  /** Samples of an epoch; undefined if unknown. */
  readonly samples: number | undefined
  /** The identity of the data, for that of the run. */
  readonly content: string
  /** The same as checkpoints of version 1 say it: where the data lie. */
  readonly place: string
  /** The description of the data in trained weights. */
  readonly described: Described
  /** Notes about labels, and data that are left out. */
  readonly notes: readonly string[]
  /** A note about the order, for training. */
  readonly orderNote?: string
  /** For samples with one label each, if their labels have been read. */
  readonly labels?: LabelCounts
}

/** How data are gone through. */
export interface Going {
  readonly samples?: number | undefined
  /** Of the order. */
  readonly seed: number
  readonly shuffle: boolean
  /** Shuffles where samples have an order of their own: no stream, no synthetic data. Replaces `shuffle`. */
  readonly shufflesIfPossible?: boolean
  /** Batches that are made ahead. */
  readonly prefetch: number
  /** Threads that decode images. */
  readonly workers: number
  /** True if the identity of the data must be known. */
  readonly isKept: boolean
  /** The read part of each batch; default: all. */
  readonly share?: Share | undefined
  /** Class names that labels must follow. */
  readonly classes?: KnownClasses
  /** Refuses data that would be left out. */
  readonly strict?: boolean
  /** Draws each class equally often. */
  readonly balance?: boolean
}

const placeOf = (files: DataFiles): string => {
  const [first = []] = files.values()
  return `${sampleCount(first)} samples of ${first.map((f) => f.path).join(', ')}`
}

/** The part of a run's identity; nothing if data are used unchanged. */
const wayWords = ({ parts, set: { mean, std } }: Data, { shuffle, balance }: Going): string =>
  [
    ...(parts.length ? [`, parts ${JSON.stringify(parts)}`] : []),
    ...(mean || std ? [`, numbers ${JSON.stringify({ mean, std })}`] : []),
    ...(shuffle ? [', shuffled'] : []),
    ...(balance ? [', balanced'] : []),
  ].join('')

/** `labels`: for a balanced order. */
const orderFor = (
  length: number,
  { parts }: Data,
  { shuffle, seed, balance }: Going,
  labels?: ArrayLike<number>,
): Either<SpillwayError, Order> =>
  pipe(
    chosen(length, parts),
    E.mapLeft((reason) => usage(reason)),
    E.filterOrElse(
      (samples) => samples.length > 0,
      () => usage(`no sample of ${length} is left: this part of the data is empty`),
    ),
    E.map((samples) => orderOf(samples, shuffle || balance ? seed : undefined, balance ? labels : undefined)),
  )

const oneBatch = (values: readonly FedValue[]): Either<SpillwayError, readonly FedValue[]> => {
  const odd = values.find((v) => v.batch !== values[0]!.batch)
  return odd
    ? E.left(
        usage(
          `'${odd.key}' gets ${odd.batch} samples per step, but '${values[0]!.key}' gets ${values[0]!.batch}: such a model takes samples only in file order`,
        ),
      )
    : E.right(values)
}

type FilesSet = Extract<DataSet, { readonly kind: 'files' }>

/** Changes of images apply to them. */
const areImages = ({ fit, augment = {} }: FilesSet): boolean => fit !== undefined || AUGMENTS.some((a) => augment[a])

/** Arrays that are images: read by regions, as a source of one's own is. */
const openArrays = (data: Data, set: FilesSet, going: Going, graph: Graph): Either<SpillwayError, OpenedData> =>
  pipe(
    openData(set.path, graph, set.layout, 'of any size'),
    E.bindTo('found'),
    E.bind('content', ({ found }) => (going.isKept ? contentOf(found) : E.right(''))),
    E.flatMap(({ found, content }) => {
      const { path: _, kind: __, ...how } = set
      const keys = fedOf(graph).map((v) => [v.name, v.key] as const)
      const own: Own = { ...how, kind: 'own', fit: set.fit ?? 'cover', ...arraysAsSource(found, keys) }
      return pipe(
        openFed({ ...data, set: own }, own, going, graph, content),
        E.map((opened) => ({ ...opened, described: describedBy(set) })),
      )
    }),
  )

const openFiles = (data: Data, set: FilesSet, going: Going, graph: Graph): Either<SpillwayError, OpenedData> => {
  if (areImages(set)) return openArrays(data, set, going, graph)
  const asTheyAre = data.parts.length === 0 && !going.shuffle && !going.balance
  return pipe(
    openData(set.path, graph, set.layout),
    E.bindTo('found'),
    E.tap(() => fitting(set, fedOf(graph))),
    // Parts may leave a wrong label out.
    E.bind('known', ({ found }) => (data.parts.length === 0 ? fileLabelsFit(found, fedOf(graph)) : E.right([]))),
    // A run that is not kept has no identity to compare.
    E.bind('content', ({ found }) => (going.isKept ? contentOf(found) : E.right(''))),
    E.bind('labels', ({ found }) => (going.balance ? labelsInFiles(found, fedOf(graph)) : E.right(undefined))),
    E.bind('order', ({ found, labels }) =>
      asTheyAre
        ? E.right(undefined)
        : pipe(
            oneBatch(fedOf(graph)),
            E.flatMap(() => orderFor(sampleCount([...found.values()][0]!), data, going, labels)),
          ),
    ),
    E.bind('notes', ({ found, labels }) => balanceNotes(data, sampleCount([...found.values()][0]!), labels)),
    E.map(({ found, content, order, notes, known }) => ({
      source: { kind: 'files', files: found, numbers: set, ...(order ? { order } : {}) },
      samples: order?.length ?? sampleCount([...found.values()][0]!),
      content: `${content}${wayWords(data, going)}`,
      place: `${placeOf(found)}${wayWords(data, going)}`,
      described: describedBy(set),
      notes,
      ...(known.length > 0 ? { labels: countsOf(known) } : {}),
    })),
  )
}

export type ImageSet = Extract<DataSet, { readonly kind: 'images' }>
type FedSet = Exclude<DataSet, FilesSet | ImageSet>

const nameIn = (set: FedSet, index: number): string => (set.kind === 'own' ? ownName(set, index) : sampleName(index))
const lengthOf = (set: FedSet): number => (set.kind === 'own' ? set.length : 2 ** 32 - 1)
const readerFor = (set: FedSet, values: readonly FedValue[], chance: Chance | undefined): Reader =>
  set.kind === 'own' ? ownReader(set, values, chance) : streamReader(set, values, chance)
const wordsFor = (set: FedSet): string =>
  `${set.kind === 'own' ? `${set.length} samples` : 'samples one after the other'} of ${set.name ?? 'a source of its own'}`

/** As shares, of each channel. */
const fillOf = (mean: readonly number[] | undefined, [channels]: FedValue['shape']): readonly number[] =>
  Array.from({ length: channels }, (_, c) => mean?.[mean.length === 1 ? 0 : c] ?? 0)

/** The random changes of samples, if there are any. */
const chanceOf = (
  { parts }: Data,
  set: FedSet,
  values: readonly FedValue[],
  { seed }: Going,
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

/** The only target; undefined for none or several. */
const targetOf = (values: readonly FedValue[]): FedValue | undefined => {
  const targets = values.filter((v) => !v.isInput)
  return targets.length === 1 ? targets[0] : undefined
}

/** Checks the class names of a source beside the model and the weights. */
const namesFit = ({ classes }: FedSet, values: readonly FedValue[], known: KnownClasses): Either<SpillwayError, void> => {
  if (!classes) return E.right(undefined)
  const target = targetOf(values)
  const most = target && mostClasses(target)
  // Predictions have no target.
  if (!target)
    return values.some((v) => !v.isInput) ? E.left(usage('source: classes need a model with one target')) : E.right(undefined)
  if (most === undefined) return E.left(misfit('source: classes name labels, but the target of the model has numbers'))
  if (classes.length > most) return E.left(misfit(`the source has ${classes.length} classes, but the model has ${most}`))
  const others = otherNames(classes, known)
  return others === undefined ? E.right(undefined) : E.left(usage(others))
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
const openFed = (data: Data, set: FedSet, going: Going, graph: Graph, known?: string): Either<SpillwayError, OpenedData> =>
  pipe(
    oneBatch(fedOf(graph)),
    E.tap((values) => fitting(set, values)),
    E.bindTo('values'),
    E.tap(({ values }) => namesFit(set, values, going.classes)),
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
      const content = `${known ?? wordsFor(set)}${wayWords(data, going)}${regions}${chance ? `, augment ${JSON.stringify(chance.augment)}` : ''}`
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
        notes: [unnamedNote(set.classes, targetOf(values))].flatMap((text) =>
          text === undefined ? [] : [`the source has ${text}`],
        ),
      }
    }),
  )

// ---------------------------------------------------------------- images

export const MOST_PIXELS = 2 ** 28

const coloursOf = (channels: number): string => `images have 1 or 3 channels, but the input of the model has ${channels}`

/** Checks that images become the model's input. */
const imageInputFits = (
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

const mostClasses = ({ shares, labels, binary, several, shape }: FedValue): number | undefined =>
  shares?.classes ?? labels?.classes ?? (binary ? 2 : several ? shape[0] : undefined)

/** The targets that COCO annotations become. */
const wantedBy = (values: readonly FedValue[]): Wanted => {
  const target = values.find((v) => !v.isInput)
  if (!target) return 'files'
  if (target.shape[1] * target.shape[2] > 1) return 'masks'
  return target.several ? 'classes' : 'class'
}

/** A target that does not fit the loss. */
const misfit = (message: string): SpillwayError => aboutTargets(usage(message))

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
      ? E.left(misfit(`the images have ${classes.length} classes, but the model has ${most}`))
      : E.right([input, target])
  }
  if (!target.labels && !target.shares && !target.binary)
    return E.left(
      misfit(
        'image files give classes or masks, which need a loss with labels such as cross-entropy, or bce-with-logits or focal with one channel',
      ),
    )
  const unmixed = mixingProblem(augment, target, samples[0]!.mask !== undefined)
  if (unmixed !== undefined) return E.left(usage(unmixed))
  const size = target.shape[1] * target.shape[2]
  const most = mostClasses(target) ?? Number.POSITIVE_INFINITY
  if (samples[0]!.label !== undefined && size !== 1)
    return E.left(
      misfit(`the images have one class each, but the target of the model has ${size} labels per image: it needs masks`),
    )
  if (samples[0]!.mask !== undefined && (target.shape[1] !== height || target.shape[2] !== width))
    return E.left(
      misfit(
        `the masks have ${height} x ${width} labels, but the target of the model has ${target.shape[1]} x ${target.shape[2]}`,
      ),
    )
  if (classes && classes.length > most)
    return E.left(misfit(`the images have ${classes.length} classes, but the model has ${most}`))
  return E.right([input, target])
}

/** Samples of image files, decoded ahead of the step. */
const fedImages = (
  set: ImageSet,
  going: Going,
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

/** A model with more outputs than the data have names predicts classes without a name. */
const unnamedNote = (classes: readonly string[] | undefined, target: FedValue | undefined): string | undefined => {
  const outputs = target && mostClasses(target)
  return classes === undefined || outputs === undefined || outputs <= classes.length
    ? undefined
    : `${classes.length} classes, but the model has ${outputs} outputs: the last ${outputs - classes.length} never occur; set the number of classes (--classes ${classes.length})`
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
const labelsFit = (
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

const openImageSet = (data: Data, set: ImageSet, going: Going, graph: Graph): Either<SpillwayError, OpenedData> =>
  pipe(
    oneBatch(fedOf(graph)),
    E.bindTo('all'),
    E.bind('list', ({ all }) => openImages(set.path, going.classes, { images: set.images, wanted: wantedBy(all) })),
    E.bind('whole', ({ list }) => checkedWhole(set.path, list.leftOut, going.strict ?? false)),
    E.bind('values', ({ all, list }) => imageValues(all, list, set.augment ?? {})),
    E.tap(({ values }) => imageInputFits(set, values[0])),
    E.tap(({ list, values }) => labelsFit(set.path, list, values)),
    E.tap(({ values }) => fitting(set, values)),
    E.tap(() => onDevice(canDecode)),
    E.bind('labels', ({ list }) => (going.balance ? labelsOfImages(list) : E.right(undefined))),
    E.bind('order', ({ list, labels }) => orderFor(list.samples.length, data, going, labels)),
    E.bind('balanced', ({ list, labels }) => balanceNotes(data, list.samples.length, labels, list.classes)),
    E.bind('content', ({ list }) => (going.isKept ? imagesContent(list) : E.right(''))),
    E.bind('others', ({ list }) => E.mapLeft((reason: string) => usage(reason))(chosen(list.samples.length, data.parts))),
    E.map(({ list, whole, balanced, values, order, content, others }) => {
      const { fit = 'cover', augment = {}, depth = 8 } = set
      const words = `${content}${wayWords(data, going)}, images ${JSON.stringify({ fit, augment, depth })}`
      return {
        source: fedImages(set, going, list.samples, values, order, others),
        samples: order.length,
        content: words,
        place: words,
        described: describedBy(set, list.classes),
        notes: [...whole, ...labelNotes(set.path, list, values, others), ...balanced],
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
  going: Pick<Going, 'prefetch' | 'workers'>,
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
    imageInputFits(set, input),
    E.flatMap(() => fitting(set, [input])),
    E.flatMap(() => onDevice(canDecode)),
    E.map(() => fedImages(set, { ...going, seed: 0, shuffle: false, isKept: false }, samples, [input], inTurn)),
  )
}

/**
 * Images of a source of one's own, in turn, as a graph of one input takes them: at their size, or `fit` to the model's. `sizeOf` is the size of
 * each image; images smaller than the input are padded with the mean below and on the right.
 */
export const openOwn = (
  set: Own,
  images: readonly number[],
  going: Pick<Going, 'prefetch'>,
  graph: Graph,
  sizeOf: (place: number) => Size,
): Either<SpillwayError, DataSource> => {
  const [input, ...others] = fedOf(graph)
  if (!input || others.length) return E.left(usage('a source of images needs a model with one input'))
  const nameOf = (position: number): string => sampleName(images[position % images.length]!)
  const numbers = (value: FedValue, type: PlaceType) => ({ ...scaledFor(value, set, type === 'u8') })
  if (set.fit === undefined)
    return pipe(
      fitting(set, [input]),
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

/** A data set that a path alone names. */
export const dataAt = (path: string): Data =>
  isSlide(path) ? slidesAt(path, {}).data : meansImages(path) ? folder(path) : files(path)

/** Returns true if samples of a step can be read in any order. */
const canShuffle = (data: string | Data | undefined, graph: Graph): boolean =>
  data !== undefined && (typeof data === 'string' || data.set.kind !== 'stream') && E.isRight(oneBatch(fedOf(graph)))

export const openRunData = (given: string | Data | undefined, asked: Going, graph: Graph): Either<SpillwayError, OpenedData> => {
  const going = asked.shufflesIfPossible ? { ...asked, shuffle: canShuffle(given, graph) } : asked
  if (given === undefined) {
    if (going.shuffle) return E.left(usage('shuffle needs data: synthetic samples have no order'))
    if (going.balance) return E.left(usage(`balanceClasses: synthetic samples have no classes; ${BALANCE_NEEDS}`))
    const samples = going.samples ?? graph.values.find((v) => v.role === 'input')!.shape[0]! * (going.share?.of ?? 1)
    const content = `synthetic, ${samples} samples`
    return E.right({ source: { kind: 'synthetic', samples }, samples, content, place: content, described: {}, notes: [] })
  }
  const data = typeof given === 'string' ? dataAt(given) : given
  const { set } = data
  const isOwn = set.kind === 'own' || set.kind === 'stream'
  if (going.balance && (isOwn || (set.kind === 'files' && areImages(set))))
    return E.left(
      usage(
        `balanceClasses: ${isOwn ? 'the classes of a source' : 'the classes of arrays with fit or augment'} are not known in advance; ${BALANCE_NEEDS}`,
      ),
    )
  if (set.kind === 'files') return openFiles(data, set, going, graph)
  return set.kind === 'images' ? openImageSet(data, set, going, graph) : openFed(data, set, going, graph)
}

// ---------------------------------------------------------------- words for a place

/** The file that a sample of the data set is in, and its number there. */
const inFiles = (list: readonly FileTensor[], sample: number): string => {
  let [at, i] = [sample, 0]
  while (at >= list[i]!.samples) at -= list[i++]!.samples
  return list[i]!.samples === 1 ? list[i]!.path : `sample ${at} of ${list[i]!.path}`
}

/** Sample b of a step, for people: where it comes from. */
export const sampleWords = (data: DataSource, value: string, batch: number, step: number, b: number): string => {
  const position = positionOf(step, batch, b)
  if (data.kind === 'synthetic') return `'${value}'`
  if (data.kind === 'fed') return `'${value}' of ${data.nameOf(position)}`
  const list = data.files.get(value)!
  const sample = data.order ? data.order.at(position).index : position % sampleCount(list)
  return `'${value}' of ${inFiles(list, sample)}`
}
