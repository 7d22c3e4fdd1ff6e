// `spillway fits MODEL --in SIZE`: the largest batch and image in a budget, and the changes of a step that does not fit. Out: two tables, or one JSON
// object. Invariant: nothing is measured and nothing runs; on a device of this computer the times are estimates.
import { setFlagsFromString } from 'node:v8'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import { updatesOf } from '../../staging/ops/updates'
import type { SpillwayError } from '../errors/errors'
import { machineNamed } from '../machine/machine'
import { showSeconds, showSize, significant } from '../report/format'
import { textTable } from '../report/texttable'
import type { Answer, Change, Fit, Fits, FitsAsked } from '../stage/fits'
import { fitsBeside } from '../stage/fitsbeside'
import { type Subject, UP_TO } from '../stage/largest'
import { checkedBudget, checkedEffort } from '../stage/stage'
import { live } from './live'
import { modelNamed } from './model'
import { flagOf, overrideOf } from './options'
import { type Done, type Output, quoted, terminalWidth } from './output'
import { lossOf, OWN_OPTIONS, optimizerOf } from './own'
import { prepareNamed, type StagingOptions } from './stage'

export interface FitsOptions extends Omit<StagingOptions, 'budget' | 'strategy'> {
  /** Budget in bytes. */
  readonly in?: number
  readonly upTo?: number
}

/** The model at any size, with the loss and the optimizer of the command line. */
const subjectOf = (text: string, o: FitsOptions): Either<SpillwayError, Pick<FitsAsked, 'subject' | 'prepared'>> =>
  pipe(
    prepareNamed(text, o),
    E.bindTo('first'),
    E.bind('loss', ({ first }) => lossOf(o, first.named.loss)),
    E.bind('optimizer', () => optimizerOf(o)),
    E.map(({ first: { named, prepared }, loss, optimizer }) => ({
      prepared,
      subject: {
        at: ([batch, , height, width]) =>
          pipe(
            modelNamed(text, { ...overrideOf({ classes: o.classes }), batch, height, width }),
            E.map(({ model }) => model),
          ),
        base: prepared.graph.values.find((v) => v.role === 'input')!.shape as Subject['base'],
        own: {
          loss,
          optimizer,
          ...updatesOf(o),
          name: named.name,
          beside: OWN_OPTIONS.filter((k) => o[k] !== undefined).map(flagOf),
        },
        machine: prepared.machine,
      },
    })),
  )

// ---------------------------------------------------------------- the text

const imageText = ([, , h, w]: readonly number[]): string => (h === w ? `${h}` : `${h}x${w}`)
const sizesText = (input: readonly number[]): string => `batch ${input[0]}, image ${imageText(input)}`

const fitText = ({ fits, price, inCoreBytes }: Fit): readonly string[] =>
  price === undefined
    ? ['no', showSize(inCoreBytes), '-', '-']
    : [fits, showSize(price.peakBytes), showSeconds(price.seconds), significant(price.imagesPerSecond, 3)]

const answerRow = ({ growing, of, largest }: Answer): readonly string[] => {
  const how = of === 'in-core' ? 'in-core' : 'planned'
  if (!largest) return [`no ${growing}`, how, '-', '-', '-']
  const { input, next, peakBytes, seconds, imagesPerSecond } = largest
  const size = growing === 'batch' ? `${input[0]}` : imageText(input)
  return [
    `${growing} ${next ? '' : '≥ '}${size}`,
    how,
    showSize(peakBytes),
    showSeconds(seconds),
    significant(imagesPerSecond, 3),
  ]
}

const HEAD = ['fits', 'memory', 'step', 'images/s']

/** Numbers stand right. A narrow terminal loses the last columns; the first two stay. */
const table = (heads: readonly string[], rows: readonly (readonly string[])[], width?: number): readonly string[] => {
  const columns = heads.map((head, i) => ({
    head,
    ...(i > 0 ? { right: true as const } : {}),
    ...(i > 1 ? { drop: heads.length - i } : {}),
  }))
  return textTable(columns, rows, width).lines
}

const verdict = ({ asked: { fits, inCoreBytes, input, smallestBytes }, budgetBytes }: Fits): readonly string[] => {
  const answer = { 'in-core': 'fits', planned: 'fits with a plan', no: 'does not fit' }[fits]
  const excess = fits === 'in-core' ? '' : `, ${showSize(inCoreBytes - budgetBytes)} more than the budget`
  return [
    `${sizesText(input)} ${answer}`,
    `it needs ${showSize(inCoreBytes)} in-core${excess}`,
    ...(smallestBytes === undefined ? [] : [`the smallest budget that works is ${showSize(smallestBytes)}`]),
  ]
}

/** In-core bytes saved by a change. */
const savedText = (bytes: number): string => (bytes === 0 ? '' : `${bytes < 0 ? '+' : '−'}${showSize(Math.abs(bytes))}`)

const changesText = ({ asked, changes }: Fits, width?: number): readonly string[] => {
  if (asked.fits === 'in-core') return []
  const rows = changes.map((c) => [c.change, ...fitText(c), savedText(c.savedBytes)])
  const best = changes.find((c): c is Change => c.price !== undefined)
  return [
    '',
    ...table(['change', ...HEAD, 'in-core'], [['none', ...fitText(asked), ''], ...rows], width),
    ...(best ? ['', 'fastest change that fits:', best.flags.map(quoted).join(' ')] : []),
  ]
}

export const fitsText = (name: string, machine: string, fits: Fits, upTo: number, width?: number): string => {
  const ends = fits.largest.some(({ largest }) => largest && !largest.next)
  return [
    `${name} in ${showSize(fits.budgetBytes)} on ${machine}`,
    ...verdict(fits),
    '',
    ...table(['largest', ...HEAD], fits.largest.map(answerRow), width),
    ...(ends ? [`≥: the search ends at ${upTo} × in-core (see --up-to)`] : []),
    ...changesText(fits, width),
  ].join('\n')
}

/** In a process of seconds, V8 optimizes functions that end soon: nine times later than by default saves a quarter of the processor time. */
const OPTIMIZE_LATER = '--interrupt-budget=600000'

export const fitModel = (text: string, o: FitsOptions, out: Output): Promise<Done> => {
  setFlagsFromString(OPTIMIZE_LATER)
  const name = o.machine ?? 'cpu'
  return pipe(
    checkedEffort({ effort: o.effort }),
    E.flatMap(() => subjectOf(text, o)),
    E.bind('budgetBytes', ({ subject }) => checkedBudget(o.in ?? subject.machine.memoryBytes)),
    E.map(
      ({ subject, prepared, budgetBytes }): FitsAsked => ({
        subject,
        prepared,
        budgetBytes,
        effort: o.effort,
        upTo: o.upTo,
        onPhase: (phase) => live.show(`${subject.own.name}: ${phase}`),
        machineWith: (changed) => machineNamed(name, { ...o, ...changed }),
      }),
    ),
    TE.fromEither,
    TE.flatMap((asked) =>
      pipe(
        () => fitsBeside(asked, name, o),
        TE.map((fits) => {
          const { own, machine } = asked.subject
          return out.answer(
            { model: own.name, machine: machine.name, ...fits },
            fitsText(own.name!, machine.name, fits, o.upTo ?? UP_TO, terminalWidth(out)),
          )
        }),
      ),
    ),
  )()
}
