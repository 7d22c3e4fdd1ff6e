// Values under a page that share one: only resting ones are there, no page holds more than a page, and resting values leave with their page.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ALIGN_BYTES, alignUp, PAGE_BYTES } from '../../staging/core/bytes'
import { sharedPagesOf } from '../../staging/memory/sharedpages'
import type { Call, Cell } from '../../staging/plan/plan'

type Touched = readonly [pages: number, ...at: readonly number[]]

const cellsOf = (list: readonly Touched[]): readonly Cell[] =>
  list.map(([pages, ...at], id) => ({
    id,
    label: `c${id}`,
    scope: 'whole',
    values: [id],
    bytes: Math.round(pages * PAGE_BYTES),
    segment: -1,
    first: Math.min(...at),
    last: Math.max(...at),
  }))
/** As many calls, each with the cells that it touches. */
const callsOf = (list: readonly Touched[], count: number): readonly Call[] =>
  Array.from({ length: count }, (_, p) => {
    const ins = list.flatMap(([, ...at], cell) => (at.includes(p) ? [{ cell, value: cell, box: [], held: [] }] : []))
    return { ins, outs: [], workspace: null } as unknown as Call
  })
const pagesOf = (list: readonly Touched[], count = 10): readonly (readonly number[])[] =>
  sharedPagesOf(cellsOf(list), callsOf(list, count)).map((page) => page.map((c) => c.id))

const THIRD = 0.3
test('the worked example: neighbours of a chain share a page, scratch has none of it', () => {
  const chain: readonly Touched[] = [
    [THIRD, 0, 9],
    [THIRD, 1, 8],
    [THIRD, 2, 7],
    [THIRD, 3, 6],
    [THIRD, 3],
  ]
  assert.equal(pagesOf(chain), [[0, 1, 2], [3]])
})

test('a value in use for half of its life is not idle; a value of a page or more needs no neighbour', () => {
  assert.equal(pagesOf([[THIRD, 0, 3, 6, 9]]), [])
  assert.equal(pagesOf([[THIRD, 0, 1, 2, 9]]), [[0]])
  assert.equal(pagesOf([[1, 0, 9]]), [])
})

test('every resting value has one place; no page holds more than a page', () => {
  const touched = fc.tuple(fc.double({ min: 0.001, max: 1.5, noNaN: true }), fc.nat({ max: 39 }), fc.nat({ max: 39 }))
  fc.assert(
    fc.property(fc.array(touched, { maxLength: 40 }), (list) => {
      const cells = cellsOf(list)
      const pages = sharedPagesOf(cells, callsOf(list, 40))
      const ids = pages.flat().map((c) => c.id)
      assert.is(new Set(ids).size, ids.length)
      for (const page of pages) assert.ok(page.reduce((n, c) => n + alignUp(c.bytes, ALIGN_BYTES), 0) <= PAGE_BYTES)
    }),
  )
})

test.run()
