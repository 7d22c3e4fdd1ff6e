// A plot of lines over numbers as SVG. In: series of points, axis titles. Out: the text of an SVG that stands alone, or that takes the colours
// of its page, or of the reader's scheme. Invariant: the same numbers give the same text; a point without a number breaks its line; lines differ in
// dashes and marks, too, and so can be distinguished on grey paper.
import { niceStep } from './charts'
import { escapeHtml, SCHEMES } from './page'

export interface Series {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number | undefined])[]
  /** Drawn dashed and thin: a bound, or a paper's line. */
  readonly reference?: boolean
  /** Drawn thick, above the others: the line that a reader compares with the rest. */
  readonly ours?: boolean
  /** From the least to the most that a point stands for. */
  readonly band?: readonly (readonly [x: number, low: number, high: number])[]
}

export interface Plot {
  readonly title: string
  readonly x: string
  readonly y: string
  readonly series: readonly Series[]
  /** The ends of the vertical axis; by default nought and the highest point. */
  readonly yFrom?: number
  readonly yTo?: number
  /** By powers of ten: all numbers are above nought. */
  readonly log?: boolean
  /** The same for x. */
  readonly logX?: boolean
  /** Names beside the ends of their lines, instead of a list from the top. */
  readonly labels?: 'ends'
  /** True if x is a count. */
  readonly counts?: boolean
  readonly height?: number
}

/** A file is black on white, or follows the reader's scheme, light or dark; a page has colours of its own, the lines' from --s0 on. */
export type Look = 'file' | 'page' | 'scheme'

const WIDTH = 860
const HEIGHT = 420
const LEFT = 64
const TOP = 40
/** The least width beside the axes, and that of a name. */
const RIGHT = 210
const LETTER = 6.6
const NAME_LEFT = 42
const BOTTOM = 52
const LEGEND_PITCH = 18
const COLOURS = [
  '#1b6ca8',
  '#d1495b',
  '#2e8b57',
  '#e08e0b',
  '#7b4fa6',
  '#00868b',
  '#a0522d',
  '#c71585',
  '#556b2f',
  '#4169e1',
  '#b8860b',
  '#708090',
] as const

/** For lines in turn, so that they differ without colours; one fewer than those, so that pairs repeat late. */
const DASHES = ['', '8 3', '2 3', '8 3 2 3', '14 4', '5 2 2 2 2 2', '4 2', '12 3 4 3', '1 2', '10 2 1 2', '6 6'] as const

/** The most points of a line with a mark each. */
const MOST_MARKS = 60
/** For lines in turn, of this radius about nought. */
const MARKS: readonly ((r: number) => string)[] = [
  (r) => `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (r) => `m${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `m0 ${-1.3 * r}l${1.3 * r} ${2.2 * r}h${-2.6 * r}z`,
  (r) => `m0 ${-1.4 * r}l${1.4 * r} ${1.4 * r}l${-1.4 * r} ${1.4 * r}l${-1.4 * r} ${-1.4 * r}z`,
  (r) => `m0 ${1.3 * r}l${1.3 * r} ${-2.2 * r}h${-2.6 * r}z`,
  (r) => `m${-r} ${-1.6 * r}h${2 * r}v${3.2 * r}h${-2 * r}z`,
  (r) => `m${-1.6 * r} ${-r}h${3.2 * r}v${2 * r}h${-3.2 * r}z`,
]

interface Inks {
  readonly line: (i: number) => string
  readonly reference: string
  readonly axis: string
  readonly grid: string
  readonly text: string
}
const INKS: Readonly<Record<Look, Inks>> = {
  file: { line: (i) => COLOURS[i % COLOURS.length]!, reference: '#666', axis: '#444', grid: '#ddd', text: '#222' },
  page: {
    line: (i) => `var(--s${i % COLOURS.length})`,
    reference: 'var(--soft)',
    axis: 'var(--soft)',
    grid: 'var(--line)',
    text: 'currentColor',
  },
  scheme: {
    line: (i) => `var(--s${i % COLOURS.length})`,
    reference: 'var(--soft)',
    axis: 'var(--soft)',
    grid: 'var(--line)',
    text: 'var(--ink)',
  },
}

interface Scale {
  /** The largest value inside the axes. */
  readonly most: number
  readonly x: (v: number) => number
  readonly y: (v: number) => number
  /** The right end of the axis of x. */
  readonly right: number
  readonly xTicks: readonly number[]
  readonly yTicks: readonly number[]
  readonly bottom: number
}

const ticks = (from: number, to: number, least = 0): readonly number[] => {
  const step = Math.max(least, niceStep(Math.max(to - from, 1e-12), 6))
  const first = Math.ceil(from / step - 1e-9)
  const last = Math.floor(to / step + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

/** Powers of ten, and 2 and 5 times them where those are few. */
const logTicks = (from: number, to: number): readonly number[] => {
  const [low, high] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))]
  const every = Math.ceil((high - low) / 8)
  const times = high - low <= 3 ? [1, 2, 5] : [1]
  return Array.from({ length: high - low + 1 }, (_, i) => low + i)
    .filter((power) => power % every === 0)
    .flatMap((power) => times.map((t) => Number((t * 10 ** power).toPrecision(12))))
    .filter((v) => v >= from && v <= to)
}

