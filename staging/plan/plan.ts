// The plan: one data structure for every method of the papers. A plan is a sequence of segments (loops over tiles) plus, for each storage, the
// residencies of its pages on the device. Planners make plans; simulator, verifier, page planner, emitter and interpreter know only plans.
//
// Worked example, checkpointing: segment 0 runs conv1, relu1, conv2; segment 1 runs conv1, relu1 again ('recompute'); segment 2 runs their backward
// ops. relu1's value is produced twice: two cells, each alive from its producer to its last reader.
//
// Codecs describe the contents of plan files; types follow from them.
import { mapped } from '../core/mapped'
import * as t from 'io-ts'
import type { Box } from '../core/box'
import { count, integer, list, names, positive, record, seconds, tuple, wholeFrom, words } from '../core/codecs'
import { repeatsCodec } from '../core/repeats'
import { type Precision, PRECISION_OF } from '../devices'
import { halfOf } from '../graph/check'
import { graphCodec } from '../graph/codec'
import type { OpId, ValueId } from '../graph/graph'
import { rangesCodec } from './ranges'

// ---------------------------------------------------------------- segments

const gridCodec = record({ B: wholeFrom(1), H: wholeFrom(1), W: wholeFrom(1) })
/** The number of tiles along each dimension. 1x1x1 is an untiled segment. Tile index = (b*H + h)*W + w. */
export interface Grid extends t.TypeOf<typeof gridCodec> {}
export const UNTILED: Grid = { B: 1, H: 1, W: 1 }
export const tilesOf = (g: Grid): number => g.B * g.H * g.W

const ranges = rangesCodec
const slicesCodec = record({ B: ranges, H: ranges, W: ranges })
/** The ranges of one operand, for each tile index along each tiled dimension. The box of a tile is their product; C is whole. */
export interface Slices extends t.TypeOf<typeof slicesCodec> {}
const slicesOrNone: t.Type<Slices | null, Slices | null, unknown> = t.union([slicesCodec, t.null])

const stepCodec = record(
  { op: count },
  {
    /** For a tiled segment: the slices of ins, then outs; null for operands that are not sliced. Absent in untiled segments. */
    slices: list(slicesOrNone),
    /** Output 0 reuses the bytes of this input. */
    inPlace: count,
  },
)
export interface Step extends t.TypeOf<typeof stepCodec> {}

const keepCodec = record(
  {
    value: count,
    /** The part of the whole value that each tile writes; null if the whole is written or reduced at once. */
    slices: slicesOrNone,
  },
  { merge: names(['sum', 'moments']) },
)
/** A value that is whole after the segment. Without `merge` each tile writes its part. With `merge: 'sum'` the whole is zeroed first. */
export interface Keep extends t.TypeOf<typeof keepCodec> {}

const phaseCodec = names(['forward', 'recompute', 'backward', 'update', 'step'])
export type SegmentPhase = t.TypeOf<typeof phaseCodec>

const segmentCodec = record({
  name: words,
  phase: phaseCodec,
  grid: gridCodec,
  body: list(stepCodec),
  /** Values of the body that are alive after their tile. Untiled: empty, because every value is whole. */
  keeps: list(keepCodec),
})
export interface Segment extends t.TypeOf<typeof segmentCodec> {}

// ---------------------------------------------------------------- cells and calls: the segments, unrolled

/**
 * A cell is memory that holds a value for a while.
 *  persistent  parameters, state, the loss: always resident, or at home in the lower tier between steps
 *  fed         input and target, read from the data source
 *  output      the result of a prediction, which is copied to the caller when it is complete
 *  whole       a value of the step, from producer to last reader (values computed in place share their cell)
 *  local       a tile's slice of a value, inside one segment; sized for the largest tile
 *  workspace   a kernel's scratch
 */
