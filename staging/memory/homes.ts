// Storages of parameters and states that have homes in the lower tier. In: a graph. Out: units: the storages of a weight and of each state of its
// optimizer. Large values have storages of their own. Small values follow each other, in the order of their first readers, and share pages. Worked
// example, scales of 256 KiB with momenta, s1 to s9: [s1 ... s8] and their momenta are a unit of two pages; [s9] begins the next unit.
import { alignUp, PAGE_BYTES } from '../core/bytes'
import { mapped } from '../core/mapped'
import { type Graph, isPersistent, type ValueId, valueBytes } from '../graph/graph'
import { SECTOR_BYTES } from '../plan/wire'
import { SMALL_BYTES } from './place'

export type Unit = readonly (readonly ValueId[])[]

export const unitsOf = (graph: Graph): readonly Unit[] => {
  const remaining = new Set<ValueId>()
  for (const op of graph.ops)
    for (const v of op.ins) if (isPersistent(graph.values[v]!) && valueBytes(graph.values[v]!) >= SECTOR_BYTES) remaining.add(v)
  const rank = new Map([...remaining].map((v, k) => [v, k]))
  const updates = new Map<ValueId, readonly ValueId[]>()
  for (const op of graph.ops)
    if (op.phase === 'update') {
      const [first, ...others] = op.ins.filter((v) => remaining.has(v)).sort((a, b) => rank.get(a)! - rank.get(b)!)
      if (first !== undefined) updates.set(first, [...(updates.get(first) ?? []), ...others])
    }
  const units: Unit[] = []
  /** By number of storages: the last unit with free bytes. */
  const open = new Map<number, { readonly unit: readonly ValueId[][]; bytes: number }>()
  for (const v of remaining) {
    const values = [v, ...(updates.get(v) ?? []).filter((w) => remaining.has(w))]
    for (const w of values) remaining.delete(w)
    const own = Math.max(...mapped(values, (w) => alignUp(valueBytes(graph.values[w]!), SECTOR_BYTES)))
    if (own >= SMALL_BYTES) {
      units.push(mapped(values, (w) => [w]))
      continue
    }
    const last = open.get(values.length)
    const to = last && last.bytes + own <= PAGE_BYTES ? last : { unit: mapped(values, (): ValueId[] => []), bytes: 0 }
    if (to !== last) units.push(to.unit)
    values.forEach((w, k) => to.unit[k]!.push(w))
    to.bytes += own
    open.set(values.length, to)
  }
  return units
}

/** Returns, for each value of these units, the first value of its storage. */
export const homesIn = (units: readonly Unit[]): ReadonlyMap<ValueId, ValueId> =>
  new Map(units.flatMap((unit) => unit.flatMap((storage) => mapped(storage, (v) => [v, storage[0]!] as const))))
