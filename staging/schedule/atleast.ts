// Lower bounds of a step of segments, before its layout, so that the search lays out only steps that may win and fit. In: the training graph, its
// segments, a machine. Out: pages without which some call cannot run, and the least seconds in a budget. Pages: permanent values, and the values that
// a segment touches from the first touch to the last; for a loop, the slices of a tile, and values that every tile reads or adds to. Seconds: tiles
// together compute the whole's work and launch each call anew; values between segments that do not fit beside the permanent ones are swapped out and
// in. Worked example, a budget of 6 pages with 1 for parameters: 9 pages between forward and backward leave 4 to be moved both ways.
import { mapped } from '../core/mapped'
import { ALIGN_BYTES, alignUp, bytesOf, PAGE_BYTES, pagesFor, pagesIn } from '../core/bytes'
import { dimIndex, type Range } from '../core/box'
import { dtypeBytes, type Graph, isFed, isPersistent, isResult, type OpId, type ValueId, valueBytes } from '../graph/graph'
import { inSeconds, type Machine, outSeconds } from '../graph/machine'
import { type Homes, type Persistents, SMALL_BYTES, TINY_BYTES } from '../memory/place'
import { PART_PAGES, type Parts } from '../memory/touches'
import { tileScratch } from '../plan/callcosts'
import { type Grid, type Segment, type Slices, type Step, tilesOf } from '../plan/plan'
import { type Access, type CallShapes, pointwise, touched } from '../ops/op'
import { opDef } from '../ops/registry'
import type { OpCost } from '../tile/footprint'
import { operandsOf, TILED_DIMS, type TiledDim } from '../tile/slices'
import type { AtLeast } from './candidate'
import { opCosts } from './chain'
import { onceFor as onceForGraph } from '../core/remember'
import { onceFor } from './remember'

/** With measured times, tiles may be faster than the whole, because of caches. With computed times, halos and launches only add. */
const leastShare = (machine: Machine): number => (machine.simulated ? 1 : 0.85)

/** A copy of one element. */
const ONE_ELEMENT: CallShapes = { ins: [[1, 1, 1, 1]], outs: [[1, 1, 1, 1]] }

/** The seconds of a call without work. */
export const launchSeconds = (machine: Machine): number => machine.seconds('copy', {}, ONE_ELEMENT)

/** The smallest call takes at least this share of a call that copies one element. */
const LAUNCH_SHARE = 0.9

/** The step of one tile, with the slices that it touches for those of its anchor. If there are several tiles, the step is unchanged. */
const fitting = (graph: Graph, step: Step): Step => {
  const op = graph.ops[step.op]!
  const { anchor } = opDef(op.kind)
  const slices = step.slices!
  const over = slices[anchor === 'out' ? op.ins.length : anchor]
  if (!over || TILED_DIMS.some((d) => over[d].length > 1)) return step
  const { ins, outs } = operandsOf(graph, op)
  const along = (access: Access, d: TiledDim, v: ValueId): readonly Range[] => [
    touched(access, over[d][0]!, graph.values[v]!.shape[dimIndex[d]] ?? 1),
  ]
  return {
    ...step,
    slices: mapped([...ins, ...outs], ({ value, access }, i) => {
      const own = slices[i]!
      if (!own) return own
      const at = (d: TiledDim): readonly Range[] => {
        const a = (access ?? pointwise)[d]
        return a.tag === 'inside' ? own[d] : along(a, d, value)
      }
      return { B: at('B'), H: at('H'), W: at('W') }
    }),
  }
}

/** A segment, or ops without slices yet, with its number of tiles. */
export interface Running {
  readonly grid: Grid
  readonly body: readonly { readonly op: OpId }[]
}

const computeOf = (s: Running, costs: readonly OpCost[], launch: number): number =>
  s.body.reduce((n, step) => n + costs[step.op]!.seconds, 0) + (tilesOf(s.grid) - 1) * s.body.length * LAUNCH_SHARE * launch

/** The seconds of all calls. */
export const callSeconds = (graph: Graph, segments: readonly Running[], machine: Machine): number => {
  const costs = opCosts(graph, machine)
  return leastShare(machine) * segments.reduce((n, s) => n + computeOf(s, costs, launchSeconds(machine)), 0)
}

