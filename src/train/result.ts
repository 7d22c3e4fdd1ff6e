// What a run tells in the end: TrainResult, the object of `train --json` (DESIGN 10). In: a plan and the run's totals.
// Out: the result. Bytes and seconds are of all steps, those before a resume included.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import { bytesOf } from '../../staging/core/bytes'
import type { Checkpoint } from './checkpoint'
import type { SpillwayError } from '../errors/errors'
import type { DeviceMemory } from '../device/native'
import type { StagedPlan } from '../stage/stage'
import { readTensor } from '../files/safetensors'
import type { Totals } from './totals'
import { type ModelState, saveWeights, type StateStore, weightsSha256 } from './weights'

export interface TrainResult {
  readonly model: string
  readonly strategy: string
  readonly device: string
  readonly algorithms: string
  readonly budgetBytes: number
  /** Planned, and counted by the interpreter. */
  readonly peakBytes: number
  readonly arenaPeakBytes: number
  /** The process's proportional set size at its largest sample. */
  readonly processPeakBytes: number
  /** What the device's driver counted at the end, where the device has memory of its own. */
  readonly deviceMemory?: DeviceMemory
  readonly bytesOut: number
  readonly bytesIn: number
  readonly diskBytes: number
  readonly recomputeSeconds: number
  readonly stallSeconds: { readonly memory: number; readonly data: number }
  readonly steps: number
  /** Steps that an earlier process had done. */
  readonly resumedFrom: number
  readonly losses: readonly number[]
  readonly secondsPerStep: number
  readonly predictedSecondsPerStep: number
  readonly weightsSha256: string
}

export const trainResult = (
  staged: StagedPlan,
  totals: Totals,
  sha256: string,
  processPeakBytes: number,
  resumedFrom: number,
): TrainResult => ({
  model: staged.plan.graph.name,
  strategy: staged.plan.strategy,
  device: staged.machine.device.name,
  algorithms: staged.plan.algorithms,
  budgetBytes: staged.plan.budgetBytes,
  peakBytes: bytesOf(staged.plan.peakPages),
  arenaPeakBytes: totals.arenaPeakBytes,
  processPeakBytes: Math.max(totals.processPeakBytes, processPeakBytes),
  ...(totals.deviceMemory ? { deviceMemory: totals.deviceMemory } : {}),
  bytesOut: totals.bytesOut,
  bytesIn: totals.bytesIn,
  diskBytes: totals.diskBytes,
  recomputeSeconds: totals.recomputeSeconds,
  stallSeconds: { memory: totals.stallMemorySeconds, data: totals.stallDataSeconds },
  steps: totals.losses.length,
  resumedFrom,
  losses: totals.losses,
  secondsPerStep: totals.seconds / Math.max(1, totals.losses.length),
  predictedSecondsPerStep: staged.timeline.makespanSeconds,
  weightsSha256: sha256,
})

/** The state as its checkpoint holds it: a finished run needs no device. */
const stored = (c: Checkpoint): StateStore => ({
  read: (name) => {
    const bytes = readTensor(c.file, c.file.tensors.get(name)!)
    if (isLeft(bytes)) throw new Error(bytes.left)
    return bytes.right
  },
  write: () => {
    throw new Error('a checkpoint is not written to')
  },
})

export const finishedResult = (
  staged: StagedPlan,
  c: Checkpoint,
  state: ModelState,
  save: string | undefined,
): Either<SpillwayError, TrainResult> => {
  const missing = state.weights.filter((v) => !c.file.tensors.has(v.name))
  if (missing.length)
    return left({
      tag: 'FileRefused',
      kind: 'checkpoint',
      file: c.file.path,
      reason: `it lacks ${missing.map((v) => v.name).join(', ')}`,
    })
  const store = stored(c)
  if (save !== undefined) saveWeights(save, state, store, c.counted, c.step)
  const totals: Totals = { ...c.totals, losses: c.losses }
  return right(trainResult(staged, totals, weightsSha256(state, store), totals.processPeakBytes, c.step))
}
