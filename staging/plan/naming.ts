// The names of pages of a storage. In: a plan or a layout. Out: the name of the value on the pages, the names of both if there are two, or the name
// of the storage if there are more. Worked example, a row of a (2.5 pages) and b: pages [0,2) are 'a', page 2 is 'a, b'.
import { pagesOf } from '../core/bytes'
import type { Plan } from './plan'

export const pagesLabel = (p: Pick<Plan, 'cells' | 'storages' | 'places'>, storage: number, from: number, to: number): string => {
  const { label, cells } = p.storages[storage]!
  if (cells.length === 1) return label
  const here = cells.filter((c) => {
    const [first, end] = pagesOf(p.places[c]!.offset, p.cells[c]!.bytes)
    return first < to && from < end
  })
  return here.length > 2 ? label : here.map((c) => p.cells[c]!.label).join(', ')
}
