// Programs of `torch.export.save`: a zip archive with the graph and the indexes of its tensors as JSON, and a part of raw bytes for each storage.
// In: a file of untrusted bytes. Out: the program's nodes, the sizes of its values, and its tensors, whose numbers are read when they are asked for.
// Invariant: no pickle is read; all declared sizes were held against the bytes of the file before anything is made of them.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { faultOf, parsedJson, whole } from '../../staging/core/codecs'
import type { SpillwayError } from '../errors/errors'
import { refusable, storedAs } from '../files/pytorch'
import { readTensor, TENSOR_BYTES, type TensorType } from '../files/safetensors'
import { readRange, withFile } from '../files/whole'
import { type ZipPart, zipParts } from '../files/zip'
import type { Tensor } from './read'

// ---------------------------------------------------------------- the schema, version 8, as far as it is read

const size = t.union([t.strict({ as_int: t.number }), t.strict({ as_expr: t.unknown })])
const metaCodec = t.strict({ dtype: whole, sizes: t.array(size), strides: t.array(size), storage_offset: size })
const nameCodec = t.strict({ name: t.string })
const argumentCodec = t.UnknownRecord
const nodeCodec = t.intersection([
  t.strict({
    target: t.string,
    inputs: t.array(t.strict({ name: t.string, arg: argumentCodec })),
    outputs: t.array(argumentCodec),
    metadata: t.record(t.string, t.string),
  }),
  t.partial({ name: t.union([t.string, t.null]) }),
])
const programCodec = t.strict({
  schema_version: t.strict({ major: whole, minor: whole }),
  graph_module: t.strict({
    graph: t.strict({ nodes: t.array(nodeCodec), tensor_values: t.record(t.string, metaCodec) }),
    signature: t.strict({ input_specs: t.array(argumentCodec), output_specs: t.array(argumentCodec) }),
  }),
})
/** An operator that runs a graph of its own, e.g. without autocast. */
const innerCodec = t.strict({
  inputs: t.array(argumentCodec),
  outputs: t.array(argumentCodec),
  nodes: t.array(nodeCodec),
  tensor_values: t.record(t.string, metaCodec),
})
const payloadCodec = t.strict({
  config: t.record(
    t.string,
    t.strict({ path_name: t.string, is_param: t.boolean, use_pickle: t.boolean, tensor_meta: t.union([metaCodec, t.null]) }),
  ),
})
type Payload = t.TypeOf<typeof payloadCodec>['config'][string]

const MAJOR = 8

/** Element types by their numbers in the schema. */
const TYPES: Readonly<Record<number, TensorType>> = {
  1: 'U8',
  2: 'I8',
  3: 'I16',
  4: 'I32',
  5: 'I64',
  6: 'F16',
  7: 'F32',
  8: 'F64',
  12: 'BOOL',
  13: 'BF16',
}

// ---------------------------------------------------------------- the program

export interface Value {
  readonly type: TensorType | undefined
  readonly sizes: readonly number[]
}

/** A node of the graph; its arguments have the names of the operator's schema, and default values are absent. */
export interface AtenNode {
  readonly name: string
  /** The operator, e.g. aten.conv2d.default. */
  readonly target: string
  readonly arguments: ReadonlyMap<string, Readonly<Record<string, unknown>>>
  readonly outputs: readonly string[]
  /** The path of the module that ran it. */
  readonly module: string
}

export interface Program {
  readonly path: string
  readonly nodes: readonly AtenNode[]
  readonly values: ReadonlyMap<string, Value>
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  /** Weights and constants, by the name of their value; a tensor has its name in PyTorch. */
  readonly tensors: ReadonlyMap<string, Tensor>
  readonly refused: (reason: string) => SpillwayError
}

const sizesOf = (list: readonly t.TypeOf<typeof size>[]): readonly number[] | undefined => {
  const ints = list.map((s) => ('as_int' in s ? s.as_int : -1))
  return ints.every((n) => Number.isSafeInteger(n) && n >= 0) ? ints : undefined
}

const nameIn = (u: unknown): string | undefined => {
  const read = nameCodec.decode(u)
  return E.isRight(read) ? read.right.name : undefined
}
const optionalIn = (u: unknown): string | undefined => nameIn((u as Record<string, unknown> | undefined)?.['as_tensor'])
/** A list of tensors and of places without one. */
export const optionalsIn = (arg: Readonly<Record<string, unknown>>): readonly (string | undefined)[] =>
  Array.isArray(arg['as_optional_tensors']) ? arg['as_optional_tensors'].map(optionalIn) : namesIn(arg)
