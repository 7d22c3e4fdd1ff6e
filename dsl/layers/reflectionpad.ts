// Reflection padding, PyTorch's ReflectionPad2d. In: [B,C,H,W]. Out: [B,C,H+top+bottom,W+left+right]. FT-compatible in
// every dimension. Padding is one number, [height, width], or a number for each side; less than the image's size.
import { type NoReflection, noReflection, type ShapeText, shapeText } from '../messages'
import type { Dim, Layer, Shape, Sized } from '../net'
import type { Add, Compare } from '../numbers/naturals'
import { layerCodec, sidesCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import {
  far,
  type Far,
  near,
  type Near,
  type SidePadding,
  type Sides,
  sidesOf,
  type SidesOf,
  type SidesFault,
  sidesFault,
  type SidesText,
  sidesText,
} from './sides'
import { emit } from './site'

/**
 * The layer that `reflectionPad2d` creates.
 *
 * @example const border: ReflectionPad2d<3> = reflectionPad2d(3)
 */
export interface ReflectionPad2d<Pad extends SidePadding, Name extends string = ''> extends Layer<'reflectionPad2d', Name> {
  readonly pad: Pad
}

/**
 * Creates padding that mirrors the rows and columns of the image.
 *
 * @param pad Size of the border in pixels: one number, [height, width], or one number per side.
 * @param name Name of the layer. Default: its kind.
 * @example seq(reflectionPad2d(3), conv2d('conv1', 64, 7, { pad: 0 }), reflectionPad2d({ top: 0, left: 0, bottom: 1, right: 1 }))
 */
export const reflectionPad2d = <const P extends SidePadding, N extends string = ''>(pad: P, name?: N): ReflectionPad2d<P, N> => ({
  kind: 'reflectionPad2d',
  name: name ?? ('' as N),
  pad,
})

type Fewer<P extends number, H extends number> = number extends P | H ? true : Compare<P, H> extends 'less' ? true : false
type Extended<H extends number, A extends number, B extends number> = number extends H | A | B ? number : Add<H, Add<A, B>>

type ReflectionShape<L, S extends Shape> =
  L extends ReflectionPad2d<infer P, any>
    ? SidesOf<P> extends infer Q extends Sides
      ? (
          SidesFault<P> extends infer Side extends string
            ? Side
            : BadSize<[['padding', Near<Q>, 0], ['padding', Far<Q>, 0]]>
        ) extends infer Bad
        ? Bad extends string
          ? Bad
          : [Fewer<Q['top'], S[2]>, Fewer<Q['bottom'], S[2]>, Fewer<Q['left'], S[3]>, Fewer<Q['right'], S[3]>] extends [
                true,
                true,
                true,
                true,
              ]
            ? Sized<S[0], S[1], Extended<S[2], Q['top'], Q['bottom']>, Extended<S[3], Q['left'], Q['right']>>
            : NoReflection<SidesText<Q>, ShapeText<S>>
        : never
      : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    reflectionPad2d: ReflectionShape<L, S>
  }
  interface LayerFt {
    reflectionPad2d: Dim
  }
}

export const reflectionPad2dRule: LayerRule<ReflectionPad2d<SidePadding, string>> = {
  codec: layerCodec('reflectionPad2d', { pad: sidesCodec }),
  fault: (l, input) => {
    const p = sidesOf(l.pad)
    const inside = Math.max(p.top, p.bottom) < input[2] && Math.max(p.left, p.right) < input[3]
    return (
      sidesFault(l.pad) ??
      badSize(['padding', near(p), 0], ['padding', far(p), 0]) ??
      (inside ? null : noReflection(sidesText(p), shapeText(input)))
    )
  },
  elaborate: (l, x, at) => {
    const { top, left: before, bottom, right: after } = sidesOf(l.pad)
    return emit(at, 'reflect_pad', { padTop: top, padLeft: before, padBottom: bottom, padRight: after }, [x])
  },
}
