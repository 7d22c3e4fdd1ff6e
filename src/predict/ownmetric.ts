// A metric of the user's own. In: functions that begin, add a sample and end. Out: a checked metric, and the part of a batch that it sees.
import { known } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { callable, text, withValues } from '../../staging/core/values'

/**
 * Rows of an image for a metric: the output of the net beside the target. A masked net shows the pixels inside of its mask, as one row.
 *
 * @example const sum = ({ output }: Compared) => Array.from(output).reduce((a, b) => a + b, 0)
 */
export interface Compared {
  /** Number of the image in the data, counted from 0. */
  readonly image: number
  readonly rows: number
  readonly width: number
  /** Numbers per pixel of `output`; 1 for classes. */
  readonly channels: number
  /** Values or classes of the net, pixel by pixel. */
  readonly output: ArrayLike<number>
  /** A label per pixel, or as many numbers as `output` has. */
  readonly target: ArrayLike<number>
}

/**
 * Options of `metric`.
 *
 * @example const rows: MetricOptions<number> = { name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum }
 */
export interface MetricOptions<S = unknown> {
  /**
   * Name of the metric in reports.
   *
   * @example metric({ name: 'bias', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly name: string
  /**
   * Returns the state before the first part.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly start: () => S
  /**
   * Returns the state after one more part.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly add: (state: S, part: Compared) => S
  /**
   * Returns the metric from the state.
   *
   * @example metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
   */
  readonly value: (state: S) => number
  /**
   * Returns the state of two groups of images together. With it, ranks can share an evaluation.
   *
   * @example
   * metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum, merge: (sum, next) => sum + next })
   */
  readonly merge?: ((known: S, next: S) => S) | undefined
}

/**
 * Your own metric, as `metric` creates it.
 *
 * @example const rows: Metric = metric({ name: 'rows', start: () => 0, add: (sum, part) => sum + part.rows, value: (sum) => sum })
 */
export interface Metric {
  readonly kind: 'metric'
  readonly name: string
  readonly begun: () => {
    readonly add: (part: Compared) => void
    /** The new facts since the last request; only for states that merge. */
    readonly image?: () => unknown
    readonly fold?: (state: unknown) => void
    readonly value: () => number
  }
}

const METRIC = withValues(
  optionsFor<MetricOptions>()('metric', 'name', 'start', 'add', 'value', 'merge'),
  { name: text, start: callable, add: callable, value: callable, merge: callable },
  { prefix: 'metric: ', required: ['name', 'start', 'add', 'value'] },
)

/**
 * Creates your own metric. It sees all rows of all images once.
 *
 * @param o Name, start value, update and result.
 * @example
 * const bias = metric({
 *   name: 'bias',
 *   start: () => 0,
 *   add: (sum, { output, target }) => {
 *     for (let i = 0; i < output.length; i++) sum += output[i]! - target[i]!
 *     return sum
 *   },
 *   value: (sum) => sum,
 * })
 */
export const metric = <S>(o: MetricOptions<S>): Metric => {
  const { name, start, add, value, merge } = known(METRIC, o)
  return {
    kind: 'metric',
    name,
    begun: () => {
      let state = start()
      const adding = (part: Compared): void => {
        state = add(state, part)
      }
      if (!merge) return { add: adding, value: () => value(state) }
      let all: { readonly known: S } | undefined
      return {
        add: adding,
        image: () => {
          const seen = state
          state = start()
          return seen
        },
        fold: (next) => {
          all = { known: all ? merge(all.known, next as S) : (next as S) }
        },
        value: () => value(all ? all.known : start()),
      }
    },
  }
}
