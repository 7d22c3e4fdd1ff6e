// Python's pickles of untrusted bytes, of plain values. In: bytes; the known names of Python, with a function for each. Out: the value, or the reason
// why not. Invariant: only code here and in the table of names runs; work and memory are of the order of the bytes, for any contents; a value may
// contain itself: a walk over it counts. Worked example: `collections.OrderedDict` is known as a function that makes a Map; `os.system` is not known,
// and ends the reading.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'

/** Tuples are arrays, dictionaries maps; lists are apart from tuples, since they grow. */
export interface PickledList {
  readonly list: unknown[]
}
/** The meaning of a name of Python: a value, or a function. */
export type Known = { readonly value: unknown } | { readonly call: (args: readonly unknown[]) => unknown }

/** The possible contents of a pickle beside plain values. */
export interface Names {
  readonly known: (name: string) => Known | undefined
  /** Values outside of the pickle. */
  readonly outside: (id: unknown) => unknown
}

/** An error of a pickle's contents, thrown while reading it. */
export class PickleRefused extends Error {
  /** `named`: the name that is not known. */
  constructor(
    message: string,
    readonly named?: string,
  ) {
    super(message)
  }
}
export const refusePickle = (why: string): never => {
  throw new PickleRefused(why)
}

/** A tensor takes some sixty. */
const MOST_INSTRUCTIONS = 2 ** 22
const MARK = Symbol('mark')
interface Named {
  readonly python: string
  readonly known: Known
}
const isNamed = (u: unknown): u is Named => typeof u === 'object' && u !== null && 'python' in u && 'known' in u
export const isList = (u: unknown): u is PickledList => typeof u === 'object' && u !== null && 'list' in u

class Machine {
  private at = 0
  private readonly stack: unknown[] = []
  private readonly memo = new Map<number, unknown>()
  private readonly view: DataView

