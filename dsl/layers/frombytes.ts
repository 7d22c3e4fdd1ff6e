// Pixels fed as bytes, as numbers. In: bytes [B,C,H,W], which are only fed to a step: it is the first layer of a model. Out: the same pixels, (x/255
// − mean)/std. FT-compatible in every dimension. A fed number takes one byte: in the data, on the link, on the device. Worked example: fromBytes({
// mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }) is torchvision's ToTensor and Normalize.
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import { listedAttrs } from '../../staging/ops/op'
import {
  type ChannelsMisfit,
  channelsMisfit,
  notFinite,
  type NotPositive,
  notPositive,
  type ShapeText,
  shapeText,
} from '../messages'
import type { Dim, Layer, Shape } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit } from './site'

/** A number for all channels, or one for each. */
export type PerChannel = number | readonly number[]

/**
 * The layer that `fromBytes` creates.
 *
 * @example const first: FromBytes<0.5, 0.25> = fromBytes({ mean: 0.5, std: 0.25 })
 */
export interface FromBytes<M extends PerChannel = PerChannel, D extends PerChannel = PerChannel, Name extends string = string>
  extends Layer<'fromBytes', Name> {
  readonly mean: M
  readonly std: D
}

/** Options of `fromBytes`. @example const options: FromBytesOptions = { mean: 0.5, std: 0.25 } */
export interface FromBytesOptions<M extends PerChannel = PerChannel, D extends PerChannel = PerChannel> {
  /**
   * Number subtracted from each value (0 to 1): one for all channels, or one per channel. Default 0.
   *
   * @example fromBytes({ mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] })
   */
  readonly mean?: M | undefined
  /**
   * Divisor of each value after the mean is subtracted: one for all channels, or one per channel. Default 1.
   *
   * @example fromBytes({ mean: 0.5, std: 0.25 })
   */
  readonly std?: D | undefined
}
const OPTIONS = optionsFor<FromBytesOptions>()('fromBytes', 'mean', 'std')

/**
 * Creates the first layer of a model that reads images as bytes: it computes (x / 255 − mean) / std. The images
 * then take one byte per number in memory and in each copy.
 *
 * @param options `mean` and `std`, one number for all channels or one per channel.
 * @param name Name of the layer. Default: its kind.
 * @example
 * model([1, 3, 512, 512], seq(
 *   fromBytes({ mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] }),
 *   conv2d('conv1', 64, 3),
 * ))
 */
export const fromBytes = <const M extends PerChannel = 0, const D extends PerChannel = 1, N extends string = '', Given = unknown>(
  options: FromBytesOptions<M, D> & Strays<Given, typeof OPTIONS> = {} as never,
  name?: N,
): FromBytes<M, D, N> => {
  const { mean = 0 as M, std = 1 as D } = known(OPTIONS, options)
  return { kind: 'fromBytes', name: name ?? ('' as N), mean, std }
}

// ---------------------------------------------------------------- as types

type FromBytesShape<L, S extends Shape> =
  L extends FromBytes<infer M, infer D, any>
    ? ListFault<'mean', M, S> extends infer Mean extends string
      ? Mean
      : ListFault<'std', D, S> extends infer Std extends string
        ? Std
        : NotAbove<D extends readonly number[] ? D : [D]> extends infer Least extends string
          ? Least
          : S
    : never

type ListFault<What extends string, V, S extends Shape> = V extends readonly number[]
  ? number extends V['length'] | S[1]
    ? null
    : V['length'] extends S[1]
      ? null
      : ChannelsMisfit<What, `${V['length']}`, ShapeText<S>>
  : null

/** Literals that are not above 0 print as '0' or with a sign. */
type NotAbove<Ds> = Ds extends readonly [infer D extends number, ...infer Rest]
  ? `${D}` extends '0' | `-${string}`
    ? NotPositive<'std', `${D}`>
    : NotAbove<Rest>
  : null

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    fromBytes: FromBytesShape<L, S>
  }
  interface LayerFt {
    fromBytes: Dim
  }
}

// ---------------------------------------------------------------- at run time

const listed = (v: PerChannel): readonly number[] => (typeof v === 'number' ? [v] : v)

const listFault = (what: 'mean' | 'std', v: PerChannel, input: Shape): string | null =>
  typeof v === 'number' || v.length === input[1] ? null : channelsMisfit(what, `${v.length}`, shapeText(input))

const fault = ({ mean, std }: FromBytes, input: Shape): string | null => {
  const lists = listFault('mean', mean, input) ?? listFault('std', std, input)
  if (lists !== null) return lists
  const low = listed(std).find((d) => !(d > 0))
  if (low !== undefined) return notPositive('std', `${low}`)
  const odd = (['mean', 'std'] as const).find((what) => !listed(what === 'mean' ? mean : std).every(Number.isFinite))
  return odd === undefined ? null : notFinite(odd)
}

/** One mean and one deviation where both are for all channels, else one for each. */
export const bytesAttrs = (
  { mean, std }: Pick<FromBytes, 'mean' | 'std'>,
  channels: number,
): Readonly<Record<string, number>> => {
  const length = typeof mean === 'number' && typeof std === 'number' ? 1 : channels
  const each = (v: PerChannel): readonly number[] => Array.from({ length }, (_, i) => (typeof v === 'number' ? v : v[i]!))
  return { ...listedAttrs('mean', each(mean)), ...listedAttrs('std', each(std)) }
}

const perChannelCodec: t.Type<PerChannel> = t.union([t.number, t.readonlyArray(t.number)])

export const fromBytesRule: LayerRule<FromBytes> = {
  codec: layerCodec('fromBytes', { mean: perChannelCodec, std: perChannelCodec }),
  takes: 'u8',
  fault,
  elaborate: (l, x, at) => emit(at, 'from_bytes', bytesAttrs(l, at.input[1]), [x]),
}
