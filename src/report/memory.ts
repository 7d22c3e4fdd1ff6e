// Device memory over the calls of a step, by kind. In: a plan. Out: pages of each kind at each call, the series to draw, and the contents at the
// peak. Invariant: the kinds add up to the pages that the residencies hold.
import { bytesOf } from '../../staging/core/bytes'
import type { Cell, Plan, Storage } from '../../staging/plan/plan'
import type { Timeline } from '../../staging/sim/timeline'

/** The purpose of a page. `mixed`: small values of several kinds that share pages. */
export const KINDS = ['parameters', 'input', 'output', 'activations', 'gradients', 'workspace', 'mixed'] as const
export type Kind = (typeof KINDS)[number]

export const kindTitle: Readonly<Record<Kind, string>> = {
  parameters: 'parameters and optimizer',
  input: 'input and target',
  output: 'output',
  activations: 'activations',
  gradients: 'gradients',
  workspace: 'tiles and workspace',
  mixed: 'small values',
}

const kindOfCell = (plan: Plan, cell: Cell): Kind => {
  switch (cell.scope) {
    case 'persistent':
      return 'parameters'
    case 'fed':
      return 'input'
    case 'output':
      return 'output'
    case 'local':
    case 'workspace':
      return 'workspace'
    case 'whole': {
      const value = plan.graph.values[cell.values[0] ?? -1]
      if (value?.role === 'gradient') return 'gradients'
      return value?.role === 'stat' || value?.role === 'loss' ? 'mixed' : 'activations'
    }
  }
}

const kindOfStorage = (plan: Plan, storage: Storage): Kind => {
  const kinds = new Set(storage.cells.map((c) => kindOfCell(plan, plan.cells[c]!)))
  return kinds.size === 1 ? [...kinds][0]! : 'mixed'
}

/** For each kind, the pages held while each call runs. */
export type KindPages = Readonly<Record<Kind, Int32Array>>

export const pagesByKind = (plan: Plan): KindPages => {
  const n = plan.calls.length
  const series = Object.fromEntries(KINDS.map((k) => [k, new Int32Array(n + 1)])) as Record<Kind, Int32Array>
  const kinds = plan.storages.map((s) => kindOfStorage(plan, s))
  for (const r of plan.residencies) {
    if (r.release <= r.acquire) continue
    const of = series[kinds[r.storage]!]
    of[r.acquire]! += r.to - r.from
    if (r.release < n) of[r.release]! -= r.to - r.from
  }
  for (const k of KINDS) for (let p = 1; p < n; p++) series[k][p]! += series[k][p - 1]!
  return series
}

export const totalPages = (pages: KindPages, call: number): number => KINDS.reduce((n, k) => n + pages[k][call]!, 0)

/** The call during which most pages are held. */
export const worstCall = (plan: Plan, pages: KindPages): number => {
  let worst = 0
  for (let p = 1; p < plan.calls.length; p++) if (totalPages(pages, p) > totalPages(pages, worst)) worst = p
  return worst
}

// ---------------------------------------------------------------- over time

/** From `time` on; `pages` in the order of KINDS. */
export interface MemoryPoint {
  readonly time: number
  readonly call: number
  readonly pages: readonly number[]
}

/** When each call starts; calls that the timeline leaves out start with their predecessor. */
export const callStarts = (plan: Plan, timeline: Timeline): Float64Array => {
  const starts = new Float64Array(plan.calls.length).fill(-1)
  for (const s of timeline.spans) if (s.call !== undefined && s.stream === 'compute') starts[s.call] = s.start
  for (let p = 0; p < starts.length; p++) if (starts[p]! < 0) starts[p] = p > 0 ? starts[p - 1]! : 0
  return starts
}

/** At most `columns` points: each stands for the calls that start in its column, at the moment when they hold most. */
export const memorySeries = (plan: Plan, timeline: Timeline, columns: number): readonly MemoryPoint[] => {
  const pages = pagesByKind(plan)
  const starts = callStarts(plan, timeline)
  const exact = plan.calls.length <= columns
  const columnOf = (p: number): number => (exact ? p : Math.floor((starts[p]! / timeline.makespanSeconds) * columns))
  const points: MemoryPoint[] = []
  for (let p = 0; p < plan.calls.length; ) {
    const first = p
    let most = p
    for (; p < plan.calls.length && columnOf(p) === columnOf(first); p++)
      if (totalPages(pages, p) > totalPages(pages, most)) most = p
    const held = KINDS.map((k) => pages[k][most]!)
    const last = points[points.length - 1]
    if (!last || last.pages.some((n, i) => n !== held[i])) points.push({ time: starts[first]!, call: most, pages: held })
  }
  return points
}

// ---------------------------------------------------------------- the worst moment

export interface Holding {
  readonly label: string
  readonly kind: Kind | 'tiling'
  readonly bytes: number
}

/** The holders of pages while `call` runs: the largest first, the rest in one line. */
export const holdersAt = (plan: Plan, call: number, most: number): readonly Holding[] => {
  const held = new Map<string, Holding>()
  for (const r of plan.residencies) {
    if (r.acquire > call || r.release <= call) continue
    const storage = plan.storages[r.storage]!
    const before = held.get(storage.label)?.bytes ?? 0
    const isRow = storage.label.includes(' … ')
    held.set(storage.label, {
      // A row of values has the names of its ends.
      label: isRow ? `${storage.cells.length} values: ${storage.label}` : storage.label,
      kind: kindOfStorage(plan, storage),
      bytes: before + bytesOf(r.to - r.from),
    })
  }
  const sorted = [...held.values()].sort((a, b) => b.bytes - a.bytes || (a.label < b.label ? -1 : 1))
  const rest = sorted.slice(most)
  const others: Holding = { label: `${rest.length} others`, kind: 'tiling', bytes: rest.reduce((n, h) => n + h.bytes, 0) }
  return rest.length > 1 ? [...sorted.slice(0, most), others] : sorted
}
