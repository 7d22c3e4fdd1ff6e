// Weights by PyTorch's names. In: a model's parameters and states on a device. Out: a safetensors file of them, or they of one; the digest of
// all weights. Invariant: numbers that are not finite never take the place of finite ones in a file.
import { createHash } from 'node:crypto'
import { join, parse } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { constVoid, pipe } from 'fp-ts/function'
import { sameShape } from '../../staging/core/box'
import { type Graph, isPersistent, type Value } from '../../staging/graph/graph'
import { asOne } from '../../staging/graph/ranks'
import { shapeText } from '../../staging/ops/op'
import { AVERAGE, meanOverSteps } from '../../staging/ops/optimizer'
import { opDef } from '../../staging/ops/registry'
import { adjustScale, COUNTS } from '../../staging/ops/scaling'
import type { SpillwayError } from '../errors/errors'
import type { Written } from '../files/whole'
import { type NewTensor, readTensor, type TensorFile, type TensorType, writeTensors } from '../files/safetensors'

/** The bytes of parameters and states: in a checkpoint, or in a session on the device, which also takes them. */
export interface StateReader {
  readonly read: (name: string) => Either<SpillwayError, Uint8Array>
}
export interface StateStore extends StateReader {
  readonly write: (name: string, bytes: Uint8Array) => Either<SpillwayError, void>
}

// ---------------------------------------------------------------- what a model keeps between steps

export interface ModelState {
  /** Parameters and running statistics, sorted by name: the contents of PyTorch's state_dict. */
  readonly weights: readonly Value[]
  /** Momenta, exponential averages, the loss scale. */
  readonly optimizer: readonly Value[]
  /** Sums of gradients in f16, which may overflow: the update is then left out. */
  readonly mayOverflow: ReadonlySet<string>
  /** For parameters with a kept average: its name, and the first step that makes one. */
  readonly averages: ReadonlyMap<string, { readonly name: string; readonly since: number }>
  /** Counters of PyTorch's batch norm that no value stands for; `moves`: one more with every step. */
  readonly counters: readonly { readonly name: string; readonly moves: boolean }[]
}

const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
  a.name < b.name ? -1 : a.name > b.name ? 1 : 0
const parentOf = (name: string): string => name.slice(0, Math.max(0, name.lastIndexOf('.')))

const averagesIn = ({ ops, values }: Graph): ModelState['averages'] =>
  new Map(
    ops
      .filter((op) => op.phase === 'update' && (op.attrs[AVERAGE] ?? 0) > 0)
      .map(({ attrs, ins }) => [values[ins[0]!]!.name, { name: values[ins.at(-1)!]!.name, since: attrs['every']! }] as const),
  )

/** The loss scale of each objective, and its counts. */
const scaleStates = ({ ops, values }: Graph): readonly (readonly [scale: Value, counts: Value])[] =>
  ops.filter((op) => op.kind === adjustScale.kind).map(({ ins }) => [values[ins[0]!]!, values[ins[1]!]!] as const)

/** Sums of gradients over steps, by name. */
const sumsIn = ({ ops, values }: Graph): readonly string[] =>
  ops.filter((op) => op.kind === meanOverSteps.kind).map(({ ins }) => values[ins[0]!]!.name)

/**
 * The loss scale after a run in fp16, and the updates that it left out because a gradient was not finite.
 *
 * @example const share = ({ skipped }: LossScale, steps: number) => skipped / steps
 */
export interface LossScale {
  readonly scale: number
  readonly skipped: number
}

