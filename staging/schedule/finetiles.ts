// Tiles for a number of pages: for each segment the grid of fewest tiles that hold no more. In: segments of a step, each to run whole or in a loop.
// Out: the pages that a tile of any grid holds at least, and the step in tiles within a number of pages. A tile reads and makes a piece and its halo.
// The halo is measured on four tiles, and gives the size of a tile of any other grid. Bands of whole values are as wide as the image, so only more rows
// of tiles make them smaller; more columns make only the values inside a tile smaller. Worked example, 64 rows: of four tiles an inner one reads
// [14, 34), so the halo has 4 rows, and one of 32 tiles reads 6 rows.
import { mapped } from '../core/mapped'
import { type Either, isRight } from 'fp-ts/Either'
import { dimIndex, type Range } from '../core/box'
import type { Graph, OpId, ValueId } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Homes } from '../memory/place'
import { type Grid, type Segment, type Slices, type Step, tilesOf, UNTILED } from '../plan/plan'
import { opDef } from '../ops/registry'
import { rowsGridOf } from '../tile/byrows'
import { tileableDims } from '../tile/ft'
import { isLegalGrid, MOST_TILES, reachOf } from '../tile/gridfor'
import type { RunLiveness } from '../tile/liveness'
import { mostTiles } from '../tile/pieces'
import { type KnownSegments, liveIn, opsKey, type Run, segmentsOf, segmentsOn } from '../tile/segments'
import { TILED_DIMS, type TiledDim, type TileError } from '../tile/slices'
import { pagesOfTiles, type TilePages } from './atleast'

/** Tiles along each dimension on which halos are measured. */
const FEW = 4

/** The legal grids of a segment, the pages of a tile of one, and the one of fewest tiles within a number of pages. */
interface Loop {
  readonly most: Grid
  readonly body: number
  readonly least: (grid: Grid) => number
  readonly likely: (grid: Grid) => number
  readonly gridWithin: (pages: number) => Grid
}

const largest = (ranges: readonly Range[]): number => ranges.reduce((n, [from, to]) => Math.max(n, to - from), 0)

type Grids = Omit<Loop, 'gridWithin'>

/** The rows of an operand that one of `tiles` tiles touches, from those of a few; whole operands stay whole. */
const extentOf = (few: readonly Range[], extent: number, tiles: number): number => {
  const most = largest(few)
  if (few.length === 1 || most === extent) return tiles === 1 ? extent : most
  return Math.min(extent, Math.ceil(extent / tiles) + Math.max(0, most - Math.ceil(extent / few.length)))
}

/** A tile of a grid, for all of its tiles: the slices that it takes from somewhere inside the image. */
const tileOn = (graph: Graph, { body, ...s }: Segment, grid: Grid): Segment => {
  const sliced = (v: ValueId, few: Slices | null): Slices | null => {
    if (!few) return null
    const along = (d: TiledDim): readonly Range[] => {
      const extent = extentOf(few[d], graph.values[v]!.shape[dimIndex[d]] ?? 1, grid[d])
      const from = Math.min(few[d][few[d].length >> 1]![0], (graph.values[v]!.shape[dimIndex[d]] ?? 1) - extent)
      return [[from, from + extent]]
    }
    return { B: along('B'), H: along('H'), W: along('W') }
  }
  const one = (step: Step): Step => {
    const op = graph.ops[step.op]!
    return { ...step, slices: mapped([...op.ins, ...op.outs], (v, i) => sliced(v, step.slices![i]!)) }
  }
  return { ...s, grid: UNTILED, body: mapped(body, one) }
}

/** The first of these grids that is legal for a run. */
const firstLegal = (graph: Graph, ops: readonly OpId[], live: RunLiveness, grids: readonly Grid[]): Grid =>
  grids.find((g) => tilesOf(g) > 1 && isLegalGrid(graph, ops, live, g)) ?? UNTILED

/** From the wanted grid to coarser ones. */
const coarser = ({ B, H, W }: Grid): readonly Grid[] => {
  const out: Grid[] = []
  for (let h = H; h >= 1; h = h === 1 ? 0 : h >> 1) for (let w = W; w >= 1; w = w === 1 ? 0 : w >> 1) out.push({ B, H: h, W: w })
  return out
}

export interface FineTiles {
  /** For segments in tiles within a number of pages, or in the smallest. */
  readonly least: number
  readonly likely: number
  readonly calls: number
  readonly segments: () => Either<TileError, readonly Segment[]>
}

/** Segments, whole and in a few tiles, and the loops that they can be. */
interface Sized {
  readonly runs: readonly Run[]
  readonly live: readonly RunLiveness[]
  readonly loops: readonly Loop[]
}

const keyOf = (grid: Grid): string => mapped(TILED_DIMS, (d) => grid[d]).join()
/** More rows than any image. */
const FAR = 2 ** 20
const numberOf = ({ B, H, W }: Grid): number => (B * FAR + H) * FAR + W

