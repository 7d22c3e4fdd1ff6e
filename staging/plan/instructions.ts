// The order in which a step's instructions run: calls, and between them what the residencies demand. Simulator and tape
// share it. In: a plan. Out: a flat list. At one point: waits for exchanges beside computing, starts of swaps out, waits for
// swaps out and releases, acquires and starts of swaps in, waits for swaps in, the call. A link takes swaps in order, so of
// those that start at one point the one that is waited for first starts first.
import type { UnpagedResidency, Plan, Point, UnpagedPlan } from './plan'

export type Instr =
  | { readonly tag: 'mark'; readonly segment: number; readonly tile: number }
  | { readonly tag: 'call'; readonly call: number }
  /** A call that goes on beside others. */
  | { readonly tag: 'exchange'; readonly call: number }
  | { readonly tag: 'waitExchange'; readonly call: number }
  | { readonly tag: 'acquire' | 'release'; readonly residency: number }
  | { readonly tag: 'swapOut' | 'swapIn'; readonly residency: number }
  | { readonly tag: 'waitSwapOut' | 'waitSwapIn'; readonly residency: number }

/** Held from the start of the session to its end: never acquired or released by an instruction. */
export const isForEver = (plan: Pick<Plan, 'storages' | 'cells'>): ((r: UnpagedResidency) => boolean) => {
  const storages = plan.storages.map((s) => s.home === undefined && s.cells.some((c) => plan.cells[c]!.scope === 'persistent'))
  return (r) => storages[r.storage]!
}

type Timed = Pick<UnpagedPlan, 'storages' | 'cells' | 'calls' | 'residencies'>

export const instructions = (plan: Timed): readonly Instr[] => {
  const end = plan.calls.length
  const forEver = isForEver(plan)
  const at = (
    pick: (r: UnpagedResidency) => Point | undefined,
    due: (r: UnpagedResidency) => Point = () => 0,
  ): readonly number[][] => {
    const lists: number[][] = Array.from({ length: end + 1 }, () => [])
    plan.residencies.forEach((r, i) => {
      const p = pick(r)
      if (p !== undefined) lists[p]!.push(i)
    })
    for (const l of lists) if (l.length > 1) l.sort((a, b) => due(plan.residencies[a]!) - due(plan.residencies[b]!))
    return lists
  }
  const comesAndGoes = (r: UnpagedResidency, p: Point): Point | undefined => (forEver(r) ? undefined : p)
  const releases = at((r) => comesAndGoes(r, r.release))
  const swapOuts = at(
    (r) => r.swapOut?.start,
    (r) => r.release,
  )
  const acquires = at(
    (r) => comesAndGoes(r, r.acquire),
    (r) => r.swapIn?.ready ?? r.acquire,
  )
  const readies = at((r) => r.swapIn?.ready)
  const due = new Map<Point, readonly number[]>()
  plan.calls.forEach(({ beside }, i) => {
    if (beside) due.set(beside.until, [...(due.get(beside.until) ?? []), i])
  })
  const out: Instr[] = []
  let segment = -1
  let tile = -1
  for (let p = 0; p <= end; p++) {
    for (const call of due.get(p) ?? []) out.push({ tag: 'waitExchange', call })
    for (const i of swapOuts[p]!) out.push({ tag: 'swapOut', residency: i })
    for (const i of releases[p]!) if (plan.residencies[i]!.swapOut) out.push({ tag: 'waitSwapOut', residency: i })
    for (const i of releases[p]!) out.push({ tag: 'release', residency: i })
    for (const i of acquires[p]!) {
      out.push({ tag: 'acquire', residency: i })
      if (plan.residencies[i]!.swapIn) out.push({ tag: 'swapIn', residency: i })
    }
    for (const i of readies[p]!) out.push({ tag: 'waitSwapIn', residency: i })
    const call = plan.calls[p]
    if (!call) break
    if (call.segment !== segment || call.tile !== tile) {
      segment = call.segment
      tile = call.tile
      out.push({ tag: 'mark', segment, tile })
    }
    out.push({ tag: call.beside ? 'exchange' : 'call', call: p })
  }
  return out
}
