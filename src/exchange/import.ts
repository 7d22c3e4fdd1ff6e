// `importOnnx`: an ONNX file, or a program of `torch.export`, as a model file in TypeScript and its weights. In: the file. Out: both files. Invariant: the net has been
// elaborated, with exactly the parameters that the weights have, before a byte is written.
import { basename } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type Model, modelAt, seq } from '../../dsl'
import type { Net, Shape } from '../../dsl/net'
import { elementsOf, sameShape } from '../../staging/core/box'
import type { SpillwayError } from '../errors/errors'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { listOf, numeric, path, text, withValues } from '../../staging/core/values'
import { orThrow } from '../errors/exceptions'
import { checkedPlaces, reading, writing } from '../files/places'
import { type NewTensor, TENSOR_BYTES, writeTensors } from '../files/safetensors'
import { type Written, writeWholeText } from '../files/whole'
import { commentText } from '../stage/literal'
import { modelState, shapeLike, unreadNames } from '../train/weights'
import { forwardOf } from './export'
import { asOnnx } from './aten'
import { isArchive, readProgram } from './pt2'
import { type OnnxFile, readOnnx, type Tensor } from './read'
import { sourceText } from './source'
import type { Parameter } from './reading'
import { takeOnnx } from './taken'
import { netsOf } from './ways'

/**
 * Options of `importOnnx`.
 *
 * @example const options: ImportOptions = { out: 'my-net.ts', image: [512, 512], batch: 8 }
 */
export interface ImportOptions {
  /** Name of the model file, in TypeScript. @example importOnnx('net.onnx', { out: 'my-net.ts' }) */
  readonly out: string
  /**
   * Name of the weights file. Default: as `out`, with the suffix .safetensors.
   *
   * @example importOnnx('net.onnx', { out: 'my-net.ts', save: 'w.safetensors' })
   */
  readonly save?: string | undefined
  /**
   * Height and width of the input, in pixels. Default: as in the file.
   *
   * @example importOnnx('net.onnx', { out: 'my-net.ts', image: [512, 512] })
   */
  readonly image?: readonly [height: number, width: number] | undefined
  /** Images per step. Default: as in the file, or 1. @example importOnnx('net.onnx', { out: 'my-net.ts', batch: 8 }) */
  readonly batch?: number | undefined
  /**
   * Name of the value that becomes the output. Default: the only output of the file. It can be an inner value, such as
   * the features before a head. Layers that it does not need are left out.
   *
   * @example importOnnx('net.onnx', { out: 'my-net.ts', output: 'features' })
   */
  readonly output?: string | undefined
}
const OPTIONS = withValues(
  optionsFor<ImportOptions>()('importOnnx', 'out', 'save', 'image', 'batch', 'output'),
  {
    out: path,
    save: path,
    image: listOf('[height, width] in pixels', (u) => typeof u === 'number'),
    batch: numeric('whole numbers of at least 1'),
    output: text,
  },
  { required: ['out'] },
)

/**
 * Facts of an imported model.
 *
 * @example const line = ({ out, layers, parameters }: ImportResult) => `${out}: ${layers} layers, ${parameters} parameters`
 */
export interface ImportResult extends Written {
  readonly out: string
  readonly save: string
  readonly layers: number
  readonly parameters: number
  readonly input: readonly number[]
  readonly output: readonly number[]
  /** Names of tensors in the file that several layers share. Each layer has its own copy. */
  readonly copied: readonly string[]
  /** Names of weights that are one number for all channels. They become constants, which are not trained. */
  readonly constants: readonly string[]
  /** Names of buffers of a PyTorch program that became weights, which are trained unless you freeze them. */
  readonly buffers: readonly string[]
  /** Modules of a PyTorch program that drop whole channels in training. They have no layer and are left out. */
  readonly left: readonly string[]
}

/** A model of an ONNX file, and its weights. */
export interface Imported {
  readonly model: Model
  readonly nets: readonly Net[]
  readonly parameters: readonly Parameter[]
  readonly copied: readonly string[]
  readonly constants: readonly string[]
  readonly buffers: readonly string[]
  readonly left: readonly string[]
  /** Tensors of PyTorch's state dict that no layer reads. */
  readonly unread: readonly Tensor[]
}

