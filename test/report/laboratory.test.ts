// The laboratory's pages: published numbers by row and column, results of rows, and rows at which a method is faster than `auto`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { frontOf, pageOf, type Report } from '../../bench/lab/page'
import { missingOf, numberOf, published } from '../../bench/lab/published'
import { besideAuto } from '../../bench/lab/steps'

const report: Report = {
  title: 'A paper',
  words: [],
  state: 'abc',
  older: ['second'],
  processorSeconds: [1, 2],
  sections: [
    {
      heading: 'A table',
      words: [],
      table: { head: ['a', 'b'], rows: [[1, null]] },
      verdicts: [
        { row: 'first', paper: '1', ours: '1' },
        { row: 'second', paper: '1', ours: '2', cause: '1 more' },
        { row: 'third', paper: '2', ours: '1', result: 'ours is faster' },
      ],
    },
  ],
}

test('published numbers are found by the first cells of a row and by their column', () => {
  assert.is(numberOf(1, 'table1', [928], 'P100 LMS'), 137)
  assert.is(numberOf(2, 'largest', ['resnet50'], 'recomputed'), 4500)
  assert.is(numberOf(1, 'table1', [1440], 'P100 LMS'), null)
  assert.throws(() => published(1, 'table9'), /no values 'table9' of paper 1/)
  assert.match(
    missingOf(5),
    /^The curves .* are missing, .*: Figures 5 to 12 \(ratios\); Figures 13 to 19 \(throughput\)\. The text states/,
  )
})

test('every row of the papers has as many cells as its head, a place and a reading error', () => {
  const file = join(__dirname, '../../bench/lab/papers.json')
  const { papers } = JSON.parse(readFileSync(file, 'utf8')) as { papers: Record<string, { values: Record<string, unknown> }> }
  for (const [paper, { values }] of Object.entries(papers))
    for (const name of Object.keys(values)) {
      const { head, rows, where, error } = published(Number(paper), name)
      assert.ok(where.length > 0 && error >= 0, `${paper} ${name}`)
      for (const row of rows) assert.is(row.length, head.length, `${paper} ${name}: ${row.join()}`)
    }
})

test('a row ends in reproduced, or in its cause; the front page counts them', () => {
  const page = pageOf(report)
  assert.match(page, /\| first \| 1 \| 1 \| reproduced \|/)
  assert.match(page, /\| second \| 1 \| 2 \| deviates: 1 more \|/)
  assert.match(page, /\| 1 \| – \|/)
  assert.match(page, /Parts of an earlier state than `abc`: second\./)
  const front = frontOf([['paper', report]])
  assert.match(front, /1 are reproduced, 1 deviate and name the cause/)
  assert.match(front, /ours is faster at all published points of 1 networks/)
})

test('methods that are faster than auto are named, with the largest gain', () => {
  const rows = [
    { at: 64, seconds: [1, 1.1, null] },
    { at: 128, seconds: [2, 1.9, 1.99] },
    { at: 256, seconds: [2, 1.8, 2] },
  ]
  assert.match(besideAuto(['auto', 'a', 'b'], rows), /`a` at 128, 256 \(by 11\.11 % at most\); `b` at 128 \(by 0\.50 % at most\)/)
  assert.is(besideAuto(['auto', 'a', 'b'], [rows[0]!]), 'No other method is faster than `auto` here.')
})

test.run()