  constructor(
    private readonly bytes: Uint8Array,
    private readonly names: Names,
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  // -------------------------------------------------------------- bytes

  private take(n: number): number {
    if (n > this.bytes.length - this.at) refusePickle('it is truncated')
    const at = this.at
    this.at += n
    return at
  }
  u8 = (): number => this.view.getUint8(this.take(1))
  u16 = (): number => this.view.getUint16(this.take(2), true)
  u32 = (): number => this.view.getUint32(this.take(4), true)
  i32 = (): number => this.view.getInt32(this.take(4), true)
  f64 = (): number => this.view.getFloat64(this.take(8), false)
  u64 = (): number => {
    const n = this.view.getBigUint64(this.take(8), true)
    return n > BigInt(this.bytes.length) ? refusePickle('it is truncated') : Number(n)
  }
  raw(n: number): Uint8Array {
    const at = this.take(n)
    return this.bytes.subarray(at, at + n)
  }
  text(n: number): string {
    return new TextDecoder().decode(this.raw(n))
  }
  line(): string {
    const end = this.bytes.indexOf(10, this.at)
    if (end < 0) refusePickle('it is truncated')
    const text = this.text(end - this.at)
    this.at++
    return text
  }
  /** At most eight bytes: sizes of tensors need no more. */
  long(n: number): number {
    const raw = this.raw(n)
    if (n > 8) refusePickle(`it has an integer of ${n} bytes`)
    let value = 0n
    for (let i = n - 1; i >= 0; i--) value = (value << 8n) | BigInt(raw[i]!)
    return Number(BigInt.asIntN(8 * n, value))
  }

  // -------------------------------------------------------------- stack and memo

  push(u: unknown): void {
    this.stack.push(u)
  }
  pop(): unknown {
    if (this.stack.length === 0) refusePickle('it pops from an empty stack')
    const top = this.stack.pop()
    return top === MARK ? refusePickle('it uses a mark as a value') : top
  }
  top(): unknown {
    return this.stack.length === 0 ? refusePickle('it pops from an empty stack') : this.stack[this.stack.length - 1]
  }
  mark(): void {
    this.stack.push(MARK)
  }
  sinceMark(): unknown[] {
    const at = this.stack.lastIndexOf(MARK)
    if (at < 0) refusePickle('it returns to a mark that is not set')
    return this.stack.splice(at).slice(1)
  }
  keep(key: number): void {
    this.memo.set(key, this.top())
  }
  keepNext(): void {
    this.keep(this.memo.size)
  }
  recall(key: number): void {
    if (!this.memo.has(key)) refusePickle(`it loads value ${key}, which is not stored`)
    this.push(this.memo.get(key))
  }

  // -------------------------------------------------------------- values

  tuple(n: 1 | 2 | 3): void {
    const c = this.pop()
    const b = n > 1 ? this.pop() : undefined
    this.push(n === 1 ? [c] : n === 2 ? [b, c] : [this.pop(), b, c])
  }
  append(items: readonly unknown[]): void {
    const to = this.top()
    const { list } = isList(to) ? to : refusePickle('it appends to a value that is not a list')
    for (const item of items) list.push(item)
  }
  setItems(items: readonly unknown[]): void {
    const to = this.top()
    const map =
      to instanceof Map && items.length % 2 === 0 ? to : refusePickle('it sets items of a value that is not a dictionary')
    for (let i = 0; i < items.length; i += 2) map.set(items[i], items[i + 1])
  }
  named(python: string): void {
    const known = this.names.known(python)
    if (known === undefined)
      throw new PickleRefused(`it contains an object of ${python.slice(0, 100)}; foreign code is never run`, python)
    this.push('value' in known ? known.value : { python, known })
  }
  call(): void {
    const args = this.pop()
    const what = this.pop()
    const call = isNamed(what) && 'call' in what.known && Array.isArray(args) ? what.known.call : undefined
    this.push(call ? call(args as readonly unknown[]) : refusePickle('it calls a value that is not a function'))
  }
  /** The attributes of a dictionary are of no use here; nothing else has any. */
  build(): void {
    this.pop()
    if (!(this.top() instanceof Map)) refusePickle('it changes an object after its creation')
  }
  outside(): void {
    this.push(this.names.outside(this.pop()))
  }

  run(): unknown {
    for (let done = 0; ; done++) {
      if (done === MOST_INSTRUCTIONS) refusePickle(`it has more than ${MOST_INSTRUCTIONS} instructions`)
      const code = this.u8()
      if (code === STOP) return this.pop()
      const instruction = INSTRUCTIONS[code]
      if (instruction === undefined)
        return refusePickle(`it has the instruction 0x${code.toString(16)}, which is not allowed in plain values`)
      instruction(this)
    }
  }
}

const STOP = 0x2e
const code = (c: string): number => c.charCodeAt(0)

/** Those of protocols 2 to 5 that write plain values, tensors and dictionaries. */
const INSTRUCTIONS: Readonly<Record<number, (m: Machine) => void>> = {
  128: (m) => void m.u8(), // protocol
  149: (m) => void m.u64(), // frame
  [code('(')]: (m) => m.mark(),
  [code('0')]: (m) => void m.pop(),
  [code('1')]: (m) => void m.sinceMark(),
  [code('2')]: (m) => m.push(m.top()),
  [code('N')]: (m) => m.push(null),
  136: (m) => m.push(true),
  137: (m) => m.push(false),
  [code('J')]: (m) => m.push(m.i32()),
  [code('K')]: (m) => m.push(m.u8()),
  [code('M')]: (m) => m.push(m.u16()),
  138: (m) => m.push(m.long(m.u8())),
  [code('G')]: (m) => m.push(m.f64()),
  [code('X')]: (m) => m.push(m.text(m.u32())),
  140: (m) => m.push(m.text(m.u8())),
  141: (m) => m.push(m.text(m.u64())),
  [code('T')]: (m) => m.push(m.text(m.u32())),
  [code('U')]: (m) => m.push(m.text(m.u8())),
  [code('B')]: (m) => m.push(m.raw(m.u32())),
  [code('C')]: (m) => m.push(m.raw(m.u8())),
  [code(']')]: (m) => m.push({ list: [] }),
  [code('a')]: (m) => {
    const item = m.pop()
    m.append([item])
  },
  [code('e')]: (m) => m.append(m.sinceMark()),
  [code(')')]: (m) => m.push([]),
  [code('t')]: (m) => m.push(m.sinceMark()),
  133: (m) => m.tuple(1),
  134: (m) => m.tuple(2),
  135: (m) => m.tuple(3),
  [code('}')]: (m) => m.push(new Map()),
  [code('s')]: (m) => {
    const value = m.pop()
    const key = m.pop()
    m.setItems([key, value])
  },
  [code('u')]: (m) => m.setItems(m.sinceMark()),
  [code('c')]: (m) => {
    const module = m.line()
    m.named(`${module}.${m.line()}`)
  },
  147: (m) => {
    const name = m.pop()
    const module = m.pop()
    m.named(
      typeof module === 'string' && typeof name === 'string' ? `${module}.${name}` : refusePickle('it refers to an empty name'),
    )
  },
  [code('R')]: (m) => m.call(),
  129: (m) => m.call(),
  [code('b')]: (m) => m.build(),
  [code('Q')]: (m) => m.outside(),
  [code('q')]: (m) => m.keep(m.u8()),
  [code('r')]: (m) => m.keep(m.u32()),
  148: (m) => m.keepNext(),
  [code('h')]: (m) => m.recall(m.u8()),
  [code('j')]: (m) => m.recall(m.u32()),
}

/** The value that a pickle holds. */
export const unpickled = (bytes: Uint8Array, names: Names): Either<PickleRefused, unknown> =>
  E.tryCatch(
    () => new Machine(bytes, names).run(),
    (e) => {
      if (e instanceof PickleRefused) return e
      throw e
    },
  )
