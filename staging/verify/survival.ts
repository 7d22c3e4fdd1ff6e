// Tracks the bytes of a cell that are lost when their pages leave the device. Bytes survive if the pages are swapped out and in again, or fed again
// from the data source; other bytes are lost until a call writes them. In: pages acquired and swapped out, cells written. Out: the lost bytes of a
// view. Invariant: each page of an output is transferred once, with intact bytes, and is not touched afterwards.
import { mapped } from '../core/mapped'
import { bytesOf, PAGE_BYTES, pagesFor, pagesIn } from '../core/bytes'
import type { Residency, View } from '../plan/plan'
import { byteRuns, type Bytes, meetsAny, meetsRun, withoutRun, withRun } from './bytes'
import type { Contents } from './contents'
import { borderOf } from './border'
import { type Facts, startsOf } from './facts'
import { broken, type Fault } from './failure'
import { emptyTier, type Stored } from './tier'

export interface Survival {
  readonly swapOut: (residency: number) => Fault
  readonly acquire: (residency: number) => Fault
  /** Checks the load of a residency for the next step. */
  readonly load: (residency: number) => Fault
  readonly isLost: (view: View) => boolean
  readonly anyLost: (cell: number) => boolean
  /** Returns the number of pages of the cell that were not output. */
  readonly kept: (cell: number) => number
  /** Returns true if the home of a cell contains all writes to the cell. */
  readonly isHome: (cell: number) => boolean
  readonly wrote: (view: View, call: number) => void
}

