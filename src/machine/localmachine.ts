// A machine of this process, and its options.
import type { MEASURED, NamedNetwork, NetworkName } from '../../staging/sim/networks'
import type { Precision } from '../../staging/devices'
import type { Machine, Norms, Shard } from '../../staging/graph/machine'
import type { Algorithms, Plan } from '../../staging/plan/plan'
import type { Compared, Elsewhere } from './slowest'
import type { Tier } from './tier'
import type { HowKnown } from './timing'

/**
 * A machine for which plans are made, with its measured times.
 *
 * @example const nameOf = (m: LocalMachine) => m.name
 */
export interface LocalMachine extends Machine {
  readonly tier: Tier
  /** Returns the number of calls by the source of their times; undefined if the times are stated. */
  readonly timesOf: (plan: Plan) => CallTimes | undefined
  /** Returns the seconds of measuring since the last call. */
  readonly measuringSeconds: () => number
  /** Measures calls that were estimated, for a number of seconds. */
  readonly measureMore: (seconds: number) => void
  /** Returns the same machine with estimates in place of unknown times; absent if it measures nothing before planning. */
  readonly unmeasured?: () => LocalMachine
  /** Returns the plan with the times that its calls took in earlier steps. */
  readonly asInSteps: (plan: Plan) => Plan
  /** Records the times of a run's fastest undisturbed step for later plans. */
  readonly learnFromSteps: (plan: Plan, seconds: Float64Array, threads?: number) => void
  /** Saves the measurements for the next process. */
  readonly saveProfile: () => void
  /** Results of earlier comparisons; absent if times are stated. */
  readonly compared?: Compared
}

/** How many calls of a step are known how. */
export type CallTimes = Readonly<Record<HowKnown, number>>

/** Measures all requested calls first, or estimates missing ones and measures them during runs. */
export const MEASURING = ['first', 'while'] as const
export type Measuring = (typeof MEASURING)[number]

export const ALGORITHMS: readonly Algorithms[] = ['fixed', 'measured', 'fastest']
export const PRECISIONS: readonly Precision[] = ['fp32', 'tf32', 'bf16', 'fp16']

/** The options of the lower tier. */
export interface TierOptions {
  /**
   * Place of swapped values: 'ram', or a folder for a spill file on disk. Default 'ram'.
   *
   * @example stage(net, { spill: '/var/tmp' })
   */
  readonly spill?: string | undefined
  /**
   * Bytes of host memory for swapped values; the spill folder takes the rest. Default: all free memory; on cpu
   * with a spill folder, or with strategy 'auto', 0.
   *
   * @example stage(net, { spill: '/var/tmp', hostMemory: gib(8) })
   */
  readonly hostMemory?: number | undefined
  /**
   * Bytes that a step may write to the disk. Default: a limit that a disk survives for a week of steps, if a
   * plan can meet it.
   *
   * @example stage(net, { spill: '/var/tmp', spillWritesPerStep: gib(20) })
   */
  readonly spillWritesPerStep?: number | undefined
}

/** The kernels of a machine and their times. */
export interface KernelOptions {
  /**
   * Algorithms of the plan: 'fixed', 'measured' (the fastest reproducible) or 'fastest'. Default 'measured'.
   *
   * @example stage(net, { algorithms: 'fixed' })
   */
  readonly algorithms?: Algorithms | undefined
  /**
   * Measures unknown calls before planning ('first'), or estimates them and measures during runs ('while').
   * Default 'while'.
   *
   * @example stage(net, { measure: 'first' })
   */
  readonly measure?: Measuring | undefined
  /**
   * Precision of activations and products: 'fp32', 'bf16' if the device supports it, 'fp16' with a loss scale,
   * or 'tf32' on cuda. Default 'fp32'; on cuda 'tf32' if the GPU has it.
   *
   * @example stage(net, { precision: 'bf16' })
   */
  readonly precision?: Precision | undefined
}

/** The options of a machine that a plan depends on. */
export interface PlannedMachine extends KernelOptions {
  /**
   * Number of processes that train together. Default: as many as mpirun or srun started, or 1.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8 })
   */
  readonly ranks?: number | undefined
  /**
   * Number of bands of rows into which ranks cut each image; it divides the number of ranks. Default 1.
   *
   * @example stage(net, { ranks: 4, bands: 2 })
   */
  readonly bands?: number | undefined
  /**
   * Statistics of batch norms with several ranks: 'whole' batch, or 'local' share of each rank. Default
   * 'whole'.
   *
   * @example stage(net, { ranks: 2, norms: 'local' })
   */
  readonly norms?: Norms | undefined
  /**
   * State that ranks share out: 'none', 'optimizer' or 'gradients'. Default: 'none' unless memory is short.
   *
   * @example stage(net, { ranks: 2, shard: 'gradients' })
   */
  readonly shard?: Shard | undefined
}

export interface MachineOptions extends PlannedMachine, TierOptions {
  readonly threads?: number | undefined
  /** Imitates a slower link, in bytes per second. */
  readonly throttle?: number | undefined
  /** Which of them this one has; default the first. */
  readonly band?: number | undefined
  /**
   * Network between ranks, for predicted times. Default: a network that is never slower than the machine's own
   * work.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8, network: 'ethernet-25g' })
   */
  readonly network?: NetworkName | typeof MEASURED | undefined
  /** The same, as ranks have measured it. */
  readonly over?: NamedNetwork | undefined
  /** The others' times of calls and links: the largest time of each counts. */
  readonly elsewhere?: Elsewhere | undefined
}
