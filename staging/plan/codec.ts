// Plan files: JSON with the graph, the segments and where every page is when. Cells and calls are not in the file: the
// segments unroll into them again, at the costs that the planner had, which the file records.
// In: a plan, or untrusted text. Out: canonical text under a checksum, or a Plan whose every number is in range (whether
// the plan is right is verify's to say), or PlanFormat with the place and the reason.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import * as t from 'io-ts'
import { type PlanError, renderError } from '../core/errors'
import { hashText } from '../core/fnv'
import { decodeGraph } from '../graph/codec'
import type { Graph } from '../graph/graph'
import { type Costs, costsOf, type RecordedCosts, replayed } from './costs'
import { expand } from './expand'
import type { Algorithms, Keep, Plan, Residency, Segment, SegmentPhase } from './plan'
import { segmentFault } from './segmentfault'

export type PlanFormat = Extract<PlanError, { readonly tag: 'PlanFormat' }>
const refused = (at: string, reason: string): Either<PlanFormat, never> => left({ tag: 'PlanFormat', at, reason })

export const PLAN_FORMAT = 'spillway-plan'
/** Of the file and of how segments unroll (expand.ts): pages are held from one call to another, and calls are counted. */
export const PLAN_VERSION = 4

// ---------------------------------------------------------------- structure

/** Byte counts, pages and points stay far below 2^53, so that sums of them are exact. */
const LARGEST = 2 ** 50
const whole = (lo: number, hi = LARGEST): t.Type<number, number, unknown> => {
  const is = (u: unknown): u is number => Number.isSafeInteger(u) && (u as number) >= lo && (u as number) <= hi
  return new t.Type(`a whole number from ${lo} to ${hi}`, is, (u, c) => (is(u) ? t.success(u) : t.failure(u, c)), t.identity)
}
const count = whole(0)
const seconds = new t.Type<number, number, unknown>(
  'a time of 0 seconds or more',
  (u): u is number => Number.isFinite(u) && (u as number) >= 0,
  (u, c) => (Number.isFinite(u) && (u as number) >= 0 ? t.success(u as number) : t.failure(u, c)),
  t.identity,
)
const names = <K extends string>(keys: readonly K[]) => t.keyof(Object.fromEntries(keys.map((k) => [k, null])) as Record<K, null>)

const range = t.tuple([count, count])
const slices = t.strict({ B: t.array(range), H: t.array(range), W: t.array(range) })
const optionalSlices = t.union([slices, t.null])
const step = t.exact(t.intersection([t.type({ op: count }), t.partial({ slices: t.array(optionalSlices), inPlace: count })]))
const keep = t.strict({ value: count, mode: names<Keep['mode']>(['write', 'add', 'moments']), slices: optionalSlices })
const grid = t.strict({ B: whole(1), H: whole(1), W: whole(1) })
const segment = t.strict({
  name: t.string,
  phase: names<SegmentPhase>(['forward', 'recompute', 'backward', 'update', 'step']),
  grid,
  body: t.array(step),
  keeps: t.array(keep),
})
const residency = t.exact(
  t.intersection([
    t.type({
      storage: count,
      from: count,
      to: count,
      acquire: count,
      release: count,
      runs: t.array(t.strict({ page: count, count: whole(1) })),
    }),
    t.partial({
      load: t.strict({ ready: count, from: names<'tier' | 'source'>(['tier', 'source']) }),
      save: t.strict({ start: count }),
      tierOffset: count,
    }),
  ]),
)
const recorded = t.record(t.string, t.tuple([seconds, count, count]))
const fields = t.type({
  graph: t.unknown,
  strategy: t.string,
  machine: t.string,
  algorithms: names<Algorithms>(['fixed', 'measured', 'fastest']),
  budgetBytes: count,
  peakPages: count,
  tierBytes: count,
  segments: t.array(segment),
  costs: recorded,
  storages: t.array(t.strict({ id: count, label: t.string, bytes: count, cells: t.array(count) })),
  places: t.array(t.strict({ storage: count, offset: count })),
  residencies: t.array(residency),
})
const body = t.exact(t.intersection([fields, t.partial({ products: t.literal('tf32') })]))
type Body = t.TypeOf<typeof body>

// ---------------------------------------------------------------- writing

const fileText = (plan: unknown): string => {
  const text = JSON.stringify(plan)
  return `{"format":"${PLAN_FORMAT}","version":${PLAN_VERSION},"checksum":"${hashText(text)}","plan":${text}}\n`
}

export const encodePlan = (p: Plan): string => {
  const costs: RecordedCosts = costsOf(p)
  const {
    graph,
    strategy,
    machine,
    algorithms,
    products,
    budgetBytes,
    peakPages,
    tierBytes,
    segments,
    storages,
    places,
    residencies,
  } = p
  return fileText({
    graph,
    strategy,
    machine,
    algorithms,
    products,
    budgetBytes,
    peakPages,
    tierBytes,
    segments,
    costs,
    storages,
    places,
    residencies,
  })
}

// ---------------------------------------------------------------- reading

const fieldOf = (u: unknown, name: string): unknown =>
  typeof u === 'object' && u !== null && Object.hasOwn(u, name) ? (u as Record<string, unknown>)[name] : undefined

/** The plan inside the text, untouched: any other text than what was written is refused, down to a space. */
const opened = (text: string): Either<PlanFormat, unknown> => {
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

const messageOf = (errors: t.Errors): Either<PlanFormat, never> => {
  const e = errors[0]!
  const at = e.context
    .map((c) => c.key)
    .filter((k) => k !== '')
    .join('.')
  return refused(
    at === '' ? 'plan' : at,
    `${JSON.stringify(e.value)?.slice(0, 80) ?? 'nothing'} is not ${e.context.at(-1)!.type.name}`,
  )
}

/** Cells and calls. A file may name segments that cannot be unrolled; whatever that trips over is the file's fault. */
const unrolled = (
  graph: Graph,
  segments: readonly Segment[],
  costs: Costs,
): Either<PlanFormat, Pick<Plan, 'cells' | 'calls'>> => {
  try {
    return right(expand(graph, segments, costs))
  } catch (e) {
    return refused('segments', `they cannot be unrolled: ${(e as Error).message}`)
  }
}

const assembled = (b: Body): Either<PlanFormat, Plan> => {
  const graph = decodeGraph(b.graph)
  if (isLeft(graph)) return refused('graph', renderError(graph.left))
  const segments: readonly Segment[] = b.segments
  const fault = segmentFault(graph.right, segments)
  if (fault !== undefined) return refused('segments', fault)
  const calls = unrolled(graph.right, segments, replayed(b.costs))
  if (isLeft(calls)) return calls
  if (calls.right.cells.length !== b.places.length)
    return refused('places', `there are ${b.places.length} for ${calls.right.cells.length} cells`)
  const { strategy, machine, algorithms, products, budgetBytes, peakPages, tierBytes, storages, places } = b
  const residencies: readonly Residency[] = b.residencies
  return right({
    graph: graph.right,
    strategy,
    machine,
    algorithms,
    ...(products === undefined ? {} : { products }),
    budgetBytes,
    segments,
    ...calls.right,
    storages,
    places,
    residencies,
    peakPages,
    tierBytes,
  })
}

export const decodePlan = (text: string): Either<PlanFormat, Plan> => {
  const plan = opened(text)
  if (isLeft(plan)) return plan
  const b = body.decode(plan.right)
  return isLeft(b) ? messageOf(b.left) : assembled(b.right)
}
