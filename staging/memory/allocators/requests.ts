// A plan as the sequence of allocations that a framework would make. In: a finished plan. Out: events: every value, workspace
// and parameter asks for its bytes when it comes to the device and gives them back when it leaves or dies.
// A value that moves by pages asks for all of its bytes from its first page's arrival to its last page's release: run-time
// allocators know no pages. Invariant: at each point what is given back comes before what is asked for.
// Worked example: x lives over calls 1 to 3, is out during 4 and 5, is read at 6: ask at 1, free at 4, ask at 6, free at 7.
import { opDef } from '../../ops/registry'
import type { Cell, Plan, Point } from '../../plan/plan'

/** What gtbm goes by (paper 4, 3.3.2). */
export type Mobility = 'movable' | 'temporary' | 'reclaimed'

export interface Request {
  readonly id: number
  readonly label: string
  readonly bytes: number
  readonly from: Point
  /** The end of the step for what stays. */
  readonly to: Point
  readonly mobility: Mobility
}

export interface Event {
  readonly at: Point
  readonly ask: boolean
  readonly request: Request
}

/** The next op reads it and no other: it is gone after one step. Else it waits for a join, or serves several. */
const mobilityOf = (plan: Plan, cell: Cell): Mobility => {
  const v = cell.values[0]
  if (cell.scope === 'persistent' || cell.scope === 'fed') return 'reclaimed'
  if (v === undefined) return 'movable'
  const maker = plan.graph.ops.find((o) => o.outs.includes(v))
  if (maker && opDef(maker.kind).reclaimed) return 'reclaimed'
  const readers = plan.graph.ops.filter((o) => o.phase === 'forward' && o.ins.includes(v))
  const next = maker && plan.graph.ops[maker.id + 1]
  return readers.length > 1 || (readers.length === 1 && readers[0] !== next) ? 'temporary' : 'movable'
}

interface Stretch {
  readonly from: Point
  readonly to: Point
}

/** When any of a storage's pages are on the device, from the calls that first and last touch its cell. */
const stretchesOf = (plan: Plan): ReadonlyMap<number, readonly Stretch[]> => {
  const out = new Map<number, Stretch[]>()
  const sorted = [...plan.residencies].sort((a, b) => a.storage - b.storage || a.acquire - b.acquire)
  for (const r of sorted) {
    const list = out.get(r.storage) ?? []
    out.set(r.storage, list)
    const last = list[list.length - 1]
    if (last && r.acquire <= last.to) list[list.length - 1] = { from: last.from, to: Math.max(last.to, r.release) }
    else list.push({ from: r.acquire, to: r.release })
  }
  return out
}

export const requestsOf = (plan: Plan): readonly Request[] => {
  const stretches = stretchesOf(plan)
  const end = plan.calls.length
  const requests: Request[] = []
  for (const c of plan.cells) {
    const storage = plan.storages[plan.places[c.id]!.storage]!
    const alone = storage.cells.length === 1 && c.scope !== 'persistent'
    const lives = alone
      ? stretches.get(storage.id)!
      : [c.scope === 'persistent' ? { from: 0, to: end } : { from: c.first, to: c.last + 1 }]
    const mobility = mobilityOf(plan, c)
    for (const { from, to } of lives) requests.push({ id: requests.length, label: c.label, bytes: c.bytes, from, to, mobility })
  }
  return requests
}

export const eventsOf = (requests: readonly Request[]): readonly Event[] =>
  requests
    .flatMap((request): readonly Event[] => [
      { at: request.from, ask: true, request },
      { at: request.to, ask: false, request },
    ])
    .sort((a, b) => a.at - b.at || Number(a.ask) - Number(b.ask) || a.request.id - b.request.id)
