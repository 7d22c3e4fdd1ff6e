// The first plan of a run, beside its checkpoints. In: a checkpoint folder, the options of staging. Out: the plan, if it fits the options; or true if
// a run continues with another. Invariant: with fixed algorithms there is none: the same is planned again.
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { filter, fromEither, none, type Option } from 'fp-ts/Option'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fingerprint } from '../../staging/graph/fingerprint'
import { type Algorithms, type Plan, precisionOf } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import type { SpillwayError } from '../errors/errors'
import { readText, writeWholeText } from '../files/whole'
import { decodedPlans, plansText, tryLoadPlans } from './planfile'
import type { Prepared } from './prepare'

const every =
  (is: (plan: Plan, at: number) => boolean) =>
  (plans: readonly Plan[]): boolean =>
    plans.every(is)

/** In a checkpoint folder. */
const PLAN_FILE = 'plan.json'

interface Asked {
  readonly resumes?: string | undefined
  readonly strategy?: string | undefined
  readonly budget?: number | undefined
  readonly algorithms?: Algorithms | undefined
}

/** Independent of new measurements: one for all ranks, or that of each band. Another budget, or another strategy, is another plan. */
export const recordedFor = ({ machine, graph, family = [graph] }: Prepared, o: Asked): Option<readonly Plan[]> => {
  const file = o.resumes === undefined ? undefined : join(o.resumes, PLAN_FILE)
  return pipe(
    file !== undefined && existsSync(file) ? fromEither(tryLoadPlans(file)) : none,
    filter((plans) => plans.length === family.length),
    filter(
      every(
        (plan, at) =>
          fingerprint(plan.graph) === fingerprint(family[at]!) &&
          plan.machine === machine.name &&
          ['auto', plan.strategy].includes(o.strategy ?? 'auto') &&
          plan.algorithms === (o.algorithms ?? 'measured') &&
          precisionOf(plan) === machine.precision &&
          plan.budgetBytes === (o.budget ?? plan.budgetBytes) &&
          (machine.tier.kind === 'disk' || plan.tierBytes <= (plan.hostBytes ?? Infinity)),
      ),
    ),
  )
}

/** Another plan may be found when more is measured. */
export const recordPlan = (folder: string, plans: readonly Plan[]): Either<SpillwayError, unknown> =>
  plans[0]!.algorithms === 'fixed' ? E.right(undefined) : writeWholeText(join(folder, PLAN_FILE), plansText(plans), 'replace')

/** The executed part, without times. */
const executed = (plans: readonly Plan[]): Buffer =>
  Buffer.concat(plans.map((plan) => toTape({ ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: 0 })) })))

/** The difference of a run's plan from its first one, if they are not the same instructions. */
export const otherThanRecorded = (folder: string, plans: readonly Plan[]): string | undefined => {
  const file = join(folder, PLAN_FILE)
  if (plans[0]!.algorithms === 'fixed' || !existsSync(file)) return undefined
  return pipe(
    readText('plan', file),
    E.flatMap(decodedPlans),
    E.match(
      () => `the first plan of the run, ${file}, cannot be read`,
      (began) =>
        executed(began).equals(executed(plans)) ? undefined : `the plan differs from the first plan of the run, ${file}`,
    ),
  )
}