/** The names of a tensor or of several in an argument. */
export const namesIn = (arg: Readonly<Record<string, unknown>>): readonly string[] => {
  if (Array.isArray(arg['as_tensors'])) return arg['as_tensors'].flatMap((u) => nameIn(u) ?? [])
  if (Array.isArray(arg['as_optional_tensors'])) return optionalsIn(arg).flatMap((name) => name ?? [])
  return [nameIn(arg['as_tensor']) ?? optionalIn(arg['as_optional_tensor']) ?? []].flat()
}

/** The path of the innermost module: entries are key, path and class. */
const moduleOf = (metadata: Readonly<Record<string, string>>): string => {
  const stack = (metadata['nn_module_stack'] ?? '').split(';')
  return stack[stack.length - 1]!.split(',')[1] ?? ''
}

const nodeOf = ({ name, target, inputs, outputs, metadata }: t.TypeOf<typeof nodeCodec>): AtenNode => {
  const named = outputs.flatMap(namesIn)
  return {
    name: name ?? named[0] ?? target,
    target: target.replace(/^torch\.ops\./, ''),
    arguments: new Map(inputs.map((i) => [i.name, i.arg])),
    outputs: named,
    module: moduleOf(metadata),
  }
}

// ---------------------------------------------------------------- graphs inside the graph

interface Graph {
  readonly nodes: readonly t.TypeOf<typeof nodeCodec>[]
  readonly tensor_values: Readonly<Record<string, t.TypeOf<typeof metaCodec>>>
}

/** An argument with other names for its tensors. */
const renamedIn = (u: unknown, nameOf: (name: string) => string): unknown => {
  if (Array.isArray(u)) return u.map((x) => renamedIn(x, nameOf))
  if (!t.UnknownRecord.is(u)) return u
  return Object.fromEntries(
    Object.entries(u).map(([key, x]) => [key, key === 'name' && typeof x === 'string' ? nameOf(x) : renamedIn(x, nameOf)]),
  )
}
const renamedRecord = (u: Readonly<Record<string, unknown>>, nameOf: (name: string) => string): Record<string, unknown> =>
  renamedIn(u, nameOf) as Record<string, unknown>

const AUTOCAST = 'torch.ops.higher_order.wrap_with_autocast'

/** The nodes of a region without autocast, with the names of the graph around it; undefined for other nodes. */
const inlined = (node: t.TypeOf<typeof nodeCodec>): Graph | undefined => {
  const at = node.inputs.findIndex(({ arg }) => 'as_graph' in arg)
  const held = node.target === AUTOCAST ? node.inputs[at]?.arg['as_graph'] : undefined
  const inner = innerCodec.decode(t.UnknownRecord.is(held) ? held['graph'] : undefined)
  const isOff = node.inputs[2]?.arg['as_bool'] === false
  if (E.isLeft(inner) || !isOff) return undefined
  const { inputs, outputs, nodes, tensor_values } = inner.right
  const [given, results] = [node.inputs.slice(at + 1).flatMap(({ arg }) => namesIn(arg)), node.outputs.flatMap(namesIn)]
  const [taken, made] = [inputs.flatMap(namesIn), outputs.flatMap(namesIn)]
  if (given.length !== taken.length || results.length !== made.length || made.some((name) => taken.includes(name)))
    return undefined
  const names = new Map([
    ...taken.map((name, i) => [name, given[i]!] as const),
    ...made.map((name, i) => [name, results[i]!] as const),
  ])
  const nameOf = (name: string): string => names.get(name) ?? `${results[0]}:${name}`
  return flat({
    nodes: nodes.map((n) => ({
      ...n,
      name: null,
      inputs: n.inputs.map(({ name, arg }) => ({ name, arg: renamedRecord(arg, nameOf) })),
      outputs: n.outputs.map((o) => renamedRecord(o, nameOf)),
    })),
    tensor_values: Object.fromEntries(Object.entries(tensor_values).map(([name, meta]) => [nameOf(name), meta])),
  })
}

/** A graph with the nodes of such regions in their place. */
const flat = ({ nodes, tensor_values }: Graph): Graph => {
  const parts = nodes.map((node) => inlined(node) ?? { nodes: [node], tensor_values: {} })
  return {
    nodes: parts.flatMap((part) => part.nodes),
    tensor_values: Object.assign({}, ...parts.map((part) => part.tensor_values), tensor_values) as Graph['tensor_values'],
  }
}

