// A run of a plan in time: simulated by sim/simulate.ts, or measured by the runtime. Seconds count from the start of the step. Invariant: spans of
// one stream are in order of `start` and do not overlap. Exceptions are copies to a disk beside those to host memory, and early exchanges beside
// those that yield to them.

export type Stream = 'compute' | 'out' | 'in' | 'ranks'

export interface Span {
  readonly stream: Stream
  readonly start: number
  readonly end: number
  /** The plan's call, on the compute stream or on the lane of exchanges between ranks. */
  readonly call?: number
  /** The plan's residency that is swapped out or in. */
  readonly residency?: number
  readonly label: string
}

/** The number of held pages of the device from this time on. */
export interface MemorySample {
  readonly time: number
  readonly pages: number
}

/** Seconds of waits: for free memory (swaps out), for data (swaps in), and for exchanges, if they run beside compute. */
export interface Stalls {
  readonly memory: number
  readonly data: number
  readonly ranks?: number
}

/**
 * The simulated times of a step: total, compute, waits, and the memory in use.
 *
 * @example const waiting = (t: Timeline) => 1 - t.computeSeconds / t.makespanSeconds
 */
export interface Timeline {
  readonly makespanSeconds: number
  readonly computeSeconds: number
  /** Seconds during which the compute stream waits, by reason. */
  readonly stallSeconds: Stalls
  readonly spans: readonly Span[]
  /** Memory in use, in order of time. */
  readonly memory: readonly MemorySample[]
}
