// The plot of lines: a path and a legend entry a series, breaks at missing numbers, high values cut at the frame.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Plot, plotSvg } from '../../src/report/lineplot'

const plot: Plot = {
  title: 'a < b',
  x: 'budget',
  y: 'ratio',
  yFrom: 1,
  yTo: 2,
  series: [
    {
      name: 'first',
      points: [
        [0, 1],
        [1, 1.5],
        [2, undefined],
        [3, 1.2],
        [4, 9],
      ],
    },
    {
      name: 'bound',
      reference: true,
      points: [
        [0, 1],
        [4, 1],
      ],
    },
  ],
}

/** How high the marks of a plot stand, those of its legend left out. */
const heightsIn = (svg: string): readonly number[] =>
  [...svg.matchAll(/class="mark" d="M(\S+) ([\d.]+)m/g)].filter((m) => Number(m[1]) <= 650).map((m) => Number(m[2]))

test('every series has its line and its name; a gap lifts the pen', () => {
  const svg = plotSvg(plot)
  const paths = [...svg.matchAll(/<path d="(M[^"]*)" fill="none" stroke="#(?!444)/g)].map((m) => m[1]!)
  assert.is(paths.length, 2)
  assert.is([...paths[0]!.matchAll(/M/g)].length, 2)
  assert.is([...paths[0]!.matchAll(/L/g)].length, 2)
  for (const name of ['first', 'bound', 'budget', 'ratio', 'a &lt; b']) assert.ok(svg.includes(`>${name}</text>`), name)
  // Four points and the legend's; a reference has none.
  assert.is([...svg.matchAll(/class="mark"/g)].length, 5)
  assert.ok(svg.includes('stroke-dasharray'))
})

test('points above the frame are drawn at its edge; no number is missing', () => {
  const svg = plotSvg(plot)
  assert.is(Math.min(...heightsIn(svg)), 40)
  assert.not(/NaN|Infinity|undefined/.test(svg))
  assert.not(/NaN|Infinity/.test(plotSvg({ ...plot, series: [] })))
  assert.is(plotSvg(plot), svg)
})

test('points below `yFrom` moves the axis down, so that no line leaves the frame', () => {
  const low = {
    ...plot,
    series: [
      {
        name: 'low',
        points: [
          [0, 0.25],
          [4, 1],
        ] as const,
      },
    ],
  }
  // Both series of the plot begin at 1, its axis.
  assert.is(Math.max(...heightsIn(plotSvg(low))), Math.max(...heightsIn(plotSvg(plot))))
})

test('lines differ in dashes and marks, not in colours alone; within a page they take its colours', () => {
  const series = Array.from({ length: 7 }, (_, i) => ({
    name: `s${i}`,
    points: [
      [0, i],
      [1, i + 1],
    ] as const,
  }))
  const [file, page] = [plotSvg({ ...plot, series }), plotSvg({ ...plot, series }, 'page')]
  const lines = [...file.matchAll(/<path d="M[^"]*" fill="none" stroke="#(?!444)[^"]*" stroke-width="2"([^/]*)\/>/g)].map(
    (m) => m[1],
  )
  assert.is(new Set(lines).size, 7)
  const shapes = [...file.matchAll(/class="mark" d="M\S+ [\d.]+(m[^"]*)"/g)].map((m) => m[1])
  assert.is(new Set(shapes).size, 7)
  assert.match(page, 'var(--s0)')
  assert.not.match(page, /#[0-9a-f]{3}|xmlns/)
})

test('labels of powers of ten, counts and points', () => {
  const points = [
    [1, 1e-3],
    [3, 20],
  ] as const
  const svg = plotSvg({
    ...plot,
    log: true,
    counts: true,
    series: [
      {
        name: 'a',
        points,
        band: [
          [1, 1e-4, 1],
          [3, 1, 40],
        ],
      },
    ],
  })
  const texts = [...svg.matchAll(/<text [^>]*text-anchor="(?:end|middle)">([^<]*)<\/text>/g)].map((m) => m[1]!)
  for (const text of ['0.001', '1', '10', '2', '3']) assert.ok(texts.includes(text), `${text}: ${texts.join(' ')}`)
  assert.not.ok(texts.includes('1.5'))
  assert.is([...svg.matchAll(/fill-opacity/g)].length, 1)
  assert.not.match(svg, /NaN|Infinity|undefined/)
  assert.not.match(plotSvg({ ...plot, log: true, series: [] }), /NaN|Infinity/)
})

test('a value above the axes is written at the top', () => {
  const over = (p: Plot): readonly string[] => [...plotSvg(p).matchAll(/class="over"[^>]*>▲([\d.]+)</g)].map((m) => m[1]!)
  assert.equal(over(plot), ['9'])
  assert.equal(over({ ...plot, yTo: 10 }), [])
})

test('names beside line ends do not overlap, and an empty line is marked', () => {
  const flat = (name: string, y: number | undefined) => ({ name, points: [[1, y] as const, [10, y] as const] })
  const series = [flat('a', 1), flat('b', 1), flat('c', 1.01), flat('d', undefined)]
  const svg = plotSvg({ ...plot, series, labels: 'ends', logX: true })
  const heights = [...svg.matchAll(/<text x="692\.0" y="([\d.]+)"/g)].map((m) => Number(m[1]))
  assert.is(heights.length, 4)
  const sorted = [...heights].sort((x, y) => x - y)
  assert.ok(sorted.every((h, i) => i === 0 || h - sorted[i - 1]! >= 17.9))
  assert.match(svg, />d: none</)
  assert.not.match(svg, /NaN|Infinity|undefined/)
})

test('our line is drawn last and thick; the names of long lines stay inside', () => {
  const [first, bound] = plot.series
  const long = { ...bound!, name: 'a name that is longer than the room beside the axes' }
  const svg = plotSvg({ ...plot, series: [{ ...first!, ours: true }, long] })
  assert.ok(svg.lastIndexOf('stroke-width="4"') > svg.indexOf('stroke-dasharray="5 4"'))
  const [at] = [...svg.matchAll(/<text x="([\d.]+)" y="[\d.]+">a name/g)].map((m) => Number(m[1]))
  assert.ok(at! + 6.6 * long.name.length <= 861)
})

test('a file that follows the scheme has the colours of both', () => {
  const svg = plotSvg(plot, 'scheme')
  assert.match(svg, /prefers-color-scheme:dark/)
  assert.match(svg, /fill="var\(--ground\)"/)
  assert.not.match(plotSvg(plot), /var\(/)
})

test.run()
