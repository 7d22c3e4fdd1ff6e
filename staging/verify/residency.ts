// The device's pages while the step runs: the residency of each physical page, and of each storage's pages. In: residencies, point by point. Out: the
// fault of a page that is missing, shared, or touched at a wrong time. Invariant: the order of events at a point is: swaps out start, swaps out end,
// pages are released, pages are acquired, swaps in start, swaps in end. So a page that is released at a point can be acquired at the same point.
import { pagesFor, pagesIn } from '../core/bytes'
import type { Residency, View } from '../plan/plan'
import { byteRuns } from './bytes'
import type { Contents } from './contents'
import { borderOf } from './border'
import { type Facts, startsOf } from './facts'
import { broken, eachFault, type Fault } from './failure'
import { trackSurvival } from './survival'

export interface Device {
  /** Processes all events before call `point`. */
  readonly advance: (point: number) => Fault
  /** Processes the swaps out after the last call. */
  readonly leave: () => Fault
  /** Checks that all bytes that a call touches are on the device, complete, and not in transfer. */
  readonly touch: (call: number) => Fault
  readonly wrote: (call: number) => void
  /** Returns the current residencies of a cell's pages; -1 for pages that are not on the device. */
  readonly residenciesUnder: (cell: number) => readonly number[]
  readonly anyLost: (cell: number) => boolean
  /** Returns the number of pages of the cell that were not output. */
  readonly kept: (cell: number) => number
  readonly isHome: (cell: number) => boolean
  readonly peak: () => number
}

type Use = 'read' | 'write' | 'both'

/** Events, grouped by point; in their order within a point. */
class ByPoint {
  private readonly from: Int32Array
  private readonly list: Int32Array

  constructor(points: number, count: number, at: (i: number) => number | undefined) {
    this.from = new Int32Array(points + 2)
    for (let i = 0; i < count; i++) {
      const point = at(i)
      if (point !== undefined) this.from[point + 1]!++
    }
    for (let p = 0; p <= points; p++) this.from[p + 1]! += this.from[p]!
    const next = this.from.slice()
    this.list = new Int32Array(this.from[points + 1]!)
    for (let i = 0; i < count; i++) {
      const point = at(i)
      if (point !== undefined) this.list[next[point]!++] = i
    }
  }

  firstFault(point: number, check: (i: number, point: number) => Fault): Fault {
    for (let k = this.from[point]!; k < this.from[point + 1]!; k++) {
      const fault = check(this.list[k]!, point)
      if (fault) return fault
    }
    return undefined
  }
}

const WRONG_TIMES = {
  resident: 'is not on the device',
  arriving: 'is still arriving',
  leaving: 'is written while it is swapped out',
} as const
const NOWHERE: Pick<Residency, 'swapIn' | 'swapOut'> = {}

