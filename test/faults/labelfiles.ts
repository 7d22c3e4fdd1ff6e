// Files of class labels, right and wrong: by hand, and damaged at random. In: a seed. Out: their bytes, and the expected words of a run with them.
// Invariant: the expectation is computed from the written bytes.

export const CLASSES = 10
export const SIZE = 4
export const SAMPLES = 4
const LABELS = SAMPLES * SIZE * SIZE

type Type = 'u8' | 'i32' | 'i64'
const ARRAYS = { u8: Uint8Array, i32: Int32Array, i64: BigInt64Array } as const
const DESCR: Readonly<Record<Type, string>> = { u8: '|u1', i32: '<i4', i64: '<i8' }

export interface LabelFile {
  readonly name: string
  readonly type: Type
  /** The labels alone. */
  readonly data: Uint8Array
  readonly says: string | undefined
}

/** A .npy file of these bytes. */
export const npy = (descr: string, shape: readonly number[], data: Uint8Array): Uint8Array => {
  const head = `${`{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`.padEnd(117)}\n`
  return Buffer.concat([Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, head.length, 0]), Buffer.from(head), data])
}
export const npyOf = ({ type, data }: LabelFile): Uint8Array => npy(DESCR[type], [SAMPLES, SIZE, SIZE], data)

/** The place and value of the first label outside the classes. */
const expected = (type: Type, data: Uint8Array): string | undefined => {
  const labels = [...new ARRAYS[type](data.buffer as ArrayBuffer, data.byteOffset, LABELS)].map(BigInt)
  const at = labels.findIndex((l) => l < 0n || l >= BigInt(CLASSES))
  if (at < 0) return undefined
  const place = `sample ${Math.floor(at / SIZE ** 2)}, row ${Math.floor(at / SIZE) % SIZE}, column ${at % SIZE} (counted from 0)`
  const unlabelled = '; to ignore this label, set ignoreIndex (--ignore-index)'
  const cures = new Map([
    [BigInt(CLASSES), '; do the labels begin at 1?'],
    ...[255n, -1n, -100n].map((l) => [l, unlabelled] as const),
  ])
  return `${place}: ${labels[at]} is not one of ${CLASSES} classes (0 to ${CLASSES - 1})${cures.get(labels[at]!) ?? ''}`
}

const fileOf = (name: string, type: Type, labels: readonly bigint[]): LabelFile => {
  const data = new Uint8Array(type === 'i64' ? BigInt64Array.from(labels).buffer : ARRAYS[type].from(labels.map(Number)).buffer)
  return { name, type, data, says: expected(type, data) }
}

const all = (label: number | bigint): readonly bigint[] => Array.from({ length: LABELS }, () => BigInt(label))
const counting = (from: number, to: number): readonly bigint[] =>
  Array.from({ length: LABELS }, (_, i) => BigInt(from + (i % (to - from + 1))))
const one = (at: number, label: number | bigint): readonly bigint[] =>
  counting(0, 9).map((l, i) => (i === at ? BigInt(label) : l))

export const HANDMADE: readonly LabelFile[] = [
  ...(['u8', 'i32', 'i64'] as const).map((type) => fileOf(`all classes, ${type}`, type, counting(0, 9))),
  ...[0, 5, 9, 10, 99, 127, 128, 254, 255].map((l) => fileOf(`all ${l}`, 'u8', all(l))),
  fileOf('from 1', 'u8', counting(1, 10)),
  fileOf(
    'a mask of 0 and 255',
    'u8',
    counting(0, 1).map((l) => l * 255n),
  ),
  fileOf('negative', 'i32', counting(-9, 0)),
  ...[-1, -100, 10, 256, 2 ** 24, -(2 ** 31), 2 ** 31 - 1].map((l) => fileOf(`one ${l}`, 'i32', one(17, l))),
  ...[-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n + 1n, 2n ** 32n, 2n ** 31n, -(2n ** 31n) - 1n, -1n, 10n].map((l) =>
    fileOf(`one ${l} of 64 bits`, 'i64', one(40, l)),
  ),
  ...Array.from({ length: 16 }, (_, i) => fileOf(`pixel ${i}`, 'u8', one(16 + i, 200))),
  fileOf('the last label', 'u8', one(LABELS - 1, 10)),
  fileOf('the last label of 64 bits', 'i64', one(LABELS - 1, 2n ** 40n)),
  fileOf(
    'the first of many',
    'i32',
    counting(0, 9).map((l, i) => (i > 30 ? -l - 1n : l)),
  ),
  fileOf(
    'none but the second half',
    'u8',
    counting(0, 19).map((l, i) => (i < 32 ? l % 10n : l)),
  ),
]

/** A xorshift generator. */
const randomOf = (seed: number): ((below: number) => number) => {
  let s = seed * 2654435761 + 1
  return (below) => {
    s ^= s << 13
    s ^= s >>> 17
    s ^= s << 5
    return (s >>> 0) % below
  }
}

/** A good file with up to two changed bytes. */
export const mutated = (seed: number): LabelFile => {
  const random = randomOf(seed)
  const type = (['u8', 'i32', 'i64'] as const)[seed % 3]!
  const { data } = fileOf(
    '',
    type,
    Array.from({ length: LABELS }, () => BigInt(random(CLASSES))),
  )
  for (let n = random(3); n > 0; n--) data[random(data.length)] = random(2) ? random(256) : random(12)
  return { name: `mutated ${seed}`, type, data, says: expected(type, data) }
}
