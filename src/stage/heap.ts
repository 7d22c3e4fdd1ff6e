// This process's share of JavaScript's heap for plans. In: nothing. Out: calls. `NODE_OPTIONS=--max-old-space-size` gives more.
import { getHeapStatistics } from 'node:v8'
import { callsPlannedIn, callsReadIn } from '../../staging/core/planningmemory'

const heapBytes = (): number => getHeapStatistics().heap_size_limit

/** Calls that there is room to plan. */
export const mostCallsPlanned = (): number => callsPlannedIn(heapBytes())
/** Calls of a plan file that there is room for. */
export const mostCallsRead = (): number => callsReadIn(heapBytes())
