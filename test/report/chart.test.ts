// The charts of a page: the numbers behind lines, axes and the pointer; in full mode, a browser zooms, smooths and moves the pointer by keys.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Chart, CHART_NUMBERS, CHART_SCRIPT, CHART_STYLE, type ChartPoint, chartHtml } from '../../src/report/chart'
import { page } from '../../src/report/page'
import { FULL } from '../full'

interface Numbers {
  readonly smooth: (points: readonly ChartPoint[], weight: number) => readonly ChartPoint[]
  readonly ticks: (from: number, to: number, count: number, least?: number) => readonly number[]
  readonly logTicks: (from: number, to: number) => readonly number[]
  readonly nearest: (points: readonly ChartPoint[], x: number) => number
  readonly within: (points: readonly ChartPoint[], from: number, to: number) => readonly ChartPoint[]
  readonly rangeOf: (series: Chart['series'], from: number, to: number, log: boolean) => readonly [number, number]
}
const numbers = new Function(`${CHART_NUMBERS};return {smooth,ticks,logTicks,nearest,within,rangeOf}`)() as Numbers

const line: readonly ChartPoint[] = [1, 2, 3, 4, 5].map((x) => [x, x === 3 ? null : 10 * x] as const)

test('smoothing is a weighted mean of the values so far; gaps remain', () => {
  assert.equal(numbers.smooth(line, 0), line)
  const [first, second, gap, fourth] = numbers.smooth(line, 0.5)
  assert.equal([first, gap], [line[0], line[2]])
  assert.is(second![1], (0.25 * 10 + 0.5 * 20) / 0.75)
  assert.is(fourth![1], (0.125 * 10 + 0.25 * 20 + 0.5 * 40) / 0.875)
})

test('axes have round marks; logarithmic ones have powers', () => {
  assert.equal(numbers.ticks(0.1, 0.9, 4), [0.2, 0.4, 0.6, 0.8])
  assert.equal(numbers.ticks(1, 3, 8, 1), [1, 2, 3])
  assert.equal(numbers.logTicks(0.001, 100), [0.001, 0.01, 0.1, 1, 10, 100])
  assert.equal(numbers.logTicks(1, 20), [1, 2, 5, 10, 20])
})

test('the pointer finds the nearest point; lines reach the edges of a range', () => {
  assert.equal(
    [-9, 1.4, 1.6, 9].map((x) => numbers.nearest(line, x)),
    [0, 0, 1, 4],
  )
  assert.is(numbers.nearest([], 1), -1)
  assert.equal(
    numbers.within(line, 1.5, 3.5).map(([x]) => x),
    [1, 2, 3, 4],
  )
  assert.equal(numbers.within(line, 7, 9), [])
})

test('the vertical range holds all values inside, and bands; above 0 for a logarithmic scale', () => {
  const series = [{ name: 'a', points: [...line, [6, 1, -5, 100]] as const }]
  const [low, high] = numbers.rangeOf(series, 1, 6, false)
  assert.ok(low < -5 && low > -10 && high > 100 && high < 105)
  assert.ok(numbers.rangeOf(series, 1, 2, false)[1] < 21)
  assert.ok(numbers.rangeOf(series, 1, 6, true)[0] > 0.9)
  assert.equal(numbers.rangeOf([], 1, 6, true), [1, 10])
})

// ---------------------------------------------------------------- in a browser

const BROWSER = ['chromium', 'chromium-browser', 'google-chrome'].find((b) => FULL && spawnSync(b, ['--version']).status === 0)

/** Uses the chart as a person does, and leaves the observations in the title. */
const ACTS = `
addEventListener('load',()=>setTimeout(()=>{
 const d=document.querySelector('.drawing'),r=d.getBoundingClientRect(),seen=[]
 const at=(kind,share)=>d.dispatchEvent(new PointerEvent(kind,{clientX:r.left+58+(r.width-72)*share,clientY:r.top+50,pointerId:1,pointerType:'pen',bubbles:true}))
 const key=k=>d.dispatchEvent(new KeyboardEvent('keydown',{key:k,bubbles:true}))
 const tip=()=>document.querySelector('.tip').textContent,ticks=()=>[...d.querySelectorAll('text')].map(t=>t.textContent).join(' ')
 at('pointermove',.5);seen.push(tip())
 at('pointerdown',.2);at('pointermove',.4);at('pointerup',.4);seen.push('zoomed '+ticks())
 key('0');key('End');seen.push(tip());key('ArrowLeft');seen.push(tip())
 const s=document.querySelector('.smooth');s.value='0.5';s.dispatchEvent(new Event('input',{bubbles:true}));key('ArrowLeft');seen.push(tip())
 document.querySelector('.log').click();seen.push(document.querySelector('.keys').textContent)
 document.querySelector('.keys button').click();seen.push(document.querySelector('.keys button').getAttribute('aria-pressed'))
 seen.push('wide '+(document.documentElement.scrollWidth>innerWidth))
 document.title=seen.join(' | ')},300))
`

if (BROWSER)
  test('a chart in a browser', () => {
    const root = mkdtempSync(join(tmpdir(), 'spillway-chart-'))
    try {
      const points = Array.from({ length: 101 }, (_, i) => [i, i - 2] as const)
      const chart: Chart = { title: 'Loss', x: 'step', y: 'loss', series: [{ name: '<i>a', points, odd: [50] }] }
      writeFileSync(join(root, 'page.html'), page('t', chartHtml(chart, ''), { script: CHART_SCRIPT + ACTS, style: CHART_STYLE }))
      const { stdout } = spawnSync(
        BROWSER,
        [
          '--headless=new',
          '--no-sandbox',
          '--disable-gpu',
          '--virtual-time-budget=4000',
          '--dump-dom',
          `file://${root}/page.html`,
        ],
        { encoding: 'utf8' },
      )
      const seen = /<title>(.*?)<\/title>/.exec(stdout)![1]!.split(' | ')
      assert.is(seen[0], 'step 50&lt;i&gt;a: 48')
      assert.match(seen[1]!, /^zoomed .*\b20 .*\b40 step$/)
      assert.equal(seen.slice(2, 4), ['step 100&lt;i&gt;a: 98', 'step 99&lt;i&gt;a: 97'])
      assert.match(seen[4]!, /^step 98&lt;i&gt;a: 96, smoothed 95$/)
      assert.match(seen[5]!, /× not finite: 1▼ 0 or less, not on a log scale: 3/)
      assert.equal(seen.slice(6), ['false', 'wide false'])
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })

test.run()