export const trackDevice = (facts: Facts, contents: Contents): Device => {
  const { plan } = facts
  const { calls, cells, places, storages, residencies } = plan
  const survival = trackSurvival(facts, contents)
  const pagesBefore = startsOf(storages, (s) => pagesFor(s.bytes))
  /** For each page of each storage its residency, or -1. */
  const resident = new Int32Array(pagesBefore[storages.length]!).fill(-1)
  /** For each physical page the residency that holds it, or -1. */
  const owner = new Int32Array(plan.peakPages).fill(-1)
  const budget = pagesIn(plan.budgetBytes)
  const at = (point: (r: Residency) => number | undefined): ByPoint =>
    new ByPoint(calls.length, residencies.length, (i) => point(residencies[i]!))
  const releases = at((r) => r.release)
  const acquires = at((r) => r.acquire)
  const swapOuts = at((r) => r.swapOut?.start)
  let held = 0
  let peak = 0

  /** Returns true for residencies whose pages are filled for the next step: they hold no value of this step. */
  const { endsFor } = borderOf(plan)
  const release = (i: number): Fault => {
    const { storage, from, to, runs } = residencies[i]!
    resident.fill(-1, pagesBefore[storage]! + from, pagesBefore[storage]! + to)
    for (const { page, count } of runs) owner.fill(-1, page, page + count)
    held -= to - from
    return undefined
  }
  const acquire = (i: number, point: number): Fault => {
    const { storage, from, to, runs } = residencies[i]!
    const { label } = storages[storage]!
    const before = pagesBefore[storage]!
    const isForNext = endsFor(residencies[i]!)
    for (let p = from; p < to; p++) {
      if (isForNext && residencies[i]!.swapIn!.from === 'source') break
      if (resident[before + p]! >= 0)
        return broken('pages', `page ${p} of '${label}' is acquired, but it is already on the device`, facts.at(point))
      if (!isForNext) resident[before + p] = i
    }
    for (const run of runs)
      for (let p = run.page; p < run.page + run.count; p++) {
        if (p >= plan.peakPages)
          return broken('pages', `physical page ${p} is outside a pool of ${plan.peakPages}`, facts.at(point))
        const other = owner[p]!
        if (other >= 0)
          return broken(
            'pages',
            `physical page ${p} is given to '${label}', but '${storages[residencies[other]!.storage]!.label}' holds it`,
            facts.at(point),
          )
        owner[p] = i
      }
    held += to - from
    return isForNext ? survival.load(i) : survival.acquire(i)
  }
  const withinBudget = (point: number): Fault => {
    peak = Math.max(peak, held)
    return held <= budget ? undefined : broken('budget', `${held} pages are held, but the budget is ${budget}`, facts.at(point))
  }
  const advance = (point: number): Fault =>
    swapOuts.firstFault(point, survival.swapOut) ??
    releases.firstFault(point, release) ??
    acquires.firstFault(point, acquire) ??
    withinBudget(point)

  const touchRun = (cell: number, lo: number, hi: number, use: Use, call: number, value?: number): Fault => {
    const { storage, offset } = places[cell]!
    const last = pagesFor(offset + hi)
    for (let p = pagesIn(offset + lo); p < last; p++) {
      const i = resident[pagesBefore[storage]! + p]!
      const { swapIn, swapOut } = i < 0 ? NOWHERE : residencies[i]!
      const fault =
        i < 0
          ? 'resident'
          : swapIn && swapIn.ready > call
            ? 'arriving'
            : use !== 'read' && swapOut && swapOut.start <= call
              ? 'leaving'
              : undefined
      if (fault) return broken(fault, `page ${p} of '${storages[storage]!.label}' ${WRONG_TIMES[fault]}`, facts.at(call, value))
    }
    return undefined
  }
  const touchView = (call: number, view: View, use: Use): Fault => {
    for (const [lo, hi] of byteRuns(view, facts.elementBytes[view.value]!)) {
      const missing = touchRun(view.cell, lo, hi, use, call, view.value)
      if (missing) return missing
    }
    if (use === 'write' || !survival.isLost(view)) return undefined
    return broken(
      'lost',
      `its bytes in cell '${cells[view.cell]!.label}' were swapped out and not swapped in`,
      facts.at(call, view.value),
    )
  }
  /** Checks each operand of a call with its use, and returns the first fault. */
  const eachUse = (call: number, check: (call: number, view: View, use: Use) => Fault): Fault => {
    const c = calls[call]!
    const mutated = facts.ops[c.op]?.def.mutates
    const sums = c.kind === 'merge_sum' || (c.kind === 'merge_moments' && c.attrs['countY'] !== 0)
    return (
      eachFault(c.ins, (view, k) => check(call, view, mutated?.includes(k) ? 'both' : 'read')) ??
      eachFault(c.outs, (view) => check(call, view, sums ? 'both' : 'write'))
    )
  }
  const touch = (call: number): Fault => {
    const { workspace } = calls[call]!
    return eachUse(call, touchView) ?? (workspace ? touchRun(workspace.cell, 0, workspace.bytes, 'write', call) : undefined)
  }

  const write = (call: number, view: View, use: Use): Fault => {
    if (use !== 'read') survival.wrote(view, call)
    return undefined
  }
  const wrote = (call: number): void => void eachUse(call, write)
  const residenciesUnder = (cell: number): readonly number[] => {
    const { storage, offset } = places[cell]!
    const before = pagesBefore[storage]!
    return [...new Set(resident.subarray(before + pagesIn(offset), before + pagesFor(offset + cells[cell]!.bytes)))]
  }
  const leave = (): Fault => swapOuts.firstFault(calls.length, survival.swapOut)
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
