// Random numbers that are the same on every machine, so that the results of random searches are the same, too. In: a seed. Out: numbers from 0 to
// below 1, one after another. (Mulberry32: a counter whose bits are mixed by two multiplications.)
export const randomFrom = (seed: number): (() => number) => {
  let counter = seed >>> 0
  return () => {
    counter = (counter + 0x6d2b79f5) >>> 0
    let bits = Math.imul(counter ^ (counter >>> 15), 1 | counter)
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
  }
}