export type CellScope = 'persistent' | 'fed' | 'output' | 'whole' | 'local' | 'workspace'
export interface Cell {
  readonly id: number
  readonly label: string
  readonly scope: CellScope
  /** The values that are stored in it, in time order. */
  readonly values: readonly ValueId[]
  readonly bytes: number
  /** Segment of a local or workspace cell of a tiled segment, else -1. */
  readonly segment: number
  /** Calls [first, last] that touch it. */
  readonly first: number
  readonly last: number
}

/** One operand of a call: a box of a value, inside the box of the value that the cell holds. Both are in the value's coordinates. */
export interface View {
  readonly cell: number
  readonly value: ValueId
  /** The box that the cell holds: the full box for whole values, the tile's box for locals. */
  readonly held: Box
  /** The box that the call touches. */
  readonly box: Box
}

/** Wire kinds of calls without a graph op: they result from tiling. */
export type Plumbing = 'fill' | 'copy' | 'merge_sum' | 'merge_moments'

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
  /** The number of the kernel algorithm; absent: 0, the device's first choice. */
  readonly way?: number
  readonly seconds: number
  /**
   * Set if the call runs on the lane of exchanges, beside the calls before `until`. The call at `until` touches its result. Then the call's own
   * `seconds` are 0.
   */
  readonly beside?: { readonly until: Point; readonly seconds: number }
}

/** The result of unrolling segments: expand.ts. */
export interface Unrolled {
  readonly cells: readonly Cell[]
  readonly calls: readonly Call[]
}

const placeCodec = record({ storage: count, offset: count })
/** The place of a cell's bytes. A large cell has a storage of its own or is in a row. Small cells, locals and persistent cells share storages. */
export interface Place extends t.TypeOf<typeof placeCodec> {}
/** The storage of values packed by lifetime. */
export const SMALL_VALUES = 'small values'

const storageCodec = record(
  { id: count, label: words, bytes: count, cells: list(count) },
  {
    /**
     * The offset in the lower tier of a parameter or state that is not always on the device. It is there between steps and while it is swapped out.
     */
    home: count,
  },
)
export interface Storage extends t.TypeOf<typeof storageCodec> {}

// ---------------------------------------------------------------- residency

/** Points in time: p means just before call p; calls.length is the end of the step. */
export type Point = number

const runCodec = record({ page: count, count: wholeFrom(1) })
/** A contiguous run of physical pages. */
export interface PageRun extends t.TypeOf<typeof runCodec> {}

export const residencyCodec = record(
  { storage: count, from: count, to: count, acquire: count, release: count, runs: list(runCodec) },
  {
    swapIn: record({ ready: count, from: names(['tier', 'source']) }),
    swapOut: record({ start: count }, { to: t.literal('sink') }),
    tierOffset: count,
  },
)
/**
 * Pages [from, to) of a storage, on the device from `acquire` to `release`.
 *  swapIn   the pages are filled, from the lower tier or the data source, by a copy that starts at `acquire` and is waited for at `ready`
 *  swapOut  the pages are copied by a swap out that starts at `start` and is waited for at `release`, when they become free
 *           the bytes are saved in the lower tier, or an output is copied to the `sink` and not loaded again
 * Between two residencies of the same pages the bytes are in the lower tier, at `tierOffset`.
 *
 * A fed value or a parameter of the lower tier may be loaded during the step before (ahead.ts). Then its first residency has no swapIn. Another residency, on the same physical
 * pages, ends with the step and is filled for the next step.
 */
export interface Residency extends t.TypeOf<typeof residencyCodec> {}

/** A residency without physical pages. */
export type UnpagedResidency = Omit<Residency, 'runs'>
/** Returns true if its pages are swapped out to the lower tier at its end. */
export const isSwappedToTier = ({ swapOut }: UnpagedResidency): boolean => swapOut !== undefined && swapOut.to !== 'sink'
export const isHandedOut = ({ swapOut }: UnpagedResidency): boolean => swapOut?.to === 'sink'

