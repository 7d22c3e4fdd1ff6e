// Models in the tests: as elaborated steps with one loss, and as bare forward graphs. In: a model, or a name of the zoo. Out: the step; the graph
// without the loss's inputs, and its output.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { asStep, elaborate, type Elaborated, type Loss, type Model, mse, type Shape } from '../../dsl'
import { DEFAULT_OPTIMIZER } from '../../src/stage/defaults'
import { zooEntry } from '../../src/zoo'
import { type GraphError, renderError } from '../../staging/core/errors'
import type { Graph, ValueId } from '../../staging/graph/graph'

export const elaborated = (
  m: Model,
  name = 'model',
  loss: Loss = mse,
  optimizer = DEFAULT_OPTIMIZER,
): Either<GraphError, Elaborated> =>
  pipe(
    asStep(m, loss, optimizer),
    E.chain((s) => elaborate(s, name)),
  )

export interface Forward {
  readonly graph: Graph
  readonly output: ValueId
}

export const outputOf = (s: Pick<Elaborated, 'objectives'>): ValueId => s.objectives[0]!.terms[0]!.of

export const forward = (m: Model, name?: string): Either<GraphError, Forward> =>
  pipe(
    elaborated(m, name),
    E.map((s) => ({
      graph: { ...s.graph, values: s.graph.values.filter((v) => v.role !== 'target') },
      output: outputOf(s),
    })),
  )

/** A network of the zoo, or its error at this shape. */
export const zooModel = (name: string, input?: Shape): Either<GraphError, Model> =>
  pipe(
    zooEntry(name)!.build(input),
    E.map((m) => {
      if (m.kind !== 'model') throw new Error(`${name} is a step`)
      return m
    }),
  )

export const mustModel = (name: string, input?: Shape): Model => {
  const m = zooModel(name, input)
  if (E.isLeft(m)) throw new Error(renderError(m.left))
  return m.right
}
