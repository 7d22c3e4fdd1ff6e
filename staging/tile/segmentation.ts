// Runs of ops as segments with grids, by cost. In: pieces (runs of forward ops between legal cuts), a limit on a tile's working set, a price for
// crossing values. Out: the cheapest sequence of segments. A segment costs its forward twice (the last once; without training, all once), its
// backward, both enlarged by halos, a launch for each call, and its checkpoint. A tiled segment is inside one run (paper 3: no op in it reads a sum
// over its tiles); untiled ones may join runs. Worked example: two convolutions at full size, 4 tiles: joined, the first recomputes halos; apart, a
// whole value is kept.
import type { Grid } from '../plan/plan'
import { tilesOf, UNTILED } from '../plan/plan'

/** The additions of a run of ops to a tiled segment: halos depend only on the later part of the segment. */
export interface PieceRun {
  readonly forwardSeconds: number
  readonly backwardSeconds: number
  readonly calls: number
  /** Seconds of all passes that one more tile along H, along W, or along both adds by halos (for a forward that runs once). */
  readonly haloH: number
  readonly haloW: number
  readonly haloBoth: number
  /** Values that a tile holds at once, were it the whole image. */
  readonly workBytes: number
  /** The part of these in values that outlive the segment: a row of tiles holds a band of them, even with narrow tiles. */
  readonly bandBytes: number
  /** Bytes that pay for crossing its borders. */
  readonly crossingBytes: number
}

export interface Piece {
  readonly run: number
  /** Most tiles along each dimension; 1 where it cannot be tiled. */
  readonly most: Grid
}

export interface Pieces {
  readonly pieces: readonly Piece[]
  /** Pieces i..j as one segment. */
  readonly span: (i: number, j: number) => PieceRun
  /** The same, which is good until the next one is asked for: a deep network has millions. */
  readonly passing: (i: number, j: number) => PieceRun
  readonly launchSeconds: number
  /** How often the forward of a segment runs that is not the last: again for its backward, where there is one. */
  readonly forwards: 1 | 2
}

export interface SegmentationRules {
  readonly limitBytes: number
  readonly secondsPerCrossingByte: number
  /** Bands of rows only, else also squares where they are cheaper. */
  readonly bandsOnly: boolean
}

export interface ChosenSegment {
  readonly from: number
  /** The piece after its last. */
  readonly to: number
  readonly grid: Grid
}

const least = (a: Grid, b: Grid): Grid => ({ B: Math.min(a.B, b.B), H: Math.min(a.H, b.H), W: Math.min(a.W, b.W) })

/** The extra seconds of a run's tiles over the whole: halos and launches. */
export const tilingSeconds = (s: PieceRun, g: Grid, launch: number): number =>
  tilesOf(g) === 1
    ? 0
    : (g.H - 1) * s.haloH + (g.W - 1) * s.haloW + (g.H - 1) * (g.W - 1) * s.haloBoth + (tilesOf(g) - 1) * s.calls * launch

/** In one tile. */
const wholeSeconds = (s: PieceRun, last: boolean, p: Pieces): number =>
  (last ? 1 : p.forwards) * s.forwardSeconds + s.backwardSeconds

const seconds = (s: PieceRun, g: Grid, last: boolean, p: Pieces): number =>
  wholeSeconds(s, last, p) + tilingSeconds(s, g, p.launchSeconds)

/** The number of tiles that keep to the limit, with this number side by side. */
const tilesFor = (s: PieceRun, W: number, limitBytes: number): number =>
  Math.ceil((s.workBytes + (W - 1) * s.bandBytes) / limitBytes)

/** The cheapest grid that keeps to the limit: along the batch first (no halo), then bands, or rows and columns. */
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

/** The grid of pieces i..j as one segment, which are `s`, in tiles; null if none are small enough. */
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

/** Pieces i..j as one segment; null where no grid makes its tiles small enough. */
export const segmentCost = (p: Pieces, i: number, j: number, rules: SegmentationRules): Cost | null => {
  const s = p.span(i, j)
  const grid = tilesFor(s, 1, rules.limitBytes) <= 1 ? UNTILED : inTiles(p, s, i, j, rules)
  return grid && { seconds: costOn(p, s, j, grid, rules), grid }
}

/** A piece whose tiles cannot be made small enough stands alone, as finely tiled as it can be. */
const finest = ({ most }: Piece, rules: SegmentationRules): Grid => ({
  B: most.B,
  H: most.H,
  W: rules.bandsOnly && most.H > 1 ? 1 : most.W,
})

export const segmentation = (p: Pieces, rules: SegmentationRules): readonly ChosenSegment[] => {
  const n = p.pieces.length
  /** Up to each piece: the least seconds, where the last segment begins, and its grid. */
  const seconds = new Float64Array(n + 1)
  const begins = new Int32Array(n + 1)
  const grids: Grid[] = [UNTILED]
  for (let to = 1; to <= n; to++) {
    seconds[to] = Infinity
    for (let from = to - 1; from >= 0; from--) {
      const s = p.passing(from, to - 1)
      const isWhole = tilesFor(s, 1, rules.limitBytes) <= 1
      const grid = isWhole
        ? UNTILED
        : (inTiles(p, s, from, to - 1, rules) ?? (from === to - 1 ? finest(p.pieces[from]!, rules) : null))
      // If it does not fit in tiles, a longer segment does not fit either.
      if (!grid) break
      // A deep network has millions of stretches, whole ones for the most part.
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
