// The allocations that a framework would make for a plan. In: a finished plan. Out: events. Each value, workspace and parameter is allocated when it
// is loaded or made, and freed when it is swapped out, dropped or dead. A value that moves by pages has all of its bytes from the first page's
// arrival to the last page's release, because run-time allocators know no pages. Invariant: at each point frees precede allocations. Worked example:
// x lives over calls 1 to 3, is swapped out during 4 and 5, is read at 6: allocated at 1, freed at 4, allocated at 6, freed at 7.
import { pagesOf } from '../../core/bytes'
import { opDef } from '../../ops/registry'
import { isForNext } from '../../plan/ahead'
import type { Cell, Plan, Point, Residency } from '../../plan/plan'

/** The classes of gtbm (paper 4, 3.3.2). */
export type Mobility = 'movable' | 'temporary' | 'reclaimed'

export interface Request {
  readonly id: number
  readonly label: string
  readonly bytes: number
  readonly from: Point
  /** The end of the step, for permanent memory. */
  readonly to: Point
  readonly mobility: Mobility
  /** Forward ops that read it. */
  readonly readers: number
}

export interface Event {
  readonly at: Point
  readonly isAllocation: boolean
  readonly request: Request
}

/** Returns the class of a cell. Movable: only the next op reads it. Temporary: it waits for a join, or several forward ops read it. */
const classOf = (plan: Plan, cell: Cell): Pick<Request, 'mobility' | 'readers'> => {
  const v = cell.values[0]
  if (cell.scope === 'persistent' || cell.scope === 'fed') return { mobility: 'reclaimed', readers: 0 }
  if (v === undefined) return { mobility: 'movable', readers: 0 }
  const maker = plan.graph.ops.find((o) => o.outs.includes(v))
  const readers = plan.graph.ops.filter((o) => o.phase === 'forward' && o.ins.includes(v))
  const next = maker && plan.graph.ops[maker.id + 1]
  const waits = readers.length > 1 || (readers.length === 1 && readers[0] !== next)
  const mobility = maker && opDef(maker.kind).reclaimed ? 'reclaimed' : waits ? 'temporary' : 'movable'
  return { mobility, readers: readers.length }
}

interface PointSpan {
  readonly from: Point
  readonly to: Point
}

/** Returns the residencies of each storage, in order of time. */
const residenciesByStorage = (plan: Plan): ReadonlyMap<number, readonly Residency[]> => {
  const out = new Map<number, Residency[]>()
  for (const r of [...plan.residencies].sort((a, b) => a.acquire - b.acquire)) {
    const list = out.get(r.storage)
    if (list) list.push(r)
    else out.set(r.storage, [r])
  }
  return out
}

/**
 * Returns the spans of a life with any page of the cell on the device. Fed data begin with their arrival. Data of the next step have
 * a span of their own.
 */
const spansOf = (plan: Plan, c: Cell, residencies: readonly Residency[]): readonly PointSpan[] => {
  const [first, end] = pagesOf(plan.places[c.id]!.offset, c.bytes)
  const out: PointSpan[] = []
  for (const r of residencies) {
    const from = c.scope === 'fed' ? r.acquire : Math.max(r.acquire, c.first)
    const isNext = isForNext(r, plan.calls.length)
    const to = isNext ? r.release : Math.min(r.release, c.last + 1)
    if (r.to <= first || end <= r.from || to <= from) continue
    const last = out[out.length - 1]
    if (last && from <= last.to && !isNext) out[out.length - 1] = { from: last.from, to: Math.max(last.to, to) }
    else out.push({ from, to })
  }
  return out
}

/** Returns the first call of the backward pass. */
const backwardFrom = (plan: Plan): Point => {
  const at = plan.calls.findIndex((c) => c.op >= 0 && plan.graph.ops[c.op]!.phase === 'backward')
  return at < 0 ? plan.calls.length : at
}

export const requestsOf = (plan: Plan): readonly Request[] => {
  const residencies = residenciesByStorage(plan)
  const end = plan.calls.length
  const livesOf = (c: Cell): readonly PointSpan[] => {
    if (c.scope === 'persistent') return [{ from: 0, to: end }]
    if (c.scope === 'local' || c.scope === 'workspace') return [{ from: c.first, to: c.last + 1 }]
    return spansOf(plan, c, residencies.get(plan.places[c.id]!.storage) ?? [])
  }
  const backward = backwardFrom(plan)
  /** A value that is swapped in for the backward pass no longer waits for a join. */
  const mobilityIn = (m: Mobility, { from }: PointSpan): Mobility => (m === 'temporary' && from >= backward ? 'movable' : m)
  return plan.cells
    .flatMap((c) => {
      const { mobility, readers } = classOf(plan, c)
      return livesOf(c).map((life) => ({
        ...life,
        label: c.label,
        bytes: c.bytes,
        mobility: mobilityIn(mobility, life),
        readers,
      }))
    })
    .map((request, id): Request => ({ id, ...request }))
}

export const eventsOf = (requests: readonly Request[]): readonly Event[] =>
  requests
    .flatMap((request): readonly Event[] => [
      { at: request.from, isAllocation: true, request },
      { at: request.to, isAllocation: false, request },
    ])
    .sort((a, b) => a.at - b.at || Number(a.isAllocation) - Number(b.isAllocation) || a.request.id - b.request.id)
