// `tiled` (paper 3): segments and grids by cost (tile/segmentation.ts), tiles as small as the budget demands. Checkpoints that do not fit leave by
// bands. In: the training graph. Out: candidates over a geometric range of limits to a tile's working set, two prices for values that cross between
// segments (nothing; the link's time), and two shapes; the simulator chooses. Free crossings give short segments with small halos; dear ones give
// long segments that keep little.
import { mapped } from '../core/mapped'
import * as E from 'fp-ts/Either'
import { PAGE_BYTES } from '../core/bytes'
import { type Graph, trains } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { type Segment, tilesOf } from '../plan/plan'
import { type ForwardPieces, piecesOf } from '../tile/pieces'
import { type ChosenSegment, segmentation, type SegmentationRules, type PieceRun } from '../tile/segmentation'
import { assembledRuns, type Group, slicedRuns } from '../tile/segments'
import { atLeastOfRunning, callSeconds, launchSeconds, type Running } from './atleast'
import { type Candidate, type Deferred, deferred, type Finest, type Planner, swappingOnDemand } from './candidate'
import { opCosts } from './chain'
import { inCoreRows } from './incore'
import { layOut, packedAs } from './layout'
import type { Packing } from '../memory/place'
import { onceFor } from './remember'
import { sharing } from './sharing'

const TILE_SIZES = 12
/** The usual limit of tiles for training steps, and for predictions, whose images may be larger. If nothing fits, more tiles are listed. */
const usualTiles = (graph: Graph): number => (trains(graph) ? 512 : 2048)

export interface TiledOptions {
  /** Borders also depend on the price of a crossing. */
  readonly crossings: boolean
  /** Squares in addition to bands. */
  readonly squares: boolean
  /** Pieces are joined into segments; otherwise each piece between clean cuts is one. */
  readonly join: boolean
}
export const TILED: TiledOptions = { crossings: true, squares: true, join: true }

export const forwardPieces = onceFor((graph, machine) => piecesOf(graph, opCosts(graph, machine), launchSeconds(machine)))

/** Tiles of a segment lie inside one run. If no run works on more than the limit, nothing is tiled. */
const mostInARun = onceFor((graph, machine): number => {
  const p = forwardPieces(graph, machine)
  const first = new Map<number, number>()
  let most = 0
  p.pieces.forEach(({ run }, i) => {
    if (!first.has(run)) first.set(run, i)
    if (p.pieces[i + 1]?.run !== run) most = Math.max(most, p.span(first.get(run)!, i).workBytes)
  })
  return most
})

const groupsOf = (p: ForwardPieces, chosen: readonly ChosenSegment[]): readonly Group[] =>
  mapped(chosen, ({ from, to, grid }) => ({ ops: p.ops.slice(from, to).flatMap((ops) => mapped(ops, (o) => o.id)), grid }))

interface StepInTiles {
  readonly candidate: Deferred
  readonly calls: number
  readonly isLegal: () => boolean
  /** Only candidates that are not excluded by the bound for their calls alone. */
  readonly isSliced: () => boolean
}

const stepInTiles = (graph: Graph, machine: Machine, tiles: readonly ChosenSegment[], packing: Packing): StepInTiles => {
  const runs = assembledRuns(graph, groupsOf(forwardPieces(graph, machine), tiles))
  const running = mapped(runs, ({ grid, ops }): Running => ({ grid, body: mapped(ops, (op) => ({ op })) }))
  let made: readonly Segment[] | null | undefined
  const segments = (): readonly Segment[] | null => {
    if (made === undefined) made = E.getOrElseW(() => null)(slicedRuns(graph, runs))
    return made
  }
  // Illegal tiles need more pages than exist, and are never laid out.
  const like = (of: readonly Segment[], g = graph): Candidate => swappingOnDemand(layOut(g, of, machine, { packing }), machine)
  const candidate = deferred(callSeconds(graph, running, machine), () => like(segments()!), {
    tiles,
    like,
    atLeast: () => atLeastOfRunning(graph, running, segments, machine, 'resident'),
  })
  const calls = runs.reduce((n, r) => n + tilesOf(r.grid) * r.ops.length, 0)
  return { candidate, calls, isLegal: () => segments() !== null, isSliced: () => made !== undefined }
}

/** The step in these tiles; null if they are not legal. */
export const inTiles = (graph: Graph, machine: Machine, tiles: readonly ChosenSegment[]): Deferred | null => {
  const { candidate, isLegal } = stepInTiles(graph, machine, tiles, 'rows')
  return isLegal() ? candidate : null
}

