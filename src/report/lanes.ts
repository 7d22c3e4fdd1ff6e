// The timeline as lanes of coloured bars. In: a plan and its timeline, with any number of spans. Out: for each lane at most `columns` bars.
// Invariant: bars of a lane are in order and disjoint; a merged bar has the kind of most of its time.
import type { Plan } from '../../staging/plan/plan'
import { COLLECTIVES } from '../../staging/graph/ranks'
import type { Span, Stalls, Timeline } from '../../staging/sim/timeline'
import { repeatedCalls } from '../../staging/plan/repeated'

/** The kind of a bar; also the name of its colour. */
export type Shade =
  | 'forward'
  | 'recompute'
  | 'backward'
  | 'update'
  | 'tiling'
  | 'full'
  | 'late'
  | 'data'
  | 'out'
  | 'in'
  | 'ranks'
  | 'others'

export const shadeTitle: Readonly<Record<Shade, string>> = {
  forward: 'forward',
  recompute: 'recompute (forward)',
  backward: 'backward',
  update: 'weight update',
  tiling: 'copying and adding tiles',
  full: 'waiting for room',
  late: 'waiting for values',
  data: 'reading input data',
  out: 'swap out',
  in: 'swap in',
  ranks: 'exchange between ranks',
  others: 'waiting for other ranks',
}

export interface Bar {
  readonly start: number
  readonly end: number
  readonly shade: Shade
  readonly label: string
  /** How many spans the bar stands for, besides the longest one that `label` names. */
  readonly others: number
}
export interface Lane {
  readonly title: string
  readonly bars: readonly Bar[]
}

// ---------------------------------------------------------------- what each moment is

/** The colour of each call. */
export const callShades = (plan: Plan): readonly Shade[] => {
  const repeated = repeatedCalls(plan)
  return plan.calls.map((c, i) => {
    if (c.op < 0) return 'tiling'
    if (repeated[i]) return 'recompute'
    if (COLLECTIVES.includes(c.kind)) return 'ranks'
    const phase = plan.graph.ops[c.op]!.phase
    return phase === 'loss' ? 'forward' : phase
  })
}

/** A moment without compute: the stream waits for memory ('memory'), for values to arrive ('data'), or for other ranks. */
export interface Stall {
  readonly start: number
  readonly end: number
  readonly call: number
  readonly cause: keyof Stalls
}

/** The completion times of each point's waits: copies out of memory, those into it, exchanges during compute. */
const completions = (plan: Plan, timeline: Timeline): ReadonlyMap<number, Required<Stalls>> => {
  const due = new Map<number, { memory: number; data: number; ranks: number }>()
  const ends = (point: number, cause: keyof Stalls, end: number): void => {
    const at = due.get(point) ?? { memory: 0, data: 0, ranks: 0 }
    at[cause] = Math.max(at[cause], end)
    due.set(point, at)
  }
  for (const s of timeline.spans) {
    const beside = s.stream === 'ranks' ? plan.calls[s.call ?? -1]?.beside : undefined
    if (beside) ends(beside.until, 'ranks', s.end)
    const r = plan.residencies[s.residency ?? -1]
    if (!r) continue
    ends(s.stream === 'out' ? r.release : (r.swapIn?.ready ?? r.acquire), s.stream === 'in' ? 'data' : 'memory', s.end)
  }
  return due
}

/** Gaps between calls: first the ranks', then the memory's. The rest of a gap after the last swap out is the data's. */
export const stallsOf = (plan: Plan, timeline: Timeline): readonly Stall[] => {
  const negligible = timeline.makespanSeconds * 1e-9
  const due = completions(plan, timeline)
  const stalls: Stall[] = []
  const gap = (from: number, end: number, call: number): void => {
    const ends = due.get(call < 0 ? plan.calls.length : call) ?? { memory: end, data: 0, ranks: 0 }
    const start = Math.min(end, Math.max(from, ends.ranks))
    if (start - from > negligible) stalls.push({ start: from, end: start, call, cause: 'ranks' })
    const turn = ends.data > start ? Math.min(end, Math.max(start, ends.memory)) : end
    if (turn - start > negligible) stalls.push({ start, end: turn, call, cause: 'memory' })
    if (end - turn > negligible) stalls.push({ start: turn, end, call, cause: 'data' })
  }
  let busyUntil = 0
  for (const s of timeline.spans) {
    if (s.stream !== 'compute') continue
    gap(busyUntil, s.start, s.call ?? -1)
    busyUntil = Math.max(busyUntil, s.end)
  }
  gap(busyUntil, timeline.makespanSeconds, -1)
  return stalls
}

