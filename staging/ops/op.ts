// The op table's entry type: all facts of one operator. The graph builder, the gradient pass, tiling, cost, liveness, the wire format and the
// generated C++ are derived from it. In: nothing. Out: types and small constructors. Invariant: facts of an operator are only in its entry; only
// rewrites, which join operators, know some by name.
import type { Half } from '../core/halves'
import { mapped } from '../core/mapped'
import { type Either, isLeft, left } from 'fp-ts/Either'
import * as t from 'io-ts'
import { clip, type Dim, DIMS, type Range, type Shape } from '../core/box'
import { onceFor } from '../core/remember'

/** The sizes of a value of any rank. */
export type Sizes = readonly number[]

// ---------------------------------------------------------------- attributes

/** Attributes are flat records of numbers: one list gives the TypeScript type, the io-ts codec and the C++ struct. */
export type Field = 'int' | 'float'
export type Fields = Readonly<Record<string, Field>>
export type AttrsOf<F extends Fields> = { readonly [K in keyof F]: number }
export type AnyAttrs = Readonly<Record<string, number>>

/** The attribute part of an entry. */
export type AttrFields = Pick<OpDef, 'fields' | 'rest'>

/** Returns the attributes of an open list: `weight` gives weight0, weight1, ... */
export const listedAttrs = (name: string, values: readonly number[]): AnyAttrs =>
  Object.fromEntries(mapped(values, (v, i) => [`${name}${i}`, v]))
/** Returns the values of an open list of attributes. */
export const attrsListed = (name: string, attrs: AnyAttrs): readonly number[] => {
  const values: number[] = []
  for (let v = attrs[`${name}0`]; v !== undefined; v = attrs[`${name}${values.length}`]) values.push(v)
  return values
}
/** Returns the attributes' names in wire order: the fields, then the first of each open list, the second of each, and so on. */
export const attrNames = (of: AttrFields, attrs: AnyAttrs): readonly string[] =>
  of.rest ? [...Object.keys(of.fields), ...restNames(of, attrs)] : Object.keys(of.fields)
const restNames = ({ rest }: AttrFields, attrs: AnyAttrs): readonly string[] => {
  if (!rest) return []
  const names = Object.keys(rest)
  const rows = names.length === 0 ? 0 : Math.min(...mapped(names, (name) => attrsListed(name, attrs).length))
  return Array.from({ length: rows }, (_, i) => mapped(names, (name) => `${name}${i}`)).flat()
}

/** The codec of attributes in a plan file: exactly these names, and integers for fields of type 'int'. */
export const attrsCodec = onceFor((of: AttrFields): t.Type<AnyAttrs> => {
  const { fields } = of
  const isLegal = (name: string, v: unknown): boolean =>
    typeof v === 'number' && Number.isFinite(v) && (fields[name] !== 'int' || Number.isSafeInteger(v))
  const is = (u: unknown): u is AnyAttrs => {
    if (typeof u !== 'object' || u === null) return false
    const names = attrNames(of, u as AnyAttrs)
    return Object.keys(u).length === names.length && names.every((n) => isLegal(n, (u as AnyAttrs)[n]))
  }
  return new t.Type('Attrs', is, (u, c) => (is(u) ? t.success(u) : t.failure(u, c)), t.identity)
})

/** The limits on an attribute's value. An absent bound allows any number. */
export interface Limit {
  readonly least?: number
  readonly most?: number
  readonly above?: number
  readonly below?: number
}

export const limitText = ({ least, most, above, below }: Limit): string =>
  most !== undefined
    ? `${least} to ${most}`
    : `${above === undefined ? `${least} or more` : `more than ${above}`}${below === undefined ? '' : ` and below ${below}`}`

export const isWithin = (l: Limit, got: number): boolean =>
  got >= (l.least ?? -Infinity) && got <= (l.most ?? Infinity) && got > (l.above ?? -Infinity) && got < (l.below ?? Infinity)

