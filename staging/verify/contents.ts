// The symbolic contents of each cell while the calls run: the value, its final elements, and the contributions in a partial sum. Bytes that two cells
// share belong to the last writer. Invariant: `exact` elements have their final value; for a partial sum, `ways` list the parts of each source that
// the sum contains exactly once.
import { mapped } from '../core/mapped'
import type { Box } from '../core/box'
import { isFed, isPersistent, type Value } from '../graph/graph'
import type { View } from '../plan/plan'
import type { Facts } from './facts'
import { broken, type Fault, type VerifyFailed } from './failure'
import { contains, inBox, lacking, NOTHING, plus, type Region, regionText, touches, within, without } from './region'

/** The complete contribution of the elements `taken` of `source` through op `by` (-1: the elements themselves). */
export interface SourcePart {
  readonly source: number
  readonly by: number
  readonly taken: Region
}
/** One list of all parts of a partial sum. Several lists may describe one sum: by its direct sources, or by sources of these. */
export type Way = readonly SourcePart[]

/**
 * The result of a call in a box. A tile's partial sum is zero outside its box, so `exact` may reach beyond it: there the value stays zero (a stride
 * that skips rows).
 */
export interface Contribution {
  readonly exact: Region
  /** Each way describes the whole sum. Empty if all elements are final. */
  readonly ways: readonly Way[]
  /** The nonzero part of the sum. */
  readonly support: Box
}

export interface Content extends Contribution {
  readonly held: Box
  /** Elements that a call has written, zeroed or added to. */
  readonly defined: Region
  readonly segment: number
  readonly tile: number
}

export interface Contents {
  /** Returns true if no other cell has written to the cell's bytes since the cell claimed them. */
  readonly owns: (cell: number) => boolean
  readonly sharesBytes: (a: number, b: number) => boolean
  /** Returns the final elements of a value in a cell. */
  readonly exact: (cell: number, value: number) => Region
  readonly contentOf: (view: View) => Content | undefined
  /** Returns a fault if an element of the view is not final. */
  readonly needExact: (view: View, call: number) => Fault
  readonly missing: (view: View, call: number) => VerifyFailed
  readonly write: (view: View, piece: Contribution, call: number) => Fault
  readonly sum: (view: View, content: Content) => void
  /** Makes the cell the owner of its bytes. Cells that overlap it lose their contents. */
  readonly claim: (cell: number) => void
  /** Marks the fed and persistent values of a cell as complete. */
  readonly arrive: (cell: number) => void
  readonly endSegment: (call: number) => Fault
}

/** The cells of a storage that own their bytes now, in order of offset: no two of them overlap. */
class Owners {
  private readonly owners: number[] = []

  constructor(
    private readonly from: (cell: number) => number,
    private readonly to: (cell: number) => number,
  ) {}

  /** Makes the cell the owner of its bytes, and returns the cells that lost theirs. */
  claim(cell: number): readonly number[] {
    let first = 0
    let end = this.owners.length
    while (first < end) {
      const middle = (first + end) >> 1
      if (this.to(this.owners[middle]!) <= this.from(cell)) first = middle + 1
      else end = middle
    }
    while (end < this.owners.length && this.from(this.owners[end]!) < this.to(cell)) end++
    return this.owners.splice(first, end - first, cell)
  }
}

/** Returns the contents of another value in the cell after a write to `box`, or undefined if nothing of it remains. */
const cut = (content: Content, box: Box): Content | undefined => {
  if (!touches(content.defined, box) && !touches(content.exact, box)) return content
  if (content.ways.length > 0) return undefined
  const left = { ...content, exact: without(content.exact, box), defined: without(content.defined, box) }
  return left.exact.length + left.defined.length === 0 ? undefined : left
}

const written = (old: Content | undefined, view: View, piece: Contribution, segment: number, tile: number): Content => {
  const zeroes = piece.exact.length + piece.ways.length === 0
  // An accumulator may be zeroed band by band while other bands are summed into.
  if (zeroes && old && !touches(old.defined, view.box)) return { ...old, defined: plus(old.defined, view.box) }
  const adds = old !== undefined && old.ways.length === 0 && piece.ways.length === 0
  return {
    held: view.held,
    segment,
    tile,
    ways: piece.ways,
    support: piece.support,
    exact: adds ? piece.exact.reduce(plus, without(old.exact, view.box)) : piece.exact,
    defined: adds ? plus(old.defined, view.box) : [view.box],
  }
}

/** Returns true for values that no call computes. (Losses may be in persistent cells, but calls compute them.) */
const comesFromOutside = (v: Value): boolean => isPersistent(v) || isFed(v)

const sameHeld = (a: Box, b: Box): boolean => inBox(a, b) && inBox(b, a)