/** Long runs have more points than a call may have arguments. */
const leastOf = (ns: readonly number[], otherwise: number): number => ns.reduce((a, b) => Math.min(a, b), otherwise)
const mostOf = (ns: readonly number[], otherwise: number): number => ns.reduce((a, b) => Math.max(a, b), otherwise)

const rangeOf = (p: Plot): readonly [from: number, to: number] => {
  const ys = p.series.flatMap((s) => [
    ...s.points.flatMap(([, y]) => (y === undefined ? [] : [y])),
    ...(s.band ?? []).flatMap(([, low, high]) => [low, high]),
  ])
  if (p.log) {
    const [low, high] = [leastOf(ys, Infinity), mostOf(ys, -Infinity)]
    return ys.length === 0 ? [1, 10] : [low / 1.1, high * 1.1]
  }
  // No line leaves the axes below; above `yTo` it runs along the top, with its values beside it.
  const from = leastOf(ys, p.yFrom ?? 0)
  return [from, Math.max(p.yTo ?? from + (mostOf(ys, from) - from) * 1.04, from + 1e-12)]
}

const scaleOf = (p: Plot): Scale => {
  const xs = p.series.flatMap((s) => s.points.map(([x]) => x))
  const [x0, x1] = xs.length ? [leastOf(xs, Infinity), mostOf(xs, -Infinity)] : [0, 1]
  const [y0, y1] = rangeOf(p)
  const bottom = Math.max(p.height ?? HEIGHT, TOP + LEGEND_PITCH * (p.series.length + 1)) - BOTTOM
  const right =
    WIDTH -
    Math.max(
      RIGHT,
      NAME_LEFT +
        LETTER *
          mostOf(
            p.series.map((s) => shownName(s).length),
            0,
          ),
    )
  const along = (v: number, from: number, to: number, a: number, b: number): number =>
    a + ((v - from) / Math.max(to - from, 1e-12)) * (b - a)
  const up = p.log ? Math.log10 : (v: number): number => v
  const over = p.logX ? Math.log10 : (v: number): number => v
  return {
    most: y1,
    right,
    x: (v) => along(over(v), over(x0), over(x1), LEFT, right),
    y: (v) => along(up(Math.min(v, y1)), up(y0), up(y1), bottom, TOP),
    xTicks: p.logX ? logTicks(x0, x1) : ticks(x0, x1, p.counts ? 1 : 0),
    yTicks: p.log ? logTicks(y0, y1) : ticks(y0, y1),
    bottom,
  }
}

const isEmpty = (s: Series): boolean => s.points.every(([, y]) => y === undefined)
/** A line without points says so beside its name. */
const shownName = (s: Series): string => (isEmpty(s) && s.points.length > 0 ? `${s.name}: none` : s.name)

const n = (v: number): string => v.toFixed(1)
/** Very large and very small numbers by their powers. */
const tickText = (v: number): string => (v !== 0 && (Math.abs(v) < 1e-4 || Math.abs(v) >= 1e6) ? v.toExponential() : `${v}`)

const pathOf = (s: Series, scale: Scale): string => {
  let pen = 'M'
  return s.points
    .map(([x, y]) => {
      const at = y === undefined ? '' : `${pen}${n(scale.x(x))} ${n(scale.y(y))}`
      pen = y === undefined ? 'M' : 'L'
      return at
    })
    .join('')
}

const bandSvg = ({ band = [] }: Series, colour: string, scale: Scale): string => {
  if (band.length < 2) return ''
  const above = band.map(([x, , high]) => `${n(scale.x(x))} ${n(scale.y(high))}`)
  const below = [...band].reverse().map(([x, low]) => `${n(scale.x(x))} ${n(scale.y(low))}`)
  return `<path d="M${[...above, ...below].join('L')}z" fill="${colour}" fill-opacity=".16" stroke="none"/>`
}

/** Values above the axes, which are drawn at the top. */
const overSvg = ({ points }: Series, colour: string, scale: Scale): string =>
  points
    .flatMap(([px, py]) =>
      py === undefined || py <= scale.most
        ? []
        : `<text class="over" x="${n(scale.x(px))}" y="${TOP - 4}" text-anchor="middle" font-size="10" fill="${colour}">▲${Number(py.toPrecision(3))}</text>`,
    )
    .join('')

/** The right-most point of a line. */
const endOf = (s: Series, scale: Scale): readonly [x: number, y: number] | undefined => {
  const places = s.points.flatMap(([x, y]) => (y === undefined ? [] : [[scale.x(x), scale.y(y)] as const]))
  return places.length ? places.reduce((a, b) => (b[0] >= a[0] ? b : a)) : undefined
}

