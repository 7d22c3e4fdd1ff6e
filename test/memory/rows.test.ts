// Values side by side: rows nest, hold no more pages at any time than values apart, and fewer where values end inside a page.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ALIGN_BYTES, alignUp, bytesOf, pagesFor, pagesIn } from '../../staging/core/bytes'
import { rowsOf } from '../../staging/memory/rows'
import type { Cell } from '../../staging/plan/plan'

const cellOf = (id: number, pages: number, first: number, last: number): Cell => ({
  id,
  label: `c${id}`,
  scope: 'whole',
  values: [id],
  bytes: Math.round(bytesOf(pages)),
  segment: -1,
  first,
  last,
})
const ids = (cells: readonly Cell[]): readonly (readonly number[])[] => rowsOf(cells).map((r) => r.map((c) => c.id))

/** Pages of rows at a call: a page is held from the first to the last touch of its contents. */
const heldInRows = (cells: readonly Cell[], call: number): number =>
  rowsOf(cells).reduce((n, row) => {
    const pages = new Set<number>()
    let at = 0
    for (const c of row) {
      const end = at + alignUp(c.bytes, ALIGN_BYTES)
      if (c.first <= call && call <= c.last) for (let p = pagesIn(at); p < pagesFor(end); p++) pages.add(p)
      at = end
    }
    return n + pages.size
  }, 0)
const heldApart = (cells: readonly Cell[], call: number): number =>
  cells.reduce((n, c) => n + (c.first <= call && call <= c.last ? pagesFor(c.bytes) : 0), 0)

test('the worked example: a chain of activations is a row, scratch stays by itself', () => {
  const cells = [cellOf(0, 1.25, 0, 9), cellOf(1, 1.25, 1, 8), cellOf(2, 1.25, 2, 7), cellOf(3, 1.25, 3, 3)]
  assert.equal(ids(cells), [[0, 1, 2], [3]])
  assert.equal(
    [3, 5].map((p) => [heldInRows(cells, p), heldApart(cells, p)]),
    [
      [6, 8],
      [4, 6],
    ],
  )
})

test('a value that does not nest, or that fills its pages, has no neighbour', () => {
  assert.equal(ids([cellOf(0, 1.25, 0, 4), cellOf(1, 1.25, 3, 8)]), [[0], [1]])
  assert.equal(ids([cellOf(0, 2, 0, 9), cellOf(1, 1.25, 1, 8)]), [[0], [1]])
})

test('of two that could take it, the one that dies soonest does', () => {
  assert.equal(ids([cellOf(0, 1.25, 0, 20), cellOf(1, 1.25, 0, 30), cellOf(2, 1.25, 1, 19)]), [[1, 0, 2]])
  assert.equal(ids([cellOf(0, 1.25, 0, 20), cellOf(1, 1.25, 5, 22), cellOf(2, 1.25, 6, 19)]), [[0, 2], [1]])
})

test('cells below a page are side by side behind the larger ones', () => {
  // A dense block: each layer makes a large value, then a small one that all later layers read.
  const layers = [0, 1, 2, 3].flatMap((k) => [
    cellOf(2 * k, 1.25, 2 * k, 20 - 2 * k),
    cellOf(2 * k + 1, 0.3, 2 * k + 1, 19 - 2 * k),
  ])
  assert.equal(ids(layers), [
    [0, 1, 3, 5, 7],
    [2, 4, 6],
  ])
})

const cells: fc.Arbitrary<readonly Cell[]> = fc
  .array(
    fc.record({ pages: fc.double({ min: 0.3, max: 5, noNaN: true }), first: fc.nat({ max: 30 }), length: fc.nat({ max: 30 }) }),
    { minLength: 1, maxLength: 50 },
  )
  .map((list) => list.map((c, id) => cellOf(id, c.pages, c.first, c.first + c.length)))

test('every cell is in one row, rows nest, and at no call do they hold more than cells apart', () => {
  let saved = 0
  fc.assert(
    fc.property(cells, (list) => {
      const rows = rowsOf(list)
      assert.equal(
        rows
          .flat()
          .map((c) => c.id)
          .sort((a, b) => a - b),
        list.map((c) => c.id),
      )
      for (const row of rows)
        row
          .slice(1)
          .forEach((c, i) =>
            assert.ok(row[i]!.first <= c.first && c.last <= row[i]!.last, `${c.label} outlives ${row[i]!.label}`),
          )
      for (let p = 0; p <= 60; p++) {
        const [inRows, apart] = [heldInRows(list, p), heldApart(list, p)]
        assert.ok(inRows <= apart, `${inRows} pages for ${apart} at ${p}`)
        saved += apart - inRows
      }
    }),
    { numRuns: process.env['SPILLWAY_FULL'] === '1' ? 1000 : 150, seed: 5 },
  )
  assert.ok(saved > 500, `${saved} pages saved`)
})

test.run()
