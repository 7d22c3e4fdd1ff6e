// The plan: one space in which every method of the papers is a point. A plan is a sequence of segments (loops over
// tiles) plus, for every storage, when its pages are on the device. Planners make plans; simulator, verifier, page
// planner, emitter and interpreter know only plans.
//
// Worked example, checkpointing: segment 0 runs conv1, relu1, conv2; segment 1 runs conv1, relu1 again ('recompute');
// segment 2 runs their backwards. relu1's value is produced twice: two cells, each alive from its producer to its last reader.
import type { Box, Range } from '../core/box'
import type { Precision } from '../devices'
import { isNarrow } from '../graph/check'
import type { Graph, OpId, ValueId } from '../graph/graph'

// ---------------------------------------------------------------- segments

/** Tiles along each dimension; 1x1x1 is an untiled segment. Tile index = (b*H + h)*W + w. */
export interface Grid {
  readonly B: number
  readonly H: number
  readonly W: number
}
export const UNTILED: Grid = { B: 1, H: 1, W: 1 }
export const tilesOf = (g: Grid): number => g.B * g.H * g.W

/** Ranges of one operand, for each tile index along each tiled dimension (the box is their product; C is whole). */
export interface Slices {
  readonly B: readonly Range[]
  readonly H: readonly Range[]
  readonly W: readonly Range[]
}

export interface Step {
  readonly op: OpId
  /** For a tiled segment: slices of ins then outs, null for operands that are not sliced. Untiled: absent. */
  readonly slices?: readonly (Slices | null)[]
  /** Output 0 takes over the bytes of this input. */
  readonly inPlace?: number
}

/** A value that the segment leaves behind whole. 'add': tiles overlap or reduce, and add into a zeroed whole. */
export interface Keep {
  readonly value: ValueId
  readonly mode: 'write' | 'add' | 'moments'
  /** The part of each tile that goes into the whole; null when the whole is written or reduced at once. */
  readonly slices: Slices | null
}

export type SegmentPhase = 'forward' | 'recompute' | 'backward' | 'update' | 'step'

export interface Segment {
  readonly name: string
  readonly phase: SegmentPhase
  readonly grid: Grid
  readonly body: readonly Step[]
  /** Values of the body that outlive a tile. Untiled: empty (every value is whole). */
  readonly keeps: readonly Keep[]
}

// ---------------------------------------------------------------- cells and calls: the segments, unrolled

/**
 * A cell is a stretch of bytes with one meaning for one stretch of time.
 *  persistent  parameters, state, the loss: always resident       fed        input and target, read from the data source
 *  whole       a value of the step, from producer to last reader (values computed in place share their cell)
 *  local       a tile's slice of a value, inside one segment; sized for the largest tile
 *  workspace   a kernel's scratch
 */
export type CellScope = 'persistent' | 'fed' | 'whole' | 'local' | 'workspace'
export interface Cell {
  readonly id: number
  readonly label: string
  readonly scope: CellScope
  /** The values that live in it, in time order. */
  readonly values: readonly ValueId[]
  readonly bytes: number
  /** Segment of a local or workspace cell of a tiled segment, else -1. */
  readonly segment: number
  /** Calls [first, last] that touch it. */
  readonly first: number
  readonly last: number
}

/** One operand of a call: a box of a value, inside the box that the cell's bytes hold, both in the value's coordinates. */
export interface View {
  readonly cell: number
  readonly value: ValueId
  /** What the cell holds: the full box for whole values, the tile's box for locals. */
  readonly held: Box
  /** What the call touches. */
  readonly box: Box
}

/** Wire kinds of calls that no graph op stands for: they come from tiling. */
export type Plumbing = 'fill' | 'copy' | 'accumulate' | 'merge_moments'

export interface Call {
  readonly kind: string
  /** The graph op, or -1 for plumbing. */
  readonly op: OpId
  readonly segment: number
  readonly tile: number
  readonly attrs: Readonly<Record<string, number>>
  readonly ins: readonly View[]
  readonly outs: readonly View[]
  readonly workspace: { readonly cell: number; readonly bytes: number } | null
  /** The way to run it; absent: direct. */
  readonly way?: number
  readonly seconds: number
}

/** Where a cell's bytes are. Large cells have a storage of their own or lie in a row; small ones, locals and persistents share one. */
export interface Place {
  readonly storage: number
  readonly offset: number
}
/** The storage of what is packed by lifetime. */
export const SMALL_VALUES = 'small values'

export interface Storage {
  readonly id: number
  readonly label: string
  readonly bytes: number
  readonly cells: readonly number[]
}

// ---------------------------------------------------------------- residency

/** Points in time: p means just before call p; calls.length is the end of the step. */
export type Point = number

/** A contiguous run of physical pages. */
export interface PageRun {
  readonly page: number
  readonly count: number
}

/**
 * Pages [from, to) of a storage, on the device from `acquire` to `release`.
 *  load   the pages are filled by a copy that starts at `acquire` and is waited for at `ready`
 *  save   a copy out starts at `start` and is waited for at `release`, when the pages become free
 * Between two residencies of the same pages the bytes are in the lower tier, at `tierOffset`.
 */
export interface Residency {
  readonly storage: number
  readonly from: number
  readonly to: number
  readonly acquire: Point
  readonly release: Point
  readonly load?: { readonly ready: Point; readonly from: 'tier' | 'source' }
  readonly save?: { readonly start: Point }
  readonly tierOffset?: number
  readonly runs: readonly PageRun[]
}

/** A residency that has no physical pages yet. */
export type Draft = Omit<Residency, 'runs'>

// ---------------------------------------------------------------- the plan

export type Algorithms = 'fixed' | 'measured' | 'fastest'

export interface Plan {
  readonly graph: Graph
  readonly strategy: string
  readonly machine: string
  readonly algorithms: Algorithms
  /** As the machine says. */
  readonly products?: 'tf32'
  readonly budgetBytes: number
  readonly segments: readonly Segment[]
  readonly cells: readonly Cell[]
  readonly calls: readonly Call[]
  readonly storages: readonly Storage[]
  /** For each cell. */
  readonly places: readonly Place[]
  /** In order of `acquire`. */
  readonly residencies: readonly Residency[]
  /** Device pages at the worst moment, and the bytes of the lower tier. */
  readonly peakPages: number
  readonly tierBytes: number
}

/** How a plan's activations are stored, and how they are multiplied. */
export const precisionOf = (plan: Pick<Plan, 'graph' | 'products'>): Precision =>
  isNarrow(plan.graph.values) ? 'bf16' : (plan.products ?? 'fp32')
/** Behind a plan's name, where it is not fp32. */
export const precisionText = (plan: Plan): string => (precisionOf(plan) === 'fp32' ? '' : ` · ${precisionOf(plan)}`)

/** A plan whose residencies have no physical pages yet: all that a simulation looks at. */
export interface Unpaged extends Omit<Plan, 'residencies' | 'peakPages'> {
  readonly residencies: readonly Draft[]
}
