// Notes on mistakes that are visible before the first step. In: the checked options, data and plan of a run. Out: notes, each with a cure.
// Invariant: a note states a fact. The run trains as asked.
import * as E from 'fp-ts/Either'
import { type Graph, readsBytes } from '../../staging/graph/graph'
import { castOps } from '../../staging/ops/cast'
import { LOSSES, type LossEntry, type LossName, lossNames } from '../../staging/ops/losses'
import { attrsListed } from '../../staging/ops/op'
import { numbersOf } from '../data/arrays'
import { namesText } from '../data/classes'
import type { LabelCounts } from '../data/counts'
import type { Data, DataSet } from '../data/data'
import { descriptionIn, IMAGENET, normalisationNote } from '../data/description'
import { dataAt } from '../data/open'
import type { OpenedData } from '../data/source'
import { commonSamples, contradiction } from '../data/twins'
import { type DataFiles, ELEMENT_BYTES, type FileTensor } from '../files/samples'
import { readRange, withFile } from '../files/whole'
import { plural, showPercent } from '../report/format'
import { ratesIn } from '../stage/identity'
import type { Length } from './length'
import type { TrainOptions } from './options'
import { openNamedWeights } from './pretrained'
import { lossFacts } from './watch'

type Note = string | undefined

// ---------------------------------------------------------------- the model

const CASTS: readonly string[] = castOps.map((d) => d.kind)
/** Last layers that a loss of scores does not expect, by their operators. */
const LAST: Readonly<Record<string, string>> = {
  softmax: 'softmax',
  sigmoid: 'sigmoid',
  relu: 'relu',
  relu6: 'relu6',
  bn_relu_apply: 'relu',
}

/** Losses of scores: they contain a softmax or a sigmoid. */
const OF_SCORES = lossNames.filter((name) => {
  const { labels, shares, logits }: LossEntry = LOSSES[name]
  return (labels ?? shares ?? logits) === true
})
const lossOf = (kind: string): LossName | undefined =>
  OF_SCORES.find((name) => {
    const { op, counted, weighed, summed }: LossEntry = LOSSES[name]
    return [op, counted, weighed, summed].includes(kind)
  })

const lastLayerNote = (graph: Graph): Note => {
  const makerOf = (value: number): Graph['ops'][number] | undefined => {
    const op = graph.ops.find((o) => o.outs.includes(value))
    return op && CASTS.includes(op.kind) ? makerOf(op.ins[0]!) : op
  }
  for (const op of graph.ops) {
    const loss = lossOf(op.kind)
    const last = loss === undefined ? undefined : LAST[makerOf(op.ins[0]!)?.kind ?? '']
    if (last === undefined) continue
    const why = last.startsWith('relu') ? 'needs scores below 0, too' : 'applies its own softmax or sigmoid'
    return `the model ends with ${last}, but the loss ${loss} ${why}: remove the last layer`
  }
  return undefined
}

const rateNote = (graph: Graph): Note => {
  const rates = ratesIn(graph)
  return rates.length > 0 && rates.every((r) => r === 0)
    ? 'the learning rate is 0, so no weight changes: set one above 0, e.g. --lr 0.001 (lr: 0.001)'
    : undefined
}

// ---------------------------------------------------------------- labels

/** From this ratio on, answering only the largest of two classes is right for nine samples of ten. */
const UNBALANCED = 10
/** Longer lists of weights are no help. */
const MOST_WEIGHTS = 10

const nameIn = ({ names }: LabelCounts, label: number): string => names?.[label] ?? `${label}`

/** A loss of scores, and the number of scores. */
interface Scores {
  readonly name: LossName
  readonly classes: number
}
const scoresIn = (graph: Graph): Scores | undefined =>
  graph.ops.flatMap((o): readonly Scores[] => {
    const name = lossOf(o.kind)
    return name === undefined ? [] : [{ name, classes: graph.values[o.ins[0]!]!.shape[1]! }]
  })[0]

const isWeighted = (graph: Graph): boolean => graph.ops.some((o) => attrsListed('classWeight', o.attrs).length > 0)

