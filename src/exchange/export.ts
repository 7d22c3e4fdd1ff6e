// `exportOnnx`: a model with its weights as an ONNX file. In: a model or a net of a step, weights (safetensors). Out: the file, and where
// weights are too many for one, a second file beside it. Invariant: the weights are judged whole before a byte is written.
import { basename } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { elaborate, type Model, modelAt, type Net, type Trainable, type TrainingStep } from '../../dsl'
import { type Applied, tensorsOf } from '../../dsl/step'
import { elementsOf } from '../../staging/core/box'
import type { Graph, Value, ValueId } from '../../staging/graph/graph'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { knownIn } from '../../staging/core/known'
import { optionsFor } from '../../staging/core/options'
import { flag, named, path, withValues } from '../../staging/core/values'
import { orThrow } from '../errors/exceptions'
import { readTensor, type TensorFile } from '../files/safetensors'
import { checkedPlaces, type Read, reading, writing } from '../files/places'
import { type Written, writeWhole } from '../files/whole'
import { stepWith } from '../stage/prepare'
import { fittingWeights } from '../train/loading'
import { converted, modelState } from '../train/weights'
import { inferenceGraph, WRITTEN } from './inference'
import { isLarge, type NewOnnx, onnxPieces, OPSET, outsidePieces, weightPieces } from './onnx'

/**
 * Options of `exportOnnx`.
 *
 * @example const options: ExportOptions = { weights: 'w.safetensors', out: 'net.onnx' }
 */
export interface ExportOptions {
  /**
   * File of the weights: safetensors, or a PyTorch file.
   *
   * @example exportOnnx(net, { weights: 'w.safetensors', out: 'net.onnx' })
   */
  readonly weights: string
  /** Name of the ONNX file. @example exportOnnx(net, { weights: 'w.safetensors', out: 'net.onnx' }) */
  readonly out: string
  /**
   * Objective of a step whose net is exported. Not for a model.
   *
   * @example exportOnnx(objectives, { net: 'generator', weights: 'w.safetensors', out: 'g.onnx' })
   */
  readonly net?: string | undefined
  /**
   * If true, the weights go into a second file with the suffix `.data`. Default: only above 2 GiB.
   *
   * @example exportOnnx(net, { weights: 'w.safetensors', out: 'net.onnx', externalData: true })
   */
  readonly externalData?: boolean | undefined
}
const OPTIONS = withValues(
  optionsFor<ExportOptions>()('exportOnnx', 'weights', 'out', 'net', 'externalData'),
  { weights: path, out: path, net: named(['names of objectives']), externalData: flag },
  { required: ['weights', 'out'] },
)

/**
 * Facts of an ONNX file that was written.
 *
 * @example const line = ({ out, nodes, bytes }: ExportResult) => `${out}: ${nodes} nodes, ${bytes} bytes`
 */
export interface ExportResult extends Written {
  readonly out: string
  readonly opset: number
  readonly nodes: number
  readonly parameters: number
  readonly input: readonly number[]
  readonly output: readonly number[]
  /** Name of the second file; absent if the weights are in the ONNX file. */
  readonly data?: string
  /** Tensors of the weights file that the model does not use. */
  readonly unused: readonly string[]
}

// ---------------------------------------------------------------- which net

const isApplied = (t: { readonly kind: string }): t is Applied => t.kind === 'applied'

/** The net of an objective that trains one, at the shape that the step gives it first. */
const netOf = (step: TrainingStep, name: string | undefined): Either<SpillwayError, Model> => {
  const single = step.objectives.filter((o) => o.over.length === 1)
  const names = single.map((o) => o.name)
  const objective = name === undefined && single.length === 1 ? single[0] : single.find((o) => o.name === name)
  if (objective === undefined)
    return E.left(
      name === undefined
        ? usage('this step has several nets: name the objective of one of them', names)
        : unknownName('objective of one net', name, names),
    )
  const net: Net = objective.over[0]!
  const use = tensorsOf(step)
    .filter(isApplied)
    .find((t) => t.net === net)
  return use ? modelAt(use.to.shape, net) : E.left(usage(`the net of objective '${objective.name}' is not applied to any tensor`))
}

const modelOf = (model: Trainable, name: string | undefined): Either<SpillwayError, Model> => {
  if (model.kind === 'step') return netOf(model, name)
  return name === undefined ? E.right(model) : E.left(usage(`net '${name}' is named, but the model has one net without a name`))
}

/** A model's forward graph, and which of its values is the output. */
export interface Forward {
  readonly graph: Graph
  readonly output: ValueId
}
export const forwardOf = (model: Model, name = 'model'): Either<SpillwayError, Forward> =>
  pipe(
    stepWith(model, {}),
    E.flatMap((step) => elaborate(step, name)),
    E.map(({ graph, objectives }) => ({ graph, output: objectives[0]!.terms[0]!.of })),
  )