/** Each piece alone, on the grid that the rules give. */
const apart = (p: ForwardPieces, rules: SegmentationRules): readonly ChosenSegment[] =>
  p.pieces.flatMap((piece, i) => {
    const here = (): PieceRun => p.span(i, i)
    const one = segmentation({ ...p, pieces: [piece], span: here, spanReused: here }, rules)
    return mapped(one, ({ grid }) => ({ from: i, to: i + 1, grid }))
  })

/** Finer and finer tiles, until one fits without waits or two candidates in a row need no fewer pages. */
function* refine(
  graph: Graph,
  machine: Machine,
  o: TiledOptions,
  rules: Omit<SegmentationRules, 'limitBytes'>,
  seen: Set<string>,
  packing: Packing,
): Generator<Candidate, void, boolean> {
  const p = forwardPieces(graph, machine)
  const whole = p.span(0, p.pieces.length - 1).workBytes
  const most = mostInARun(graph, machine)
  let least = Infinity
  let idle = 0
  for (let i = 1; i <= TILE_SIZES && idle < 2; i++) {
    const limited = { ...rules, limitBytes: whole / 2 ** i }
    // A deep network has short runs, and many of them.
    if (most <= limited.limitBytes) continue
    const chosen = o.join ? segmentation(p, limited) : apart(p, limited)
    const key = mapped(chosen, (s) => `${s.from}:${s.grid.B}x${s.grid.H}x${s.grid.W}`).join()
    const tiles = mapped(chosen, (s) => tilesOf(s.grid))
    if (seen.has(key) || Math.max(...tiles) === 1 || Math.max(...tiles) > usualTiles(graph)) continue
    seen.add(key)
    const { candidate, isSliced, isLegal } = stepInTiles(graph, machine, chosen, packing)
    if (yield candidate) return
    // A candidate with too much compute cannot win, so its pages do not matter. Illegal tiles have no pages.
    if (!isSliced() || !isLegal()) continue
    const { pages } = candidate.atLeast!
    idle = pages < least ? 0 : idle + 1
    least = Math.min(least, pages)
  }
}

/** More tiles than usual, from coarse to fine. A working set below one page needs no fewer pages. */
function* finest(graph: Graph, machine: Machine, mostCalls: number): Generator<Candidate, number | undefined, boolean> {
  const p = forwardPieces(graph, machine)
  const whole = p.span(0, p.pieces.length - 1).workBytes
  const seen = new Set<string>()
  let tooMany: number | undefined
  for (let limitBytes = whole / 2; limitBytes >= PAGE_BYTES; limitBytes /= 2)
    for (const bandsOnly of [true, false]) {
      const chosen = segmentation(p, { limitBytes, secondsPerCrossingByte: 0, bandsOnly })
      const key = mapped(chosen, (s) => `${s.from}:${s.grid.B}x${s.grid.H}x${s.grid.W}`).join()
      if (seen.has(key) || Math.max(...mapped(chosen, (s) => tilesOf(s.grid))) <= usualTiles(graph)) continue
      seen.add(key)
      const { candidate, calls, isLegal } = stepInTiles(graph, machine, chosen, 'rows')
      if (calls > mostCalls) tooMany = Math.min(calls, tooMany ?? Infinity)
      else if (isLegal()) yield candidate
    }
  return tooMany
}

export const tiledFinest: Finest = finest

function* candidates(
  graph: Graph,
  machine: Machine,
  o: TiledOptions,
  packing: Packing = 'rows',
): Generator<Candidate, void, boolean> {
  const seen = new Set<string>()
  const { outBytesPerSecond, inBytesPerSecond } = machine.link
  const onLink = 1 / outBytesPerSecond + 1 / inBytesPerSecond
  for (const secondsPerCrossingByte of o.crossings ? [0, onLink] : [0])
    for (const bandsOnly of o.squares ? [true, false] : [true])
      yield* refine(graph, machine, o, { secondsPerCrossingByte, bandsOnly }, seen, packing)
  // A network that cannot be tiled still has a plan: values that do not fit are swapped out whole.
  if (!seen.size) yield swappingOnDemand(packedAs(inCoreRows(graph, machine), packing), machine)
}

/** The same tiles on shared pages, if many values are smaller than a page. */
export const tiledSmall: Planner = (graph, machine) => E.right(small(graph, machine))

function* small(graph: Graph, machine: Machine): Generator<Candidate, void, boolean> {
  if (sharing(inCoreRows(graph, machine))) yield* candidates(graph, machine, TILED, 'shared')
}

export const tiled =
  (options: Partial<TiledOptions> = {}): Planner =>
  (graph, machine) =>
    E.right(candidates(graph, machine, { ...TILED, ...options }))
