// A plan's share of JavaScript's heap. In: bytes, or calls of loops' bodies. Out: calls, or bytes. Measured with the smallest tiles, with all calls
// that tiles add (moves, sums). A search holds two steps and the times of all their pages; a plan file is one list of calls, and the facts of the
// verifier.

const PER_CALL_PLANNED = 4096
const PER_CALL_READ = 1024
/** Node.js' own limit of the heap, on machines with enough memory. */
const USUAL_HEAP = 4 * 2 ** 30

/** Calls that a heap of this size can plan. */
export const callsPlannedIn = (heapBytes = USUAL_HEAP): number => Math.floor(heapBytes / PER_CALL_PLANNED)
export const heapToPlan = (calls: number): number => calls * PER_CALL_PLANNED
/** Calls of a plan file that fit a heap of this size. */
export const callsReadIn = (heapBytes = USUAL_HEAP): number => Math.floor(heapBytes / PER_CALL_READ)
