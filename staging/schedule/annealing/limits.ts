// Tuned numbers of the search. Shares of moves, seeds and rounds stand beside their use. In: nothing. Out: constants with their reasons.

export interface Effort {
  /** Limits of annealing: prices of single loops, and steps for each decision. */
  readonly prices: number
  readonly stepsPerDecision: number
  /** Calls of all layouts. */
  readonly calls: number
}

/** The largest share of the memory for the tiles of a loop. The inputs of the next tile need the rest. */
export const FULL = 0.8
/** A loop without enough memory is no plan. Its lack costs its transfer time, times this factor. */
export const LACK = 4
/** The part of a page that a value wastes, before a layout tells: values end anywhere in their last page. */
export const WASTE = 0.6
/** The share of the room for parameters and their gradients in one loop. */
export const WHOLE = 1 / 8
/** The first share of the budget for prefetching, and others to simulate. */
export const PREFETCH_ROOM = 0.06
export const PREFETCH_ROOMS = [0.02, 0.06, 0.12]
/** The first temperature, in mean seconds of an op. The last one is lower by the other factor. */
export const HOT = 0.7
export const COOLS = 100
/** Tiles that do not fit shrink by this factor. A plan is repaired at most this number of times. */
export const SMALLER = 0.7
export const REPAIRS = 3
/** No search for less than this gain over the compute. The full effort starts at the inverse of the other number. */
export const NOTHING_TO_GAIN = 0.01
export const MUCH_TO_GAIN = 4

/** About five processor seconds for a network of a hundred layers. */
export const DEFAULT_EFFORT: Effort = { prices: 8e6, stepsPerDecision: 200, calls: 80_000 }
