// Fixed-width little-endian records, written one after the other into a growing buffer.
// Invariant: each record is padded with zeros to its width; writing past it is a programming error.

export class RecordWriter {
  private data = new Uint8Array(1024)
  private view = new DataView(this.data.buffer)
  private at = 0
  private end = 0
  count = 0

  constructor(private readonly width: number) {}

  get size(): number {
    return this.end
  }

  next(): this {
    this.at = this.end
    this.end += this.width
    this.count++
    if (this.end > this.data.length) {
      const grown = new Uint8Array(Math.max(this.end, this.data.length * 2))
      grown.set(this.data)
      this.data = grown
      this.view = new DataView(grown.buffer)
    }
    return this
  }

  private step(n: number): number {
    const o = this.at
    this.at += n
    if (this.at > this.end) throw new Error(`a record of ${this.width} bytes is too narrow`)
    return o
  }

  u8(x: number): this {
    this.view.setUint8(this.step(1), x)
    return this
  }

  u16(x: number): this {
    this.view.setUint16(this.step(2), x, true)
    return this
  }

  u32(x: number): this {
    this.view.setUint32(this.step(4), x, true)
    return this
  }

  u64(x: number): this {
    this.view.setBigUint64(this.step(8), BigInt(x), true)
    return this
  }

  f64(x: number): this {
    this.view.setFloat64(this.step(8), x, true)
    return this
  }

  done(): Uint8Array {
    return this.data.subarray(0, this.end)
  }
}
