// The last step of `auto`: better tiles than those of the fastest plan so far, where that is a plan in tiles. In: its segments.
// Out: candidates near them, one change at a time, kept where the simulator says that the step is faster. `tiled` gives all
// segments one limit, a power of two of the whole; here limits lie closer and crossings have more prices, and then each segment
// has its own grid, shape of tiles and borders: only the one that needs most must have tiles that small.
// Worked example, [c1 c2 | c3 c4] in 8 tiles each, of which c1 c2 fill the budget: c3 c4 in 4 tiles, then in 2; c1 c2 stay.
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Grid, tilesOf } from '../plan/plan'
import type { ForwardPieces } from '../tile/pieces'
import { type ChosenSegment, segmentation, tilingSeconds } from '../tile/segmentation'
import type { Candidate, Improver } from './candidate'
import { forwardPieces, inTiles } from './tiled'

type Tiles = readonly ChosenSegment[]

export interface RetileOptions {
  /** Limits between those of `tiled`, and more prices for what crosses. */
  readonly limits: boolean
  /** A grid of its own for each segment. */
  readonly grids: boolean
  /** Of another shape: as many tiles, narrower or wider. */
  readonly shapes: boolean
  /** Segments joined, split, and with other borders. */
  readonly borders: boolean
}
export const RETILE: RetileOptions = { limits: true, grids: true, shapes: true, borders: true }

/** Over the most that a tile of the plan works on, and over what the link takes for what crosses. */
const LIMITS = [4, 3.36, 2.83, 2.38, 2, 1.68, 1.41, 1.19, 1, 0.84]
const PRICES = [0, 0.3, 1, 3]

/** Calls that are laid out for all candidates together: the work of the search, whatever the machine that plans. */
const MOST_CALLS = 200_000

/** What becomes of the segments if the i-th changes; null where it cannot. */
type Change = (tiles: Tiles, i: number) => Tiles | null

const replaced = (tiles: Tiles, i: number, n: number, ...by: readonly ChosenSegment[]): Tiles => [
  ...tiles.slice(0, i),
  ...by,
  ...tiles.slice(i + n),
]

/** Fewer bands, then fewer columns, then fewer parts of the batch: halos are dearest. */
const coarser =
  (share: number): Change =>
  (tiles, i) => {
    const s = tiles[i]!
    const along = (['H', 'W', 'B'] as const).find((d) => s.grid[d] > 1)
    if (!along) return null
    const n = s.grid[along]
    return replaced(tiles, i, 1, { ...s, grid: { ...s.grid, [along]: Math.max(1, Math.min(n - 1, Math.ceil(n * share))) } })
  }

/** One column fewer, or as many tiles that are half or twice as wide: kernels may be quicker on one of them. */
const shaped =
  (of: (grid: Grid) => Pick<Grid, 'H' | 'W'>): Change =>
  (tiles, i) => {
    const s = tiles[i]!
    const grid = { ...s.grid, ...of(s.grid) }
    return grid.H >= 1 && grid.W >= 1 ? replaced(tiles, i, 1, { ...s, grid }) : null
  }

const joined: Change = (tiles, i) => {
  const [a, b] = [tiles[i]!, tiles[i + 1]]
  return b ? replaced(tiles, i, 2, { from: a.from, to: b.to, grid: tilesOf(a.grid) < tilesOf(b.grid) ? b.grid : a.grid }) : null
}

const split: Change = (tiles, i) => {
  const s = tiles[i]!
  const middle = (s.from + s.to) >> 1
  return middle > s.from ? replaced(tiles, i, 1, { ...s, to: middle }, { ...s, from: middle }) : null
}

/** The border after it, so many pieces further. */
const shifted =
  (by: number): Change =>
  (tiles, i) => {
    const [a, b] = [tiles[i]!, tiles[i + 1]]
    const at = a.to + by
    return b && at > a.from && at < b.to ? replaced(tiles, i, 2, { ...a, to: at }, { ...b, from: at }) : null
  }

const GRIDS = [coarser(0.5), coarser(0.75), coarser(1)]
const SHAPES = [
  shaped(({ H, W }) => ({ H, W: W - 1 })),
  shaped(({ H, W }) => ({ H: H >> 1, W: 2 * W })),
  shaped(({ H, W }) => ({ H: 2 * H, W: W >> 1 })),
]
const BORDERS = [joined, shifted(-1), shifted(1), split]

const keyOf = (tiles: Tiles): string => tiles.map(({ from, grid: { B, H, W } }) => `${from}:${B}x${H}x${W}`).join()

class Retiling {
  private readonly pieces: ForwardPieces
  private readonly seen: Set<string>
  private calls = 0

  constructor(
    private readonly graph: Graph,
    private readonly machine: Machine,
    private tiles: Tiles,
    private seconds: number,
  ) {
    this.pieces = forwardPieces(graph, machine)
    this.seen = new Set([keyOf(tiles)])
  }

  /** Whether it is faster: then the search goes on from it. */
  private *look(tiles: Tiles): Generator<Candidate, boolean, number> {
    const key = keyOf(tiles)
    if (this.seen.has(key) || this.calls >= MOST_CALLS) return false
    this.seen.add(key)
    const candidate = inTiles(this.graph, this.machine, tiles)
    if (!candidate) return false
    const seconds = yield candidate
    if (candidate.isLaidOut) this.calls += candidate.layout.calls.length
    if (seconds >= this.seconds) return false
    this.tiles = tiles
    this.seconds = seconds
    return true
  }

  *limits(): Generator<Candidate, void, number> {
    const { outBytesPerSecond, inBytesPerSecond } = this.machine.link
    const onLink = 1 / outBytesPerSecond + 1 / inBytesPerSecond
    const most = Math.max(...this.tiles.map((s) => this.pieces.stretch(s.from, s.to - 1).workBytes / tilesOf(s.grid)))
    for (const price of PRICES)
      for (const bandsOnly of [true, false])
        for (const limit of LIMITS) {
          const rules = { limitBytes: most * limit, secondsPerCrossingByte: price * onLink, bandsOnly }
          yield* this.look(segmentation(this.pieces, rules))
        }
  }

  /** The segment whose tiles cost most first. */
  private order(): readonly number[] {
    const cost = ({ from, to, grid }: ChosenSegment): number =>
      tilingSeconds(this.pieces.stretch(from, to - 1), grid, this.pieces.launchSeconds)
    const costs = this.tiles.map(cost)
    return [...costs.keys()].sort((a, b) => costs[b]! - costs[a]!)
  }

  /** Each change at each segment for as long as it helps. */
  *change(changes: readonly Change[]): Generator<Candidate, void, number> {
    for (let before = Infinity; this.seconds < before; ) {
      before = this.seconds
      for (const i of this.order())
        for (const change of changes)
          for (let more = true; more; ) {
            const changed = i < this.tiles.length ? change(this.tiles, i) : null
            more = changed !== null && (yield* this.look(changed))
          }
    }
  }
}

export const retiled = (options: Partial<RetileOptions> = {}): Improver =>
  function* (graph, machine, best, seconds) {
    const o = { ...RETILE, ...options }
    if (!best.tiles) return
    const search = new Retiling(graph, machine, best.tiles, seconds)
    if (o.limits) yield* search.limits()
    if (o.grids) yield* search.change(GRIDS)
    const grids = o.grids ? GRIDS : []
    if (o.shapes) yield* search.change([...SHAPES, ...grids])
    if (o.borders) yield* search.change([...BORDERS, ...grids])
  }
