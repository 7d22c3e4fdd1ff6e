// The bytes that a run of forward ops holds at once, if a tile were the whole image, and the cost of its borders in bytes, for pieces.ts. In: its ops
// from the last to the first. Out: bytes of each run that ends there. Tiles side by side share a band of values that outlive the run, because its
// pages are as wide as the image. Worked example, values of 4 bytes, [conv a->b, relu b->c in place, conv c->d], a and d crossing: 4 + 4 at each
// convolution and 4 that leave, so 12, 8 of them in bands; a comes and d leaves, half a crossing each: 4.
import { sameShape } from '../core/box'
import { type Graph, isFed, isPersistent, isResult, type Op, type OpId, valueBytes, type ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import type { PieceRun } from './segmentation'

/** The working bytes of a run, and the price of its borders: for each run that ends at one place, the longest last. */
export interface Held extends Pick<PieceRun, 'workBytes' | 'bandBytes' | 'crossingBytes'> {
  /** An op more, in front. */
  readonly add: (op: Op) => void
}

/** For training: two of its largest values at once, and the inputs of its backward pass; all values that cross at its end. */
export class HeldTraining implements Held {
  private largest = 0
  private readBytes = 0
  workBytes = 0
  readonly bandBytes = 0

  constructor(
    private readonly graph: Graph,
    private readonly read: ReadonlySet<ValueId>,
    readonly crossingBytes: number,
  ) {}

  add(op: Op): void {
    for (const v of op.outs) {
      const bytes = valueBytes(this.graph.values[v]!)
      this.largest = Math.max(this.largest, bytes)
      if (this.read.has(v)) this.readBytes += bytes
    }
    this.workBytes = this.readBytes + 2 * this.largest
  }
}

/**
 * For prediction: the live bytes at its worst op, and its left values, which leave while the next tile is computed. A value leaves once and comes for
 * each run that reads it, with any number of borders between: each of these is half a crossing.
 */
export const heldPredicting = (graph: Graph, lastUse: ReadonlyMap<ValueId, number>, order: ReadonlyMap<OpId, number>): Held => {
  const bytesOf = (v: ValueId): number => valueBytes(graph.values[v]!)
  const isHeld = (v: ValueId): boolean => !isPersistent(graph.values[v]!)
  /** Made in front of the stretch, as far as it goes by now. */
  const alive = new Set<ValueId>()
  /** The bytes of an op that may not overwrite this value, which comes from outside. */
  const apart = new Map<ValueId, number>()
  let end = -1
  let [now, peak, fed, left, results] = [0, 0, 0, 0, 0]
  const live = (v: ValueId): void => {
    if (alive.has(v) || !isHeld(v)) return
    alive.add(v)
    now += bytesOf(v)
    if (isFed(graph.values[v]!)) fed += bytesOf(v)
  }
  return {
    add: (op) => {
      if (end < 0) end = order.get(op.id)!
      const own = op.outs.filter(isHeld)
      const out = own.reduce((n, v) => n + (alive.has(v) ? 0 : bytesOf(v)), 0)
      const dying = op.ins.filter((v, i) => !alive.has(v) && (opDef(op.kind).inPlace ?? []).includes(i))
      const taken = dying.find((v) => sameShape(graph.values[v]!.shape, graph.values[op.outs[0]!]!.shape))
      op.ins.forEach(live)
      if (taken !== undefined) apart.set(taken, now + out)
      peak = Math.max(peak, now + (taken === undefined ? out : 0))
      for (const v of own) {
        apart.delete(v)
        if (alive.delete(v)) now -= bytesOf(v)
        if (isResult(graph.values[v]!)) results += bytesOf(v)
        else if ((lastUse.get(v) ?? -1) > end) left += bytesOf(v)
      }
    },
    get workBytes() {
      return Math.max(peak, ...apart.values()) + left + results
    },
    get bandBytes() {
      return now + left + results
    },
    get crossingBytes() {
      return (now - fed + left) / 2
    },
  }
}