/** Inverse frequencies, whose mean over the samples is 1; 1 for classes without samples. */
const weightsFor = ({ counts }: LabelCounts, classes: number): readonly number[] => {
  const all = [...counts.values()].reduce((n, c) => n + c, 0)
  return Array.from({ length: classes }, (_, c) => {
    const count = counts.get(c)
    return count === undefined ? 1 : Number((all / (counts.size * count)).toPrecision(2))
  })
}

/** Losses with class weights, as scripts write them. */
const WEIGHED: Partial<Readonly<Record<LossName, string>>> = { 'cross-entropy': 'crossEntropyWith', dice: 'dice' }

const balanceCure = (labels: LabelCounts, { name, classes }: Scores): string => {
  const weighed = WEIGHED[name]
  if (classes < 2) return 'use --loss focal (focal()), or more samples of the other class'
  if (weighed === undefined) return 'add samples of the small classes'
  const weights = classes <= MOST_WEIGHTS ? weightsFor(labels, classes).join(',') : '…'
  return `use --class-weights ${weights} (${weighed}({ weights: [${weights}] })), or --balance-classes (balanceClasses: true)`
}

const labelsNote = (labels: LabelCounts, graph: Graph, { balanceClasses = false }: TrainOptions): Note => {
  const { ignored } = lossFacts(graph)
  const counts = new Map([...labels.counts].filter(([label]) => label !== ignored))
  if (counts.size === 0)
    return `all labels are ${ignored}, which is ignored, so nothing is learned: check the labels, or set another ignored label (--ignore-index, ignoreIndex)`
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  const [[most, mostCount], [least, leastCount]] = [sorted[0]!, sorted.at(-1)!]
  if (counts.size === 1)
    return `all ${plural(mostCount, 'sample')} have the class ${nameIn(labels, most)}, so the model learns to answer nothing else: add samples of other classes`
  const scores = scoresIn(graph)
  if (balanceClasses || mostCount < UNBALANCED * leastCount || isWeighted(graph) || !scores) return undefined
  const all = sorted.reduce((n, [, c]) => n + c, 0)
  return (
    `class ${nameIn(labels, most)} has ${mostCount} samples, class ${nameIn(labels, least)} has ${leastCount}: ` +
    `always answering ${nameIn(labels, most)} is right for ${showPercent(mostCount / all)}; ${balanceCure({ ...labels, counts }, scores)}`
  )
}

// ---------------------------------------------------------------- numbers

const bgrNote = (set: DataSet): Note =>
  set.kind === 'images' && set.mean && set.mean.join() === [...IMAGENET.mean].reverse().join()
    ? `the mean ${set.mean.join(', ')} is in the order blue, green, red, but images are read as red, green, blue: use --mean ${IMAGENET.mean.join(',')} (mean: [${IMAGENET.mean.join(', ')}])`
    : undefined

/** A file of another program with weights for this number of classes is usually trained on ImageNet. */
const IMAGENET_CLASSES = 1000

const weightsNote = (weights: string, set: DataSet): Note => {
  const { mean, std, kind } = set
  const file = openNamedWeights('weights', weights)
  if (E.isLeft(file)) return undefined
  const recipe = descriptionIn(file.right.metadata)
  // Numbers of another kind of data may have other units.
  if (recipe) return recipe.from === kind ? normalisationNote(set, weights, recipe) : undefined
  const isOfImageNet = [...file.right.tensors.values()].some(({ shape }) => shape.length === 1 && shape[0] === IMAGENET_CLASSES)
  return isOfImageNet && kind === 'images' && (mean ?? std) === undefined
    ? `${weights} does not say how its images were normalised, but weights of 1000 classes usually come from ImageNet: use --mean ${IMAGENET.mean.join(',')} --std ${IMAGENET.std.join(',')} (mean, std of folder), or --mean 0 for none`
    : undefined
}

/** Bytes of pictures have values above half of 255; other whole numbers, such as one-hot values, are small. */
const OF_BYTES = 128
const MOST_READ_BYTES = 2 ** 20

