// The plan of a model for images of another shape. In: the model, its plan, the shape. Out: a plan by the same strategy, in the same budget.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type Model, modelAt, type Shape } from '../../dsl'
import type { SpillwayError } from '../errors/errors'
import type { Prepared } from '../stage/prepare'
import { swappingLike } from '../stage/process'
import type { Staged } from '../stage/staged'
import { stagePrepared } from '../stage/stage'

export const resized = (
  model: Model,
  { plan }: Staged,
  shape: Shape,
  prepare: (m: Model) => Either<SpillwayError, Prepared>,
): Either<SpillwayError, Staged> => {
  const { strategy, budgetBytes: budget, algorithms } = plan
  return pipe(
    modelAt(shape, model.net, 'predict'),
    E.chainW(prepare),
    // Tiles by hand are for one shape; a larger image may not fit in-core.
    E.flatMap((p) =>
      stagePrepared(
        { ...p, machine: swappingLike(plan, p.machine) },
        { budget, algorithms, strategy: strategy === 'by-hand' || strategy === 'in-core' ? 'auto' : strategy },
      ),
    ),
  )
}
