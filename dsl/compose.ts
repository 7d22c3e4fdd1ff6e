// Compositions: nodes made of nodes. A scope (block, blocks) puts its name before the names of its parts, so a layer's full name, 'layer1.0.conv1',
// is also the PyTorch name of its weights. In: nets. Out: nets, as plain data whose types are the syntax tree.
import { type Identity, identity, type Net } from './net'

/**
 * The chain that `seq` creates.
 *
 * @example const chain: Seq<readonly [Conv2d<'conv1', 64, 3>, Relu]> = seq(conv2d('conv1', 64, 3), relu())
 */
export interface Seq<Ls extends readonly Net[]> extends Net<'seq'> {
  readonly layers: Ls
}
/**
 * The chain with a name prefix that `block` creates.
 *
 * @example const down: Block<'down', Seq<readonly [Relu]>> = block('down', relu())
 */
export interface Block<Name extends string, Body extends Net> extends Net<'block'> {
  readonly name: Name
  readonly body: Body
}
/**
 * The chain of numbered blocks that `blocks` creates.
 *
 * @example const stage1: Blocks<'layer1', readonly [Relu, Relu]> = blocks('layer1', relu(), relu())
 */
export interface Blocks<Name extends string, Ls extends readonly Net[]> extends Net<'blocks'> {
  readonly name: Name
  readonly layers: Ls
}
/**
 * The chain of numbered blocks that `counted` creates.
 *
 * @example const units: Counted<'unit', 1, readonly [Relu]> = counted('unit', 1, relu())
 */
export interface Counted<Stem extends string, From extends number, Ls extends readonly Net[]> extends Net<'counted'> {
  readonly stem: Stem
  readonly from: From
  readonly layers: Ls
}
/** The copies that `repeat` creates. @example const four: Repeat<4, Relu> = repeat(4, relu()) */
export interface Repeat<Times extends number, Body extends Net> extends Net<'repeat'> {
  readonly times: Times
  readonly body: Body
}
/**
 * The sum that `residual` creates.
 *
 * @example const unit: Residual<Relu, Identity> = residual(relu(), identity)
 */
export interface Residual<Body extends Net, Shortcut extends Net> extends Net<'residual'> {
  readonly body: Body
  readonly shortcut: Shortcut
}
/**
 * The joined branches that `concat` creates.
 *
 * @example const both: Concat<readonly [Relu, Identity]> = concat(relu(), identity)
 */
export interface Concat<Bs extends readonly Net[]> extends Net<'concat'> {
  readonly branches: Bs
}

/**
 * The product that `scaled` creates.
 *
 * @example const gated: Scaled<Seq<readonly [GlobalAvgPool, Sigmoid]>> = scaled(globalAvgPool(), sigmoid())
 */
export interface Scaled<Body extends Net> extends Net<'scaled'> {
  readonly body: Body
}

/**
 * The resized branch that `atInputSize` creates.
 *
 * @example const context: AtInputSize<Seq<readonly [GlobalAvgPool]>> = atInputSize(globalAvgPool())
 */
export interface AtInputSize<Body extends Net> extends Net<'atInputSize'> {
  readonly body: Body
}

/**
 * The net over the pixels of a mask that `masked` creates.
 *
 * @example const tissue: Masked<32, Seq<readonly [Relu]>> = masked(32, relu())
 */
export interface Masked<Side extends number, Body extends Net> extends Net<'masked'> {
  readonly side: Side
  readonly body: Body
}

/**
 * Two values that a `value` reads as one: the attention of the pixels of the first to those of the second, which may have
 * another height and width.
 *
 * @example const reads: Attended = { attended: ['queries', 'keys'], heads: 4 }
 */
export interface Attended {
  /** The queries, of C channels, and the keys and values, of 2·C channels. */
  readonly attended: readonly [queries: string, keysAndValues: string]
  /** Number of heads; it divides C. @example value('y', { attended: ['q', 'kv'], heads: 4 }) */
  readonly heads: number
  /**
   * Order of the channels of keys and values: true for [heads, 2, C / heads], false for [2, heads, C / heads]. Default false.
   *
   * @example value('y', { attended: ['q', 'kv'], heads: 4, headFirst: true })
   */
  readonly headFirst?: boolean
  /** Factor of the products. Default: 1 / √(C / heads). @example value('y', { attended: ['q', 'kv'], heads: 4, scale: 0.1 }) */
  readonly scale?: number
}

/**
 * Two values that a `value` reads as one: a product of matrices for each image and group of channels. A group is a matrix of
 * channels and pixels.
 *
 * @example const reads: Contracted = { contracted: ['keys', 'queries'], over: 'channels', groups: 4 }
 */
