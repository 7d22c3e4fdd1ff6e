// Plan files. In: a path. Out: a plan that was read and verified, or the words why it is refused; or the file, written whole.
// Invariant: nothing of a file is believed before the independent verifier has accepted it.
import { readFileSync } from 'node:fs'
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import type { Plan } from '../../staging/plan/plan'
import { verify } from '../../staging/verify/verify'
import type { SpillwayError } from '../errors/errors'
import { writeWholeText } from '../files/whole'

export const savePlan = (file: string, plan: Plan): void => void writeWholeText(file, encodePlan(plan))

const textOf = (file: string): Either<SpillwayError, string> => {
  try {
    return right(readFileSync(file, 'utf8'))
  } catch (e) {
    const { code, message } = e as NodeJS.ErrnoException
    return left(
      code === 'ENOENT'
        ? { tag: 'FileMissing', kind: 'plan', file }
        : { tag: 'FileRefused', kind: 'plan', file, reason: message },
    )
  }
}

export const tryLoadPlan = (file: string): Either<SpillwayError, Plan> => {
  const text = textOf(file)
  if (isLeft(text)) return text
  const plan = decodePlan(text.right)
  if (isLeft(plan)) return plan
  const verified = verify(plan.right)
  return isLeft(verified) ? verified : plan
}
