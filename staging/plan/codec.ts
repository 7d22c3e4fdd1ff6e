// Plan files: JSON with the graph, the segments and where every page is when. Cells and calls are not in the file: the
// segments unroll into them again, at the costs that the planner had, which the file records.
// In: a plan, or untrusted text. Out: canonical text under a checksum, or a Plan whose every number is in range (whether
// the plan is right is verify's to say), or PlanFormat with the place and the reason.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type * as t from 'io-ts'
import { faultOf, textFault } from '../core/codecs'
import type { PlanError } from '../core/errors'
import { hashText } from '../core/fnv'
import { costsOf, replayed } from './costs'
import { expand } from './expand'
import { fieldsOf, fileCodec, type Plan, type Unrolled } from './plan'
import { segmentFault } from './segmentfault'

export type PlanFormat = Extract<PlanError, { readonly tag: 'PlanFormat' }>
const refused = (at: string, reason: string): Either<PlanFormat, never> => left({ tag: 'PlanFormat', at, reason })

export const PLAN_FORMAT = 'spillway-plan'
/** Of the file and of how segments unroll (expand.ts): pages are held from one call to another, and calls are counted. */
export const PLAN_VERSION = 5

// ---------------------------------------------------------------- writing

const fileText = (plan: unknown): string => {
  const text = JSON.stringify(plan)
  return `{"format":"${PLAN_FORMAT}","version":${PLAN_VERSION},"checksum":"${hashText(text)}","plan":${text}}\n`
}

export const encodePlan = (p: Plan): string => fileText({ ...fieldsOf(p), costs: costsOf(p) })

// ---------------------------------------------------------------- reading

const fieldOf = (u: unknown, name: string): unknown =>
  typeof u === 'object' && u !== null && Object.hasOwn(u, name) ? (u as Record<string, unknown>)[name] : undefined

/** The plan inside the text, untouched: any other text than what was written is refused, down to a space. */
const opened = (text: string): Either<PlanFormat, unknown> => {
  const fault = textFault(text)
  if (fault !== undefined) return refused('file', fault)
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (e) {
    return refused('file', `it is not JSON: ${(e as Error).message}`)
  }
  if (fieldOf(file, 'format') !== PLAN_FORMAT)
    return refused('format', `it is ${JSON.stringify(fieldOf(file, 'format'))}; legal is "${PLAN_FORMAT}"`)
  if (fieldOf(file, 'version') !== PLAN_VERSION)
    return refused(
      'version',
      `it is ${JSON.stringify(fieldOf(file, 'version'))}; this program reads ${PLAN_VERSION}: stage the model again`,
    )
  const plan = fieldOf(file, 'plan')
  return fileText(plan) === text ? right(plan) : refused('checksum', 'the file is not what was written: stage the model again')
}

/** Cells and calls. A file may name segments that cannot be unrolled; whatever that trips over is the file's fault. */
const unrolled = ({ graph, segments, costs }: t.TypeOf<typeof fileCodec>): Either<PlanFormat, Unrolled> => {
  const fault = segmentFault(graph, segments)
  if (fault !== undefined) return refused('segments', fault)
  try {
    return right(expand(graph, segments, replayed(costs)))
  } catch (e) {
    return refused('segments', `they cannot be unrolled: ${(e as Error).message}`)
  }
}

export const decodePlan = (text: string): Either<PlanFormat, Plan> => {
  const plan = opened(text)
  if (isLeft(plan)) return plan
  const file = fileCodec.decode(plan.right)
  if (isLeft(file)) {
    const { at, reason } = faultOf(file.left)
    return refused(at === '' ? 'plan' : at, reason)
  }
  const calls = unrolled(file.right)
  if (isLeft(calls)) return calls
  const { costs: _, ...fields } = file.right
  return calls.right.cells.length === fields.places.length
    ? right({ ...fields, ...calls.right })
    : refused('places', `there are ${fields.places.length} for ${calls.right.cells.length} cells`)
}
