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

/** Those of an open list: `weight` names weight0, weight1, ... */
export const listedAttrs = (name: string, values: readonly number[]): AnyAttrs =>
  Object.fromEntries(mapped(values, (v, i) => [`${name}${i}`, v]))
/** The same list of the attributes that hold it. */
export const attrsListed = (name: string, attrs: AnyAttrs): readonly number[] => {
  const values: number[] = []
  for (let v = attrs[`${name}0`]; v !== undefined; v = attrs[`${name}${values.length}`]) values.push(v)
  return values
}
/** In wire order: the fields, then those of the open lists, the first of each, the second of each, and so on. */
export const attrNames = (of: AttrFields, attrs: AnyAttrs): readonly string[] =>
  of.rest ? [...Object.keys(of.fields), ...restNames(of, attrs)] : Object.keys(of.fields)
const restNames = ({ rest }: AttrFields, attrs: AnyAttrs): readonly string[] => {
  if (!rest) return []
  const names = Object.keys(rest)
  const rows = names.length === 0 ? 0 : Math.min(...mapped(names, (name) => attrsListed(name, attrs).length))
  return Array.from({ length: rows }, (_, i) => mapped(names, (name) => `${name}${i}`)).flat()
}

/** The codec that a plan file's attributes must pass: exactly these names, integers where integers are due. */
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

/** The values that an attribute may have; any where there is no bound. */
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
 *  transposed  the rows whose windows meet the range: a window op seen from its image's side (sigma = 1 / stride); if
 *          there is none, the nearest one, so that no tile is without an operand
 *  resampled  the sources of an image of `to` pixels that is interpolated out of one of `from` (sigma = from / to)
 *  mirrored  the rows that are in a range of the image padded by its own reflection
 *  all     the whole extent, for any iteration range: the op is not FT-compatible in this dimension
 *  reduce  the operand (an output) sums over this dimension: its extent there is 1, and tiles merge into it
 *  inside  the operand brings its own range, which lies inside the iteration range (a sum of partial gradients)
 *  shifted `access` in a band of rows (graph/bands.ts): iterations count from `from` of the whole, the operand from `at` of `whole`
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
/** mode 0: nearest; 1: linear, pixels are areas; 2: linear, pixels are points, first and last stay where they are. 3: a mean. */
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

/** The place in the old image of pixel `i` of the new one. */
const placeOf = ({ mode, from, to }: Extract<Access, { tag: 'resampled' }>, i: number): number => {
  if (mode === 0) return Math.floor((i * from) / to)
  return mode === 1 ? Math.max(0, ((2 * i + 1) * from - to) / (2 * to)) : to > 1 ? (i * (from - 1)) / (to - 1) : 0
}

/** The rows between those at both ends, and the turning points in between. */
const mirroredRows = ({ pad }: Extract<Access, { tag: 'mirrored' }>, r: Range, extent: number): Range => {
  const rowAt = (i: number): number => {
    const row = Math.abs(i - pad)
    return row < extent ? row : 2 * (extent - 1) - row
  }
  const ends = [rowAt(r[0]), rowAt(r[1] - 1)] as const
  const has = (i: number): boolean => r[0] <= i && i < r[1]
  return [has(pad) ? 0 : Math.min(...ends), (has(pad + extent - 1) ? extent - 1 : Math.max(...ends)) + 1]
}

/** The range of an operand (of this extent) that iteration range `r` touches; `inside` is the caller's to give. */
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

/** sigma and delta of paper 3: a slice of extent T needs sigma*T + delta here; undefined where not FT-compatible. */
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

/** The beginning of an operand's box, and the extents of its whole value. */
export interface Whereabouts {
  readonly origin: Sizes
  readonly extent: Sizes
}

export { type Half, HALVES, isHalf } from '../core/halves'

/** Extents of one call: the boxes' shapes for data operands, natural shapes for whole ones. */
export interface CallShapes {
  readonly ins: readonly Sizes[]
  readonly outs: readonly Sizes[]
  /** The places of the boxes (they tell the padding in a tile); absent for calls that only exist as shapes. */
  readonly at?: { readonly ins: readonly Whereabouts[]; readonly outs: readonly Whereabouts[] }
  /** The 16-bit type of activations (elements.ts); absent: they have the graph's float type. */
  readonly half?: Half
  /** Among its inputs is one that lies as laid weights do: where it takes a weight, that is it (`comesLaid`). */
  readonly laid?: boolean
}

/**
 * data   a [B,C,H,W] tensor that tiles slice, indexed as `access` says
 * whole  a tensor that every tile reads or merges into whole: parameters, statistics, scalars
 * any    either (plumbing moves slices and accumulators alike)
 */
