// The drawing of one step: segments, memory by kind, and the lanes of compute and copies over one time axis.
// In: a plan and its timeline. Out: HTML with inline SVG. Invariant: x is a share of the step, so that the drawing zooms by
// growing wider; text stands outside the SVG, which stretches.
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import type { Plan } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'
import { axisSeconds, showSize } from './format'
import { type Bar, type Lane, lanesOf, type Shade, shadeTitle } from './lanes'
import { callStarts, KINDS, kindTitle, type MemoryPoint, memorySeries, pagesByKind, worstCall } from './memory'
import { escapeHtml, hatchesSvg } from './page'

/** Width of the drawing in its own units; a bar's edges are whole units. */
const WIDTH = 100_000
/** For a drawing as wide as a page. */
const UNITS_A_PIXEL = 90
const MEMORY_COLUMNS = 2000
const LANE_COLUMNS = 3000
/** Few enough bars to draw a gap between neighbours. */
const SEPARATE_BARS = 250
/** Magnifications; each has its own marks on the time axis. */
const ZOOMS = [1, 2, 4, 8, 16, 32, 64] as const

const SEGMENT_HEIGHT = 22
const MEMORY_TOP = SEGMENT_HEIGHT + 14
const MEMORY_HEIGHT = 250
const LANE_HEIGHT = 20
const LANE_PITCH = 28
const LANES_TOP = MEMORY_TOP + MEMORY_HEIGHT + 16

export interface Drawing {
  readonly html: string
  /** Data for the page's script about the part under the pointer. */
  readonly data: unknown
}

/** A round step for an axis of this length with about this number of marks. */
export const niceStep = (length: number, marks: number): number => {
  const rough = length / marks
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * (rough / power <= 1 ? 1 : rough / power <= 2 ? 2 : rough / power <= 5 ? 5 : 10)
}

const multiples = (step: number, upTo: number): readonly number[] =>
  Array.from({ length: Math.floor(upTo / step + 1e-9) + 1 }, (_, i) => i * step)

// ---------------------------------------------------------------- lanes

const barPath = (bars: readonly { readonly x0: number; readonly x1: number }[], y: number): string =>
  bars.map(({ x0, x1 }) => `M${x0} ${y}h${x1 - x0}v${LANE_HEIGHT}h${x0 - x1}z`).join('')

/** Neighbours of one colour that touch are drawn as one, so that no seams show. */
const joined = (bars: readonly Bar[], x: (t: number) => number): readonly { readonly x0: number; readonly x1: number }[] => {
  const runs: { x0: number; x1: number }[] = []
  for (const b of bars) {
    const last = runs[runs.length - 1]
    if (last && x(b.start) <= last.x1) last.x1 = Math.max(last.x1, x(b.end))
    else runs.push({ x0: x(b.start), x1: Math.max(x(b.end), x(b.start) + 1) })
  }
  return runs
}

const lanePaths = (lane: Lane, y: number, x: (t: number) => number): string => {
  const shades = [...new Set(lane.bars.map((b) => b.shade))]
  const separate = lane.bars.length <= SEPARATE_BARS
  return shades
    .map((shade) => {
      const bars = lane.bars.filter((b) => b.shade === shade)
      const runs = separate ? bars.map((b) => ({ x0: x(b.start), x1: x(b.end) })) : joined(bars, x)
      return `<path class="bar ${shade}${separate ? ' apart' : ''}" d="${barPath(runs, y)}"/>`
    })
    .join('')
}

// ---------------------------------------------------------------- memory

/** One filled step line for each kind, stacked in the order of KINDS. */
const memoryPaths = (points: readonly MemoryPoint[], x: (t: number) => number, y: (pages: number) => number): string => {
  const below = points.map(() => 0)
  return KINDS.map((kind, k) => {
    if (points.every((p) => p.pages[k] === 0)) return ''
    const lower = [...below]
    points.forEach((p, i) => {
      below[i]! += p.pages[k]!
    })
    const outlines = runsWhere(points, (p) => p.pages[k]! > 0).map((run) => {
      const top = run.map((i) => `V${y(below[i]!)}H${i + 1 < points.length ? x(points[i + 1]!.time) : WIDTH}`).join('')
      const bottom = [...run]
        .reverse()
        .map((i) => `V${y(lower[i]!)}H${x(points[i]!.time)}`)
        .join('')
      return `M${x(points[run[0]!]!.time)} ${y(lower[run[0]!]!)}${top}${bottom}z`
    })
    return `<path class="area ${kind}" d="${outlines.join('')}"/>`
  }).join('')
}

