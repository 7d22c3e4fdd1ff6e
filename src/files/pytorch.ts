// Weights as `torch.save` writes them: a zip archive with a pickle of names and shapes, and a part for each storage. In: a file of untrusted bytes.
// Out: an index of its tensors, as that of a safetensors file; or, where it is none, the line that makes safetensors of it. Invariant: no code of
// the file is run, and each tensor lies inside its storage, which lies inside the file, before anything is made of them.
// Worked example: {'state_dict': {'fc.weight': …}, 'epoch': 3} has one tensor, fc.weight; with a second dictionary of tensors in it, `ema` say, it
// is called state_dict.fc.weight.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { FileKind, SpillwayError } from '../errors/errors'
import { isList, type Known, PickleRefused, refusePickle, unpickled } from './pickle'
import { openTensors, type StoredTensor, TENSOR_BYTES, tensorBytes, type TensorFile, type TensorType } from './safetensors'
import { readRange, withFile } from './whole'
import { type ZipPart, zipParts } from './zip'

// ---------------------------------------------------------------- the line that helps

/** Fit to stand between quotes in a shell and in Python. */
const PLAIN = /^[\w./@%+,-]+$/
const lineFor = (path: string, load: (file: string) => string): string => {
  const from = PLAIN.test(path) ? path : 'FILE.pth'
  const to = `${from.replace(/\.\w+$/, '')}.safetensors`
  return (
    `python3 -c "import torch, safetensors.torch as s; d = ${load(from)}; ` +
    `s.save_file({k: v.clone(memory_format=torch.contiguous_format) for k, v in d.items() if torch.is_tensor(v)}, '${to}')"`
  )
}
const loaded = (file: string, more = ''): string => `torch.load('${file}', map_location='cpu'${more})`
const asWeights = (file: string): string => loaded(file)
/** The rest that PyTorch itself only does if it trusts the file. */
const asCheckpoint = (file: string): string => `(lambda c: c.get('state_dict', c))(${loaded(file, ', weights_only=False')})`
const asModel = (file: string): string => `${loaded(file, ', weights_only=False')}.state_dict()`
const asScript = (file: string): string => `torch.jit.load('${file}', map_location='cpu').state_dict()`

const converted = (why: string, path: string, load: (file: string) => string): string =>
  `${why}; this line converts it to safetensors: ${lineFor(path, load)}`
const RUNS = ' (it runs code in the file: only for files that you trust)'

// ---------------------------------------------------------------- what its pickle may name

interface Storage {
  readonly type: TensorType
  readonly part: string
  readonly elements: number
}
interface Tensor {
  readonly storage: Storage
  readonly start: number
  readonly shape: readonly number[]
  readonly strides: readonly number[]
}
const isObject = (u: unknown): u is object => typeof u === 'object' && u !== null
const isStorage = (u: unknown): u is Storage => isObject(u) && 'part' in u
const isTensor = (u: unknown): u is Tensor => isObject(u) && 'storage' in u

const STORAGES: Readonly<Record<string, TensorType>> = {
  'torch.DoubleStorage': 'F64',
  'torch.FloatStorage': 'F32',
  'torch.HalfStorage': 'F16',
  'torch.BFloat16Storage': 'BF16',
  'torch.LongStorage': 'I64',
  'torch.IntStorage': 'I32',
  'torch.ShortStorage': 'I16',
  'torch.CharStorage': 'I8',
  'torch.ByteStorage': 'U8',
  'torch.BoolStorage': 'BOOL',
}

const isSizes = (u: unknown): u is readonly number[] => Array.isArray(u) && u.every((n) => Number.isSafeInteger(n) && n >= 0)
/** Dimensions of one tensor. */
const MOST_DIMENSIONS = 16

const tensorOf = ([storage, start, shape, strides, , , more]: readonly unknown[]): Tensor =>
  isStorage(storage) &&
  isSizes([start]) &&
  isSizes(shape) &&
  isSizes(strides) &&
  shape.length === strides.length &&
  shape.length <= MOST_DIMENSIONS &&
  (more === undefined || more === null || (more instanceof Map && more.size === 0))
    ? { storage, start: start as number, shape, strides }
    : refusePickle('one of its tensors does not have storage, offset, shape and strides')

/** A dictionary, of pairs where it is given some. */
const dictionary = ([pairs]: readonly unknown[]): unknown => {
  const made = new Map<unknown, unknown>()
  for (const pair of isList(pairs) ? pairs.list : []) {
    const [key, value] = isList(pair) ? pair.list : Array.isArray(pair) ? pair : []
    made.set(key, value)
  }
  return made
}