/** The least scale of all objectives, and the sum of their skipped updates; undefined without loss scales. */
export const lossScaleIn = (shared: Graph, store: StateReader): Either<SpillwayError, LossScale | undefined> =>
  pipe(
    scaleStates(asOne(shared)),
    E.traverseArray(([scale, counts]) =>
      pipe(
        store.read(scale.name),
        E.bindTo('scale'),
        E.bind('counts', () => store.read(counts.name)),
        E.map(
          (read): LossScale => ({
            scale: numbersOf(read.scale, scale)[0]!,
            skipped: numbersOf(read.counts, counts)[COUNTS.indexOf('skipped')]!,
          }),
        ),
      ),
    ),
    E.map((all) =>
      all.length === 0
        ? undefined
        : { scale: Math.min(...all.map((s) => s.scale)), skipped: all.reduce((n, s) => n + s.skipped, 0) },
    ),
  )

/** The values that some op of the step overwrites. */
const overwritten = (graph: Graph): ReadonlySet<number> =>
  new Set(graph.ops.flatMap((o) => (opDef(o.kind).mutates ?? []).map((i) => o.ins[i]!)))

/** The state of the whole model, for any division among ranks. */
export const modelState = (shared: Graph): ModelState => {
  const graph = asOne(shared)
  const persistent = graph.values.filter(isPersistent).sort(byName)
  const params = new Set(persistent.filter((v) => v.role === 'param').map((v) => v.name))
  const scales = new Set(scaleStates(graph).flat())
  // An optimizer's state is named after its parameter ('conv1.weight.momentum'), a statistic after its layer.
  const ofOptimizer = (v: Value): boolean => v.role === 'state' && (params.has(parentOf(v.name)) || scales.has(v))
  const moving = overwritten(graph)
  return {
    weights: persistent.filter((v) => !ofOptimizer(v)),
    optimizer: persistent.filter(ofOptimizer),
    mayOverflow: new Set(scales.size > 0 ? sumsIn(graph) : []),
    averages: averagesIn(graph),
    counters: persistent
      .filter((v) => v.name.endsWith('.running_mean'))
      .map((v) => ({ name: `${parentOf(v.name)}.num_batches_tracked`, moves: moving.has(v.id) })),
  }
}

const storedType = (v: Value): TensorType => (v.dtype === 'f64' ? 'F64' : v.dtype === 'f32' ? 'F32' : 'I32')

const numbersOf = (bytes: Uint8Array, { dtype }: Value): Float64Array | Float32Array => {
  const Numbers = dtype === 'f64' ? Float64Array : Float32Array
  const { buffer, byteOffset, length } = bytes.byteOffset % Numbers.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice()
  return new Numbers(buffer as ArrayBuffer, byteOffset, length / Numbers.BYTES_PER_ELEMENT)
}

/** Returns true if a value's bytes hold a NaN or an infinity: of these alone, the difference to itself is not 0. */
const hasOdd = (bytes: Uint8Array, v: Value): boolean => {
  if (v.dtype === 'i32') return false
  const numbers = numbersOf(bytes, v)
  for (let i = 0; i < numbers.length; i++) if (numbers[i]! - numbers[i]! !== 0) return true
  return false
}

/** Sizes of 1 do not count: they leave all numbers where they are. */
const withoutOnes = (shape: readonly number[]): readonly number[] => shape.filter((n) => n !== 1)
const isAlike = (a: readonly number[], b: readonly number[]): boolean => sameShape(withoutOnes(a), withoutOnes(b))

/** The shape of the file that a weight comes from, if it differs in sizes of 1 only. */
export const shapeLike = (own: readonly number[], origin: readonly number[] | undefined): readonly number[] =>
  origin !== undefined && isAlike(own, origin) ? origin : own

/** For a file: numbers that are not finite never take the place of finite ones, except in these sums of gradients. */
export const asTensors = (
  values: readonly Value[],
  store: StateReader,
  step: number,
  { shapes }: Pick<Origin, 'shapes'>,
  mayOverflow: ReadonlySet<string> = new Set(),
): readonly NewTensor[] =>
  values.map((v) => ({
    name: v.name,
    type: storedType(v),
    shape: shapeLike(v.shape, shapes.get(v.name)),
    read: () =>
      pipe(
        store.read(v.name),
        E.filterOrElseW(
          (bytes) => mayOverflow.has(v.name) || !hasOdd(bytes, v),
          (): SpillwayError => ({ tag: 'Diverged', step, what: `'${v.name}' has numbers that are not finite` }),
        ),
      ),
  }))

