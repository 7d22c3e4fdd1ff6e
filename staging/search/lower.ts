// Decisions as segments and as a candidate. In: the model with its decisions. Out: the segments of the step. This is the only lowering of the
// search. The number of tiles is that of the model. Each loop is sliced once for each grid.
// Worked example: a loop with a batch of 8 and four tiles gets tiles of two images.
import { isLeft } from 'fp-ts/Either'
import { mapped } from '../core/mapped'
import type { OpId, ValueId } from '../graph/graph'
import { homesIn } from '../memory/homes'
import type { Grid, Segment } from '../plan/plan'
import { tilesOf, UNTILED } from '../plan/plan'
import { swapUntil } from '../schedule/belady'
import { type Candidate, inRows, leavingOf } from '../schedule/candidate'
import { cutForLink } from '../schedule/activations'
import { layOut } from '../schedule/layout'
import type { PlannedStays } from '../schedule/stays'
import { withoutDead } from '../schedule/rerun'
import { updatedByRows } from '../tile/byrows'
import { gridsFor, isLegalGrid } from '../tile/gridfor'
import { liveness, type RunLiveness } from '../tile/liveness'
import { type KnownSegments, type Run, segmentsOn } from '../tile/segments'
import type { Model } from './model'
import type { Problem } from './problem'

export interface Lowered {
  readonly segments: readonly Segment[]
  /** Parameters and state of the lower tier. */
  readonly homes: ReadonlyMap<ValueId, ValueId>
  /** For each segment its loop, or -1 for an update by rows. */
  readonly loopOf: readonly number[]
}

export class Lowering {
  private readonly known: KnownSegments = new Map()
  private readonly grids = new Map<string, (tiles: number) => Grid>()

  constructor(private readonly model: Model) {}

  /** The segments of the model's current decisions. */
  segments(): Lowered | null {
    const { p, bodies, bits, tiles, heads, loops, away } = this.model
    const { graph } = p
    const parts = withoutDead(
      graph,
      heads.flatMap((i) => {
        const loop = loops[i]!
        const { ops, expands } = bodies.of(loop, bits[i]!)
        return [
          { phase: loop.phase, ops, loop: i, loops: true, expands },
          {
            phase: loop.phase === 'forward' ? ('forward' as const) : ('update' as const),
            ops: loop.after,
            loop: i,
            loops: false,
            expands: false,
          },
        ]
      }),
    )
    const live = liveness(
      graph,
      mapped(parts, (q) => q.ops),
    )
    const grids = mapped(parts, ({ loops, ops, expands }, k): ((tiles: number) => Grid) => {
      if (!loops) return () => UNTILED
      const key = `${expands ? '+' : ''}${ops.join()}|${[...live[k]!.inputs].join()}|${[...live[k]!.outputs].join()}`
      const there = this.grids.get(key) ?? this.legal(ops, live[k]!, expands)
      this.grids.set(key, there)
      return there
    })
    const runs = mapped(parts, ({ phase, ops, expands }, group): Run => ({ phase, group, grid: UNTILED, ops: [...ops], expands }))
    const made = segmentsOn(
      graph,
      runs,
      this.known,
    )((r) => (r.phase === 'update' ? UNTILED : grids[r.group]!(tiles[parts[r.group]!.loop]!)))
    if (isLeft(made)) return null
    const homes = homesOf(p, away)
    const segments = homes.size > 0 ? updatedByRows(graph, made.right, (v) => homes.has(v)) : made.right
    const byOps = new Map(mapped(parts, ({ ops, loop }) => [ops.join(), loop] as const))
    return { segments, homes, loopOf: mapped(segments, (s) => byOps.get(s.body.map((b) => b.op).join()) ?? -1) }
  }

  /** Illegal grids become no tiles. */
  private legal(ops: readonly OpId[], live: RunLiveness, expands: boolean): (tiles: number) => Grid {
    const { graph } = this.model.p
    const grids = gridsFor(graph, ops, live, expands)
    const known = new Map<string, Grid>()
    return (tiles) => {
      const grid = grids(tiles)
      const key = `${grid.B} ${grid.H} ${grid.W}`
      const legal = known.get(key) ?? (tilesOf(grid) === 1 || isLegalGrid(graph, ops, live, grid, expands) ? grid : UNTILED)
      known.set(key, legal)
      return legal
    }
  }

  candidate({ segments, homes, loopOf }: Lowered): Candidate {
    const { p, reserves } = this.model
    const { graph, machine } = p
    // An update by rows has the reserve of the loop before it.
    const roomOf = loopOf.reduce<number[]>((known, i) => {
      known.push(i < 0 ? (known[known.length - 1] ?? 0) : reserves[i]!)
      return known
    }, [])
    const like = (of: readonly Segment[], g = graph): Candidate => {
      const whole = inRows(cutForLink(layOut(g, of, machine, { packing: 'dense', persistents: homes }), machine.link), machine)
      const { layout } = whole
      // Other segments differ at the beginning of the step.
      const more = of.length - roomOf.length
      const fit = (pages: number): readonly PlannedStays[] =>
        swapUntil(
          layout.planned,
          layout.calls,
          Int32Array.from(layout.calls, (c) => Math.floor((1 - roomOf[Math.max(0, c.segment - more)]!) * pages)),
          leavingOf(machine),
        )
      return { ...whole, fit }
    }
    return { ...like(segments), like }
  }
}

/** The parameters and state of the lower tier, each with the first value of its storage. */
export const homesOf = ({ units }: Problem, away: Uint8Array): ReadonlyMap<ValueId, ValueId> =>
  homesIn(units.filter((_, k) => away[k] === 1))
