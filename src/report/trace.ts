// A trace for Perfetto (Chrome trace JSON). In: a plan, its simulated timeline and, after a run, the measured one.
// Out: the file's text. Each timeline is a process with a thread for each stream, one for segments, and a memory counter.
// Invariant: times are microseconds from the start of the step; slices of one thread do not overlap.
import { bytesOf } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import type { Span, Stream, Timeline } from '../../staging/sim/timeline'
import { callStarts } from './memory'
import { callShades, shadeTitle, stallsOf } from './lanes'
import { residencyBytes } from './facts'
import { KINDS, kindTitle, memorySeries } from './memory'

interface TraceEvent {
  readonly ph: 'X' | 'M' | 'C'
  readonly name: string
  readonly pid: number
  readonly tid: number
  readonly ts?: number
  readonly dur?: number
  readonly cat?: string
  readonly args?: Readonly<Record<string, unknown>>
}

const SEGMENTS = 1
const THREADS: Readonly<Record<Stream | 'waiting', number>> = { compute: 2, waiting: 3, out: 4, in: 5, ranks: 6 }
const THREAD_TITLES: readonly (readonly [tid: number, title: string])[] = [
  [SEGMENTS, 'segments'],
  [THREADS.compute, 'compute'],
  [THREADS.waiting, 'waiting'],
  [THREADS.out, 'swap out'],
  [THREADS.in, 'swap in'],
]

/** Whole nanoseconds are the finest that Perfetto keeps; rounding both ends keeps neighbours disjoint. */
const micros = (seconds: number): number => Math.round(seconds * 1e9) / 1e3

const slice = (
  pid: number,
  tid: number,
  name: string,
  cat: string,
  start: number,
  end: number,
  args: TraceEvent['args'],
): TraceEvent => ({
  ph: 'X',
  name,
  cat,
  pid,
  tid,
  ts: micros(start),
  dur: Math.round((micros(end) - micros(start)) * 1e3) / 1e3,
  args,
})

const RANKS: readonly (readonly [tid: number, title: string])[] = [[THREADS.ranks, 'exchanges']]

const nameEvents = (plan: Plan, pid: number, title: string): readonly TraceEvent[] => [
  { ph: 'M', name: 'process_name', pid, tid: 0, args: { name: title } },
  { ph: 'M', name: 'process_sort_index', pid, tid: 0, args: { sort_index: pid } },
  ...[...THREAD_TITLES, ...(plan.calls.some((c) => c.beside) ? RANKS : [])].flatMap(([tid, name]): readonly TraceEvent[] => [
    { ph: 'M', name: 'thread_name', pid, tid, args: { name } },
    { ph: 'M', name: 'thread_sort_index', pid, tid, args: { sort_index: tid } },
  ]),
]

// ---------------------------------------------------------------- slices

const callEvent = (plan: Plan, shade: string, pid: number, s: Span): TraceEvent => {
  const call = plan.calls[s.call!]!
  const op = call.op >= 0 ? plan.graph.ops[call.op] : undefined
  const name = op?.layer ? `${op.layer} ${call.kind}` : call.kind
  return slice(pid, THREADS[s.stream], name, shade, s.start, s.end, {
    call: s.call,
    kind: call.kind,
    layer: op?.layer,
    segment: plan.segments[call.segment]?.name,
    tile: call.tile,
    predictedSeconds: call.beside?.seconds ?? call.seconds,
  })
}

const copyEvent = (plan: Plan, pid: number, s: Span): TraceEvent => {
  const r = plan.residencies[s.residency ?? -1]
  const from = s.stream === 'in' ? r?.swapIn?.from : undefined
  return slice(
    pid,
    THREADS[s.stream],
    s.label,
    'copy',
    s.start,
    s.end,
    r && {
      storage: plan.storages[r.storage]?.label,
      bytes: residencyBytes(plan, r),
      pages: [r.from, r.to],
      from,
    },
  )
}

/** One slice for each run of calls of one segment: a segment may be visited once only, but a trace should not assume it. */
const segmentEvents = (plan: Plan, timeline: Timeline, pid: number): readonly TraceEvent[] => {
  const starts = callStarts(plan, timeline)
  const events: TraceEvent[] = []
  for (let p = 0; p < plan.calls.length; ) {
    const first = p
    const { segment } = plan.calls[p]!
    while (p < plan.calls.length && plan.calls[p]!.segment === segment) p++
    const end = p < plan.calls.length ? starts[p]! : timeline.makespanSeconds
    const s = plan.segments[segment]!
    events.push(slice(pid, SEGMENTS, s.name, s.phase, starts[first]!, end, { phase: s.phase, grid: s.grid, calls: p - first }))
  }
  return events
}

const memoryEvents = (plan: Plan, timeline: Timeline, pid: number): readonly TraceEvent[] => {
  const counter = (time: number, pages: readonly number[]): TraceEvent => ({
    ph: 'C',
    name: 'device memory (MiB)',
    pid,
    tid: 0,
    ts: micros(time),
    args: Object.fromEntries(KINDS.map((k, i) => [kindTitle[k], bytesOf(pages[i]!) / 2 ** 20])),
  })
  return memorySeries(plan, timeline, Number.POSITIVE_INFINITY).map((m) => counter(m.time, m.pages))
}

const WAITING = { memory: 'waiting for room', data: 'waiting for values', ranks: 'waiting for other ranks' } as const

const timelineEvents = (plan: Plan, timeline: Timeline, pid: number, title: string): readonly TraceEvent[] => {
  const shades = callShades(plan)
  const spans = timeline.spans.map((s) =>
    s.call !== undefined && plan.calls[s.call] ? callEvent(plan, shadeTitle[shades[s.call]!], pid, s) : copyEvent(plan, pid, s),
  )
  const waits = stallsOf(plan, timeline).map((w) =>
    slice(pid, THREADS.waiting, WAITING[w.cause], 'stall', w.start, w.end, {
      before: w.call,
    }),
  )
  return [
    ...nameEvents(plan, pid, title),
    ...segmentEvents(plan, timeline, pid),
    ...spans,
    ...waits,
    ...memoryEvents(plan, timeline, pid),
  ]
}

/**
 * Returns a trace of a step for Perfetto or chrome://tracing.
 *
 * @param plan The plan.
 * @param simulated Its simulated times.
 * @param measured Measured times, shown beside the simulated ones. Optional.
 * @example const trace = traceJson(plan.plan, plan.timeline)
 */
export const traceJson = (plan: Plan, simulated: Timeline, measured?: Timeline): string => {
  const events = [
    ...timelineEvents(plan, simulated, 1, `predicted on ${plan.machine}`),
    ...(measured ? timelineEvents(plan, measured, 2, 'measured') : []),
  ]
  const about = { model: plan.graph.name, strategy: plan.strategy, budgetBytes: plan.budgetBytes, peakPages: plan.peakPages }
  return `{"displayTimeUnit":"ms","otherData":${JSON.stringify(about)},"traceEvents":[\n${events.map((e) => JSON.stringify(e)).join(',\n')}\n]}\n`
}