export const trackContents = (facts: Facts): Contents => {
  const { plan, full, name, at } = facts
  const from = (cell: number): number => plan.places[cell]!.offset
  const to = (cell: number): number => from(cell) + plan.cells[cell]!.bytes
  const owners = mapped(plan.storages, () => new Owners(from, to))
  const owned = new Uint8Array(plan.cells.length)
  const takenBy = new Int32Array(plan.cells.length).fill(-1)
  const NONE: ReadonlyMap<number, Content> = new Map()
  /** For each cell that owns its bytes and was written: the contents of each of its values. */
  const contentsOf = new Map<number, Map<number, Content>>()
  const valuesIn = (cell: number): ReadonlyMap<number, Content> => contentsOf.get(cell) ?? NONE
  const put = (cell: number, value: number, content: Content): void => {
    const values = contentsOf.get(cell)
    if (values) values.set(value, content)
    else contentsOf.set(cell, new Map([[value, content]]))
  }
  const unfinished = new Map<string, { readonly cell: number; readonly value: number }>()
  const wholeOf = (value: number): Content => ({
    held: full[value]!,
    exact: [full[value]!],
    defined: [full[value]!],
    ways: [],
    support: full[value]!,
    segment: -1,
    tile: -1,
  })

  const claim = (cell: number): void => {
    if (owned[cell]) return
    owned[cell] = 1
    for (const other of owners[plan.places[cell]!.storage]!.claim(cell)) {
      owned[other] = 0
      takenBy[other] = cell
      contentsOf.delete(other)
    }
  }
  const arrive = (cell: number): void => {
    claim(cell)
    for (const v of plan.cells[cell]!.values) if (comesFromOutside(plan.graph.values[v]!)) put(cell, v, wholeOf(v))
  }
  for (const c of plan.cells) if (c.scope === 'persistent') arrive(c.id)

  const contentOf = (view: View): Content | undefined => {
    const content = contentsOf.get(view.cell)?.get(view.value)
    return content && sameHeld(content.held, view.held) ? content : undefined
  }

  const missing = (view: View, call: number): VerifyFailed => {
    const values = valuesIn(view.cell)
    const taker = takenBy[view.cell]!
    const { label } = plan.cells[view.cell]!
    const where = at(call, view.value)
    if (taker >= 0 && values.size === 0)
      return broken('clobbered', `the bytes of cell '${label}' are now in '${plan.cells[taker]!.label}'`, where)
    const others = mapped(
      [...values.keys()].filter((v) => v !== view.value),
      name,
    )
    if (others.length > 0) return broken('unwritten', `cell '${label}' holds '${others.join("', '")}' instead`, where)
    return broken('unwritten', `nothing was written to cell '${label}' for this box`, where)
  }

  const needExact = (view: View, call: number): Fault => {
    const content = contentOf(view)
    if (!content) return missing(view, call)
    if (contains(content.exact, view.box)) return undefined
    const lacks = lacking(content.exact, view.box)
    const partial = content.ways.length > 0 || lacks.some((b) => touches(content.defined, b))
    return partial
      ? broken('incomplete', `it is read before it is complete: ${sourcesText(content.ways)}`, at(call, view.value))
      : broken('unwritten', `${regionText(lacks)} is read, but was never written`, at(call, view.value))
  }
  const sourcesText = ([way]: readonly Way[]): string =>
    way ? mapped(way, (p) => `it has ${regionText(p.taken)} of '${name(p.source)}'`).join(', ') : 'it holds zeros'

  const write = (view: View, piece: Contribution, call: number): Fault => {
    const whole = plan.cells[view.cell]!.scope !== 'local'
    claim(view.cell)
    const old = contentOf(view)
    if (whole && old && touches(old.defined, view.box))
      return broken('coverage', `elements of the whole value are written a second time`, at(call, view.value))
    for (const [v, content] of valuesIn(view.cell)) {
      if (v === view.value) continue
      const left = whole || sameHeld(content.held, view.held) ? cut(content, view.box) : undefined
      if (left) put(view.cell, v, left)
      else contentsOf.get(view.cell)!.delete(v)
      if (left !== content) unfinished.delete(`${view.cell} ${v}`)
    }
    const { segment, tile } = plan.calls[call]!
    // Final elements of a whole value need no list of contributions: later sums name the value itself as their source.
    const final = whole && contains(piece.exact, view.box)
    const kept = final
      ? { ...piece, exact: [view.box], ways: [] }
      : whole
        ? { ...piece, exact: within(piece.exact, view.box) }
        : piece
    put(view.cell, view.value, written(old, view, kept, segment, tile))
    if (whole) unfinished.set(`${view.cell} ${view.value}`, { cell: view.cell, value: view.value })
    return undefined
  }

  const endSegment = (call: number): Fault => {
    for (const { cell, value } of unfinished.values()) {
      const content = contentsOf.get(cell)?.get(value)
      const lacks = lacking(content?.exact ?? NOTHING, full[value]!)
      if (!content || lacks.length === 0) continue
      return content.ways.length > 0 || content.exact.length === 0
        ? broken('incomplete', `its segment ends before it is complete: ${sourcesText(content.ways)}`, at(call, value))
        : broken('coverage', `its segment ends, but no tile wrote ${regionText(lacks)}`, at(call, value))
    }
    unfinished.clear()
    return undefined
  }

  return {
    contentOf,
    needExact,
    missing,
    write,
    claim,
    arrive,
    endSegment,
    owns: (cell) => owned[cell] === 1,
    exact: (cell, value) => contentsOf.get(cell)?.get(value)?.exact ?? NOTHING,
    sharesBytes: (a, b) => a !== b && plan.places[a]!.storage === plan.places[b]!.storage && from(a) < to(b) && from(b) < to(a),
    sum: (view, content) => {
      put(view.cell, view.value, content)
    },
  }
}
