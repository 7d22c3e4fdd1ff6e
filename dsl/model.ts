// A model: a net applied to an input shape, checked. The checks run while you type and again at run time, in the same words. In: a net, an input
// shape. Out: Model, plain data with the facts of it; or a GraphError. `model` is for literal sizes and throws; `modelAt` takes sizes known only at
// run time and returns Either.
import { apS, bind, Do, type Either, left, map, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { orThrow } from '../staging/core/certain'
import { type GraphError, renderError } from '../staging/core/errors'
import { type Analysis, analyse, type Summary } from './analyse'
import { decodeNet, show } from './decode'
import type { Analyse, AnalyseWhole, BytesNumber, ComplaintOf, Facts, ParametersNumber } from './facts'
import type { FactsOf } from './layerfacts'
import type { InferredFrom, IsStrict, OrWords } from '../staging/core/orwords'
import type { BadSize, Mode } from './layers/rule'
import { badShape, type BadInput, type InputNotLiteral, LEGAL_SHAPE, type NeedsStrict } from './messages'
import type { Net, Shape } from './net'

/**
 * A net applied to images of one shape, with the output shape, parameters, bytes and the report of every layer.
 *
 * @example const describe = (m: Model) => `${m.layers.length} layers, ${m.parameters} parameters`
 */
export interface Model<M extends Summary = Summary, N extends Net = Net> extends Analysis<M> {
  readonly kind: 'model'
  readonly net: N
  readonly input: M['input']
}

/**
 * The facts of a net at an input shape, computed by the compiler.
 *
 * @example
 * type Facts = SummaryOf<Conv2d<'conv1', 64, 3>, [1, 3, 32, 32]>
 * const output: Facts['output'] = [1, 64, 32, 32]
 */
export type SummaryOf<N extends Net, In extends readonly number[]> = In extends readonly [
  infer B extends number,
  infer C extends number,
  infer H extends number,
  infer W extends number,
]
  ? AnalyseWhole<N, [B, C, H, W]> extends Facts<infer O, infer F, infer A, any>
    ? { input: [B, C, H, W]; output: O; ft: F; parameters: ParametersNumber<A>; activationBytes: BytesNumber<A> }
    : never
  : never

/** The input shape itself if the net fits it; otherwise the error, so that the compiler shows it at the argument. */
export type Checked<N extends Net, In extends readonly number[]> = IsStrict extends true
  ? OrWords<Complaint<N, In>, In> | InferredFrom<In>
  : NeedsStrict
/** The model of a net at an input shape. Without `strict` nothing is known of it, so only `model` itself is refused. */
type ModelOf<N extends Net, In extends readonly number[]> = IsStrict extends true ? Model<SummaryOf<N, In>, N> : Model

type Complaint<N extends Net, In extends readonly number[]> = In extends readonly [
  infer B extends number,
  infer C extends number,
  infer H extends number,
  infer W extends number,
]
  ? BadSize<[['', B, 1], ['', C, 1], ['', H, 1], ['', W, 1]]> extends string
    ? BadInput<Listed<In>>
    : ComplaintOf<AnalyseWhole<N, [B, C, H, W]>>
  : number extends In['length']
    ? InputNotLiteral
    : BadInput<Listed<In>>

type Listed<Ds extends readonly number[], Text extends string = ''> = Ds extends readonly [
  infer D extends number,
  ...infer Rest extends readonly number[],
]
  ? Listed<Rest, Text extends '' ? `${D}` : `${Text},${D}`>
  : `[${Text}]`

/**
 * Creates a model: a net applied to images of one shape. The compiler checks every layer; hover over the result
 * to see its output shape, parameters and bytes.
 *
 * @param input Shape of the input: [batch, channels, height, width].
 * @param net The layers.
 * @example
 * const small = model([1, 3, 224, 224], seq(conv2d('conv1', 64, 3), relu(), maxPool(2), globalAvgPool('pool'), linear('fc', 10)))
 * console.log(small.output, small.parameters)
 */
export const model = <const In extends readonly number[], N extends Net>(input: Checked<N, In>, net: N): ModelOf<N, In> =>
  orThrow(renderError)(modelAt(input as unknown, net)) as unknown as ModelOf<N, In>

/**
 * Returns a model for a shape or a net that is known only at run time, or the reason for a refusal. `model`
 * does the same for literal shapes, checks them at compile time, and throws.
 *
 * @param input Shape of the input: [batch, channels, height, width].
 * @param net The layers, as untrusted data.
 * @param mode 'train' (default) or 'predict'. A model for prediction may be refused for training.
 * @example
 * const answer = modelAt([1, 3, 64, 64], seq(conv2d('conv1', 64, 3), relu()))
 * if (answer._tag === 'Right') console.log(answer.right.output)
 */
export const modelAt = (input: unknown, net: unknown, mode: Mode = 'train'): Either<GraphError, Model> =>
  pipe(
    Do,
    apS('input', decodeShape(input)),
    bind('net', () => decodeNet(net)),
    bind('analysis', ({ input, net }) => analyse(net, input, undefined, mode)),
    map(({ input, net, analysis }) => ({ kind: 'model', net, input, ...analysis })),
  )

/**
 * Sizes that replace those of a model.
 *
 * @example const sizes: InputOverride = { batch: 8, height: 512, width: 512 }
 */
export interface InputOverride {
  /** Images per step. Default: as in the model. @example asTrainable(net, { batch: 8 }) */
  readonly batch?: number | undefined
  /** Rows of the input, in pixels. Default: as in the model. @example asTrainable(net, { height: 512, width: 512 }) */
  readonly height?: number | undefined
  /** Columns of the input, in pixels. Default: as in the model. @example asTrainable(net, { height: 512, width: 512 }) */
  readonly width?: number | undefined
  /** Purpose: 'train' or 'predict'. Default 'train'. @example asTrainable(net, { mode: 'predict' }) */
  readonly mode?: Mode | undefined
}

const decodeShape = (u: unknown): Either<GraphError, Shape> =>
  Array.isArray(u) && u.length === 4 && u.every((d) => Number.isSafeInteger(d) && d >= 1)
    ? right(u as unknown as Shape)
    : left({ tag: 'ValueInvalid', name: 'input', reason: badShape(show(u)), legal: LEGAL_SHAPE })

// ---------------------------------------------------------------- layers by name

/**
 * The names of a model's layers, as string literals.
 *
 * @example const first: LayerNames<typeof net> = 'conv1'
 */
export type LayerNames<M extends Model> = string extends M['net']['kind']
  ? string
  : Analyse<M['net'], M['input']> extends Facts<any, any, any, infer L>
    ? L
    : never

/**
 * Returns the facts of one layer: input and output shape, bytes, and the dimensions along which it can be
 * tiled.
 *
 * @param m The model.
 * @param name Name of the layer; the editor completes it.
 * @example layerOf(net, 'conv1').output
 */
export const layerOf = <M extends Model, L extends LayerNames<M>>(m: M, name: L): FactsOf<M['net'], M['input'], L> => {
  const found = m.layers.find((l) => l.name === name)
  if (!found) throw new Error(`there is no layer '${name}'; allowed: ${m.layers.map((l) => `'${l.name}'`).join(', ')}`)
  return found as never
}
