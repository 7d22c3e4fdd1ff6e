// Global response normalisation, as ConvNeXt V2 has it: channels of an image compete by the roots of their sums of squares. In, out: [B,C,H,W].
// FT-compatible in B; tiles of H and W add up the sums.
import { chain } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { known } from '../../staging/core/known'
import { optionsFor, type Strays } from '../../staging/core/options'
import type { Layer, Shape } from '../net'
import type { MulLimbs } from '../numbers/limbs'
import type { Low } from '../numbers/naturals'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { emit, withParams } from './site'

/**
 * The layer that `globalResponseNorm` creates.
 *
 * @example const norm: GlobalResponseNorm<'grn'> = globalResponseNorm('grn')
 */
export interface GlobalResponseNorm<Name extends string> extends Layer<'globalResponseNorm', Name> {
  readonly eps: number
}

/** Options of `globalResponseNorm`. @example const options: GlobalResponseNormOptions = { eps: 1e-5 } */
export interface GlobalResponseNormOptions {
  /** Number added to the mean of an image. Default 1e-6. @example globalResponseNorm('grn', { eps: 1e-5 }) */
  readonly eps?: number | undefined
}
const OPTIONS = optionsFor<GlobalResponseNormOptions>()('globalResponseNorm', 'eps')

/**
 * Creates global response normalisation, as in ConvNeXt V2: y = x + weight·x·n + bias, where n is the norm of a
 * channel over the image, divided by the mean norm of the channels.
 *
 * @param name Name of the layer; the parameters are `<name>.weight` and `<name>.bias`.
 * @param options `eps` is added to the mean norm. Default 1e-6.
 * @example seq(pixelLinear('fc1', 384), gelu(), globalResponseNorm('grn'), pixelLinear('fc2', 96))
 */
export const globalResponseNorm = <N extends string, Given = unknown>(
  name: N,
  options: GlobalResponseNormOptions & Strays<Given, typeof OPTIONS> = {} as never,
): GlobalResponseNorm<N> => ({ kind: 'globalResponseNorm', name, eps: known(OPTIONS, options).eps ?? 1e-6 })

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    globalResponseNorm: S
  }
  interface LayerFt {
    globalResponseNorm: 'B'
  }
  interface LayerSums<L> {
    globalResponseNorm: 'H' | 'W'
  }
  interface LayerParameters<L, S extends Shape> {
    globalResponseNorm: MulLimbs<Low<S[1]>, '2'>
  }
}

export const globalResponseNormRule: LayerRule<GlobalResponseNorm<string>> = {
  codec: layerCodec('globalResponseNorm', { eps: t.number }),
  example: "globalResponseNorm('n')",
  params: (_, [, c]) => [
    { name: 'weight', shape: [c], init: { dist: 'constant', a: 0 } },
    { name: 'bias', shape: [c], init: { dist: 'constant', a: 0 } },
  ],
  elaborate: (l, x, at) =>
    withParams(at, ([weight, bias]) =>
      pipe(
        emit(at, 'square_sums', {}, [x]),
        chain((sums) => emit(at, 'response', { eps: l.eps }, [sums, weight!])),
        chain((factors) => emit(at, 'multiply', { over: 1 }, [x, factors])),
        chain((y) => emit(at, 'shift', { elements: 0 }, [y, bias!])),
      ),
    ),
}
