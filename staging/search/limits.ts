// Tuned numbers of the search. Shares of seeds and rounds stand beside their use. In: nothing. Out: constants with their reasons.

/** The kinds of moves, with their shares. */
export const MOVES = { bits: 0.6, tiles: 0.25, loops: 0.06, reserves: 0.03, parameters: 0.06 } as const
export type MoveName = keyof typeof MOVES

export interface Effort {
  /** Loops and ops that the model looks at. */
  readonly work: number
  /** Calls of all layouts. */
  readonly calls: number
  /** Kinds of moves that are switched off. */
  readonly without?: readonly MoveName[]
}

/** The largest share of the memory for the tiles of a loop. The inputs of the next tile need the rest. */
export const FULL = 0.8
/** A loop without enough memory is no plan. Its lack costs its transfer time, times this factor. */
export const LACK = 40
/** The part of a page that a value wastes, until a layout is known: values end anywhere in their last page. */
export const WASTE = 0.6
/** The share of the budget for parameters and their gradients in one loop. */
export const WHOLE = 1 / 8
/** The first share of the budget for prefetching. */
export const PREFETCH_RESERVE = 0.06
/** The first temperature, in mean seconds of an op. The last one is lower by the other factor. */
export const HOT = 0.7
export const COOLS = 100
/** A plan that does not fit is repaired at most this number of times. */
export const REPAIRS = 3
/** No search for less than this gain over the compute. The full effort starts at the inverse of the other number. */
export const NOTHING_TO_GAIN = 0.01
export const MUCH_TO_GAIN = 4

/** The default effort, in seconds. The tests set a smaller one. */
export const DEFAULT_EFFORT = Number(process.env['SPILLWAY_EFFORT']) || 5
/** The least effort of the search, in seconds. With less, the fastest chain is the answer: the search takes seconds to begin. */
export const LEAST_EFFORT = 0.1
/** The effort for a number of seconds. It is work, not time, so that plans are the same on every machine. */
export const effortOf = (seconds: number): Effort => ({ work: 2e6 * seconds, calls: 16_000 * seconds })
/** The most work for each decision and atom. If some work is left, independent searches follow, up to a number. */
export const WORK_PER_DECISION = 400
export const SEARCHES = 4
