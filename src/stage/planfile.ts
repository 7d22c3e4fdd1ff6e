// Plan files. In: a path. Out: a verified plan, or the words of its refusal; or the file, written whole. If ranks have bands of rows, the plans of
// all bands follow each other in one file, a line each. Invariant: nothing of a file is believed before the independent verifier has accepted it.
import { type Either, filterOrElseW, flatMap, left, map, right, tap, traverseArray } from 'fp-ts/Either'
import { flow, pipe } from 'fp-ts/function'
import { ROW_EXCHANGES } from '../../staging/graph/bands'
import { COLLECTIVES } from '../../staging/graph/ranks'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { verify } from '../../staging/verify/verify'
import { type SpillwayError, usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { mostCallsRead } from './heap'
import { checkedPlaces, writing } from '../files/places'
import { readText, type Written, writeWholeText } from '../files/whole'

/**
 * Writes a plan to a file, completely or not at all, or returns the error. `savePlan` throws it instead.
 *
 * @param file Name of the file, e.g. 'plan.json'.
 * @param plan The plan.
 * @example
 * const answer = trySavePlan('plan.json', plan.plan)
 * if (answer._tag === 'Right') console.log(answer.right.sha256)
 */
export const trySavePlan = (file: string, plan: Plan): Either<SpillwayError, Written> =>
  pipe(
    checkedPlaces([], writing('savePlan', 'plan', file)),
    flatMap(() => writeWholeText(file, encodePlan(plan))),
  )

/** The text of a plan that nobody vouches for. */
export const untrustedPlan = (text: string): Either<SpillwayError, Plan> => pipe(decodePlan(text, mostCallsRead()), tap(verify))

/** One for all ranks, or one for each of their bands. */
export const plansText = (plans: readonly Plan[]): string => plans.map(encodePlan).join('')

const misfit = (reason: string): SpillwayError => ({
  tag: 'PlanFormat',
  at: 'the plans of bands',
  reason: `${reason}; stage again`,
})

/** The places of its exchanges: all ranks pass the same ones, in one order. */
const meetings = ({ calls }: Plan): string =>
  calls
    .flatMap((c) => (COLLECTIVES.includes(c.kind) || ROW_EXCHANGES.includes(c.kind) ? [`${c.op} ${c.beside ? 1 : 0}`] : []))
    .join()

/** Each is that of its band, and all are of one step. */
const together = (plans: readonly Plan[]): Either<SpillwayError, readonly Plan[]> => {
  const [first] = plans
  const of = first?.graph.bands?.of ?? 1
  if (plans.length !== of) return left(misfit(`there are ${plans.length} plans for ${of} bands`))
  const odd = plans.findIndex(
    (p, at) => at > 0 && (p.graph.bands?.at !== at || p.graph.ranks !== first!.graph.ranks || meetings(p) !== meetings(first!)),
  )
  return odd < 0 && (first!.graph.bands?.at ?? 0) === 0
    ? right(plans)
    : left(misfit(`plan ${Math.max(0, odd)} does not belong to band ${Math.max(0, odd)} of the same step`))
}

/** The texts of plans that stand behind one another. */
const apart = (text: string): readonly string[] => text.split(/(?<=\n)(?=\{)/)
export const untrustedPlans = (text: string): Either<SpillwayError, readonly Plan[]> =>
  pipe(apart(text), traverseArray(untrustedPlan), flatMap(together))
/** The same, of a text that was verified before. */
export const decodedPlans = (text: string): Either<SpillwayError, readonly Plan[]> =>
  pipe(
    apart(text),
    traverseArray((one) => decodePlan(one, mostCallsRead())),
  )

/** The plans of a file: of all bands where ranks have bands of rows, else one. */
export const tryLoadPlans = (file: string): Either<SpillwayError, readonly Plan[]> =>
  pipe(readText('plan', file), flatMap(untrustedPlans))

/**
 * Reads a plan file and verifies it, or returns the error. `loadPlan` throws it instead.
 *
 * @param file Name of the file.
 * @example
 * const answer = tryLoadPlan('plan.json')
 * if (answer._tag === 'Left') console.error(errorText(answer.left))
 */
export const tryLoadPlan = (file: string): Either<SpillwayError, Plan> =>
  pipe(
    tryLoadPlans(file),
    filterOrElseW(
      (plans) => plans.length === 1,
      (plans) => usage(`${file} has the plans of ${plans.length} bands: use it with spillway train --plan`),
    ),
    map((plans) => plans[0]!),
  )

/**
 * Writes a plan to a file, completely or not at all. It throws a `SpillwayException`; `trySavePlan` returns the
 * error.
 *
 * @param file Name of the file, e.g. 'plan.json'.
 * @param plan The plan.
 * @example savePlan('plan.json', plan.plan)
 */
export const savePlan = (file: string, plan: Plan): void => void orThrow(trySavePlan(file, plan))

/**
 * Reads a plan file and verifies it. It throws a `SpillwayException`; `tryLoadPlan` returns the error.
 *
 * @example const { budgetBytes } = loadPlan('plan.json')
 */
export const loadPlan = flow(tryLoadPlan, orThrow)