export const trackSurvival = (facts: Facts, contents: Contents): Survival => {
  const { cells, places, storages, residencies } = facts.plan
  const tier = emptyTier()
  const lost: Bytes[] = mapped(cells, (c) => (c.scope === 'fed' ? [[0, c.bytes]] : []))
  // Before the first call, homes hold their cells intact.
  for (const { id, home, bytes, cells: on } of storages) {
    if (home === undefined) continue
    for (let page = 0; bytesOf(page) < bytes; page++) {
      const [lo, hi] = [home + bytesOf(page), home + Math.min(bytes, bytesOf(page + 1))]
      tier.swapOut({ storage: id, page, lo, hi, start: 0, intact: on, readUntil: -1 })
    }
  }
  const homeOf = (cell: number): number | undefined => storages[places[cell]!.storage]!.home
  const firstPage = (cell: number): number => pagesIn(places[cell]!.offset)
  const endPage = (cell: number): number => pagesFor(places[cell]!.offset + cells[cell]!.bytes)
  const pagesBefore = startsOf(cells, (c) => endPage(c.id) - firstPage(c.id))
  /** For each page of each cell the last call that wrote to it. */
  const lastWrite = new Int32Array(pagesBefore[cells.length]!).fill(-1)

  /** Returns the byte range of the cell inside a page of its storage. */
  const within = (cell: number, page: number): readonly [number, number] => [
    Math.max(0, bytesOf(page) - places[cell]!.offset),
    Math.min(cells[cell]!.bytes, bytesOf(page + 1) - places[cell]!.offset),
  ]
  /** For a storage of several cells: the cells that occupy each page at any time. Computed at its first use. */
  const sharers = new Map<number, readonly (readonly number[])[]>()
  const sharersOf = (storage: number): readonly (readonly number[])[] => {
    const known = sharers.get(storage)
    if (known) return known
    const on: number[][] = Array.from({ length: pagesFor(storages[storage]!.bytes) }, () => [])
    for (const c of storages[storage]!.cells) for (let page = firstPage(c); page < endPage(c); page++) on[page]!.push(c)
    sharers.set(storage, on)
    return on
  }
  const cellsOn = (r: Residency): readonly number[] => {
    const all = storages[r.storage]!.cells
    return all.length === 1 ? all : [...new Set(sharersOf(r.storage).slice(r.from, r.to).flat())]
  }
  const tierOffset = (r: Residency, page: number): number => r.tierOffset! + bytesOf(page - r.from)

  const pagesBeforeStorage = startsOf(storages, (st) => pagesFor(st.bytes))
  const handed = new Uint8Array(pagesBeforeStorage[storages.length]!)
  const handOut = (index: number): Fault => {
    const r = residencies[index]!
    for (let page = r.from; page < r.to; page++) {
      const { label, cells: on } = storages[r.storage]!
      const out = (reason: string): Fault => broken('output', `page ${page} of '${label}' ${reason}`, facts.at(r.swapOut!.start))
      if (handed[pagesBeforeStorage[r.storage]! + page]) return out('is output a second time')
      if (on.some((c) => meetsRun(lost[c]!, ...within(c, page)))) return out('is output after its bytes are lost')
      handed[pagesBeforeStorage[r.storage]! + page] = 1
    }
    return undefined
  }
  const isIntact = (cell: number, page: number): boolean =>
    firstPage(cell) <= page &&
    page < endPage(cell) &&
    contents.owns(cell) &&
    (lost[cell]!.length === 0 || !meetsRun(lost[cell]!, ...within(cell, page)))
  const swapOut = (index: number): Fault => {
    const r = residencies[index]!
    if (r.swapOut!.to === 'sink') return handOut(index)
    const on = cellsOn(r)
    for (let page = r.from; page < r.to; page++) {
      const lo = tierOffset(r, page)
      const bytes = Math.min(PAGE_BYTES, storages[r.storage]!.bytes - bytesOf(page))
      const intact = on.every((c) => isIntact(c, page)) ? on : on.filter((c) => isIntact(c, page))
      const entry: Stored = { storage: r.storage, page, lo, hi: lo + bytes, start: r.swapOut!.start, intact, readUntil: -1 }
      if (!tier.swapOut(entry))
        return broken(
          'tier',
          `residency ${index} is swapped out over tier bytes that are still being swapped in`,
          facts.at(r.swapOut!.start),
        )
    }
    return undefined
  }

  /**
   * Returns the lower tier's copies of the pages that a residency swaps in, or begins the step with. Their swaps out have ended: each ends before its
   * pages are released, and the pages are acquired again only after that.
   */
  const swapIn = (index: number): readonly Stored[] | Fault => {
    const r = residencies[index]!
    const copies: Stored[] = []
    for (let page = r.from; page < r.to; page++) {
      const copy = tier.find(r.storage, page, tierOffset(r, page))
      const name = `page ${page} of '${storages[r.storage]!.label}'`
      if (!copy)
        return broken('tier', `residency ${index} swaps in ${name}, which was not swapped out to there`, facts.at(r.acquire))
      copy.readUntil = Math.max(copy.readUntil, r.swapIn?.ready ?? 0)
      copies.push(copy)
    }
    return copies
  }

  const fromSource = (index: number): Fault => {
    const r = residencies[index]!
    const on = cellsOn(r)
    const other = on.find((c) => cells[c]!.scope !== 'fed')
    if (other !== undefined)
      return broken(
        'structure',
        `residency ${index} is read from the data source over cell '${cells[other]!.label}'`,
        facts.at(r.acquire),
      )
    for (const c of on) {
      if (!contents.owns(c)) contents.arrive(c)
      for (let page = Math.max(r.from, firstPage(c)); page < Math.min(r.to, endPage(c)); page++)
        lost[c] = withoutRun(lost[c]!, ...within(c, page))
    }
    return undefined
  }

  const { begins } = borderOf(facts.plan)
  const acquire = (index: number): Fault => {
    const r = residencies[index]!
    for (let page = r.from; page < r.to; page++)
      if (handed[pagesBeforeStorage[r.storage]! + page])
        return broken(
          'output',
          `page ${page} of '${storages[r.storage]!.label}' is on the device again after its output`,
          facts.at(r.acquire),
        )
    const isFed = r.swapIn ? r.swapIn.from === 'source' : begins(r) && storages[r.storage]!.home === undefined
    if (isFed) return fromSource(index)
    const copies = r.swapIn || begins(r) ? swapIn(index) : []
    if (copies === undefined || 'tag' in copies) return copies
    for (const c of cellsOn(r)) {
      const kept = cells[c]!.scope === 'persistent' && r.acquire === 0 && homeOf(c) === undefined
      if (kept || !contents.owns(c)) continue
      const written = pagesBefore[c]! - firstPage(c)
      for (let page = Math.max(r.from, firstPage(c)); page < Math.min(r.to, endPage(c)); page++) {
        const copy = copies[page - r.from]
        const current = copy?.intact.includes(c) === true && lastWrite[written + page]! < copy.start
        if (current && lost[c]!.length === 0) continue
        const [lo, hi] = within(c, page)
        lost[c] = current ? withoutRun(lost[c]!, lo, hi) : withRun(lost[c]!, lo, hi)
      }
    }
    return undefined
  }

  // No swap out may follow, so the next step begins with the bytes of the home at the end of this step (`isHome`).
  const load = (index: number): Fault => {
    const copies = residencies[index]!.swapIn!.from === 'tier' ? swapIn(index) : undefined
    return copies && 'tag' in copies ? copies : undefined
  }

  const elementBytes = (view: View): number => facts.elementBytes[view.value]!
  const isLost = (view: View): boolean => {
    const dropped = lost[view.cell]!
    // The runs must be exact: other columns in the same rows may not be written yet.
    return dropped.length > 0 && meetsAny(dropped, byteRuns(view, elementBytes(view), true))
  }
  const wrote = (view: View, call: number): void => {
    const { offset } = places[view.cell]!
    const written = pagesBefore[view.cell]! - firstPage(view.cell)
    for (const [lo, hi] of byteRuns(view, elementBytes(view)))
      lastWrite.fill(call, written + pagesIn(offset + lo), written + pagesFor(offset + hi))
    if (lost[view.cell]!.length === 0) return
    for (const [lo, hi] of byteRuns(view, elementBytes(view), true)) lost[view.cell] = withoutRun(lost[view.cell]!, lo, hi)
  }
  const kept = (cell: number): number => {
    const { storage } = places[cell]!
    const given = handed.subarray(pagesBeforeStorage[storage]!, pagesBeforeStorage[storage + 1]!)
    return given.reduce((n, h) => n - h, endPage(cell) - firstPage(cell))
  }
  const isHome = (cell: number): boolean =>
    Array.from(lastWrite.subarray(pagesBefore[cell]!, pagesBefore[cell + 1]!)).every((written, page) => {
      const at = firstPage(cell) + page
      const copy = tier.find(places[cell]!.storage, at, homeOf(cell)! + bytesOf(at))
      return copy?.intact.includes(cell) === true && written < copy.start
    })
  return { swapOut, acquire, load, isLost, wrote, kept, isHome, anyLost: (c) => lost[c]!.length > 0 }
}
