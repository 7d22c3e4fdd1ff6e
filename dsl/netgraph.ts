// A net as ops: the algebra of a fold that appends them to a graph, every op from the op table. In: a graph under construction, the number of the
// next random layer, the suffix of the layers' names. Out: the algebra. Invariant: the analysis of a layer is derived from the same ops.
import { type Either, right } from 'fp-ts/Either'
import type { GraphError } from '../staging/core/errors'
import type { GraphBuilder } from '../staging/graph/builder'
import type { AnyAttrs, Ref } from '../staging/ops/op'
import { COMBINATIONS, factorOver } from './combined'
import type { Algebra, NodeNames } from './fold'
import { ruleFor } from './layers/registry'
import type { Mode } from './layers/rule'
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
}

export const algebraOf = ({ graph, randomKey, mode, suffix = '' }: Elaboration): Algebra<Ref> => {
  const shape = (r: Ref): Shape => graph.shape(r) as unknown as Shape
  const single = (kind: string, attrs: AnyAttrs, ins: readonly Ref[], at: NodeNames): Either<GraphError, Ref> =>
    graph.one(kind, attrs, ins, `${at.name}${suffix}`)
  return {
    layer: (l, x, at) => {
      const rule = ruleFor(l)
      return rule.elaborate(l, x, {
        graph,
        layer: `${at.name}${suffix}`,
        weights: weightsOf(l, at),
        input: shape(x),
        params: rule.params?.(l, shape(x)) ?? [],
        randomKey,
        mode,
      })
    },
    sum: (body, shortcut, at) => single('add', {}, [body, shortcut], at),
    combine: (kind, parts, at) => {
      const [first, ...others] = parts.map(shape)
      return single(COMBINATIONS[kind].op, COMBINATIONS[kind].attrs(first!, others), parts, at)
    },
    product: (input, factor, at) =>
      single('multiply', { over: factorOver(shape(input), shape(factor)) ?? 0 }, [input, factor], at),
    resize: (made, input, at) => {
      const [[, , inH, inW], [, , outH, outW]] = [shape(made), shape(input)]
      return inH === outH && inW === outW ? right(made) : single('upsample', { mode: 1, inH, inW, outH, outW }, [made], at())
    },
    join: (branches, at) => (branches.length === 1 ? right(branches[0]!) : single('concat', {}, branches, at)),
  }
}
