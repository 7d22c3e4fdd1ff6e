// A grid for each loop of the best plan. In: a step with tiled loops, and pages. Out: the same step with other tiles in some loops, kept if the
// simulated step is faster. Planners use one memory limit for all loops, which is not the best for each. A change is tried on all loops, then, if
// that is no better, on each half of them, with the largest possible gain first, while the gain may be worth the work. A grid that needs too much
// memory is excluded for all grids of the other loops. Worked example, four loops in 8 tiles each; the third fills the budget: 4 tiles in all loops
// do not fit; 4 tiles in the first two loops are faster, then 2, then 1.
import { mapped } from '../core/mapped'
import { isRight } from 'fp-ts/Either'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'
import type { Grid, Segment } from '../plan/plan'
import { isTiled, runsOf, segmentsOn } from '../tile/segments'
import { leastPagesOf } from '../schedule/atleast'
import { computeSeconds } from '../schedule/bound'
import type { Candidate, Improver } from '../schedule/candidate'
import { opCosts } from '../schedule/chain'
import type { Layout } from '../schedule/layout'
import { overfullCalls } from '../schedule/stays'

/** The most calls of all layouts together. It bounds the work of the search on any planning machine. */
const MOST_CALLS = 80_000

/** A change of some loops must be able to save this share of the step for each `AFTER_CALLS` calls laid out. */
const WORTH = 1 / 1000
const AFTER_CALLS = 20_000
/** The share of a step's waits that other tiles may save. */
const WAITS = 1 / 10

type Change = (grid: Grid) => Grid | null

/** Returns a grid with fewer bands, then fewer columns, then fewer parts of the batch. Bands come first because halos cost most. */
const fewer =
  (share: number): Change =>
  (grid) => {
    const along = (['H', 'W', 'B'] as const).find((d) => grid[d] > 1)
    if (!along) return null
    const parts = (d: 'B' | 'H' | 'W'): number =>
      d === along ? Math.max(1, Math.min(grid[d] - 1, Math.ceil(grid[d] * share))) : grid[d]
    return { B: parts('B'), H: parts('H'), W: parts('W') }
  }

/** Returns a grid with other tile shapes: one column fewer, or tiles half or twice as wide. Kernels may be faster in one of them. */
const shaped =
  (of: (grid: Grid) => Pick<Grid, 'H' | 'W'>): Change =>
  (grid) => {
    const { H, W } = of(grid)
    return H >= 1 && W >= 1 ? { B: grid.B, H, W } : null
  }

const CHANGES: readonly Change[] = [
  fewer(0.5),
  fewer(0.75),
  fewer(1),
  shaped(({ H, W }) => ({ H, W: W - 1 })),
  shaped(({ H, W }) => ({ H: H >> 1, W: 2 * W })),
  shaped(({ H, W }) => ({ H: 2 * H, W: W >> 1 })),
]

const keyOf = (grids: readonly Grid[]): string => mapped(grids, ({ B, H, W }) => `${B}x${H}x${W}`).join()

class OwnGrids {
  private readonly seen = new Set<string>()
  /** By loop: grids whose tiles need too much memory for any grids of the other loops. */
  private readonly tooLarge: readonly Grid[][]
  private readonly segmentsOn: (grids: readonly Grid[]) => readonly Segment[] | null
  private readonly pages: (s: Segment) => number
  /** By loop: the seconds of its ops in one tile. */
  private readonly wholeSeconds: readonly number[]
  /** By loop: the possible gain of other tiles, which is its seconds beyond one tile and a share of its waits. */
  private gains: readonly number[]
  private calls = 0

  constructor(
    graph: Graph,
    machine: Machine,
    private readonly budgetPages: number,
    { layout }: Candidate,
    private readonly like: NonNullable<Candidate['like']>,
    private grids: readonly Grid[],
    private seconds: number,
  ) {
    const runs = runsOf(graph, layout.segments)
    const on = segmentsOn(graph, runs)
    this.segmentsOn = (all) => {
      const made = on((r) => all[r.group]!)
      return isRight(made) ? made.right : null
    }
    this.pages = leastPagesOf(graph, machine, layout.kinds.includes('home') ? 'home' : 'resident')
    const costs = opCosts(graph, machine)
    this.wholeSeconds = mapped(runs, (r) => r.ops.reduce((n, id) => n + costs[id]!.seconds, 0))
    this.gains = this.gainsOf(layout)
    this.seen.add(keyOf(grids))
    this.tooLarge = mapped(grids, () => [])
  }