export interface OperandDef<F extends Fields = Fields> {
  readonly name: string
  readonly role: 'data' | 'whole' | 'any'
  /**
   * Data operands have one. `s` are the shapes of the op's operands. Only those of whole operands matter (a convolution's window is its weight's):
   * the values' shapes and one tile's give the same map.
   */
  readonly access?: (a: AttrsOf<F>, s: CallShapes) => AccessMap
  /**
   * The shape of a whole operand by the anchor's: [4, 'C'] are four numbers for each of its channels; 'as input 0': that
   * input's. Shape rules and kernels' checks follow from it; an operand without it is the operator's own to check.
   */
  readonly dims?: readonly (number | Dim)[] | 'as input 0'
  /** How partial results of tiles merge, for an output that is reduced over a tiled dimension. */
  readonly merge?: 'sum' | 'moments'
  /** May be left out (a bias); only trailing operands may. */
  readonly optional?: boolean
  /** For an optional operand: the attribute that brings it, which is 0 without it. */
  readonly when?: string
  /** The random values of tests; any by default. */
  readonly drawn?: 'positive' | 'small' | 'one' | 'byte'
  /** Element type when it is not the graph's float type (class labels, bytes of pixels). */
  readonly dtype?: 'i32' | 'u8' | 'any'
  /** An output that is read as well as written (accumulators). */
  readonly updates?: boolean
  /** Stays of the graph's float type where the op's other data operands are halves. */
  readonly float?: boolean
  /** For a weight: it 'may' be laid out, or 'is': channels innermost, in the stored type of activations (layout.ts). */
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
  readonly dOut: (i: number) => Ref
  /** Returns true if the gradient of input `i` is needed: the image's is never computed. */
  readonly wants: (i: number) => boolean
  readonly shape: (r: Ref) => Sizes
  /** Append a backward op of the table; gives its outputs. `outShapes` where they do not follow from the inputs. */
  readonly emit: (kind: string, attrs: AnyAttrs, ins: readonly Ref[], outShapes: readonly Sizes[]) => readonly Ref[]
  /** Add a contribution to the gradient of input `i`. */
  readonly give: (i: number, gradient: Ref) => void
  /** The same for inputs `from` on, whose gradients stand side by side along C in one value. */
  readonly giveJoined: (from: number, gradient: Ref) => void
  /** Such a gradient for inputs `from` on, and perhaps channels behind theirs, that came before: to be added to, if there is one. */
  readonly takeJoined: (from: number) => readonly Ref[]
}

/** Additions of an operator to the update phase, once a step (running statistics). */
export interface UpdateContext {
  readonly attrs: AnyAttrs
  readonly ins: readonly Ref[]
  readonly outs: readonly Ref[]
  readonly shape: (r: Ref) => Sizes
  /** The state '<layer>.<name>' of the op's layer, when the network keeps it. */
  readonly state: (name: string) => Ref | undefined
  /** How much of a new statistic enters its running mean, as PyTorch's `momentum`. */
  readonly normMomentum: number
  readonly emit: (kind: string, attrs: AnyAttrs, ins: readonly Ref[]) => void
}

// ---------------------------------------------------------------- the entry

/** Output shapes, or an error in words with the legal values. */
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
  /** Attributes that follow: lists of floats, all of one length, called so with 0, 1, ... behind: mean0, std0, mean1, std1, ... */
  readonly rest?: Readonly<Record<string, Limit>>
  readonly ins: readonly OperandDef<F>[]
  readonly outs: readonly OperandDef<F>[]
  /** The last input repeats (add, concat, grad_sum). */
  readonly variadic?: boolean
  /** For a variadic one: the number of outputs is that of inputs, the last repeats. */
  readonly paired?: boolean
  /**
   * The operand whose box is the iteration space. 'out': the op computes what its readers need (forward ops).
   * An input index: the op consumes each piece of that input once (reductions, and backward ops, whose anchor is
   * the incoming gradient).
   */
  readonly anchor: 'out' | number
  /**
   * Output shapes, or an error in words with the legal values. If they do not follow from the inputs (`outputsGiven`), they are given and checked.
   */
  readonly shape: (a: AttrsOf<F>, ins: readonly Sizes[], given: readonly Sizes[]) => Shapes
  readonly outputsGiven?: boolean
  readonly backward?: (g: GradContext<F>) => void
  readonly update?: (u: UpdateContext) => void
  /** Input whose bytes output 0 may take over when nobody reads that input later. */
  readonly inPlace?: readonly number[]
  /** Inputs that the op overwrites (update phase). */
  readonly mutates?: readonly number[]
  /**
   * Its operands are of one shape, and each element depends on itself alone: a loop may take them by rows, a part of the first dimension at a time.
   */
  readonly byRows?: true
  /** Kernels take data operands in a 16-bit type, too ('may'), or always in this one; absent: only those of the graph's float type. */
  readonly half?: 'may' | Half
  /** The kernel wants data operands without gaps; the tiler copies slices for it. */
  readonly dense?: boolean
  /** Its data inputs stand side by side along C, and count as one value where they are kept. */
  readonly joins?: boolean
  /** Comes from tiling; no op of a graph is one. */
  readonly plumbing?: boolean
  /** Its result is usually small, and not worth moving: paper 4 reclaims its memory at once. */
  readonly reclaimed?: boolean
  /** Draws random numbers, keyed by seed, step, attribute `key` and global element index. */
  readonly random?: boolean
  /** Calls worth trying on an image: tests of kernels make random ones, with the gradients that the backward rule emits. */
  readonly samples?: (image: Shape) => readonly Sample<F>[]
  readonly flops: (a: AttrsOf<F>, s: CallShapes) => number
  /** Scratch bytes when the machine cannot say better. */
  readonly workspace?: (a: AttrsOf<F>, s: CallShapes, elementBytes: number) => number
}

