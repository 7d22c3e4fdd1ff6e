// What a joint plan does not find whole where what crosses between stretches has to move: forward values that the backward makes again, and
// values of either pass that no stretch passes on, since those that read them make them again in their own tiles. A norm in training mode is
// a barrier, not a place where a value must stand whole. In: a joint plan, the link, what need not leave. Out: what goes. A stretch takes the
// longest of computing, of what comes and of what leaves: the one that waits makes more again. Worked example, a residual block's shortcut: 25 GiB that
// are added three norms later, two seconds each way; from small values in the middle of the block it is made again in a tenth of one.
import { mapped } from '../core/mapped'
import { type Op, type OpId, type ValueId, valueBytes } from '../graph/graph'
import type { Link } from '../graph/machine'
import { reachOf } from '../tile/gridfor'
import { Going } from './going'
import { type Joint, type Stretch, thereFor } from './joint'

export interface Moving {
  readonly link: Link
  /** Bytes of the device for what is neither parameters nor state. */
  readonly room: number
  /** Of a second that something moves, over one of computing. */
  readonly weight: number
}

/** What goes of the forward until the backward, and what no stretch passes on. */
export interface Missing {
  readonly gone: ReadonlySet<ValueId>
  readonly passing: ReadonlySet<ValueId>
}

/** Of the room, what each value has there when it is read, or not yet written, that crosses between stretches. */
const STAYS = 0.05

/** Of what a stretch need not wait for, so much counts all the same: others may. */
const BESIDE = 0.15

/** What leaves of a value, and comes back. */
export const movedBytes = ({ room }: Moving, bytes: number): number => Math.max(0, bytes - STAYS * room)

/** What a stretch takes that computes, and waits, for so long. */
export const costOfStretch = ({ weight, link }: Moving, computing: number, coming: number, leaving: number): number => {
  const [one, other] = link.fullDuplex ? [Math.max(coming, leaving), Math.min(coming, leaving)] : [coming + leaving, 0]
  const moves = weight * one
  return Math.max(computing, moves) + BESIDE * (Math.min(computing, moves) + weight * other)
}

/** What something other than a loop over tiles reads of an earlier stretch: that has to be whole. */
const readWhole = ({ graph }: Joint, stretches: readonly Stretch[]): ReadonlySet<ValueId> =>
  new Set(
    stretches
      .filter((s) => reachOf(s.dims) !== 'image')
      .flatMap((s) => {
        const own = new Set(s.ops.flatMap((id) => graph.ops[id]!.outs))
        return s.ops.flatMap((id) => graph.ops[id]!.ins.filter((v) => !own.has(v)))
      }),
  )

class Choosing {
  private readonly coming: Float64Array

  constructor(
    private readonly j: Joint,
    private readonly moving: Moving,
  ) {
    this.coming = Float64Array.from(j.graph.values, ({ id }) => this.moved(id) / moving.link.inBytesPerSecond)
  }

  private moved(v: ValueId): number {
    return movedBytes(this.moving, valueBytes(this.j.graph.values[v]!))
  }

  /** `kept`: what leaves its stretch, whoever reads it. */
  private going(
    stretches: readonly Stretch[],
    makers: ReadonlyMap<ValueId, Op>,
    there: Iterable<ValueId>,
    kept: Iterable<ValueId>,
  ): Going {
    const { graph, costs } = this.j
    const { link } = this.moving
    const own = mapped(stretches, (s) => s.ops.reduce((n: number, id: OpId) => n + costs[id]!.seconds, 0))
    const leaving = Float64Array.from(graph.values, ({ id }) => this.moved(id) / link.outBytesPerSecond)
    const cost = (i: number, again: number, coming: number, out: number): number =>
      costOfStretch(this.moving, own[i]! + again, coming, out)
    return new Going(graph, costs, makers, stretches, new Set(there), { coming: this.coming, leaving, kept, cost })
  }

  forward(gone: ReadonlySet<ValueId>): readonly ValueId[] {
    const { j } = this
    const there = thereFor(j, gone)
    const whole = readWhole(j, j.forward)
    const kept = j.mayGo.filter((v) => !gone.has(v))
    return letGo(
      this.going(j.forward, j.makers, j.makers.keys(), kept),
      j.makers.keys(),
      (v) => j.canGo(v) && !there.has(v) && !whole.has(v),
    )
  }

  /** Gradients, and forward values of these: what makes a gradient again reads forward values, so they are looked at together. */
  backward(gone: ReadonlySet<ValueId>, mayGo: readonly ValueId[], most = Infinity): readonly ValueId[] {
    const { j } = this
    const forward = new Set(mayGo)
    const bytes = (v: ValueId): number => (forward.has(v) ? valueBytes(j.graph.values[v]!) : 0)
    const there = [...thereFor(j, gone), ...j.gradientMakers.keys()]
    const whole = readWhole(j, j.backward)
    return letGo(
      this.going(j.backward, new Map([...j.makers, ...j.gradientMakers]), there, []),
      [...mayGo, ...j.gradientMakers.keys()],
      (v) => forward.has(v) || (j.gradientMakers.has(v) && !whole.has(v)),
      { bytes, excess: mayGo.reduce((n, v) => n + bytes(v), 0) - most },
    )
  }
}

/** What must go, whatever it costs: so many bytes. */
interface Excess {
  readonly bytes: (v: ValueId) => number
  readonly excess: number
}
const NOTHING: Excess = { bytes: () => 0, excess: 0 }

/** Of what is found whole and may go: what saves more than it costs, the best first; and then what must, the cheapest for a byte first. */
const letGo = (
  going: Going,
  values: Iterable<ValueId>,
  may: (v: ValueId) => boolean,
  { bytes, excess }: Excess = NOTHING,
): readonly ValueId[] => {
  const price = new Map<ValueId, number>()
  const out = new Set<ValueId>()
  const look = (some: Iterable<ValueId>): void => {
    for (const v of some) if (may(v) && !out.has(v) && (going.isFound(v) || bytes(v) > 0)) price.set(v, going.price(v))
  }
  look(values)
  const least = (of: (v: ValueId, price: number) => number): ValueId | undefined => {
    let [best, at] = [Infinity, undefined as ValueId | undefined]
    for (const [v, p] of price) if (of(v, p) < best) [best, at] = [of(v, p), v]
    return at
  }
  for (let more = excess; ; ) {
    const best = least((_, p) => p)
    const next = best !== undefined && price.get(best)! < 0 ? best : more > 0 ? least((v, p) => p / bytes(v)) : undefined
    if (next === undefined) return [...out]
    price.delete(next)
    out.add(next)
    more -= bytes(next)
    look(going.go(next))
  }
}

/** What no stretch passes on where this much is gone. */
export const passingOf = (j: Joint, gone: ReadonlySet<ValueId>, moving: Moving): ReadonlySet<ValueId> => {
  const choosing = new Choosing(j, moving)
  return new Set([...choosing.forward(gone), ...choosing.backward(gone, [])])
}

/** What goes where next to everything that is kept has to move; no more is kept than the lower tier has fast memory for. */
export const missingOf = (j: Joint, moving: Moving): Missing => {
  const choosing = new Choosing(j, moving)
  const may = new Set(j.mayGo)
  const backward = choosing.backward(new Set(), j.mayGo, moving.link.bytes)
  const gone = new Set(backward.filter((v) => may.has(v)))
  return { gone, passing: new Set([...choosing.forward(gone), ...backward.filter((v) => !may.has(v))]) }
}