/** Returns true if its bytes in the lower tier are on the disk behind host memory. */
export const isOnDisk = (
  { hostBytes = Infinity }: { readonly hostBytes?: number },
  { tierOffset = -1 }: Pick<UnpagedResidency, 'tierOffset'>,
): boolean => tierOffset >= hostBytes

// ---------------------------------------------------------------- the plan

const algorithmsCodec = names(['fixed', 'measured', 'fastest'])
/**
 * The algorithms that a plan may choose: 'fixed' (one per call), 'measured' (the fastest reproducible),
 * 'fastest' (any).
 *
 * @example
 * const algorithms: Algorithms = 'fixed'
 * stage(net, { algorithms })
 */
export type Algorithms = t.TypeOf<typeof algorithmsCodec>

const costsCodec: t.Type<RecordedCosts, RecordedCosts, unknown> = t.record(
  t.string,
  tuple(seconds, count, count),
) as unknown as t.Type<RecordedCosts, RecordedCosts, unknown>
/** By the key of a call: seconds, scratch bytes and the number of the kernel algorithm. */
export type RecordedCosts = Readonly<Record<string, readonly [seconds: number, workspaceBytes: number, way: number]>>

/** The fields of a plan in a file. Cells and calls follow from them and from the recorded costs. */
const fields = {
  graph: graphCodec,
  strategy: words,
  machine: words,
  algorithms: algorithmsCodec,
  budgetBytes: count,
  /** Device pages at the peak. */
  peakPages: count,
  /** Bytes of the lower tier. */
  tierBytes: count,
  segments: list(segmentCodec),
  storages: list(storageCodec),
  /** By cell. */
  places: list(placeCodec),
  /** In order of `acquire`. */
  residencies: list(residencyCodec),
}
const optionalFields = {
  /** The precision of products, if it is not fp32. A 16-bit precision is in the types of the graph's values instead. */
  precision: t.literal('tf32'),
  /** The network between ranks, if the planner counted the time of exchanges. */
  network: record({ name: words, bytesPerSecond: positive, latencySeconds: positive }),
  /** If the lower tier is host memory and a disk: the bytes of host memory, which come first. */
  hostBytes: count,
}
const filed = record(fields, optionalFields)
/**
 * A complete plan: every call, address and copy of a step. Save it with `savePlan`.
 *
 * @example const peak = ({ peakPages }: Plan) => peakPages * PAGE_BYTES
 */
export interface Plan extends t.TypeOf<typeof filed>, Unrolled {}
const foldedCodec = record({ rows: list(list(integer)), order: repeatsCodec })
/** Residencies by rows that repeat (folded.ts). */
export interface Folded extends t.TypeOf<typeof foldedCodec> {}
/** A plan file, with the costs of its calls. If residencies are many, it has only folded ones. */
export const fileCodec = record({ ...fields, costs: costsCodec }, { ...optionalFields, folded: foldedCodec })
const fieldNames = [...Object.keys(fields), ...Object.keys(optionalFields)] as readonly (keyof t.TypeOf<typeof filed>)[]
export const fieldsOf = (plan: Plan): t.TypeOf<typeof filed> =>
  Object.fromEntries(mapped(fieldNames, (f) => [f, plan[f]])) as unknown as t.TypeOf<typeof filed>

/** Returns the precision of a plan: the type of its activations, or the precision of its products. */
export const precisionOf = (plan: Pick<Plan, 'graph' | 'precision'>): Precision =>
  precisionIn(plan.graph) ?? plan.precision ?? 'fp32'

const precisionIn = ({ values }: Plan['graph']): Precision | undefined => {
  const half = halfOf(values)
  return half && PRECISION_OF[half]
}
/** Returns the text after a plan's name; empty for fp32. */
export const precisionText = (plan: Plan): string => (precisionOf(plan) === 'fp32' ? '' : ` · ${precisionOf(plan)}`)

/** A plan whose residencies have no physical pages. A simulation needs no more. */
export interface UnpagedPlan extends Omit<Plan, 'residencies' | 'peakPages'> {
  readonly residencies: readonly UnpagedResidency[]
}
