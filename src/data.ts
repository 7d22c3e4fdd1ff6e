// Training data in files. In: `--data DIR|FILE` and the shapes that the model is fed. Out: the runs of samples, inputs
// and targets alike. Invariant: each range was inside its file, of the right shape and type, when it was looked at;
// the native reader checks every read again. Files are listed in name order, so a data set has one order.
import { readdirSync, statSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { type Graph, isFed, type Value } from '../staging/graph/graph'
import type { SpillwayError } from './errors'
import { type NpyType, openNpy } from './npy'
import type { TensorType } from './safetensors'
import { openNamed } from './weights'

// ---------------------------------------------------------------- what is in the files

export type ElementType = 'f16' | 'f32' | 'f64' | 'u8' | 'i32' | 'i64'

/** An array in a file: C order, `offset` bytes from the file's start. */
interface StoredArray {
  readonly path: string
  readonly what: string
  readonly type: ElementType
  readonly shape: readonly number[]
  readonly offset: number
}
interface StoredPair { readonly input: StoredArray; readonly target: StoredArray }

const FROM_NPY: Readonly<Record<NpyType, ElementType>> = { f2: 'f16', f4: 'f32', f8: 'f64', u1: 'u8', i4: 'i32', i8: 'i64' }
const FROM_TENSOR: Partial<Readonly<Record<TensorType, ElementType>>> =
  { F16: 'f16', F32: 'f32', F64: 'f64', U8: 'u8', I32: 'i32', I64: 'i64' }

const refused = (file: string, reason: string): Either<SpillwayError, never> => left({ tag: 'FileRefused', kind: 'data', file, reason })

const npyArray = (path: string): Either<SpillwayError, StoredArray> => {
  try {
    const header = openNpy(path)
    if (isLeft(header)) return refused(path, header.left)
    const { type, shape, offset } = header.right
    return right({ path, what: basename(path), type: FROM_NPY[type], shape, offset })
  } catch (e) {
    return (e as NodeJS.ErrnoException).code === 'ENOENT' ? left({ tag: 'FileMissing', kind: 'data', file: path }) : refused(path, String((e as Error).message))
  }
}

const npyPair = (input: string, target: string): Either<SpillwayError, StoredPair> => {
  const x = npyArray(input)
  if (isLeft(x)) return x
  const y = npyArray(target)
  return isLeft(y) ? y : right({ input: x.right, target: y.right })
}

const tensorPair = (path: string): Either<SpillwayError, StoredPair> => {
  const file = openNamed('data', path)
  if (isLeft(file)) return file
  const array = (name: string): Either<SpillwayError, StoredArray> => {
    const s = file.right.tensors.get(name)
    if (!s) return refused(path, `it has no tensor '${name}': a data file holds 'input' and 'target'`)
    const type = FROM_TENSOR[s.type]
    if (!type) return refused(path, `its '${name}' is ${s.type}: legal are ${Object.keys(FROM_TENSOR).join(', ')}`)
    return right({ path, what: `'${name}' of ${basename(path)}`, type, shape: s.shape, offset: s.offset })
  }
  const x = array('input')
  if (isLeft(x)) return x
  const y = array('target')
  return isLeft(y) ? y : right({ input: x.right, target: y.right })
}

// ---------------------------------------------------------------- which files

export const LAYOUTS = [
  'input.npy and target.npy', 'NAME.input.npy beside NAME.target.npy', 'input/NAME.npy and target/NAME.npy',
  'NAME.safetensors with tensors input and target',
] as const

/** The pairs of a folder, in the first layout of LAYOUTS that it has. */
const pairsOf = (folder: string): readonly (() => Either<SpillwayError, StoredPair>)[] => {
  const names = readdirSync(folder).sort()
  const has = (n: string): boolean => names.includes(n)
  const at = (...n: string[]): string => join(folder, ...n)
  if (has('input.npy')) return [() => npyPair(at('input.npy'), at('target.npy'))]
  const beside = names.filter((n) => n.endsWith('.input.npy'))
  if (beside.length) return beside.map((n) => () => npyPair(at(n), at(n.replace(/\.input\.npy$/, '.target.npy'))))
  if (has('input') && has('target')) {
    const inputs = readdirSync(at('input')).filter((n) => n.endsWith('.npy')).sort()
    return inputs.map((n) => () => npyPair(at('input', n), at('target', n)))
  }
  return names.filter((n) => n.endsWith('.safetensors')).map((n) => () => tensorPair(at(n)))
}

const listPairs = (path: string): Either<SpillwayError, readonly (() => Either<SpillwayError, StoredPair>)[]> => {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (!stat) return left({ tag: 'FileMissing', kind: 'data', file: path })
  if (!stat.isDirectory()) {
    if (path.endsWith('.safetensors')) return right([() => tensorPair(path)])
    return refused(path, `data is a .safetensors file with tensors input and target, or a folder with ${LAYOUTS.join(', or ')}`)
  }
  const pairs = pairsOf(path)
  return pairs.length ? right(pairs) : refused(path, `the folder has no samples: legal are ${LAYOUTS.join(', or ')}`)
}

// ---------------------------------------------------------------- against the model

/** Samples of [C,H,W] that follow each other in one file, in C order. */
export interface FileTensor {
  readonly path: string
  readonly offset: number
  readonly type: ElementType
  readonly samples: number
  readonly shape: readonly [c: number, h: number, w: number]
}
export interface DataFiles { readonly input: readonly FileTensor[]; readonly target: readonly FileTensor[] }

export const sampleCount = (files: readonly FileTensor[]): number => files.reduce((n, f) => n + f.samples, 0)

const sameDims = (a: readonly number[], b: readonly number[]): boolean => a.length === b.length && a.every((d, i) => d === b[i])
const text = (s: readonly number[]): string => `[${s.join(',')}]`

/** How many samples of [C,H,W] an array holds; class labels may leave out dimensions of 1. */
export const samplesIn = (shape: readonly number[], sample: readonly number[], labels: boolean): number | undefined => {
  const forms = labels ? [sample, sample.filter((d) => d !== 1)] : [sample]
  if (forms.some((f) => sameDims(shape, f))) return 1
  return forms.some((f) => sameDims(shape.slice(1), f)) ? shape[0] : undefined
}

const fitted = (array: StoredArray, value: Value): Either<SpillwayError, FileTensor> => {
  const labels = value.dtype === 'i32'
  const sample = value.shape.slice(1)
  const samples = samplesIn(array.shape, sample, labels)
  if (samples === undefined || samples === 0)
    return refused(array.path, `${array.what} is ${text(array.shape)}, the model's ${value.role} is [N,${sample.join(',')}] or ${text(sample)}` +
      `${labels ? ', where dimensions of 1 may be left out' : ''}`)
  if (labels && array.type.startsWith('f')) return refused(array.path, `${array.what} holds ${array.type}: class labels are u8, i32 or i64`)
  const [c, h, w] = sample as [number, number, number]
  return right({ path: resolve(array.path), offset: array.offset, type: array.type, samples, shape: [c, h, w] })
}

/** What the training graph is fed: one input, one target. */
export const fedValues = (graph: Graph): { readonly input: Value; readonly target: Value } => {
  const fed = graph.values.filter(isFed)
  const input = fed.find((v) => v.role === 'input')
  const target = fed.find((v) => v.role === 'target')
  if (!input || !target || fed.length !== 2) throw new Error('a training graph is fed one input and one target')
  return { input, target }
}

export const openData = (path: string, graph: Graph): Either<SpillwayError, DataFiles> => {
  const fed = fedValues(graph)
  const pairs = listPairs(path)
  if (isLeft(pairs)) return pairs
  const input: FileTensor[] = []
  const target: FileTensor[] = []
  for (const open of pairs.right) {
    const pair = open()
    if (isLeft(pair)) return pair
    const x = fitted(pair.right.input, fed.input)
    if (isLeft(x)) return x
    const y = fitted(pair.right.target, fed.target)
    if (isLeft(y)) return y
    if (x.right.samples !== y.right.samples)
      return refused(pair.right.target.path, `it has ${y.right.samples} samples, its input has ${x.right.samples}`)
    input.push(x.right)
    target.push(y.right)
  }
  return right({ input, target })
}
