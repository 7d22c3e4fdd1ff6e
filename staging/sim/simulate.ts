// Runs a plan's instructions on a machine's clock. There are one compute stream, one link out and one link in. If the lower tier has a disk, each
// copy has the rate of its own link. A copy takes latency plus bytes over bandwidth, and copies share a link that is not full duplex. If copies and
// calls slow each other down (`beside`), both take longer while they overlap. Exchanges between ranks during compute have a lane of their own. An
// exchange that is awaited at once, or started early, runs first and delays the exchanges in flight by its time. In: a plan and a link. Out: the
// timeline. Worked example: call a (1 s), swap out 3 s, call b (1 s), wait: the step takes 1 + 3 s, 2 s of them a stall.
import { mapped } from '../core/mapped'
import { bytesOf } from '../core/bytes'
import type { Beside, Link } from '../graph/machine'
import { COLLECTIVES, mayStartEarly } from '../graph/ranks'
import { eachInstruction, isHeldAtStart } from '../plan/instructions'
import { pagesLabel } from '../plan/naming'
import { type Call, isOnDisk, type UnpagedPlan } from '../plan/plan'
import type { MemorySample, Span, Timeline } from './timeline'

interface Copy {
  readonly stream: 'out' | 'in' | 'ranks'
  readonly issued: number
  readonly latency: number
  /** Seconds for its bytes without any delay. */
  readonly transfer: number
  readonly lane: Lane
  /** The times, which are final after it has begun. */
  start: number
  end: number
}

/** Copies that share a lane run one after the other, in the order of their issue. */
class Lane {
  private head = 0
  private readonly copies: Copy[] = []
  /** The time when the last completed copy ended. */
  private freeAt = 0

  push(c: Copy): void {
    this.copies.push(c)
    if (this.copies.length - 1 === this.head) this.begin(c)
  }

  /** Returns the copy that runs now, or the next one. */
  current(): Copy | undefined {
    return this.copies[this.head]
  }

  private begin(c: Copy): void {
    c.start = Math.max(c.issued, this.freeAt)
    c.end = c.start + c.latency + c.transfer
  }

  /** Completes the copies that end by `now`. */
  complete(now: number): void {
    for (let c = this.current(); c && c.end <= now; c = this.current()) this.next(c)
  }

  private next(done: Copy): void {
    this.freeAt = done.end
    this.head++
    const c = this.current()
    if (c) this.begin(c)
  }

  /** Delays the copy in flight by `seconds`. */
  delay(now: number, seconds: number): void {
    this.complete(now)
    const c = this.current()
    if (c) c.end += seconds
  }

  /** Completes all copies up to this one, and returns its end. */
  finish(copy: Copy): number {
    const place = this.copies.indexOf(copy, this.head)
    while (this.head <= place) this.next(this.current()!)
    return copy.end
  }
}

/** Returns the end of a call that starts now, with `lanes` in flight. Copies that the call delays end later. */
const callEnd = (start: number, seconds: number, lanes: readonly Lane[], beside: Beside): number => {
  let now = start
  for (let left = seconds; ; ) {
    for (const l of lanes) l.complete(now)
    const busy = lanes.flatMap((l) => l.current() ?? [])
    if (!busy.length) return now + left
    const callEnds = now + left * beside.calls
    const copyEnds = Math.min(...mapped(busy, (c) => now + (c.end - now) * beside.copies))
    const until = Math.min(callEnds, copyEnds)
    for (const c of busy)
      c.end = now + (c.end - now) * beside.copies <= until ? until : c.end + (until - now) * (1 - 1 / beside.copies)
    if (callEnds <= copyEnds) return callEnds
    left -= (until - now) / beside.calls
    now = until
  }
}

/** The results of a step that a search needs. */
export interface Outcome extends Pick<Timeline, 'makespanSeconds' | 'computeSeconds' | 'stallSeconds'> {
  /** Pages held at the peak. */
  readonly mostPages: number
}

/** Callbacks during a simulated step. */
interface Notes {
  /** Called when a copy or an exchange is issued. Its times are final only at the end of the step. */
  readonly issued: (c: Copy, of: Pick<Span, 'call' | 'residency'>) => void
  readonly computed: (call: number, start: number, end: number) => void
  /** Called with the number of held pages from this time on. */
  readonly held: (pages: number, time: number) => void
}

