// The result of a run: TrainResult, the object of `train --json`. In: a plan and the run's totals. Out: the result. Bytes and seconds are of all
// steps, those before a resume included.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf } from '../../staging/core/bytes'
import { ranksOf } from '../../staging/graph/ranks'
import { coloursOf, type DataDescription, type Described, metadataOf } from '../data/description'
import { version } from '../files/version'
import type { Checkpoint } from './checkpoint'
import type { SpillwayError } from '../errors/errors'
import type { OwnKernels } from '../machine/ownkernels'
import type { StepsTaken } from './device'
import type { WeightsTable } from './loading'
import type { Measurement } from './measurement'
import type { Staged } from '../stage/staged'
import { readTensor } from '../files/safetensors'
import type { Totals } from './totals'
import {
  type Origin,
  originOf,
  type LossScale,
  lossScaleIn,
  type ModelState,
  problemsOf,
  saveWeights,
  type StateReader,
  weightsSha256,
} from './weights'

/**
 * The result of a run: losses, times, memory, metrics and the hash of the weights.
 *
 * @example const last = (r: TrainResult) => r.losses[r.losses.length - 1]
 */
export interface TrainResult extends StepsTaken {
  readonly model: string
  readonly strategy: string
  readonly device: string
  readonly algorithms: string
  readonly budgetBytes: number
  /** Planned peak of device memory, in bytes. */
  readonly peakBytes: number
  /** Largest sample of the process's memory (proportional set size), in bytes. */
  readonly processPeakBytes: number
  readonly steps: number
  /** Steps of earlier processes. */
  readonly resumedFrom: number
  readonly secondsPerStep: number
  readonly predictedSecondsPerStep: number
  readonly weightsSha256: string
  /** File of the final weights; absent if they were not saved. */
  readonly savedTo?: string
  /** Folder of the run; absent if it has none. */
  readonly runFolder?: string
  /** Result of loading the initial weights; absent for random weights. */
  readonly weights?: WeightsTable
  /** Evaluations after epochs, or the mean losses of epochs. */
  readonly measured: readonly Measurement[]
  /** The best evaluation by the metric of `keep.best`, or loss. */
  readonly best?: Measurement
  /** True if the run stopped because nothing improved. */
  readonly endedEarly: boolean
  /** Products of a GPU step that run on the package's own kernels; absent on the host. */
  readonly ownKernels?: OwnKernels
  /** Loss scale and skipped updates; absent unless activations are in fp16. */
  readonly lossScale?: LossScale
  /** Number of processes that trained together; absent for one. */
  readonly ranks?: number
  /** State that the ranks shared out; absent if none. */
  readonly shard?: 'optimizer' | 'gradients'
  /** The network between ranks that the plan assumes. */
  readonly network?: { readonly name: string; readonly bytesPerSecond: number; readonly latencySeconds: number }
  /** Bytes that this rank sent to others. */
  readonly commBytes?: number
  /** Seconds of exchanges, waits for slower ranks included. */
  readonly commSeconds?: number
  /** Share of these seconds that overlapped with compute, 0 to 1. */
  readonly commHiddenShare?: number
}

const sharedBy = ({ staged: { plan }, totals }: Ended): Partial<TrainResult> => {
  const ranks = ranksOf(plan.graph)
  if (ranks === 1) return {}
  const { commBytes = 0, commSeconds = 0, commHiddenSeconds = 0 } = totals
  const { shard } = plan.graph
  return {
    ranks,
    ...(shard ? { shard } : {}),
    ...(plan.network ? { network: plan.network } : {}),
    commBytes,
    commSeconds,
    commHiddenShare: commSeconds > 0 ? commHiddenSeconds / commSeconds : 0,
  }
}

