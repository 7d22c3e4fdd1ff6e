// A model as what it predicts: its net's forward graph, with the statistics that ran along in training and nothing dropped, and what is
// handed out of it. In: a model, a form. Out: the graph and its layers; or a GraphError. Invariant: its parameters and states have the
// names of the training graph's, so that weights serve both.
// Worked example, [conv2d bn relu dropout linear] as classes: conv2d, bn_frozen, relu, linear, argmax, whose value is the output.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import { GraphBuilder } from '../staging/graph/builder'
import type { Graph } from '../staging/graph/graph'
import type { Ref } from '../staging/ops/op'
import { invalid } from './decode'
import { fold } from './fold'
import type { Model } from './model'
import { algebraOf, randomKeys } from './netgraph'

/**
 * What a prediction may be of what the net gives.
 *  values         the numbers themselves
 *  probabilities  softmax over the channels of each pixel; of one channel the sigmoid
 *  classes        the channel that is largest at each pixel; of one channel whether it is above zero
 */
export const FORMS = ['values', 'probabilities', 'classes'] as const
/** What is handed out of what a net gives: its values, probabilities, or the class of each pixel. */
export type Form = (typeof FORMS)[number]

/** What is handed out is called so. */
export const OUTPUT = 'output'

const formed = (b: GraphBuilder, y: Ref, form: Form): Either<GraphError, Ref> => {
  if (form === 'values') return E.right(y)
  if (form === 'classes') return b.one('argmax', {}, [y], form)
  return b.one(b.shape(y)[1] === 1 ? 'sigmoid' : 'softmax', {}, [y], form)
}

/** The forward graph of a model's predictions. @example predictionOf(net, 'classes') */
export const predictionOf = (m: Model, form: Form, name = 'model'): Either<GraphError, Graph> => {
  const graph = new GraphBuilder(name)
  const algebra = algebraOf({ graph, randomKey: randomKeys(), mode: 'predict' })
  return pipe(
    graph.checked(graph.input('input', m.input)),
    E.chain((x) => fold(algebra, m.net, x)),
    E.chain((y) => formed(graph, y, form)),
    E.filterOrElse(
      () => graph.written.length > 0,
      () => invalid('net', 'it has no layers that compute anything'),
    ),
    E.map((y) => {
      graph.markOutput(y, OUTPUT)
      return graph.build()
    }),
  )
}
