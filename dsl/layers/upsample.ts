// Resampling to a multiple of the size or to a given size, PyTorch's Upsample. In: [B,C,H,W]. Out: [B,C,H',W']. FT-compatible in every dimension. An
// input of the right size passes unchanged, without an op.
import { right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { type Known, optionsFor } from '../../staging/core/options'
import { choice, flag, legal, withValues } from '../../staging/core/values'
import type { Dim, Extent, Height, Layer, Shape, Sized, Width } from '../net'
import { height, width } from '../net'
import type { Mul } from '../numbers/naturals'
import { extentCodec, layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit } from './site'

/** How many times the size, or the size. */
export type UpsampleTo = { readonly scale: Extent } | { readonly size: Extent }
/** 'bilinear-corners' is bilinear with `alignCorners`. */
export type UpsampleMode = 'nearest' | 'bilinear' | 'bilinear-corners'

/**
 * The layer that `upsample` creates.
 *
 * @example const twice: Upsample<{ scale: 2 }> = upsample({ scale: 2 })
 */
export interface Upsample<To extends UpsampleTo, Name extends string = ''> extends Layer<'upsample', Name> {
  readonly to: To
  readonly mode: UpsampleMode
}

/**
 * Options of `upsample`: a factor or a size, and the interpolation.
 *
 * @example const options: UpsampleOptions = { scale: 2, mode: 'bilinear' }
 */
export type UpsampleOptions = (
  | { readonly scale: Extent; readonly size?: undefined }
  | { readonly size: Extent; readonly scale?: undefined }
) &
  (
    | { readonly mode?: 'nearest' | undefined; readonly alignCorners?: undefined }
    | {
        readonly mode: 'bilinear'
        /** True if pixels are points and the corners stay in place. By default, pixels are areas. */
        readonly alignCorners?: boolean | undefined
      }
  )
/** All options with their texts, which an editor finds only in one type. */
interface EveryOption {
  /** Factor of height and width: a number, or [height, width]. Give either `scale` or `size`. @example upsample({ scale: 2 }) */
  readonly scale?: Extent | undefined
  /** Height and width of the result, in pixels: a number, or [height, width]. @example upsample({ size: [129, 65] }) */
  readonly size?: Extent | undefined
  /** Interpolation: 'nearest' or 'bilinear'. Default 'nearest'. @example upsample({ scale: 2, mode: 'bilinear' }) */
  readonly mode?: 'nearest' | 'bilinear' | undefined
  /** True if pixels are points and the corners stay in place. By default, pixels are areas. */
  readonly alignCorners?: boolean | undefined
}
const KEYS = optionsFor<EveryOption>()('upsample', 'scale', 'size', 'mode', 'alignCorners')
const EXTENT = legal('a number, or [height, width]', (u) => (Array.isArray(u) ? u : [u]).every((n) => typeof n === 'number'))
const OPTIONS = withValues(
  KEYS,
  { scale: EXTENT, size: EXTENT, mode: choice(['nearest', 'bilinear']), alignCorners: flag },
  { prefix: 'upsample: ' },
)
type ToOf<O> = O extends { readonly scale: infer S extends Extent }
  ? { readonly scale: S }
  : O extends { readonly size: infer S extends Extent }
    ? { readonly size: S }
    : never

/**
 * Creates a layer that resizes the image, as PyTorch's `Upsample`.
 *
 * @param options Either `scale` (factor) or `size` (pixels), each one number or [height, width]; `mode` is
 *   'nearest' (default) or 'bilinear'.
 * @param name Name of the layer. Default: its kind.
 * @example
 * seq(
 *   upsample({ scale: 2 }),
 *   upsample({ size: [129, 65], mode: 'bilinear', alignCorners: true }),
 * )
 */
export const upsample = <const O extends UpsampleOptions, N extends string = ''>(
  options: Known<O, typeof KEYS>,
  name?: N,
): Upsample<ToOf<O>, N> => {
  const { scale, size, mode, alignCorners }: UpsampleOptions = known(OPTIONS, options as O)
  return {
    kind: 'upsample',
    name: name ?? ('' as N),
    to: (scale === undefined ? { size } : { scale }) as ToOf<O>,
    mode: mode !== 'bilinear' ? 'nearest' : alignCorners === true ? 'bilinear-corners' : 'bilinear',
  }
}

type Times<N extends number, F extends number> = number extends N | F ? number : Mul<N, F>
type UpsampleShape<L, S extends Shape> =
  L extends Upsample<infer To, any>
    ? To extends { readonly scale: infer F extends Extent }
      ? BadSize<[['scale', F, 1]]> extends infer Bad
        ? Bad extends string
          ? Bad
          : Sized<S[0], S[1], Times<S[2], Height<F>>, Times<S[3], Width<F>>>
        : never
      : To extends { readonly size: infer E extends Extent }
        ? BadSize<[['size', E, 1]]> extends infer Bad
          ? Bad extends string
            ? Bad
            : Sized<S[0], S[1], Height<E>, Width<E>>
          : never
        : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    upsample: UpsampleShape<L, S>
  }
  interface LayerFt {
    upsample: Dim
  }
}

// ---------------------------------------------------------------- at run time

const sizeOf = ({ to }: Upsample<UpsampleTo, string>, [, , h, w]: Shape): readonly [number, number] =>
  'scale' in to ? [h * height(to.scale), w * width(to.scale)] : [height(to.size), width(to.size)]

const MODES: Readonly<Record<UpsampleMode, number>> = { nearest: 0, bilinear: 1, 'bilinear-corners': 2 }

export const upsampleRule: LayerRule<Upsample<UpsampleTo, string>> = {
  codec: layerCodec('upsample', {
    to: t.union([t.readonly(t.strict({ scale: extentCodec })), t.readonly(t.strict({ size: extentCodec }))]),
    mode: t.keyof({ nearest: null, bilinear: null, 'bilinear-corners': null }),
  }),
  fault: (l) => badSize('scale' in l.to ? ['scale', l.to.scale, 1] : ['size', l.to.size, 1]),
  elaborate: (l, x, at) => {
    const [, , inH, inW] = at.input
    const [outH, outW] = sizeOf(l, at.input)
    return inH === outH && inW === outW ? right(x) : emit(at, 'upsample', { mode: MODES[l.mode], inH, inW, outH, outW }, [x])
  },
}
