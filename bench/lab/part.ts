// Parts of the laboratory's pages. A part plans and simulates (`run`), and its result is stored; `show` makes sections and plots of the stored result.
// So words and plots change without planning, and a stopped run continues. Invariant: a result is JSON, and `show` reads nothing else.
import { type Plot, plotSvg } from '../../src/report/lineplot'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Section } from './page'

/** Writes a plot beside the page; returns its name. */
export type Plotter = (name: string, svg: string) => string

/** A plot that follows the reader's scheme, with names at the ends of its lines. */
export const drawn = (plot: Plot): string => plotSvg({ ...plot, labels: 'ends' }, 'scheme')

/** A line of a plot for each name, over the rows. */
export const linesOf = <R>(
  names: readonly string[],
  rows: readonly R[],
  at: (row: R) => number,
  value: (row: R, i: number) => number | null | undefined,
  ours = 'auto',
): Plot['series'] =>
  names.map((name, i) => ({ name, ours: name === ours, points: rows.map((r) => [at(r), value(r, i) ?? undefined] as const) }))

/** Seconds that no plan of the graph can beat in this budget. */
export type Bound = (graph: Graph, machine: Machine, budgetBytes: number) => number | null

export interface Part {
  readonly name: string
  readonly run: (bound: Bound) => unknown
  readonly show: (result: unknown, plot: Plotter) => readonly Section[]
}

export const part = <T>(
  name: string,
  run: (bound: Bound) => T,
  show: (result: T, plot: Plotter) => readonly Section[],
): Part => ({ name, run, show: (result, plot) => show(result as T, plot) })

export interface Experiment {
  readonly title: string
  readonly words: readonly string[]
  readonly parts: readonly Part[]
  /** Sections over the results of all parts, before theirs. */
  readonly summary?: (results: Readonly<Record<string, unknown>>) => readonly Section[]
}
