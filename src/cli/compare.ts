// `spillway compare MODEL`: every strategy over a sweep of budgets, from the smallest that any can work with to in-core. Out: a table, or JSON: for
// each case the figures of `plan`, or that no plan fits.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { strategies } from '../../staging/planner/strategies'
import { unknownName } from '../errors/errors'
import { checkedPlaces, writing } from '../files/places'
import { writeWholeText } from '../files/whole'
import { showPercent, showSeconds, showSize } from '../report/format'
import { comparisonCsv } from './compare/csv'
import { comparisonPlot } from './compare/plot'
import { leastSeconds } from '../stage/least'
import { type Case, compareGraph, type FeasibleCase, type InfeasibleCase } from '../stage/sweep'
import { live } from './live'
import { readingModel } from './modelreads'
import { knownAllocator } from './options'
import { type Done, type Output, terminalWidth } from './output'
import { planShown } from './phases'
import { prepareNamed, type StagingOptions } from './stage'

export interface CompareOptions extends StagingOptions {
  readonly strategies?: readonly string[]
  /** How many, or these, in bytes. */
  readonly budgets?: number | readonly number[]
  readonly allocators?: readonly string[]
  /** The file of the plot. */
  readonly plot?: string
  /** The file of the table, as CSV. */
  readonly csv?: string
}

/** Columns of numbers in the order of the line, each with its width. A narrow terminal loses the last ones. */
const NUMBERS: readonly (readonly [head: string, width: number, of: (c: FeasibleCase) => string])[] = [
  ['peak', 11, (c) => showSize(c.peakBytes)],
  ['step', 12, (c) => showSeconds(c.makespanSeconds)],
  ['gap', 9, (c) => (c.gap === null ? '-' : `+${showPercent(c.gap)}`)],
  ['out', 12, (c) => showSize(c.bytesOut)],
  ['recompute', 12, (c) => showSeconds(c.recomputeSeconds)],
  ['planning', 12, (c) => showSeconds(c.planningSeconds)],
]
/** Columns of budget and strategy. */
const FIRST = 31

const numbersIn = (width: number): typeof NUMBERS => {
  let room = width - FIRST
  return NUMBERS.filter(([, w]) => {
    room -= w
    return room >= 0
  })
}

const lackText = ({ smallestBytes, tier }: InfeasibleCase): string => {
  if (tier) return `: needs ${showSize(tier.needsBytes)} of ${tier.of}`
  return smallestBytes !== undefined && Number.isFinite(smallestBytes) ? `: needs ${showSize(smallestBytes)}` : ''
}

/** The row of a case in a terminal of this width. */
export const rowText = (c: Case, width: number): string => {
  const head = `${showSize(c.budgetBytes).padStart(11)}  ${c.strategy.padEnd(18)}`
  if (!c.feasible) return `${head}  does not fit${lackText(c)}`
  return (
    head +
    numbersIn(width)
      .map(([, w, of]) => of(c).padStart(w))
      .join('') +
    (c.meanUnusable === undefined ? '' : `  ${c.allocator}, unusable free space ${showPercent(c.meanUnusable)}`)
  )
}
/** The head of the table. */
export const headText = (width: number): string =>
  `${'budget'.padStart(11)}  ${'strategy'.padEnd(18)}${numbersIn(width)
    .map(([head, w]) => head.padStart(w))
    .join('')}`

const knownStrategy = E.fromPredicate(
  (name: string) => (strategies as readonly string[]).includes(name),
  (name) => unknownName('strategy', name, strategies),
)

const written = ({ plot, csv }: CompareOptions): string =>
  [...(plot === undefined ? [] : [`plot ${plot}`]), ...(csv === undefined ? [] : [`table ${csv}`])].join('\n')

export const compareModel = async (modelText: string, o: CompareOptions, out: Output): Promise<Done> => {
  const least = await leastSeconds()
  const { strategies: wanted = strategies, algorithms, allocators, budgets = 8, plot, csv } = o
  return pipe(
    checkedPlaces(readingModel(modelText), [...writing('--plot', 'plot', plot), ...writing('--csv', 'table', csv)]),
    E.flatMap(() => E.traverseArray(knownStrategy)(wanted)),
    E.flatMap(() => E.traverseArray(knownAllocator)(allocators ?? [])),
    E.flatMap(() => prepareNamed(modelText, { measure: 'first', ...o })),
    E.flatMap(({ named, prepared: { machine, graph } }) => {
      const width = terminalWidth(out) ?? Number.POSITIVE_INFINITY
      out.say(headText(width))
      const onCase = (strategy: string, bytes: number): void => live.show(`planning ${strategy} in ${showSize(bytes)}`)
      const sweep = { strategies: wanted, budgets, algorithms, allocators, least, onCase }
      const compared = planShown(named.name, () => compareGraph(graph, machine, sweep, (c) => out.say(rowText(c, width))))
      return pipe(
        plot === undefined ? E.right(undefined) : E.asUnit(writeWholeText(plot, comparisonPlot(compared))),
        E.flatMap(() => (csv === undefined ? E.right(undefined) : E.asUnit(writeWholeText(csv, comparisonCsv(compared))))),
        E.map(() => out.answer({ ...compared, model: named.name }, written(o))),
      )
    }),
  )
}