// ---------------------------------------------------------------- how operands are indexed

/**
 * An operand's range along one dimension, from the op's iteration range there (paper 3, Listing 1):
 *  same    the iteration range itself (sigma 1, delta 0)
 *  window  [lo*stride - pad, (hi-1)*stride - pad + reach), clipped to the tensor (sigma = stride, delta = reach - stride)
 *  transposed  the rows whose windows overlap the range: the transpose of `window` (sigma = 1 / stride); if there is none,
 *          the nearest row, because each tile needs an operand
 *  resampled  the source pixels of an image of `to` pixels, interpolated from an image of `from` (sigma = from / to)
 *  mirrored  the source rows of a range of the image after reflection padding
 *  all     the whole extent, for any iteration range: the op is not FT-compatible in this dimension
 *  reduce  the operand (an output) sums over this dimension: its extent there is 1, and tiles merge into it
 *  inside  the operand has a range of its own, inside the iteration range (a sum of partial gradients)
 *  shifted `access` in a band of rows (graph/bands.ts): iteration 0 is `from` of the whole, element 0 of the operand is `at` of `whole`
 */
export type Access =
  | { readonly tag: 'same' | 'all' | 'reduce' | 'inside' }
  | Windows
  | { readonly tag: 'resampled'; readonly mode: number; readonly from: number; readonly to: number }
  | { readonly tag: 'mirrored'; readonly pad: number; readonly padHigh: number }
  | Shifted

export interface Shifted {
  readonly tag: 'shifted'
  readonly access: Exclude<Access, Shifted>
  readonly from: number
  readonly at: number
  readonly whole: number
}

export interface Windows {
  readonly tag: 'window' | 'transposed'
  readonly stride: number
  readonly pad: number
  readonly reach: number
}
export type AccessMap = Readonly<Record<Dim, Access>>

export const same: Access = { tag: 'same' }
export const all: Access = { tag: 'all' }
export const reduce: Access = { tag: 'reduce' }
export const inside: Access = { tag: 'inside' }
export const window = (kernel: number, stride: number, pad: number, dilation = 1): Access => ({
  tag: 'window',
  stride,
  pad,
  reach: dilation * (kernel - 1) + 1,
})
export const transposed = (kernel: number, stride: number, pad: number, dilation = 1): Access => ({
  tag: 'transposed',
  stride,
  pad,
  reach: dilation * (kernel - 1) + 1,
})
/** Mode 0: nearest. 1: linear, pixels are areas. 2: linear, pixels are points, and the first and last pixels map to themselves. 3: a mean. */
export const resampled = (mode: number, from: number, to: number): Access => ({ tag: 'resampled', mode, from, to })
export const mirrored = (pad: number, padHigh: number): Access => ({ tag: 'mirrored', pad, padHigh })

export const pointwise: AccessMap = { B: same, C: same, H: same, W: same }
/** All channels of any pixels. */
export const wholeChannels: AccessMap = { B: same, C: all, H: same, W: same }

/** Window i covers [i*stride - pad, i*stride - pad + reach). */
const meetingWindows = (a: Windows, r: Range, extent: number): Range => {
  const last = Math.min(extent - 1, Math.floor((r[1] - 1 + a.pad) / a.stride))
  const first = Math.max(0, Math.ceil((r[0] + a.pad - a.reach + 1) / a.stride))
  return [Math.min(first, last), last + 1]
}

/** Returns the position of target pixel `i` in the source image. */
const placeOf = ({ mode, from, to }: Extract<Access, { tag: 'resampled' }>, i: number): number => {
  if (mode === 0) return Math.floor((i * from) / to)
  return mode === 1 ? Math.max(0, ((2 * i + 1) * from - to) / (2 * to)) : to > 1 ? (i * (from - 1)) / (to - 1) : 0
}