/** Maximal runs of indices whose items pass. */
const runsWhere = <T>(items: readonly T[], passes: (item: T) => boolean): readonly (readonly number[])[] => {
  const runs: number[][] = []
  items.forEach((item, i) => {
    if (!passes(item)) return
    const last = runs[runs.length - 1]
    if (last && last[last.length - 1] === i - 1) last.push(i)
    else runs.push([i])
  })
  return runs
}

interface MemoryScale {
  readonly budgetPages: number
  readonly topPages: number
  readonly marks: readonly number[]
}

const memoryScale = (plan: Plan): MemoryScale => {
  const budgetPages = pagesIn(plan.budgetBytes)
  // A budget far above the peak (in-core on a large machine) would flatten the drawing: then the peak sets the scale.
  const topPages = Math.max(
    1,
    budgetPages > 3 * plan.peakPages ? plan.peakPages * 1.1 : Math.max(budgetPages, plan.peakPages) * 1.12,
  )
  const step = 2 ** Math.round(Math.log2(bytesOf(topPages) / 5))
  return { budgetPages, topPages, marks: multiples(step, bytesOf(topPages)) }
}

// ---------------------------------------------------------------- text around the drawing

const segmentSpans = (
  plan: Plan,
  timeline: Timeline,
): readonly { readonly index: number; readonly start: number; readonly end: number }[] => {
  const starts = callStarts(plan, timeline)
  const spans: { index: number; start: number; end: number }[] = []
  plan.calls.forEach((c, p) => {
    const last = spans[spans.length - 1]
    if (last?.index === c.segment) return
    if (last) last.end = starts[p]!
    spans.push({ index: c.segment, start: starts[p]!, end: timeline.makespanSeconds })
  })
  return spans
}

const percent = (share: number): string => `${Number((share * 100).toFixed(4))}%`

const segmentStrip = (plan: Plan, timeline: Timeline): string =>
  segmentSpans(plan, timeline)
    .map(({ index, start, end }) => {
      const s = plan.segments[index]!
      const box = `left:${percent(start / timeline.makespanSeconds)};width:${percent((end - start) / timeline.makespanSeconds)}`
      return `<span class="seg ${s.phase}" style="${box}">${escapeHtml(s.name)}</span>`
    })
    .join('')

/** Marks for each magnification; the script shows the layer that fits. */
const timeMarks = (seconds: number): string =>
  ZOOMS.map((zoom) => {
    // The last mark would be cut off at the right edge.
    const marks = multiples(niceStep(seconds, 10 * zoom), seconds).filter((t) => t / seconds < 1 - 0.045 / zoom)
    const texts = marks.map((t) => `<b style="left:${percent(t / seconds)}">${axisSeconds(t, seconds)}</b>`).join('')
    return `<div class="marks" data-zoom="${zoom}"${zoom > 1 ? ' hidden' : ''}>${texts}</div>`
  }).join('')

/** Points at the worst moment, which may be too short to be seen. */
const peakMark = (plan: Plan, timeline: Timeline, y: (pages: number) => number): string => {
  const share = callStarts(plan, timeline)[worstCall(plan, pagesByKind(plan))]! / timeline.makespanSeconds
  const side = share > 0.9 ? ' right' : share < 0.1 ? ' left' : ''
  return `<span class="peak${side}" style="left:${percent(share)};top:${y(plan.peakPages) - 20}px"><u>peak ${showSize(bytesOf(plan.peakPages))}</u></span>`
}

const legend = (lanes: readonly Lane[], points: readonly MemoryPoint[]): string => {
  const kinds = KINDS.filter((_, k) => points.some((p) => p.pages[k]! > 0))
  const shades = [...new Set(lanes.flatMap((l) => l.bars.map((b) => b.shade)))]
  const key = (name: Shade | (typeof KINDS)[number], title: string): string => `<span><i class="key ${name}"></i>${title}</span>`
  return (
    `<p class="legend"><em>memory</em>${kinds.map((k) => key(k, kindTitle[k])).join('')}</p>` +
    `<p class="legend"><em>time</em>${shades.map((s) => key(s, shadeTitle[s])).join('')}</p>`
  )
}