// ---------------------------------------------------------------- counters

/** Facts of the file that the weights come from. A run without a file has none. */
export interface Origin {
  /** The number of batches that each norm had seen before step 1; absent: 0. */
  readonly counted: ReadonlyMap<string, bigint>
  /** Shapes of weights in the file. They differ from those of the model in sizes of 1 only. */
  readonly shapes: ReadonlyMap<string, readonly number[]>
  /** Tensors of the state dict that no layer reads, such as indices of relative positions. They stay in memory, and every save has them. */
  readonly unread: readonly NewTensor[]
}
export const NO_ORIGIN: Origin = { counted: new Map(), shapes: new Map(), unread: [] }

/** The key of a file's metadata with the names of its unread tensors. */
const UNREAD = 'spillway.unread'
/** The metadata of a file with unread tensors. */
export const unreadNames = (unread: readonly { readonly name: string }[]): Readonly<Record<string, string>> =>
  unread.length === 0 ? {} : { [UNREAD]: JSON.stringify(unread.map((u) => u.name)) }

/** The names of a file's tensors that no layer reads and every save has. */
export const unreadIn = ({ metadata }: TensorFile): readonly string[] =>
  pipe(
    E.tryCatch(() => JSON.parse(metadata[UNREAD] ?? '[]') as unknown, constVoid),
    E.match(
      () => [],
      (u) => (Array.isArray(u) ? u.filter((name): name is string => typeof name === 'string') : []),
    ),
  )

/** The shapes and the unread tensors of a file that fills a model's weights. */
export const originOf = (file: TensorFile, state: ModelState, counted: Origin['counted']): Either<SpillwayError, Origin> => {
  const known = new Set([...state.weights, ...state.optimizer, ...state.counters].map((v) => v.name))
  const names = new Set(unreadIn(file))
  const own = [...file.tensors].filter(([name]) => names.has(name) && !known.has(name))
  const unreadTensor = ([name, stored]: (typeof own)[number]): Either<SpillwayError, NewTensor> =>
    pipe(
      readTensor(file, stored),
      E.map((bytes) => ({ name, type: stored.type, shape: stored.shape, read: () => E.right(bytes) })),
    )
  return pipe(
    own,
    E.traverseArray(unreadTensor),
    E.map((unread) => ({ counted, unread, shapes: new Map([...file.tensors].map(([name, { shape }]) => [name, shape])) })),
  )
}

const int64 = (n: bigint): Uint8Array => new Uint8Array(BigInt64Array.of(n).buffer)

export const counterTensors = (state: ModelState, before: Origin, steps: number): readonly NewTensor[] =>
  state.counters.map((c) => {
    const n = (before.counted.get(c.name) ?? 0n) + (c.moves ? BigInt(steps) : 0n)
    return { name: c.name, type: 'I64', shape: [], read: () => E.right(int64(n)) }
  })

// ---------------------------------------------------------------- number formats

