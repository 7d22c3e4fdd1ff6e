// A grid of its own for each loop of the best plan. In: a step with tiled loops, and pages. Out: the same step with other tiles in some, kept if the
// simulator says that it is faster: planners give all loops one limit. A change is tried on all loops, then, if that is no better, on either half of
// them, first those with the largest possible gain, and so on, as long as the gain may be worth the work; a grid that holds too much is too large for
// any tiles of the others. Worked example, four loops in 8 tiles each; the third fills the budget: all in 4 are no plan; the first two in 4 are a
// faster one, then in 2, then whole.
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

/** Calls of all layouts together: the work of the search, on any planning machine. */
const MOST_CALLS = 80_000

/** The least share of a step that other tiles of some loops must be able to win after this number of calls. */
const WORTH = 1 / 1000
const AFTER_CALLS = 20_000
/** The share of a step's waits that other tiles may win. */
const WAITS = 1 / 10

type Change = (grid: Grid) => Grid | null

/** Fewer bands, then fewer columns, then fewer parts of the batch: halos are dearest. */
const fewer =
  (share: number): Change =>
  (grid) => {
    const along = (['H', 'W', 'B'] as const).find((d) => grid[d] > 1)
    if (!along) return null
    const parts = (d: 'B' | 'H' | 'W'): number =>
      d === along ? Math.max(1, Math.min(grid[d] - 1, Math.ceil(grid[d] * share))) : grid[d]
    return { B: parts('B'), H: parts('H'), W: parts('W') }
  }

/** One column fewer, or as many tiles that are half or twice as wide: kernels may be quicker on one of them. */
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
  /** For each loop its grids with too large tiles, for any grids of the others. */
  private readonly tooLarge: readonly Grid[][]
  private readonly segmentsOn: (grids: readonly Grid[]) => readonly Segment[] | null
  private readonly pages: (s: Segment) => number
  /** The seconds of its ops in one tile. */
  private readonly wholeSeconds: readonly number[]
  /** The possible gain of its other tiles: its seconds beyond one tile, and a share of its waits. */
  private wins: readonly number[]
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
    this.wins = this.winsOf(layout)
    this.seen.add(keyOf(grids))
    this.tooLarge = mapped(grids, () => [])
  }

  private winsOf(layout: Layout): readonly number[] {
    const compute = computeSeconds(layout)
    const waits = WAITS * Math.max(0, this.seconds / compute - 1)
    const taken = mapped(this.wholeSeconds, () => 0)
    for (const { segment, seconds } of layout.calls) taken[segment]! += seconds
    return mapped(taken, (s, i) => Math.max(0, s - this.wholeSeconds[i]!) + waits * s)
  }

  /** No tile of it is smaller than one that holds too much. */
  private isTooLarge(i: number, { B, H, W }: Grid): boolean {
    return this.tooLarge[i]!.some((g) => B <= g.B && H <= g.H && W <= g.W)
  }

  /** The loops for which there is too little memory, even where all leaves that may. */
  private learn(grids: readonly Grid[], { layout: { planned, calls, segments } }: Candidate): void {
    if (segments.length !== grids.length) return
    const full = new Set(mapped(overfullCalls(planned, calls.length, this.budgetPages), (p) => calls[p]!.segment))
    for (const i of full) this.tooLarge[i]!.push(grids[i]!)
  }

  /** Returns true if it is faster: then the search continues from it. */
  private *look(grids: readonly Grid[]): Generator<Candidate, boolean, number> {
    const key = keyOf(grids)
    if (this.seen.has(key) || this.calls >= MOST_CALLS) return false
    this.seen.add(key)
    if (grids.some((grid, i) => this.isTooLarge(i, grid))) return false
    const segments = this.segmentsOn(grids)
    if (!segments || segments.some((s) => this.pages(s) > this.budgetPages)) return false
    const candidate = { ...this.like(segments), like: this.like }
    this.calls += candidate.layout.calls.length
    const seconds = yield candidate
    if (candidate.least > this.budgetPages) this.learn(grids, candidate)
    if (seconds >= this.seconds) return false
    this.grids = grids
    this.seconds = seconds
    this.wins = this.winsOf(candidate.layout)
    return true
  }

  /** On all of these loops for as long as it helps, then on either half. */
  private *change(loops: readonly number[], by: Change): Generator<Candidate, void, number> {
    if (loops.reduce((n, i) => n + this.wins[i]!, 0) < (WORTH * this.seconds * this.calls) / AFTER_CALLS) return
    const chosen = new Set(loops)
    while (yield* this.look(mapped(this.grids, (grid, i) => (chosen.has(i) ? (by(grid) ?? grid) : grid))));
    const middle = loops.length >> 1
    if (middle === 0 || this.calls >= MOST_CALLS) return
    yield* this.change(loops.slice(0, middle), by)
    yield* this.change(loops.slice(middle), by)
  }

  /** Those that may win most first. */
  private get loops(): readonly number[] {
    const { wins } = this
    return [...wins.keys()].filter((i) => isTiled(this.grids[i]!)).sort((a, b) => wins[b]! - wins[a]!)
  }

  *search(): Generator<Candidate, void, number> {
    for (let before = Infinity; this.seconds < (1 - WORTH) * before && this.calls < AFTER_CALLS; ) {
      before = this.seconds
      for (const change of CHANGES) yield* this.change(this.loops, change)
    }
  }
}

/** Layouts that are too many calls each for a search of several. */
const TRIED = 3

export const ownGrids: Improver = function* (graph, machine, budgetPages, best, seconds) {
  const { layout, like } = best
  const grids = mapped(layout.segments, (s) => s.grid)
  if (!like || !grids.some(isTiled) || TRIED * layout.calls.length > MOST_CALLS) return
  yield* new OwnGrids(graph, machine, budgetPages, best, like, grids, seconds).search()
}