export interface Contracted {
  /** The first value and the second. */
  readonly contracted: readonly [first: string, second: string]
  /**
   * The axes that are summed. `'channels'`: of both; the channels of the result are the pixels of the first, as in scores of
   * attention. `'pixels'`: of both; the result has the channels of the first, and those of the second as columns. `'mixed'`:
   * the pixels of the first and the channels of the second, as in shares times values.
   *
   * @example value('kv', { contracted: ['v', 'k'], over: 'pixels' })
   */
  readonly over: 'channels' | 'pixels' | 'mixed'
  /** Number of groups of channels. Default 1. @example value('kv', { contracted: ['v', 'k'], over: 'pixels', groups: 4 }) */
  readonly groups?: number
}

/**
 * The values that a `value` reads: one by name, or several that are added, joined along the channels, multiplied, attended,
 * or contracted.
 *
 * @example const reads: Reads = { added: ['a', 'b'] }
 */
export type Reads =
  | string
  | { readonly added: readonly [string, string, ...string[]] }
  | { readonly joined: readonly [string, string, ...string[]] }
  | { readonly multiplied: readonly [value: string, factor: string] }
  | Attended
  | Contracted

/**
 * The named value that `value` creates.
 *
 * @example const a: Value<'a', 'input', Seq<readonly [Relu]>> = value('a', 'input', relu())
 */
export interface Value<Name extends string, From extends Reads, Body extends Net> extends Net<'value'> {
  readonly name: Name
  readonly reads: From
  readonly body: Body
}

/**
 * The net of named values that `values` creates.
 *
 * @example const net: Values<readonly [Value<'a', 'input', Seq<readonly [Relu]>>]> = values(value('a', 'input', relu()))
 */
export interface Values<Vs extends readonly Net[]> extends Net<'values'> {
  readonly layers: Vs
}

/**
 * Creates a chain: each layer reads the output of the layer before it.
 *
 * @param layers Layers in execution order.
 * @example seq(conv2d('conv1', 64, 3), relu(), maxPool('pool1', 2))
 */
export const seq = <const Ls extends readonly Net[]>(...layers: Ls): Seq<Ls> => ({ kind: 'seq', layers })

/**
 * Creates a chain with a name prefix: the layers inside are called `<name>.<layer>`.
 *
 * @param name Prefix of the names, without the dot.
 * @param layers Layers in execution order.
 * @example
 * // layers downsample.0 and downsample.1
 * block('downsample', conv2d('0', 64, 1, { stride: 2 }), batchNorm('1'))
 */
export const block = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Block<N, Seq<Ls>> => ({
  kind: 'block',
  name,
  body: seq(...layers),
})

/**
 * Creates a chain of numbered blocks: the layers inside are called `<name>.0.<layer>`, `<name>.1.<layer>` and
 * so on.
 *
 * @param name Prefix of the names, without the dot.
 * @param layers One layer or chain per block; a `repeat` fills one block per copy.
 * @example
 * // layers layer1.0.conv and layer1.1.conv
 * blocks('layer1', conv2d('conv', 64, 3), conv2d('conv', 64, 3))
 */
export const blocks = <N extends string, const Ls extends readonly Net[]>(name: N, ...layers: Ls): Blocks<N, Ls> => ({
  kind: 'blocks',
  name,
  layers,
})

/**
 * Creates a chain of numbered blocks without a dot before the number: `<stem>1.<layer>`, `<stem>2.<layer>` and
 * so on.
 *
 * @param stem Prefix of the names.
 * @param from First number.
 * @param layers One layer or chain per block; a `repeat` fills one block per copy.
 * @example
 * // layers denselayer1.conv to denselayer6.conv
 * counted('denselayer', 1, repeat(6, conv2d('conv', 32, 3)))
 */
export const counted = <S extends string, F extends number, const Ls extends readonly Net[]>(
  stem: S,
  from: F,
  ...layers: Ls
): Counted<S, F, Ls> => ({ kind: 'counted', stem, from, layers })

/**
 * Creates a chain of copies of one body. Each copy has its own weights. Wrap it in `blocks` or `counted` to
 * number the copies.
 *
 * @param times Number of copies.
 * @param body Layer or chain to copy.
 * @example blocks('layer1', repeat(4, seq(conv2d('conv', 64, 3), relu())))
 */
export const repeat = <T extends number, B extends Net>(times: T, body: B): Repeat<T, B> => ({ kind: 'repeat', times, body })

