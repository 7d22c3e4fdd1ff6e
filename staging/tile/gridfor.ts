// A grid on which each tile of a run of ops holds at most a limit of bytes. In: ops that run together, the values that they read from outside, and
// the values that outlive them. Out: a grid that can be sliced. The bytes are divided by the limit: the values read whole, the values that outlive
// the run, and the peak of the others. Worked example, a limit of 10 MiB and a batch of 4: [conv relu] reads 16, leaves 16 and holds 8 at the peak: 4
// tiles, one for each image.
import { mapped } from '../core/mapped'
import { isRight } from 'fp-ts/Either'
import { type Graph, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { type Grid, UNTILED } from '../plan/plan'
import { footprint, type OpCost } from './footprint'
import { tileableDims } from './ft'
import type { RunLiveness } from './liveness'
import { mostTiles } from './pieces'
import { sliceRun, type TiledDim } from './slices'

/** The dimensions of a loop over tiles: parts of images, images of a batch, or none. */
export type Reach = 'image' | 'batch' | 'none'
export const reachOf = (dims: ReadonlySet<TiledDim>): Reach =>
  dims.has('H') || dims.has('W') ? 'image' : dims.has('B') ? 'batch' : 'none'

const isImage = (graph: Graph, v: ValueId): boolean => graph.values[v]!.shape.length === 4 && graph.values[v]!.role !== 'param'
const bytesIn = (graph: Graph, values: ReadonlySet<ValueId>): number =>
  [...values].reduce((n, v) => n + (isImage(graph, v) ? valueBytes(graph.values[v]!) : 0), 0)

const workBytes = (graph: Graph, costs: readonly OpCost[], ops: readonly OpId[], { inputs, outputs }: RunLiveness): number => {
  const between = footprint(graph, ops, costs, {
    before: [],
    after: new Set(),
    counts: (v) => !outputs.has(v) && !inputs.has(v) && isImage(graph, v),
  })
  return bytesIn(graph, inputs) + bytesIn(graph, outputs) + between.peakBytes
}

/** The most tiles of a loop. Each tile is at least one call of a plan. A larger batch would need a list of slices that fits into no memory. */
export const MOST_TILES = 2 ** 16

/** Returns true if ops that run together can be sliced into this grid. */
export const isLegalGrid = (graph: Graph, ops: readonly OpId[], live: RunLiveness, grid: Grid, expands = false): boolean =>
  grid.B * grid.H * grid.W <= MOST_TILES && isRight(sliceRun(graph, ops, grid, live.outputs, expands))

/**
 * Returns a function from a number of tiles to a grid: first along the batch, where tiles do not overlap, then bands of rows. It uses fewer bands if
 * a grid cannot be sliced. Facts that do not depend on the number are computed once.
 */
export const gridsFor = (graph: Graph, ops: readonly OpId[], live: RunLiveness, expands = false): ((tiles: number) => Grid) => {
  const list = mapped(ops, (id) => graph.ops[id]!)
  const dims = mapped(list, (op) => tileableDims(graph, op)).reduce((a, b) => new Set([...b].filter((d) => a.has(d))))
  if (reachOf(dims) !== 'image') return () => UNTILED
  let most: Grid | undefined
  const legal = new Map<string, boolean>()
  const isLegal = (grid: Grid): boolean => {
    const key = `${grid.B}x${grid.H}`
    const known = legal.get(key) ?? isLegalGrid(graph, ops, live, grid, expands)
    legal.set(key, known)
    return known
  }
  return (tiles) => {
    if (tiles <= 1) return UNTILED
    most ??= mostTiles(graph, { dims }, list)
    const B = Math.min(most.B, tiles)
    for (let H = Math.min(most.H, Math.ceil(tiles / B)); H > 1; H >>= 1) {
      const grid = { B, H, W: 1 }
      if (isLegal(grid)) return grid
    }
    return { B, H: 1, W: 1 }
  }
}

/** Returns the same function of the bytes of a tile. */
export const gridsOf = (
  graph: Graph,
  costs: readonly OpCost[],
  ops: readonly OpId[],
  live: RunLiveness,
  expands = false,
): ((limitBytes: number) => Grid) => {
  const bytes = workBytes(graph, costs, ops, live)
  const grids = gridsFor(graph, ops, live, expands)
  return (limitBytes) => grids(Math.ceil(bytes / limitBytes))
}