/** At the batch that the file has; a norm that has one value a channel then asks for two. */
const modelFor = (nets: readonly Net[], [b, ...rest]: Shape, batch: number | undefined): Either<SpillwayError, Model> => {
  const net = seq(...nets)
  const first = modelAt([b, ...rest], net)
  return E.isLeft(first) && batch === undefined && b === 1
    ? pipe(
        modelAt([2, ...rest], net),
        E.orElse(() => first),
      )
    : first
}

/** Checks that the file has every tensor of the net, by name. */
const complete = (file: OnnxFile, model: Model, parameters: readonly Parameter[]): Either<SpillwayError, void> =>
  pipe(
    forwardOf(model),
    E.flatMap(({ graph }) => {
      const given = new Map(parameters.map((p) => [p.name, p]))
      const odd = modelState(graph).weights.find((v) => !given.has(v.name) || !sameShape(given.get(v.name)!.shape, v.shape))
      return odd === undefined
        ? E.right(undefined)
        : E.left(file.refused(`its weights for '${odd.name}' are not [${odd.shape.join(',')}]`))
    }),
  )

/** An ONNX file, or a program of torch.export: a zip archive. */
export const openModel = (path: string): Either<SpillwayError, OnnxFile> =>
  pipe(
    isArchive(path),
    E.flatMap((isZip) => (isZip ? pipe(readProgram(path), E.map(asOnnx)) : readOnnx(path))),
  )

type Choice = Pick<ImportOptions, 'image' | 'batch' | 'output'>
const override = (o: Choice) => ({
  ...(o.image ? { height: o.image[0], width: o.image[1] } : {}),
  ...(o.batch ? { batch: o.batch } : {}),
  output: o.output,
})

/** The nodes of a file that are refused, each with its reason. */
export const unsupportedIn = (path: string, o: Choice): Either<SpillwayError, ReadonlyMap<string, string>> =>
  pipe(
    openModel(path),
    E.flatMap((file) => {
      const found = new Map<string, string>()
      const taken = takeOnnx(file, override(o), found)
      return found.size > 0
        ? E.right(found)
        : pipe(
            taken,
            E.flatMap(() => importedFrom(file, o)),
            E.map(() => found),
          )
    }),
  )

/** An ONNX file as a model, before anything is written. */
export const importedFrom = (file: OnnxFile, o: Choice): Either<SpillwayError, Imported> =>
  pipe(
    takeOnnx(file, override(o)),
    E.bindTo('taken'),
    E.bind('nets', ({ taken }) => pipe(netsOf(taken.steps, taken.output), E.mapLeft(file.refused))),
    E.filterOrElse(
      ({ nets }) => nets.length > 0,
      () => file.refused('it has no layers: its output is its input'),
    ),
    E.bind('model', ({ taken, nets }) => modelFor(nets, taken.input, o.batch)),
    E.let('parameters', ({ taken, model }) => partsOf(taken.parameters, model)),
    E.tap(({ model, parameters }) => complete(file, model, parameters)),
    E.map(({ taken, model, nets, parameters }) => ({
      model,
      nets,
      parameters,
      copied: taken.copied,
      constants: taken.constants,
      buffers: taken.buffers.filter((name) => parameters.some((p) => p.name === name)),
      left: file.left ?? [],
      unread: (file.state ?? []).filter(({ name }) => parameters.every((p) => p.tensor.name !== name)),
    })),
  )

/** Without those of layers that lead nowhere. */
const partsOf = (parameters: readonly Parameter[], model: Model): readonly Parameter[] => {
  const needed = pipe(
    forwardOf(model),
    E.match(
      () => new Set<string>(),
      ({ graph }) => new Set(modelState(graph).weights.map((v) => v.name)),
    ),
  )
  return parameters.filter((p) => needed.has(p.name))
}