// ---------------------------------------------------------------- pages

interface Held {
  readonly bytes: number
  first: number
  last: number
}

const mostOf = (held: Iterable<Held>, steps: number): number => {
  const change = new Float64Array(steps + 1)
  for (const { bytes, first, last } of held) {
    change[first]! += bytes
    change[last + 1]! -= bytes
  }
  let [now, most] = [0, 0]
  for (let k = 0; k < steps; k++) {
    now += change[k]!
    most = Math.max(most, now)
  }
  return most
}

/** Bands move in parts, which exceed the touched rows. */
const BAND = 9 / 8

const largest = (ranges: Slices['B']): number => ranges.reduce((n, [from, to]) => Math.max(n, to - from), 0)

class SegmentPages {
  private readonly costs: readonly OpCost[]
  /** Kinds whose ops over whole values need scratch. Tiles of other kinds need none either. */
  private readonly scratching: ReadonlySet<string>
  /** Pages of segments, which several steps share. */
  private readonly known = new WeakMap<Segment, number>()

  constructor(
    private readonly graph: Graph,
    private readonly machine: Machine,
    private readonly persistents: Homes,
    private readonly parts: Parts = 'usual',
  ) {
    this.costs = opCosts(graph, machine)
    this.scratching = new Set(
      mapped(
        graph.ops.filter((op) => this.costs[op.id]!.workspaceBytes > 0),
        (op) => op.kind,
      ),
    )
  }

  /** Returns true for a parameter or state that lives in the lower tier. */
  private hasHome(v: ValueId): boolean {
    const value = this.graph.values[v]!
    if (typeof this.persistents !== 'string') return this.persistents.has(v)
    return this.persistents === 'home' && isPersistent(value) && valueBytes(value) >= SMALL_BYTES
  }

  /** Pages of parameters, state and other permanent values. */
  get alwaysPages(): number {
    const always = this.graph.values.filter((v) => isPersistent(v) && !this.hasHome(v.id))
    return pagesFor(always.reduce((n, v) => n + alignUp(valueBytes(v), ALIGN_BYTES), 0))
  }

  /** Returns true if the value is on the device for a part of the step only. */
  private isTransient(v: ValueId): boolean {
    return !isPersistent(this.graph.values[v]!) || this.hasHome(v)
  }

  private tileBytes(v: ValueId, slices: Slices | null): number {
    const value = this.graph.values[v]!
    if (!slices) return valueBytes(value)
    return largest(slices.B) * (value.shape[1] ?? 1) * largest(slices.H) * largest(slices.W) * dtypeBytes[value.dtype]
  }

  /** Pages of a part of a whole value; none if it may share its first and last page with others. */
  private partPages(v: ValueId, slices: Slices | null): number {
    const whole = valueBytes(this.graph.values[v]!)
    const bytes = this.tileBytes(v, slices)
    return whole < PAGE_BYTES || bytes === whole ? pagesIn(bytes) : pagesFor(bytes)
  }

  /** `tiles`: the number of tiles, if the segment has one tile in place of all. */
  pages(s: Segment, tiles = tilesOf(s.grid)): number {
    return tiles > 1 ? this.loopPages(s, tiles) : pagesFor(this.wholeBytes(s))
  }

  knownPages(s: Segment): number {
    const pages = this.known.get(s) ?? this.pages(s)
    this.known.set(s, pages)
    return pages
  }

  /** Whole values, each from the first touch to the last. A value that takes over another's bytes counts as the same. */
  private wholeBytes(s: Segment): number {
    const held = new Map<ValueId, Held>()
    const touch = (v: ValueId, k: number): void => {
      if (!this.isTransient(v)) return
      const h = held.get(v)
      if (h) h.last = k
      else held.set(v, { bytes: valueBytes(this.graph.values[v]!), first: k, last: k })
    }
    const scratch: Held[] = []
    s.body.forEach(({ op: id, inPlace }, k) => {
      const op = this.graph.ops[id]!
      for (const v of op.ins) touch(v, k)
      op.outs.forEach((v, i) => {
        const under = i === 0 && inPlace !== undefined ? held.get(op.ins[inPlace]!) : undefined
        if (under) held.set(v, under)
        else if (!isResult(this.graph.values[v]!)) touch(v, k)
      })
      scratch.push({ bytes: this.costs[id]!.workspaceBytes, first: k, last: k })
    })
    return mostOf([...new Set(held.values()), ...scratch], s.body.length)
  }

