// A net as ops: the algebra of a fold that appends them to a graph, every op from the op table. In: a graph under construction, the number of the
// next random layer, the suffix of the layers' names. Out: the algebra. Invariant: the analysis of a layer is derived from the same ops.
import { chain, type Either, map, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import type { GraphBuilder } from '../staging/graph/builder'
import type { AnyAttrs, Ref } from '../staging/ops/op'
import { factorOver } from './combined'
import type { Algebra, NodeNames } from './fold'
import { ruleFor } from './layers/registry'
import type { Mode } from './layers/rule'
import { Mask } from './masks'
import type { Layer, Shape } from './net'

const weightsOf = (l: Layer, at: NodeNames): string => ('param' in l && typeof l.param === 'string' ? l.param : at.name)

/** Numbers that no two random layers share. */
export const randomKeys = (): (() => number) => {
  let drawn = 0
  return () => drawn++
}

interface Elaboration {
  readonly graph: GraphBuilder
  readonly randomKey: () => number
  readonly mode: Mode
  /** Follows the layers' names, not those of their parameters. */
  readonly suffix?: string
  readonly mask?: Mask
  /** Takes the mask of each value of a masked net. */
  readonly masks: Map<Ref, Mask>
}

export const algebraOf = (e: Elaboration): Algebra<Ref> => {
  const { graph, randomKey, mode, suffix = '', mask, masks } = e
  const shape = (r: Ref): Shape => graph.shape(r) as unknown as Shape
  const single = (kind: string, attrs: AnyAttrs, ins: readonly Ref[], at: NodeNames): Either<GraphError, Ref> =>
    graph.one(kind, attrs, ins, `${at.name}${suffix}`)
  const noted = map((y: Ref): Ref => {
    if (mask) masks.set(y, mask)
    return y
  })
  return {
    layer: (l, x, at) => {
      const rule = ruleFor(l)
      const layer = `${at.name}${suffix}`
      const params = rule.params?.(l, shape(x)) ?? []
      const site = { graph, layer, weights: weightsOf(l, at), input: shape(x), params, randomKey, mode, mask }
      const made = rule.elaborate(l, x, site)
      return noted(mask && rule.masked !== 'keeps' ? chain((y: Ref) => mask.inside(y, layer))(made) : made)
    },
    sum: (body, shortcut, at) => noted(single('add', {}, [body, shortcut], at)),
    combine: ({ op, attrs }, parts, at) => {
      const [first, ...others] = parts.map(shape)
      return noted(single(op, attrs(first!, others), parts, at))
    },
    product: (input, factor, at) =>
      noted(single('multiply', { over: factorOver(shape(input), shape(factor)) ?? 0 }, [input, factor], at)),
    resize: (made, input, at) => {
      const [[, , inH, inW], [, , outH, outW]] = [shape(made), shape(input)]
      if (inH === outH && inW === outW) return right(made)
      const place = at()
      const resized = single('upsample', { mode: 1, inH, inW, outH, outW }, [made], place)
      return noted(mask ? chain((y: Ref) => mask.inside(y, `${place.name}${suffix}`))(resized) : resized)
    },
    masked: (side, input) => right(algebraOf({ ...e, mask: new Mask(graph, side, input) })),
    join: (branches, at) => (branches.length === 1 ? right(branches[0]!) : noted(single('concat', {}, branches, at))),
  }
}
