// Other borders of the best plan, if all its segments are tiled. In: its segments. Out: the same step with two segments joined, one split, or a
// border moved: one change at a time, kept if the simulated step is faster. `tiled` chooses borders by an estimate of crossing bytes. Only the
// simulator knows how much of their copies the compute hides. Worked example, [c1 c2 | c3 c4]: no compute hides the copy of c2's result; [c1 c2 c3 |
// c4] waits for less.
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { tilesOf } from '../plan/plan'
import type { ForwardPieces } from '../tile/pieces'
import { type ChosenSegment, tilingSeconds } from '../tile/segmentation'
import type { Candidate, Improver } from '../schedule/candidate'
import { forwardPieces, inTiles } from '../schedule/tiled'

type Tiles = readonly ChosenSegment[]

/** The most calls of all layouts together. It bounds the work of the search on any planning machine. */
const MOST_CALLS = 100_000

/** Returns the segments after a change of the i-th; null if the change is impossible. */
type Change = (tiles: Tiles, i: number) => Tiles | null

const replaced = (tiles: Tiles, i: number, n: number, ...by: readonly ChosenSegment[]): Tiles => [
  ...tiles.slice(0, i),
  ...by,
  ...tiles.slice(i + n),
]

const joined: Change = (tiles, i) => {
  const [a, b] = [tiles[i]!, tiles[i + 1]]
  return b ? replaced(tiles, i, 2, { from: a.from, to: b.to, grid: tilesOf(a.grid) < tilesOf(b.grid) ? b.grid : a.grid }) : null
}

const split: Change = (tiles, i) => {
  const s = tiles[i]!
  const middle = (s.from + s.to) >> 1
  return middle > s.from ? replaced(tiles, i, 1, { ...s, to: middle }, { ...s, from: middle }) : null
}

/** Moves the border after a segment by `by` pieces. */
const shifted =
  (by: number): Change =>
  (tiles, i) => {
    const [a, b] = [tiles[i]!, tiles[i + 1]]
    const at = a.to + by
    return b && at > a.from && at < b.to ? replaced(tiles, i, 2, { ...a, to: at }, { ...b, from: at }) : null
  }

const CHANGES = [joined, shifted(-1), shifted(1), split]

const keyOf = (tiles: Tiles): string => tiles.map(({ from, grid: { B, H, W } }) => `${from}:${B}x${H}x${W}`).join()

/** Returns the indices of the segments, by the cost of their tiles, largest first. */
const orderOf = (pieces: ForwardPieces, tiles: Tiles): readonly number[] => {
  const costs = tiles.map(({ from, to, grid }) => tilingSeconds(pieces.span(from, to - 1), grid, pieces.launchSeconds))
  return [...costs.keys()].sort((a, b) => costs[b]! - costs[a]!)
}

/** Applies each change to each segment, repeatedly while it makes the step faster. */
function* changed(graph: Graph, machine: Machine, first: Tiles, toBeat: number): Generator<Candidate, void, number> {
  const pieces = forwardPieces(graph, machine)
  const seen = new Set([keyOf(first)])
  let [tiles, least, calls] = [first, toBeat, 0]
  /** Returns true if these segments make the fastest step so far. Then the search continues from them. */
  const keepIfFaster = function* (next: Tiles): Generator<Candidate, boolean, number> {
    const key = keyOf(next)
    if (seen.has(key) || calls >= MOST_CALLS) return false
    seen.add(key)
    const candidate = inTiles(graph, machine, next)
    if (!candidate) return false
    const seconds = yield candidate
    if (candidate.isLaidOut) calls += candidate.layout.calls.length
    if (seconds >= least) return false
    ;[tiles, least] = [next, seconds]
    return true
  }
  for (let before = Infinity; least < before; ) {
    before = least
    for (const i of orderOf(pieces, tiles))
      for (const change of CHANGES)
        for (let more = true; more; ) {
          const next = i < tiles.length ? change(tiles, i) : null
          more = next !== null && (yield* keepIfFaster(next))
        }
  }
}

export const otherBorders: Improver = function* (graph, machine, _, { tiles }, seconds) {
  if (tiles) yield* changed(graph, machine, tiles, seconds)
}