  /**
   * The expected pages of a loop, with one tile in place of all: bands of whole values as wide as the image, which tiles side by side share, each a
   * little larger than its touched rows; the permanent part of two rows of tiles; and values under a page, side by side.
   */
  likelyPages(s: Segment, { B, H, W }: Grid): number {
    const made = new Set(s.body.flatMap((step) => this.graph.ops[step.op]!.outs))
    const kept = new Map(mapped(s.keeps, (k) => [k.value, k]))
    const bands = new Map<ValueId, { pages: number; always: number; first: number; last: number }>()
    const underAPage = new Set<ValueId>()
    const look = (v: ValueId, slices: Slices | null, k: number): void => {
      const value = this.graph.values[v]!
      if (!slices || !this.isTransient(v)) return
      if (valueBytes(value) < PAGE_BYTES) {
        if (valueBytes(value) >= SMALL_BYTES) underAPage.add(v)
        return
      }
      const row = (valueBytes(value) / (value.shape[0] ?? 1) / (value.shape[2] ?? 1)) * largest(slices.B)
      const rows = largest(slices.H)
      const pages = pagesFor(BAND * row * rows) + 1
      const always = W > 1 ? pages : pagesIn(row * Math.max(0, rows - Math.ceil((value.shape[2] ?? 1) / H)))
      const known = bands.get(v)
      if (!known) bands.set(v, { pages, always, first: k, last: k })
      else {
        known.pages = Math.max(known.pages, pages)
        known.always = Math.max(known.always, always)
        known.last = k
      }
    }
    s.body.forEach((step, k) => {
      const op = this.graph.ops[step.op]!
      op.ins.forEach((v, i) => !made.has(v) && look(v, step.slices![i]!, k))
      op.outs.forEach((v, i) => {
        if (!kept.has(v)) return
        // A sum is zeroed first.
        if (kept.get(v)!.merge) look(v, step.slices![op.ins.length + i]!, 0)
        look(v, step.slices![op.ins.length + i]!, k)
      })
    })
    const inside = this.loopPages({ ...s, keeps: s.keeps.filter((k) => !k.slices) }, B * H * W, () => false)
    const passing = mapped(
      [...bands.values()],
      ({ pages, always, first, last }): Held => ({ bytes: pages - always, first, last }),
    )
    const rows = pagesFor([...underAPage].reduce((n, v) => n + valueBytes(this.graph.values[v]!), 0))
    return inside + rows + mostOf(passing, s.body.length) + [...bands.values()].reduce((n, b) => n + b.always, 0)
  }

  /** Returns true if all pages of the value move together. A loop that touches parts of it in every tile holds all of it throughout. */
  private isOnePart(v: ValueId, slices: Slices | null): boolean {
    const bytes = valueBytes(this.graph.values[v]!)
    return (
      slices !== null &&
      bytes >= PAGE_BYTES &&
      pagesFor(bytes) <= PART_PAGES[this.parts] &&
      this.tileBytes(v, slices) < bytes &&
      [slices.B, slices.H, slices.W].every((ranges) => ranges.every(([from, to]) => from < to))
    )
  }

