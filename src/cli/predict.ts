// `spillway predict MODEL`: stage the forward pass for the images' size and run it. Out: the plan's summary, progress, what was written.
// Invariant: what can be known before planning is: weights, data and their size, and that outputs have a place.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import type { Form, Model } from '../../dsl'
import type { DeviceName } from '../../staging/devices'
import type { Data } from '../data/data'
import { holdsPictures } from '../data/images'
import { type SpillwayError, usage } from '../errors/errors'
import { filePlace } from '../files/places'
import { imageSize } from '../files/samples'
import { writeWholeText } from '../files/whole'
import type { TierOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { outPlace, pictureSize, type Predicted, predictTask } from '../predict/predictor'
import type { PredictOptions } from '../predict/options'
import { startedBy } from '../ranks/engine'
import { showSeconds, showShape, showSize } from '../report/format'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { preparePrediction } from '../stage/prepare'
import { type Staged, type StageOptions, stagePrepared } from '../stage/stage'
import { filesOf } from '../train/beforehand'
import { type LoadingOptions, loadingOf } from '../train/loading'
import { type DataFlags, dataNamed } from './data'
import { interrupts } from './interrupts'
import { modelNamed } from './model'
import { type InputOptions, overrideOf } from './options'
import type { Done, Output } from './output'

export interface PredictCommandOptions
  extends InputOptions,
    DataFlags,
    Pick<StageOptions, 'budget' | 'strategy' | 'algorithms' | 'precision' | 'measure' | keyof TierOptions>,
    Partial<Pick<PredictOptions, 'weights' | 'weightsSkip' | 'weightsStrip' | 'out' | 'threads' | 'format' | 'workers'>> {
  readonly data?: string
  readonly as?: Form
  readonly device?: DeviceName
  readonly report?: string
}

type Given = Pick<PredictOptions, 'weights' | 'data' | 'format' | 'workers' | keyof LoadingOptions> & { out: string }

const given = (o: PredictCommandOptions): Either<SpillwayError, Given> => {
  const { weights, data, out, format, workers, as } = o
  if (format === 'png' && as !== 'classes') return E.left(usage('--format png is of classes: give --as classes'))
  const missing = Object.entries({ weights, data, out }).flatMap(([k, v]) => (v === undefined ? [`--${k}`] : []))
  return weights === undefined || data === undefined || out === undefined
    ? E.left(usage(`predict needs ${missing.join(', ')}: spillway predict MODEL --weights W.safetensors --data IMAGES --out OUT`))
    : E.map((named: string | Data) => ({ weights, ...loadingOf(o), data: named, out, format, workers }))(dataNamed(data, o))
}

/** The size that is asked for, else that of the first image; images that are resized take the model's. */
const inputFor = (o: PredictCommandOptions, data: string): TaskEither<SpillwayError, InputOptions> =>
  o.image || o.fit
    ? TE.right(o)
    : pipe(
        holdsPictures(data) ? pictureSize(data) : TE.fromEither(imageSize(data, o.layout === 'nhwc' ? 'NHWC' : 'NCHW')),
        TE.map((image) => ({ ...o, image })),
      )

const MOST_CLASSES = 12
/** How many images are of which class, most first. */
const labelsText = ({ labels = [] }: Predicted): readonly string[] => {
  const counts = new Map<string, number>()
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1)
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  const shown = sorted.slice(0, MOST_CLASSES).map(([name, n]) => `${n} ${name}`)
  return shown.length === 0
    ? []
    : [`  classes    ${shown.join(', ')}${sorted.length > MOST_CLASSES ? ', …' : ''}; each in --json`]
}

