// The common part of `stage`, the command line and the laboratory before planning. In: a model or a step, a machine, and for a model its loss and
// optimizer. Out: the elaborated step and the graph that the machine trains, or predicts with, or a reason in words. Invariant: a model is a step of
// one objective; later code does not distinguish the two.
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import {
  asStep,
  elaborate,
  type Elaborated,
  type Form,
  type Loss,
  mse,
  type Optimizer,
  type Trainable,
  type TrainingStep,
} from '../../dsl'
import type { LayerReport } from '../../dsl/analyse'
import { stepsOwn } from '../../dsl/plan/words'
import { evaluationOf, formBeside, predictionOf } from '../../dsl/prediction'
import { evaluationGraph, predictionGraph, trainingGraph } from '../../staging/compile'
import type { GraphError } from '../../staging/core/errors'
import { type Graph, valueBytes } from '../../staging/graph/graph'
import { UPDATES, type Updates, updatesOf } from '../../staging/ops/updates'
import { type SpillwayError, usage } from '../errors/errors'
import type { LocalMachine } from '../machine/localmachine'
import { DEFAULT_OPTIMIZER } from './defaults'

/** The options of a model beside its net. */
export interface Own extends Updates {
  /** Loss of a model. Default `mse`. A step has its own losses. @example stage(net, { loss: crossEntropy }) */
  readonly loss?: Loss | undefined
  /**
   * Optimizer of a model. Default: SGD with learning rate 0.001 and momentum 0.9. A step has its own
   * optimizers.
   *
   * @example stage(net, { optimizer: adam({ lr: 1e-3 }) })
   */
  readonly optimizer?: Optimizer | undefined
}
export interface Named extends Own {
  readonly name?: string
  /** The names of the options beside its net, as the caller writes them. */
  readonly beside?: readonly string[]
}

const optionsBeside = (o: Named): readonly string[] =>
  o.beside ?? (['loss', 'optimizer', ...UPDATES.keys] as const).filter((k) => o[k] !== undefined).slice(0, 1)

/** With these, or by default, where it is a model. */
export const stepWith = (model: Trainable, o: Own): Either<SpillwayError, TrainingStep> =>
  model.kind === 'step' ? right(model) : asStep(model, o.loss ?? mse, o.optimizer ?? DEFAULT_OPTIMIZER, updatesOf(o))

/** Options beside a step are refused. */
export const stepOf = (model: Trainable, o: Named): Either<SpillwayError, TrainingStep> => {
  const given = optionsBeside(o)
  return model.kind === 'step' && given.length > 0 ? left(usage(stepsOwn(given.join(', ')))) : stepWith(model, o)
}

/** A limit of all values of a step. Planning walks over their pages: here it takes minutes and 4 GiB of memory, beyond there is no end. */
const MOST_TIB = 16

/** Refuses a step whose values exceed the limit of planning. */
export const ofThisWorld = (graph: Graph): Either<SpillwayError, Graph> => {
  const bytes = graph.values.reduce((n, v) => n + valueBytes(v), 0)
  return bytes <= MOST_TIB * 1024 ** 4
    ? right(graph)
    : left(
        usage(
          `the values of a step need ${(bytes / 1024 ** 4).toFixed(0)} TiB; allowed: at most ${MOST_TIB} TiB: use a smaller batch or smaller images`,
        ),
      )
}

/** With a momentum of 1 or more, the updates grow without end. */
const bounded = ({ objectives }: Elaborated): Either<SpillwayError, void> => {
  const momenta = objectives.flatMap(({ optimizer }) => ('momentum' in optimizer ? [optimizer.momentum] : []))
  const odd = momenta.find((momentum) => momentum >= 1)
  return odd === undefined ? right(undefined) : left(usage(`momentum is ${odd}; allowed: 0 or more and below 1`))
}