/** The value of an input, and the tensor that it names in an index. */
interface Held {
  readonly value: string
  readonly of?: { readonly name: string; readonly folder: 'weights' | 'constants' }
}
const heldOf = (spec: Readonly<Record<string, unknown>>): Held | undefined => {
  const [kind, body] = Object.entries(spec)[0] ?? []
  const { arg, ...own } = (t.UnknownRecord.is(body) ? body : {}) as Record<string, unknown>
  const text = (key: string): string => (typeof own[key] === 'string' ? own[key] : '')
  if (kind === 'user_input') {
    const [value] = t.UnknownRecord.is(arg) ? namesIn(arg) : []
    return value === undefined ? undefined : { value }
  }
  const value = nameIn(arg)
  if (value === undefined) return undefined
  if (kind === 'parameter') return { value, of: { name: text('parameter_name'), folder: 'weights' } }
  if (kind === 'buffer')
    return { value, of: { name: text('buffer_name'), folder: own['persistent'] === false ? 'constants' : 'weights' } }
  return kind === 'tensor_constant' ? { value, of: { name: text('tensor_constant_name'), folder: 'constants' } } : undefined
}

// ---------------------------------------------------------------- the archive

/** Far above the graph of some thousand layers. */
const MOST_JSON_BYTES = 2 ** 27
const MOST_BRACKETS = 2 ** 22

interface Archive {
  readonly path: string
  readonly fd: number
  readonly parts: ReadonlyMap<string, ZipPart>
  /** The folder that all parts are in, with its slash. */
  readonly root: string
}

const AGAIN = 'save the program again with torch.export.save of a newer PyTorch, e.g. 2.14'

const jsonPart = <A>({ fd, parts, root }: Archive, name: string, codec: t.Type<A, unknown>): Either<string, A> => {
  const part = parts.get(`${root}${name}`)
  if (part === undefined) return E.left(`it has no part '${name}'; ${AGAIN}`)
  if (!part.isStored) return E.left(`its part '${name}' is compressed; torch.export.save does not compress`)
  if (part.bytes > MOST_JSON_BYTES)
    return E.left(`its part '${name}' has ${part.bytes} bytes; allowed: at most ${MOST_JSON_BYTES}`)
  return pipe(
    readRange(fd, part.offset, part.bytes),
    E.fromNullable('it is truncated'),
    E.flatMap((bytes) => parsedJson(Buffer.from(bytes).toString('utf8'), MOST_BRACKETS)),
    E.flatMap((u) =>
      pipe(
        codec.decode(u),
        E.mapLeft((errors) => faultOf('the part', errors)),
        E.mapLeft(({ at, reason }) => `${at}: ${reason}`),
      ),
    ),
    E.mapLeft((why) => `its part '${name}': ${why}`),
  )
}

/** The folder of an archive of torch.export.save; an older program, or another archive, is refused. */
const rootOf = (parts: ReadonlyMap<string, ZipPart>): Either<string, string> => {
  const format = [...parts.keys()].find((name) => /^([^/]+\/)?archive_format$/.test(name))
  if (format !== undefined) return E.right(format.slice(0, -'archive_format'.length))
  if ([...parts.keys()].some((name) => name.endsWith('serialized_exported_program.json')))
    return E.left(`it is a program of an older PyTorch, whose weights are a pickle; load it in PyTorch, then ${AGAIN}`)
  return E.left(
    [...parts.keys()].some((name) => name.endsWith('data.pkl'))
      ? 'it is a file of torch.save or torch.jit.save, which is a pickle; export the model: torch.export.save(torch.export.export(model, (x,)), path)'
      : 'it is a zip archive, but no program of torch.export.save',
  )
}

const tensorIn =
  ({ path, parts, root }: Archive, folder: string) =>
  ([name, { path_name, is_param, use_pickle, tensor_meta: meta }]: readonly [string, Payload]): Either<string, Tensor> => {
    const called = `data/${folder}/${path_name}`
    if (use_pickle || meta === null)
      return E.left(
        `its part '${called}' of '${name}' is a pickle, which is never read; ` +
          'save plain tensors: no subclasses, and no objects as constants',
      )
    const type = TYPES[meta.dtype]
    if (type === undefined)
      return E.left(`its tensor '${name}' has element type ${meta.dtype}; allowed: ${Object.values(TYPES).join(', ')}`)
    const [shape, strides, [start] = []] = [sizesOf(meta.sizes), sizesOf(meta.strides), sizesOf([meta.storage_offset])]
    if (shape === undefined || strides?.length !== shape.length || start === undefined || shape.length > 16)
      return E.left(`its tensor '${name}' has no fixed sizes and strides`)
    const part = parts.get(`${root}${called}`)
    const elements = Math.floor((part?.bytes ?? 0) / TENSOR_BYTES[type])
    const own = { storage: { type, part: called, elements }, start, shape, strides }
    return pipe(
      refusable(() => storedAs(() => part)([name, own])),
      E.mapLeft(({ message }) => message),
      E.map((stored) => ({
        name,
        type,
        dims: shape,
        isFixed: !is_param,
        isSaved: folder === 'weights',
        read: () => readTensor({ kind: 'model', path, tensors: new Map(), metadata: {} }, stored),
      })),
    )
  }

