// Charts and tables of the page of a run. In: series of steps. Out: HTML, with at most a fixed number of points per line.
import { chartHtml, type ChartSeries, pointOf } from './chart'
import { type Plot, plotSvg, type Series } from './lineplot'
import { escapeHtml, scrolling } from './page'

/** A loss or a rate. */
export const numberText = (x: number): string =>
  Number.isFinite(x) ? `${Number(x.toPrecision(6))}` : Number.isNaN(x) ? '–' : x > 0 ? '∞' : '−∞'

export const metricText = (name: string, x: number): string =>
  !Number.isFinite(x) ? '–' : name === 'loss' ? numberText(x) : x.toFixed(4)

/** Steps that share a point of a drawing. */
interface Bucket {
  readonly from: number
  readonly to: number
  readonly mean: number
  readonly least: number
  readonly most: number
}

const MOST_POINTS = 200

/** At most this number of points, with equal numbers of steps; numbers that are not finite count in none. */
export const bucketsOf = (numbers: readonly number[], most = MOST_POINTS): readonly Bucket[] => {
  const size = Math.max(1, Math.ceil(numbers.length / most))
  return Array.from({ length: Math.ceil(numbers.length / size) }, (_, i) => {
    const [from, to] = [i * size, Math.min(numbers.length, (i + 1) * size)]
    let [sum, count, least, greatest] = [0, 0, Infinity, -Infinity]
    for (let k = from; k < to; k++) {
      const x = numbers[k]!
      if (!Number.isFinite(x)) continue
      sum += x
      count++
      least = Math.min(least, x)
      greatest = Math.max(greatest, x)
    }
    return count === 0
      ? { from: from + 1, to, mean: NaN, least: NaN, most: NaN }
      : { from: from + 1, to, mean: sum / count, least, most: greatest }
  })
}

export const isThere = (b: Bucket): boolean => !Number.isNaN(b.mean)

export const seriesOf = (name: string, buckets: readonly Bucket[]): Series => ({
  name,
  points: buckets.map((b) => [b.to, isThere(b) ? b.mean : undefined] as const),
  ...(buckets.some((b) => b.to > b.from) ? { band: buckets.filter(isThere).map((b) => [b.to, b.least, b.most] as const) } : {}),
})

/** Columns that begin with # hold numbers; the first cell of a row is its name. */
export const tableOf = (caption: string, heads: readonly string[], rows: readonly (readonly string[])[]): string => {
  const isNumber = heads.map((h) => h.startsWith('#'))
  const head = heads.map((h, i) => `<th scope="col"${isNumber[i] ? ' class="n"' : ''}>${escapeHtml(h.replace('#', ''))}</th>`)
  const cell = (text: string, i: number): string =>
    i === 0
      ? `<th scope="row"${isNumber[0] ? ' class="n"' : ''}>${text}</th>`
      : `<td${isNumber[i] ? ' class="n"' : ''}>${text}</td>`
  return scrolling(
    caption,
    `<table><caption>${escapeHtml(caption)}</caption><thead><tr>${head.join('')}</tr></thead>` +
      `<tbody>${rows.map((r) => `<tr>${r.map(cell).join('')}</tr>`).join('')}</tbody></table>`,
    ' numbers',
  )
}

export const section = (id: string, title: string, lead: string, ...parts: readonly string[]): string =>
  `<section id="${id}" aria-labelledby="${id}-title"><h2 id="${id}-title">${title}</h2>${lead === '' ? '' : `<p class="lead">${lead}</p>`}${parts.join('')}</section>`

/** A drawing to explore, and its numbers. `series` are finer than those of the plot. */
export const figure = (id: string, plot: Plot, series: readonly ChartSeries[], table: string): string =>
  `<figure class="plotted">${drawn(plot, series)}` +
  `<details id="${id}-numbers"><summary>${escapeHtml(plot.title)}: table</summary>${table}</details></figure>`

export const drawn = (plot: Plot, series: readonly ChartSeries[]): string =>
  chartHtml(
    { title: plot.title, x: plot.x, y: plot.y, log: plot.log === true, series },
    plotSvg({ height: 300, counts: true, ...plot, y: plot.log ? `${plot.y} (log scale)` : plot.y }, 'page'),
  )

/** Points of a line that a reader can zoom into. */
export const MOST_FINE = 2000

/** A value per step. Values that are unknown, or not finite, leave gaps. */
export const stepSeries = (name: string, numbers: readonly number[], steps?: readonly number[]): ChartSeries => ({
  name,
  points: bucketsOf(numbers, MOST_FINE).map((b) => {
    const [x, y] = pointOf(steps?.[b.to - 1] ?? b.to, b.mean)
    return y === null || b.from === b.to ? [x, y] : [x, y, b.least, b.most]
  }),
})

/** Steps whose loss is not finite, as far as marks can show them. */
export const oddSteps = (losses: readonly number[]): readonly number[] =>
  losses.flatMap((l, i) => (Number.isFinite(l) ? [] : [i + 1])).slice(0, MOST_POINTS)

/** Series of a plot as it is. */
export const asDrawn = ({ series }: Plot): readonly ChartSeries[] =>
  series.map(({ name, points, reference }) => ({
    name,
    points: points.map(([x, y]) => pointOf(x, y)),
    ...(reference ? { reference } : {}),
  }))

const stepsText = ({ from, to }: Bucket): string => (from === to ? `${from}` : `${from} to ${to}`)

export const bucketTable = (caption: string, buckets: readonly Bucket[], text: (x: number) => string): string =>
  buckets.every((b) => b.from === b.to)
    ? tableOf(
        caption,
        ['#step', '#value'],
        buckets.map((b) => [stepsText(b), text(b.mean)]),
      )
    : tableOf(
        caption,
        ['#steps', '#mean', '#least', '#most'],
        buckets.map((b) => [stepsText(b), text(b.mean), text(b.least), text(b.most)]),
      )
