// Metrics of a run after epochs. In: measurements in their order. Out: the best of them, and the number since. Invariant: NaN is never the best;
// of equal values the first is.
import * as t from 'io-ts'

/** JSON has no number for these. */
const numberCodec = new t.Type<number, number | string, unknown>(
  'a number',
  t.number.is,
  (u, c) => {
    const n = typeof u === 'string' && ['NaN', 'Infinity', '-Infinity'].includes(u) ? Number(u) : u
    return typeof n === 'number' ? t.success(n) : t.failure(u, c)
  },
  (n) => (Number.isFinite(n) ? n : String(n)),
)

export const measurementCodec = t.strict({ epoch: t.number, step: t.number, metrics: t.record(t.string, numberCodec) })
/**
 * Metrics after an epoch: those of an evaluation, or the mean loss of its steps.
 *
 * @example const line = ({ epoch, metrics }: Measurement) => `${epoch}: ${JSON.stringify(metrics)}`
 */
export type Measurement = t.TypeOf<typeof measurementCodec>

/** For these, less is better; otherwise, more. */
const LESS = ['loss', 'mae', 'mse']
export const lessIsBetter = (metric: string): boolean => LESS.includes(metric)
const isBetter = (metric: string, a: number, b: number): boolean => (lessIsBetter(metric) ? a < b : a > b)

export interface Standing {
  readonly best: Measurement | undefined
  /** Measured since, and no better. */
  readonly since: number
}

/** A number that is none is never the best. */
export const standing = (measured: readonly Measurement[], metric: string): Standing =>
  measured.reduce<Standing>(
    ({ best, since }, m) => {
      const value = m.metrics[metric] ?? Number.NaN
      const better = !Number.isNaN(value) && (best === undefined || isBetter(metric, value, best.metrics[metric]!))
      return better ? { best: m, since: 0 } : { best, since: since + 1 }
    },
    { best: undefined, since: 0 },
  )
