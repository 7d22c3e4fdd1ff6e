// The ops of a loop for its bits, and the totals that the model reads. In: a problem, a loop, its bits. Out: the ops in order, the inputs and results
// of the loop, its seconds and the bytes of its tiles. Both are cached, because a search reads them often.
// An op is left out if nobody reads its results before they are computed again.
// Worked example, a backward loop that recomputes relu1 from conv1's output: [norm1 relu1 | relu1's gradient, norm1's sums]. Its input is conv1's output.
import { isRight } from 'fp-ts/Either'
import { mapped } from '../core/mapped'
import type { OpId, ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import type { Step } from '../plan/plan'
import { sliceRun } from '../tile/slices'
import { bytesOf } from '../core/bytes'
import { PART_PAGES } from '../memory/touches'
import { type Loop, mayRepeat, type Problem } from './problem'

/** The bytes that are swapped together. */
export const PART = bytesOf(PART_PAGES.usual)

/** Memory of a loop. */
interface Peak {
  /** In tiles: the most bytes of values inside the loop, which share one space, and of inputs and results that are held together. */
  readonly bytes: number
  /** Without tiles: the most bytes of all at an op, with its scratch. Values that no op needs then may be in the lower tier. */
  readonly peak: number
  /** Without tiles: the most bytes at an op beside all results. Results that are not computed yet make it smaller. */
  readonly beside: number
  /** The largest scratch of an op. Smaller tiles need it, too. */
  readonly scratch: number
  /** Bytes of inputs and of results when their sum is largest. */
  readonly inputBytes: number
  readonly resultBytes: number
  /** At most a part of each input and result. Two tiles that meet in a part both need it, so it stays between them. */
  readonly inputParts: number
  readonly resultParts: number
  /** The numbers of these values that waste a part of a page. */
  readonly inputCount: number
  readonly resultCount: number
}

/** A loop for one set of values that later loops need. */
export interface LoopTotals extends Peak {
  readonly ops: readonly OpId[]
  /** Inputs from other loops or from outside, and outputs that later loops need. */
  readonly inputs: readonly ValueId[]
  readonly results: readonly ValueId[]
  /** For each input 1 if the loop also recomputes it. */
  readonly isRecomputed: Uint8Array
  readonly seconds: number
  /** Kernel calls of one tile. */
  readonly calls: number
  /** Its calls that add up sums of tiles. They come beside fills of the sums. */
  readonly sums: number
  /** All values that must be whole after the loop. */
  readonly keeps: ReadonlySet<ValueId>
}

/** Seconds and bytes of a further band of rows, for rows that two bands both touch. */
export interface Halo {
  /** Infinity if rows cannot be separated. */
  readonly seconds: number
  /** The most bytes of these rows at one op. */
  readonly bytes: number
}

/** Halos are measured on this number of bands. */
const FEW_BANDS = 4
const NO_ROWS: Halo = { seconds: Infinity, bytes: 0 }

const halos = new WeakMap<LoopTotals, Halo>()

/**
 * The halo of a loop.
 * Worked example, two convolutions of 3 x 3 in one loop: the first computes two rows twice at each border, and reads four.
 */
export const haloOf = (p: Problem, r: LoopTotals, expands: boolean): Halo => {
  const there = halos.get(r)
  if (there) return there
  const sliced = sliceRun(p.graph, r.ops, { B: 1, H: FEW_BANDS, W: 1 }, r.keeps, expands)
  const halo = isRight(sliced) ? sharedRows(p, sliced.right.body) : NO_ROWS
  halos.set(r, halo)
  return halo
}

const sharedRows = (p: Problem, body: readonly Step[]): Halo => {
  let seconds = 0
  const last = new Map<ValueId, number>()
  /** By op and value: the bytes of the largest band beyond an even share. */
  const shared = mapped(body, ({ op, slices }, k) => {
    const { anchor } = opDef(p.graph.ops[op]!.kind)
    const values = [...p.ins[op]!, ...p.outs[op]!]
    const rows = slices?.[anchor === 'out' ? p.ins[op]!.length : anchor]?.H
    if (rows && rows.length === FEW_BANDS) {
      const extent = Math.max(...rows.map(([, to]) => to))
      const computed = rows.reduce((n, [from, to]) => n + to - from, 0)
      seconds += (p.seconds[op]! * Math.max(0, computed / extent - 1)) / (FEW_BANDS - 1)
    }
    return mapped(values, (value, i) => {
      const ranges = slices?.[i]?.H
      if (!ranges || ranges.length < FEW_BANDS || p.crosses[value] === 0) return { value, bytes: 0 }
      last.set(value, k)
      const extent = Math.max(...ranges.map(([, to]) => to))
      const most = Math.max(...ranges.map(([from, to]) => to - from))
      return { value, bytes: p.bytes[value]! * Math.max(0, most / extent - 1 / FEW_BANDS) }
    })
  })
  // Values of the loop itself end in their tile. Rows of inputs stay for the next tile.
  const own = new Set(body.flatMap(({ op }) => p.outs[op]!))
  const held = new Map<ValueId, number>()
  let most = 0
  shared.forEach((values, k) => {
    for (const { value, bytes } of values) held.set(value, Math.max(bytes, held.get(value) ?? 0))
    let now = 0
    for (const bytes of held.values()) now += bytes
    most = Math.max(most, now)
    for (const { value } of values) if (own.has(value) && last.get(value) === k) held.delete(value)
  })
  return { seconds, bytes: most }
}

export class Body {
  /** It recomputes a gradient through overlapping windows, so tiles grow. */
  readonly expands: boolean
  private readonly known = new Map<number | string, LoopTotals>()
  /** Outputs that other loops may need. */
  readonly crossing: readonly ValueId[]

  constructor(
    private readonly p: Problem,
    readonly ops: readonly OpId[],
    private readonly loop: Loop,
  ) {
    const own = new Set(loop.ops)
    this.expands = ops.some((id) => !own.has(id) && p.grows[id] === 1)
    const crossing: ValueId[] = []
    for (const id of ops) for (const v of p.outs[id]!) if (p.crosses[v] === 1) crossing.push(v)
    this.crossing = crossing
  }

  /** The totals for one set of needed values: the inputs of later loops. */
  running(needed: (v: ValueId) => boolean): LoopTotals {
    let [key, high] = [0, '']
    for (let k = 0; k < this.crossing.length; k++) {
      if (k > 0 && k % BITS === 0) [high, key] = [`${high} ${key}`, 0]
      key = 2 * key + (needed(this.crossing[k]!) ? 1 : 0)
    }
    const name = high === '' ? key : `${high} ${key}`
    const there = this.known.get(name)
    if (there) return there
    const made = this.run(needed)
    this.known.set(name, made)
    return made
  }

  private run(needed: (v: ValueId) => boolean): LoopTotals {
    const { p } = this
    const { crosses } = p
    const results = new Set<ValueId>(this.crossing.filter(needed))
    const reads = new Set<ValueId>()
    const keeps = new Set(results)
    const ops: OpId[] = []
    let [seconds, calls, sums] = [0, 0, 0]
    for (let q = this.ops.length - 1; q >= 0; q--) {
      const id = this.ops[q]!
      const outs = p.outs[id]!
      let isLive = outs.length === 0
      for (const v of outs) isLive ||= crosses[v] === 0 || reads.has(v) || results.has(v)
      if (!isLive) continue
      ops.push(id)
      seconds += p.seconds[id]!
      calls += 1 + p.sums[id]!
      sums += p.sums[id]!
      for (const v of outs) {
        if (crosses[v] === 0) keeps.add(v)
        else reads.delete(v)
      }
      for (const v of p.ins[id]!) if (crosses[v] === 1) reads.add(v)
    }
    ops.reverse()
    const inputs = [...reads]
    return {
      ops,
      inputs,
      isRecomputed: Uint8Array.from(inputs, (v) => (results.has(v) ? 1 : 0)),
      results: [...results],
      seconds,
      calls,
      sums,
      keeps,
      ...this.peakOf(ops, results),
    }
  }

  /** Each value is held from the first to the last op of the loop that touches it. */
  private peakOf(ops: readonly OpId[], results: ReadonlySet<ValueId>): Peak {
    const { p } = this
    const { bytes, crosses } = p
    const last = new Map<ValueId, number>()
    const touched = mapped(ops, (id) => [...p.ins[id]!, ...p.outs[id]!].filter((v) => crosses[v] === 1))
    touched.forEach((values, k) => {
      for (const v of values) last.set(v, k)
    })
    const own = new Set(this.crossing)
    const held = new Set<ValueId>()
    let [within, inputBytes, resultBytes, inputParts, resultParts, inputCount, resultCount, scratch] = [0, 0, 0, 0, 0, 0, 0, 0]
    let passing = { inputBytes: 0, resultBytes: 0, inputCount: 0, resultCount: 0 }
    let [most, peak, made, beside] = [0, 0, 0, -Infinity]
    let leaving = 0
    const count = (v: ValueId, sign: 1 | -1): void => {
      const all = sign * bytes[v]!
      if (results.has(v)) {
        resultBytes += all
        resultCount += sign
      } else if (own.has(v)) within += all
      else {
        inputBytes += all
        inputCount += sign
      }
    }
    for (const v of last.keys()) {
      if (results.has(v)) leaving += bytes[v]!
      if (results.has(v)) resultParts += Math.min(PART, bytes[v]!)
      else if (!own.has(v)) inputParts += Math.min(PART, bytes[v]!)
    }
    // Without a lower tier, inputs are on the device from the beginning, and stay for later loops.
    const allStay = p.unplaced > 0
    for (const v of allStay ? last.keys() : []) {
      if (results.has(v) || own.has(v)) continue
      held.add(v)
      count(v, 1)
    }
    const goes = (v: ValueId): boolean => !allStay || (!results.has(v) && (own.has(v) || p.lastAtom[v]! < this.loop.to))
    ops.forEach((id, k) => {
      let fresh = 0
      for (const v of touched[k]!) {
        if (held.has(v)) continue
        held.add(v)
        count(v, 1)
        if (results.has(v)) made += bytes[v]!
        else if (own.has(v)) fresh += bytes[v]!
      }
      const over = p.inPlace[id]!.find((v) => held.has(v) && last.get(v) === k && !results.has(v)) ?? -1
      // In tiles, an op overwrites only values of its own loop that no other loop reads.
      const taken = own.has(over) ? Math.min(fresh, bytes[over]!) : 0
      const takenWhole = over >= 0 && (own.has(over) || p.lastAtom[over]! < this.loop.to) ? bytes[over]! : 0
      scratch = Math.max(scratch, p.scratch[id]!)
      most = Math.max(most, within - taken)
      peak = Math.max(peak, within - takenWhole + inputBytes + resultBytes + p.scratch[id]!)
      beside = Math.max(beside, within - takenWhole + inputBytes + p.scratch[id]! + made - leaving)
      if (inputBytes + resultBytes > passing.inputBytes + passing.resultBytes)
        passing = { inputBytes, resultBytes, inputCount, resultCount }
      for (const v of touched[k]!) if (last.get(v) === k && goes(v) && held.delete(v)) count(v, -1)
    })
    return { ...passing, inputParts, resultParts, bytes: most + passing.inputBytes + passing.resultBytes, peak, beside, scratch }
  }
}
/** Bits of a number in a key. */
const BITS = 50

/** The ops of a loop. Recomputed ops stand before their first reader. */
const opsOf = (p: Problem, loop: Loop, bits: Uint8Array): readonly OpId[] => {
  const out: OpId[] = []
  const made = new Set<OpId>()
  let fresh: OpId[] = []
  const visit = (v: ValueId): void => {
    const maker = p.maker[v]!
    if (maker < 0 || bits[maker] === 0 || !mayRepeat(p.atomOf, loop, maker) || made.has(maker)) return
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
  private readonly byLoop = new Map<Loop, { readonly ops: Map<string, Body>; readonly bits: WeakMap<Uint8Array, Body> }>()

  constructor(private readonly p: Problem) {}

  of(loop: Loop, bits: Uint8Array): Body {
    let known = this.byLoop.get(loop)
    if (!known) {
      known = { ops: new Map(), bits: new WeakMap() }
      this.byLoop.set(loop, known)
    }
    const there = known.bits.get(bits)
    if (there) return there
    const ops = opsOf(this.p, loop, bits)
    const key = ops.join()
    const body = known.ops.get(key) ?? new Body(this.p, ops, loop)
    known.ops.set(key, body)
    known.bits.set(bits, body)
    return body
  }
}