// ---------------------------------------------------------------- the whole

const pointerData = (
  plan: Plan,
  timeline: Timeline,
  lanes: readonly Lane[],
  points: readonly MemoryPoint[],
  x: (t: number) => number,
) => {
  const labels = new Map<string, number>()
  const label = (text: string): number => {
    if (!labels.has(text)) labels.set(text, labels.size)
    return labels.get(text)!
  }
  const bars = lanes.map((l) => l.bars.flatMap((b) => [x(b.start), x(b.end), label(b.label), b.others]))
  return {
    width: WIDTH,
    seconds: timeline.makespanSeconds,
    pageMiB: PAGE_BYTES / 2 ** 20,
    kinds: KINDS.map((k) => kindTitle[k]),
    memory: points.map((p) => [x(p.time), ...p.pages]),
    lanes: lanes.map((l, i) => ({ title: l.title, bars: bars[i]! })),
    segments: segmentSpans(plan, timeline).map((s) => [x(s.start), plan.segments[s.index]!.name]),
    labels: [...labels.keys()],
  }
}

export const drawStep = (plan: Plan, timeline: Timeline): Drawing => {
  const lanes = lanesOf(plan, timeline, LANE_COLUMNS).filter((l) => l.bars.length > 0 || l.title === 'compute')
  const points = memorySeries(plan, timeline, MEMORY_COLUMNS)
  const { budgetPages, topPages, marks } = memoryScale(plan)
  const height = LANES_TOP + lanes.length * LANE_PITCH
  const x = (t: number): number => Math.round((t / timeline.makespanSeconds) * WIDTH)
  const y = (pages: number): number => Number((MEMORY_TOP + MEMORY_HEIGHT * (1 - pages / topPages)).toFixed(1))
  const rule = (kind: string, at: number): string => `<path class="${kind}" d="M0 ${at}H${WIDTH}"/>`
  const budgetShown = budgetPages <= topPages
  const svg = [
    `<svg viewBox="0 0 ${WIDTH} ${height}" height="${height}" preserveAspectRatio="none" role="img" aria-label="memory and streams over one step; the tables below have the same by segment">`,
    hatchesSvg(UNITS_A_PIXEL),
    ...marks.map((bytes) => rule('grid', y(bytes / PAGE_BYTES))),
    memoryPaths(points, x, y),
    budgetShown ? rule('budget', y(budgetPages)) : '',
    ...lanes.map(
      (lane, i) => rule('grid', LANES_TOP + i * LANE_PITCH + LANE_HEIGHT) + lanePaths(lane, LANES_TOP + i * LANE_PITCH, x),
    ),
    '</svg>',
  ].join('')
  const gutter = [
    `<b style="top:3px">segments</b>`,
    ...marks.map(
      (bytes) => `<b class="tick" style="top:${y(bytes / PAGE_BYTES) - 8}px">${bytes === 0 ? '0' : showSize(bytes)}</b>`,
    ),
    ...lanes.map((lane, i) => `<b style="top:${LANES_TOP + i * LANE_PITCH + 2}px">${lane.title}</b>`),
  ].join('')
  const budgetText = budgetShown
    ? `<span class="limit" style="top:${y(budgetPages) - 18}px">budget ${showSize(bytesOf(budgetPages))}</span>`
    : ''
  return {
    html:
      `${legend(lanes, points)}<div class="step"><div class="gutter">${gutter}</div>${budgetText}` +
      `<div class="view" tabindex="0"><div class="plot"><div class="segs">${segmentStrip(plan, timeline)}</div>${svg}${peakMark(plan, timeline, y)}` +
      `${timeMarks(timeline.makespanSeconds)}<div class="hair" hidden></div></div></div>` +
      `<div class="tip" hidden></div></div>` +
      `<p class="tools"><button data-zoom="in">zoom in</button><button data-zoom="out">zoom out</button>` +
      `<span>point at the drawing for details; double-click to zoom in, scroll sideways to move</span></p>`,
    data: pointerData(plan, timeline, lanes, points, x),
  }
}
