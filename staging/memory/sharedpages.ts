// Small values that share a page, so that the page can be swapped. In: cells with lifetimes, and the calls that touch them. Out: for each page its
// cells. Only resting values are included: those that no call touches for most of their life, as activations between the passes. In order of
// production, each is added to the page of the value before it, if it fits. Neighbours of a chain rest at the same time, so the page rests nearly as
// long as they do. Worked example, thirds of a page, touched at: a 0 9, b 1 8, c 2 7, d 3 6, scratch 3: pages (a b c) and (d), without the scratch;
// no call touches the first page from 3 to 6.
import { ALIGN_BYTES, alignUp, PAGE_BYTES } from '../core/bytes'
import type { Call, Cell } from '../plan/plan'

/** A value rests if its longest gap between two touches is more than this share of its life. */
const RESTING_SHARE = 0.5

/** Returns, for each cell, the most consecutive calls that do not touch it. */
const idleCalls = (cells: readonly Cell[], calls: readonly Call[]): Int32Array => {
  const idle = new Int32Array(cells.length)
  const touched = new Int32Array(cells.length).fill(-1)
  calls.forEach((call, p) => {
    const touch = ({ cell }: { readonly cell: number }): void => {
      if (touched[cell]! >= 0) idle[cell] = Math.max(idle[cell]!, p - touched[cell]! - 1)
      touched[cell] = p
    }
    call.ins.forEach(touch)
    call.outs.forEach(touch)
  })
  return idle
}

/** Returns the resting values below a page, in order of production. */
export const restingUnderAPage = (cells: readonly Cell[], calls: readonly Call[]): readonly Cell[] => {
  const idle = idleCalls(cells, calls)
  return cells
    .filter((c) => c.scope === 'whole' && c.segment < 0 && c.bytes < PAGE_BYTES)
    .filter((c) => idle[c.id]! > RESTING_SHARE * (c.last - c.first))
    .sort((a, b) => a.first - b.first || b.last - a.last || a.id - b.id)
}

export const sharedPagesOf = (cells: readonly Cell[], calls: readonly Call[]): readonly (readonly Cell[])[] => {
  const pages: Cell[][] = []
  let free = 0
  for (const c of restingUnderAPage(cells, calls)) {
    const bytes = alignUp(c.bytes, ALIGN_BYTES)
    if (bytes > free) {
      pages.push([])
      free = PAGE_BYTES
    }
    pages[pages.length - 1]!.push(c)
    free -= bytes
  }
  return pages
}
