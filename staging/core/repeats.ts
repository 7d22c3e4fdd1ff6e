// Whole numbers in little space, if runs of them repeat. In: numbers. Out: the same numbers, where a pair [back, count] stands for `count` of them,
// each equal to the one `back` places before it: if count is larger than back, they continue to repeat. Worked example: 5 1 2 1 2 1 2 3 is 5 1 2
// [2,4] 3.
import { type Either, left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { integer, list, tuple, wholeFrom } from './codecs'

/** A shorter repetition is not shorter as a pair. */
const LEAST = 4

export const repeatsCodec = list(t.union([integer, tuple(wholeFrom(1), wholeFrom(1))]))
export type Repeats = t.TypeOf<typeof repeatsCodec>

/** The number of slots, each with one known run. A run that loses its slot is written again. */
const PLACES = 2 ** 18

/** Each run that has occurred before is written as the distance to its last occurrence. */
export const repeats = (numbers: readonly number[]): Repeats => {
  const out: (number | readonly [number, number])[] = []
  const lastAt = new Int32Array(PLACES).fill(-1)
  const placeOf = (i: number): number => {
    let hash = 0
    for (let k = i; k < i + LEAST; k++) hash = Math.imul(hash ^ (numbers[k] ?? 0), 0x9e3779b1)
    return (hash >>> 0) % PLACES
  }
  for (let i = 0; i < numbers.length; ) {
    const at = lastAt[placeOf(i)]!
    let count = 0
    if (at >= 0) while (i + count < numbers.length && numbers[at + count] === numbers[i + count]) count++
    const isRepeat = count >= LEAST
    out.push(isRepeat ? [i - at, count] : numbers[i]!)
    for (const end = i + (isRepeat ? count : 1); i < end; i++) lastAt[placeOf(i)] = i
  }
  return out
}

/** The numbers, unless they are more than `most`. */
export const spelledOut = (short: Repeats, most: number): Either<string, readonly number[]> => {
  const out: number[] = []
  for (const r of short) {
    const [back, count] = typeof r === 'number' ? [0, 1] : r
    if (out.length + count > most) return left(`they exceed the limit of ${most} numbers`)
    if (back > out.length) return left(`[${back},${count}] refers back before the first of ${out.length} numbers`)
    if (typeof r === 'number') out.push(r)
    else for (let k = 0; k < count; k++) out.push(out[out.length - back]!)
  }
  return right(out)
}
