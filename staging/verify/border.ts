// Pages that cross the border of two steps: loaded while a step ends, read in the next. They hold fed values, or parameters whose home is in the
// lower tier. In: a plan of sound indices and points. Out: the first such page that the step reads without a load, or loads without a reader.
// Invariant: residencies that begin the step without a swap in, and those that are filled for the next step, form pairs on the same physical pages.
// The checks of residency.ts find other owners of these pages. Worked example: images that begin in pages 4-8 and are loaded for the next step into
// pages 5-9 would be read one page off.
import type { Plan, Residency } from '../plan/plan'
import type { Facts } from './facts'
import { broken, eachFault, type Fault } from './failure'

export interface Border {
  /** Returns true if the residency begins the step with data that the step before loaded. */
  readonly begins: (r: Residency) => boolean
  /** Returns true if the residency is filled for the next step. */
  readonly endsFor: (r: Residency) => boolean
}

export const borderOf = (plan: Plan): Border => {
  const isLoaded = plan.storages.map(({ cells, home }) => home !== undefined || cells.some((c) => plan.cells[c]?.scope === 'fed'))
  return {
    begins: (r) => !r.swapIn && isLoaded[r.storage] === true,
    endsFor: (r) => r.swapIn?.ready === plan.calls.length,
  }
}

const samePages = (a: Residency, b: Residency): boolean =>
  a.to === b.to &&
  a.runs.length === b.runs.length &&
  a.runs.every((run, i) => run.page === b.runs[i]!.page && run.count === b.runs[i]!.count)

export const soundBorder = ({ plan }: Facts): Fault => {
  const { begins, endsFor } = borderOf(plan)
  const key = (r: Residency): string => `${r.storage} ${r.from}`
  const loaded = new Map<string, Residency>()
  const name = (r: Residency): string => `pages [${r.from},${r.to}) of '${plan.storages[r.storage]!.label}'`
  const arriving = (reason: string): Fault => broken('arriving', reason)
  const twice = eachFault(plan.residencies, (r) => {
    if (!endsFor(r)) return undefined
    if (loaded.has(key(r))) return arriving(`${name(r)} are loaded twice for the next step`)
    loaded.set(key(r), r)
    return undefined
  })
  const unloaded = eachFault(plan.residencies, (r) => {
    if (!begins(r)) return undefined
    const from = loaded.get(key(r))
    loaded.delete(key(r))
    if (r.acquire !== 0) return arriving(`${name(r)} are acquired at ${r.acquire} without a load`)
    if (r.swapOut && plan.storages[r.storage]!.home === undefined) return arriving(`${name(r)} are fed, but swapped out`)
    if (!from) return arriving(`${name(r)} begin the step, but the step before does not load them`)
    return samePages(r, from) ? undefined : arriving(`${name(r)} begin the step in other pages than the step before loads`)
  })
  const [vain] = loaded.values()
  return (
    twice ??
    unloaded ??
    (vain ? arriving(`${name(vain)} are loaded for the next step, which does not begin with them`) : undefined)
  )
}