  private loopPages(s: Segment, tiles: number, counts: (v: ValueId) => boolean = () => true): number {
    const written = new Set(s.keeps.flatMap((k) => (k.merge ? [] : [k.value])))
    const summed = mapped(
      s.keeps.filter((k) => k.merge && !k.slices),
      (k) => k.value,
    )
    const here = new Map<ValueId, Held>()
    const scratch: Held[] = []
    const always = new Set<ValueId>(summed.filter((v) => this.isTransient(v)))
    const oneParts = new Set<ValueId>()
    /** The most pages of whole values that one call reads or writes. */
    let whole = 0
    s.body.forEach((step, k) => {
      const { op: id, inPlace, slices } = step
      const op = this.graph.ops[id]!
      if (this.scratching.has(op.kind))
        scratch.push({ bytes: tileScratch(this.graph, this.machine, fitting(this.graph, step)), first: k, last: k })
      let together = 0
      op.ins.forEach((v, i) => {
        const h = here.get(v)
        if (h) h.last = k
        else if (this.hasHome(v) && !slices![i]) always.add(v)
        else if (counts(v) && this.isTransient(v) && !written.has(v) && op.ins.indexOf(v) === i) {
          if (this.isOnePart(v, slices![i]!)) oneParts.add(v)
          else if (this.tileBytes(v, slices![i]!) === valueBytes(this.graph.values[v]!)) always.add(v)
          else {
            const pages = this.partPages(v, slices![i]!)
            whole = Math.max(whole, pages)
            if (!opDef(op.kind).dense) together += pages
          }
        }
      })
      whole = Math.max(whole, together)
      op.outs.forEach((v, i) => {
        const bytes = this.tileBytes(v, slices![op.ins.length + i]!)
        if (written.has(v) && this.isOnePart(v, slices![op.ins.length + i]!)) oneParts.add(v)
        else if (written.has(v)) whole = Math.max(whole, this.partPages(v, slices![op.ins.length + i]!))
        else if (i === 0 && inPlace !== undefined) {
          const under = here.get(op.ins[inPlace]!)
          if (under) here.set(v, under)
        } else if (bytes >= TINY_BYTES) here.set(v, { bytes, first: k, last: k })
      })
    })
    const bytes = (v: ValueId): number => valueBytes(this.graph.values[v]!)
    for (const v of oneParts) always.delete(v)
    const throughout =
      pagesIn([...always].reduce((n, v) => n + bytes(v), 0)) + [...oneParts].reduce((n, v) => n + pagesFor(bytes(v)), 0)
    // Between the first and the last tile, all values that every tile touches are on the device.
    const beside = tiles > 2 ? throughout + whole : Math.max(throughout, whole)
    return pagesFor(mostOf([...new Set(here.values()), ...scratch], s.body.length)) + beside
  }
}

// ---------------------------------------------------------------- seconds

/** The least share of a value that its readers touch: strides may skip the other rows. */
const READ_SHARE = 0.95

/** The results that later ops of the step need, from the end of the step back. */
class Holding {
  /** Starts at minus zero, which V8 does not store as a small integer. So the field keeps its representation when it grows large. */
  bytes = -0
  private readonly needed: Uint8Array
  private readonly sizes: readonly number[]

  constructor(graph: Graph) {
    this.needed = new Uint8Array(graph.values.length)
    this.sizes = sizesOf(graph)
  }

  size(v: ValueId): number {
    return this.sizes[v]!
  }

  has(v: ValueId): boolean {
    return this.needed[v] === 1
  }

  need(v: ValueId): void {
    if (this.needed[v] === 1) return
    this.needed[v] = 1
    this.bytes += this.sizes[v]!
  }

  drop(v: ValueId): void {
    if (this.needed[v] === 0) return
    this.needed[v] = 0
    this.bytes -= this.sizes[v]!
  }
}

/** The bytes of each value that the step makes and reads; 0 for permanent values and for fed values and results, which move separately. */
const sizesOf = onceForGraph((graph: Graph): readonly number[] =>
  mapped(graph.values, (v) => (isPersistent(v) || isFed(v) || isResult(v) ? 0 : valueBytes(v))),
)

/** Visits a body from its end to its beginning. */
const passBack = (graph: Graph, held: Holding, body: Running['body']): void => {
  for (let k = body.length - 1; k >= 0; k--) {
    const { ins, outs } = graph.ops[body[k]!.op]!
    for (const v of outs) held.drop(v)
    for (const v of ins) held.need(v)
  }
}

/** Bytes that cross into each segment: of values made before it and read in it or later, without those that are recomputed first. */
const crossingBytes = (graph: Graph, segments: readonly Running[]): readonly number[] => {
  const held = new Holding(graph)
  const out = new Array<number>(segments.length).fill(0)
  for (let s = segments.length - 1; s >= 0; s--) {
    passBack(graph, held, segments[s]!.body)
    out[s] = held.bytes * READ_SHARE
  }
  return out
}

/** Pages of a segment, or of a loop over a grid with one tile in place of all. */
export interface TilePages {
  /** Without these pages it cannot run. */
  readonly least: (s: Segment, grid: Grid) => number
  /** The pages that it is expected to hold. */
  readonly likely: (s: Segment, grid: Grid) => number
}

