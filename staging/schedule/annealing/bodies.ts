// The ops of a loop for its bits, and the totals that the model reads. In: a problem, a loop, its bits. Out: the ops in order, the values
// that the loop finds and leaves, its seconds and the bytes of its tiles. Both are cached, because a search asks often.
// An op is left out if nobody reads its results before they are computed again.
// Worked example, a backward loop that recomputes relu1 from conv1's output: [norm1 relu1 | relu1's gradient, norm1's sums]. It finds conv1.
import { isRight } from 'fp-ts/Either'
import type { OpId, ValueId } from '../../graph/graph'
import { opDef } from '../../ops/registry'
import { sliceRun } from '../../tile/slices'
import type { Loop, Problem } from './problem'

/** A loop for one set of values that later loops need. */
export interface Running {
  readonly ops: readonly OpId[]
  /** Inputs from other loops or from outside, and outputs that later loops need. */
  readonly finds: readonly ValueId[]
  readonly leaves: readonly ValueId[]
  readonly seconds: number
  /** Kernel calls of one tile. */
  readonly calls: number
  /** Bytes of found and left values, and the peak of all other values. */
  readonly passing: number
  readonly between: number
  /** That peak with scratch, for a loop without tiles. The largest scratch of one op: smaller tiles need it, too. */
  readonly peak: number
  readonly scratch: number
  /** Bytes of parameter gradients. They stay whole from the first tile to the last. */
  readonly gradients: number
  /** All values that must be whole after the loop. */
  readonly keeps: ReadonlySet<ValueId>
}

/** Halos are measured on this number of bands. */
const TELLING = 4

const halos = new WeakMap<Running, number>()

/**
 * Seconds of each further band of rows, for rows that two bands both compute. Infinity if rows cannot be separated.
 * Worked example, two convolutions of 3 x 3 in one loop: the first computes two rows twice at each border.
 */
export const haloSeconds = (p: Problem, r: Running, expands: boolean): number => {
  const there = halos.get(r)
  if (there !== undefined) return there
  const sliced = sliceRun(p.graph, r.ops, { B: 1, H: TELLING, W: 1 }, r.keeps, expands)
  let seconds = Infinity
  if (isRight(sliced)) {
    seconds = 0
    for (const { op, slices } of sliced.right.body) {
      const { anchor } = opDef(p.graph.ops[op]!.kind)
      const rows = slices?.[anchor === 'out' ? p.ins[op]!.length : anchor]?.H
      if (!rows || rows.length < TELLING) continue
      const extent = Math.max(...rows.map(([, to]) => to))
      const computed = rows.reduce((n, [from, to]) => n + to - from, 0)
      seconds += (p.seconds[op]! * Math.max(0, computed / extent - 1)) / (TELLING - 1)
    }
  }
  halos.set(r, seconds)
  return seconds
}

export class Body {
  /** It recomputes a gradient through overlapping windows, so tiles grow. */
  readonly expands: boolean
  private readonly known = new Map<number | string, Running>()
  /** Outputs that other loops may need. */
  readonly crossing: readonly ValueId[]

  constructor(
    private readonly p: Problem,
    readonly ops: readonly OpId[],
    loop: Loop,
  ) {
    const own = new Set(loop.ops)
    this.expands = ops.some((id) => !own.has(id) && p.grows[id] === 1)
    const crossing: ValueId[] = []
    for (const id of ops) for (const v of p.outs[id]!) if (p.crosses[v] === 1) crossing.push(v)
    this.crossing = crossing
  }

  /** The totals for one set of needed values: those that later loops find. */
  running(needed: (v: ValueId) => boolean): Running {
    let [key, high] = [0, 0]
    for (let k = 0; k < this.crossing.length; k++) {
      if (k === BITS) [high, key] = [key, 0]
      key = 2 * key + (needed(this.crossing[k]!) ? 1 : 0)
    }
    const name = this.crossing.length <= BITS ? key : this.crossing.length <= 2 * BITS ? `${high} ${key}` : this.longKey(needed)
    const there = this.known.get(name)
    if (there) return there
    const made = this.run(needed)
    this.known.set(name, made)
    return made
  }

