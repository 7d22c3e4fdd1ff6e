// What a machine of this process is, and what is said of one when it is asked for.
import type { MEASURED, NamedNetwork, NetworkName } from '../../staging/sim/networks'
import type { Precision } from '../../staging/devices'
import type { Machine, Norms, Shard } from '../../staging/graph/machine'
import type { Algorithms, Plan } from '../../staging/plan/plan'
import type { Compared, Elsewhere } from './slowest'
import type { Tier } from './tier'
import type { HowKnown } from './timing'

/** A machine that plans are made for, and what it learns from runs. */
export interface LocalMachine extends Machine {
  readonly tier: Tier
  /** How the times of a plan's calls are known; undefined where they are stated, not measured. */
  readonly timesOf: (plan: Plan) => CallTimes | undefined
  /** Seconds of measuring since it was asked last, that of the link included. */
  readonly measuringSeconds: () => number
  /** Measures what plans here had estimated, for so many seconds: what a run leaves to the next plan. */
  readonly measureMore: (seconds: number) => void
  /** A plan whose calls take what steps here have told that they take. */
  readonly asInSteps: (plan: Plan) => Plan
  /** Keeps what the calls of a plan took in a run's quickest quiet step, for what is said of plans to come. */
  readonly learnFromSteps: (plan: Plan, seconds: Float64Array, threads?: number) => void
  /** Keeps what was measured, for the next process. */
  readonly saveProfile: () => void
  /** Absent where times are stated. */
  readonly compared?: Compared
}

/** How many calls of a step are known how. */
export type CallTimes = Readonly<Record<HowKnown, number>>

/** Whether what planning asks for is measured first, or what lacks is estimated and measured while runs go on. */
export type Measuring = 'first' | 'while'

/** What is asked of the lower tier. */
export interface TierOptions {
  /** The lower tier: 'ram', or the folder of a spill file. @example stage(net, { spill: '/var/tmp' }) */
  readonly spill?: string | undefined
  /**
   * Bytes of the lower tier that may be host memory: what is more lies in the spill folder, or no plan has it. Default: what there is;
   * with a spill folder none of it on cpu, whose own memory it is, and all that is left on cuda.
   *
   * @example stage(net, { spill: '/var/tmp', hostMemory: gib(8) })
   */
  readonly hostMemory?: number | undefined
  /**
   * Bytes that a step may write to the spill folder's disk. Default: so many that a week of steps does not wear it out, wherever there is
   * a plan that does with it.
   *
   * @example stage(net, { spill: '/var/tmp', spillWritesPerStep: gib(20) })
   */
  readonly spillWritesPerStep?: number | undefined
}

export interface MachineOptions extends TierOptions {
  readonly threads?: number | undefined
  /**
   * What plans may choose among: one way for each call, those that repeat bit for bit (default), or all there are.
   *
   * @example stage(net, { algorithms: 'fixed' })
   */
  readonly algorithms?: Algorithms | undefined
  /**
   * Whether calls that this machine has not measured yet are measured before the plan is made (first), or estimated, to be measured
   * while runs go on (while, the default).
   *
   * @example stage(net, { measure: 'first' })
   */
  readonly measure?: Measuring | undefined
  /** Bytes a second of an imitated link. */
  readonly throttle?: number | undefined
  /**
   * bf16: activations and their gradients are stored so and multiplied with fp32 sums, where the device has it; tf32: products on cuda; default fp32.
   *
   * @example stage(net, { precision: 'bf16' })
   */
  readonly precision?: Precision | undefined
  /**
   * How many processes train together, each on such a machine; default: as many as mpirun or srun has started, or one.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8 })
   */
  readonly ranks?: number | undefined
  /**
   * Into how many bands of rows these cut each image: as many as there are, or a part of them, which share the batch as well.
   *
   * @example stage(net, { ranks: 4, bands: 2 })
   */
  readonly bands?: number | undefined
  /** Which of them this one has; default the first. */
  readonly band?: number | undefined
  /**
   * Between them, for predicted times; default: exchanges take no more than a machine's own part of them.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8, network: 'ethernet-25g' })
   */
  readonly network?: NetworkName | typeof MEASURED | undefined
  /** The same, as ranks have measured it. */
  readonly over?: NamedNetwork | undefined
  /** What the others of them say of calls and links: each takes what it takes where it takes longest. */
  readonly elsewhere?: Elsewhere | undefined
  /**
   * Of several: batch norms over all images of a step (whole, the default), or over each one's share.
   *
   * @example stage(net, { ranks: 2, norms: 'local' })
   */
  readonly norms?: Norms | undefined
  /**
   * Of several: what each has a part of, none, the optimizer's state, or gradients' sums, too; default: none, unless memory is short.
   *
   * @example stage(net, { ranks: 2, shard: 'gradients' })
   */
  readonly shard?: Shard | undefined
}
