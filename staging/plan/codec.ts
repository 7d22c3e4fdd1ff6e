// Plan files: JSON with the graph, the segments and where every page is when. Cells and calls are not in the file: the
// segments unroll into them again, at the costs that the planner had, which the file records.
// In: a plan, or untrusted text. Out: canonical text under a checksum, or a Plan whose every number is in range (whether
// the plan is right is verify's to say), or PlanFormat with the place and the reason.
import { bind, bindTo, chain, type Either, left, mapLeft, right, toError, tryCatch } from 'fp-ts/Either'
import { flow, pipe } from 'fp-ts/function'
import type * as t from 'io-ts'
import { faultOf, parsedJson } from '../core/codecs'
import type { PlanError } from '../core/errors'
import { hashText } from '../core/fnv'
import { costsOf, replayed } from './costs'
import { expand } from './expand'
import { fieldsOf, fileCodec, type Plan, type Unrolled } from './plan'
import { checkedSegments } from './checksegments'

export type PlanFormat = Extract<PlanError, { readonly tag: 'PlanFormat' }>
const fault =
  (at: string) =>
  (reason: string): PlanFormat => ({ tag: 'PlanFormat', at, reason })
const refused = (at: string, reason: string): Either<PlanFormat, never> => left(fault(at)(reason))

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
const opened = (text: string): Either<PlanFormat, unknown> =>
  pipe(
    parsedJson(text),
    mapLeft(fault('file')),
    chain((file) => {
      const [format, version, plan] = ['format', 'version', 'plan'].map((name) => fieldOf(file, name))
      if (format !== PLAN_FORMAT) return refused('format', `it is ${JSON.stringify(format)}; legal is "${PLAN_FORMAT}"`)
      if (version !== PLAN_VERSION)
        return refused('version', `it is ${JSON.stringify(version)}; this program reads ${PLAN_VERSION}: stage the model again`)
      return fileText(plan) === text
        ? right(plan)
        : refused('checksum', 'the file is not what was written: stage the model again')
    }),
  )

/** Cells and calls. A file may name segments that cannot be unrolled; whatever that trips over is the file's fault. */
const unrolled = ({ graph, segments, costs }: t.TypeOf<typeof fileCodec>): Either<PlanFormat, Unrolled> =>
  pipe(
    checkedSegments(graph, segments),
    chain(() =>
      tryCatch(
        () => expand(graph, segments, replayed(costs)),
        (e) => `they cannot be unrolled: ${toError(e).message}`,
      ),
    ),
    mapLeft(fault('segments')),
  )

export const decodePlan = (text: string): Either<PlanFormat, Plan> =>
  pipe(
    opened(text),
    chain(decoded),
    bindTo('file'),
    bind('calls', ({ file }) => unrolled(file)),
    chain(({ file: { costs: _, ...fields }, calls }) =>
      calls.cells.length === fields.places.length
        ? right({ ...fields, ...calls })
        : refused('places', `there are ${fields.places.length} for ${calls.cells.length} cells`),
    ),
  )

const decoded = flow(
  fileCodec.decode,
  mapLeft((errors): PlanFormat => ({ tag: 'PlanFormat', ...faultOf('plan', errors) })),
)
