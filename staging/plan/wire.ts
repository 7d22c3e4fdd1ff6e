// The layout of the tape: enumerations, records field by field, instructions, header, limits. Everything else about it is derived: the writer's
// records (records.ts), native/gen/wire.h with the structs, native/plan/forms.hpp with the reader's checks of form, and the tables of
// docs/internals/tape.md (scripts/gen-wire.ts). Invariant: fields follow each other in this order without gaps, each at a multiple of its width.
import { ALIGN_BYTES, PAGE_BYTES } from '../core/bytes'
import { BOUND_ROLES, DISTRIBUTIONS, DTYPES, FED_ROLES, FLOATS, PERSISTENT_ROLES } from '../graph/graph'

export const MAGIC = 'SPILLWAY'
export const TAPE_VERSION = 6
/** The index that means none. */
export const NONE = 0xffffffff
/** Copies and slots of the lower tier start at multiples of this, which direct I/O requires. */
export const SECTOR_BYTES = 4096
/** The limits of a reader. Beyond them, its own tables would need too much memory, or sums would exceed 64 bits. */
export const LIMITS = { poolPages: 2 ** 22, virtualPages: 2 ** 26, bytes: 2 ** 56, elements: 2 ** 53 } as const
export const CONSTANTS = { NONE, PAGE_BYTES, SECTOR_BYTES, ALIGN_BYTES, TAPE_VERSION } as const

// ---------------------------------------------------------------- enumerations

/** Names in the order of their numbers, which begin at `first` (default 0). `groups`: predicates on records that have such a field. */
export interface Choice<N extends string = string> {
  readonly type: string
  readonly title: string
  readonly names: readonly N[]
  readonly first?: number
  readonly groups?: Readonly<Record<string, readonly N[]>>
}
const choice = <const N extends string>(c: Choice<N>): Choice<N> => c

export const DTYPE = choice({ type: 'DType', title: 'element type', names: DTYPES })
const FLOAT = choice({ type: 'DType', title: 'float type', names: FLOATS })
const ROLE = choice({
  type: 'BindingRole',
  title: 'role',
  names: BOUND_ROLES,
  groups: { fed: FED_ROLES, persistent: PERSISTENT_ROLES, passing: [...FED_ROLES, 'output'] },
})
const DIST = choice({ type: 'Dist', title: 'distribution', names: ['none', ...DISTRIBUTIONS] })
const FAR = choice({
  type: 'Far',
  title: 'other side',
  names: ['tier', 'source', 'sink'],
  groups: { withTier: ['tier'], fromSource: ['source'], toSink: ['sink'] },
})
const CAUSE = choice({ type: 'Cause', title: 'cause', names: ['memory', 'data', 'ranks'] })

// ---------------------------------------------------------------- fields

export type Width = 'u8' | 'u16' | 'u32' | 'u64' | 'f64'
interface FieldText {
  readonly width: Width
  readonly what?: string
}
export interface Plain extends FieldText {
  readonly kind: 'number'
}
export interface Several extends FieldText {
  readonly kind: 'numbers'
  readonly times: number
}
export interface Named<N extends string = string> extends FieldText {
  readonly kind: 'choice'
  readonly of: Choice<N>
}
/** Bits, from the lowest to the highest. */
export interface Flags<N extends string = string> extends FieldText {
  readonly kind: 'flags'
  readonly names: readonly N[]
}
/** The index of a record in a section, or of an event. `optional`: the index may be NONE, which a writer gives as null. */
export interface Index<O extends boolean = boolean> extends FieldText {
  readonly kind: 'index'
  readonly of: string
  readonly optional: O
}
/** The index of the first of several records of a section. The sum of the fields in `counts` is their number. */
export interface Span extends FieldText {
  readonly kind: 'span'
  readonly of: string
  readonly counts: readonly string[]
  readonly words: string
}
/** Always 0. A writer gives no value for it. */
export interface Reserved extends FieldText {
  readonly kind: 'reserved'
  readonly times: number
}
export type Field = Plain | Several | Named | Flags | Index | Span | Reserved
export type Fields = Readonly<Record<string, Field>>

