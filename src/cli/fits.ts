// `spillway fits MODEL --in SIZE`: the largest batch and image in a budget, and the changes of a step that does not fit. Out: two tables, or one JSON
// object. Invariant: nothing is measured and nothing runs; on a device of this computer the times are estimates.
import { setFlagsFromString } from 'node:v8'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as TE from 'fp-ts/TaskEither'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { showSeconds, showSize, significant } from '../report/format'
import { textTable } from '../report/texttable'
import { type Answer, type Change, type Fit, type Fits, stepAsked } from '../stage/fits'
import { fitsBeside, imagesThread } from '../stage/fitsbeside'
import { UP_TO } from '../stage/largest'
import { prepare } from '../stage/prepare'
import { checkedBudget, checkedEffort } from '../stage/stageoptions'
import { live } from './live'
import { type Done, type Output, quoted, terminalWidth } from './output'
import { namedStep, type StagingOptions, subjectOf } from './stage'

export interface FitsOptions extends Omit<StagingOptions, 'budget' | 'strategy'> {
  /** Budget in bytes. */
  readonly in?: number
  readonly upTo?: number
}

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

const changesText = ({ asked: requested, changes }: Fits, width?: number): readonly string[] => {
  if (requested.fits === 'in-core') return []
  const rows = changes.map((c) => [c.change, ...fitText(c), savedText(c.savedBytes)])
  const best = changes.find((c): c is Change => c.price !== undefined)
  return [
    '',
    ...table(['change', ...HEAD, 'in-core'], [['none', ...fitText(requested), ''], ...rows], width),
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

/**
 * Options of V8 for a process of seconds. It optimizes functions nine times later than by default, which saves a quarter of the processor time. It
 * does not forget the bytecode of functions that are idle for a while.
 */
const FOR_SECONDS = '--interrupt-budget=1200000 --no-flush-bytecode'

export const fitModel = (text: string, o: FitsOptions, out: Output): Promise<Done> => {
  setFlagsFromString(FOR_SECONDS)
  const thread = imagesThread()
  const { effort, upTo } = o
  const name = o.machine ?? 'cpu'
  return pipe(
    checkedEffort({ effort }),
    E.flatMap(() => namedStep(text, o)),
    E.bind('budgetBytes', ({ machine }) => checkedBudget(o.in ?? machine.memoryBytes)),
    E.bind('prepared', ({ named: { model }, machine, own }) => prepare(model, machine, own)),
    E.let('given', ({ prepared, budgetBytes }) => ({ ...stepAsked(prepared), budgetBytes, effort, upTo })),
    E.let('images', ({ named: { model }, own, given }) =>
      model.kind === 'step'
        ? undefined
        : thread?.ask({ ...given, net: model.net, base: model.input, own, machine: { name, options: o } }),
    ),
    E.map(({ prepared, given, images, ...step }) => ({
      images,
      asked: {
        ...given,
        subject: subjectOf(text, o, step, prepared),
        onPhase: (phase: string) => live.show(`${step.own.name}: ${phase}`),
        machineWith: (changed: MachineOptions) => machineNamed(name, { ...o, ...changed }),
      },
    })),
    TE.fromEither,
    TE.flatMap(({ asked, images }) =>
      pipe(
        () => fitsBeside(asked, images),
        TE.map((fits) => {
          const { own, machine } = asked.subject
          return out.answer(
            { model: own.name, machine: machine.name, ...fits },
            fitsText(own.name!, machine.name, fits, upTo ?? UP_TO, terminalWidth(out)),
          )
        }),
      ),
    ),
  )()
}
