// Numbers in memory with a stride for each axis, as PyTorch's views have them. In: an array. Out: its numbers in C order, or another view of its memory.
import { elementsOf } from '../../staging/core/box'

/** An array; several views may share one memory. */
export interface Strided {
  readonly memory: Float64Array
  readonly sizes: readonly number[]
  readonly strides: readonly number[]
  readonly offset: number
}

/** The strides of an array in C order. */
export const dense = (sizes: readonly number[]): readonly number[] => sizes.map((_, i) => elementsOf(sizes.slice(i + 1)))

/** Calls `f` with the place of each element in memory, in C order. */
export const eachPlace = ({ sizes, strides, offset }: Omit<Strided, 'memory'>, f: (place: number, i: number) => void): void => {
  const at = sizes.map(() => 0)
  for (let i = 0, place = offset; i < elementsOf(sizes); i++) {
    f(place, i)
    for (let a = sizes.length - 1; a >= 0; a--) {
      place += strides[a]!
      if (++at[a]! < sizes[a]!) break
      place -= sizes[a]! * strides[a]!
      at[a] = 0
    }
  }
}

/** The numbers of an array in C order. */
export const numbersIn = (array: Strided): Float64Array => {
  const numbers = new Float64Array(elementsOf(array.sizes))
  eachPlace(array, (place, i) => (numbers[i] = array.memory[place]!))
  return numbers
}

/** The same elements with these sizes: an axis of size 1 is repeated. */
export const broadcast = (array: Strided, sizes: readonly number[]): Strided => {
  const more = sizes.length - array.sizes.length
  const strides = sizes.map((n, i) => (i < more || (array.sizes[i - more] === 1 && n > 1) ? 0 : array.strides[i - more]!))
  return { ...array, sizes, strides }
}