/** Returns the source rows of a range: from the sources of both ends, and of the turning points between them. */
const mirroredRows = ({ pad }: Extract<Access, { tag: 'mirrored' }>, r: Range, extent: number): Range => {
  const rowAt = (i: number): number => {
    const row = Math.abs(i - pad)
    return row < extent ? row : 2 * (extent - 1) - row
  }
  const ends = [rowAt(r[0]), rowAt(r[1] - 1)] as const
  const has = (i: number): boolean => r[0] <= i && i < r[1]
  return [has(pad) ? 0 : Math.min(...ends), (has(pad + extent - 1) ? extent - 1 : Math.max(...ends)) + 1]
}

/** Returns the range of an operand (of this extent) that iteration range `r` reads; for `inside`, the caller knows it. */
export const touched = (a: Access, r: Range, extent: number): Range => {
  switch (a.tag) {
    case 'same':
      return r
    case 'window':
      return clip([r[0] * a.stride - a.pad, (r[1] - 1) * a.stride - a.pad + a.reach], extent)
    case 'transposed':
      return meetingWindows(a, r, extent)
    case 'resampled':
      if (a.mode === 3) return [Math.floor((r[0] * a.from) / a.to), Math.ceil((r[1] * a.from) / a.to)]
      return clip([Math.floor(placeOf(a, r[0])), Math.ceil(placeOf(a, r[1] - 1)) + 1], a.from)
    case 'mirrored':
      return mirroredRows(a, r, extent)
    case 'all':
    case 'reduce':
      return [0, extent]
    case 'inside':
      return r
    case 'shifted': {
      const [lo, hi] = touched(a.access, [r[0] + a.from, r[1] + a.from], a.whole)
      return clip([lo - a.at, hi - a.at], extent)
    }
  }
}

/** Returns sigma and delta of paper 3: a slice of extent T reads sigma*T + delta. Undefined if the op is not FT-compatible. */
export const sigmaDelta = (a: Access): { readonly sigma: number; readonly delta: number } | undefined => {
  switch (a.tag) {
    case 'same':
    case 'inside':
      return { sigma: 1, delta: 0 }
    case 'window':
      return { sigma: a.stride, delta: a.reach - a.stride }
    case 'transposed':
      return { sigma: 1 / a.stride, delta: (a.reach - 2) / a.stride + 1 }
    case 'resampled':
      return { sigma: a.from / a.to, delta: a.mode === 0 ? 0 : 2 }
    case 'mirrored':
      return { sigma: 1, delta: 0 }
    case 'shifted':
      return sigmaDelta(a.access)
    case 'all':
    case 'reduce':
      return undefined
  }
}

// ---------------------------------------------------------------- operands

/** The origin of an operand's box, and the extents of its whole value. */
export interface BoxPlace {
  readonly origin: Sizes
  readonly extent: Sizes
}

export { type Half, HALVES, isHalf } from '../core/halves'

/** Extents of one call: the boxes' shapes for data operands, natural shapes for whole ones. */
export interface CallShapes {
  readonly ins: readonly Sizes[]
  readonly outs: readonly Sizes[]
  /** The positions of the boxes, which determine the padding in a tile. Absent for calls without positions. */
  readonly at?: { readonly ins: readonly BoxPlace[]; readonly outs: readonly BoxPlace[] }
  /** The 16-bit type of activations (elements.ts); absent: they have the graph's float type. */
  readonly half?: Half
  /** True if an input has the layout of laid weights: it is the call's weight (`comesLaid`). */
  readonly laid?: boolean
}

/**
 * data   a [B,C,H,W] tensor that tiles slice, indexed as `access` says
 * whole  a tensor that every tile reads whole, or merges into: parameters, statistics, scalars
 * any    either (plumbing calls copy slices and accumulators)
 */
