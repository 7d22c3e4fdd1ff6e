// The order in which a step's instructions run: calls, and between them what the residencies demand. Simulator and tape
// share it. In: a plan. Out: a flat list. At one point: starts of copies out, waits for copies out and releases, acquires and
// starts of copies in, waits for copies in, the call. A link takes copies in order, so of those that start at one point the
// one that is waited for first starts first.
import type { Draft, Plan, Point, Unpaged } from './plan'

export type Instr =
  | { readonly tag: 'mark'; readonly segment: number; readonly tile: number }
  | { readonly tag: 'call'; readonly call: number }
  | { readonly tag: 'acquire' | 'release'; readonly residency: number }
  | { readonly tag: 'copyOut' | 'copyIn'; readonly residency: number }
  | { readonly tag: 'waitOut' | 'waitIn'; readonly residency: number }

/** Held from the start of the session to its end: never acquired or released by an instruction. */
export const isForEver = (plan: Pick<Plan, 'storages' | 'cells'>): ((r: Draft) => boolean) => {
  const storages = plan.storages.map((s) => s.cells.some((c) => plan.cells[c]!.scope === 'persistent'))
  return (r) => storages[r.storage]!
}

type Timed = Pick<Unpaged, 'storages' | 'cells' | 'calls' | 'residencies'>

export const instructions = (plan: Timed): readonly Instr[] => {
  const end = plan.calls.length
  const forEver = isForEver(plan)
  const at = (pick: (r: Draft) => Point | undefined, due: (r: Draft) => Point = () => 0): readonly number[][] => {
    const lists: number[][] = Array.from({ length: end + 1 }, () => [])
    plan.residencies.forEach((r, i) => {
      const p = pick(r)
      if (p !== undefined) lists[p]!.push(i)
    })
    for (const l of lists) if (l.length > 1) l.sort((a, b) => due(plan.residencies[a]!) - due(plan.residencies[b]!))
    return lists
  }
  const comesAndGoes = (r: Draft, p: Point): Point | undefined => (forEver(r) ? undefined : p)
  const releases = at((r) => comesAndGoes(r, r.release))
  const saves = at(
    (r) => r.save?.start,
    (r) => r.release,
  )
  const acquires = at(
    (r) => comesAndGoes(r, r.acquire),
    (r) => r.load?.ready ?? r.acquire,
  )
  const readies = at((r) => r.load?.ready)
  const out: Instr[] = []
  let segment = -1
  let tile = -1
  for (let p = 0; p <= end; p++) {
    for (const i of saves[p]!) out.push({ tag: 'copyOut', residency: i })
    for (const i of releases[p]!) if (plan.residencies[i]!.save) out.push({ tag: 'waitOut', residency: i })
    for (const i of releases[p]!) out.push({ tag: 'release', residency: i })
    for (const i of acquires[p]!) {
      out.push({ tag: 'acquire', residency: i })
      if (plan.residencies[i]!.load) out.push({ tag: 'copyIn', residency: i })
    }
    for (const i of readies[p]!) out.push({ tag: 'waitIn', residency: i })
    const call = plan.calls[p]
    if (!call) break
    if (call.segment !== segment || call.tile !== tile) {
      segment = call.segment
      tile = call.tile
      out.push({ tag: 'mark', segment, tile })
    }
    out.push({ tag: 'call', call: p })
  }
  return out
}
