// Rows of large values that share the page where one ends and the next begins. In: cells with lifetimes. Out: rows, each to be one storage.
// Invariant: each cell of a row lives within the life of the cell before it. So a shared page is held no longer than the last page of the earlier
// cell would be without the row: rows never hold more pages than separate cells. Cells below a page end a row, side by side: operators that read many
// of them, as in a dense block, touch few pages. Worked example, 1.25 pages each: a chain's a [0,9], b [1,8], c [2,7], and scratch [3,3]: rows (a b
// c) and (scratch), 6 pages instead of 8.
import { ALIGN_BYTES, alignUp, PAGE_BYTES } from '../core/bytes'
import type { Cell } from '../plan/plan'

/** The most cells of a row. When pages of a row change residency, all pages of the row are mapped again. */
const MOST_CELLS = 64
/** A cell must live at least this share of the life of the cell before it. A much shorter life would displace a better neighbour. */
const LEAST_SHARE = 0.5

interface Row {
  readonly cells: Cell[]
  bytes: number
}

const lifeOf = (c: Cell): number => c.last - c.first + 1
const lastOf = (r: Row): Cell => r.cells[r.cells.length - 1]!
const isUnderAPage = (c: Cell): boolean => c.bytes < PAGE_BYTES
/** Returns true if the cell may follow the last cell of the row. After a cell below a page, only such cells may follow. */
const canTake = (r: Row, c: Cell): boolean =>
  lastOf(r).last >= c.last && lifeOf(c) >= LEAST_SHARE * lifeOf(lastOf(r)) && (isUnderAPage(c) || !isUnderAPage(lastOf(r)))
const isOpen = (r: Row): boolean => r.bytes % PAGE_BYTES !== 0 && r.cells.length < MOST_CELLS

export const rowsOf = (cells: readonly Cell[]): readonly (readonly Cell[])[] => {
  const rows: Row[] = []
  let open: Row[] = []
  for (const c of [...cells].sort((a, b) => a.first - b.first || b.last - a.last || a.id - b.id)) {
    open = open.filter((r) => lastOf(r).last >= c.first && isOpen(r))
    // Prefer rows that end with a cell below a page, because only such cells may follow there. Then prefer the row that dies first: it is most like
    // the cell.
    const isBetter = (r: Row, b: Row): boolean =>
      isUnderAPage(lastOf(r)) === isUnderAPage(lastOf(b)) ? lastOf(r).last <= lastOf(b).last : isUnderAPage(lastOf(r))
    const best = open.reduce<Row | undefined>((b, r) => (canTake(r, c) && (!b || isBetter(r, b)) ? r : b), undefined)
    const row = best ?? { cells: [], bytes: 0 }
    row.bytes += alignUp(c.bytes, ALIGN_BYTES)
    row.cells.push(c)
    if (!best) {
      rows.push(row)
      open.push(row)
    }
  }
  return rows.map((r) => r.cells)
}
