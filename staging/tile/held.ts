// The bytes that a run of forward ops holds at once if its tile is the whole image, and the bytes of its borders, for pieces.ts. In: its ops from the
// last to the first. Out: bytes of each run that ends with that last op. Tiles side by side share a band of the values that cross the borders of the
// run, because pages of these values are as wide as the image. Worked example, values of 4 bytes, [conv a->b, relu b->c in place, conv c->d], a and d
// crossing: 4 + 4 at each convolution and 4 to swap out, so 12, 8 of them in bands. Swapping a in and d out is half a crossing each: 4.
import { sameShape } from '../core/box'
import { type Graph, isFed, isPersistent, isResult, type Op, type OpId, valueBytes, type ValueId } from '../graph/graph'
import { opDef } from '../ops/registry'
import type { PieceRun } from './segmentation'

/** The working bytes of a run and the bytes of its borders. Each `add` makes the run longer; the fields are those of the run so far. */
export interface Held extends Pick<PieceRun, 'workBytes' | 'bandBytes' | 'crossingBytes'> {
  /** Adds an op in front. */
  readonly add: (op: Op) => void
}

/** For training: two times its largest value, plus the values that the backward pass reads. The crossing bytes are those at its end. */
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
 * For prediction: the peak of the live bytes, plus the values that outlive the run, which are swapped out while the next tile is computed. A value is
 * swapped out once and swapped in for each run that reads it, for any number of borders between them: each swap is half a crossing.
 */
export const heldPredicting = (graph: Graph, lastUse: ReadonlyMap<ValueId, number>, order: ReadonlyMap<OpId, number>): Held => {
  const bytesOf = (v: ValueId): number => valueBytes(graph.values[v]!)
  const isHeld = (v: ValueId): boolean => !isPersistent(graph.values[v]!)
  /** Values that the ops so far read and that ops in front of them make. */
  const alive = new Set<ValueId>()
  /** By value that an op overwrites: the live bytes at the op if it may not overwrite the value. They count if no op of the run makes the value. */
  const notOverwritten = new Map<ValueId, number>()
  let end = -1
  let [now, peak, fed, left, results] = [0, 0, 0, 0, 0]
  const addLive = (v: ValueId): void => {
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
      op.ins.forEach(addLive)
      if (taken !== undefined) notOverwritten.set(taken, now + out)
      peak = Math.max(peak, now + (taken === undefined ? out : 0))
      for (const v of own) {
        notOverwritten.delete(v)
        if (alive.delete(v)) now -= bytesOf(v)
        if (isResult(graph.values[v]!)) results += bytesOf(v)
        else if ((lastUse.get(v) ?? -1) > end) left += bytesOf(v)
      }
    },
    get workBytes() {
      return Math.max(peak, ...notOverwritten.values()) + left + results
    },
    get bandBytes() {
      return now + left + results
    },
    get crossingBytes() {
      return (now - fed + left) / 2
    },
  }
}
