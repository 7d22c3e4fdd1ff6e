// How numbers are written for people: in the summary, on the report page and in the trace, always the same way.
// In: plain numbers in SI units. Out: short texts. Invariant: no text depends on the locale.
import { showBytes } from '../../staging/core/bytes'

const SECONDS: readonly (readonly [above: number, unit: string, per: number])[] = [
  [1, 's', 1],
  [1e-3, 'ms', 1e3],
  [1e-6, 'µs', 1e6],
  [0, 'ns', 1e9],
]

export const showSeconds = (seconds: number): string => {
  if (seconds === 0) return '0 s'
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(1)} h`
  if (seconds >= 600) return `${(seconds / 60).toFixed(1)} min`
  const [, unit, per] = SECONDS.find(([above]) => seconds >= above)!
  return `${significant(seconds * per, 3)} ${unit}`
}

/** A mark on an axis of this length: one unit for all marks, and no needless decimals. */
export const axisSeconds = (seconds: number, length: number): string => {
  const [, unit, per] = SECONDS.find(([above]) => length >= above)!
  return `${Number((seconds * per).toPrecision(6))} ${unit}`
}

/** At least this number of digits, but never fewer than the integer part has. */
export const significant = (x: number, digits: number): string => {
  if (x === 0) return '0'
  const before = Math.max(1, Math.floor(Math.log10(Math.abs(x))) + 1)
  return x.toFixed(Math.max(0, digits - before))
}

export const showPercent = (share: number): string => {
  const percent = share * 100
  if (percent === 0) return '0 %'
  return percent < 0.1 ? '<0.1 %' : `${percent.toFixed(percent < 10 || (percent >= 99 && percent < 99.95) ? 1 : 0)} %`
}

export const showRatio = (ratio: number): string => `${ratio.toFixed(2)}×`

/** Bytes without needless decimals, for axes and tables. */
export const showSize = (bytes: number): string => showBytes(bytes).replace(/\.00(?= )/, '')

/** 1234567 → '1 234 567', with thin spaces that do not break. */
export const showCount = (n: number): string => String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f')

export const showShape = (shape: readonly number[]): string => shape.join('×')

/** '1 tile', '2 tiles'. */
export const plural = (n: number, one: string, many = `${one}s`): string => `${showCount(n)} ${n === 1 ? one : many}`