// ---------------------------------------------------------------- fewer bars

/** Joins the bars that start in one column of the drawing, when there are more bars than columns. */
export const coalesce = (bars: readonly Bar[], columnSeconds: number, columns: number): readonly Bar[] => {
  if (bars.length <= columns) return bars
  const merged: Bar[] = []
  for (let i = 0; i < bars.length; ) {
    const first = bars[i]!
    const weight = new Map<Shade, number>()
    let longest = first
    let end = first.end
    let n = 0
    for (; i < bars.length && (n === 0 || sameColumn(first, bars[i]!, columnSeconds)); i++, n++) {
      const b = bars[i]!
      weight.set(b.shade, (weight.get(b.shade) ?? 0) + b.end - b.start)
      if (b.end - b.start > longest.end - longest.start) longest = b
      end = b.end
    }
    const shade = [...weight].reduce((a, b) => (b[1] > a[1] ? b : a))[0]
    merged.push({ start: first.start, end, shade, label: longest.label, others: n - 1 })
  }
  return merged
}

const sameColumn = (a: Bar, b: Bar, columnSeconds: number): boolean =>
  Math.floor(a.start / columnSeconds) === Math.floor(b.start / columnSeconds)

// ---------------------------------------------------------------- the lanes

const callLabel = (plan: Plan, call: number): string => {
  const c = plan.calls[call]!
  const layer = c.op >= 0 ? plan.graph.ops[c.op]!.layer : (plan.graph.values[c.outs[0]?.value ?? -1]?.name ?? '')
  return `${c.kind} ${layer}`.trim()
}

const copyShade = (plan: Plan, s: Span): Shade =>
  s.stream === 'out' ? 'out' : plan.residencies[s.residency ?? -1]?.swapIn?.from === 'source' ? 'data' : 'in'

const WAITING: Readonly<Record<keyof Stalls, Shade>> = { memory: 'full', data: 'late', ranks: 'others' }

export const lanesOf = (plan: Plan, timeline: Timeline, columns: number): readonly Lane[] => {
  const shades = callShades(plan)
  const columnSeconds = timeline.makespanSeconds / columns
  const lane = (title: string, bars: readonly Bar[]): Lane => ({ title, bars: coalesce(bars, columnSeconds, columns) })
  const spans = (stream: Span['stream']): readonly Span[] => timeline.spans.filter((s) => s.stream === stream)
  const copies = (stream: 'out' | 'in'): readonly Bar[] =>
    spans(stream).map((s) => ({ start: s.start, end: s.end, shade: copyShade(plan, s), label: s.label, others: 0 }))
  const work = spans('compute').map(
    (s): Bar => ({
      start: s.start,
      end: s.end,
      shade: shades[s.call ?? -1] ?? 'tiling',
      label: s.call === undefined ? s.label : callLabel(plan, s.call),
      others: 0,
    }),
  )
  const waits = stallsOf(plan, timeline).map(
    (w): Bar => ({
      start: w.start,
      end: w.end,
      shade: WAITING[w.cause],
      label:
        w.call < 0
          ? w.cause === 'ranks'
            ? 'waiting for the last exchanges'
            : 'waiting for the last copies'
          : `waiting before ${callLabel(plan, w.call)}`,
      others: 0,
    }),
  )
  const exchanges = spans('ranks').map(
    (s): Bar => ({ start: s.start, end: s.end, shade: 'ranks', label: callLabel(plan, s.call!), others: 0 }),
  )
  return [
    lane('compute', work),
    lane('waiting', waits),
    lane('swap out', copies('out')),
    lane('swap in', copies('in')),
    ...(exchanges.length > 0 ? [lane('exchanges', exchanges)] : []),
  ]
}