const remembered = <A, B>(key: (a: A) => number, f: (a: A) => B): ((a: A) => B) => {
  const known = new Map<number, B>()
  return (a) => {
    const k = key(a)
    const b = known.get(k) ?? f(a)
    known.set(k, b)
    return b
  }
}

/** Facts that steps of a graph have in common, wherever their parameters live: a few legal tiles of a run, and its segments. */
export interface KnownTiles {
  readonly few: Map<string, Grid>
  readonly segments: KnownSegments
}

export const knownTiles = (): KnownTiles => ({ few: new Map(), segments: new Map() })

class LoopTable {
  private readonly measured: TilePages
  /** For a run in few tiles: the tiles of other runs do not change it. */
  private readonly known = new Map<string, Loop>()

  constructor(
    private readonly graph: Graph,
    machine: Machine,
    persistents: Homes,
    private readonly common: KnownTiles,
  ) {
    this.measured = pagesOfTiles(graph, machine, persistents)
  }

  /** The most tiles of a run along each dimension. */
  private most(ops: readonly OpId[]): Grid {
    const list = mapped(ops, (id) => this.graph.ops[id]!)
    if (list.length === 1 && opDef(list[0]!.kind).byRows) return rowsGridOf(this.graph, list[0]!)
    const dims = mapped(list, (op) => tileableDims(this.graph, op)).reduce((a, b) => new Set([...b].filter((d) => a.has(d))))
    return reachOf(dims) === 'image' ? mostTiles(this.graph, { dims }, list) : UNTILED
  }

  private few(ops: readonly OpId[], live: RunLiveness): Grid {
    const key = `${opsKey(ops)};${[...live.outputs].join()}`
    const known = this.common.few.get(key)
    if (known) return known
    const { B, H, W } = this.most(ops)
    if (B > MOST_TILES) return UNTILED
    const few = firstLegal(this.graph, ops, live, coarser({ B: Math.min(B, FEW), H: Math.min(H, FEW), W: Math.min(W, FEW) }))
    this.common.few.set(key, few)
    return few
  }

  of(bodies: readonly Pick<Run, 'phase' | 'ops'>[]): Sized | null {
    const { graph } = this
    const runs = mapped(bodies, ({ phase, ops }, group): Run => ({ phase, group, grid: UNTILED, ops }))
    const live = liveIn(graph, runs)
    const few = mapped(runs, (r, i) => this.few(r.ops, live[i]!))
    const segmentsIn = segmentsOn(graph, runs, this.common.segments)
    const [whole, sized] = [segmentsIn(() => UNTILED), segmentsIn((r) => few[r.group]!)]
    if (!isRight(whole) || !isRight(sized) || sized.right.length !== runs.length) return null
    const loops = mapped(runs, ({ ops }, i): Loop => {
      const key = `${keyOf(few[i]!)} ${opsKey(ops)}`
      const loop = this.known.get(key) ?? this.loop(ops, few[i]!, whole.right[i]!, sized.right[i]!)
      this.known.set(key, loop)
      return loop
    })
    return { runs, live, loops }
  }

  private loop(ops: readonly OpId[], few: Grid, whole: Segment, sized: Segment): Loop {
    const on = (grid: Grid): Segment => (tilesOf(grid) > 1 ? tileOn(this.graph, sized, grid) : whole)
    const { measured } = this
    const least = remembered(numberOf, (grid: Grid) => measured.least(on(grid), grid))
    const likely = remembered(numberOf, (grid: Grid) => measured.likely(on(grid), grid))
    const most = this.most(ops)
    // A dimension that cannot be cut in a few is not cut.
    const along = (d: TiledDim): number => (few[d] > 1 ? most[d] : 1)
    const grids = { most: { B: along('B'), H: along('H'), W: along('W') }, body: whole.body.length, least, likely }
    return {
      ...grids,
      gridWithin: remembered(
        (limit) => limit,
        (limit: number) => gridWithin(grids, limit),
      ),
    }
  }

  on({ runs, live }: Sized, grids: readonly Grid[]): Either<TileError, readonly Segment[]> {
    const { graph } = this
    return segmentsOf(
      graph,
      gridded(
        runs,
        mapped(grids, (g, i) => (tilesOf(g) > 1 ? firstLegal(graph, runs[i]!.ops, live[i]!, coarser(g)) : g)),
      ),
    )
  }
}

const gridded = (runs: readonly Run[], grids: readonly Grid[]): readonly Run[] =>
  mapped(runs, (r, i) => ({ ...r, grid: grids[i]! }))

const halves = ({ phase, ops }: Run): readonly Pick<Run, 'phase' | 'ops'>[] => {
  const middle = (ops.length + 1) >> 1
  return [
    { phase, ops: ops.slice(0, middle) },
    { phase, ops: ops.slice(middle) },
  ]
}

/**
 * The tiles of a step for fewer and fewer pages, down to the smallest tiles. A loop whose tiles all need more pages becomes two, with half of the ops
 * each. Values between the halves are then whole, and are swapped out.
 */