const payloads = (
  archive: Archive,
  model: string,
  folder: 'weights' | 'constants',
): Either<string, ReadonlyMap<string, Payload>> => {
  const old = `data/${folder}/${model}.pt`
  if (archive.parts.has(`${archive.root}${old}`)) return E.left(`its part '${old}' is a pickle, which is never read; ${AGAIN}`)
  return pipe(
    jsonPart(archive, `data/${folder}/${model}_${folder}_config.json`, payloadCodec),
    E.map(({ config }) => new Map(Object.entries(config))),
  )
}

type Indexes = Readonly<Record<'weights' | 'constants', ReadonlyMap<string, Payload>>>

/** The tensor of each value that is one. */
const tensorsOf = (archive: Archive, held: readonly Held[], indexes: Indexes): Either<string, ReadonlyMap<string, Tensor>> =>
  pipe(
    held.flatMap(({ value, of }) => (of === undefined ? [] : [{ value, ...of }])),
    E.traverseArray(({ value, name, folder }) => {
      const payload = indexes[folder].get(name)
      return payload === undefined
        ? E.left(`its tensor '${name}' is not in the index of its ${folder}`)
        : pipe(
            tensorIn(archive, folder)([name, payload]),
            E.map((tensor) => [value, tensor] as const),
          )
    }),
    E.map((tensors) => new Map(tensors)),
  )

const valuesOf = (declared: Readonly<Record<string, t.TypeOf<typeof metaCodec>>>): Either<string, ReadonlyMap<string, Value>> =>
  pipe(
    Object.entries(declared),
    E.traverseArray(([name, { dtype, sizes }]) => {
      const fixed = sizesOf(sizes)
      return fixed === undefined
        ? E.left(`the sizes of its value '${name}' are not fixed; export the model without dynamic_shapes`)
        : E.right([name, { type: TYPES[dtype], sizes: fixed }] as const)
    }),
    E.map((values) => new Map(values)),
  )

const programIn = (archive: Archive): Either<string, Omit<Program, 'path' | 'refused'>> => {
  const models = [...archive.parts.keys()].flatMap(
    (name) => /^models\/([^/]+)\.json$/.exec(name.slice(archive.root.length))?.[1] ?? [],
  )
  const [model] = models
  if (model === undefined || models.length !== 1)
    return E.left(`it has ${models.length} programs${models.length > 1 ? ` (${models.join(', ')})` : ''}; allowed: one`)
  return pipe(
    jsonPart(archive, `models/${model}.json`, programCodec),
    E.filterOrElse(
      ({ schema_version: { major } }) => major === MAJOR,
      ({ schema_version: { major, minor } }) => `its schema is version ${major}.${minor}; allowed: version ${MAJOR}`,
    ),
    E.map(({ graph_module: { graph, signature } }) => ({ graph: flat(graph), signature })),
    E.bind('weights', () => payloads(archive, model, 'weights')),
    E.bind('constants', () => payloads(archive, model, 'constants')),
    E.let('held', ({ signature }) => signature.input_specs.flatMap((spec) => heldOf(spec) ?? [])),
    E.bind('tensors', ({ held, ...indexes }) => tensorsOf(archive, held, indexes)),
    E.bind('values', ({ graph }) => valuesOf(graph.tensor_values)),
    E.map(({ graph, signature, held, tensors, values }) => ({
      nodes: graph.nodes.map(nodeOf),
      values,
      tensors,
      inputs: held.flatMap(({ value, of }) => (of === undefined ? [value] : [])),
      outputs: signature.output_specs.flatMap(({ user_output: own }) => {
        const arg = t.UnknownRecord.is(own) ? own['arg'] : undefined
        return t.UnknownRecord.is(arg) ? namesIn(arg) : []
      }),
    })),
  )
}

/** Returns true for a zip archive: a program, or a file of torch.save. */
export const isArchive = (path: string): Either<SpillwayError, boolean> =>
  withFile('model', path, (fd, bytes) => E.right(bytes >= 2 && Buffer.from(readRange(fd, 0, 2) ?? []).toString() === 'PK'))

export const readProgram = (path: string): Either<SpillwayError, Program> => {
  const refused = (reason: string): SpillwayError => ({ tag: 'FileRefused', kind: 'model', file: path, reason })
  return pipe(
    withFile('model', path, (fd, bytes) =>
      pipe(
        zipParts(fd, bytes),
        E.bindTo('parts'),
        E.bind('root', ({ parts }) => rootOf(parts)),
        E.flatMap(({ parts, root }) => programIn({ path, fd, parts, root })),
      ),
    ),
    E.map((program) => ({ path, refused, ...program })),
  )
}
