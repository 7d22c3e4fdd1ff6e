// Options of staging. In: an object of a user. Out: checked options, or an error with the legal keys and values.
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Form, PatternIn, PlanByHand, PlanMode, Trainable } from '../../dsl'
import { TILE_RANGE } from '../../dsl/plan/prescription'
import { FORMS, MODES } from '../../dsl/prediction'
import { knownIn } from '../../staging/core/known'
import type { AllocatorName, MachineName, StrategyName } from '../../staging/core/names'
import { optionsFor } from '../../staging/core/options'
import { bytes, choice, either, listOf, made, named, numeric, path, text, withValues } from '../../staging/core/values'
import { NORMS, SHARDS } from '../../staging/graph/machine'
import { ALLOCATORS } from '../../staging/memory/allocators/replay'
import { lossNames } from '../../staging/ops/losses'
import { OPTIMIZERS } from '../../staging/ops/optimizer'
import { GROUP, type ParameterGroup, UPDATE_VALUES, UPDATES } from '../../staging/ops/updates'
import { LEAST_EFFORT } from '../../staging/search/limits'
import { type NetworkName, NETWORKS } from '../../staging/sim/networks'
import { isDevice } from '../../staging/devices'
import { startedBy } from '../ranks/engine'
import { type SpillwayError, usage } from '../errors/errors'
import {
  ALGORITHMS,
  type KernelOptions,
  type MachineOptions,
  MEASURING,
  type PlannedMachine,
  PRECISIONS,
  type TierOptions,
} from '../machine/localmachine'
import type { Own } from './prepare'

/** How a step is staged, names of planners, machines and allocators not looked up yet. */
export interface StageAsked<L extends string = string> extends PlanByHand<L>, Own, TierOptions, PlannedMachine {
  readonly network?: MachineOptions['network']
  readonly budget?: number | undefined
  readonly strategy?: string | undefined
  readonly effort?: number | undefined
  readonly machine?: string | undefined
  readonly allocator?: string | undefined
  readonly resumes?: string | undefined
  readonly mode?: PlanMode | undefined
  readonly as?: Form | undefined
  readonly name?: string | undefined
}

// biome-ignore lint/suspicious/noExplicitAny: options in a variable know no model, and fit each
export type AnyLayer = any

// biome-ignore lint/suspicious/noExplicitAny: options in a variable know no model, and fit each
export type AnyModel = any

/** Options of a plan that may be searched for at many sizes, too. */
export interface PlannedOptions<M extends Trainable = AnyModel> extends Own, TierOptions, KernelOptions {
  /**
   * Names of parameters that are not trained; `*` matches any characters. Their gradients and optimizer state
   * take no memory.
   *
   * @example stage(net, { freeze: ['stem.*', 'bn*'] })
   */
  readonly freeze?: PatternIn<M> | readonly PatternIn<M>[] | undefined
  /**
   * Groups of parameters with their own learning rate or weight decay. The first group that matches a parameter
   * counts.
   *
   * @example stage(net, { optimizer: adamw({ lr: 1e-3 }), groups: [{ match: '*.bias', weightDecay: 0 }] })
   */
  readonly groups?: readonly ParameterGroup<PatternIn<M>>[] | undefined
  /** Hard limit of device memory, in bytes. Default: the memory of the device. @example stage(net, { budget: gib(4) }) */
  readonly budget?: number | undefined
  /**
   * The planner. Default 'auto', which combines recomputing, swapping and tiles.
   *
   * @example stage(net, { strategy: 'checkpoint:sqrt' })
   */
  readonly strategy?: StrategyName | undefined
  /**
   * The machine of the plan: a device of this computer, or a simulated machine. Default 'cpu'.
   *
   * @example stage(net, { machine: 'v100-pcie-16g' })
   */
  readonly machine?: MachineName | undefined
}

/**
 * Options of `stage`. In a variable of this type, names of layers are not checked by the compiler.
 *
 * @example
 * const options: StageOptions = { budget: gib(4), strategy: 'checkpoint:sqrt' }
 * stage(net, options)
 */
export interface StageOptions<L extends string = AnyLayer, M extends Trainable = AnyModel>
  extends PlannedOptions<M>,
    PlanByHand<L>,
    PlannedMachine {
  /**
   * Effort of the search of 'auto': about this number of processor seconds. It is counted as work, so the plan is the same on
   * every machine. Default 5.
   *
   * @example stage(net, { budget: gib(4), effort: 30 })
   */
  readonly effort?: number | undefined
  /** Allocator to simulate beside the plan. Default 'pages', which runs use. @example stage(net, { allocator: 'best-fit' }) */
  readonly allocator?: AllocatorName | undefined
  /**
   * Network between ranks, for predicted times. Default: a network that is never slower than the machine's own
   * work.
   *
   * @example stage(net, { machine: 'v100-nvlink-16g', ranks: 8, network: 'ethernet-25g' })
   */
  readonly network?: NetworkName | undefined
  /**
   * Checkpoint folder of an earlier run. If the options are the same, its plan is used again. Default: none.
   *
   * @example stage(net, { budget: gib(4), resumes: 'state' })
   */
  readonly resumes?: string | undefined
  /**
   * Purpose of the plan: 'train', 'predict' or 'evaluate'. The last two keep nothing for a backward pass.
   * Default 'train'.
   *
   * @example stage(net, { mode: 'predict', budget: mib(512) })
   */
  readonly mode?: PlanMode | undefined
  /**
   * Form of a prediction: 'values', 'probabilities' or 'classes'. Default 'values'; an evaluation chooses by
   * its loss.
   *
   * @example stage(net, { mode: 'predict', as: 'classes' })
   */
  readonly as?: Form | undefined
  /** Name of the plan in reports. Default: the name of the model. @example stage(net, { name: 'first try' }) */
  readonly name?: string | undefined
}