export interface Prepared<M extends Trainable = Trainable> {
  readonly model: M
  readonly machine: LocalMachine
  readonly layers: readonly LayerReport[]
  readonly graph: Graph
  /** For each rank, if they have bands of one image's rows; `graph` is the first's. */
  readonly family?: readonly Graph[]
  /** The trained step, if there is one. */
  readonly step?: Elaborated
}

/** The graph that all ranks have; or that of each of their bands. */
const familyOf = (step: Elaborated, machine: LocalMachine): Either<GraphError, readonly Graph[]> => {
  const { bands } = machine
  return bands
    ? pipe(
        Array.from({ length: bands.of }, (_, at) => at),
        E.traverseArray((at) => trainingGraph(step, { ...machine, bands: { ...bands, at } })),
      )
    : E.map((graph: Graph) => [graph])(trainingGraph(step, machine))
}

export const prepare = <M extends Trainable>(
  model: M,
  machine: LocalMachine,
  o: Named = {},
): Either<SpillwayError, Prepared<M>> =>
  pipe(
    stepOf(model, o),
    E.chainW((own) => elaborate(own, o.name ?? model.kind)),
    E.tap(bounded),
    E.chainW((step) =>
      pipe(
        familyOf(step, machine),
        E.chainW(E.traverseArray(ofThisWorld)),
        E.map((graphs) => ({
          model,
          machine,
          step,
          layers: step.layers,
          graph: graphs[0]!,
          ...(graphs.length > 1 ? { family: graphs } : {}),
        })),
      ),
    ),
  )

/** The same step, whose updates ranks share out. */
export const sharedOut = <M extends Trainable>(
  p: Prepared<M>,
  shard: 'optimizer' | 'gradients',
): Either<SpillwayError, Prepared<M>> => {
  const machine: LocalMachine = { ...p.machine, shard }
  return p.step
    ? pipe(
        familyOf(p.step, machine),
        E.mapLeft((e): SpillwayError => e),
        E.map((graphs) => ({ ...p, machine, graph: graphs[0]!, ...(p.family ? { family: graphs } : {}) })),
      )
    : right(p)
}

const GIVE_A_MODEL = 'pass a model of one net, model([B,C,H,W], net)'

/** The options of a staged prediction; a loss or an optimizer has no effect on it. */
export interface Predicting extends Named {
  readonly as?: Form | undefined
}

export const preparePrediction = <M extends Trainable>(
  model: M,
  machine: LocalMachine,
  o: Predicting = {},
): Either<SpillwayError, Prepared<M>> => {
  const given = optionsBeside(o)
  if (given.length > 0)
    return left(usage(`${given.join(', ')} cannot be used with mode 'predict', which has no loss and no training`))
  if (model.kind === 'step') return left(usage(`a step cannot predict: ${GIVE_A_MODEL}`))
  return pipe(
    predictionOf(model, o.as ?? 'values', o.name ?? model.kind),
    E.chainW((forward) => ofThisWorld(predictionGraph(forward, machine))),
    E.map((graph) => ({ model, machine, layers: model.layers, graph })),
  )
}

/** The options of an evaluation. */
export const prepareEvaluation = <M extends Trainable>(
  model: M,
  machine: LocalMachine,
  o: Predicting = {},
): Either<SpillwayError, Prepared<M>> => {
  const loss = o.loss ?? mse
  const trains = (['optimizer', ...UPDATES.keys] as const).find((k) => o[k] !== undefined)
  if (trains !== undefined) return left(usage(`${trains} cannot be used with mode 'evaluate', which does not train`))
  if (model.kind === 'step') return left(usage(`a step cannot be evaluated: ${GIVE_A_MODEL}`))
  if (o.as === 'probabilities') return left(usage("as is 'probabilities'; allowed in an evaluation: values, classes"))
  return pipe(
    evaluationOf(model, loss, o.as ?? formBeside(model, loss), o.name ?? model.kind),
    E.chainW((step) => evaluationGraph(step, machine)),
    E.chainW(ofThisWorld),
    E.map((graph) => ({ model, machine, layers: model.layers, graph })),
  )
}
