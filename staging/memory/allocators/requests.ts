// A plan as the allocations that a framework would make. In: a finished plan. Out: events: every value, workspace and parameter is allocated when it
// comes to the device and freed when it leaves or dies. A value that moves by pages has all of its bytes from its first page's arrival to its last
// page's release: run-time allocators know no pages. Invariant: at each point frees precede allocations. Worked example: x lives over calls 1 to 3,
// is out during 4 and 5, is read at 6: allocated at 1, freed at 4, allocated at 6, freed at 7.
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
  /** The end of the step for permanent memory. */
  readonly to: Point
  readonly mobility: Mobility
  /** Forward ops that read it. */
  readonly readers: number
}

export interface Event {
  readonly at: Point
  readonly ask: boolean
  readonly request: Request
}

/** Movable: the next op reads it, and no other. Temporary: it waits for a join or serves several ops in the forward pass. */
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

/** Residencies of each storage, in order of time. */
const residenciesByStorage = (plan: Plan): ReadonlyMap<number, readonly Residency[]> => {
  const out = new Map<number, Residency[]>()
  for (const r of [...plan.residencies].sort((a, b) => a.acquire - b.acquire)) {
    const list = out.get(r.storage)
    if (list) list.push(r)
    else out.set(r.storage, [r])
  }
  return out
}

/** When any of a cell's pages are on the device while it lives; fed data from when it begins to arrive, those of the next step by themselves. */
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

/** The first call of the backward pass. */
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
  /** A value that comes back for the backward pass no longer waits for a join. */
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
      { at: request.from, ask: true, request },
      { at: request.to, ask: false, request },
    ])
    .sort((a, b) => a.at - b.at || Number(a.ask) - Number(b.ask) || a.request.id - b.request.id)
