// The parts of an operand that parts of an op touch. In: an op of a graph. Out: factors that hold for each set of tiles. A part p of the anchor
// touches at least `reads * p` of the operand. A part q of the operand needs at least `needs * q` of the anchor. The whole anchor touches `all` of
// the operand. Worked example, windows of 2 rows every 2 rows over 7 rows: 3 rows of the anchor touch 6 of 7. One row touches 2 of 7, less than a
// third: reads = 6/7. Row 7 needs no row of the anchor: needs = 0.
import { dimIndex } from '../core/box'
import { onceForPair } from '../core/remember'
import type { Graph, Op, ValueId } from '../graph/graph'
import { type Access, type AccessMap, touched } from '../ops/op'
import { opDef } from '../ops/registry'
import { operandsOf, TILED_DIMS } from '../tile/slices'

export interface Coverage {
  readonly reads: number
  readonly needs: number
  readonly all: number
  /** The operand's shape with each dimension times its own `reads`. */
  readonly least: readonly number[]
}

type Along = Omit<Coverage, 'least'>

const WHOLE: Along = { reads: 1, needs: 1, all: 1 }

/** Rows [from, to) of the operand for each row of the anchor. */
interface Rows {
  readonly from: Float64Array
  readonly to: Float64Array
  readonly extent: number
}

const rises = (xs: Float64Array): boolean => xs.every((x, i) => i === 0 || x >= xs[i - 1]!)

/** Returns true if each run of rows touches at least `ratio` times its share. The worst set of rows is a run, because rows are in order. */
const isCovered = ({ from, to, extent }: Rows, ratio: number): boolean => {
  const step = (ratio * extent) / from.length
  let most = -Infinity
  for (let i = 0; i < from.length; i++) {
    most = Math.max(most, from[i]! - i * step)
    if (to[i]! - (i + 1) * step < most - 1e-9 * extent) return false
  }
  return true
}

const HALVINGS = 20

const leastRatio = (rows: Rows): number => {
  if (!rises(rows.from) || !rises(rows.to)) return leastByCount(rows)
  if (isCovered(rows, 1)) return 1
  let [low, high] = [0, 1]
  for (let i = 0; i < HALVINGS; i++) {
    const mid = (low + high) / 2
    if (isCovered(rows, mid)) low = mid
    else high = mid
  }
  return low
}

/** For mirrored rows: the fewest rows that one row touches, divided by the most rows that touch the same one. */
const leastByCount = ({ from, to, extent }: Rows): number => {
  const change = new Int32Array(extent + 1)
  let fewest = Infinity
  from.forEach((f, i) => {
    fewest = Math.min(fewest, to[i]! - f)
    change[f]!++
    change[to[i]!]!--
  })
  let [now, most] = [0, 0]
  for (const c of change) {
    now += c
    most = Math.max(most, now)
  }
  return Math.min(1, (fewest / most) * (from.length / extent))
}

const touchedShare = ({ from, to, extent }: Rows): number => {
  const change = new Int32Array(extent + 1)
  from.forEach((f, i) => {
    if (f >= to[i]!) return
    change[f]!++
    change[to[i]!]!--
  })
  let [now, count] = [0, 0]
  for (let i = 0; i < extent; i++) {
    now += change[i]!
    if (now > 0) count++
  }
  return count / extent
}

/** Returns the same relation from the operand to the anchor. Rows that no row of the anchor touches have none. */
const inverted = ({ from, to, extent }: Rows): Rows => {
  const first = new Float64Array(extent).fill(Infinity)
  const last = new Float64Array(extent).fill(-Infinity)
  from.forEach((f, i) => {
    for (let d = f; d < to[i]!; d++) {
      if (i < first[d]!) first[d] = i
      if (i + 1 > last[d]!) last[d] = i + 1
    }
  })
  return { from: first, to: last, extent: from.length }
}

const known = new Map<string, Along>()

const alongDim = (access: Access, anchor: number, extent: number): Along => {
  if (access.tag === 'all' || access.tag === 'reduce') return WHOLE
  if ((access.tag === 'same' || access.tag === 'inside') && anchor === extent) return WHOLE
  const key = JSON.stringify([access, anchor, extent])
  const before = known.get(key)
  if (before) return before
  const rows: Rows = { from: new Float64Array(anchor), to: new Float64Array(anchor), extent }
  for (let i = 0; i < anchor; i++) {
    const [from, to] = touched(access, [i, i + 1], extent)
    rows.from[i] = Math.min(extent, Math.max(0, from))
    rows.to[i] = Math.min(extent, Math.max(rows.from[i]!, to))
  }
  const back = inverted(rows)
  const made = {
    reads: leastRatio(rows),
    needs: back.from.every((f) => Number.isFinite(f)) ? leastRatio(back) : 0,
    all: touchedShare(rows),
  }
  known.set(key, made)
  return made
}

const between = (anchor: readonly number[], operand: readonly number[], access: AccessMap): Coverage => {
  const least = [...operand]
  let [reads, needs, all] = [1, 1, 1]
  for (const d of TILED_DIMS) {
    const k = dimIndex[d]
    const along = alongDim(access[d], anchor[k] ?? 1, operand[k] ?? 1)
    if (k < least.length) least[k]! *= along.reads
    reads *= along.reads
    needs *= along.needs
    all *= along.all
  }
  return { reads, needs, all, least }
}

/** Returns the value whose box is the iteration space. */
export const anchorOf = (op: Op): ValueId | undefined => {
  const { anchor } = opDef(op.kind)
  return anchor === 'out' ? op.outs[0] : op.ins[anchor]
}

/** Returns the coverage by operand, inputs first; null if each tile reads the operand whole, or the op has no box. */
export const coverageOf = onceForPair((graph: Graph, op: Op): readonly (Coverage | null)[] => {
  const { ins, outs } = operandsOf(graph, op)
  const anchor = anchorOf(op)
  const shape = (v: ValueId): readonly number[] => graph.values[v]!.shape
  const whole = [...ins, ...outs].find((o) => o.value === anchor)?.access === null
  return [...ins, ...outs].map(({ value, access }) =>
    access === null || anchor === undefined || whole ? null : between(shape(anchor), shape(value), access),
  )
})
