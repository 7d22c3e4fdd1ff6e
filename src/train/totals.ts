// Sums and maxima over the parts of a run. In: the measurements of each chunk of steps. Out: totals, which checkpoints carry on, so that a resumed
// run reports all of itself.
import * as t from 'io-ts'
import type { RunMetrics } from './device'

export const totalsCodec = t.strict({
  seconds: t.number,
  recomputeSeconds: t.number,
  stallMemorySeconds: t.number,
  stallDataSeconds: t.number,
  /** Absent in files from before there were feeds. */
  feedSeconds: t.union([t.number, t.undefined]),
  feedBytes: t.union([t.number, t.undefined]),
  /** Absent in files from before there were ranks. */
  commBytes: t.union([t.number, t.undefined]),
  commSeconds: t.union([t.number, t.undefined]),
  commHiddenSeconds: t.union([t.number, t.undefined]),
  /** Absent in files from before arithmetic was skipped. */
  flops: t.union([t.number, t.undefined]),
  skippedFlops: t.union([t.number, t.undefined]),
  bytesOut: t.number,
  bytesIn: t.number,
  diskBytes: t.number,
  arenaPeakBytes: t.number,
  processPeakBytes: t.number,
})
/** Sums and maxima over the steps done so far, and their losses. */
export type Totals = t.TypeOf<typeof totalsCodec> &
  Pick<RunMetrics, 'deviceMemory' | 'withoutGraphs'> & { readonly losses: readonly number[] }

export const NO_STEPS: Totals = {
  losses: [],
  seconds: 0,
  recomputeSeconds: 0,
  stallMemorySeconds: 0,
  stallDataSeconds: 0,
  feedSeconds: 0,
  feedBytes: 0,
  commBytes: 0,
  commSeconds: 0,
  commHiddenSeconds: 0,
  flops: 0,
  skippedFlops: 0,
  bytesOut: 0,
  bytesIn: 0,
  diskBytes: 0,
  arenaPeakBytes: 0,
  processPeakBytes: 0,
}

export const addRun = (a: Totals, m: RunMetrics, processPeakBytes: number): Totals => ({
  losses: [...a.losses, ...m.losses],
  seconds: a.seconds + m.seconds.reduce((n, s) => n + s, 0),
  recomputeSeconds: a.recomputeSeconds + m.recomputeSeconds,
  stallMemorySeconds: a.stallMemorySeconds + m.stallSeconds.memory,
  stallDataSeconds: a.stallDataSeconds + m.stallSeconds.data,
  feedSeconds: (a.feedSeconds ?? 0) + m.feedSeconds,
  feedBytes: Math.max(a.feedBytes ?? 0, m.feedBytes),
  commBytes: (a.commBytes ?? 0) + m.commBytes,
  commSeconds: (a.commSeconds ?? 0) + m.commSeconds,
  commHiddenSeconds: (a.commHiddenSeconds ?? 0) + m.commHiddenSeconds,
  flops: (a.flops ?? 0) + m.flops,
  skippedFlops: (a.skippedFlops ?? 0) + m.skippedFlops,
  bytesOut: a.bytesOut + m.bytesOut,
  bytesIn: a.bytesIn + m.bytesIn,
  diskBytes: Math.max(a.diskBytes, m.diskBytes),
  arenaPeakBytes: Math.max(a.arenaPeakBytes, m.arenaPeakBytes),
  processPeakBytes: Math.max(a.processPeakBytes, processPeakBytes),
  ...(m.deviceMemory ? { deviceMemory: m.deviceMemory } : {}),
  ...(m.withoutGraphs ? { withoutGraphs: m.withoutGraphs } : {}),
})