const number = (width: Width, what = ''): Plain => ({ kind: 'number', width, what })
const numbers = (width: Width, times: number, what: string): Several => ({ kind: 'numbers', width, times, what })
const named = <N extends string>(of: Choice<N>, what = ''): Named<N> => ({ kind: 'choice', width: 'u32', of, what })
const flags = <const N extends string>(width: Width, names: readonly N[], what = ''): Flags<N> => ({
  kind: 'flags',
  width,
  names,
  what,
})
const index = (of: string, what = ''): Index<false> => ({ kind: 'index', width: 'u32', of, optional: false, what })
const indexOrNone = (of: string, what = ''): Index<true> => ({ kind: 'index', width: 'u32', of, optional: true, what })
const span = (of: string, counts: readonly string[], words: string): Span => ({ kind: 'span', width: 'u32', of, counts, words })
const reserved = (width: Width, times = 1): Reserved => ({ kind: 'reserved', width, times })

// ---------------------------------------------------------------- instructions

export interface Instruction<F extends Fields = Fields> {
  readonly operands: F
  readonly what: string
}
const instruction = <F extends Fields>(operands: F, what: string): Instruction<F> => ({ operands, what })

/** Instructions are numbered from 1 in this order. Their operands are a, b, c of the record. */
// biome-ignore format: a table
export const INSTRUCTIONS = {
  call: instruction({ call: index('calls') }, 'run the call on the compute stream'),
  acquire: instruction({ residency: index('residencies') }, 'take its pages from the pool'),
  release: instruction({ residency: index('residencies') }, 'return its pages to the pool'),
  swapOut: instruction({ transfer: index('transfers'), event: index('events') }, 'start a copy to the lower tier or the sink on the out stream'),
  swapIn: instruction({ transfer: index('transfers'), event: index('events') }, 'start a copy from the lower tier or the data source on the in stream'),
  wait: instruction({ event: index('events'), cause: named(CAUSE) }, 'make the compute stream wait for the copy or the exchange'),
  mark: instruction({ segment: number('u32'), tile: number('u32') }, 'report progress'),
  exchange: instruction({ call: index('calls'), event: index('events') }, 'start the call on the lane of exchanges'),
} as const
export type Tag = keyof typeof INSTRUCTIONS
export const TAG = { type: 'Tag', title: 'instruction', names: Object.keys(INSTRUCTIONS) as Tag[], first: 1 } satisfies Choice

// ---------------------------------------------------------------- sections

export interface Section<F extends Fields = Fields> {
  /** The name of a single record. */
  readonly one: string
  readonly what: string
  readonly fields: F
  /** Set if its records are plain numbers: one field, and no struct. */
  readonly bare?: true
}
const section = <F extends Fields>(one: string, what: string, fields: F): Section<F> => ({ one, what, fields })
const bare = <F extends Fields>(one: string, what: string, fields: F): Section<F> => ({ one, what, fields, bare: true })

