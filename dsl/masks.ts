// Masks of an image: the pixels that layers compute. In: an image, the side of a block. Out: values [B,1,h,w] of 1 inside of the mask and 0 outside,
// at the size of any layer, and values with 0 outside. Invariant: a block lies outside if all numbers of the image in it are 0; a pixel of a layer
// has the block nearest to it. Worked example: an image of 64 × 64 with blocks of 32 has a mask of 2 × 2, and a layer of 16 × 16 has blocks of 8.
import { bind, bindTo, chain, type Either, map, right, tap } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import type { GraphBuilder } from '../staging/graph/builder'
import type { AnyAttrs, Ref } from '../staging/ops/op'

type Made = Either<GraphError, Ref>

/** Squares of numbers that are 0 or at least a byte's step apart from it. */
const MOST = 1e30
/** Below all numbers of layers, also in bf16. */
const LOWEST = -3e38

/** Ops whose results are never negative, and ops whose results are not if their inputs are not. */
const ABOVE: ReadonlySet<string> = new Set(['relu', 'relu6', 'sigmoid', 'square', 'abs', 'exp', 'clamp'])
const PASSING: ReadonlySet<string> = new Set(['max_pool', 'avg_pool', 'multiply', 'add', 'concat', 'upsample', 'dropout'])

const isNeverNegative = (graph: GraphBuilder, x: Ref): boolean => {
  const op = graph.written.find((o) => o.outs.includes(x))
  if (op === undefined) return false
  if (ABOVE.has(op.kind)) return (op.attrs['slope'] ?? 0) === 0 && (op.attrs['low'] ?? 0) >= 0
  return PASSING.has(op.kind) && op.ins.every((v) => isNeverNegative(graph, v as Ref))
}

export class Mask {
  private readonly made = new Map<string, Ref>()

  constructor(
    private readonly graph: GraphBuilder,
    private readonly side: number,
    private readonly image: Ref,
  ) {}

  /** The value with 0 outside of the mask. */
  inside(y: Ref, layer: string): Made {
    const [, , h, w] = this.graph.shape(y)
    return h === 1 && w === 1
      ? right(y)
      : pipe(
          this.at(h!, w!, layer),
          chain((mask) => this.graph.one('multiply', { over: 2 }, [y, mask], layer)),
        )
  }

  /**
   * Maxima of windows of x over the pixels inside. A window without such pixels has 0. If x is never negative, the 0 outside changes no maximum.
   */
  highest(x: Ref, layer: string, maximum: (of: Ref) => Made): Made {
    const { graph } = this
    const [, , h, w] = graph.shape(x)
    return isNeverNegative(graph, x)
      ? maximum(x)
      : pipe(
          this.at(h!, w!, layer),
          bindTo('mask'),
          bind('filled', ({ mask }) => graph.one('mask_fill', { value: LOWEST }, [x, mask], layer)),
          bind('y', ({ filled }) => maximum(filled)),
          bind('any', ({ mask }) => maximum(mask)),
          chain(({ y, any }) => graph.one('multiply', { over: 2 }, [y, any], layer)),
        )
  }

  /** The mask at this size. A mask of one pixel is the image's own. */
  at(h: number, w: number, layer: string): Made {
    return this.once(`${h}x${w}`, () =>
      pipe(
        this.once('blocks', () => this.blocks(layer)),
        chain((blocks) => {
          const [, , inH, inW] = this.graph.shape(blocks)
          return inH === h && inW === w
            ? right(blocks)
            : this.graph.one('upsample', { mode: 0, inH: inH!, inW: inW!, outH: h, outW: w }, [blocks], layer)
        }),
      ),
    )
  }

  /** `bn_stats` of the mask at this size. */
  stats(h: number, w: number, layer: string): Made {
    return this.once(`stats of ${h}x${w}`, () =>
      pipe(
        this.at(h, w, layer),
        chain((mask) => this.graph.one('bn_stats', {}, [mask], layer)),
      ),
    )
  }

  private once(key: string, make: () => Made): Made {
    const known = this.made.get(key)
    return known === undefined
      ? pipe(
          make(),
          tap((ref) => right(this.made.set(key, ref))),
        )
      : right(known)
  }

  /** One pixel for each block: bytes as numbers from 0 to 1, their largest of a block, and all channels as one. */
  private blocks(layer: string): Made {
    const then = (kind: string, attrs: AnyAttrs) => chain((x: Ref) => this.graph.one(kind, attrs, [x], layer))
    const { side, graph, image } = this
    const [, , h, w] = graph.shape(image)
    const [kernelH, kernelW] = [Math.min(side, h!), Math.min(side, w!)]
    const numbers = graph.value(image).dtype === 'u8' ? 'from_bytes' : 'square'
    return pipe(
      graph.one(numbers, numbers === 'square' ? {} : { mean0: 0, std0: 1 }, [image], layer),
      then('max_pool', { kernelH, kernelW, strideH: kernelH, strideW: kernelW, padTop: 0, padLeft: 0, ceil: 1 }),
      chain((x) => graph.one('multiply_bwd_channels', {}, [x, x], layer)),
      then('affine', { factor: MOST, shift: 0 }),
      then('clamp', { low: 0, high: 1 }),
    )
  }
}

/** The mask of a loss on an output of this shape; none for images of one pixel. */
export const maskOf = (
  mask: Mask | undefined,
  [, , h, w]: readonly number[],
  layer: string,
): Either<GraphError, { readonly mask?: Ref }> =>
  mask === undefined || (h === 1 && w === 1)
    ? right({})
    : pipe(
        mask.at(h!, w!, layer),
        map((ref) => ({ mask: ref })),
      )

/** The class of pixels outside of a mask. Their numbers are `LOWEST`, which no pixel inside has. */
const NO_CLASS = -1

/** An output whose pixels outside of the mask can be told from all others. */
export const marked = (graph: GraphBuilder, out: Ref, mask: Ref | undefined, layer: string): Made =>
  mask === undefined
    ? right(out)
    : graph.value(out).dtype === 'i32'
      ? graph.one('mask_labels', { ignoreIndex: NO_CLASS }, [out, mask], layer)
      : graph.one('mask_fill', { value: LOWEST }, [out, mask], layer)