/** Heights of the names: a list from the top, or as near to the ends of the lines as a pitch between them allows. */
const nameHeights = (p: Plot, scale: Scale): readonly number[] => {
  if (p.labels !== 'ends') return p.series.map((_, i) => TOP + 14 + i * LEGEND_PITCH)
  const wanted = p.series.map((s, i) => ({ i, y: endOf(s, scale)?.[1] ?? scale.bottom }))
  const sorted = wanted.sort((a, b) => a.y - b.y || a.i - b.i)
  const heights = new Array<number>(sorted.length).fill(0)
  let lowest = TOP
  for (const [k, { i, y }] of sorted.entries()) {
    const space = scale.bottom - LEGEND_PITCH * (sorted.length - 1 - k)
    heights[i] = Math.min(Math.max(y, lowest), space)
    lowest = heights[i]! + LEGEND_PITCH
  }
  return heights
}

const seriesSvg = (s: Series, i: number, y: number, ends: boolean, scale: Scale, inks: Inks): string => {
  const colour = s.reference ? inks.reference : inks.line(i)
  const dashes = DASHES[i % DASHES.length]!
  const style = s.reference
    ? 'stroke-dasharray="5 4" stroke-width="1.2"'
    : `stroke-width="${s.ours ? 4 : 2}"${dashes && !s.ours ? ` stroke-dasharray="${dashes}"` : ''}`
  const shape = MARKS[i % MARKS.length]!(2.6)
  const marked = s.reference || s.points.length > MOST_MARKS ? [] : s.points
  const at = (px: number, py: number): string => `<path class="mark" d="M${n(px)} ${n(py)}${shape}" fill="${colour}"/>`
  const marks = marked.map(([px, py]) => (py === undefined ? '' : at(scale.x(px), scale.y(py))))
  const key = marked.length > 0 ? at(scale.right + 26, y) : ''
  const end = ends ? endOf(s, scale) : undefined
  const leader = end
    ? `<path d="M${n(end[0])} ${n(end[1])}L${n(scale.right + 14)} ${n(y)}" stroke="${colour}" stroke-width=".6" opacity=".6"/>`
    : ''
  const weight = s.ours ? ' font-weight="700"' : ''
  return (
    `${bandSvg(s, colour, scale)}<path d="${pathOf(s, scale)}" fill="none" stroke="${colour}" ${style}/>${marks.join('')}${overSvg(s, colour, scale)}` +
    `${leader}<path d="M${n(scale.right + 16)} ${n(y)}h20" stroke="${colour}" ${style}/>${key}<text x="${n(scale.right + NAME_LEFT)}" y="${n(y + 4)}"${weight}>${escapeHtml(shownName(s))}</text>`
  )
}

const axesSvg = (p: Plot, scale: Scale, { axis, grid }: Inks): string => {
  const { bottom } = scale
  const xs = scale.xTicks.map(
    (v) =>
      `<path d="M${n(scale.x(v))} ${bottom}v5" stroke="${axis}"/><text x="${n(scale.x(v))}" y="${bottom + 18}" text-anchor="middle">${tickText(v)}</text>`,
  )
  const ys = scale.yTicks.map(
    (v) =>
      `<path d="M${LEFT} ${n(scale.y(v))}H${n(scale.right)}" stroke="${grid}"/><text x="${LEFT - 8}" y="${n(scale.y(v) + 4)}" text-anchor="end">${tickText(v)}</text>`,
  )
  return (
    `${ys.join('')}${xs.join('')}<path d="M${LEFT} ${TOP}V${bottom}H${n(scale.right)}" fill="none" stroke="${axis}"/>` +
    `<text x="${(LEFT + scale.right) / 2}" y="${bottom + BOTTOM - 12}" text-anchor="middle">${escapeHtml(p.x)}</text>` +
    `<text transform="translate(16 ${(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeHtml(p.y)}</text>` +
    `<text x="${LEFT}" y="22" font-size="15" font-weight="600">${escapeHtml(p.title)}</text>`
  )
}

export const plotSvg = (p: Plot, look: Look = 'file'): string => {
  const scale = scaleOf(p)
  const inks = INKS[look]
  const height = scale.bottom + BOTTOM
  const paper = { file: '#fff', page: undefined, scheme: 'var(--ground)' }[look]
  const ground = paper ? `<rect width="${WIDTH}" height="${height}" fill="${paper}"/>` : ''
  const stands = look === 'page' ? '' : ' xmlns="http://www.w3.org/2000/svg"'
  const heights = nameHeights(p, scale)
  const lines = p.series.map((s, i) => ({
    ours: s.ours === true,
    svg: seriesSvg(s, i, heights[i]!, p.labels === 'ends', scale, inks),
  }))
  const drawn = [...lines.filter((l) => !l.ours), ...lines.filter((l) => l.ours)].map((l) => l.svg).join('')
  return (
    `<svg${stands} viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeHtml(p.title)}: ${escapeHtml(p.y)} over ${escapeHtml(p.x)}" font-family="system-ui, sans-serif" font-size="12" fill="${inks.text}">` +
    `<title>${escapeHtml(p.title)}</title>` +
    `${look === 'scheme' ? `<style>${SCHEMES}</style>` : ''}${ground}${axesSvg(p, scale, inks)}${drawn}</svg>\n`
  )
}
