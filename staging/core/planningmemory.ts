// What a plan takes of JavaScript's heap. In: bytes, or calls of loops' bodies. Out: calls, or bytes. Measured where tiles are smallest, with
// all that tiles add to their calls (moves, sums): a search holds two steps and all that is known of when their pages come and go; a plan
// that is read is one list of calls, and what the verifier knows of it.

const PER_CALL_PLANNED = 4096
const PER_CALL_READ = 1024
/** Node.js' own limit, where there is memory for it. */
const USUAL_HEAP = 4 * 2 ** 30

/** Calls that a heap of so many bytes has room to plan. */
export const callsPlannedIn = (heapBytes = USUAL_HEAP): number => Math.floor(heapBytes / PER_CALL_PLANNED)
export const heapToPlan = (calls: number): number => calls * PER_CALL_PLANNED
/** Calls of a plan file that a heap of so many bytes has room for. */
export const callsReadIn = (heapBytes = USUAL_HEAP): number => Math.floor(heapBytes / PER_CALL_READ)
