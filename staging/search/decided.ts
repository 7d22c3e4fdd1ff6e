// The decisions of a finished plan. In: a problem of the plan's graph, the plan. Out: loops, recomputed ops, tiles and places, and the loop of
// each segment; or null if the plan has other loops, as the plans of the literature may. A segment without tiles is several loops of one atom each.
// Worked example, segments [conv1 norm1], [relu1 conv2] and a backward segment that runs relu1 again: its loop has the bit of relu1.
import { mapped } from '../core/mapped'
import type { OpId, ValueId } from '../graph/graph'
import { type Plan, tilesOf } from '../plan/plan'
import type { Decisions } from './decisions'
import { PREFETCH_RESERVE } from './limits'
import { mayRepeat, type Problem } from './problem'

export interface Decided {
  readonly decisions: Decisions
  /** For the first atom of each loop its number of tiles. */
  readonly tiles: Int32Array
  /** The loop of each segment, or -1 if it is an update or several loops. */
  readonly loopOf: readonly number[]
}

/** Parameters and state with a place in the lower tier. */
const homesOf = ({ storages, cells }: Plan): ReadonlySet<ValueId> =>
  new Set(storages.flatMap((s) => (s.home === undefined ? [] : s.cells.flatMap((c) => cells[c]!.values))))

class Reader {
  readonly ends: Int32Array
  readonly repeats: Uint8Array[]
  readonly tiles: Int32Array
  readonly loopOf: number[] = []
  private readonly isDone: Uint8Array
  /** Ops that each atom has yet to run. */
  private readonly left: Int32Array
  /** The first atom of the next loop, and its segments and repeated ops so far. */
  private next = 0
  private end = 0
  private open: number[] = []
  private again: OpId[] = []
  private most = 1

  constructor(private readonly p: Problem) {
    this.ends = new Int32Array(p.atoms)
    this.tiles = new Int32Array(p.atoms).fill(1)
    const none = new Uint8Array(p.graph.ops.length)
    this.repeats = mapped([...this.ends], () => none)
    this.isDone = new Uint8Array(p.graph.ops.length)
    this.left = Int32Array.from({ length: p.atoms }, (_, k) => p.loopOf(k, k + 1)!.ops.length)
  }

  /** Returns false if the segment does not continue the loops. */
  read(ops: readonly OpId[], tiles: number): boolean {
    const { p, isDone, left } = this
    this.loopOf.push(-1)
    const inLoops = ops.filter((id) => p.loopOf(p.atomOf[id]!, p.atomOf[id]! + 1)!.ops.includes(id))
    if (inLoops.length === 0) return true
    this.open.push(this.loopOf.length - 1)
    this.most = Math.max(this.most, tiles)
    for (const id of inLoops) {
      if (isDone[id] === 1) this.again.push(id)
      else {
        isDone[id] = 1
        const atom = p.atomOf[id]!
        left[atom]!--
        if (atom < this.next) return false
        this.end = Math.max(this.end, atom + 1)
      }
    }
    if (this.end === this.next) return true
    for (let k = this.next; k < this.end; k++) if (left[k]! > 0) return true
    this.close()
    return true
  }

  private close(): void {
    const { p, next, end, most, again, open } = this
    const isOne = p.loopOf(next, end) !== null
    for (let from = next; from < end; from = isOne ? end : from + 1) {
      const to = isOne ? end : from + 1
      const loop = p.loopOf(from, to)!
      this.ends[from] = to
      this.tiles[from] = most
      const bits = new Uint8Array(p.graph.ops.length)
      for (const id of again) if (mayRepeat(p.atomOf, loop, id)) bits[id] = 1
      this.repeats[from] = bits
      if (isOne) for (const s of open) this.loopOf[s] = from
    }
    this.next = end
    this.open = []
    this.again = []
    this.most = 1
  }

  get isWhole(): boolean {
    return this.next === this.p.atoms
  }
}

export const decidedIn = (p: Problem, plan: Plan): Decided | null => {
  const reader = new Reader(p)
  for (const { body, grid } of plan.segments)
    if (
      !reader.read(
        mapped(body, (step) => step.op),
        tilesOf(grid),
      )
    )
      return null
  if (!reader.isWhole) return null
  const homes = homesOf(plan)
  const { ends, repeats, tiles, loopOf } = reader
  return {
    decisions: {
      ends,
      repeats,
      tileBytes: new Float64Array(p.atoms).fill(Infinity),
      reserves: new Float64Array(p.atoms).fill(PREFETCH_RESERVE),
      away: Uint8Array.from(p.units, (unit) => (unit.flat().some((v) => homes.has(v)) ? 1 : 0)),
    },
    tiles,
    loopOf,
  }
}