// biome-ignore format: a table
export const SECTIONS = {
  buffers: section('buffer', 'A virtual range; `bytes <= pages * page bytes`.', { pages: number('u64'), bytes: number('u64') }),
  mappings: section('mapping', 'Maps pages of a buffer to physical pages. Each virtual page is mapped at most once, when the session opens. Several virtual pages may map to one physical page; `residency` names the owner of the bytes.', {
    buffer: index('buffers'), vaPage: number('u32', 'first page of the buffer'), physPage: number('u32', 'first physical page'), count: number('u32', 'pages'), residency: index('residencies'), reserved: reserved('u32'),
  }),
  residencies: section('residency', 'Its mappings give its physical pages, the same set in each buffer.', {
    pages: number('u32', 'number of pages'), flags: flags('u32', ['forEver', 'ahead'], 'held at the start of the step: always, or filled by the step before'), reserved: reserved('u64'),
  }),
  views: section('view', 'Activations have rank 4: `dims` are B, C, H, W of a box, stored channels-last (the stride of C is 1). Other values (parameters, statistics) are dense in their natural row-major order, dims padded with 1 at the end, origin 0, extent = dims. Rows of a parameter, as an update by rows reads them, are such a value. A laid weight (written by `lay_out` or `standardize`, read by convolutions) has the dims of the weight, and the layout and type of a dense activation.', {
    buffer: indexOrNone('buffers', 'none: a template, which gives only dims and type'), dtype: named(DTYPE), offset: number('u64', 'bytes'), dims: numbers('u32', 4, ''), strides: numbers('u64', 4, 'elements'),
    origin: numbers('u32', 4, 'position of the box in the whole value'), extent: numbers('u32', 4, 'dims of the whole value'), rank: number('u32'), reserved: reserved('u32'),
  }),
  calls: section('call', 'Operands are ins, then outs. An op that mutates an input (`sgd`) lists it only in its ins. A workspace view has rank 1, and dims[0] = bytes / element size.', {
    kind: number('u16', 'wire number of the operator'), ins: number('u16'), outs: number('u16'), flags: flags('u16', ['recompute', 'makesMask', 'fills'], 'the segment is a recomputation; output 0 is the mask; pixels outside of the mask are written as 0, otherwise they are 0 already'), firstOperand: span('operands', ['ins', 'outs'], 'operands exceed'), firstAttr: span('attrs', ['attrs'], 'attributes exceed'), attrs: number('u32', 'number of attributes'),
    workspaceView: indexOrNone('views'), op: number('u32', 'key of random numbers; 0xffffffff: none'), segment: number('u32'), tile: number('u32'),
    way: number('u32', "algorithm, by its number on the device; 0: the device's first choice"), seconds: number('f64', 'as planned'), flops: number('u64'),
    mask: number('u32', 'number of the mask that it makes, or that its kernel may leave pixels out by; 0xffffffff: none'), masked: number('u32', 'operand with these pixels'),
  }),
  operands: bare('operand', '', { view: index('views') }),
  attrs: bare('attribute', "In the op table's field order.", { value: number('f64') }),
  instrs: section('instruction', '', { tag: named(TAG), a: number('u32'), b: number('u32'), c: number('u32') }),
  transfers: section('transfer', '', {
    residency: index('residencies'), buffer: index('buffers', 'one of its mappings'), offset: number('u64', 'in the buffer, a multiple of 4096'), bytes: number('u64'), far: named(FAR, 'other side of the copy'), binding: indexOrNone('bindings', 'of the source or the sink'),
    farOffset: number('u64', "in the lower tier, or in the binding's value"), reserved: reserved('u64'),
  }),
  bindings: section('binding', 'The view is a template for inputs, targets, outputs, and values with a home in the lower tier. With a home, it has the offset in its buffer.', {
    role: named(ROLE), view: index('views'), nameOffset: span('strings', ['nameBytes'], 'name exceeds'), nameBytes: number('u32'), dist: named(DIST, 'initial values'), dtype: named(DTYPE), a: number('f64', 'of the distribution'),
    home: number('u64', 'for a parameter or state with a template: its offset in the lower tier between steps; else 0'),
  }),
  strings: bare('byte', 'UTF-8.', { byte: number('u8') }),
} as const
export type SectionName = keyof typeof SECTIONS
export const sectionNames = Object.keys(SECTIONS) as SectionName[]

// ---------------------------------------------------------------- header

/** The first byte after the checksum. */
export const CHECKED_FROM = 32
// biome-ignore format: a table
export const HEADER = {
  magic: numbers('u8', 8, `\`${MAGIC}\``), version: number('u32', `${TAPE_VERSION}`), floatType: named(FLOAT, 'of values; activations may also be 16-bit'), bytes: number('u64', 'of the whole tape'), checksum: number('u64', `FNV-1a 64 of all bytes from offset ${CHECKED_FROM} on`),
  pageBytes: number('u32', `${PAGE_BYTES}`), events: number('u32'), budgetPages: number('u64'), peakPages: number('u64', 'physical pages in the pool; at most the budget'), tierBytes: number('u64', 'of the lower tier'),
  sections: numbers('u64', 2 * sectionNames.length, 'offset and record count of each section below, in order'), reserved: reserved('u64', 2),
} as const

/** The choices that several records use. */
export const CHOICES: readonly Choice[] = [DTYPE, ROLE, DIST, FAR, CAUSE, TAG]

// ---------------------------------------------------------------- sizes

export const WIDTHS: Readonly<Record<Width, number>> = { u8: 1, u16: 2, u32: 4, u64: 8, f64: 8 }
export const timesOf = (f: Field): number => ('times' in f ? f.times : 1)
/** Returns the offset of each field, followed by the size of the record. */
export const offsetsOf = (fields: Fields): readonly number[] => {
  const at = [0]
  for (const f of Object.values(fields)) at.push(at.at(-1)! + WIDTHS[f.width] * timesOf(f))
  return at
}
export const sizeOf = (fields: Fields): number => offsetsOf(fields).at(-1)!
