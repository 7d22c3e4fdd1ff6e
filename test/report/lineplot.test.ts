// The plot of lines: a path and a legend entry a series, breaks where there is no number, what is too high is cut at the frame.
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

test('every series has its line and its name; a gap lifts the pen', () => {
  const svg = plotSvg(plot)
  const paths = [...svg.matchAll(/<path d="(M[^"]*)" fill="none" stroke="#(?!444)/g)].map((m) => m[1]!)
  assert.is(paths.length, 2)
  assert.is([...paths[0]!.matchAll(/M/g)].length, 2)
  assert.is([...paths[0]!.matchAll(/L/g)].length, 2)
  for (const name of ['first', 'bound', 'budget', 'ratio', 'a &lt; b']) assert.ok(svg.includes(`>${name}</text>`), name)
  assert.is([...svg.matchAll(/<circle/g)].length, 6)
  assert.ok(svg.includes('stroke-dasharray'))
})

test('what lies above the frame is drawn at its edge, not outside; no number is missing', () => {
  const svg = plotSvg(plot)
  const heights = [...svg.matchAll(/cy="([^"]+)"/g)].map((m) => Number(m[1]))
  assert.is(Math.min(...heights), 40)
  assert.not(/NaN|Infinity|undefined/.test(svg))
  assert.not(/NaN|Infinity/.test(plotSvg({ ...plot, series: [] })))
  assert.is(plotSvg(plot), svg)
})

test('what lies below `yFrom` moves the axis down, so that no line leaves the frame', () => {
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
  const heights = [...plotSvg(low).matchAll(/cy="([^"]+)"/g)].map((m) => Number(m[1]))
  const axis = Math.max(...[...plotSvg(plot).matchAll(/cy="([^"]+)"/g)].map((m) => Number(m[1])))
  assert.is(Math.max(...heights), axis)
})

test.run()