const looksLikeBytes = (file: FileTensor): boolean => {
  const bytes = file.shape.reduce((n, d) => n * d, ELEMENT_BYTES[file.type])
  const read = withFile('data', file.path, (fd) =>
    E.right(readRange(fd, file.offset, Math.min(bytes, MOST_READ_BYTES)) ?? undefined),
  )
  if (E.isLeft(read) || !read.right) return false
  const numbers = Array.from(numbersOf(file.type, read.right))
  return numbers.every((x) => Number.isInteger(x) && x >= 0 && x <= 255) && numbers.some((x) => x >= OF_BYTES)
}

/** Inputs of 0 to 255, unless the model normalises them first. */
const bytesNote = (files: DataFiles, { mean, std }: DataSet, graph: Graph): Note => {
  const input = graph.values.find((v) => v.role === 'input')!
  const isNormed = graph.ops.some((o) => o.kind === 'bn_stats' && o.ins[0] === input.id)
  if ((mean ?? std) !== undefined || readsBytes(graph) || isNormed) return undefined
  const [file] = files.get(input.name) ?? []
  if (!file || !looksLikeBytes(file)) return undefined
  const cure = file.type === 'u8' ? '--mean 0 (mean: [0]), which divides bytes by 255' : '--std 255 (std: [255])'
  return `the inputs in ${file.path} are whole numbers up to 255, and nothing scales them: use ${cure}, or start the model with fromBytes`
}

// ---------------------------------------------------------------- data

const lengthNotes = (
  { steps }: Length,
  batch: number,
  samples: number | undefined,
  { epochs }: TrainOptions,
): readonly Note[] => {
  if (samples === undefined) return []
  const seen = steps * batch
  return [
    batch > samples
      ? `a step takes ${batch} samples, but the data have ${samples}, so a step repeats samples: use --batch ${samples} or less (the first number of the input shape)`
      : undefined,
    epochs === undefined && steps > 1 && seen < samples
      ? `the run takes ${seen} of ${samples} samples: --epochs 1 instead of --steps (epochs: 1) takes all of them once`
      : undefined,
  ]
}

const asData = (given: string | Data): Data => (typeof given === 'string' ? dataAt(given) : given)

const overlapNote = (used: Data, held: Data, graph: Graph): Note => {
  const { count, of, example } = commonSamples(held, used, graph)
  if (count === 0) return undefined
  const which = count === of ? 'all evaluated samples' : `${count} of ${of} evaluated samples`
  const such = example && example[0] !== example[1] ? `, e.g. ${example[0]} is ${example[1]}` : ''
  return `${which} are training data${such}: metrics of known samples are too good; use other samples, in scripts e.g. split(data, 0.8)`
}

const contradictionNote = (data: Data): Note => {
  const found = contradiction(data)
  return found && `${namesText(found)} are the same image with different labels: remove the wrong one`
}

/** A checked run. */
export interface Advised {
  readonly graph: Graph
  readonly options: TrainOptions
  readonly data: OpenedData
  readonly length: Length
  readonly batch: number
}

/** Notes about the data of a run. */
const dataNotes = (given: string | Data, { graph, options: o, data: opened, length, batch }: Advised): readonly Note[] => {
  const data = asData(given)
  const { source, labels, samples } = opened
  return [
    ...lengthNotes(length, batch, samples, o),
    labels && labelsNote(labels, graph, o),
    bgrNote(data.set),
    o.weights === undefined || o.resume || readsBytes(graph) ? undefined : weightsNote(o.weights, data.set),
    source.kind === 'files' ? bytesNote(source.files, data.set, graph) : undefined,
    contradictionNote(data),
    o.evaluate && overlapNote(data, asData(o.evaluate.data), graph),
  ]
}

/** Notes on mistakes that are visible before the first step. */
export const adviceFor = (run: Advised): readonly string[] =>
  [
    rateNote(run.graph),
    lastLayerNote(run.graph),
    ...(run.options.data === undefined ? [] : dataNotes(run.options.data, run)),
  ].flatMap((text) => text ?? [])
