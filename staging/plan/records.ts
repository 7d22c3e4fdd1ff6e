// Records of fixed width, little-endian, one after the other in a growing buffer. In: a record's description (wire.ts) and values by name. Out:
// bytes. Invariant: the compiler demands each field; reserved fields are 0.
import { alignUp, PAGE_BYTES } from '../core/bytes'
import { fnv1a64 } from '../core/fnv'
import {
  CHECKED_FROM,
  type Field,
  type Fields,
  type Flags,
  HEADER,
  type Index,
  INSTRUCTIONS,
  MAGIC,
  type Named,
  NONE,
  offsetsOf,
  SECTIONS,
  type SectionName,
  sectionNames,
  type Several,
  sizeOf,
  type Tag,
  TAPE_VERSION,
  type Width,
  WIDTHS,
} from './wire'

type ValueOf<F extends Field> =
  F extends Named<infer N>
    ? N
    : F extends Flags<infer N>
      ? Readonly<Record<N, boolean>>
      : F extends Several
        ? readonly number[]
        : F extends Index<infer O>
          ? true extends O
            ? number | null
            : number
          : number
/** A writer's values for a record. */
export type Values<R extends Fields> = {
  readonly [K in keyof R as R[K]['kind'] extends 'reserved' ? never : K]: ValueOf<R[K]>
}

/** Returns the number of a value that is one number on the wire. */
export const numberOf = (f: Field, value: unknown): number => {
  if (f.kind === 'choice') return f.of.names.indexOf(value as string) + (f.of.first ?? 0)
  if (f.kind === 'flags') return f.names.reduce((bits, n, i) => bits + ((value as Record<string, boolean>)[n] ? 2 ** i : 0), 0)
  return value === null ? NONE : (value as number)
}

type Put = (to: DataView, at: number, x: number) => void
const PUT: Readonly<Record<Width, Put>> = {
  u8: (to, at, x) => to.setUint8(at, x),
  u16: (to, at, x) => to.setUint16(at, x, true),
  u32: (to, at, x) => to.setUint32(at, x, true),
  u64: (to, at, x) => {
    to.setUint32(at, x >>> 0, true)
    to.setUint32(at + 4, x / 2 ** 32, true)
  },
  f64: (to, at, x) => to.setFloat64(at, x, true),
}
/** The largest whole number of each width. A double holds integers up to 2^53 exactly, so `u64` is limited to them. */
const MOST: Readonly<Record<Width, number>> = { u8: 2 ** 8 - 1, u16: 2 ** 16 - 1, u32: 2 ** 32 - 1, u64: 2 ** 53 - 1, f64: 0 }

/** Returns a function that writes a field at its offset in the record that begins at `start`. */
const fieldPut = (f: Field, offset: number): ((to: DataView, start: number, value: unknown) => void) => {
  const [raw, most, width] = [PUT[f.width], MOST[f.width], WIDTHS[f.width]]
  const put: Put =
    f.width === 'f64'
      ? raw
      : (to, at, x) => {
          if (!(x >= 0 && x <= most && Math.floor(x) === x)) throw new Error(`${x} does not fit into ${f.width}`)
          raw(to, at, x)
        }
  if (f.kind === 'number') return (to, start, value) => put(to, start + offset, value as number)
  if (f.kind !== 'numbers') return (to, start, value) => put(to, start + offset, numberOf(f, value))
  return (to, start, value) => {
    const xs = value as readonly number[]
    for (let i = 0; i < f.times; i++) put(to, start + offset + i * width, xs[i]!)
  }
}

export class Records<R extends Fields> {
  private data = new Uint8Array(1024)
  private view = new DataView(this.data.buffer)
  private readonly fields: readonly { readonly name: string; readonly put: ReturnType<typeof fieldPut> }[]
  private readonly width: number
  count = 0

  constructor(of: { readonly fields: R }) {
    const offsets = offsetsOf(of.fields)
    this.width = sizeOf(of.fields)
    this.fields = Object.entries(of.fields).flatMap(([name, f], i) =>
      f.kind === 'reserved' ? [] : [{ name, put: fieldPut(f, offsets[i]!) }],
    )
  }

  get size(): number {
    return this.count * this.width
  }

  /** Appends a record and returns its index. */
  add(values: Values<R>): number {
    const start = this.size
    if (start + this.width > this.data.length) this.grow()
    for (const f of this.fields) f.put(this.view, start, (values as Readonly<Record<string, unknown>>)[f.name])
    return this.count++
  }

  private grow(): void {
    const grown = new Uint8Array(Math.max(this.width, this.data.length * 2))
    grown.set(this.data)
    this.data = grown
    this.view = new DataView(grown.buffer)
  }

  done(): Uint8Array {
    return this.data.subarray(0, this.size)
  }
}

// ---------------------------------------------------------------- instructions, sections, the whole

type InstrFields = (typeof SECTIONS)['instrs']['fields']
/** Returns the record of an instruction. Its operands by name become a, b, c. */
export const instructionRecord = <T extends Tag>(
  tag: T,
  operands: Values<(typeof INSTRUCTIONS)[T]['operands']>,
): Values<InstrFields> => {
  const [a = 0, b = 0, c = 0] = Object.entries<Field>(INSTRUCTIONS[tag].operands).map(([name, f]) =>
    numberOf(f, (operands as Readonly<Record<string, unknown>>)[name]),
  )
  return { tag, a, b, c }
}

export type Sections = { readonly [S in SectionName]: Records<(typeof SECTIONS)[S]['fields']> }
export const emptySections = (): Sections =>
  Object.fromEntries(Object.entries(SECTIONS).map(([name, s]) => [name, new Records<Fields>(s)])) as unknown as Sections

/** The header values that a tape writer gives. The rest of the header follows from the sections. */
export type HeaderValues = Pick<Values<typeof HEADER>, 'floatType' | 'events' | 'budgetPages' | 'peakPages' | 'tierBytes'>

/** Returns one tape of all sections, with the header and the checksum. */
export const joined = (sections: Sections, values: HeaderValues): Uint8Array => {
  let at = sizeOf(HEADER)
  const offsets = sectionNames.map((s) => {
    const offset = at
    at = alignUp(at + sections[s].size, 8)
    return offset
  })
  const out = new Uint8Array(at)
  sectionNames.forEach((s, i) => out.set(sections[s].done(), offsets[i]!))
  const head = new Records({ fields: HEADER })
  head.add({
    ...values,
    magic: [...MAGIC].map((ch) => ch.charCodeAt(0)),
    version: TAPE_VERSION,
    bytes: at,
    checksum: 0,
    pageBytes: PAGE_BYTES,
    sections: sectionNames.flatMap((s, i) => [offsets[i]!, sections[s].count]),
  })
  out.set(head.done())
  const sum = fnv1a64(out.subarray(CHECKED_FROM))
  const view = new DataView(out.buffer)
  const [, , , , checksumAt] = offsetsOf(HEADER)
  view.setUint32(checksumAt!, sum.lo, true)
  view.setUint32(checksumAt! + 4, sum.hi, true)
  return out
}
