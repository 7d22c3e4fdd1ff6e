// `spillway lr-find MODEL`: the options of `train`, and a range of rates. Out: a table of rates and losses with a suggestion, one JSON object, or a
// file of all rates. Invariant: no weights and no folder of a run are written; options of `train` that write or measure have no effect.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { TaskEither } from 'fp-ts/TaskEither'
import { withSlides } from './data'
import { type SpillwayError, usage } from '../errors/errors'
import { checkedPlaces, writing } from '../files/places'
import { rowText } from '../files/rows'
import { writeWholeText } from '../files/whole'
import { engineFor } from '../ranks/engine'
import { textTable } from '../report/texttable'
import { findRateWith, type FoundRate, type TriedRate } from '../train/findrate'
import type { TrainOptions } from '../train/options'
import { lossText, rateText } from '../train/progress'
import { interrupts } from './interrupts'
import { readingModel } from './modelreads'
import type { Done, Output } from './output'
import { Sparkline } from './progress'
import { searching } from './trial'
import { prepared } from './trainprepared'
import type { TrainCommandOptions } from './trainoptions'
import { withClasses, withSets } from './train'

export interface LrFindOptions extends TrainCommandOptions {
  readonly rates?: number
  readonly from?: number
  readonly to?: number
  readonly out?: string
}

const isTable = (out: string): boolean => extname(out) === '.csv'

const tableText = (tried: readonly TriedRate[]): string =>
  [rowText(['step', 'lr', 'loss', 'smoothed']), ...tried.map((t) => rowText([t.step, t.lr, t.loss, t.smoothed]))].join('')

/** The most rows on a terminal. */
const ROWS = 20

const resultText = ({ suggested, tried, diverged }: FoundRate): string => {
  const every = Math.max(1, Math.ceil(tried.length / ROWS))
  const rows = tried
    .filter((t, i) => i % every === 0 || i === tried.length - 1 || t.lr === suggested)
    .map((t) => [rateText(t.lr), lossText(t.loss), lossText(t.smoothed), t.lr === suggested ? 'steepest fall' : ''])
  const { lines } = textTable(
    [{ head: 'rate', right: true }, { head: 'loss', right: true }, { head: 'smoothed', right: true }, { head: '' }],
    rows,
  )
  const sparks = new Sparkline()
  for (const { smoothed } of tried) sparks.add(smoothed)
  return [
    ...lines.map((line) => line.trimEnd()),
    '',
    `smoothed   ${sparks.text().trimEnd()}`,
    ...(diverged ? [`the loss diverged at the rate ${rateText(tried.at(-1)!.lr)}: larger rates were not tried`] : []),
    suggested === undefined
      ? 'no suggestion: the loss does not fall at any of these rates'
      : `suggested  ${rateText(suggested)}, where the loss falls fastest: --lr ${rateText(suggested)}`,
  ].join('\n')
}

const oneProcess = (o: LrFindOptions): Either<SpillwayError, void> =>
  pipe(
    engineFor(o, process.env),
    E.filterOrElse(
      (engine) => engine === undefined,
      () => usage('lr-find searches in one process: leave --engine, --ranks and mpirun out'),
    ),
    E.asUnit,
  )

const found = (model: string, o: LrFindOptions, out: Output): TaskEither<SpillwayError, FoundRate> => {
  const training = withClasses(model, withSets(searching(o)))
  const interrupt = interrupts(() => out.say('\ninterrupted: stopping after this step; interrupt again to stop at once'))
  return pipe(
    TE.fromIOEither(() =>
      pipe(
        oneProcess(o),
        E.flatMap(() =>
          checkedPlaces(readingModel(model), writing('--out', o.out && isTable(o.out) ? 'rateTable' : 'rates', o.out)),
        ),
        E.flatMap(() => prepared(model, training)),
      ),
    ),
    TE.flatMap(({ named, staged, options }) => () => {
      const { data, weights, weightsSkip, weightsStrip, strictData, shuffle, balanceClasses, workers, samples, seed } = options
      const { spill, threads, throttle, hostMemory }: TrainOptions = options
      return findRateWith(named.model, staged, {
        ...{ data, weights, weightsSkip, weightsStrip, strictData, shuffle, balanceClasses, workers, samples, seed },
        ...{ spill, threads, throttle, hostMemory, rates: o.rates, from: o.from, to: o.to },
        signal: interrupt.signal,
        onNote: (text) => void process.stderr.write(`note: ${text}\n`),
      })
    }),
    TE.mapLeft((e): SpillwayError => (e.tag === 'Cancelled' ? { ...e, signal: interrupt.name() } : e)),
    (task) => async () => {
      const answer = await task()
      interrupt.forget()
      return answer
    },
  )
}

export const findTheRate = (model: string, o: LrFindOptions, out: Output): Promise<Done> =>
  pipe(
    withSlides(o, out.say),
    TE.flatMap((asked) => found(model, asked, out)),
    TE.tap((r) =>
      TE.fromEither(
        o.out === undefined
          ? E.right(undefined)
          : E.asUnit(writeWholeText(o.out, isTable(o.out) ? tableText(r.tried) : `${JSON.stringify(r, null, 2)}\n`)),
      ),
    ),
    TE.map((r) => out.answer(r, resultText(r))),
  )()