/** Ones at the end do not count: [C,1,1] is a number for each channel, too. */
const dimsFault = ({ name, dims }: OperandDef, got: Sizes, ins: CallShapes['ins'], anchor: Sizes) => {
  if (dims === undefined) return undefined
  const want = dims === 'as input 0' ? ins[0]! : mapped(dims, (d) => (typeof d === 'number' ? d : anchor[DIMS.indexOf(d)]!))
  const fits = want.every((d, i) => got[i] === d) && got.slice(want.length).every((d) => d === 1)
  return fits ? undefined : `${name} has shape ${shapeText(got)}; allowed: ${shapeText(want)}`
}

/** The inputs that a call may have, given its attributes. */
export const inputsWith = (d: OpDef, a: AnyAttrs): readonly OperandDef[] =>
  d.ins.filter((o) => o.when === undefined || a[o.when] !== 0)

/** Attributes out of their limits, and inputs that should not come with them, or should. */
const attrsFault = (d: OpDef, a: AnyAttrs, ins: number): string | undefined => {
  const listed = mapped(restNames(d, a), (name) => [name, d.rest![name.replace(/\d+$/, '')]!] as const)
  const wrong = [...Object.entries(d.limits ?? {}), ...listed].find(([name, limit]) => !isWithin(limit!, a[name]!))
  if (wrong) return `${wrong[0]} is ${a[wrong[0]]}; allowed: ${limitText(wrong[1]!)}`
  const due = inputsWith(d, a)
  return ins === due.length || d.ins.every((o) => o.when === undefined)
    ? undefined
    : `it has ${ins} inputs; allowed with its attributes: ${mapped(due, (o) => o.name).join(', ')}`
}

/** The shape rule, with the entry's rules for attributes and whole operands. */
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

/** A tensor [B,C,H,W]. Its part at an iteration follows from `access`. */
export const data = (name: string, access: AccessMap = pointwise): OperandDef => ({ name, role: 'data', access: () => access })
/** The same with all channels of the pixels that it says. */
export const pixels = (name: string): OperandDef => data(name, wholeChannels)
/** A number for each channel: a scale, a shift. */
export const perChannel = (name: string): OperandDef => ({ name, role: 'whole', dims: ['C'] })
/** The same of a gradient, which tiles add to. */
export const perChannelSum = (name: string): OperandDef => ({ ...perChannel(name), merge: 'sum' })

/** A tensor of the shape of input 0: the state of a parameter, its gradient. */
export const asInput0 = (name: string): OperandDef => ({ name, role: 'whole', dims: 'as input 0' })

/** Returns true if a call's weight is laid out. */
export const comesLaid = (d: OpDef, s: CallShapes): boolean => s.laid === true && d.ins.some((o) => o.laid === 'may')

/** The operand definition of input `i`, past the end of a variadic list too. */
export const inputDef = <F extends Fields>(d: Pick<OpDef<F>, 'ins' | 'variadic' | 'kind'>, i: number): OperandDef<F> => {
  const o = d.ins[i] ?? (d.variadic ? d.ins[d.ins.length - 1] : undefined)
  if (!o) throw new Error(`${d.kind} has no input ${i}`)
  return o
}

/** The operand definition of output `i`, past the end of a list that is as long as the inputs' too. */
export const outputDef = <F extends Fields>(d: Pick<OpDef<F>, 'outs' | 'paired' | 'kind'>, i: number): OperandDef<F> => {
  const o = d.outs[i] ?? (d.paired ? d.outs[d.outs.length - 1] : undefined)
  if (!o) throw new Error(`${d.kind} has no output ${i}`)
  return o
}

export const shapeText = (s: Sizes): string => `[${s.join(',')}]`
export const asShape = (s: Sizes): Shape => [s[0] ?? 1, s[1] ?? 1, s[2] ?? 1, s[3] ?? 1]
