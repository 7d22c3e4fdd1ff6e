// Structural similarity (Wang et al., 2004). In: rows of an image's output and target, with numbers between 0 and 1. Out: its mean over all windows.
// Invariant: windows are those inside the image whose numbers are all there, with Gaussian weights of 11 x 11 and a deviation of 1.5. Only the rows of a window are held.
// Worked example: an image of 20 x 16 has 10 x 6 windows in each channel.

const SIDE = 11
const DEVIATION = 1.5
const [C1, C2] = [0.01 ** 2, 0.03 ** 2]
const WEIGHTS = (() => {
  const raw = Array.from({ length: SIDE }, (_, i) => Math.exp(-((i - (SIDE - 1) / 2) ** 2) / (2 * DEVIATION ** 2)))
  const sum = raw.reduce((n, x) => n + x, 0)
  return raw.map((x) => x / sum)
})()

/** Rows of numbers, the channels of a pixel side by side. */
type Row = ArrayLike<number>

/** Weighted sums along a column: of x, y, x², y² and xy. */
const columns = (rows: readonly (readonly [Row, Row])[], length: number): readonly Float64Array[] => {
  const sums = Array.from({ length: 5 }, () => new Float64Array(length)) as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ]
  rows.forEach(([xs, ys], r) => {
    const w = WEIGHTS[r]!
    for (let i = 0; i < length; i++) {
      const [x, y] = [xs[i]!, ys[i]!]
      sums[0][i]! += w * x
      sums[1][i]! += w * y
      sums[2][i]! += w * x * x
      sums[3][i]! += w * y * y
      sums[4][i]! += w * x * y
    }
  })
  return sums
}

/** The sum over the windows of one row of windows, and their number: a window with a pixel that has no number does not count. */
const rowSum = (
  rows: readonly (readonly [Row, Row])[],
  width: number,
  channels: number,
): readonly [sum: number, count: number] => {
  const sums = columns(rows, width * channels)
  let [all, count] = [0, 0]
  for (let at = 0; at < (width - SIDE + 1) * channels; at++) {
    const [x, y, xx, yy, xy] = sums.map((s) => WEIGHTS.reduce((n, w, k) => n + w * s[at + k * channels]!, 0)) as [
      number,
      number,
      number,
      number,
      number,
    ]
    if (Number.isNaN(x)) continue
    count++
    const [varX, varY, both] = [xx - x * x, yy - y * y, xy - x * y]
    all += ((2 * x * y + C1) * (2 * both + C2)) / ((x * x + y * y + C1) * (varX + varY + C2))
  }
  return [all, count]
}

/** The similarity of one image, row by row. */
export class Similarity {
  private rows: (readonly [Row, Row])[] = []
  private sum = 0
  private windows = 0

  add(output: ArrayLike<number>, target: ArrayLike<number>, count: number, width: number, channels: number): void {
    const length = width * channels
    for (let r = 0; r < count; r++) {
      const row = (all: ArrayLike<number>): Row => Float64Array.from({ length }, (_, i) => all[r * length + i]!)
      this.rows.push([row(output), row(target)])
      if (this.rows.length > SIDE) this.rows.shift()
      if (this.rows.length < SIDE || width < SIDE) continue
      const [sum, count] = rowSum(this.rows, width, channels)
      this.sum += sum
      this.windows += count
    }
  }

  /** The mean over the windows; NaN without any, e.g. for an image below 11 x 11. */
  value(): number {
    return this.sum / this.windows
  }
}