const runOn = (plan: UnpagedPlan, link: Link, mapping?: readonly number[], notes?: Notes): Outcome => {
  /** The swaps out and in by residency, and the exchanges by call. */
  const copies: Readonly<Record<Copy['stream'], (Copy | undefined)[]>> = { out: [], in: [], ranks: [] }
  const isShared = plan.calls.some((c) => c.beside)
  const stall = { memory: 0, data: 0, ranks: 0 }
  const laneOut = new Lane()
  const exchanges = link.carriesExchanges ? laneOut : new Lane()
  /** Early exchanges run one after the other, before those in flight on the other lane. */
  const early = new Lane()
  const disk = plan.tierBytes > (plan.hostBytes ?? Infinity) ? link.beyond : undefined
  const inLine = disk && !disk.apart ? disk : undefined
  const laneOf = { out: laneOut, in: link.fullDuplex && (inLine?.fullDuplex ?? true) ? new Lane() : laneOut, ranks: exchanges }
  const diskOut = disk?.apart ? new Lane() : laneOf.out
  const beyondOf = { out: diskOut, in: !disk?.apart ? laneOf.in : disk.fullDuplex ? new Lane() : diskOut }
  const lanes = [...new Set([laneOf.out, laneOf.in, beyondOf.out, beyondOf.in])]
  let now = 0
  let lastEarly = -1
  let compute = 0
  let held = 0
  let mostPages = 0
  const hold = (pages: number): void => {
    held += pages
    if (held > mostPages) mostPages = held
    notes?.held(held, now)
  }
  hold(plan.residencies.filter(isHeldAtStart(plan)).reduce((n, r) => n + r.to - r.from, 0))
  const copy = (stream: 'out' | 'in', residency: number): void => {
    const r = plan.residencies[residency]!
    const isFar = disk !== undefined && isOnDisk(plan, r)
    const way = isFar ? disk : link
    const rate = stream === 'out' ? way.outBytesPerSecond : way.inBytesPerSecond
    const c: Copy = {
      stream,
      issued: now,
      latency: way.latencySeconds,
      transfer: bytesOf(r.to - r.from) / rate,
      lane: (isFar ? beyondOf : laneOf)[stream],
      start: now,
      end: now,
    }
    copies[stream][residency] = c
    c.lane.push(c)
    notes?.issued(c, { residency })
  }
  const exchange = (index: number): void => {
    const call = plan.calls[index]!
    const isEarly = mayStartEarly(call)
    const c: Copy = {
      stream: 'ranks',
      issued: now,
      latency: 0,
      transfer: call.beside!.seconds,
      lane: isEarly ? early : exchanges,
      start: now,
      end: now,
    }
    early.complete(now)
    copies.ranks[index] = c
    c.lane.push(c)
    if (isEarly) {
      lastEarly = index
      exchanges.delay(now, call.beside!.seconds)
    }
    notes?.issued(c, { call: index })
  }
  const wait = (stream: Copy['stream'], of: number, cause: keyof typeof stall): void => {
    const c = copies[stream][of]
    const end = c ? c.lane.finish(c) : 0
    if (end > now) {
      stall[cause] += end - now
      now = end
    }
  }
  eachInstruction(plan, (tag, of) => {
    switch (tag) {
      case 'call': {
        const call = plan.calls[of]!
        const mapped = mapping?.[of] ?? 0
        now += mapped
        stall.memory += mapped
        if (isShared && COLLECTIVES.includes(call.kind)) {
          if (lastEarly >= 0) wait('ranks', lastEarly, 'ranks')
          exchanges.delay(now, call.seconds)
        }
        const end = link.beside ? callEnd(now, call.seconds, lanes, link.beside) : now + call.seconds
        notes?.computed(of, now, end)
        now = end
        compute += call.seconds
        break
      }
      case 'exchange':
        exchange(of)
        break
      case 'waitExchange':
        wait('ranks', of, 'ranks')
        break
      case 'acquire':
        hold(plan.residencies[of]!.to - plan.residencies[of]!.from)
        break
      case 'release':
        hold(plan.residencies[of]!.from - plan.residencies[of]!.to)
        break
      case 'swapOut':
        copy('out', of)
        break
      case 'swapIn':
        copy('in', of)
        break
      case 'waitSwapOut':
        wait('out', of, 'memory')
        break
      case 'waitSwapIn':
        wait('in', of, 'data')
        break
      case 'mark':
        break
    }
  })
  const { ranks, ...forCopies } = stall
  return { makespanSeconds: now, computeSeconds: compute, stallSeconds: isShared ? stall : forCopies, mostPages }
}

/** Returns the outcome of a step, without its timeline. */
export const outcomeOf = (plan: UnpagedPlan, link: Link): Outcome => runOn(plan, link)

/** Returns the timeline of a step. `mapping`: the seconds of an allocator's mapping before each call (memory/allocators). */
export const simulate = (plan: UnpagedPlan, link: Link, mapping?: readonly number[]): Timeline => {
  const spans: Span[] = []
  const spanOf = new Map<Copy, number>()
  const memory: MemorySample[] = []
  const layerOf = ({ op, kind }: Call): string => (op >= 0 ? plan.graph.ops[op]!.layer : kind)
  const labelOf = ({ call, residency }: Pick<Span, 'call' | 'residency'>): string => {
    if (residency === undefined) return layerOf(plan.calls[call!]!)
    const { storage, from, to } = plan.residencies[residency]!
    return pagesLabel(plan, storage, from, to)
  }
  const { mostPages: _, ...seconds } = runOn(plan, link, mapping, {
    issued: (c, of) => {
      spanOf.set(c, spans.length)
      spans.push({ stream: c.stream, start: c.issued, end: c.issued, ...of, label: labelOf(of) })
    },
    computed: (call, start, end) => spans.push({ stream: 'compute', start, end, call, label: labelOf({ call }) }),
    held: (pages, time) => {
      if (memory[memory.length - 1]?.time === time) memory.pop()
      memory.push({ time, pages })
    },
  })
  for (const [c, i] of spanOf) {
    c.lane.finish(c)
    spans[i] = { ...spans[i]!, start: c.start, end: c.end }
  }
  return { ...seconds, spans, memory }
}