// ---------------------------------------------------------------- with its weights

/** The ONNX model of a forward graph; `read` gives a weight's numbers as float32. */
export const onnxOf = ({ graph, output }: Forward, read: (v: Value) => Either<SpillwayError, Uint8Array>): NewOnnx => ({
  graph: inferenceGraph(graph, output),
  weights: modelState(graph).weights.map((v) => ({ name: v.name, shape: v.shape, read: () => read(v) })),
})

const readingFrom =
  (file: TensorFile) =>
  (v: Value): Either<SpillwayError, Uint8Array> => {
    const stored = file.tensors.get(v.name)!
    return pipe(
      readTensor(file, stored),
      E.map((bytes) => converted(bytes, stored.type, 'F32')),
    )
  }

const written = (o: ExportOptions, onnx: NewOnnx): Either<SpillwayError, Written & { readonly data?: string }> => {
  if (!(o.externalData ?? isLarge(onnx))) return writeWhole(o.out, onnxPieces(onnx))
  const data = `${o.out}.data`
  return pipe(
    writeWhole(data, weightPieces(onnx)),
    E.flatMap(() => writeWhole(o.out, outsidePieces(onnx, basename(data)))),
    E.map((file) => ({ ...file, data })),
  )
}

/** All places that an export reads and writes. `named`: an option as its user writes it; `model`: the files of the model, for a command. */
export const placesOf = (
  { weights, out, externalData }: Pick<ExportOptions, 'weights' | 'out' | 'externalData'>,
  named: (option: string) => string = String,
  model: readonly Read[] = [],
): Either<SpillwayError, void> =>
  checkedPlaces(
    [...model, ...reading(named('weights'), weights)],
    [
      ...writing(named('out'), 'onnx', out),
      ...writing(named('externalData'), 'onnxData', externalData ? `${out}.data` : undefined),
    ],
  )

/** Refuses operators without a form in ONNX. */
const writable = ({ graph }: Forward): Either<SpillwayError, unknown> => {
  const odd = graph.ops.find((op) => !WRITTEN.includes(op.kind))
  return odd === undefined
    ? E.right(undefined)
    : E.left(usage(`layer '${odd.layer}' computes ${odd.kind}, which has no form in ONNX`))
}

/** Sizes of the output in the file, which has no dimensions of 1 after a linear layer; the batch is that of the model. */
const writtenShape = ({ graph }: NewOnnx, [batch = 1]: readonly number[]): readonly number[] =>
  (graph.output?.[0]?.type?.tensorType?.shape?.dim ?? []).map(({ dimValue }) =>
    dimValue === undefined ? batch : Number(dimValue),
  )

/**
 * Writes a model with its weights as an ONNX file, or returns the error. `exportOnnx` throws it instead.
 *
 * @param model The model, or a step with the option `net`.
 * @param o The files, and options.
 * @example
 * const answer = tryExportOnnx(net, { weights: 'w.safetensors', out: 'net.onnx' })
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const tryExportOnnx = (model: Trainable, o: ExportOptions): Either<SpillwayError, ExportResult> =>
  pipe(
    knownIn(OPTIONS)(o),
    E.tap(() => placesOf(o)),
    E.flatMap(() => modelOf(model, o.net)),
    E.bindTo('one'),
    E.bind('forward', ({ one }) => forwardOf(one)),
    E.tap(({ forward }) => writable(forward)),
    E.let('state', ({ forward }) => modelState(forward.graph)),
    E.bind('weights', ({ state }) => fittingWeights(o.weights, state)),
    E.let('onnx', ({ forward, weights }) => onnxOf(forward, readingFrom(weights.file))),
    E.bind('written', ({ onnx }) => written(o, onnx)),
    E.map(({ one, weights, state, onnx, written }): ExportResult => {
      return {
        ...written,
        out: o.out,
        opset: OPSET,
        nodes: onnx.graph.node!.length,
        parameters: state.weights.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0),
        input: one.input,
        output: writtenShape(onnx, one.output),
        unused: weights.table.unused,
      }
    }),
  )

/**
 * Writes a model with its weights as an ONNX file (opset 18) for inference. Norms use their running statistics,
 * dropout is absent, the batch is free. It throws a `SpillwayException`; `tryExportOnnx` returns the error.
 *
 * @param model The model, or a step with the option `net`.
 * @param o The files, and options.
 * @example const { bytes } = exportOnnx(net, { weights: 'weights.safetensors', out: 'net.onnx' })
 */
export const exportOnnx = (model: Trainable, o: ExportOptions): ExportResult => orThrow(tryExportOnnx(model, o))