const resultOf = (ended: Ended, sha256: string, lossScale: LossScale | undefined): TrainResult => {
  const { staged, totals, resumedFrom, measured, weights } = ended
  return {
    ...sharedBy(ended),
    model: staged.plan.graph.name,
    strategy: staged.plan.strategy,
    device: staged.machine.device.name,
    algorithms: staged.plan.algorithms,
    budgetBytes: staged.plan.budgetBytes,
    peakBytes: bytesOf(staged.plan.peakPages),
    arenaPeakBytes: totals.arenaPeakBytes,
    processPeakBytes: totals.processPeakBytes,
    ...(totals.deviceMemory ? { deviceMemory: totals.deviceMemory } : {}),
    ...(totals.withoutGraphs ? { withoutGraphs: totals.withoutGraphs } : {}),
    ...(ended.ownKernels ? { ownKernels: ended.ownKernels } : {}),
    ...(lossScale ? { lossScale } : {}),
    bytesOut: totals.bytesOut,
    bytesIn: totals.bytesIn,
    diskBytes: totals.diskBytes,
    recomputeSeconds: totals.recomputeSeconds,
    ...(totals.flops && totals.skippedFlops ? { skippedShare: totals.skippedFlops / totals.flops } : {}),
    stallSeconds: { memory: totals.stallMemorySeconds, data: totals.stallDataSeconds },
    feedSeconds: totals.feedSeconds ?? 0,
    feedBytes: totals.feedBytes ?? 0,
    steps: totals.losses.length,
    resumedFrom,
    losses: totals.losses,
    secondsPerStep: totals.seconds / Math.max(1, totals.losses.length),
    predictedSecondsPerStep: staged.timeline.makespanSeconds,
    weightsSha256: sha256,
    ...(ended.save === undefined ? {} : { savedTo: ended.save }),
    ...(weights ? { weights } : {}),
    ...measured,
  }
}

/** A run that has done its steps: its weights are written, and its report is returned. */
export interface Ended {
  readonly staged: Staged
  readonly state: ModelState
  readonly store: StateReader
  readonly origin: Origin
  readonly totals: Totals
  readonly resumedFrom: number
  readonly save: string | undefined
  /** Takes the note about weights that are not finite, if the run continues with them; else they are an error. */
  readonly unsaved?: ((text: string) => void) | undefined
  readonly measured: Pick<TrainResult, 'measured' | 'best' | 'endedEarly'>
  readonly weights?: WeightsTable | undefined
  readonly described: Described
  readonly ownKernels?: OwnKernels | undefined
}

/** The recipe of a run's weights. */
export const recipeOf = ({ plan: { graph }, origin = {} }: Staged, described: Described): DataDescription => {
  const [, c, h, w] = graph.values.find((v) => v.role === 'input')!.shape as readonly [number, number, number, number]
  const colours = described.from === 'images' ? coloursOf(c) : undefined
  return {
    ...described,
    ...(colours ? { colours } : {}),
    ...origin,
    model: graph.name,
    input: [c, h, w],
    product: version(),
  }
}

/** The recipe as metadata of a weights file. */
export const describing = (staged: Staged, described: Described): Readonly<Record<string, string>> =>
  metadataOf(recipeOf(staged, described))

/** Writes the weights with their recipe and returns the file; undefined if a note reports numbers that are not finite. */
export const writtenWeights = (
  path: string,
  { state, store, origin, totals, staged, described, unsaved }: Omit<Ended, 'save' | 'measured' | 'resumedFrom'>,
): Either<SpillwayError, string | undefined> =>
  pipe(
    saveWeights(path, state, store, origin, totals.losses.length, describing(staged, described)),
    E.map((): string | undefined => path),
    E.orElse((e) => {
      if (e.tag !== 'Diverged' || !unsaved) return E.left(e)
      unsaved(`the weights are not saved: ${e.what}`)
      return E.right(undefined)
    }),
  )

export const trainResult = (ended: Ended): Either<SpillwayError, TrainResult> => {
  const { state, store, save } = ended
  return pipe(
    save === undefined ? E.right(undefined) : writtenWeights(save, ended),
    E.bindTo('savedTo'),
    E.bind('sha256', () => weightsSha256(state, store)),
    E.bind('lossScale', () => lossScaleIn(ended.staged.plan.graph, store)),
    E.map(({ savedTo, sha256, lossScale }) => resultOf({ ...ended, save: savedTo }, sha256, lossScale)),
  )
}

/** The state as its checkpoint holds it: a finished run needs no device. */
export const finishedResult = (
  staged: Staged,
  { file, counted, totals, losses, step }: Checkpoint,
  state: ModelState,
  { save, measured, described }: Pick<Ended, 'save' | 'measured' | 'described'>,
): Either<SpillwayError, TrainResult> => {
  const missing = problemsOf(file, state.weights, true)
  const store: StateReader = { read: (name) => readTensor(file, file.tensors.get(name)!) }
  return missing.length
    ? E.left({ tag: 'FileRefused', kind: 'checkpoint', file: file.path, reason: missing.join('; ') })
    : pipe(
        originOf(file, state, counted),
        E.flatMap((origin) =>
          trainResult({
            staged,
            state,
            store,
            origin,
            totals: { ...totals, losses },
            resumedFrom: step,
            save,
            measured,
            described,
          }),
        ),
      )
}
