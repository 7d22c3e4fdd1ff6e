// Runs of ops as segments with grids, by cost. In: pieces (runs of forward ops between legal cuts), a limit on a tile's working set, a price for
// crossing values. Out: the cheapest sequence of segments. A segment costs its forward pass twice (the last one once; without training, all once),
// its backward pass, both enlarged by halos, a launch for each call, and its checkpoint. A tiled segment is inside one run (paper 3: no op in it
// reads a sum over its tiles); untiled ones may join runs. Worked example: two convolutions at full size, 4 tiles: joined, the first recomputes
// halos; separate, a whole value is kept.
import type { Grid } from '../plan/plan'
import { tilesOf, UNTILED } from '../plan/plan'

/** The costs of a run of pieces as a segment. */
export interface PieceRun {
  readonly forwardSeconds: number
  readonly backwardSeconds: number
  readonly calls: number
  /** The seconds that one more tile along H, along W, or along both adds by halos, over all passes. A forward pass that runs once counts once. */
  readonly haloH: number
  readonly haloW: number
  readonly haloBoth: number
  /** The bytes that a tile holds at once if it is the whole image. */
  readonly workBytes: number
  /** The part of these bytes in values that cross the segment's borders. A row of tiles holds a band of them, even if tiles are narrow. */
  readonly bandBytes: number
  /** The bytes that cross its borders. Each has a price. */
  readonly crossingBytes: number
}

export interface Piece {
  readonly run: number
  /** The most tiles along each dimension; 1 if it cannot be tiled. */
  readonly most: Grid
}

export interface Pieces {
  readonly pieces: readonly Piece[]
  /** Returns pieces i..j as one segment. */
  readonly span: (i: number, j: number) => PieceRun
  /** Returns the same in an object that the next call overwrites: a deep network has millions of runs. */
  readonly spanReused: (i: number, j: number) => PieceRun
  readonly launchSeconds: number
  /** The number of times that the forward pass of a segment runs, except that of the last. With a backward pass, it runs again. */
  readonly forwards: 1 | 2
}

export interface SegmentationRules {
  readonly limitBytes: number
  readonly secondsPerCrossingByte: number
  /** True: only bands of rows. False: also rectangles if they are cheaper. */
  readonly bandsOnly: boolean
}

export interface ChosenSegment {
  readonly from: number
  /** The index after its last piece. */
  readonly to: number
  readonly grid: Grid
}

const least = (a: Grid, b: Grid): Grid => ({ B: Math.min(a.B, b.B), H: Math.min(a.H, b.H), W: Math.min(a.W, b.W) })

/** Returns the extra seconds of a run in tiles: halos and launches. */
export const tilingSeconds = (s: PieceRun, g: Grid, launch: number): number =>
  tilesOf(g) === 1
    ? 0
    : (g.H - 1) * s.haloH + (g.W - 1) * s.haloW + (g.H - 1) * (g.W - 1) * s.haloBoth + (tilesOf(g) - 1) * s.calls * launch

/** Returns the seconds in one tile. */
const wholeSeconds = (s: PieceRun, last: boolean, p: Pieces): number =>
  (last ? 1 : p.forwards) * s.forwardSeconds + s.backwardSeconds

const seconds = (s: PieceRun, g: Grid, last: boolean, p: Pieces): number =>
  wholeSeconds(s, last, p) + tilingSeconds(s, g, p.launchSeconds)

/** Returns the number of tiles that keep to the limit, with `W` tiles side by side. */
const tilesFor = (s: PieceRun, W: number, limitBytes: number): number =>
  Math.ceil((s.workBytes + (W - 1) * s.bandBytes) / limitBytes)

/** Returns the cheapest grid that keeps to the limit: first along the batch (no halo), then bands, or rows and columns. */
const gridOf = (s: PieceRun, most: Grid, last: boolean, p: Pieces, rules: SegmentationRules): Grid | null => {
  let best: Grid | null = null
  for (let W = 1; W <= most.W; W = W < 2 ? 2 : W * 2) {
    const tiles = tilesFor(s, W, rules.limitBytes)
    const B = Math.min(most.B, tiles)
    const rest = Math.ceil(tiles / B)
    if (W > rest) break
    const grid = { B, H: Math.ceil(rest / W), W }
    if (grid.H > most.H || (rules.bandsOnly && W > 1 && most.H > 1)) continue
    if (!best || seconds(s, grid, last, p) < seconds(s, best, last, p)) best = grid
  }
  return best
}

const mostOf = (p: Pieces, i: number, j: number): Grid =>
  p.pieces.slice(i, j + 1).reduce((m, x) => least(m, x.most), p.pieces[i]!.most)

/** Returns the grid of pieces i..j as one tiled segment, with the costs `s`; null if no tiles are small enough. */
const inTiles = (p: Pieces, s: PieceRun, i: number, j: number, rules: SegmentationRules): Grid | null => {
  if (p.pieces[i]!.run !== p.pieces[j]!.run) return null
  return gridOf(s, mostOf(p, i, j), j === p.pieces.length - 1, p, rules)
}

const costOn = (p: Pieces, s: PieceRun, j: number, grid: Grid, rules: SegmentationRules): number =>
  seconds(s, grid, j === p.pieces.length - 1, p) + s.crossingBytes * rules.secondsPerCrossingByte

interface Cost {
  readonly seconds: number
  readonly grid: Grid
}

/** Returns the cost of pieces i..j as one segment; null if no grid makes its tiles small enough. */
export const segmentCost = (p: Pieces, i: number, j: number, rules: SegmentationRules): Cost | null => {
  const s = p.span(i, j)
  const grid = tilesFor(s, 1, rules.limitBytes) <= 1 ? UNTILED : inTiles(p, s, i, j, rules)
  return grid && { seconds: costOn(p, s, j, grid, rules), grid }
}

/** The finest grid of a piece. Used for a piece that exceeds the limit on each grid: it is a segment of its own. */
const finest = ({ most }: Piece, rules: SegmentationRules): Grid => ({
  B: most.B,
  H: most.H,
  W: rules.bandsOnly && most.H > 1 ? 1 : most.W,
})

export const segmentation = (p: Pieces, rules: SegmentationRules): readonly ChosenSegment[] => {
  const n = p.pieces.length
  /** By piece: the least seconds of all pieces before it, the start of the last segment of these, and its grid. */
  const seconds = new Float64Array(n + 1)
  const begins = new Int32Array(n + 1)
  const grids: Grid[] = [UNTILED]
  for (let to = 1; to <= n; to++) {
    seconds[to] = Infinity
    for (let from = to - 1; from >= 0; from--) {
      const s = p.spanReused(from, to - 1)
      const isWhole = tilesFor(s, 1, rules.limitBytes) <= 1
      const grid = isWhole
        ? UNTILED
        : (inTiles(p, s, from, to - 1, rules) ?? (from === to - 1 ? finest(p.pieces[from]!, rules) : null))
      // If it does not fit in tiles, a longer segment does not fit either.
      if (!grid) break
      // A deep network has millions of runs, and most of them are untiled.
      const own = isWhole
        ? wholeSeconds(s, to === n, p) + s.crossingBytes * rules.secondsPerCrossingByte
        : costOn(p, s, to - 1, grid, rules)
      const total = seconds[from]! + own
      if (total < seconds[to]! || grids.length === to) {
        seconds[to] = total
        begins[to] = from
        grids[to] = grid
      }
    }
  }
  const out: ChosenSegment[] = []
  for (let to = n; to > 0; to = begins[to]!) out.unshift({ from: begins[to]!, to, grid: grids[to]! })
  return out
}
