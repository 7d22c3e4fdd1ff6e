// The device's pages while the step runs: who holds each physical page, which pages of each storage are there, what
// still arrives or already leaves.
// In: residencies, point by point. Out: the fault of a page that is missing, shared, or touched at a wrong time.
// Invariant: at one point swaps out start first, then are waited for and pages released, then pages are acquired and swaps in
// start, then those are waited for: a page that is swapped out and released at one point serves another from that point on.
import { pagesFor, pagesIn } from '../core/bytes'
import type { Call, View } from '../plan/plan'
import { byteRuns } from './bytes'
import type { Contents } from './contents'
import type { Facts } from './facts'
import { broken, eachFault, type Fault, firstFault } from './failure'
import { trackSurvival } from './survival'

export interface Device {
  /** Everything that happens just before call `point`. */
  readonly advance: (point: number) => Fault
  /** What leaves when the last call is over. */
  readonly leave: () => Fault
  /** The bytes that a call touches are there, complete and not in motion. */
  readonly touch: (call: number) => Fault
  readonly wrote: (call: number) => void
  /** The residencies of a cell's pages now; -1 for pages that are away. */
  readonly residenciesUnder: (cell: number) => readonly number[]
  readonly anyLost: (cell: number) => boolean
  /** Pages of the cell that were not handed out. */
  readonly kept: (cell: number) => number
  readonly isHome: (cell: number) => boolean
  readonly peak: () => number
}

type Use = 'read' | 'write' | 'both'

const byPoint = (points: number, at: readonly (number | undefined)[]): readonly (readonly number[])[] => {
  const lists: number[][] = Array.from({ length: points + 1 }, () => [])
  at.forEach((p, i) => {
    if (p !== undefined) lists[p]!.push(i)
  })
  return lists
}

export const trackDevice = (facts: Facts, contents: Contents): Device => {
  const { plan } = facts
  const { calls, cells, places, storages, residencies } = plan
  const survival = trackSurvival(facts, contents)
  const resident = storages.map((s) => new Int32Array(pagesFor(s.bytes)).fill(-1))
  const owner = new Map<number, number>()
  const budget = pagesIn(plan.budgetBytes)
  const releases = byPoint(
    calls.length,
    residencies.map((r) => r.release),
  )
  const acquires = byPoint(
    calls.length,
    residencies.map((r) => r.acquire),
  )
  const swapOuts = byPoint(
    calls.length,
    residencies.map((r) => r.swapOut?.start),
  )
  let held = 0
  let peak = 0

  const release = (i: number): Fault => {
    const r = residencies[i]!
    resident[r.storage]!.fill(-1, r.from, r.to)
    for (const run of r.runs) for (let p = run.page; p < run.page + run.count; p++) owner.delete(p)
    held -= r.to - r.from
    return undefined
  }
  const acquire =
    (point: number) =>
    (i: number): Fault => {
      const r = residencies[i]!
      const { label } = storages[r.storage]!
      for (let p = r.from; p < r.to; p++) {
        if (resident[r.storage]![p]! >= 0)
          return broken('pages', `page ${p} of '${label}' is acquired while it is on the device already`, facts.at(point))
        resident[r.storage]![p] = i
      }
      for (const run of r.runs)
        for (let p = run.page; p < run.page + run.count; p++) {
          const other = owner.get(p)
          if (other !== undefined)
            return broken(
              'pages',
              `physical page ${p} is given to '${label}' while '${storages[residencies[other]!.storage]!.label}' holds it`,
              facts.at(point),
            )
          if (p >= plan.peakPages)
            return broken('pages', `physical page ${p} is outside a pool of ${plan.peakPages}`, facts.at(point))
          owner.set(p, i)
        }
      held += r.to - r.from
      return survival.acquire(i)
    }
  const withinBudget = (point: number): Fault => {
    peak = Math.max(peak, held)
    return held <= budget ? undefined : broken('budget', `${held} pages are held; the budget is ${budget}`, facts.at(point))
  }
  const advance = (point: number): Fault =>
    firstFault([
      () => eachFault(swapOuts[point]!, survival.swapOut),
      () => eachFault(releases[point]!, release),
      () => eachFault(acquires[point]!, acquire(point)),
      () => withinBudget(point),
    ])

  const touchRun = (cell: number, lo: number, hi: number, use: Use, call: number, value?: number): Fault => {
    const { storage, offset } = places[cell]!
    const last = pagesFor(offset + hi)
    for (let p = pagesIn(offset + lo); p < last; p++) {
      const i = resident[storage]![p]!
      const fault =
        i < 0
          ? 'resident'
          : residencies[i]!.swapIn && residencies[i]!.swapIn.ready > call
            ? 'arriving'
            : use !== 'read' && residencies[i]!.swapOut && residencies[i]!.swapOut.start <= call
              ? 'leaving'
              : undefined
      const words = {
        resident: 'is not on the device',
        arriving: 'is still arriving',
        leaving: 'is written while it is swapped out',
      }
      if (fault) return broken(fault, `page ${p} of '${storages[storage]!.label}' ${words[fault]}`, facts.at(call, value))
    }
    return undefined
  }
  const touchView =
    (call: number) =>
    ({ view, use }: { readonly view: View; readonly use: Use }): Fault => {
      const missing = eachFault(byteRuns(view, facts.elementBytes[view.value]!), ([lo, hi]) =>
        touchRun(view.cell, lo, hi, use, call, view.value),
      )
      if (missing || use === 'write' || !survival.isLost(view)) return missing
      return broken(
        'lost',
        `its bytes in cell '${cells[view.cell]!.label}' left the device and did not come back`,
        facts.at(call, view.value),
      )
    }
  const usesOf = (c: Call) => {
    const mutated = facts.ops[c.op]?.def.mutates ?? []
    const sums = c.kind === 'merge_sum' || (c.kind === 'merge_moments' && c.attrs['countY'] !== 0)
    return [
      ...c.ins.map((view, k) => ({ view, use: mutated.includes(k) ? ('both' as const) : ('read' as const) })),
      ...c.outs.map((view) => ({ view, use: sums ? ('both' as const) : ('write' as const) })),
    ]
  }
  const touch = (call: number): Fault => {
    const c = calls[call]!
    return (
      eachFault(usesOf(c), touchView(call)) ??
      (c.workspace ? touchRun(c.workspace.cell, 0, c.workspace.bytes, 'write', call) : undefined)
    )
  }

  const wrote = (call: number): void => {
    for (const { view, use } of usesOf(calls[call]!)) if (use !== 'read') survival.wrote(view, call)
  }
  const residenciesUnder = (cell: number): readonly number[] => {
    const { storage, offset } = places[cell]!
    return [...new Set(resident[storage]!.subarray(pagesIn(offset), pagesFor(offset + cells[cell]!.bytes)))]
  }
  const leave = (): Fault => eachFault(swapOuts[calls.length]!, survival.swapOut)
  return {
    advance,
    leave,
    touch,
    wrote,
    residenciesUnder,
    anyLost: survival.anyLost,
    kept: survival.kept,
    isHome: survival.isHome,
    peak: () => peak,
  }
}