const NAMES: Readonly<Record<string, Known>> = {
  'collections.OrderedDict': { call: dictionary },
  'torch._utils._rebuild_tensor_v2': { call: tensorOf },
  'torch._utils._rebuild_parameter': {
    call: ([tensor]) => (isTensor(tensor) ? tensor : refusePickle('one of its parameters is not a tensor')),
  },
  'torch.Size': { call: ([sizes]) => sizes },
  'torch.device': { call: ([name]) => name },
  ...Object.fromEntries(Object.entries(STORAGES).map(([name, type]) => [name, { value: { type } }])),
  ...Object.fromEntries(
    ['float64', 'float32', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool'].map((name) => [
      `torch.${name}`,
      { value: name },
    ]),
  ),
}

const storageOf = (id: unknown): Storage => {
  const [what, kind, part, , elements] = Array.isArray(id) ? id : []
  return what === 'storage' && isObject(kind) && 'type' in kind && typeof part === 'string' && isSizes([elements])
    ? { type: kind.type as TensorType, part, elements: elements as number }
    : refusePickle('it refers to an external object that is not a storage')
}

// ---------------------------------------------------------------- the tensors in what it holds

/** Values that are looked at, in all; a value that holds itself is looked at again. */
const MOST_VALUES = 2 ** 20
const DEEPEST = 16

const keyOf = (u: unknown): string =>
  typeof u === 'string' || typeof u === 'number'
    ? String(u)
    : refusePickle('one of its dictionaries has a key that is neither a string nor a number')
const entriesOf = (u: unknown): readonly (readonly [string, unknown])[] =>
  u instanceof Map
    ? [...u].map(([key, value]) => [keyOf(key), value] as const)
    : isList(u)
      ? u.list.map((value, i) => [String(i), value] as const)
      : []

const tensorsIn = (value: unknown): ReadonlyMap<string, Tensor> => {
  let seen = 0
  /** The tensors inside a value, each by its names within. */
  const within = (
    u: unknown,
    depth: number,
  ): readonly (readonly [key: string, value: unknown, of: ReadonlyMap<string, Tensor>])[] => {
    seen += u instanceof Map ? u.size : isList(u) ? u.list.length : 0
    if (seen > MOST_VALUES) refusePickle(`it contains more than ${MOST_VALUES} values`)
    if (depth > DEEPEST) refusePickle(`its dictionaries nest deeper than ${DEEPEST}`)
    return entriesOf(u).flatMap(([key, v]) => {
      const of = isTensor(v) ? new Map([['', v]]) : all(v, depth + 1)
      return of.size > 0 ? [[key, v, of] as const] : []
    })
  }
  const all = (u: unknown, depth: number): ReadonlyMap<string, Tensor> =>
    new Map(
      within(u, depth).flatMap(([key, , of]) =>
        [...of].map(([name, tensor]) => [name === '' ? key : `${key}.${name}`, tensor] as const),
      ),
    )
  /** A single dictionary beside no tensors is the weights. */
  const rootOf = (u: unknown, depth: number): unknown => {
    const found = within(u, depth)
    return found.length === 1 && !isTensor(found[0]![1]) ? rootOf(found[0]![1], depth + 1) : u
  }
  return all(rootOf(value, 0), 0)
}

const isContiguous = ({ shape, strides }: Tensor): boolean => {
  let step = 1
  for (let i = shape.length - 1; i >= 0; i--) {
    if (shape[i]! > 1 && strides[i] !== step) return false
    step *= shape[i]!
  }
  return true
}

export const storedAs =
  (part: (name: string) => ZipPart | undefined) =>
  ([name, tensor]: readonly [string, Tensor]): StoredTensor => {
    const { storage, start, shape, strides } = tensor
    const { type, elements } = storage
    const width = TENSOR_BYTES[type]
    const lies = part(storage.part)
    if (lies === undefined) return refusePickle(`its tensor '${name}' has no storage`)
    if (!lies.isStored) return refusePickle(`the storage of its tensor '${name}' is compressed; torch.save does not compress`)
    if (elements * width !== lies.bytes)
      return refusePickle(`the storage of its tensor '${name}' has ${lies.bytes} bytes instead of ${elements * width}`)
    const bytes = tensorBytes(type, shape)
    const last = shape.reduce((at, d, i) => at + (d - 1) * strides[i]!, start)
    if (bytes === undefined || bytes > lies.bytes || (bytes > 0 && last >= elements))
      return refusePickle(`its tensor '${name}' ${type}[${shape.join(',')}] exceeds its storage of ${elements} numbers`)
    const place = { name, type, shape, offset: lies.offset + start * width, bytes }
    return bytes === 0 || isContiguous(tensor) ? place : { ...place, strides }
  }

// ---------------------------------------------------------------- the file

