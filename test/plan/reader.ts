// A reader of tapes that shares nothing with their writer: docs/internals/tape.md, field by field. In: bytes. Out: records. It trusts the tape; tests
// compare its results.

export interface Section {
  readonly offset: number
  readonly count: number
}
export interface TapeView {
  readonly buffer: number
  readonly dtype: number
  readonly offset: number
  readonly dims: readonly number[]
  readonly strides: readonly number[]
  readonly origin: readonly number[]
  readonly extent: readonly number[]
  readonly rank: number
}
export interface TapeCall {
  readonly kind: number
  readonly ins: readonly TapeView[]
  readonly outs: readonly TapeView[]
  readonly flags: number
  readonly attrs: readonly number[]
  readonly workspace: TapeView | null
  readonly op: number
  readonly segment: number
  readonly tile: number
  readonly seconds: number
  readonly flops: number
  readonly mask: number
  readonly masked: number
}
export interface Mapping {
  readonly buffer: number
  readonly vaPage: number
  readonly physPage: number
  readonly count: number
  readonly residency: number
}
export interface Transfer {
  readonly residency: number
  readonly buffer: number
  readonly offset: number
  readonly bytes: number
  readonly from: number
  readonly binding: number
  readonly tierOffset: number
}
export interface Binding {
  readonly role: number
  readonly view: TapeView | null
  readonly name: string
  readonly dist: number
  readonly dtype: number
  readonly a: number
  readonly home: number
}
export interface Tape {
  readonly magic: string
  readonly version: number
  readonly floatType: number
  readonly bytes: number
  readonly checksum: bigint
  readonly pageBytes: number
  readonly events: number
  readonly budgetPages: number
  readonly peakPages: number
  readonly tierBytes: number
  readonly sections: readonly Section[]
  readonly buffers: readonly { readonly pages: number; readonly bytes: number }[]
  readonly mappings: readonly Mapping[]
  readonly residencies: readonly { readonly pages: number; readonly flags: number }[]
  readonly calls: readonly TapeCall[]
  readonly instrs: readonly { readonly tag: number; readonly a: number; readonly b: number }[]
  readonly transfers: readonly Transfer[]
  readonly bindings: readonly Binding[]
}

const NONE = 0xffffffff

export const readTape = (tape: Uint8Array): Tape => {
  const d = new DataView(tape.buffer, tape.byteOffset, tape.byteLength)
  const u16 = (o: number): number => d.getUint16(o, true)
  const u32 = (o: number): number => d.getUint32(o, true)
  const u64 = (o: number): number => Number(d.getBigUint64(o, true))
  const f64 = (o: number): number => d.getFloat64(o, true)
  const four = (o: number, read: (o: number) => number, width: number): number[] => [0, 1, 2, 3].map((i) => read(o + i * width))
  const sections = Array.from({ length: 11 }, (_, i) => ({ offset: u64(64 + 16 * i), count: u64(72 + 16 * i) }))
  const section = <T>(i: number, width: number, read: (o: number) => T): T[] =>
    Array.from({ length: sections[i]!.count }, (_, k) => read(sections[i]!.offset + width * k))
  const views = section(
    3,
    104,
    (o): TapeView => ({
      buffer: u32(o),
      dtype: u32(o + 4),
      offset: u64(o + 8),
      dims: four(o + 16, u32, 4),
      strides: four(o + 32, u64, 8),
      origin: four(o + 64, u32, 4),
      extent: four(o + 80, u32, 4),
      rank: u32(o + 96),
    }),
  )
  const operands = section(5, 4, u32)
  const attrs = section(6, 8, f64)
  const text = tape.subarray(sections[10]!.offset, sections[10]!.offset + sections[10]!.count)
  return {
    magic: String.fromCharCode(...tape.subarray(0, 8)),
    version: u32(8),
    floatType: u32(12),
    bytes: u64(16),
    checksum: d.getBigUint64(24, true),
    pageBytes: u32(32),
    events: u32(36),
    budgetPages: u64(40),
    peakPages: u64(48),
    tierBytes: u64(56),
    sections,
    buffers: section(0, 16, (o) => ({ pages: u64(o), bytes: u64(o + 8) })),
    mappings: section(1, 24, (o) => ({
      buffer: u32(o),
      vaPage: u32(o + 4),
      physPage: u32(o + 8),
      count: u32(o + 12),
      residency: u32(o + 16),
    })),
    residencies: section(2, 16, (o) => ({ pages: u32(o), flags: u32(o + 4) })),
    calls: section(4, 64, (o): TapeCall => {
      const [ins, outs, first] = [u16(o + 2), u16(o + 4), u32(o + 8)]
      const view = (k: number): TapeView => views[operands[first + k]!]!
      return {
        kind: u16(o),
        flags: u16(o + 6),
        attrs: attrs.slice(u32(o + 12), u32(o + 12) + u32(o + 16)),
        ins: Array.from({ length: ins }, (_, k) => view(k)),
        outs: Array.from({ length: outs }, (_, k) => view(ins + k)),
        workspace: u32(o + 20) === NONE ? null : views[u32(o + 20)]!,
        op: u32(o + 24),
        segment: u32(o + 28),
        tile: u32(o + 32),
        seconds: f64(o + 40),
        flops: u64(o + 48),
        mask: u32(o + 56),
        masked: u32(o + 60),
      }
    }),
    instrs: section(7, 16, (o) => ({ tag: u32(o), a: u32(o + 4), b: u32(o + 8) })),
    transfers: section(8, 48, (o) => ({
      residency: u32(o),
      buffer: u32(o + 4),
      offset: u64(o + 8),
      bytes: u64(o + 16),
      from: u32(o + 24),
      binding: u32(o + 28),
      tierOffset: u64(o + 32),
    })),
    bindings: section(
      9,
      40,
      (o): Binding => ({
        role: u32(o),
        view: u32(o + 4) === NONE ? null : views[u32(o + 4)]!,
        name: new TextDecoder().decode(text.subarray(u32(o + 8), u32(o + 8) + u32(o + 12))),
        dist: u32(o + 16),
        dtype: u32(o + 20),
        a: f64(o + 24),
        home: u64(o + 32),
      }),
    ),
  }
}

/** FNV-1a over 64-bit integers, as the page defines the checksum. */
export const checksumOf = (tape: Uint8Array): bigint => {
  let h = 0xcbf29ce484222325n
  for (const b of tape.subarray(32)) h = ((h ^ BigInt(b)) * 0x100000001b3n) & 0xffffffffffffffffn
  return h
}