/** Rows for columns. */
const transposed = (bytes: Uint8Array, rows: number, columns: number, width: number): Uint8Array => {
  const out = new Uint8Array(bytes.length)
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const from = (j * rows + i) * width
      out.set(bytes.subarray(from, from + width), (i * columns + j) * width)
    }
  return out
}

/** The numbers of a parameter, in the order of its shape. */
export const bytesOf = (p: Parameter): Either<SpillwayError, Uint8Array> =>
  pipe(
    p.tensor.read(),
    E.map((bytes) =>
      p.transposed ? transposed(bytes, p.shape[0]!, elementsOf(p.shape) / p.shape[0]!, TENSOR_BYTES[p.tensor.type]) : bytes,
    ),
  )

const newTensor = (p: Parameter): NewTensor => ({
  name: p.name,
  type: p.tensor.type,
  shape: shapeLike(p.shape, p.transposed ? undefined : p.tensor.dims),
  read: () => bytesOf(p),
})
const unreadTensor = ({ name, type, dims, read }: Tensor): NewTensor => ({ name, type, shape: dims, read })

/**
 * Creates a typed model file and a weights file from an ONNX file or a program of `torch.export`, or returns the
 * error. `importOnnx` throws it instead.
 *
 * @param path The ONNX file, or the `.pt2` file of `torch.export.save`.
 * @param o Output files and input size.
 * @example
 * const answer = tryImportOnnx('net.onnx', { out: 'my-net.ts' })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const tryImportOnnx = (path: string, o: ImportOptions): Either<SpillwayError, ImportResult> => importing(path, o, String)

const placesOf = (
  path: string,
  { out, save }: Pick<ImportOptions, 'out' | 'save'>,
  named: (option: string) => string,
): Either<SpillwayError, void> =>
  checkedPlaces(reading('the file to import', path), [
    ...writing(named('out'), 'model', out),
    ...writing(named('save'), 'weights', save),
  ])

/** The same for a command. `named`: an option as its user writes it. */
export const importing = (
  path: string,
  o: ImportOptions,
  named: (option: string) => string,
): Either<SpillwayError, ImportResult> =>
  pipe(
    knownIn(OPTIONS)(o),
    E.map(() => ({ save: o.save ?? `${o.out.replace(/\.ts$/, '')}.safetensors` })),
    E.tap(({ save }) => placesOf(path, { ...o, save }, named)),
    E.bind('file', () => openModel(path)),
    E.bind('made', ({ file }) => importedFrom(file, o)),
    E.bind('weights', ({ made, save }) =>
      writeTensors(save, [...made.parameters.map(newTensor), ...made.unread.map(unreadTensor)], {
        format: 'pt',
        ...unreadNames(made.unread),
      }),
    ),
    E.tap(({ made: { model, nets }, save }) =>
      writeWholeText(
        o.out,
        sourceText({
          input: model.input,
          nets,
          head: [commentText(`Written by spillway import from ${basename(path)}; the weights are in ${basename(save)}.`)],
        }),
      ),
    ),
    E.map(({ made: { model, parameters, copied, constants, buffers, left }, save, weights }) => ({
      ...weights,
      out: o.out,
      save,
      layers: model.layers.length,
      parameters: parameters.reduce((n, p) => n + (/\.running_(mean|var)$/.test(p.name) ? 0 : elementsOf(p.shape)), 0),
      input: model.input,
      output: model.output,
      copied,
      constants,
      buffers,
      left,
    })),
  )

/**
 * Creates a typed model file and a weights file from a convolutional network in an ONNX file or a program of
 * `torch.export`. An operator without a counterpart is refused with the name of its node. It throws a
 * `SpillwayException`; `tryImportOnnx` returns the error.
 *
 * @param path The ONNX file, or the `.pt2` file of `torch.export.save`.
 * @param o Output files and input size.
 * @example const { layers } = importOnnx('net.onnx', { out: 'my-net.ts' })
 */
export const importOnnx = (path: string, o: ImportOptions): ImportResult => orThrow(tryImportOnnx(path, o))