export const fineTiles = (
  graph: Graph,
  machine: Machine,
  whole: readonly Segment[],
  persistents: Homes,
  known: KnownTiles = knownTiles(),
): ((pages: number) => FineTiles) | null => {
  const table = new LoopTable(graph, machine, persistents, known)
  let sized = table.of(mapped(whole, ({ phase, body }) => ({ phase, ops: mapped(body, (step) => step.op) })))
  if (!sized || sized.loops.every((l) => tilesOf(l.most) === 1)) return null
  const inHalves = ({ runs }: Sized, isTwo: (i: number) => boolean): Sized | null =>
    runs.some((r, i) => r.ops.length > 1 && isTwo(i))
      ? table.of(runs.flatMap((r, i) => (r.ops.length > 1 && isTwo(i) ? halves(r) : [r])))
      : null
  /** Halves the loop of most calls, and its halves: the version with the fewest calls. */
  const ofFewerCalls = (from: Sized, pages: number): Sized => {
    let best = from
    let fewest = callsOf(tilesWithin(from, pages))
    let failures = 0
    for (let next: Sized | null = from; next && failures < MOST_FAILURES; ) {
      const { calls } = tilesWithin(next, pages)
      const busiest = calls.indexOf(Math.max(...calls))
      next = inHalves(next, (i) => i === busiest)
      const on = next && tilesWithin(next, pages)
      failures++
      if (!on || callsOf(on) >= fewest || mostOf(on) > pages) continue
      best = next!
      fewest = callsOf(on)
      failures = 0
    }
    return best
  }
  let before = Infinity
  return (pages) => {
    for (let split: Sized | null = sized; split; ) {
      sized = split
      const { loops } = sized
      const on = tilesWithin(sized, pages)
      split = inHalves(sized, (i) => on.likely[i]! > pages && tilesOf(loops[i]!.most) > 1)
    }
    // If the smallest tile needs more, others need not shrink further.
    const limit = Math.max(pages, mostOf(tilesWithin(sized!, pages)))
    const calls = callsOf(tilesWithin(sized!, limit))
    if (calls > STEEP_GROWTH * before) sized = ofFewerCalls(sized!, limit)
    const now = sized!
    const on = tilesWithin(now, limit)
    before = callsOf(on)
    return {
      least: Math.max(...mapped(now.loops, (l, i) => l.least(on.grids[i]!))),
      likely: mostOf(on),
      calls: before,
      segments: () => table.on(now, on.grids),
    }
  }
}

/** Each loop of a step in tiles within a number of pages. */
interface Within {
  readonly grids: readonly Grid[]
  readonly likely: readonly number[]
  readonly calls: readonly number[]
}

const tilesWithin = ({ loops }: Sized, pages: number): Within => {
  const grids = mapped(loops, (l) => l.gridWithin(pages))
  return {
    grids,
    likely: mapped(loops, (l, i) => l.likely(grids[i]!)),
    calls: mapped(loops, (l, i) => tilesOf(grids[i]!) * l.body),
  }
}

/**
 * If the number of calls grows by this factor for a few pages less, nearly all of a long loop's tiles is halo. Otherwise, computing the halo costs less
 * than moving values between halves.
 */
const STEEP_GROWTH = 3
/** After this number of splits in a row without fewer calls, no others are tried. */
const MOST_FAILURES = 4

const callsOf = ({ calls }: Within): number => calls.reduce((a, b) => a + b, 0)
const mostOf = ({ likely }: Within): number => Math.max(...likely)

/** The fewest rows of tiles, at most `most`, within a number of pages. More rows need no more pages. */
const rowsWithin = ({ most: { B }, likely }: Grids, W: number, most: number, limit: number): number | undefined => {
  const fits = (H: number): boolean => likely({ B, H, W }) <= limit
  if (most < 1 || !fits(most)) return undefined
  let [lo, hi] = [1, most]
  while (lo < hi) {
    const middle = (lo + hi) >> 1
    if (fits(middle)) hi = middle
    else lo = middle + 1
  }
  return lo
}

/** Columns of tiles: powers of two. */
const columnsOf = ({ most }: Grids): readonly number[] =>
  Array.from({ length: 1 + Math.floor(Math.log2(most.W)) }, (_, k) => 2 ** k)

/** The grid of fewest tiles within a number of pages; if none is, the one of fewest pages. More columns pay only with fewer tiles. */
const gridWithin = (loop: Grids, limit: number): Grid => {
  const { most, likely } = loop
  if (likely(UNTILED) <= limit) return UNTILED
  let best: Grid | undefined
  for (const W of columnsOf(loop)) {
    const fewer = best ? Math.ceil((best.H * best.W) / W) - 1 : most.H
    const H = rowsWithin(loop, W, Math.min(most.H, fewer), limit)
    if (H !== undefined) best = { B: most.B, H, W }
  }
  if (best) return best
  const smallest = mapped(columnsOf(loop), (W): Grid => ({ B: most.B, H: most.H, W }))
  return [UNTILED, ...smallest].reduce((a, b) => (likely(b) < likely(a) ? b : a))
}
