// A model for prediction: its net's forward graph, with the running statistics of training and nothing dropped, and the output; and the same with a
// loss beside it. In: a model, a form, a loss. Out: the graph, or a step; or a GraphError. Invariant: its parameters and states have the names of the
// training graph's, so that weights serve both. Worked example, [conv2d bn relu dropout linear] as classes: conv2d, bn_frozen, relu, linear, argmax,
// whose value is the output.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../staging/core/errors'
import type { ElaboratedStep, Term } from '../staging/grad/objective'
import { GraphBuilder } from '../staging/graph/builder'
import type { Graph } from '../staging/graph/graph'
import type { LossEntry } from '../staging/ops/losses'
import { lossEntry, targetOf } from '../staging/ops/losscalls'
import type { Ref } from '../staging/ops/op'
import { optimizerWith } from '../staging/ops/optimizer'
import { invalid } from './decode'
import { takesBytes } from './fedbytes'
import { fold } from './fold'
import type { Model } from './model'
import { type Mask, maskOf, marked } from './masks'
import { algebraOf, randomKeys } from './netgraph'
import type { Loss } from './training'

/**
 * The forms of a prediction.
 *  values         the numbers themselves
 *  probabilities  softmax over the channels of each pixel; of one channel the sigmoid
 *  classes        the channel that is largest at each pixel; of one channel true above zero
 */
export const FORMS = ['values', 'probabilities', 'classes'] as const
/**
 * The form of a prediction: the values of the net, probabilities, or the largest class of each pixel.
 *
 * @example
 * const form: Form = 'classes'
 * stage(net, { mode: 'predict', as: form })
 */
export type Form = (typeof FORMS)[number]

/** The name of an output. */
export const OUTPUT = 'output'

const formed = (b: GraphBuilder, y: Ref, form: Form): Either<GraphError, Ref> => {
  if (form === 'values') return E.right(y)
  if (form === 'classes') return b.one('argmax', {}, [y], form)
  return b.one(b.shape(y)[1] === 1 ? 'sigmoid' : 'softmax', {}, [y], form)
}

/** The purpose of a plan: steps of training, predictions, or a loss and predictions beside their targets. */
export const MODES = ['train', 'predict', 'evaluate'] as const
/**
 * The purpose of a plan: training, prediction or evaluation. Default 'train'.
 *
 * @example
 * const mode: PlanMode = 'predict'
 * stage(net, { mode })
 */
export type PlanMode = (typeof MODES)[number]

interface Forward {
  readonly graph: GraphBuilder
  /** The net's result. */
  readonly y: Ref
  /** Its form. */
  readonly out: Ref
  /** The pixels that count, if they are those of a mask. */
  readonly mask: Mask | undefined
}

/** The net's forward pass. */
const forwardOf = (m: Model, form: Form, name: string): Either<GraphError, Forward> => {
  const graph = new GraphBuilder(name)
  const masks = new Map<Ref, Mask>()
  const algebra = algebraOf({ graph, randomKey: randomKeys(), mode: 'predict', masks })
  return pipe(
    graph.checked(graph.input('input', m.input, takesBytes(m.net) ? 'u8' : graph.dtype)),
    E.chain((x) => fold(algebra, m.net, x)),
    E.bindTo('y'),
    E.bind('out', ({ y }) => formed(graph, y, form)),
    E.filterOrElse(
      () => graph.written.length > 0,
      () => invalid('net', 'it has no layers that compute'),
    ),
    E.map(({ y, out }) => ({ graph, y, out, mask: masks.get(y) })),
  )
}

/** The forward graph of a model's predictions. @example predictionOf(net, 'classes') */
export const predictionOf = (m: Model, form: Form, name = 'model'): Either<GraphError, Graph> =>
  pipe(
    forwardOf(m, form, name),
    E.map(({ graph, out }) => {
      graph.markOutput(out, OUTPUT)
      return graph.build()
    }),
  )

/** The default output beside a loss: the classes of pixels; for an image, the net's whole result. */
export const formBeside = (m: Model, loss: Loss): Form => {
  const [, , height, width] = m.output
  const isOfClasses = E.exists((e: LossEntry) => e.labels === true || e.shares === true)(lossEntry(loss))
  return isOfClasses && height * width > 1 ? 'classes' : 'values'
}

/** An objective has an optimizer; this one finds no parameters. */
const NO_OPTIMIZER = optimizerWith('sgd', { lr: 0 })

/**
 * A model's predictions and its loss, as a step that trains nothing. Pixels outside of a mask have no class, or no number (masks.ts).
 *
 * @example evaluationOf(net, crossEntropy, 'classes')
 */
export const evaluationOf = (m: Model, loss: Loss, form: Form, name = 'model'): Either<GraphError, ElaboratedStep> =>
  pipe(
    lossEntry(loss),
    E.bindTo('entry'),
    E.bind('forward', () => forwardOf(m, form, name)),
    E.bind('target', ({ entry, forward: { graph, y } }) =>
      graph.checked(graph.target('target', targetOf(entry, graph.shape(y)), entry.labels ? 'i32' : graph.dtype)),
    ),
    E.bind('mask', ({ forward: { graph, y, mask } }) => maskOf(mask, graph.shape(y), 'loss')),
    E.bind('shown', ({ forward: { graph, out }, mask }) => marked(graph, out, mask.mask, OUTPUT)),
    E.map(({ forward: { graph, y }, target, mask, shown }) => {
      graph.markOutput(shown, OUTPUT)
      const term: Term = { name: 'loss', loss, of: y, to: { value: target, detached: false }, weight: 1, ...mask }
      return {
        graph: graph.build(),
        objectives: [{ name: 'model', optimizer: NO_OPTIMIZER, updates: {}, params: new Map(), terms: [term] }],
        detached: [],
      }
    }),
  )
