// Short runs that keep no files: `train --trial`, one step and one batch of the evaluation, and `train --overfit N`, N steps on one batch. In: the
// options of a whole run. Out: those of the short one; a sentence about the losses. Invariant: options of the whole run that name files or its
// length have no effect, so that a user only adds the flag.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Graph } from '../../staging/graph/graph'
import { type Data, files, folder, pick } from '../data/data'
import { holdsArrays } from '../data/images'
import { type SpillwayError, usage } from '../errors/errors'
import { batchOf, dataOf } from '../train/beforehand'
import { lossText } from '../train/progress'

/** Options of a short run. */
interface Short {
  /** True: one step, and one batch of the evaluation. */
  readonly trial?: boolean
  /** Number of steps on one batch. */
  readonly overfit?: number
}

/** Options for the length and the files of a run. */
const OF_WHOLE_RUNS: readonly string[] = [
  ...['steps', 'epochs', 'patience', 'timeLimit', 'checkpointDir', 'checkpointEvery', 'keepBest', 'keepLast', 'saveBest'],
  ...['resume', 'resumeRanks', 'run', 'log', 'tensorboard', 'report', 'trace'],
]
const OF_EVALUATIONS: readonly string[] = [
  ...['evaluate', 'evaluateEvery', 'evaluateImages', 'evaluateAverage', 'evaluatesSets', 'metrics'],
]

const without = <O extends object>(o: O, keys: readonly string[]): O =>
  ({ ...Object.fromEntries(Object.entries(o).filter(([key]) => !keys.includes(key))), save: false }) as unknown as O

/** Without files, and without evaluations: the options of a search. */
export const searching = <O extends object>(o: O): O =>
  without(o, [...OF_WHOLE_RUNS, ...OF_EVALUATIONS, 'schedule', 'warmup', 'onNonfinite'])

/** The options of a trial or of an overfit; others stay. */
export const shortened = <O extends Short>(o: O): Either<SpillwayError, O> => {
  if (o.trial && o.overfit !== undefined) return E.left(usage('--trial and --overfit exclude each other: give one of them'))
  if (o.trial) return E.right({ ...without(o, OF_WHOLE_RUNS), steps: 1 })
  return o.overfit === undefined
    ? E.right(o)
    : E.right({
        ...without(o, [...OF_WHOLE_RUNS, ...OF_EVALUATIONS, 'augment', 'balanceClasses']),
        steps: o.overfit,
        shuffle: false,
      })
}

/** One batch of the data, evenly chosen, so that a batch of sorted data has several classes. A stream stays as it is. */
export const oneBatch = (graph: Graph, data: string | Data): Either<SpillwayError, string | Data> =>
  pipe(
    dataOf(graph, { data }, false),
    E.map(({ samples }) => {
      if (samples === undefined) return data
      const few = Math.min(batchOf(graph), samples)
      const whole = typeof data !== 'string' ? data : holdsArrays(data) ? files(data) : folder(data)
      return pick(
        whole,
        Array.from({ length: few }, (_, i) => Math.floor((i * samples) / few)),
      )
    }),
  )

/** A last loss below this share of the first is near zero. */
const NEAR_ZERO = 0.05

/** The sentence about the losses of an overfit. */
export const overfitText = (losses: readonly number[]): string => {
  const [first = Number.NaN, last = Number.NaN] = [losses[0], losses.at(-1)]
  const from = `the loss of one batch went from ${lossText(first)} to ${lossText(last)} in ${losses.length} steps`
  return Math.abs(last) < NEAR_ZERO * Math.abs(first)
    ? `  overfit    ${from}: the network learns it`
    : `  overfit    ${from}: it is not near zero. Try more steps and another rate (lr-find), without dropout and label smoothing; else check labels, frozen layers and the loss`
}
