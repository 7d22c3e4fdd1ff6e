// The order of a step's instructions: calls, and between them the copies of the residencies. The simulator and the tape share it. In: a plan. Out: a
// flat list. At one point: waits for exchanges during compute, starts of swaps out, waits for swaps out and releases, acquires and starts of swaps
// in, waits for swaps in, the call. The step waits for the next step's data at its end. A link takes swaps in order. Among swaps that start at one
// point, the one that is awaited first starts first.
import { mapped } from '../core/mapped'
import { fromBefore, isForNext } from './ahead'
import type { UnpagedResidency, Plan, Point, UnpagedPlan } from './plan'

export type Instr =
  | { readonly tag: 'mark'; readonly segment: number; readonly tile: number }
  | { readonly tag: 'call'; readonly call: number }
  /** A call that runs beside others. */
  | { readonly tag: 'exchange'; readonly call: number }
  | { readonly tag: 'waitExchange'; readonly call: number }
  | { readonly tag: 'acquire' | 'release'; readonly residency: number }
  | { readonly tag: 'swapOut' | 'swapIn'; readonly residency: number }
  | { readonly tag: 'waitSwapOut' | 'waitSwapIn'; readonly residency: number }

/** Returns the test of residencies that hold their pages when the step begins. */
export const isHeldAtStart = (plan: Pick<Plan, 'storages' | 'cells'>): ((r: UnpagedResidency) => boolean) => {
  const permanent = isPermanent(plan)
  const isFromBefore = fromBefore(plan)
  return (r) => permanent(r) || isFromBefore(r)
}

/** Returns the test of residencies that hold their pages for the whole session. No instruction acquires or releases them. */
export const isPermanent = (plan: Pick<Plan, 'storages' | 'cells'>): ((r: UnpagedResidency) => boolean) => {
  const storages = mapped(
    plan.storages,
    (s) => s.home === undefined && s.cells.some((c) => plan.cells[c]!.scope === 'persistent'),
  )
  return (r) => storages[r.storage]!
}

const NONE: readonly number[] = []

type Timed = Pick<UnpagedPlan, 'storages' | 'cells' | 'calls' | 'residencies'>

/** Visits a call, a residency, or the segment whose tile begins. */
type Visit = (tag: Instr['tag'], of: number, tile: number) => void

/**
 * Visits the instructions of a step in order. It makes no objects: a plan has hundreds of thousands, and a search visits those of hundreds of plans.
 */
export const eachInstruction = (plan: Timed, visit: Visit): void => {
  const end = plan.calls.length
  const permanent = isPermanent(plan)
  /** Returns, by point, the residencies in order. Most points have none. */
  const at = (
    pick: (r: UnpagedResidency) => Point | undefined,
    due?: (r: UnpagedResidency) => Point,
  ): ((p: Point) => readonly number[]) => {
    const lists = new Array<number[] | undefined>(end + 1).fill(undefined)
    plan.residencies.forEach((r, i) => {
      const p = pick(r)
      if (p === undefined) return
      const list = lists[p]
      if (list) list.push(i)
      else lists[p] = [i]
    })
    if (due) for (const l of lists) if (l && l.length > 1) l.sort((a, b) => due(plan.residencies[a]!) - due(plan.residencies[b]!))
    return (p) => lists[p] ?? NONE
  }
  const isFromBefore = fromBefore(plan)
  const releases = at((r) => (permanent(r) || isForNext(r, end) ? undefined : r.release))
  const swapOuts = at(
    (r) => r.swapOut?.start,
    (r) => r.release,
  )
  const acquires = at(
    (r) => (permanent(r) || isFromBefore(r) ? undefined : r.acquire),
    (r) => r.swapIn?.ready ?? r.acquire,
  )
  const readies = at((r) => r.swapIn?.ready)
  const due = new Map<Point, readonly number[]>()
  plan.calls.forEach(({ beside }, i) => {
    if (beside) due.set(beside.until, [...(due.get(beside.until) ?? []), i])
  })
  let segment = -1
  let tile = -1
  for (let p = 0; p <= end; p++) {
    for (const call of due.get(p) ?? []) visit('waitExchange', call, 0)
    for (const i of swapOuts(p)) visit('swapOut', i, 0)
    for (const i of releases(p)) if (plan.residencies[i]!.swapOut) visit('waitSwapOut', i, 0)
    for (const i of releases(p)) visit('release', i, 0)
    for (const i of acquires(p)) {
      visit('acquire', i, 0)
      if (plan.residencies[i]!.swapIn) visit('swapIn', i, 0)
    }
    for (const i of readies(p)) visit('waitSwapIn', i, 0)
    const call = plan.calls[p]
    if (!call) break
    if (call.segment !== segment || call.tile !== tile) {
      segment = call.segment
      tile = call.tile
      visit('mark', segment, tile)
    }
    visit(call.beside ? 'exchange' : 'call', p, 0)
  }
}

export const instructions = (plan: Timed): readonly Instr[] => {
  const out: Instr[] = []
  eachInstruction(plan, (tag, of, tile) => {
    if (tag === 'mark') out.push({ tag, segment: of, tile })
    else if (tag === 'call' || tag === 'exchange' || tag === 'waitExchange') out.push({ tag, call: of })
    else out.push({ tag, residency: of })
  })
  return out
}