export interface OperandDef<F extends Fields = Fields> {
  readonly name: string
  readonly role: 'data' | 'whole' | 'any'
  /**
   * The access map of a data operand. It depends only on the shapes of whole operands in `s` (a convolution's window is its weight's), so the shapes
   * of the values and of one tile give the same map.
   */
  readonly access?: (a: AttrsOf<F>, s: CallShapes) => AccessMap
  /**
   * The shape of a whole operand, from the anchor's: [4, 'C'] is four numbers for each channel; 'as input 0' is that
   * input's shape. Shape rules and kernels' checks follow from it. Without it, the operator checks the operand itself.
   */
  readonly dims?: readonly (number | Dim)[] | 'as input 0'
  /** For an output that is reduced over a tiled dimension: the way to merge the partial results of tiles. */
  readonly merge?: 'sum' | 'moments'
  /** May be left out (a bias); only trailing operands may. */
  readonly optional?: boolean
  /** For an optional operand: the attribute that is 0 if the operand is absent. */
  readonly when?: string
  /** The kind of random values in tests. Default: any. */
  readonly drawn?: 'positive' | 'small' | 'one' | 'byte'
  /** The element type, if it is not the graph's float type (class labels, bytes of pixels). */
  readonly dtype?: 'i32' | 'u8' | 'any'
  /** An output that is read as well as written (accumulators). */
  readonly updates?: boolean
  /** True if the operand has the graph's float type even if the op's other data operands are 16-bit. */
  readonly float?: boolean
  /** For a weight: 'may' or must ('is') be laid out, i.e. channels innermost, in the stored type of activations (layout.ts). */
  readonly laid?: 'may' | 'is'
}

// ---------------------------------------------------------------- gradients

/** A value of the graph under construction; opaque to operators. */
export type Ref = number & { readonly __ref: unique symbol }

/** The inputs and functions of an operator's backward rule. */
export interface GradContext<F extends Fields = Fields> {
  readonly attrs: AttrsOf<F>
  readonly ins: readonly Ref[]
  readonly outs: readonly Ref[]
  /** The gradient of output `i`, complete. */
  readonly outputGradient: (i: number) => Ref
  /** Returns true if the gradient of input `i` is needed. The gradient of the network's input is never computed. */
  readonly needsGradient: (i: number) => boolean
  readonly shape: (r: Ref) => Sizes
  /** Appends a backward op of the table and returns its outputs. `outShapes` are required if they do not follow from the inputs. */
  readonly emit: (kind: string, attrs: AnyAttrs, ins: readonly Ref[], outShapes: readonly Sizes[]) => readonly Ref[]
  /** Adds a contribution to the gradient of input `i`. */
  readonly addGradient: (i: number, gradient: Ref) => void
  /** Adds contributions to the gradients of the inputs from `from` on: one value that holds them side by side along C. */
  readonly addJoinedGradient: (from: number, gradient: Ref) => void
  /** Returns an earlier joined gradient of the inputs from `from` on (it may have more channels), to which a backward op can add. Empty if none. */
  readonly earlierJoinedGradient: (from: number) => readonly Ref[]
}

/** Additions of an operator to the update phase, once a step (running statistics). */
export interface UpdateContext {
  readonly attrs: AnyAttrs
  readonly ins: readonly Ref[]
  readonly outs: readonly Ref[]
  readonly shape: (r: Ref) => Sizes
  /** Returns the state '<layer>.<name>' of the op's layer, if the network has it. */
  readonly state: (name: string) => Ref | undefined
  /** The weight of a new statistic in its running mean: PyTorch's `momentum`. */
  readonly normMomentum: number
  readonly emit: (kind: string, attrs: AnyAttrs, ins: readonly Ref[]) => void
}

// ---------------------------------------------------------------- the entry

/** Output shapes, or an error text with the allowed values. */
export type Shapes = Either<string, readonly Sizes[]>

export interface Sample<F extends Fields = Fields> {
  readonly attrs: AttrsOf<F>
  readonly ins: readonly Sizes[]
}