export const halfToNumber = (h: number): number => {
  const sign = h & 0x8000 ? -1 : 1
  const exponent = (h >> 10) & 0x1f
  const fraction = h & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

const float32Of = new DataView(new ArrayBuffer(4))
const bfloatToNumber = (b: number): number => {
  float32Of.setUint32(0, b << 16)
  return float32Of.getFloat32(0)
}

type Reader = (view: DataView, at: number) => number
const FLOATS: Partial<Readonly<Record<TensorType, Reader>>> = {
  F64: (d, at) => d.getFloat64(at, true),
  F32: (d, at) => d.getFloat32(at, true),
  F16: (d, at) => halfToNumber(d.getUint16(at, true)),
  BF16: (d, at) => bfloatToNumber(d.getUint16(at, true)),
}

/** The bytes of a float tensor as the model stores it. */
export const converted = (bytes: Uint8Array, from: TensorType, to: TensorType): Uint8Array => {
  if (from === to) return bytes
  const reader = FLOATS[from]
  if (!reader || (to !== 'F32' && to !== 'F64')) throw new Error(`no conversion from ${from} to ${to}`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const width = from === 'F64' ? 8 : from === 'F32' ? 4 : 2
  const numbers = to === 'F64' ? new Float64Array(bytes.length / width) : new Float32Array(bytes.length / width)
  for (let i = 0; i < numbers.length; i++) numbers[i] = reader(view, i * width)
  return new Uint8Array(numbers.buffer)
}

// ---------------------------------------------------------------- fill and save

/** The reason why a file cannot fill a value. */
export const problemOf = (file: TensorFile, v: Value, exactType: boolean): string | undefined => {
  const s = file.tensors.get(v.name)
  if (!s) return `'${v.name}' ${shapeText(v.shape)} is missing`
  if (!isAlike(s.shape, v.shape)) return `'${v.name}' is ${shapeText(s.shape)}, but ${shapeText(v.shape)} in the model`
  return (exactType ? s.type === storedType(v) : s.type in FLOATS)
    ? undefined
    : `'${v.name}' is ${s.type}, not ${exactType ? storedType(v) : 'a float type'}`
}

/** The reasons why a file cannot fill these values: one line a tensor. */
export const problemsOf = (file: TensorFile, values: readonly Value[], exactType: boolean): readonly string[] =>
  values.flatMap((v) => problemOf(file, v, exactType) ?? [])

export const fill = (file: TensorFile, values: readonly Value[], store: StateStore): Either<SpillwayError, void> =>
  pipe(
    values,
    E.traverseArray((v) => {
      const stored = file.tensors.get(v.name)!
      return pipe(
        readTensor(file, stored),
        E.flatMap((bytes) => store.write(v.name, converted(bytes, stored.type, storedType(v)))),
      )
    }),
    E.asUnit,
  )

/** The file of an average of the weights: `w.average.safetensors` beside `w.safetensors`. */
export const averageFile = (path: string): string => {
  const { dir, name, ext } = parse(path)
  return join(dir, `${name}.average${ext}`)
}

/** The weights with their averages in the place of those that have one by now. */
export const averaged = ({ averages }: ModelState, store: StateReader, steps: number): StateReader => ({
  read: (name) => {
    const its = averages.get(name)
    return store.read(its !== undefined && steps >= its.since ? its.name : name)
  },
})

/** A kept average of the weights has a file of its own, with the same names. */
export const saveWeights = (
  path: string,
  state: ModelState,
  store: StateReader,
  before: Origin,
  steps: number,
  metadata: Readonly<Record<string, string>> = {},
): Either<SpillwayError, unknown> => {
  const write = (file: string, from: StateReader): Either<SpillwayError, Written> =>
    writeTensors(
      file,
      [...asTensors(state.weights, from, steps, before), ...counterTensors(state, before, steps), ...before.unread],
      {
        format: 'pt',
        ...unreadNames(before.unread),
        ...metadata,
      },
    )
  return pipe(
    write(path, store),
    E.flatMap((written) =>
      state.averages.size === 0 ? E.right(written) : write(averageFile(path), averaged(state, store, steps)),
    ),
  )
}

/** SHA-256 over name, shape and bytes of every parameter and running statistic, in sorted name order. */
export const weightsSha256 = (state: ModelState, store: StateReader): Either<SpillwayError, string> => {
  const hash = createHash('sha256')
  return pipe(
    state.weights,
    E.traverseArray((v) =>
      pipe(
        store.read(v.name),
        E.map((bytes) => hash.update(`${v.name}\0${v.shape.join(',')}\0`).update(bytes)),
      ),
    ),
    E.map(() => hash.digest('hex')),
  )
}