  private longKey(needed: (v: ValueId) => boolean): string {
    return this.crossing.map((v) => (needed(v) ? 1 : 0)).join('')
  }

  private run(needed: (v: ValueId) => boolean): Running {
    const { p } = this
    const { bytes, crosses, isWeightGradient } = p
    const leaves = new Set<ValueId>(this.crossing.filter(needed))
    const reads = new Set<ValueId>()
    const keeps = new Set(leaves)
    const ops: OpId[] = []
    let [seconds, calls, held, between, peak, scratch, gradients] = [0, 0, 0, 0, 0, 0, 0]
    const own = new Set(this.crossing)
    for (let q = this.ops.length - 1; q >= 0; q--) {
      const id = this.ops[q]!
      const outs = p.outs[id]!
      let isLive = outs.length === 0
      for (const v of outs) isLive ||= crosses[v] === 0 || reads.has(v) || leaves.has(v)
      if (!isLive) continue
      ops.push(id)
      seconds += p.seconds[id]!
      calls += 1 + p.sums[id]!
      let made = 0
      for (const v of outs) {
        if (isWeightGradient[v] === 1) gradients += bytes[v]!
        if (crosses[v] === 0) {
          keeps.add(v)
          continue
        }
        const isRead = reads.delete(v)
        if (leaves.has(v)) continue
        if (isRead) held -= bytes[v]!
        made += bytes[v]!
      }
      let taken = 0
      for (const v of p.ins[id]!) {
        if (crosses[v] === 0 || reads.has(v)) continue
        reads.add(v)
        if (leaves.has(v) || !own.has(v)) continue
        held += bytes[v]!
        if (p.inPlace[id] === v) taken = Math.min(made, bytes[v]!)
      }
      between = Math.max(between, held + made - taken)
      peak = Math.max(peak, held + made - taken + p.scratch[id]!)
      scratch = Math.max(scratch, p.scratch[id]!)
    }
    const finds = [...reads]
    let found = 0
    for (const v of finds) found += bytes[v]!
    let left = 0
    for (const v of leaves) left += bytes[v]!
    return {
      ops: ops.reverse(),
      finds,
      leaves: [...leaves],
      seconds,
      calls,
      passing: found + left,
      between,
      peak,
      scratch,
      gradients,
      keeps,
    }
  }
}
const BITS = 50

/** The ops of a loop. Recomputed ops stand before their first reader. */
const opsOf = (p: Problem, loop: Loop, bits: Uint8Array): readonly OpId[] => {
  const out: OpId[] = []
  const made = new Set<OpId>()
  let fresh: OpId[] = []
  const visit = (v: ValueId): void => {
    const maker = p.maker[v]!
    if (maker < 0 || bits[maker] === 0 || loop.mayRepeat[maker] === 0 || made.has(maker)) return
    made.add(maker)
    fresh.push(maker)
    for (const w of p.ins[maker]!) visit(w)
  }
  for (const id of loop.ops) {
    for (const v of p.ins[id]!) visit(v)
    if (fresh.length > 0) {
      out.push(...fresh.sort((a, b) => a - b))
      fresh = []
    }
    out.push(id)
  }
  return out
}

/** Bodies by loop and bits. Bits that give the same ops share one body. */
export class Bodies {
  private readonly byOps: Map<string, Body>[]
  private readonly byBits: WeakMap<Uint8Array, Body>[]

  constructor(private readonly p: Problem) {
    this.byOps = p.loops.map(() => new Map<string, Body>())
    this.byBits = p.loops.map(() => new WeakMap<Uint8Array, Body>())
  }

  of(i: number, bits: Uint8Array): Body {
    const there = this.byBits[i]!.get(bits)
    if (there) return there
    const ops = opsOf(this.p, this.p.loops[i]!, bits)
    const key = ops.join()
    const body = this.byOps[i]!.get(key) ?? new Body(this.p, ops, this.p.loops[i]!)
    this.byOps[i]!.set(key, body)
    this.byBits[i]!.set(bits, body)
    return body
  }
}