export const refusable = <A>(f: () => A): Either<PickleRefused, A> =>
  E.tryCatch(f, (e) => {
    if (e instanceof PickleRefused) return e
    throw e
  })

/** More than the names and shapes of any network take. */
const MOST_PICKLE_BYTES = 2 ** 26

type Index = Pick<TensorFile, 'tensors' | 'metadata'>

const refusedPickle =
  (path: string) =>
  ({ message, named }: PickleRefused): string => {
    if (named === undefined) return converted(message, path, asWeights)
    const isModel = /(^|\.)(models?|nn|modules)\.|^__main__\./.test(named)
    return converted(message, path, isModel ? asModel : asCheckpoint) + RUNS
  }

const indexOf = (path: string, fd: number, parts: ReadonlyMap<string, ZipPart>): Either<string, Index> => {
  const pickle = [...parts.values()].find(({ name }) => /^[^/]+\/data\.pkl$/.test(name))
  if (pickle === undefined) return E.left('it is a zip archive without the data.pkl of torch.save')
  const root = pickle.name.slice(0, -'data.pkl'.length)
  if (parts.has(`${root}constants.pkl`)) return E.left(converted('it is a TorchScript model', path, asScript))
  if (!pickle.isStored) return E.left('its data.pkl is compressed; torch.save does not compress')
  if (pickle.bytes > MOST_PICKLE_BYTES)
    return E.left(`its data.pkl has ${pickle.bytes} bytes; allowed: at most ${MOST_PICKLE_BYTES}`)
  const order = parts.get(`${root}byteorder`)
  const text = order && order.bytes <= 16 ? readRange(fd, order.offset, order.bytes) : undefined
  if (order && (text === undefined || Buffer.from(text).toString() !== 'little'))
    return E.left(converted('its numbers have big-endian bytes', path, asWeights))
  return pipe(
    readRange(fd, pickle.offset, pickle.bytes),
    E.fromNullable('it is truncated in its data.pkl'),
    E.flatMap((bytes) =>
      pipe(
        unpickled(bytes, { known: (name) => (Object.hasOwn(NAMES, name) ? NAMES[name] : undefined), outside: storageOf }),
        E.flatMap((value) => refusable(() => tensorsIn(value))),
        E.mapLeft(refusedPickle(path)),
      ),
    ),
    E.flatMap((tensors) =>
      pipe(
        refusable(() => [...tensors].map(storedAs((name) => parts.get(`${root}data/${name}`)))),
        E.mapLeft(({ message }) => message),
      ),
    ),
    E.filterOrElse(
      (stored) => stored.length > 0,
      () => 'it has no dictionary of tensors',
    ),
    E.map((stored) => ({ tensors: new Map(stored.map((s) => [s.name, s])), metadata: {} })),
  )
}

/** The format by a file's first bytes. */
type Format = 'zip' | 'pickle' | 'tar' | 'other'
const TAR_AT = 257
const formatOf = (fd: number, fileBytes: number): Format => {
  const [a, b] = readRange(fd, 0, Math.min(2, fileBytes)) ?? []
  if (a === 0x50 && b === 0x4b) return 'zip'
  if (a === 0x80 && b !== undefined && b >= 2 && b <= 5 && isPickle(fd, fileBytes)) return 'pickle'
  const magic = fileBytes > TAR_AT + 5 ? readRange(fd, TAR_AT, 5) : undefined
  return magic && Buffer.from(magic).toString() === 'ustar' ? 'tar' : 'other'
}
/** A header of safetensors begins with the number of its bytes, which ends in zeros. */
const isPickle = (fd: number, fileBytes: number): boolean => {
  const head = fileBytes >= 8 ? readRange(fd, 0, 8) : undefined
  return head === undefined || head[7] !== 0 || head[6] !== 0
}

const OLD = {
  pickle: 'it has the format of PyTorch before 1.6, or it is another pickle',
  tar: 'it has the format of PyTorch before 0.2',
} as const

/** A file of weights: safetensors, or one of torch.save. */
export const openWeights = (kind: FileKind, path: string): Either<SpillwayError, TensorFile> =>
  pipe(
    withFile(kind, path, (fd, fileBytes): Either<string, Index | undefined> => {
      const format = formatOf(fd, fileBytes)
      if (format === 'other') return E.right(undefined)
      if (format !== 'zip') return E.left(converted(OLD[format], path, asWeights))
      return pipe(
        zipParts(fd, fileBytes),
        E.mapLeft((why) => `it is not a complete zip archive: ${why}`),
        E.flatMap((parts) => indexOf(path, fd, parts)),
      )
    }),
    E.flatMap((index) => (index ? E.right({ kind, path, ...index }) : openTensors(kind, path))),
  )