/** Limits of the effort, in seconds. */
export const EFFORTS = { least: LEAST_EFFORT, most: 3600 }

const LOSS = made(`${lossNames.join(', ')}, or the result of a loss function`, true)

const TILES = "a list of tile ranges, such as { from: 'conv1', to: 'pool1', H: 4 }"

const LAYERS = listOf('a list of names of layers', (u) => typeof u === 'string')

/** Values of the options of `stage`. */
export const STAGE_VALUES = {
  ...UPDATE_VALUES,
  budget: bytes,
  loss: either(
    LOSS.name,
    LOSS,
    listOf('', () => true),
  ),
  optimizer: made(`the result of ${Object.keys(OPTIMIZERS).join(', ')}`),
  strategy: named(['auto', 'in-core', 'and other names of strategies']),
  effort: numeric(`seconds from ${EFFORTS.least} to ${EFFORTS.most}`),
  machine: named(['cpu', 'ref', 'cuda', 'and names of simulated machines']),
  tiles: listOf(TILES, (u) => typeof u === 'object'),
  checkpoints: LAYERS,
  spill: either("'ram' or a folder", text),
  hostMemory: bytes,
  spillWritesPerStep: bytes,
  algorithms: choice(ALGORITHMS),
  measure: choice(MEASURING),
  precision: named(PRECISIONS),
  ranks: numeric('whole numbers of at least 1'),
  bands: numeric('whole numbers of at least 1'),
  norms: named(NORMS),
  shard: named(SHARDS),
  network: named(NETWORKS),
  allocator: named(ALLOCATORS),
  resumes: path,
  mode: named(MODES),
  as: named(FORMS),
  name: text,
}

// biome-ignore format: a list
const STAGE_KEYS = optionsFor<StageOptions>()(
  'stage', 'budget', 'loss', 'optimizer', ...UPDATES.keys, 'strategy', 'effort', 'machine', 'tiles', 'checkpoints', 'spill', 'hostMemory', 'spillWritesPerStep', 'algorithms', 'measure', 'precision', 'ranks', 'bands', 'norms', 'shard', 'network', 'allocator', 'resumes', 'mode', 'as', 'name',
)

/** The options that `stage` has. */
export type StageKeys = typeof STAGE_KEYS

const STAGE = withValues(STAGE_KEYS, STAGE_VALUES)

/** Options all of whose keys there are, those of their tile ranges and groups of parameters too. */
export const knownOptions = <O extends StageOptions>(o: O): Either<SpillwayError, O> =>
  pipe(
    knownIn(STAGE)(o),
    E.tap(({ tiles = [] }) => E.traverseArray(knownIn(TILE_RANGE))(tiles)),
    E.tap(({ groups = [] }) => E.traverseArray(knownIn(GROUP))(groups)),
  )

export const checkedEffort = ({ effort, strategy = 'auto', mode = 'train' }: StageAsked): Either<SpillwayError, void> => {
  if (effort === undefined) return right(undefined)
  if (strategy !== 'auto' || mode !== 'train')
    return left(usage(`the effort is for the strategy 'auto' of training; this is '${strategy}' to ${mode}: leave it out`))
  return effort >= EFFORTS.least && effort <= EFFORTS.most
    ? right(undefined)
    : left(usage(`the effort is ${effort}; allowed: ${EFFORTS.least} to ${EFFORTS.most} seconds`))
}

/** A budget too small for anything is the planner's to refuse: it names the smallest that works. */
export const checkedBudget = (budget: number): Either<SpillwayError, number> =>
  Number.isSafeInteger(budget) && budget >= 0
    ? right(budget)
    : left(usage(`the budget is ${budget}; allowed: a whole number of bytes`))

/** Training here includes all processes that were started with this one. */
const startedWith = ({ mode = 'train', machine = 'cpu' }: StageAsked): number | undefined =>
  mode === 'train' && isDevice(machine) ? startedBy(process.env)?.ranks : undefined

export const machineOptionsOf = (o: StageAsked): MachineOptions => {
  const {
    spill,
    hostMemory,
    spillWritesPerStep,
    algorithms,
    measure,
    precision,
    bands,
    norms,
    shard,
    network,
    ranks = startedWith(o),
  } = o
  return { spill, hostMemory, spillWritesPerStep, algorithms, measure, precision, ranks, bands, norms, shard, network }
}
