// A run over the sets of a parent folder. In: the model and the options of a run. Out: options with the data of `train`, and an evaluation on the
// set for evaluations. Invariant: an evaluation that the user gives stays.
import type { Trainable } from '../../dsl'
import type { Data } from '../data/data'
import { trainingSets } from '../data/sets'
import { startedBy } from '../ranks/engine'
import type { Evaluating } from './measured'
import type { TrainOptions } from './options'

let evaluationOf: ((data: string | Data) => Evaluating) | undefined
/** Registers the function that creates an evaluation with default metrics: `validation`, in a layer above. */
export const evaluateSetsBy = (create: (data: string | Data) => Evaluating): void => {
  evaluationOf = create
}

/** A step has no output to evaluate. */
export const isEvaluable = (model: Trainable | undefined): boolean => model !== undefined && model.kind !== 'step'

/** The options of a run, with the sets of a parent folder as their data. */
export const withSets = (model: Trainable | undefined, o: TrainOptions): TrainOptions => {
  if (o.data === undefined) return o
  const { data, validation, note } = trainingSets(o.data, o.evaluate !== undefined || !isEvaluable(model))
  if (note !== undefined && (startedBy(process.env)?.rank ?? 0) === 0) o.onNote?.(note)
  return { ...o, data, ...(validation === undefined || !evaluationOf ? {} : { evaluate: evaluationOf(validation) }) }
}