export interface OpDef<F extends Fields = Fields> {
  readonly kind: string
  /** Number on the wire (tape, plan files); never reused for another operator. */
  readonly wire: number
  /** The computation of a kernel, for docs/internals/operators.md. */
  readonly what: string
  readonly fields: F
  /** Checked before the shape rule and by every kernel. */
  readonly limits?: { readonly [K in keyof F]?: Limit }
  /** Open lists of attributes, all of one length: floats with these names and a number: mean0, std0, mean1, std1, ... */
  readonly rest?: Readonly<Record<string, Limit>>
  readonly ins: readonly OperandDef<F>[]
  readonly outs: readonly OperandDef<F>[]
  /** The last input repeats (add, concat, grad_sum). */
  readonly variadic?: boolean
  /** For a variadic op: it has an output for each input; the last output definition repeats. */
  readonly paired?: boolean
  /**
   * The operand whose box is the iteration space. 'out': the op computes the elements that its readers need (forward ops).
   * An input index: the op consumes each piece of that input once (reductions, and backward ops, whose anchor is
   * the incoming gradient).
   */
  readonly anchor: 'out' | number
  /**
   * Returns the output shapes, or an error text with the allowed values. If they do not follow from the inputs (`outputsGiven`), it checks given ones.
   */
  readonly shape: (a: AttrsOf<F>, ins: readonly Sizes[], given: readonly Sizes[]) => Shapes
  readonly outputsGiven?: boolean
  readonly backward?: (g: GradContext<F>) => void
  readonly update?: (u: UpdateContext) => void
  /** The inputs whose bytes output 0 may overwrite if no later op reads that input. */
  readonly inPlace?: readonly number[]
  /** Inputs that the op overwrites (update phase). */
  readonly mutates?: readonly number[]
  /**
   * True if all operands have one shape and the op is elementwise: a loop may process it by rows, in parts of the first dimension.
   */
  readonly byRows?: true
  /** 'may': kernels also accept data operands in a 16-bit type. A type: they accept only this type. Absent: only the graph's float type. */
  readonly half?: 'may' | Half
  /** True if the kernel needs data operands without gaps in memory. The tiler copies slices for it. */
  readonly dense?: boolean
  /** True if its data inputs are side by side along C, and are kept as one value. */
  readonly joins?: boolean
  /** True for calls that tiling adds. They are no ops of a graph. */
  readonly plumbing?: boolean
  /** True if the result is usually too small to swap: paper 4 frees its memory at once. */
  readonly reclaimed?: boolean
  /** True if it draws random numbers, keyed by seed, step, attribute `key` and global element index. */
  readonly random?: boolean
  /** Example calls on an image. Tests of kernels make random variants of them, with the gradients that the backward rule emits. */
  readonly samples?: (image: Shape) => readonly Sample<F>[]
  readonly flops: (a: AttrsOf<F>, s: CallShapes) => number
  /** Scratch bytes, if the machine's description does not state them. */
  readonly workspace?: (a: AttrsOf<F>, s: CallShapes, elementBytes: number) => number
}

/** Compares shapes without trailing ones: [C,1,1] is also a number for each channel. */
const dimsFault = ({ name, dims }: OperandDef, got: Sizes, ins: CallShapes['ins'], anchor: Sizes) => {
  if (dims === undefined) return undefined
  const want = dims === 'as input 0' ? ins[0]! : mapped(dims, (d) => (typeof d === 'number' ? d : anchor[DIMS.indexOf(d)]!))
  const fits = want.every((d, i) => got[i] === d) && got.slice(want.length).every((d) => d === 1)
  return fits ? undefined : `${name} has shape ${shapeText(got)}; allowed: ${shapeText(want)}`
}

/** Returns the definitions of the inputs that a call has with these attributes. */
export const inputsWith = (d: OpDef, a: AnyAttrs): readonly OperandDef[] =>
  d.ins.filter((o) => o.when === undefined || a[o.when] !== 0)

