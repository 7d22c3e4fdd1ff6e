// Pages that are loaded during the step before: fed values, and parameters of the lower tier. In: the residencies of a plan. Out: the two residencies
// that hold such pages across the border of two steps. `fromBefore` begins at point 0 without a swap in; `forNext`, on the same physical pages, is
// ready at the end of the step. On the device both are one residency, which holds the pages from `forNext.acquire` to `fromBefore.release` of the
// next step. The first step of a run has no step before it, so it waits for its data. Worked example, 100 calls: images are released at point 2 and
// loaded for the next step at point 90.
import { mapped } from '../core/mapped'
import type { Plan, Point, UnpagedResidency } from './plan'

/** Returns true if the residency holds data of the next step. All other swaps in end before the release. */
export const isForNext = ({ swapIn }: Pick<UnpagedResidency, 'swapIn'>, end: Point): boolean => swapIn?.ready === end

/** Returns the test of residencies whose data were loaded in the step before: nothing else of these storages is on the device without a load. */
export const fromBefore = ({ storages, cells }: Pick<Plan, 'storages' | 'cells'>): ((r: UnpagedResidency) => boolean) => {
  const isLoaded = mapped(storages, (s) => s.home !== undefined || s.cells.some((c) => cells[c]!.scope === 'fed'))
  return ({ storage, swapIn }) => swapIn === undefined && isLoaded[storage]!
}

/** Returns a key of the pages. The two residencies of the same pages have the same key. */
export const keyOf = ({ storage, from }: Pick<UnpagedResidency, 'storage' | 'from'>): string => `${storage} ${from}`