/**
 * Creates the sum of two branches that read the same input. Both outputs must have the same shape.
 *
 * @param body First branch.
 * @param shortcut Second branch, often `identity` or a 1×1 convolution.
 * @example residual(seq(conv2d('conv1', 64, 3), relu()), identity)
 */
export const residual = <B extends Net, S extends Net>(body: B, shortcut: S): Residual<B, S> => ({
  kind: 'residual',
  body,
  shortcut,
})

/**
 * Creates a product: the input times the output of the layers. The output may have one pixel per channel, as in
 * a squeeze-and-excite block, or one channel per pixel.
 *
 * @param layers Layers that compute the factor.
 * @example scaled(globalAvgPool(), conv2d('fc1', 8, 1), relu(), conv2d('fc2', 64, 1), sigmoid())
 */
export const scaled = <const Ls extends readonly Net[]>(...layers: Ls): Scaled<Seq<Ls>> => ({
  kind: 'scaled',
  body: seq(...layers),
})

/**
 * Creates branches that read the same input and joins their outputs along the channels, in order.
 *
 * @param branches Branches; their outputs may differ in the number of channels only.
 * @example concat(conv2d('a', 16, 1), conv2d('b', 32, 3), seq(maxPool(3, { stride: 1, pad: 1 }), conv2d('c', 16, 1)))
 */
export const concat = <const Bs extends readonly Net[]>(...branches: Bs): Concat<Bs> => ({ kind: 'concat', branches })

/**
 * Creates a branch whose output is resized bilinearly to the height and width of its input. Use it to join a
 * coarse branch, such as a global context, with a fine one.
 *
 * @param layers Layers of the branch, in execution order.
 * @example concat(identity, atInputSize(globalAvgPool(), conv2d('context', 256, 1)))
 */
export const atInputSize = <const Ls extends readonly Net[]>(...layers: Ls): AtInputSize<Seq<Ls>> => ({
  kind: 'atInputSize',
  body: seq(...layers),
})

/**
 * Creates a net for the parts of its input that have data. The input is cut into square blocks; a block whose numbers
 * are all 0 is outside of the mask. Outside, all values between the layers are 0, as in the padding of a convolution.
 * Norms over the batch and poolings of whole images count only pixels inside.
 *
 * @param side Side of a block in pixels, e.g. the stride of the network.
 * @param layers Layers in execution order.
 * @example masked(32, fromBytes(), conv2d('conv1', 64, 3), batchNorm('bn1'), relu(), globalAvgPool(), linear('fc', 2))
 */
export const masked = <const S extends number, const Ls extends readonly Net[]>(side: S, ...layers: Ls): Masked<S, Seq<Ls>> => ({
  kind: 'masked',
  side,
  body: seq(...layers),
})

/**
 * Creates a skip connection: the input, joined along the channels with the output of the layers. A dense block
 * or a level of a U-Net is written so.
 *
 * @param layers Layers in execution order; they must keep height and width.
 * @example
 * // one level of a U-Net
 * skip(maxPool(2), conv2d('inner', 128, 3), relu(), upsample({ scale: 2 }))
 */
export const skip = <const Ls extends readonly Net[]>(...layers: Ls): Concat<readonly [Identity, Seq<Ls>]> =>
  concat(identity, seq(...layers))

/**
 * Creates a named value of a net of values: the result of layers that read earlier values.
 *
 * @param name Name of the value; it is no prefix of the layers' names.
 * @param reads The name of an earlier value, or `'input'`; or several as `{ added: ['a', 'b'] }`,
 *   `{ joined: ['a', 'b'] }`, `{ multiplied: ['value', 'factor'] }`, `{ attended: ['queries', 'keys'], heads: 4 }`,
 *   `{ contracted: ['keys', 'queries'], over: 'channels' }`.
 * @param layers Layers in execution order. Without layers, the value equals its input.
 * @example values(value('a', 'input', conv2d('conv1', 8, 3)), value('b', { joined: ['input', 'a'] }, relu()))
 */
export const value = <N extends string, const R extends Reads, const Ls extends readonly Net[]>(
  name: N,
  reads: R,
  ...layers: Ls
): Value<N, R, Seq<Ls>> => ({ kind: 'value', name, reads, body: seq(...layers) })

/**
 * Creates a net of named values. Each value reads the input or earlier values, so branches may cross: Res2Net,
 * HRNet and U-Net++ are written so. The result is the last value.
 *
 * @param vs Values in execution order.
 * @example values(value('a', 'input', relu()), value('b', { added: ['a', 'input'] }), value('c', { joined: ['a', 'b'] }))
 */
export const values = <const Vs extends readonly Net[]>(...vs: Vs): Values<Vs> => ({ kind: 'values', layers: vs })
