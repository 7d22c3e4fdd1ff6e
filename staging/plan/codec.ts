// Plan files: JSON with the graph, the segments and the residencies of all pages. Cells and calls are not in the file: they follow from the segments
// and from the planner's costs, which the file records. In: a plan, or untrusted text. Out: canonical text with a checksum; or a Plan with each
// number in range; or PlanFormat with the place and the reason. The reader does not verify the plan: verify/ does.
import { bind, bindTo, chain, type Either, left, mapLeft, right, toError, tryCatch } from 'fp-ts/Either'
import { flow, pipe } from 'fp-ts/function'
import type * as t from 'io-ts'
import { faultOf, parsedJson } from '../core/codecs'
import type { PlanError } from '../core/errors'
import { hashText } from '../core/fnv'
import { callsReadIn } from '../core/planningmemory'
import { filedGraph } from '../graph/codec'
import { costsOf, replayed } from './costs'
import { expand } from './expand'
import { foldedOf, unfolded } from './folded'
import { fieldsOf, fileCodec, type Plan, type Residency, type Segment, type Slices, type Unrolled } from './plan'
import { foldedRanges } from './ranges'
import { checkedSegments } from './checksegments'

export type PlanFormat = Extract<PlanError, { readonly tag: 'PlanFormat' }>
const fault =
  (at: string) =>
  (reason: string): PlanFormat => ({ tag: 'PlanFormat', at, reason })
const refused = (at: string, reason: string): Either<PlanFormat, never> => left(fault(at)(reason))

export const PLAN_FORMAT = 'spillway-plan'
/** The version of the file and of the unrolling of segments (expand.ts). Both matter: residencies name calls by number. */
export const PLAN_VERSION = 7

// ---------------------------------------------------------------- writing

const fileText = (plan: unknown): string => {
  const text = JSON.stringify(plan)
  return `{"format":"${PLAN_FORMAT}","version":${PLAN_VERSION},"checksum":"${hashText(text)}","plan":${text}}\n`
}

/** Writes the slices of many tiles as differences (ranges.ts). */
const foldedSegment = (s: Segment): unknown => {
  const slices = (of: Slices | null): unknown => of && { B: foldedRanges(of.B), H: foldedRanges(of.H), W: foldedRanges(of.W) }
  return {
    ...s,
    body: s.body.map((step) => (step.slices ? { ...step, slices: step.slices.map(slices) } : step)),
    keeps: s.keeps.map((k) => ({ ...k, slices: slices(k.slices) })),
  }
}

export const encodePlan = (p: Plan): string => {
  const folded = foldedOf(p.residencies, p.calls.length)
  return fileText({
    ...fieldsOf(p),
    graph: filedGraph(p.graph),
    segments: p.segments.map(foldedSegment),
    ...(folded ? { residencies: [], folded } : {}),
    costs: costsOf(p),
  })
}

// ---------------------------------------------------------------- reading

/** Matches the text before the plan. */
const HEAD = /^\{"format":"([^"]*)","version":(\d+),"checksum":"([0-9a-f]+)","plan":/
const HEAD_CHARACTERS = 200
const TAIL = '}\n'

/** Returns the plan inside the text. Any other text than the written one is refused, even for one added space, and mostly before it is parsed. */
const opened = (text: string): Either<PlanFormat, unknown> => {
  const head = HEAD.exec(text.slice(0, HEAD_CHARACTERS))
  if (!head) return refused('file', `it does not begin like a plan file: {"format":"${PLAN_FORMAT}","version":${PLAN_VERSION}`)
  const [before, format, version, checksum] = head
  if (format !== PLAN_FORMAT) return refused('format', `it is "${format}"; allowed: "${PLAN_FORMAT}"`)
  if (version !== `${PLAN_VERSION}`)
    return refused('version', `it is ${version}, but this version of spillway reads ${PLAN_VERSION}: stage the model again`)
  const written = text.slice(before.length, -TAIL.length)
  const other = refused('checksum', 'the file was changed after it was written: stage the model again')
  if (!text.endsWith(TAIL) || hashText(written) !== checksum) return other
  return pipe(
    parsedJson(written),
    mapLeft(fault('plan')),
    chain((plan) => (JSON.stringify(plan) === written ? right(plan) : other)),
  )
}

/** Returns the cells and calls. A file may name segments that cannot be unrolled, so any exception is a fault of the file. */
const unrolled = ({ graph, segments, costs }: t.TypeOf<typeof fileCodec>, mostCalls: number): Either<PlanFormat, Unrolled> =>
  pipe(
    checkedSegments(graph, segments, mostCalls),
    chain(() =>
      tryCatch(
        () => expand(graph, segments, replayed(costs)),
        (e) => `they cannot be unrolled: ${toError(e).message}`,
      ),
    ),
    mapLeft(fault('segments')),
  )

const residenciesIn = (
  { residencies, folded }: t.TypeOf<typeof fileCodec>,
  { calls }: Unrolled,
): Either<PlanFormat, readonly Residency[]> =>
  !folded
    ? right(residencies)
    : residencies.length > 0
      ? refused('folded', 'there are residencies too; only one of both is allowed')
      : mapLeft(fault('folded'))(unfolded(folded, calls.length))

/** Returns the plan of a file. A plan with more than `mostCalls` calls is refused. */
export const decodePlan = (text: string, mostCalls = callsReadIn()): Either<PlanFormat, Plan> =>
  pipe(
    opened(text),
    chain(decoded),
    bindTo('file'),
    bind('calls', ({ file }) => unrolled(file, mostCalls)),
    bind('residencies', ({ file, calls }) => residenciesIn(file, calls)),
    chain(({ file: { costs: _, folded: __, ...fields }, calls, residencies }) =>
      calls.cells.length === fields.places.length
        ? right({ ...fields, residencies, ...calls })
        : refused('places', `there are ${fields.places.length} for ${calls.cells.length} cells`),
    ),
  )

const decoded = flow(
  fileCodec.decode,
  mapLeft((errors): PlanFormat => ({ tag: 'PlanFormat', ...faultOf('plan', errors) })),
)
