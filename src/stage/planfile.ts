// Plan files. In: a path. Out: a plan that was read and verified, or the words why it is refused; or the file, written whole.
// Invariant: nothing of a file is believed before the independent verifier has accepted it.
import { type Either, flatMap, tap } from 'fp-ts/Either'
import { flow, pipe } from 'fp-ts/function'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { verify } from '../../staging/verify/verify'
import type { SpillwayError } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { readText, type Written, writeWholeText } from '../files/whole'

/** Writes a plan file, whole or not at all; or says why not. @example trySavePlan('plan.json', plan.plan) */
export const trySavePlan = (file: string, plan: Plan): Either<SpillwayError, Written> => writeWholeText(file, encodePlan(plan))

/** The text of a plan that nobody vouches for. */
export const untrustedPlan = (text: string): Either<SpillwayError, Plan> => pipe(decodePlan(text), tap(verify))

/** The plan of a file, read as untrusted and verified; or why it is refused. @example tryLoadPlan('plan.json') */
export const tryLoadPlan = (file: string): Either<SpillwayError, Plan> => pipe(readText('plan', file), flatMap(untrustedPlan))

/** Writes a plan file, whole or not at all. @example savePlan('plan.json', plan.plan) */
export const savePlan = (file: string, plan: Plan): void => void orThrow(trySavePlan(file, plan))

/** A plan from a file, read as untrusted and verified; throws what is wrong with it. @example const plan = loadPlan('plan.json') */
export const loadPlan = flow(tryLoadPlan, orThrow)