const resultText = (r: Predicted, out: string): string =>
  [
    `predicted ${r.images} image${r.images === 1 ? '' : 's'} with ${r.model}: ${showShape(r.shape)} each, in ${out}`,
    ...labelsText(r),
    `  time       ${showSeconds(r.secondsPerStep)} a batch, predicted ${showSeconds(r.predictedSecondsPerStep)}`,
    `  memory     ${showSize(r.arenaPeakBytes)} on the device of a budget of ${showSize(r.budgetBytes)}; the process ${showSize(r.processPeakBytes)}`,
    `  swaps      out ${showSize(r.bytesOut)}, in ${showSize(r.bytesIn)}${r.diskBytes ? `; ${showSize(r.diskBytes)} on disk` : ''}`,
  ].join('\n')

const stagedFor = (
  model: string,
  o: PredictCommandOptions,
  options: Given,
): TaskEither<SpillwayError, { readonly model: Model; readonly staged: Staged }> =>
  pipe(
    TE.fromIOEither(() =>
      pipe(
        outPlace(options.out),
        E.flatMap(() => filePlace('report', o.report)),
      ),
    ),
    TE.flatMap(() => inputFor(o, o.data!)),
    TE.flatMapEither((input) => stagedAt(input, model, o, options)),
  )

const stagedAt = (
  input: InputOptions,
  model: string,
  o: PredictCommandOptions,
  options: Given,
): Either<SpillwayError, { readonly model: Model; readonly staged: Staged }> =>
  pipe(
    E.Do,
    E.flatMap(() => modelNamed(model, { batch: 1, ...overrideOf(input), mode: 'predict' })),
    E.bindTo('named'),
    E.bind('machine', () => machineNamed(o.device ?? 'cpu', o)),
    E.flatMap(({ named, machine }) => preparePrediction(named.model, machine, { as: o.as, name: named.name })),
    // Images are looked at by whoever reads them.
    E.tap(({ graph }) => filesOf(holdsPictures(o.data!) ? { weights: options.weights, ...loadingOf(options) } : options)(graph)),
    E.flatMap((prepared) =>
      pipe(
        stagePrepared(prepared, o),
        E.map((staged) => ({ model: prepared.model as Model, staged })),
      ),
    ),
  )

/** Each of several would predict all images, and write the same files at once. */
const startedAlone = (): Either<SpillwayError, void> => {
  const started = startedBy(process.env)
  return started && started.ranks > 1
    ? E.left(
        usage(
          `predict is of one process, and ${started.by} has started ${started.ranks}: start it once, or once for each part of the images`,
        ),
      )
    : E.right(undefined)
}

export const predictModel = (model: string, o: PredictCommandOptions, out: Output): Promise<Done> =>
  pipe(
    TE.fromEither(E.flatMap(() => given(o))(startedAlone())),
    TE.bindTo('options'),
    TE.bind('found', ({ options }) => stagedFor(model, o, options)),
    TE.tap(({ found: { staged } }) => {
      out.say(summary(staged.plan, staged.timeline, staged.staging))
      const { plan, timeline, staging } = staged
      return TE.fromEither(
        o.report === undefined ? E.right(undefined) : E.asUnit(writeWholeText(o.report, reportHtml(plan, timeline, staging))),
      )
    }),
    TE.flatMap(({ options, found }) => {
      const interrupt = interrupts(() => out.say('\ninterrupted: ending this batch; once more ends the process at once'))
      return pipe(
        predictTask(found.model, found.staged, {
          ...options,
          ...(o.threads === undefined ? {} : { threads: o.threads }),
          ...(o.spill === undefined ? {} : { spill: o.spill }),
          ...(o.hostMemory === undefined ? {} : { hostMemory: o.hostMemory }),
          signal: interrupt.signal,
          onProgress: (done, images) => out.say(`${done} of ${images}`),
          onNote: (text) => process.stderr.write(`note: ${text}\n`),
        }),
        TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: interrupt.name() } : e)),
        TE.map((r) => {
          interrupt.forget()
          const { outputs: _, ...rest } = r
          return out.answer(rest, resultText(r, options.out))
        }),
      )
    }),
  )()
