// `tiled` (paper 3): maximal FT segments, cut further at clean places, tiles of a size that the budget admits. Checkpoints
// that do not fit leave by bands. In: the training graph. Out: candidates over three ways to cut, two shapes of tile and a
// geometric range of tile sizes; the simulator chooses.
//
// Tile sizes follow from a limit on a tile's working set: a segment whose values take n times the limit gets n tiles, along
// the batch first (no halo), then in bands of rows (contiguous in memory), then in both directions.
import { isLeft, right } from 'fp-ts/Either'
import { bytesOf, type Graph, type Op } from '../graph/graph'
import { sigmaDelta } from '../ops/op'
import { type Grid, tilesOf, UNTILED } from '../plan/plan'
import { profileForward } from '../tile/cuts'
import { type FtRun, maximalRuns } from '../tile/ft'
import { assemble, type Group } from '../tile/segments'
import { operandsOf } from '../tile/slices'
import type { Machine } from '../graph/machine'
import { type Candidate, type Planner, spilling } from './candidate'
import { inCoreSegments } from './incore'
import { layOut } from './layout'

const MOST_TILES = 512
const TILE_SIZES = 12

type CutRule = 'maximal' | 'downsample' | 'short'
type TileShape = 'bands' | 'squares'

const slopes = (graph: Graph, op: Op) => operandsOf(graph, op).ins.flatMap((o) => (o.access && sigmaDelta(o.access.H)) ?? [])
const strides = (graph: Graph, op: Op): boolean => slopes(graph, op).some((s) => s.sigma > 1)
const hasHalo = (graph: Graph, op: Op): boolean => slopes(graph, op).some((s) => s.delta > 0)

/** Cuts a maximal run at clean places: after ops that shrink the image, or after every second op with a halo. */
const cutRun = (graph: Graph, run: FtRun, rule: CutRule, clean: ReadonlySet<number>, from: number): readonly FtRun[] => {
  if (rule === 'maximal') return [run]
  const out: { ops: Op[]; dims: FtRun['dims'] }[] = [{ ops: [], dims: run.dims }]
  let due = false
  let halos = 0
  run.ops.forEach((op, i) => {
    if (due && clean.has(from + i)) {
      out.push({ ops: [], dims: run.dims })
      due = false
      halos = 0
    }
    out[out.length - 1]!.ops.push(op)
    if (hasHalo(graph, op)) halos++
    due ||= rule === 'downsample' ? strides(graph, op) : halos >= 2
  })
  return out
}

const groupBytes = (graph: Graph, ops: readonly Op[]): number =>
  ops.reduce((n, op) => n + op.outs.reduce((m, v) => m + bytesOf(graph.values[v]!), 0), 0) * 2

const leastExtents = (graph: Graph, ops: readonly Op[]): { readonly B: number; readonly H: number; readonly W: number } => {
  const least = { B: Infinity, H: Infinity, W: Infinity }
  for (const op of ops) {
    const { ins, outs } = operandsOf(graph, op)
    for (const o of [...ins, ...outs]) {
      if (o.def.role !== 'data') continue
      const [b, , h, w] = graph.values[o.value]!.shape as [number, number, number, number]
      least.B = Math.min(least.B, b)
      // What is reduced, or read whole, stays in one piece.
      if (o.access?.H.tag !== 'reduce' && o.access?.H.tag !== 'all') least.H = Math.min(least.H, h)
      if (o.access?.W.tag !== 'reduce' && o.access?.W.tag !== 'all') least.W = Math.min(least.W, w)
    }
  }
  return least
}

const gridFor = (graph: Graph, run: FtRun, limit: number, shape: TileShape): Grid => {
  if (!run.dims.has('H') || !run.dims.has('W')) return UNTILED
  const tiles = Math.min(MOST_TILES, Math.ceil(groupBytes(graph, run.ops) / limit))
  const most = leastExtents(graph, run.ops)
  const B = run.dims.has('B') ? Math.min(most.B, tiles) : 1
  const rest = Math.ceil(tiles / B)
  const H = Math.min(most.H, shape === 'bands' ? rest : Math.ceil(Math.sqrt(rest)))
  return { B, H, W: Math.min(most.W, Math.ceil(rest / H)) }
}

/** The maximal runs under one rule, in forward order. */
const cutAll = (graph: Graph, rule: CutRule): readonly FtRun[] => {
  const clean = new Set(profileForward(graph).cuts.filter((c) => c.clean).map((c) => c.at))
  let from = 0
  return maximalRuns(graph).flatMap((run) => {
    const parts = cutRun(graph, run, rule, clean, from)
    from += run.ops.length
    return parts
  })
}

/** Finer and finer tiles, until one fits without waiting or two steps in a row no longer lower what is needed. */
function* refine(graph: Graph, machine: Machine, runs: readonly FtRun[], shape: TileShape, seen: Set<string>): Generator<Candidate, void, boolean> {
  const largest = Math.max(...runs.map((r) => groupBytes(graph, r.ops)))
  let least = Infinity
  let idle = 0
  for (let i = 1; i <= TILE_SIZES && idle < 2; i++) {
    const groups = runs.map((r): Group => ({ ops: r.ops.map((o) => o.id), grid: gridFor(graph, r, largest / 2 ** i, shape) }))
    const key = groups.map((g) => `${g.ops[0]}:${g.grid.B}x${g.grid.H}x${g.grid.W}`).join()
    if (seen.has(key) || groups.every((g) => tilesOf(g.grid) === 1)) continue
    seen.add(key)
    const segments = assemble(graph, groups)
    if (isLeft(segments)) continue
    const candidate = spilling(layOut(graph, segments.right, machine))
    idle = candidate.least < least ? 0 : idle + 1
    least = Math.min(least, candidate.least)
    if (yield candidate) return
  }
}

function* candidates(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  const seen = new Set<string>()
  for (const rule of ['short', 'downsample', 'maximal'] as const)
    for (const shape of ['bands', 'squares'] as const) yield* refine(graph, machine, cutAll(graph, rule), shape, seen)
  // A network of which nothing can be tiled still has a plan: what does not fit leaves whole.
  if (!seen.size) {
    const whole = inCoreSegments(graph)
    if (!isLeft(whole)) yield spilling(layOut(graph, whole.right, machine))
  }
}

export const tiled: Planner = (graph, machine) => right(candidates(graph, machine))
