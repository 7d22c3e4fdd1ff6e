// A plan as text, for golden files: a change of a plan shows as a changed line. In: a finished plan. Out: a header with the memory, a line for each
// segment (phase, grid, layers, number of ops, whole values and their merges), and the held and moved bytes, by kind. Invariant: it contains neither
// times nor page numbers, so it is the same on each machine.
//
// Worked example: 'step 4×1 conv1 … loss 7 ops conv1.weight.grad:sum loss:sum stats:moments' is a loop over four bands. The merge of its tiles
// follows the name of a value; without a merge, each tile writes its part.
import { pagesFor, pagesIn } from '../core/bytes'
import { isPermanent } from './instructions'
import { isSwappedToTier, type Grid, type Plan, precisionText, type Residency, type Segment, SMALL_VALUES, tilesOf } from './plan'

export const gridText = (g: Grid): string => {
  if (tilesOf(g) === 1) return 'whole'
  const map = `${g.H}×${g.W}`
  return g.B === 1 ? map : `${g.B} × ${map}`
}

const columns = (rows: readonly (readonly string[])[]): readonly string[] => {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((r) => r[i]!.length)))
  return rows.map((r) =>
    r
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd(),
  )
}

const segmentRow = (plan: Plan, s: Segment): readonly string[] => {
  const inPlace = s.body.filter((step) => step.inPlace !== undefined).length
  const keeps = s.keeps.map((k) => `${plan.graph.values[k.value]!.name}${k.merge ? `:${k.merge}` : ''}`)
  return [s.phase, gridText(s.grid), s.name, `${s.body.length} ops${inPlace ? `, ${inPlace} in place` : ''}`, keeps.join(' ')]
}

/** Returns the kind of a residency's storage: permanent parameters, fed data, a large value, small values, or scratch. */
const kindOf = (plan: Plan, r: Residency): string => {
  if (isPermanent(plan)(r)) return 'persistent'
  const members = plan.storages[r.storage]!.cells.map((c) => plan.cells[c]!)
  if (plan.storages[r.storage]!.label === SMALL_VALUES) return 'small'
  if (members.some((c) => c.segment >= 0)) return 'tiles'
  return members[0]!.scope
}

const counted = (name: string, rs: readonly Residency[]): string =>
  `${name}: ${rs.reduce((n, r) => n + r.to - r.from, 0)} pages in ${rs.length}`

const residencyLines = (plan: Plan): readonly string[] => {
  const byKind = new Map<string, Residency[]>()
  for (const r of plan.residencies) byKind.set(kindOf(plan, r), [...(byKind.get(kindOf(plan, r)) ?? []), r])
  const moved = [
    counted('out', plan.residencies.filter(isSwappedToTier)),
    counted(
      'in',
      plan.residencies.filter((r) => r.swapIn?.from === 'tier'),
    ),
    counted(
      'fed',
      plan.residencies.filter((r) => r.swapIn?.from === 'source'),
    ),
  ]
  return [
    `held   ${[...byKind]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([kind, rs]) => counted(kind, rs))
      .join(', ')}`,
    `moved  ${moved.join(', ')}`,
  ]
}

export const planText = (plan: Plan): string => {
  const budget = pagesIn(plan.budgetBytes)
  const input = plan.graph.values.find((v) => v.role === 'input')
  return [
    `${plan.graph.name} ${input?.shape.join('×') ?? ''} · ${plan.strategy} · ${plan.machine}${precisionText(plan)}`,
    `peak ${plan.peakPages} of ${budget} pages · tier ${pagesFor(plan.tierBytes)} pages · ` +
      `${plan.segments.length} segments, ${plan.calls.length} calls, ${plan.cells.length} cells, ${plan.storages.length} storages`,
    ...columns(plan.segments.map((s) => segmentRow(plan, s))),
    ...residencyLines(plan),
  ]
    .map((l) => `${l}\n`)
    .join('')
}
