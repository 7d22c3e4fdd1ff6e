// The plan that a run began with, which stands beside its checkpoints. In: a checkpoint folder, what is asked of staging. Out: the plan, where
// it is one for what is asked; or whether a run goes on with another. Invariant: with fixed algorithms there is none: the same is planned again.
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { filter, fromEither, none, type Option } from 'fp-ts/Option'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint } from '../../staging/graph/fingerprint'
import { decodePlan } from '../../staging/plan/codec'
import { type Algorithms, type Plan, precisionOf } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import type { SpillwayError } from '../errors/errors'
import { readText } from '../files/whole'
import { tryLoadPlan, trySavePlan } from './planfile'
import type { Prepared } from './prepare'

/** In a checkpoint folder. */
const PLAN_FILE = 'plan.json'

interface Asked {
  readonly resumes?: string | undefined
  readonly strategy?: string | undefined
  readonly budget?: number | undefined
  readonly algorithms?: Algorithms | undefined
}

/** Whatever was measured since. Another budget, or another strategy, is another plan. */
export const recordedFor = ({ machine, graph }: Prepared, o: Asked): Option<Plan> => {
  const file = o.resumes === undefined ? undefined : join(o.resumes, PLAN_FILE)
  return pipe(
    file !== undefined && existsSync(file) ? fromEither(tryLoadPlan(file)) : none,
    filter(
      (plan) =>
        fingerprint(plan.graph) === fingerprint(graph) &&
        plan.machine === machine.name &&
        ['auto', plan.strategy].includes(o.strategy ?? 'auto') &&
        plan.algorithms === (o.algorithms ?? 'measured') &&
        precisionOf(plan) === machine.precision &&
        plan.budgetBytes === (o.budget ?? plan.budgetBytes) &&
        (machine.tier.kind === 'disk' || plan.tierBytes <= (plan.hostBytes ?? Infinity)),
    ),
  )
}

/** Another plan may be found when more is measured. */
export const recordPlan = (folder: string, plan: Plan): Either<SpillwayError, unknown> =>
  plan.algorithms === 'fixed' ? E.right(undefined) : trySavePlan(join(folder, PLAN_FILE), plan)

/** What is executed, whatever it is said to take. */
const executed = (plan: Plan): Buffer => Buffer.from(toTape({ ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: 0 })) }))

/** What a run's plan is beside the one that it began with, where they are not the same instructions. */
export const otherThanRecorded = (folder: string, plan: Plan): string | undefined => {
  const file = join(folder, PLAN_FILE)
  if (plan.algorithms === 'fixed' || !existsSync(file)) return undefined
  return pipe(
    readText('plan', file),
    E.flatMap(decodePlan),
    E.match(
      () => `the plan that the run began with, ${file}, cannot be read`,
      (began) =>
        executed(began).equals(executed(plan)) ? undefined : `the plan is another than the one that it began with, ${file}`,
    ),
  )
}
