// PyTorch's PixelShuffle and PixelUnshuffle: channels as blocks of pixels, and back. In: [B,C,H,W]. Out: [B,C/r²,r·H,r·W], or the inverse.
// FT-compatible in B, H and W.
import * as t from 'io-ts'
import { type ShapeText, shapeText, type WindowDoesNotDivide, windowDoesNotDivide } from '../messages'
import { type GroupsDoNotDivide, groupsDoNotDivide } from '../messages'
import type { Layer, Shape, Sized } from '../net'
import type { Div, Mod, Mul } from '../numbers/naturals'
import { layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit } from './site'

/** The layer that `pixelShuffle` creates. @example const larger: PixelShuffle<2> = pixelShuffle(2) */
export interface PixelShuffle<Factor extends number, Name extends string = ''> extends Layer<'pixelShuffle', Name> {
  readonly factor: Factor
}
/** The layer that `pixelUnshuffle` creates. @example const smaller: PixelUnshuffle<2> = pixelUnshuffle(2) */
export interface PixelUnshuffle<Factor extends number, Name extends string = ''> extends Layer<'pixelUnshuffle', Name> {
  readonly factor: Factor
}

/**
 * Creates a layer that enlarges the image: `factor`² channels become a block of pixels, as PyTorch's `PixelShuffle`. A
 * convolution before it computes the new pixels.
 *
 * @param factor Factor of height and width; its square must divide the number of channels.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('up', 256, 3), pixelShuffle(2), conv2d('out', 3, 3))
 */
export const pixelShuffle = <F extends number, N extends string = ''>(factor: F, name?: N): PixelShuffle<F, N> => ({
  kind: 'pixelShuffle',
  name: name ?? ('' as N),
  factor,
})

/**
 * Creates a layer that makes the image smaller without loss: a block of pixels becomes `factor`² channels, as PyTorch's
 * `PixelUnshuffle`.
 *
 * @param factor Divisor of height and width.
 * @param name Name of the layer. Default: its kind.
 * @example seq(pixelUnshuffle(2), conv2d('conv1', 64, 3))
 */
export const pixelUnshuffle = <F extends number, N extends string = ''>(factor: F, name?: N): PixelUnshuffle<F, N> => ({
  kind: 'pixelUnshuffle',
  name: name ?? ('' as N),
  factor,
})

type Times<A extends number, B extends number> = number extends A | B ? number : Mul<A, B>
type Part<A extends number, B extends number> = number extends A | B ? number : Div<A, B>
type Divides<A extends number, B extends number> = number extends A | B ? true : Mod<A, B> extends 0 ? true : false
type Area<F extends number> = Times<F, F>

type ShuffleShape<L, S extends Shape> =
  L extends PixelShuffle<infer F, any>
    ? BadSize<[['factor', F, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : Divides<S[1], Area<F>> extends true
          ? Sized<S[0], Part<S[1], Area<F>>, Times<S[2], F>, Times<S[3], F>>
          : GroupsDoNotDivide<'input', `${S[1]}`, `${Area<F>}`>
      : never
    : never

type UnshuffleShape<L, S extends Shape> =
  L extends PixelUnshuffle<infer F, any>
    ? BadSize<[['factor', F, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : [Divides<S[2], F>, Divides<S[3], F>] extends [true, true]
          ? Sized<S[0], Times<S[1], Area<F>>, Part<S[2], F>, Part<S[3], F>>
          : WindowDoesNotDivide<`${F}x${F}`, ShapeText<S>>
      : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    pixelShuffle: ShuffleShape<L, S>
    pixelUnshuffle: UnshuffleShape<L, S>
  }
  interface LayerFt {
    pixelShuffle: 'B' | 'H' | 'W'
    pixelUnshuffle: 'B' | 'H' | 'W'
  }
}

// ---------------------------------------------------------------- at run time

export const pixelShuffleRule: LayerRule<PixelShuffle<number, string>> = {
  codec: layerCodec('pixelShuffle', { factor: t.number }),
  fault: (l, [, c]) =>
    badSize(['factor', l.factor, 1]) ?? (c % l.factor ** 2 === 0 ? null : groupsDoNotDivide('input', `${c}`, `${l.factor ** 2}`)),
  elaborate: (l, x, at) => emit(at, 'pixel_shuffle', { factor: l.factor }, [x]),
}

export const pixelUnshuffleRule: LayerRule<PixelUnshuffle<number, string>> = {
  codec: layerCodec('pixelUnshuffle', { factor: t.number }),
  fault: (l, input) =>
    badSize(['factor', l.factor, 1]) ??
    (input[2] % l.factor === 0 && input[3] % l.factor === 0
      ? null
      : windowDoesNotDivide(`${l.factor}x${l.factor}`, shapeText(input))),
  elaborate: (l, x, at) => emit(at, 'pixel_unshuffle', { factor: l.factor }, [x]),
}