/** Checks attributes against their limits, and that optional inputs are present exactly if their attributes require them. */
const attrsFault = (d: OpDef, a: AnyAttrs, ins: number): string | undefined => {
  const listed = mapped(restNames(d, a), (name) => [name, d.rest![name.replace(/\d+$/, '')]!] as const)
  const wrong = [...Object.entries(d.limits ?? {}), ...listed].find(([name, limit]) => !isWithin(limit!, a[name]!))
  if (wrong) return `${wrong[0]} is ${a[wrong[0]]}; allowed: ${limitText(wrong[1]!)}`
  const due = inputsWith(d, a)
  return ins === due.length || d.ins.every((o) => o.when === undefined)
    ? undefined
    : `it has ${ins} inputs; allowed with its attributes: ${mapped(due, (o) => o.name).join(', ')}`
}

/** Returns the shape rule, preceded by the checks of attributes and whole operands. */
const withinTable =
  (def: OpDef): OpDef['shape'] =>
  (a, ins, given) => {
    const fault = attrsFault(def, a, ins.length)
    if (fault !== undefined) return left(fault)
    const outs = def.shape(a, ins, given)
    if (isLeft(outs)) return outs
    const anchor = def.anchor === 'out' ? outs.right[0]! : ins[def.anchor]!
    const operands = [
      ...mapped(ins, (s, i) => [inputDef(def, i), s] as const),
      ...mapped(outs.right, (s, i) => [outputDef(def, i), s] as const),
    ]
    const odd = mapped(operands, ([o, s]) => dimsFault(o, s, ins, anchor)).find((f) => f !== undefined)
    return odd === undefined ? outs : left(odd)
  }

/** Registers an entry with its attribute type inferred from `fields`. */
export const defineOp = <const F extends Fields>(def: OpDef<F>): OpDef => {
  const own = def as unknown as OpDef
  return { ...own, shape: withinTable(own) }
}

/** A tensor [B,C,H,W] with this access map. */
export const data = (name: string, access: AccessMap = pointwise): OperandDef => ({ name, role: 'data', access: () => access })
/** A tensor that is read with all channels of its pixels. */
export const pixels = (name: string): OperandDef => data(name, wholeChannels)
/** A parameter with a number for each channel: a scale, a shift. */
export const perChannel = (name: string): OperandDef => ({ name, role: 'whole', dims: ['C'] })
/** The gradient of such a parameter. Tiles add to it. */
export const perChannelSum = (name: string): OperandDef => ({ ...perChannel(name), merge: 'sum' })

/** A tensor with the shape of input 0: a parameter's state or gradient. */
export const asInput0 = (name: string): OperandDef => ({ name, role: 'whole', dims: 'as input 0' })

/** Returns true if a call's weight is laid out. */
export const comesLaid = (d: OpDef, s: CallShapes): boolean => s.laid === true && d.ins.some((o) => o.laid === 'may')

/** Returns the operand definition of input `i`; the last definition of a variadic op repeats. */
export const inputDef = <F extends Fields>(d: Pick<OpDef<F>, 'ins' | 'variadic' | 'kind'>, i: number): OperandDef<F> => {
  const o = d.ins[i] ?? (d.variadic ? d.ins[d.ins.length - 1] : undefined)
  if (!o) throw new Error(`${d.kind} has no input ${i}`)
  return o
}

/** Returns the operand definition of output `i`; the last definition repeats if the op has an output for each input. */
export const outputDef = <F extends Fields>(d: Pick<OpDef<F>, 'outs' | 'paired' | 'kind'>, i: number): OperandDef<F> => {
  const o = d.outs[i] ?? (d.paired ? d.outs[d.outs.length - 1] : undefined)
  if (!o) throw new Error(`${d.kind} has no output ${i}`)
  return o
}

export const shapeText = (s: Sizes): string => `[${s.join(',')}]`
export const asShape = (s: Sizes): Shape => [s[0] ?? 1, s[1] ?? 1, s[2] ?? 1, s[3] ?? 1]