/** Pages in a layout with fine parts. Permanent pages are included. */
export const pagesOfTiles = (graph: Graph, machine: Machine, persistents: Homes): TilePages => {
  const measuring = new SegmentPages(graph, machine, persistents, 'fine')
  const always = measuring.alwaysPages
  const least: TilePages['least'] = (s, grid) => always + measuring.pages(s, tilesOf(grid))
  return { least, likely: (s, grid) => (tilesOf(grid) > 1 ? always + measuring.likelyPages(s, grid) : least(s, grid)) }
}

const measuringOf = onceFor(
  (graph, machine): Readonly<Record<Persistents, SegmentPages>> => ({
    resident: new SegmentPages(graph, machine, 'resident'),
    home: new SegmentPages(graph, machine, 'home'),
  }),
)

/** The least pages of a segment. Permanent pages are included. */
export const leastPagesOf = (graph: Graph, machine: Machine, persistents: Persistents): ((s: Segment) => number) => {
  const measuring = measuringOf(graph, machine)[persistents]
  const always = measuring.alwaysPages
  return (s) => always + measuring.knownPages(s)
}

/** For a step that swaps values to meet the budget. */
export const atLeastOf = (
  graph: Graph,
  segments: readonly Segment[],
  machine: Machine,
  persistents: Persistents = 'resident',
): AtLeast => atLeastOfRunning(graph, segments, () => segments, machine, persistents)

/** The same, with slices that are computed only for pages; null if such tiles are not legal. */
export const atLeastOfRunning = (
  graph: Graph,
  running: readonly Running[],
  sliced: () => readonly Segment[] | null,
  machine: Machine,
  persistents: Persistents,
): AtLeast => {
  const measuring = measuringOf(graph, machine)[persistents]
  const always = measuring.alwaysPages
  const launch = launchSeconds(machine)
  const costs = opCosts(graph, machine)
  const crossing = crossingBytes(graph, running)
  const before = [0]
  for (const s of running) before.push(before.at(-1)! + leastShare(machine) * computeOf(s, costs, launch))
  const compute = before.at(-1)!
  let pages = 0
  return {
    get pages() {
      pages ||= always + (sliced()?.reduce((n, s) => Math.max(n, measuring.knownPages(s)), 0) ?? Infinity)
      return pages
    },
    seconds: (budgetPages, link) =>
      crossing.reduce((least, bytes, s) => {
        const excess = Math.max(0, bytes - bytesOf(budgetPages - always))
        const moved = Math.max(before[s]!, outSeconds(link, excess)) + Math.max(compute - before[s]!, inSeconds(link, excess))
        return Math.max(least, moved)
      }, compute),
  }
}

/**
 * Without swaps: the most bytes of whole values at one time, from maker to last reader, with the scratch of the call. A loop holds its inputs when it
 * begins, and its results when it ends; between its ops there are only tiles.
 */
const mostHeldBytes = (graph: Graph, segments: readonly Segment[], costs: readonly OpCost[]): number => {
  const held = new Holding(graph)
  let most = 0
  for (let s = segments.length - 1; s >= 0; s--) {
    const { body, grid } = segments[s]!
    if (tilesOf(grid) > 1) {
      const after = held.bytes
      passBack(graph, held, body)
      most = Math.max(most, READ_SHARE * Math.max(held.bytes, after))
      continue
    }
    for (let k = body.length - 1; k >= 0; k--) {
      const { op: id, inPlace } = body[k]!
      const { ins, outs } = graph.ops[id]!
      const unread = outs.reduce((n, v) => (held.has(v) ? n : n + held.size(v)), 0)
      for (const v of ins) held.need(v)
      const taken = inPlace === undefined ? 0 : held.size(outs[0]!)
      most = Math.max(most, held.bytes + unread - taken + costs[id]!.workspaceBytes)
      for (const v of outs) held.drop(v)
    }
  }
  return most
}

/** For a step without swaps. */
export const atLeastResident = (graph: Graph, segments: readonly Segment[], machine: Machine): AtLeast => ({
  pages: measuringOf(graph, machine).resident.alwaysPages + pagesFor(mostHeldBytes(graph, segments, opCosts(graph, machine))),
  seconds: () => 0,
})
