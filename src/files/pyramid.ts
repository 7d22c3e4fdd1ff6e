// A pyramid of tiles, made while rows of its finest level are given. In: rows from top to bottom, channels innermost. Out: the tiles of each level,
// row by row of tiles. Invariant: each level holds at most one row of tiles; a side of a level is half the side of the finer one, rounded up.
// Worked example: a level of 5 x 3 pixels is followed by 3 x 2, 2 x 1 and 1 x 1. The last row of an odd level counts twice.

export type Numbers = Uint8Array | Float32Array

/** The way to halve a level: the most frequent number of four pixels (the first of equals), or the mean. */
export type Halving = 'majority' | 'mean'

export interface PyramidOf<A extends Numbers> {
  readonly width: number
  readonly height: number
  readonly channels: number
  /** Side of a tile in pixels. */
  readonly tile: number
  /** The last level has no side above this. */
  readonly coarsest: number
  readonly halving: Halving
  readonly array: new (length: number) => A
}

export interface LevelSize {
  readonly width: number
  readonly height: number
}

/** A tile of a level. At the right and lower border it may be smaller than others. */
export interface Tile<A extends Numbers> extends LevelSize {
  readonly level: number
  readonly column: number
  readonly row: number
  readonly pixels: A
}

/** Sizes of all levels, finest first. */
export const levelsOf = ({ width, height, coarsest }: LevelSize & { readonly coarsest: number }): readonly LevelSize[] =>
  Math.max(width, height) <= coarsest
    ? [{ width, height }]
    : [{ width, height }, ...levelsOf({ width: Math.ceil(width / 2), height: Math.ceil(height / 2), coarsest })]

/** The number that most of four have; of equals, the first. */
const most = (a: number, b: number, c: number, d: number): number =>
  a === b || a === c || a === d ? a : b === c || b === d ? b : c === d ? c : a
/** Returns the mean of the numbers among them; the others are pixels without data. */
const mean = (a: number, b: number, c: number, d: number): number => {
  const all = (a + b + c + d) / 4
  if (!Number.isNaN(all)) return all
  const numbers = [a, b, c, d].filter((n) => !Number.isNaN(n))
  return numbers.reduce((sum, n) => sum + n, 0) / numbers.length
}
/** Bytes are rounded. */
const roundedMean = (a: number, b: number, c: number, d: number): number => (a + b + c + d + 2) >> 2

/** Computes a number of a level from four numbers of the finer one. */
export type Halve = (a: number, b: number, c: number, d: number) => number
export const halveOf = (halving: Halving, isBytes: boolean): Halve =>
  halving === 'majority' ? most : isBytes ? roundedMean : mean

/** Halves two rows to one, written to `out`. The last column of an odd width counts twice. */
export const halveRows = <A extends Numbers>(upper: A, lower: A, channels: number, of: Halve, out: A): A => {
  const width = upper.length / channels
  for (let x = 0, to = 0; to < out.length; x += 2) {
    const left = x * channels
    const right = Math.min(x + 1, width - 1) * channels
    for (let c = 0; c < channels; c++) out[to++] = of(upper[left + c]!, upper[right + c]!, lower[left + c]!, lower[right + c]!)
  }
  return out
}

/** Takes the rows of the finest level, any number at a time; `end` after the last one. */
export interface Rows<A extends Numbers> {
  readonly put: (rows: A) => void
  readonly end: () => void
}

/** The rows of one level, and of those below it. */
const levelRows = <A extends Numbers>(
  o: PyramidOf<A>,
  sizes: readonly LevelSize[],
  level: number,
  take: (tile: Tile<A>) => void,
): Rows<A> => {
  const { width, height } = sizes[level]!
  const { channels, tile, array, halving } = o
  const of = halveOf(halving, array === (Uint8Array as unknown))
  const next = level + 1 < sizes.length ? levelRows(o, sizes, level + 1, take) : undefined
  const [line, half] = [width * channels, Math.ceil(width / 2)]
  const held = new array(Math.min(tile, height) * line)
  // `odd`: a row that waits for its partner.
  let [filled, row] = [0, 0]
  let odd: A | undefined

  const halved = (upper: A, lower: A): A => halveRows(upper, lower, channels, of, new array(half * channels))
  const flush = (): void => {
    for (let column = 0; column * tile < width; column++) {
      const w = Math.min(tile, width - column * tile)
      const pixels = new array(filled * w * channels)
      for (let y = 0; y < filled; y++) {
        const from = y * line + column * tile * channels
        pixels.set(held.subarray(from, from + w * channels), y * w * channels)
      }
      take({ level, column, row, width: w, height: filled, pixels })
    }
    row++
    filled = 0
  }
  const one = (pixels: A): void => {
    held.set(pixels, filled * line)
    filled++
    if (next && odd) {
      next.put(halved(odd, pixels))
      odd = undefined
    } else if (next) odd = pixels.slice() as A
    if (filled === tile) flush()
  }
  return {
    put: (rows) => {
      for (let from = 0; from < rows.length; from += line) one(rows.subarray(from, from + line) as A)
    },
    end: () => {
      if (filled > 0) flush()
      if (next && odd) next.put(halved(odd, odd))
      next?.end()
    },
  }
}

/** Calls `take` for each tile of each level once it is complete. */
export const pyramidRows = <A extends Numbers>(o: PyramidOf<A>, take: (tile: Tile<A>) => void): Rows<A> =>
  levelRows(o, levelsOf(o), 0, take)
