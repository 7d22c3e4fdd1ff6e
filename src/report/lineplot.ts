// A plot of lines over numbers as an SVG file. In: series of points, axis titles. Out: the text of an SVG that stands alone.
// Invariant: the same numbers give the same text; a point without a number breaks its line.
import { niceStep } from './charts'
import { escapeHtml } from './page'

export interface Series {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number | undefined])[]
  /** Drawn dashed and thin: a bound, or what a paper reports. */
  readonly reference?: boolean
}

export interface Plot {
  readonly title: string
  readonly x: string
  readonly y: string
  readonly series: readonly Series[]
  /** Where the vertical axis begins and ends; by default at nought and at the highest point. */
  readonly yFrom?: number
  readonly yTo?: number
}

const WIDTH = 860
const HEIGHT = 420
const LEFT = 64
const TOP = 40
const RIGHT = 210
const BOTTOM = 52
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

/** Of lines in turn, so that they can be told apart without colours; one fewer than those, so that pairs repeat late. */
const DASHES = ['', '8 3', '2 3', '8 3 2 3', '14 4', '5 2 2 2 2 2', '4 2', '12 3 4 3', '1 2', '10 2 1 2', '6 6'] as const

interface Scale {
  readonly x: (v: number) => number
  readonly y: (v: number) => number
  readonly xTicks: readonly number[]
  readonly yTicks: readonly number[]
}

const ticks = (from: number, to: number): readonly number[] => {
  const step = niceStep(Math.max(to - from, 1e-12), 6)
  const first = Math.ceil(from / step - 1e-9)
  const last = Math.floor(to / step + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

const scaleOf = (p: Plot): Scale => {
  const points = p.series.flatMap((s) => s.points)
  const xs = points.map(([x]) => x)
  const ys = points.flatMap(([, y]) => (y === undefined ? [] : [y]))
  const [x0, x1] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1]
  // No line leaves the axes below; above `yTo` it runs along the top.
  const y0 = Math.min(p.yFrom ?? 0, ...ys)
  const y1 = Math.max(p.yTo ?? Math.max(y0, ...ys) * 1.04, y0 + 1e-12)
  const along = (v: number, from: number, to: number, a: number, b: number): number =>
    a + ((v - from) / Math.max(to - from, 1e-12)) * (b - a)
  return {
    x: (v) => along(v, x0, x1, LEFT, WIDTH - RIGHT),
    y: (v) => along(Math.min(v, y1), y0, y1, HEIGHT - BOTTOM, TOP),
    xTicks: ticks(x0, x1),
    yTicks: ticks(y0, y1),
  }
}

const n = (v: number): string => v.toFixed(1)

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

const seriesSvg = (s: Series, i: number, scale: Scale): string => {
  const colour = s.reference ? '#666' : COLOURS[i % COLOURS.length]!
  const y = TOP + 14 + i * 18
  const dashes = DASHES[i % DASHES.length]!
  const style = s.reference
    ? 'stroke-dasharray="5 4" stroke-width="1.2"'
    : `stroke-width="2"${dashes && ` stroke-dasharray="${dashes}"`}`
  const dots = s.points.map(([px, py]) =>
    py === undefined ? '' : `<circle cx="${n(scale.x(px))}" cy="${n(scale.y(py))}" r="2.6" fill="${colour}"/>`,
  )
  return (
    `<path d="${pathOf(s, scale)}" fill="none" stroke="${colour}" ${style}/>${dots.join('')}` +
    `<path d="M${WIDTH - RIGHT + 16} ${y}h20" stroke="${colour}" ${style}/><text x="${WIDTH - RIGHT + 42}" y="${y + 4}">${escapeHtml(s.name)}</text>`
  )
}

const axesSvg = (p: Plot, scale: Scale): string => {
  const bottom = HEIGHT - BOTTOM
  const xs = scale.xTicks.map(
    (v) =>
      `<path d="M${n(scale.x(v))} ${bottom}v5" stroke="#444"/><text x="${n(scale.x(v))}" y="${bottom + 18}" text-anchor="middle">${v}</text>`,
  )
  const ys = scale.yTicks.map(
    (v) =>
      `<path d="M${LEFT} ${n(scale.y(v))}H${WIDTH - RIGHT}" stroke="#ddd"/><text x="${LEFT - 8}" y="${n(scale.y(v) + 4)}" text-anchor="end">${v}</text>`,
  )
  return (
    `${ys.join('')}${xs.join('')}<path d="M${LEFT} ${TOP}V${bottom}H${WIDTH - RIGHT}" fill="none" stroke="#444"/>` +
    `<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 12}" text-anchor="middle">${escapeHtml(p.x)}</text>` +
    `<text transform="translate(16 ${(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeHtml(p.y)}</text>` +
    `<text x="${LEFT}" y="22" font-size="15" font-weight="600">${escapeHtml(p.title)}</text>`
  )
}

export const plotSvg = (p: Plot): string => {
  const scale = scaleOf(p)
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(p.title)}: ${escapeHtml(p.y)} over ${escapeHtml(p.x)}" font-family="system-ui, sans-serif" font-size="12" fill="#222">` +
    `<title>${escapeHtml(p.title)}</title>` +
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>${axesSvg(p, scale)}${p.series.map((s, i) => seriesSvg(s, i, scale)).join('')}</svg>\n`
  )
}
