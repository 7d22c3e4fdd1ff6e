// The options of `spillway train` as those of a run. In: flags. Out: the options of `train`, with data and evaluation.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type DeviceName, DEVICES, isDevice } from '../../staging/devices'
import type { Graph } from '../../staging/graph/graph'
import { type Augment, type AugmentWord, USUAL_JITTER } from '../data/augment'
import type { Data } from '../data/data'
import type { Origin } from '../data/description'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import type { MetricName } from '../predict/metricnames'
import { validation } from '../predict/validation'
import type { EngineName } from '../ranks/engine'
import { showSeconds } from '../report/format'
import { filesOf } from '../train/beforehand'
import { checkedOptions, TRAIN, type TrainOptions } from '../train/options'
import { type DataFlags, dataNamed, saysHow } from './data'
import { lossFlags } from './own'
import type { StagedModel, StagingOptions } from './stage'

export interface TrainCommandOptions extends StagingOptions, DataFlags, Omit<TrainOptions, 'evaluate' | 'keep' | 'save'> {
  /** False: no weights are kept, and the run has no folder. */
  readonly save?: string | false
  readonly evaluate?: string
  /** True: one step, and one batch of the evaluation. */
  readonly trial?: boolean
  /** Number of steps on one batch. */
  readonly overfit?: number
  /** True if --data chose the data of evaluations: a step then trains without them. */
  readonly evaluatesSets?: boolean
  readonly evaluateEvery?: number
  readonly evaluateImages?: string
  readonly metrics?: readonly MetricName[]
  readonly keepBest?: string
  readonly keepLast?: number
  readonly augment?: readonly AugmentWord[]
  readonly device?: string
  /** Seconds. */
  readonly timeLimit?: number
  /** True if evaluations measure the average of the weights. */
  readonly evaluateAverage?: boolean
  readonly engine?: EngineName
}

const DEFAULT_STEPS = 10

const LONGEST_TIMER_MS = 2 ** 31 - 1

/** The options of `train`, among all flags. */
const trainOptions = (o: TrainOptions): TrainOptions =>
  Object.fromEntries(TRAIN.keys.map((key) => [key, o[key]])) as unknown as TrainOptions

/** The end of a run that is to go on later: a time limit, counted from the process's start, and SIGUSR1. */
const stopping = ({ timeLimit, checkpointDir }: TrainCommandOptions): Pick<TrainOptions, 'stop'> => {
  if (checkpointDir === undefined) return {}
  const controller = new AbortController()
  process.once('SIGUSR1', () => controller.abort('SIGUSR1'))
  if (timeLimit !== undefined) {
    const left = Math.min(Math.max(timeLimit * 1000 - performance.now(), 0), LONGEST_TIMER_MS)
    setTimeout(() => controller.abort(`the time limit of ${showSeconds(timeLimit)}`), left).unref()
  }
  return { stop: controller.signal }
}

export const deviceOf = (o: TrainCommandOptions): Either<SpillwayError, DeviceName> => {
  const device = o.device ?? o.machine ?? 'cpu'
  if (o.device !== undefined && o.machine !== undefined && o.device !== o.machine)
    return E.left(usage('--device and --machine name different machines: use one of them'))
  return isDevice(device) ? E.right(device) : E.left(unknownName('device', device, DEVICES))
}

export const resumed = ({ resume, checkpointDir }: TrainCommandOptions): Pick<StagingOptions, 'resumes'> =>
  resume && checkpointDir !== undefined ? { resumes: checkpointDir } : {}

/** The meaning of each word of --augment. */
const MEANT: Required<Augment> = {
  flip: 'horizontal',
  turns: true,
  crop: true,
  elastic: true,
  randAugment: true,
  jitter: true,
  blur: true,
  cutout: true,
  mixup: true,
  cutmix: true,
}

/** Turns hues by at most a tenth of the colour circle. */
const HUE = 0.1

/** The augmentation of all words; `hue` is a part of jitter. */
const meaningOf = (words: readonly AugmentWord[]): Augment => ({
  ...Object.fromEntries(words.flatMap((word) => (word === 'hue' ? [] : [[word, MEANT[word]]]))),
  ...(words.includes('hue') ? { jitter: { ...(words.includes('jitter') ? USUAL_JITTER : {}), hue: HUE } } : {}),
})

