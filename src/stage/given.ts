// Arguments of callers without types. In: a model and a plan, of any type. Out: nothing, or an error that names the argument.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { show } from '../../dsl/decode'
import { isTrainable } from '../../dsl/load'
import { type SpillwayError, usage } from '../errors/errors'

const isPlan = (u: unknown): boolean => typeof u === 'object' && u !== null && 'plan' in u && 'machine' in u

/** Returns an error unless these are a model and a plan of `stage`. A command gives no model: it trusts its plan. */
export const givenBoth = (model: unknown, staged: unknown): Either<SpillwayError, void> =>
  pipe(
    model === undefined ? E.right(undefined) : isTrainable(model),
    E.flatMap(() =>
      isPlan(staged)
        ? E.right(undefined)
        : E.left(usage(`the plan is ${show(staged)}; allowed: the result of stage, stageAsync or loadPlan`)),
    ),
  )
