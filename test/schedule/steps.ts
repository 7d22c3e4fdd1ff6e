// Steps made by hand for tests of schedules and of the simulator: calls with given seconds, given stays, a link
// that moves a page a second. In: numbers. Out: the types of staging, as far as schedule and simulation look at them.
import { bytesOf, PAGE_BYTES } from '../../staging/core/bytes'
import type { Link } from '../../staging/graph/machine'
import { assignPages } from '../../staging/plan/pages'
import type { Call, Cell, UnpagedResidency, Plan } from '../../staging/plan/plan'
import type { PlannedStays } from '../../staging/schedule/stays'

export const PAGE_A_SECOND: Link = {
  outBytesPerSecond: PAGE_BYTES,
  inBytesPerSecond: PAGE_BYTES,
  latencySeconds: 0,
  fullDuplex: true,
}

export const callsOf = (seconds: readonly number[]): readonly Call[] =>
  seconds.map((s) => ({
    kind: 'fill',
    op: -1,
    segment: 0,
    tile: 0,
    attrs: { value: 0 },
    ins: [],
    outs: [],
    workspace: null,
    seconds: s,
  }))

/** Stays [first, last], the first of them written throughout; `swapped` says for each gap whether the pages go. */
export const plannedStays = (
  storage: number,
  pages: number,
  stays: readonly (readonly [number, number])[],
  swapped: readonly boolean[] = stays.slice(1).map(() => false),
  over: Partial<PlannedStays> = {},
): PlannedStays => ({
  storage,
  from: 0,
  to: pages,
  kind: 'value',
  swapped,
  timing: undefined,
  ahead: undefined,
  stays: stays.map(([first, last], i) => ({ segment: i, first, last, lastWrite: i === 0 ? last : -1 })),
  ...over,
})

/** A plan that has these residencies and nothing else. */
export const planWith = (
  unpaged: readonly UnpagedResidency[],
  calls: readonly Call[],
  scopes: Readonly<Record<number, Cell['scope']>> = {},
): Plan => {
  const count = Math.max(-1, ...unpaged.map((d) => d.storage)) + 1
  const ids = Array.from({ length: count }, (_, id) => id)
  const pagesOf = (id: number): number => Math.max(1, ...unpaged.filter((d) => d.storage === id).map((d) => d.to))
  const { residencies, peakPages } = assignPages(unpaged, calls.length)
  return {
    graph: { name: 'by hand', values: [], ops: [] },
    strategy: 'by hand',
    machine: 'by hand',
    algorithms: 'fixed',
    budgetBytes: bytesOf(peakPages),
    peakPages,
    tierBytes: 0,
    residencies,
    calls,
    segments: [{ name: 'by hand', phase: 'forward', grid: { B: 1, H: 1, W: 1 }, body: [], keeps: [] }],
    cells: ids.map((id) => ({
      id,
      label: `s${id}`,
      scope: scopes[id] ?? 'whole',
      values: [],
      bytes: bytesOf(pagesOf(id)),
      segment: -1,
      first: 0,
      last: calls.length - 1,
    })),
    storages: ids.map((id) => ({ id, label: `s${id}`, bytes: bytesOf(pagesOf(id)), cells: [id] })),
    places: ids.map((id) => ({ storage: id, offset: 0 })),
  }
}