/** Images have settings of their own. */
const dataOf = ({ data, augment, ...o }: TrainCommandOptions): Either<SpillwayError, Pick<TrainOptions, 'data'>> => {
  if (!saysHow(o) && augment === undefined) return E.right(data === undefined ? {} : { data })
  if (typeof data !== 'string')
    return E.left(
      usage(
        o.layout
          ? '--layout applies to arrays: add --data'
          : (o.fit ?? o.images ?? augment) === undefined
            ? '--mean, --std and --depth apply to data: add --data'
            : '--fit, --augment and --images apply to images: add --data',
      ),
    )
  const meant = augment && meaningOf(augment)
  return pipe(
    dataNamed(data, o, meant),
    E.map((named) => ({ data: named })),
  )
}

/** The images of --evaluate are in --evaluate-images, or with those of --data. Slides are read as those of --data. */
const evaluationFlags = (o: TrainCommandOptions): DataFlags => {
  const { fit, layout, mean, std, depth, images, evaluate = '', evaluateImages, skipDamaged, damaged, faults } = o
  const { level, microns, tileSize, tissue, blocks, canvas, bags, found } = o
  const folder = evaluateImages ?? (/\.json$/i.test(evaluate) ? images : undefined)
  const slides = { level, microns, tileSize, tissue, blocks, canvas, bags, found }
  return { fit, layout, mean, std, depth, images: folder, skipDamaged, damaged, faults, ...slides }
}

/** The evaluations between steps, and their kept weights. */
const measuring = (
  o: TrainCommandOptions,
): Either<SpillwayError, { readonly evaluate: TrainOptions['evaluate']; readonly keep: TrainOptions['keep'] }> => {
  const { evaluate, evaluateEvery: every, metrics, evaluateAverage, keepBest: best, keepLast: last } = o
  if (evaluate === undefined && (every ?? metrics ?? evaluateAverage) !== undefined)
    return E.left(usage('--evaluate-every, --evaluate-average and --metrics need --evaluate DATA'))
  if (evaluateAverage && o.average === undefined && o.plan === undefined)
    return E.left(usage('--evaluate-average needs --average, e.g. --average 0.999'))
  const named: Either<SpillwayError, string | Data | undefined> =
    evaluate === undefined ? E.right(undefined) : dataNamed(evaluate, evaluationFlags(o))
  return pipe(
    named,
    E.map((data) => ({
      evaluate:
        data === undefined ? undefined : validation({ data, metrics, every, weights: evaluateAverage ? 'average' : 'latest' }),
      keep: best === undefined && last === undefined ? undefined : { best, last },
    })),
  )
}

/** Data, those of evaluations too, and weights are of the model's shapes. */
export const fitting =
  ({ evaluate, ...o }: TrainCommandOptions, options: TrainOptions) =>
  (graph: Graph): Either<SpillwayError, void> =>
    pipe(
      filesOf(options)(graph),
      E.flatMap((classes) =>
        evaluate === undefined
          ? E.right(undefined)
          : pipe(
              dataNamed(evaluate, evaluationFlags({ ...o, evaluate })),
              E.flatMap((data) => E.asUnit(filesOf({ data, classes, strictData: o.strictData })(graph))),
            ),
      ),
    )

/** The file of --save; undefined without it, and for --no-save. */
export const saveOf = ({ save }: TrainCommandOptions): string | undefined => (save === false ? undefined : save)

/** The options of the run itself, from flags. */
export const optionsOf = (o: TrainCommandOptions): Either<SpillwayError, TrainOptions> =>
  pipe(
    dataOf(o),
    E.bindTo('data'),
    E.bind('measuring', () => measuring(o)),
    E.flatMap(({ data, measuring }) =>
      checkedOptions(
        trainOptions({
          ...o,
          ...data,
          ...measuring,
          save: saveOf(o),
          ...((o.steps ?? o.epochs) === undefined ? { steps: DEFAULT_STEPS } : {}),
          ...stopping(o),
        }),
      ),
    ),
  )

/** Names of the model and its loss, for the recipe of the weights. */
export const originOf = ({ source }: StagedModel['named'], o: TrainCommandOptions): Origin => {
  const loss = lossFlags(o)
  return {
    ...('family' in source ? { zoo: o.classes === undefined ? {} : { classes: o.classes } } : {}),
    ...(loss ? { loss } : {}),
  }
}

/** The name of a run without --run: that of the model, which may be any file name. */
export const runName = (model: string): string => model.replace(/^[.-]+/, '') || 'run'