  private gainsOf(layout: Layout): readonly number[] {
    const compute = computeSeconds(layout)
    const waits = WAITS * Math.max(0, this.seconds / compute - 1)
    const taken = mapped(this.wholeSeconds, () => 0)
    for (const { segment, seconds } of layout.calls) taken[segment]! += seconds
    return mapped(taken, (s, i) => Math.max(0, s - this.wholeSeconds[i]!) + waits * s)
  }

  /** Returns true if the tiles of this grid are at least as large as tiles that need too much memory. */
  private isTooLarge(i: number, { B, H, W }: Grid): boolean {
    return this.tooLarge[i]!.some((g) => B <= g.B && H <= g.H && W <= g.W)
  }

  /** Records the grids of the loops that exceed the budget even if everything is swapped out that can be. */
  private recordTooLarge(grids: readonly Grid[], { layout: { alike, calls, segments } }: Candidate): void {
    if (segments.length !== grids.length) return
    const full = new Set(mapped(overfullCalls(alike, calls.length, this.budgetPages), (p) => calls[p]!.segment))
    for (const i of full) this.tooLarge[i]!.push(grids[i]!)
  }

  /** Returns true if these grids make the fastest step so far. Then the search continues from them. */
  private *keepIfFaster(grids: readonly Grid[]): Generator<Candidate, boolean, number> {
    const key = keyOf(grids)
    if (this.seen.has(key) || this.calls >= MOST_CALLS) return false
    this.seen.add(key)
    if (grids.some((grid, i) => this.isTooLarge(i, grid))) return false
    const segments = this.segmentsOn(grids)
    if (!segments || segments.some((s) => this.pages(s) > this.budgetPages)) return false
    const candidate = { ...this.like(segments), like: this.like }
    this.calls += candidate.layout.calls.length
    const seconds = yield candidate
    if (candidate.least > this.budgetPages) this.recordTooLarge(grids, candidate)
    if (seconds >= this.seconds) return false
    this.grids = grids
    this.seconds = seconds
    this.gains = this.gainsOf(candidate.layout)
    return true
  }

  /** Changes all of these loops while it makes the step faster, then each half of them. */
  private *change(loops: readonly number[], by: Change): Generator<Candidate, void, number> {
    if (loops.reduce((n, i) => n + this.gains[i]!, 0) < (WORTH * this.seconds * this.calls) / AFTER_CALLS) return
    const chosen = new Set(loops)
    while (yield* this.keepIfFaster(mapped(this.grids, (grid, i) => (chosen.has(i) ? (by(grid) ?? grid) : grid))));
    const middle = loops.length >> 1
    if (middle === 0 || this.calls >= MOST_CALLS) return
    yield* this.change(loops.slice(0, middle), by)
    yield* this.change(loops.slice(middle), by)
  }

  /** The tiled loops, by possible gain, largest first. */
  private get loops(): readonly number[] {
    const { gains } = this
    return [...gains.keys()].filter((i) => isTiled(this.grids[i]!)).sort((a, b) => gains[b]! - gains[a]!)
  }

  *search(): Generator<Candidate, void, number> {
    for (let before = Infinity; this.seconds < (1 - WORTH) * before && this.calls < AFTER_CALLS; ) {
      before = this.seconds
      for (const change of CHANGES) yield* this.change(this.loops, change)
    }
  }
}

/** The search runs only if the calls of this many layouts are within its limit. */
const LEAST_LAYOUTS = 3

export const ownGrids: Improver = function* (graph, machine, budgetPages, best, seconds) {
  const { layout, like } = best
  const grids = mapped(layout.segments, (s) => s.grid)
  if (!like || !grids.some(isTiled) || LEAST_LAYOUTS * layout.calls.length > MOST_CALLS) return
  yield* new OwnGrids(graph, machine, budgetPages, best, like, grids, seconds).search()
}
